//! The words on the wire: types and validation for the Chorus protocols, shared by both ends.
//!
//! One file per protocol (`relay`), and beside them what all of them need: addresses, strict JSON,
//! validation that reports every fault at once, server-sent events, ids and times.
//!
//! This crate knows nobody: no I/O, no clock, no randomness, no HTTP server and no database.

pub mod address;
pub mod faults;
pub mod ids;
pub mod json;
pub mod relay;
pub mod sse;
pub mod time;
