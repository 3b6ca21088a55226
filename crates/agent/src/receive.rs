//! Receiving without a hub: one's own address, where peers and a hub's webhooks POST envelopes.
//!
//! What was received is handed to the program, and its sender is told so only when the program has accepted it: `ok`
//! means that it is in the program's hands, not in a queue. Everything is bounded: connections, bodies, what waits,
//! and every step in time. Nothing is stored; a program that dies has been told nothing it can lose.
//!
//! Without a secret nobody knows who is writing: a sender's name is only what it says of itself.

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

/// How to receive.
#[derive(Debug, Clone)]
pub struct ReceiveOptions {
    /// The one path that takes envelopes.
    pub path: String,
    /// What requests must be signed with; without it anybody may write, under any name.
    pub secret: Option<WebhookSecret>,
    /// From where requests may come; from anywhere if there is none. Behind a proxy this is the proxy's address.
    pub sources: Vec<Network>,
    /// What time it is.
    pub environment: Environment,
    /// How long the headers of a request may take.
    pub head_limit: Duration,
    /// How long its body may take.
    pub body_limit: Duration,
    /// How long the program may take to accept it. A hub waits 30 s for the whole of it.
    pub answer_limit: Duration,
}

impl ReceiveOptions {
    /// At `/receive`, from anybody.
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

/// Why nothing can be received.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The path is none.
    #[error("path: must begin with / and hold no space, ? or #")]
    Path,
    /// The address cannot be had.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address asked for.
        address: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// An envelope that came, valid and not seen before. Its sender waits for [`Received::accept`] or
/// [`Received::refuse`]; if it is dropped instead, the sender is asked to try again.
#[derive(Debug)]
pub struct Received {
    /// An envelope; or `chat`: what was said in a conversation of a hub.
    pub kind: EntryKind,
    /// The envelope as it was received, or the whole of what was said.
    pub envelope: Box<RawValue>,
    /// Who sent it, by its own account.
    pub sender_id: String,
    /// When it came, in milliseconds since 1970.
    pub received_at: i64,
    /// The id the hub gave to the request, if it was signed.
    pub webhook_id: Option<String>,
    waiting: Waiting<ReceiverReply>,
}

impl Received {
    /// Tells the sender that its envelope was taken. From now on the same turn is a duplicate.
    pub fn accept(self) {
        self.waiting.taken(ReceiverReply { status: ReceiverStatus::Ok, error_code: None, detail: None });
    }

    /// The same, and remembers nothing: for a program that knows by itself what it has dealt with.
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

/// What all connections share.
struct Shared {
    options: ReceiveOptions,
    desk: Desk<Letter, ReceiverReply>,
}

/// One's own address. It ends when it is dropped; [`Receiver::close`] lets the last answers out first.
#[derive(Debug)]
pub struct Receiver {
    path: String,
    queue: Queue<Letter, ReceiverReply>,
    server: Server,
}

impl Receiver {
    /// Listens on `address`, such as `127.0.0.1:8788`; port 0 takes a free one.
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

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// The URL that peers send to and that is registered with a hub, as this machine sees it.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.address(), self.path)
    }

    /// The next envelope. It may be dropped at its await without losing one. `None` never comes while it listens.
    pub async fn next(&mut self) -> Option<Received> {
        let (letter, waiting) = self.queue.next().await?;
        let Letter { kind, envelope, sender_id, received_at, webhook_id } = letter;
        Some(Received { kind, envelope, sender_id, received_at, webhook_id, waiting })
    }

    /// Takes no more envelopes and waits, a short while, until those that were answered know it.
    pub async fn close(self) {
        // What nobody took goes back to its sender.
        drop(self.queue);
        self.server.close().await;
    }
}
