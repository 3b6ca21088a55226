//! MCP as a protocol: Streamable HTTP on one URL, with and without sessions, for any [`Service`].
//!
//! The crate knows no store and no channel. The service defines tools, resources and prompts, admits callers
//! and stores sessions. `guard` rejects requests that are not meant for the hub.
//!
//! The crate uses no SDK. The official one for Rust (rmcp 3.8) was evaluated first and rejected for four
//! reasons:
//!
//! - Its sessions live in one task each and belong to no caller. Binding them to an agent and a channel, and restoring them
//!   with their subscriptions after a restart, would have needed a session manager, a store and a guard around it. Here a
//!   session is a row that the service looks up with its owner, and a restart changes nothing.
//! - The notices of a session have a position each, so that `Last-Event-ID` resumes exactly, on any node. The SDK keeps
//!   them in memory.
//! - Every request is authenticated anew, and a stream checks again before each notice. The SDK knows callers only through
//!   request extensions.
//! - It was the second slowest dependency to build, for a protocol of a few methods.
//!
//! Invariants: a caller that the service does not admit learns nothing, not even the faults of its message;
//! memory holds only open requests and streams; every stream ends when the server stops.
//!
//! Sampling, elicitation, roots, logging and tasks are not supported, because nothing here needs them. Messages
//! before a result ([`Outlet`]) and client responses ([`Service::heard`]) exist only for the conformance suite
//! (`examples/conformance`).

pub mod code;
pub mod guard;
mod http;
mod revision;
mod service;
mod stream;

pub use http::answer;
pub use revision::Revision;
pub use service::{About, Ask, Failure, Notice, Notices, Outlet, Request, Service, Wants};
