//! The rules of the market: movements of credits, effects on reputation, and validation of data against skill
//! schemas.
//!
//! The crate is an engine without clock, I/O or randomness. It returns [`money::Movement`]s, each from one
//! purse to another; the ledger applies them in one transaction. Therefore only a mint or a burn changes the
//! sum of all wallets and holds.

pub mod counting;
pub mod escrow;
pub mod money;
pub mod reputation;
pub mod schema;
