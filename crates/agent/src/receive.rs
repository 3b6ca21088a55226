//! Receives envelopes without a hub: an address of one's own, to which peers and a hub's webhooks POST.
//!
//! A sender is answered `ok` only after the program has accepted the envelope, not when it is queued.
//! Everything is bounded: connections, bodies, the queue, and every step in time. Nothing is stored: an
//! envelope that the program had not accepted when it died is sent again by its sender.
//!
//! Without a secret senders are not authenticated: a sender's name is its own claim.

mod answer;
mod desk;
mod duplicates;
mod listen;
mod refusal;

pub(crate) use answer::challenge;
pub(crate) use desk::{Busy, Desk, Queue, Waiting, desk};
pub(crate) use listen::{Limits, Server, json_answer, read_body};
pub(crate) use refusal::Refusal;

use crate::{Network, WebhookSecret};
use chorus_environment::Environment;
use chorus_protocol::relay::{ReceiverReply, ReceiverStatus};
use chorus_protocol::words::EntryKind;
use serde_json::value::RawValue;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The settings of a [`Receiver`].
#[derive(Debug, Clone)]
pub struct ReceiveOptions {
    /// The one path that takes envelopes.
    pub path: String,
    /// The secret by which requests must be signed. With `None`, everyone may write under any name.
    pub secret: Option<WebhookSecret>,
    /// The networks that requests may come from; empty allows all. Behind a proxy this is the proxy's address.
    pub sources: Vec<Network>,
    /// The source of the current time.
    pub environment: Environment,
    /// The time limit for the headers of a request.
    pub head_limit: Duration,
    /// The time limit for the body of a request.
    pub body_limit: Duration,
    /// The time limit for the program to accept an envelope. A hub waits 30 s for the whole request.
    pub answer_limit: Duration,
}

impl ReceiveOptions {
    /// Creates settings for the path `/receive` that accept unsigned requests from anywhere.
    pub fn new(environment: Environment) -> Self {
        Self {
            path: "/receive".into(),
            secret: None,
            sources: Vec::new(),
            environment,
            head_limit: Duration::from_secs(10),
            body_limit: Duration::from_secs(10),
            answer_limit: Duration::from_secs(25),
        }
    }
}

/// The reason why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The path is not valid.
    #[error("path: must begin with / and hold no space, ? or #")]
    Path,
    /// The address cannot be bound.
    #[error("cannot listen on {address}")]
    Listen {
        address: String,
        #[source]
        source: io::Error,
    },
}

/// A valid envelope that was not received before. Its sender waits for [`Received::accept`] or
/// [`Received::refuse`]. Dropping it asks the sender to try again.
#[derive(Debug)]
pub struct Received {
    /// The kind of content: an envelope, or `chat` for a message in a conversation of a hub.
    pub kind: EntryKind,
    /// The envelope as it was received, or the whole chat entry.
    pub envelope: Box<RawValue>,
    /// The sender's name, as the sender states it.
    pub sender_id: String,
    /// The time of receipt, in milliseconds since 1970.
    pub received_at: i64,
    /// The id that the hub gave to the request. `None` for an unsigned request.
    pub webhook_id: Option<String>,
    waiting: Waiting<ReceiverReply>,
}

impl Received {
    /// Tells the sender that the envelope was accepted. From now on the same turn is a duplicate.
    pub fn accept(self) {
        self.waiting.taken(ReceiverReply { status: ReceiverStatus::Ok, error_code: None, detail: None });
    }

    /// Does the same without remembering the turn, for a program that recognizes duplicates itself.
    pub fn accept_without_remembering(self) {
        self.waiting.not_taken(ReceiverReply { status: ReceiverStatus::Ok, error_code: None, detail: None });
    }

    /// Tells the sender that the envelope could not be adapted for this agent's user, and why.
    pub fn refuse(self, why: impl Into<String>) {
        let reply = ReceiverReply {
            status: ReceiverStatus::Error,
            error_code: Some("ADAPTATION_FAILED".into()),
            detail: Some(why.into()),
        };
        self.waiting.not_taken(reply);
    }
}

/// An envelope on its way to the program.
#[derive(Debug)]
struct Letter {
    kind: EntryKind,
    envelope: Box<RawValue>,
    sender_id: String,
    received_at: i64,
    webhook_id: Option<String>,
}

/// The state shared by all connections.
struct Shared {
    options: ReceiveOptions,
    desk: Desk<Letter, ReceiverReply>,
}

/// A server for direct envelopes. Dropping it stops it; [`Receiver::close`] sends the last answers first.
#[derive(Debug)]
pub struct Receiver {
    path: String,
    queue: Queue<Letter, ReceiverReply>,
    server: Server,
}

impl Receiver {
    /// Listens on `address`, such as `127.0.0.1:8788`. Port 0 picks a free port.
    pub async fn bind(address: &str, options: ReceiveOptions) -> Result<Self, BindError> {
        let path = options.path.clone();
        let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#');
        if !path.starts_with('/') || !path.bytes().all(plain) {
            return Err(BindError::Path);
        }
        let ReceiveOptions { head_limit, body_limit, answer_limit, .. } = options;
        let limits = Limits { head: head_limit, body: body_limit, answer: answer_limit };
        let (desk, queue) = desk();
        let shared = Arc::new(Shared { options, desk });
        let answer = move |from, request| {
            let shared = Arc::clone(&shared);
            async move { answer::answer(&shared, from, request).await }
        };
        let server = Server::bind(address, limits, answer).await?;
        Ok(Self { path, queue, server })
    }

    /// Returns the address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Returns the URL to send to, as seen from this machine.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.address(), self.path)
    }

    /// Waits for the next envelope. Dropping the future loses no envelope. Returns `None` only after the
    /// server has stopped.
    pub async fn next(&mut self) -> Option<Received> {
        let (letter, waiting) = self.queue.next().await?;
        let Letter { kind, envelope, sender_id, received_at, webhook_id } = letter;
        Some(Received { kind, envelope, sender_id, received_at, webhook_id, waiting })
    }

    /// Stops taking envelopes and waits for a short while until the answers to accepted envelopes are sent.
    pub async fn close(self) {
        // Envelopes that the program has not taken are answered with an error, and the sender tries again.
        drop(self.queue);
        self.server.close().await;
    }
}
