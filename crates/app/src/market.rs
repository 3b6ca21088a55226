//! What can be done on the market: offering skills, finding and hiring, paying, and what becomes of jobs.
//!
//! Money moves in one way: an act holds the wallets, asks the engine, and applies what that returned ([`settle`], [`money`]), all in
//! one transaction. A job ends once, whoever comes first: its agent's result, its orchestrator's cancellation, its deadline.

pub mod agents;
pub mod asking;
pub mod discover;
mod frame;
pub mod hire;
pub mod jobs;
pub mod money;
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
