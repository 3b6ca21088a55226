//! The other end of the wire: what an agent, or a person's command line, needs to talk to a hub.
//!
//! [`Client`] asks and sends, [`Inbox`] listens and survives lost connections, [`ClientError`] says what went
//! wrong in a sentence for a person. Without a hub, [`Receiver`] takes envelopes straight from peers (and a hub's
//! webhooks, whose signatures it checks), and [`send_direct`] sends them. [`Client::send_stream`] and [`reply`] are the
//! two ends of an answer that is seen while it is made. [`ConnectionServer`] takes messages from channels of any service
//! that was given its connection string, and [`Callback`] answers them. [`harness`] makes an agent out of any program or
//! model. What may be said is decided by
//! `chorus-protocol`; this crate checks every request with it before anything leaves the machine.
//!
//! It never knows the hub's or the store's code: a hub written by somebody else must serve it as well.
//! A TLS provider must have been installed by the program (`rustls::crypto::ring::default_provider()`).

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
pub use reach::Reach;
pub use receive::{BindError, ReceiveOptions, Received, Receiver};
pub use request::SendBody;
pub use retry::Retry;
pub use signature::{SecretFault, WebhookSecret};
pub use socket::Socket;
pub use stream::{Answered, ReplyEvent, ReplyStream, reply};
