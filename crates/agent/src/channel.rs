//! Channels from an agent's side: a connection string to which services POST messages, and callbacks for the
//! agent's replies.
//!
//! [`ConnectionServer`] is the agent's own server. Everyone who knows its connection string can write to the
//! agent. A service is answered 200 only after the program has accepted the message. [`Callback`] sends the
//! replies. Nothing is stored: a message that the program had not accepted when it died is sent again by the
//! service. Channels hosted by a hub need no server, because their messages come to the inbox.

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

/// The settings of a [`ConnectionServer`].
#[derive(Debug, Clone)]
pub struct ConnectionOptions {
    /// The secret part of the connection string.
    pub secret: ConnectionSecret,
    /// The secret by which requests must also be signed (Standard Webhooks). `None` accepts unsigned requests.
    pub signature: Option<WebhookSecret>,
    /// The networks that requests may come from; empty allows all. Behind a proxy this is the proxy's address.
    pub sources: Vec<Network>,
    /// The callback addresses that the agent may call. A message with another callback is refused.
    pub reach: Reach,
    /// The source of the current time.
    pub environment: Environment,
    /// The time limit for the headers of a request.
    pub head_limit: Duration,
    /// The time limit for the body of a request.
    pub body_limit: Duration,
    /// The time limit for the program to accept a message. A hub waits 30 s for the whole request.
    pub answer_limit: Duration,
}

impl ConnectionOptions {
    /// Creates settings that accept unsigned requests from anywhere and call public callbacks only.
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

/// A valid message that was not received before. Its service waits for [`Delivered::accept`] or
/// [`Delivered::refuse`]. Dropping it asks the service to try again.
#[derive(Debug)]
pub struct Delivered {
    pub post: Post,
    /// The time of receipt, in milliseconds since 1970.
    pub received_at: i64,
    /// The id that the service gave to the request. `None` for an unsigned request.
    pub webhook_id: Option<String>,
    waiting: Waiting<Option<u16>>,
}

impl Delivered {
    /// Answers the service with 200. From now on the same message is a duplicate.
    pub fn accept(self) {
        self.waiting.taken(None);
    }

    /// Answers the service with 200 without remembering the message, for a program that recognizes duplicates
    /// itself.
    pub fn accept_without_remembering(self) {
        self.waiting.not_taken(None);
    }

    /// Answers the service with an HTTP error; any other status becomes 500. The message may come again:
    /// services retry after a 5xx.
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

/// The state shared by all connections.
struct Shared {
    options: ConnectionOptions,
    /// The digest of the connection secret.
    secret: Digest,
    desk: Desk<Letter, Option<u16>>,
}

/// An agent's own server. Dropping it stops it; [`ConnectionServer::close`] sends the last answers first.
#[derive(Debug)]
pub struct ConnectionServer {
    secret: ConnectionSecret,
    queue: Queue<Letter, Option<u16>>,
    server: Server,
}

impl ConnectionServer {
    /// Listens on `address`, such as `127.0.0.1:8788`. Port 0 picks a free port.
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

    /// Returns the address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Returns the connection string to give to a service. `base` is this server's URL as services reach it,
    /// such as `https://agent.example.com`.
    pub fn connection_string(&self, base: &str) -> String {
        format!("{}/inbox/{}", base.trim_end_matches('/'), self.secret.as_str())
    }

    /// Waits for the next message. Dropping the future loses no message. Returns `None` only after the server
    /// has stopped.
    pub async fn next(&mut self) -> Option<Delivered> {
        let (Letter { post, received_at, webhook_id }, waiting) = self.queue.next().await?;
        Some(Delivered { post, received_at, webhook_id, waiting })
    }

    /// Stops taking messages and waits for a short while until the answers to accepted messages are sent.
    pub async fn close(self) {
        // Messages that the program has not taken are answered with an error, and the service tries again.
        drop(self.queue);
        self.server.close().await;
    }
}
