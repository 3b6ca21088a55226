//! The words on the wire: types and validation for the Chorus protocols, shared by both ends.
//!
//! One module per protocol (`c2a`, `channel`, `choir`, `market`, `relay`), and beside them what all of them need: the core's
//! vocabulary (`words`), error codes, addresses, strict JSON and its canonical form, JSON-RPC, validation that reports every
//! fault at once, server-sent events, ids and times, pages, whom a text mentions, and what in it must not be kept.
//!
//! This crate knows nobody: no I/O, no clock, no randomness, no HTTP server and no database.

pub mod address;
pub mod api;
pub mod attention;
pub mod c2a;
pub mod canonical;
pub mod channel;
pub mod choir;
pub mod code;
pub mod credentials;
pub mod faults;
pub mod ids;
pub mod inbox;
pub mod json;
pub mod market;
pub mod mentions;
pub mod page;
pub mod redact;
pub mod relay;
pub mod rpc;
pub mod schema;
pub mod sse;
pub mod time;
pub mod words;
