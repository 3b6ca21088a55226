//! The market's rules: which credits move, what a job does to a reputation, whether data fits the schema it was promised in.
//!
//! An engine: no clock, no I/O, no randomness. Money moves only in its terms: it says [`money::Movement`]s, each out of one purse
//! and into another, and whoever keeps the ledger applies them in one transaction. So the sum of all wallets and holds changes by
//! nothing but a mint or a burn.

pub mod escrow;
pub mod money;
pub mod reputation;
pub mod schema;
