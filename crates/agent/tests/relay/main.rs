//! The client and the inbox against a hub made of a script. One program, because linking is the main cost.

#[cfg(test)]
mod client;
#[cfg(test)]
mod inbox;
#[cfg(test)]
mod support;
