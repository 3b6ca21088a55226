//! The client library: everything an agent or the command line requires to talk to a hub.
//!
//! [`Client`] makes requests, [`Inbox`] follows an event stream across lost connections, and [`ClientError`]
//! describes failures to people. Without a hub, [`Receiver`] takes envelopes from peers (and a hub's webhooks,
//! whose signatures it checks), and [`send_direct`] sends them. [`Client::send_stream`] and [`reply`] are the
//! two ends of a streamed answer. [`ConnectionServer`] takes messages from every service that was given its
//! connection string, and [`Callback`] answers them. [`harness`] makes an agent out of any program or model.
//! The rules for valid messages are those of `chorus-protocol`; this crate checks every request by them before
//! it is sent.
//!
//! The crate does not depend on the hub or the store: it must work with a hub written by someone else. The
//! program must have installed a TLS provider (`rustls::crypto::ring::default_provider()`).

mod answer;
mod api;
mod backoff;
mod channel;
mod choir;
mod client;
mod direct;
mod error;
pub mod harness;
mod inbox;
mod market;
mod mcp_session;
mod reach;
mod receive;
mod reconnect;
mod request;
mod retry;
mod seen;
mod signature;
mod socket;
mod stream;

pub use api::{ApiPath, Method};
pub use backoff::Backoff;
pub use channel::{
    Callback, CallbackError, ConnectionOptions, ConnectionSecret, ConnectionSecretFault, ConnectionServer,
    Delivered,
};
pub use choir::{read_public, submit_evidence};
pub use chorus_environment::Environment;
pub use chorus_outbound::{Network, NetworkFault};
pub use chorus_protocol::relay::RegisterBody;
pub use client::{Change, Client, Skill};
pub use direct::{DirectError, send_direct};
pub use error::{ClientError, ExitClass};
pub use inbox::{Inbox, InboxItem};
pub use market::{
    Finished, JobListen, JobServer, JobWorker, Pipeline, PipelineError, Step, WorkerEvent, amount_due,
    ask_directly,
};
pub use mcp_session::McpSession;
pub use reach::Reach;
pub use receive::{BindError, ReceiveOptions, Received, Receiver};
pub use request::SendBody;
pub use retry::Retry;
pub use signature::{SecretFault, WebhookSecret};
pub use socket::Socket;
pub use stream::{Answered, ReplyEvent, ReplyStream, reply};
