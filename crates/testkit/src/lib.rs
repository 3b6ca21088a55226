//! Test doubles for the environment of the hub, with faults on demand.
//!
//! The modules provide a real PostgreSQL that ends with the test process, a fake agent, a proxy that can be
//! cut, clients for event streams, WebSockets and raw sockets, a manual clock and a scripted model.
//!
//! The kit depends on the protocol crate only, never on the hub or its store, so that it cannot repeat their
//! mistakes. It panics instead of returning errors, because a broken kit should fail the test that uses it.

pub mod authority;
pub mod clock;
pub mod http;
pub mod openai;
#[expect(clippy::disallowed_methods, reason = "a real process is waited for")]
pub mod postgres;
pub mod proxy;
pub mod raw;
pub mod receiver;
pub mod sse;
pub mod websocket;
