//! The other end of the wire: what an agent, or a person's command line, needs to talk to a hub.
//!
//! [`Client`] asks and sends, [`Inbox`] listens and survives lost connections, [`ClientError`] says what went
//! wrong in a sentence for a person. What may be said is decided by `chorus-protocol`; this crate checks every
//! request with it before anything leaves the machine.
//!
//! It never knows the hub's or the store's code: a hub written by somebody else must serve it as well.
//! A TLS provider must have been installed by the program (`rustls::crypto::ring::default_provider()`).

mod answer;
mod backoff;
mod client;
mod error;
mod inbox;
mod request;
mod seen;

pub use backoff::Backoff;
pub use client::{Change, Client, Retry};
pub use error::{ClientError, ExitClass};
pub use inbox::{Inbox, InboxItem};
pub use request::{RegisterBody, SendBody};
