//! A corpus of ordinary messages of people in six languages, and the effect that each has on an agent.

#[cfg(test)]
mod messages;
