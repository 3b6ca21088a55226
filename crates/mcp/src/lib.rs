//! MCP as a protocol: Streamable HTTP in both kinds of revisions, with sessions and without, on one URL, for whatever [`Service`] is served.
//!
//! It knows no store and no channel: which tools, resources and prompts there are, who may ask, and where sessions are kept is
//! the service's. `guard` tells requests that were not meant for us.
//!
//! Why no SDK. The official one for Rust (rmcp 3.8) was looked at first, and four things decided against it:
//!
//! - Its sessions live in a task each and are bound to nobody. Binding them to an agent and a channel, and restoring them
//!   after a restart with what they had subscribed to, would have been a session manager, a store and a guard of our own
//!   around it. Here a session is a row that the service looks up with its owner, and a restart changes nothing.
//! - Notices of a session have a place each, so that `Last-Event-ID` resumes exactly, on any node. The SDK keeps them in
//!   memory.
//! - Every request is authenticated anew, and a stream looks again before each notice. The SDK knows of callers only
//!   through extensions of a request.
//! - It is the second slowest crate to build of all we looked at, for a protocol of a few methods.
//!
//! What always holds: nothing is told to a caller that the service does not let in, not even what is wrong with a message;
//! nothing is kept in memory but what is open right now; every stream ends when the server stops.
//!
//! What it deliberately does not do: sampling, elicitation, roots, logging and tasks. Nothing here needs them. That something is said
//! before a result ([`Outlet`]), and that a client answers ([`Service::heard`]), no service of the hub needs either: it is there
//! because the conformance suite asks for it (`examples/conformance`).

pub mod code;
pub mod guard;
mod http;
mod revision;
mod service;
mod stream;

pub use http::answer;
pub use revision::Revision;
pub use service::{About, Ask, Failure, Notice, Notices, Outlet, Request, Service, Wants};
