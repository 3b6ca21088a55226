//! Types and validation of the Chorus protocols, shared by hub and clients.
//!
//! There is one module per protocol (`c2a`, `channel`, `choir`, `market`, `relay`). The other modules hold
//! their common parts: the core vocabulary (`words`), error codes, addresses, strict and canonical JSON,
//! JSON-RPC, validation, server-sent events, ids, times, pages, mentions and redaction of credentials.
//!
//! The crate is pure: no I/O, no clock, no randomness, no HTTP server and no database.

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
