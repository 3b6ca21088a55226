//! Acts on the market: offering skills, discovery, hiring, payment and settlement.
//!
//! Money moves in one way: an act locks the wallets, asks the engine and applies the result ([`settle`],
//! [`money`]), all in one transaction. A job ends once, by whichever comes first: its agent's result, its
//! orchestrator's cancellation or its deadline.

pub mod agents;
pub mod asking;
mod books;
mod data_checks;
mod decline_verdict;
pub mod declines;
pub(crate) mod detach;
pub mod discover;
mod frame;
pub mod hire;
pub mod jobs;
pub mod money;
pub mod outages;
pub mod own_words;
pub mod owner_key;
mod presence;
mod probe;
pub mod quotes;
pub mod reconcile;
pub mod register;
pub mod results;
pub mod settle;
#[cfg(test)]
mod tests;
mod who;
