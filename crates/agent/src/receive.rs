//! Receiving without a hub: one's own address, where peers and a hub's webhooks POST envelopes.
//!
//! What was received is handed to the program, and its sender is told so only when the program has accepted it: `ok`
//! means that it is in the program's hands, not in a queue. Everything is bounded: connections, bodies, what waits,
//! and every step in time. Nothing is stored; a program that dies has been told nothing it can lose.
//!
//! Without a secret nobody knows who is writing: a sender's name is only what it says of itself.

mod answer;
mod turns;

use crate::WebhookSecret;
use chorus_protocol::relay::{ReceiverReply, ReceiverStatus};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::value::RawValue;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use turns::{Claim, Turns};

/// The most connections at a time; the kernel keeps further ones waiting.
const MAX_CONNECTIONS: usize = 128;
/// The most envelopes that wait for the program.
const MAX_WAITING: usize = 64;
/// How long answers may take to be written when receiving ends, and beyond everything else.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How to receive.
#[derive(Debug, Clone)]
pub struct ReceiveOptions {
    /// The one path that takes envelopes.
    pub path: String,
    /// What requests must be signed with; without it anybody may write, under any name.
    pub secret: Option<WebhookSecret>,
    /// The time, in milliseconds since 1970.
    pub clock: fn() -> i64,
    /// How long the headers of a request may take.
    pub head_limit: Duration,
    /// How long its body may take.
    pub body_limit: Duration,
    /// How long the program may take to accept it. A hub waits 30 s for the whole of it.
    pub answer_limit: Duration,
}

impl ReceiveOptions {
    /// At `/receive`, from anybody.
    pub fn new(clock: fn() -> i64) -> Self {
        Self {
            path: "/receive".into(),
            secret: None,
            clock,
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
    /// The envelope as it was received.
    pub envelope: Box<RawValue>,
    /// Who sent it, by its own account.
    pub sender_id: String,
    /// When it came, in milliseconds since 1970.
    pub received_at: i64,
    /// The id the hub gave to the request, if it was signed.
    pub webhook_id: Option<String>,
    claim: Option<Claim>,
    answer: oneshot::Sender<ReceiverReply>,
}

impl Received {
    /// Tells the sender that its envelope was taken. From now on the same turn is a duplicate.
    pub fn accept(self) {
        if let Some(claim) = self.claim {
            claim.keep();
        }
        // A sender that has gone may ask again, and is told the same.
        self.answer.send(ReceiverReply { status: ReceiverStatus::Ok, error_code: None, detail: None }).ok();
    }

    /// Tells the sender that the envelope could not be adapted for this agent's user, and why.
    pub fn refuse(self, why: impl Into<String>) {
        let reply = ReceiverReply {
            status: ReceiverStatus::Error,
            error_code: Some("ADAPTATION_FAILED".into()),
            detail: Some(why.into()),
        };
        // As above.
        self.answer.send(reply).ok();
    }
}

/// What all connections share.
struct Shared {
    options: ReceiveOptions,
    queue: mpsc::Sender<Received>,
    turns: Turns,
}

/// One's own address. It ends when it is dropped; [`Receiver::close`] lets the last answers out first.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    path: String,
    queue: mpsc::Receiver<Received>,
    stop: oneshot::Sender<()>,
    server: JoinHandle<()>,
}

impl Receiver {
    /// Listens on `address`, such as `127.0.0.1:8788`; port 0 takes a free one.
    pub async fn bind(address: &str, options: ReceiveOptions) -> Result<Self, BindError> {
        let path = options.path.clone();
        let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#');
        if !path.starts_with('/') || !path.bytes().all(plain) {
            return Err(BindError::Path);
        }
        let failed = |source| BindError::Listen { address: address.to_owned(), source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (sender, queue) = mpsc::channel(MAX_WAITING);
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::new(Shared { options, queue: sender, turns: Turns::default() });
        let server = tokio::spawn(serve(listener, shared, stopped));
        Ok(Self { address, path, queue, stop, server })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL that peers send to and that is registered with a hub, as this machine sees it.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.address, self.path)
    }

    /// The next envelope. It may be dropped at its await without losing one. `None` never comes while it listens.
    pub async fn next(&mut self) -> Option<Received> {
        loop {
            let received = self.queue.recv().await?;
            // Whoever gave up waiting was told so, or will try again.
            if !received.answer.is_closed() {
                return Some(received);
            }
        }
    }

    /// Takes no more envelopes and waits, a short while, until those that were answered know it.
    pub async fn close(self) {
        let Self { queue, stop, server, .. } = self;
        // What nobody took goes back to its sender.
        drop((queue, stop));
        // It has nothing to tell: a panic was shown already.
        server.await.ok();
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>, mut stopped: oneshot::Receiver<()>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let full = connections.len() >= MAX_CONNECTIONS;
        tokio::select! {
            _ = &mut stopped => break,
            _ = connections.join_next(), if full => {}
            accepted = listener.accept(), if !full => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, Arc::clone(&shared)));
                }
                // Out of file descriptors, most likely: it passes when connections end.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
        }
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    // What is left after that is cut.
    tokio::time::timeout(LAST_WORDS, ended).await.ok();
}

/// One connection, one request: whatever the peer does, it is over in time.
async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let ReceiveOptions { head_limit, body_limit, answer_limit, .. } = shared.options;
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(answer::answer(&shared, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_limit)
        .max_headers(64)
        .max_buf_size(64 * 1024)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let limit = head_limit + body_limit + answer_limit + 2 * LAST_WORDS;
    // A peer that breaks off has nobody left to be told.
    drop(tokio::time::timeout(limit, connection).await);
}
