//! Acts without a server, on an in-place store: single guarantees, and small worlds simulated from a seed.
//!
//! `world` provides time, randomness and a log of both. `hub` and `agent` are the real implementations,
//! surrounded by everything that can fail. `story` defines the participants and their actions. A larger story
//! uses the same world.

#[cfg(test)]
mod agent;
#[cfg(test)]
mod hub;
#[cfg(test)]
mod reruns;
#[cfg(test)]
mod seeds;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod story;
#[cfg(test)]
mod verdict;
#[cfg(test)]
mod week;
#[cfg(test)]
mod world;
