//! Streams between agents: reading a receiver's output while it is produced, and streaming one's own.
//!
//! A send that asks for a stream is not retried, because the caller would see the beginning of the answer
//! twice. The hub sends a keep-alive every 15 s, so a long silence means a lost connection.

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

/// A piece of a receiver's streamed answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyEvent {
    /// The kind of the piece. `done` and `error` are final: the message then counts as delivered or as failed.
    pub kind: ReplyKind,
    /// The receiver's data, usually JSON.
    pub data: String,
}

/// The answer to a send that asked for a stream.
#[derive(Debug)]
pub enum Answered {
    /// The receiver's output, while it is produced.
    Stream(Box<ReplyStream>),
    /// There is no stream: the message is queued, or it was sent before.
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

/// A receiver's output, while it is produced.
#[derive(Debug)]
pub struct ReplyStream {
    client: Client,
    response: Response,
    parser: Parser,
    pending: VecDeque<Item>,
    ended: bool,
}

impl ReplyStream {
    /// Waits for the next event. Returns `None` after the final one. A stream that ends without a final event
    /// is an error.
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

/// Answers a message with a stream: sends everything from `output` as it comes, and at the end the whole text
/// as the result. `reply_stream` is the address that came with the message; it is also the credential.
pub async fn reply(reply_stream: &str, output: mpsc::Receiver<String>) -> Result<(), ClientError> {
    reply_by(None, reply_stream, output).await
}

/// Answers a message with a stream, within `reach`. `None` allows every address, for one that a person typed.
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
    // A failed write means that the reader has gone. `end` reports the outcome.
    growing.say(&ReplyLine::Done { result: whole.into() }).await;
    growing.end().await
}

/// A streamed answer in progress.
#[derive(Debug)]
pub(crate) struct Growing {
    lines: mpsc::Sender<Result<Bytes, std::io::Error>>,
    request: JoinHandle<Result<(), ClientError>>,
}

impl Growing {
    /// Opens the stream. A missing reader is noticed at the first write.
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

    /// Writes one line. Returns `false` if the reader has gone.
    pub(crate) async fn say(&self, said: &ReplyLine) -> bool {
        self.lines.send(Ok(line(said))).await.is_ok()
    }

    /// Ends the stream and returns its outcome.
    pub(crate) async fn end(self) -> Result<(), ClientError> {
        drop(self.lines);
        self.request.await.unwrap_or(Err(ClientError::Lost("the answer was broken off")))
    }
}

/// Serializes one line of a reply, with its line break.
pub(crate) fn line(said: &ReplyLine) -> Bytes {
    format!("{}\n", json!(said)).into()
}
