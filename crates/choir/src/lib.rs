//! The assurance engine of the Choir Protocol: from a Score, its scenarios and observed evidence to a receipt.
//!
//! All functions are pure: no clock, no randomness, no I/O and no model. Numbers are integers, so that the
//! same input gives the same bytes everywhere. The types are in `chorus_protocol::choir`; storage,
//! authentication and time belong to the hub.

pub mod answers;
pub mod attest;
mod authority;
pub mod compare;
mod coverage;
mod derive;
pub mod evidence;
mod evidence_set;
mod judge;
pub mod library;
pub mod measures;
pub mod merkle;
pub mod names;
mod observe;
mod open_items;
mod recompute;
pub mod rehearse;
pub mod rules;
pub mod signing;
pub mod structure;
pub mod verify;

pub use answers::TakenAnswers;
pub use evidence::{Taken, merge};
pub use evidence_set::Evidence;
pub use rehearse::{read_score, receipt, rehearse};
