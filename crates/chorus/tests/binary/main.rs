//! Tests of the program itself, from outside, over sockets and signals.

#![expect(clippy::disallowed_methods, reason = "tests measure how long things take")]

#[cfg(test)]
mod adapt;
#[cfg(test)]
mod agent;
#[cfg(test)]
mod agent_acp;
#[cfg(test)]
mod agent_fixture;
#[cfg(test)]
mod c2a;
#[cfg(test)]
mod channel;
#[cfg(test)]
mod choir;
#[cfg(test)]
mod cli;
#[cfg(test)]
mod client;
#[cfg(test)]
mod demo;
#[cfg(test)]
mod durability;
#[cfg(test)]
mod first_sight;
#[cfg(test)]
mod hub;
#[cfg(test)]
mod join;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod market;
#[cfg(test)]
mod market_direct;
#[cfg(test)]
mod market_fire;
#[cfg(test)]
mod market_work;
#[cfg(test)]
mod mcp;
#[cfg(test)]
mod newcomer;
#[cfg(test)]
mod offers;
#[cfg(test)]
mod operator;
#[cfg(test)]
mod p2p;
#[cfg(test)]
mod profile;
#[cfg(test)]
mod start;
#[cfg(test)]
mod stream;
#[cfg(test)]
mod taking_over;
#[cfg(test)]
mod terminal;
#[cfg(test)]
mod transfer;
#[cfg(test)]
mod transfer_large;
#[cfg(test)]
mod trouble;
#[cfg(test)]
mod turns;
#[cfg(test)]
mod watching;
