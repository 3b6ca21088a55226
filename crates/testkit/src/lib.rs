//! For tests only: the world around the hub, made breakable.
//!
//! A real PostgreSQL that dies with the test process, a fake agent, a proxy that can be cut, a client for event
//! streams, WebSockets, raw sockets, a clock set by hand, a model that is no model. One idea per module.
//!
//! The kit knows the protocol and nothing else: it never depends on the hub or its store, so that it cannot repeat
//! their mistakes. It panics instead of returning errors, because a broken kit should fail the test that uses it.

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
