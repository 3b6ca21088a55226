//! Streams between agents: a receiver's output as it is made, and one's own given the same way.
//!
//! A send that asks for a stream is tried once: who has seen half of an answer would see it twice. Silence is watched
//! for, since the hub gives a sign of life every 15 s.

use crate::answer;
use crate::client::{REQUEST_LIMIT, http_client};
use crate::inbox::{IDLE_LIMIT, read};
use crate::reach::Http;
use crate::{Client, ClientError, Reach};
use bytes::Bytes;
use chorus_protocol::faults::Faults;
use chorus_protocol::relay::{Outcome, ReplyKind, ReplyLine};
use chorus_protocol::sse::{Item, Parser};
use futures_util::stream;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, Response};
use serde_json::{Value, json};
use std::collections::VecDeque;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// What a receiver says while it is being listened to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyEvent {
    /// Whether more comes. Nothing follows what is done, and the message counts as delivered, nor an error, and it counts
    /// as failed.
    pub kind: ReplyKind,
    /// The receiver's own, JSON by custom.
    pub data: String,
}

/// The answer to a send that asked for a stream.
#[derive(Debug)]
pub enum Answered {
    /// The receiver's output, as it comes.
    Stream(Box<ReplyStream>),
    /// There is nobody to listen to: the message waits, or this was sent before.
    Outcome(Outcome),
}

impl Answered {
    pub(crate) async fn read(client: Client, response: Response) -> Result<Self, ClientError> {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if response.status().is_success() && kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            let (parser, pending) = (Parser::new(), VecDeque::new());
            let stream = ReplyStream { client, response, parser, pending, ended: false };
            return Ok(Self::Stream(Box::new(stream)));
        }
        Ok(Self::Outcome(answer::read(response).await?.data))
    }
}

/// A receiver's output.
#[derive(Debug)]
pub struct ReplyStream {
    client: Client,
    response: Response,
    parser: Parser,
    pending: VecDeque<Item>,
    ended: bool,
}

impl ReplyStream {
    /// What comes next; nothing after the last word. A stream that ends without one is an error.
    pub async fn next(&mut self) -> Option<Result<ReplyEvent, ClientError>> {
        while !self.ended {
            while let Some(item) = self.pending.pop_front() {
                let Item::Event(event) = item else { continue };
                let Some(kind) = ReplyKind::parse(&event.event) else { continue };
                self.ended = kind != ReplyKind::Chunk;
                return Some(Ok(ReplyEvent { kind, data: event.data }));
            }
            let piece = timeout(IDLE_LIMIT, self.response.chunk()).await;
            match read(piece.ok(), &self.client, &mut self.parser) {
                Ok(items) => self.pending.extend(items),
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

/// Answers a message with a stream: everything that comes from `output` as it comes, and at its end all of it as the
/// result. `reply_stream` is the address that came with the message; it is also the credential.
pub async fn reply(reply_stream: &str, output: mpsc::Receiver<String>) -> Result<(), ClientError> {
    reply_by(None, reply_stream, output).await
}

/// The same, within reach; anywhere, if a person says where.
pub(crate) async fn reply_by(
    reach: Option<&Reach>,
    reply_stream: &str,
    mut output: mpsc::Receiver<String>,
) -> Result<(), ClientError> {
    let growing = Growing::open(reach, reply_stream)?;
    let mut whole = String::new();
    while let Some(piece) = output.recv().await {
        whole.push_str(&piece);
        if !growing.say(&ReplyLine::Chunk { text: piece }).await {
            return growing.end().await;
        }
    }
    // Whoever reads it has gone, or gets the last line.
    growing.say(&ReplyLine::Done { result: whole.into() }).await;
    growing.end().await
}

/// An answer that is being given.
#[derive(Debug)]
pub(crate) struct Growing {
    lines: mpsc::Sender<Result<Bytes, std::io::Error>>,
    request: JoinHandle<Result<(), ClientError>>,
}

impl Growing {
    /// Begins one; that nobody listens shows when something is said.
    pub(crate) fn open(reach: Option<&Reach>, reply_stream: &str) -> Result<Self, ClientError> {
        let form = "must be the address that came with the message as reply_stream";
        let url = crate::client::web_address(reply_stream, form);
        let url = url.map_err(|what| ClientError::Invalid(Faults::one("reply_stream", what)))?;
        let http = match reach {
            Some(reach) => reach.http(&url),
            None => http_client(url.as_str()).map(Http::Free),
        };
        let blocked = |blocked| ClientError::Invalid(Faults::one("reply_stream", blocked));
        let request =
            http.map_err(ClientError::Setup)?.request(Method::POST, url.clone()).map_err(blocked)?;
        let (lines, body) = mpsc::channel::<Result<Bytes, std::io::Error>>(1);
        let body = stream::unfold(body, |mut body| async { Some((body.recv().await?, body)) });
        let request = request.header(CONTENT_TYPE, "application/x-ndjson");
        let sent = request.body(reqwest::Body::wrap_stream(body)).send();
        let base = format!("{}://{}", url.scheme(), url.host_str().unwrap_or_default());
        let request = tokio::spawn(async move {
            let response = sent.await.map_err(|source| ClientError::Unreachable { url: base, source })?;
            let reading = timeout(REQUEST_LIMIT, answer::read::<Value>(response)).await;
            reading.map_err(|_| ClientError::Lost("the hub did not finish its answer"))?.map(drop)
        });
        Ok(Self { lines, request })
    }

    /// Says something; whether it may be read.
    pub(crate) async fn say(&self, said: &ReplyLine) -> bool {
        self.lines.send(Ok(line(said))).await.is_ok()
    }

    /// Nothing more is said; what came of it.
    pub(crate) async fn end(self) -> Result<(), ClientError> {
        drop(self.lines);
        self.request.await.unwrap_or(Err(ClientError::Lost("the answer was broken off")))
    }
}

/// A line of a reply, with its end.
pub(crate) fn line(said: &ReplyLine) -> Bytes {
    format!("{}\n", json!(said)).into()
}
