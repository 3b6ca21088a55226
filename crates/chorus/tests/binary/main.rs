//! The program itself, as its users run it: from outside, over sockets and signals.

mod cli;
mod durability;
mod hub;
mod start;
mod trouble;
