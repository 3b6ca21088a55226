//! Acts without a server, on a store that runs in place: single promises, and a small world that is simulated by a seed.
//!
//! `world` knows time, chance and what is written down of both; `hub` and `agent` are the real things with everything around
//! them that can fail; `story` is who they are and what they do. A bigger story needs no other world.

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
