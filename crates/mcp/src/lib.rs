//! MCP for every channel: Streamable HTTP in two revisions on one URL, and the tools, documents and prompt of a channel.
//!
//! `rpc`, `revision`, `service` and `http` are the protocol and know nothing of channels: they serve any [`Service`]. `channel` is the
//! one service of the hub, on the same store functions as `/api/v1`; what it needs of the hub comes through [`Hub`].
//!
//! Why no SDK. The official one for Rust (rmcp 3.8) was looked at first, and four things decided against it:
//!
//! - Its sessions live in a task each and are bound to nobody. Binding them to an agent and a channel, and restoring them
//!   after a restart with what they had subscribed to, would have been a session manager, a store and a guard of our own
//!   around it. Here a session is a line in its owner's list in the store: another's id is not found in one's own list,
//!   and a restart changes nothing.
//! - Notices of a session are a cursor over the conversation's log, so that `Last-Event-ID` resumes exactly, on any node.
//!   The SDK keeps them in memory.
//! - Every request is authenticated anew, and a stream looks again before each notice. The SDK knows of callers only
//!   through extensions of a request.
//! - It is the second slowest crate to build of all we looked at, for a protocol of a few methods.
//!
//! What always holds: a request is answered only to a present member with a valid key, whatever its method; nothing is
//! kept in memory but what is open right now; every wait ends when the hub stops.
//!
//! What it deliberately does not do: sampling, elicitation, roots, logging and tasks. Nothing here needs them.

pub mod channel;
pub mod guard;
mod http;
mod revision;
mod rpc;
mod service;
mod sessions;

pub use channel::{Channel, Hub, Open, Pass};
pub use http::answer;
pub use revision::Revision;
pub use rpc::RpcError;
pub use service::{About, Ask, Notice, Notices, Outlet, Refusal, Request, Service, Wants};
