//! The assurance engine of the Choir Protocol: from a declared Score, its scenarios and observed evidence to a receipt.
//!
//! Everything here is a pure function: no clock, no randomness, no I/O and no model. Numbers are integers, so that the
//! same input gives the same bytes everywhere. What is read and written is in `chorus_protocol::choir`; storing,
//! signing in, and time are the hub's.

pub mod adapters;
pub mod attest;
pub mod compare;
mod derive;
pub mod evidence;
mod judge;
pub mod library;
pub mod measures;
pub mod merkle;
pub mod names;
mod observe;
pub mod rehearse;
pub mod rules;
pub mod signing;
pub mod structure;
pub mod verify;

pub use evidence::{Evidence, Taken, merge};
pub use rehearse::{read_score, receipt, rehearse};
