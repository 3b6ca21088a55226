//! Channels, as an agent sees them: a connection string where services POST what was said, and callbacks for what the
//! agent says.
//!
//! [`ConnectionServer`] is the agent's own server: whoever knows its connection string can write to the agent, and a
//! service is told 200 only when the program has accepted the message. [`Callback`] is the way back. Nothing is stored;
//! a program that dies has been told nothing it can lose. Channels that a hub hosts need no server: their messages
//! come to the inbox too.

mod answer;
mod callback;
mod secret;

pub use callback::{Callback, CallbackError};
pub use secret::{ConnectionSecret, ConnectionSecretFault};

use crate::receive::{Desk, Limits, Queue, Server, Waiting, desk};
use crate::{BindError, Network, Reach, WebhookSecret};
use chorus_environment::Environment;
use chorus_protocol::channel::Post;
use secret::Digest;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How to be reached by a connection string.
#[derive(Debug, Clone)]
pub struct ConnectionOptions {
    /// What makes the connection string a secret.
    pub secret: ConnectionSecret,
    /// What requests must be signed with as well (Standard Webhooks), if anything.
    pub signature: Option<WebhookSecret>,
    /// From where requests may come; from anywhere if there is none. Behind a proxy this is the proxy's address.
    pub sources: Vec<Network>,
    /// Which callbacks will be called; a message with another is refused.
    pub reach: Reach,
    /// What time it is.
    pub environment: Environment,
    /// How long the headers of a request may take.
    pub head_limit: Duration,
    /// How long its body may take.
    pub body_limit: Duration,
    /// How long the program may take to accept it. A hub waits 30 s for the whole of it.
    pub answer_limit: Duration,
}

impl ConnectionOptions {
    /// With this secret, from anywhere, unsigned; public callbacks are called.
    pub fn new(secret: ConnectionSecret, environment: Environment) -> Self {
        Self {
            secret,
            signature: None,
            sources: Vec::new(),
            reach: Reach::default(),
            environment,
            head_limit: Duration::from_secs(10),
            body_limit: Duration::from_secs(10),
            answer_limit: Duration::from_secs(25),
        }
    }
}

/// A message that came, valid and not seen before. Its service waits for [`Delivered::accept`] or
/// [`Delivered::refuse`]; if it is dropped instead, the service is asked to try again.
#[derive(Debug)]
pub struct Delivered {
    /// What was posted.
    pub post: Post,
    /// When it came, in milliseconds since 1970.
    pub received_at: i64,
    /// The id the service gave to the request, if it was signed.
    pub webhook_id: Option<String>,
    waiting: Waiting<Option<u16>>,
}

impl Delivered {
    /// Tells the service 200. From now on the same message is a duplicate.
    pub fn accept(self) {
        self.waiting.taken(None);
    }

    /// Tells the service 200 and remembers nothing: for a program that knows by itself what it has dealt with.
    pub fn accept_without_remembering(self) {
        self.waiting.not_taken(None);
    }

    /// Tells the service that the message cannot be processed, by an HTTP error (anything else becomes 500). It may
    /// come again: services try again on 5xx.
    pub fn refuse(self, status: u16) {
        self.waiting.not_taken(Some(status));
    }
}

/// A message on its way to the program.
#[derive(Debug)]
struct Letter {
    post: Post,
    received_at: i64,
    webhook_id: Option<String>,
}

/// What all connections share.
struct Shared {
    options: ConnectionOptions,
    /// Of the secret.
    secret: Digest,
    desk: Desk<Letter, Option<u16>>,
}

/// An agent's own server. It ends when it is dropped; [`ConnectionServer::close`] lets the last answers out first.
#[derive(Debug)]
pub struct ConnectionServer {
    secret: ConnectionSecret,
    queue: Queue<Letter, Option<u16>>,
    server: Server,
}

impl ConnectionServer {
    /// Listens on `address`, such as `127.0.0.1:8788`; port 0 takes a free one.
    pub async fn bind(address: &str, options: ConnectionOptions) -> Result<Self, BindError> {
        let ConnectionOptions { head_limit, body_limit, answer_limit, .. } = options;
        let limits = Limits { head: head_limit, body: body_limit, answer: answer_limit };
        let secret = options.secret.clone();
        let (desk, queue) = desk();
        let shared = Arc::new(Shared { secret: options.secret.digest(), options, desk });
        let answer = move |from, request| {
            let shared = Arc::clone(&shared);
            async move { answer::answer(&shared, from, request).await }
        };
        let server = Server::bind(address, limits, answer).await?;
        Ok(Self { secret, queue, server })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// The connection string to paste into a service. `base` is this server as services reach it, such as
    /// `https://agent.example.com`.
    pub fn connection_string(&self, base: &str) -> String {
        format!("{}/inbox/{}", base.trim_end_matches('/'), self.secret.as_str())
    }

    /// The next message. It may be dropped at its await without losing one. `None` never comes while it listens.
    pub async fn next(&mut self) -> Option<Delivered> {
        let (Letter { post, received_at, webhook_id }, waiting) = self.queue.next().await?;
        Some(Delivered { post, received_at, webhook_id, waiting })
    }

    /// Takes no more messages and waits, a short while, until the services of those that were answered know it.
    pub async fn close(self) {
        // What nobody took goes back to its service.
        drop(self.queue);
        self.server.close().await;
    }
}
