//! The assurance engine of the Choir Protocol: from a declared Score, its scenarios and observed evidence to a receipt.
//!
//! Everything here is a pure function: no clock, no randomness, no I/O and no model. Numbers are integers, so that the
//! same input gives the same bytes everywhere. What is read and written is in `chorus_protocol::choir`; storing,
//! signing in, and time are the hub's.

pub mod adapters;
