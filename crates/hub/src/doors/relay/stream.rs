//! Streaming: the receiver's output, relayed to the sender as it comes.
//!
//! From an endpoint it is the server-sent events the POST is answered with. From an inbox it is what the receiver
//! POSTs, as lines of JSON, to the `reply_stream` address that came with the message, so that streaming works without
//! a public address. Either way the last event decides the outcome, the outcome is recorded before that event goes
//! out, and nothing is read faster than the sender takes it: there is no queue to overflow.

use super::success;
use crate::doors::answers::{Overloaded, TooFast};
use crate::error::ApiError;
use crate::route::{Credentials, Grant, Route};
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use chorus_app::caller::is_key_of;
use chorus_app::delivery::limits::Slot;
use chorus_app::delivery::outbound::{PostError, Signed, To};
use chorus_app::delivery::replies::{Last, Line, MAX_STREAM};
use chorus_app::{App, AppState};
use chorus_protocol::ids::AgentId;
use chorus_protocol::json;
use chorus_protocol::relay::{Code, Delivery, Failure, Outcome, Success};
use chorus_protocol::sse::{self, Item, Parser};
use chorus_store::directory::KeyHash;
use chorus_store::relay::Pending;
use chorus_store::{StoreError, Tx, revocation};
use futures_util::stream;
use http_body_util::BodyExt;
use serde::Serialize;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

/// Where a receiver answers with a stream: at an address that we signed.
pub(super) const REPLIES: Route = Route {
    credentials: Credentials::Ignored,
    grant: Some(Grant { purpose: "answers", read: agent_of }),
    keeps_time: true,
    ..Route::RELAY
};

fn agent_of(app: &App, request: &Request) -> Option<AgentId> {
    let token = request.uri().path().rsplit('/').next()?;
    Some(app.config.master_key.read_reply_token(token)?.0)
}

/// The most a receiver may say in one stream.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// The longest line of a reply.
const MAX_LINE: usize = 256 * 1024;
/// The most of a result that is kept for a sender that asks again.
const MAX_KEPT: usize = 64 * 1024;
/// Frames between the receiver's output and the sender's connection.
const AHEAD: usize = 4;

/// Why a stream ended without a last word of the receiver.
struct Broken {
    code: Code,
    why: String,
}

impl Broken {
    fn new(code: Code, why: impl ToString) -> Self {
        Self { code, why: why.to_string() }
    }
}

impl From<PostError> for Broken {
    fn from(error: PostError) -> Self {
        Self::new(error.code(), error)
    }
}

/// Who is told what the receiver says, as long as what it showed is good.
pub(super) struct Sender {
    app: AppState,
    id: AgentId,
    /// None for the operator, whose key is replaced by a restart only.
    key: Option<KeyHash>,
    revocations: watch::Receiver<i64>,
    doubted: bool,
}

impl Sender {
    pub(super) fn new(app: &AppState, id: AgentId, key: Option<KeyHash>) -> Self {
        // It may have lost its key since it was let in.
        Self { revocations: app.revocations(id), app: Arc::clone(app), id, key, doubted: key.is_some() }
    }

    /// The next of what is said to it; nothing at the end, nor once it is not let in any more.
    async fn hear(&mut self, said: &mut mpsc::Receiver<Bytes>) -> Option<Bytes> {
        loop {
            if let Some(key) = self.key.filter(|_| self.doubted) {
                is_key_of(&self.app, key, self.id).await.ok().filter(|good| *good)?;
            }
            tokio::select! {
                biased;
                changed = self.revocations.changed() => {
                    changed.ok()?;
                    self.doubted = true;
                }
                said = timeout(self.app.config.times.ping, said.recv()) => {
                    self.doubted = false;
                    return said.unwrap_or_else(|_| Some(Bytes::from_static(sse::PING)));
                }
            }
        }
    }
}

/// Where a receiver's output comes from.
pub(super) enum Source {
    /// The endpoint, which gets the message now, and the sender's place, which is held to the end.
    Endpoint(Box<(To, Signed)>, Option<Slot>),
    /// The receiver's POST to the reply address.
    Reply(mpsc::Receiver<Line>),
}

/// Relays the receiver's output to the sender. The work goes on in a task of its own, so that the outcome is
/// recorded even if the sender hangs up, or is not let in any more.
pub(super) fn answer(app: &AppState, pending: Pending, source: Source, sender: Sender) -> Response {
    let (frames, taken) = mpsc::channel(AHEAD);
    let trace = pending.trace.to_string();
    app.tasks.spawn(run(Arc::clone(app), pending, source, frames));
    let body = Body::from_stream(stream::unfold((taken, sender), |(mut taken, mut sender)| async move {
        let frame = sender.hear(&mut taken).await?;
        Some((Ok::<_, Infallible>(frame), (taken, sender)))
    }));
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
        (HeaderName::from_static("x-chorus-trace-id"), trace.as_str()),
    ];
    (headers, body).into_response()
}

async fn run(app: AppState, pending: Pending, source: Source, frames: mpsc::Sender<Bytes>) {
    let relayed = match source {
        Source::Endpoint(posting, _place) => {
            let (to, message) = *posting;
            timeout(MAX_STREAM, from_endpoint(&app, &to, message, &frames)).await
        }
        Source::Reply(lines) => timeout(MAX_STREAM, from_reply(&app, lines, &frames)).await,
    };
    let relayed = relayed.unwrap_or_else(|_| Err(Broken::new(Code::Timeout, "the stream lasted too long")));
    let mut outcome = Outcome {
        delivery: Delivery::Delivered,
        receiver_response: None,
        error_code: None,
        detail: None,
        trace_id: Some(pending.trace),
    };
    let last = match relayed {
        Ok(Last::Done(data)) => {
            outcome.receiver_response = Some(kept(&data));
            sse::encode("done", None, &data)
        }
        Ok(Last::Error(data)) => {
            outcome.delivery = Delivery::Failed;
            outcome.error_code = Some(Code::AgentUnreachable.as_str().into());
            outcome.detail = Some(format!(
                "the receiver reported an error: {}",
                data.chars().take(500).collect::<String>()
            ));
            sse::encode("error", None, &data)
        }
        Err(Broken { code, why }) => {
            outcome.delivery = Delivery::Failed;
            outcome.error_code = Some(code.as_str().into());
            outcome.detail = Some(why.clone());
            let data = json!({"code": code.as_str(), "message": why, "trace_id": pending.trace});
            sse::encode("error", None, &data.to_string())
        }
    };
    super::send::record(&app, pending, &outcome).await;
    app.metrics.delivery(outcome.delivery.as_str());
    // A sender that has gone learns it from the history of what it asked, or by asking again with the same key.
    drop(frames.send(last.into()).await);
}

/// A result as it is kept: JSON if it is, text otherwise, and not too much of either.
fn kept(data: &str) -> Value {
    if data.len() > MAX_KEPT {
        return Value::String(format!("a result of {} bytes, too large to keep", data.len()));
    }
    json::parse(data.as_bytes()).unwrap_or_else(|_| Value::String(data.replace('\0', "")))
}

async fn relay_chunk(frames: &mpsc::Sender<Bytes>, data: &str) -> Result<(), Broken> {
    let frame = sse::encode("chunk", None, data).into();
    frames
        .send(frame)
        .await
        .map_err(|_| Broken::new(Code::AgentUnreachable, "the sender left before the end of the stream"))
}

/// Reads the events an endpoint answers with, up to the last one.
async fn from_endpoint(
    app: &App,
    to: &To,
    message: Signed,
    frames: &mpsc::Sender<Bytes>,
) -> Result<Last, Broken> {
    let mut answer = app.outbound.open(to, message).await?;
    if !answer.is_event_stream() {
        // A receiver that knows no streaming has said everything at once.
        return Ok(Last::Done(app.outbound.finish(answer).await?.to_string()));
    }
    let (mut parser, mut bytes) = (Parser::new(), 0);
    while let Some(piece) = app.outbound.piece(&mut answer).await? {
        bytes += piece.len();
        if bytes > MAX_BYTES {
            return Err(Broken::new(Code::AgentUnreachable, "the receiver said more than a stream may hold"));
        }
        for item in parser.push(&piece).map_err(|error| Broken::new(Code::AgentUnreachable, error))? {
            let Item::Event(event) = item else { continue };
            match event.event.as_str() {
                "chunk" => relay_chunk(frames, &event.data).await?,
                "done" => return Ok(Last::Done(event.data)),
                "error" => return Ok(Last::Error(event.data)),
                _ => {}
            }
        }
    }
    Err(Broken::new(Code::AgentUnreachable, "the receiver's stream ended without done or error"))
}

/// Takes the lines of the receiver's reply, up to the last one.
async fn from_reply(
    app: &App,
    mut lines: mpsc::Receiver<Line>,
    frames: &mpsc::Sender<Bytes>,
) -> Result<Last, Broken> {
    let patience = app.config.times.reply;
    loop {
        let line = timeout(patience, lines.recv()).await;
        let late = || {
            Broken::new(
                Code::Timeout,
                format_args!("the receiver said nothing for {} s", patience.as_secs_f64()),
            )
        };
        match line.map_err(|_| late())? {
            Some(Line::Chunk(data)) => relay_chunk(frames, &data).await?,
            Some(Line::Last(last)) => return Ok(last),
            Some(Line::Malformed(why)) => return Err(Broken::new(Code::AgentUnreachable, why)),
            None => {
                return Err(Broken::new(
                    Code::AgentUnreachable,
                    "the receiver's reply ended without done or error",
                ));
            }
        }
    }
}

/// Answer a message with a stream
///
/// The address comes with a message whose sender wants to see the answer as it is made: `reply_stream`. The body is
/// lines of JSON: `{"type": "chunk", "text": "…"}` as often as you like, then `{"type": "done", "result": …}` or
/// `{"type": "error", "code": "…", "message": "…"}`. It can be used once and must be begun within 120 s; the address is
/// the credential. The body is read as fast as the sender takes it.
#[utoipa::path(post, path = "/agent/replies/{token}", tag = "relay",
    params(("token" = String, Path, description = "From `reply_stream`")),
    request_body(content_type = "application/x-ndjson", content = String),
    responses((status = 200, description = "The sender has it all", body = Success<Replied>),
              (status = 400, description = "`ERR_VALIDATION`: a line is wrong, or the last one is missing", body = Failure),
              (status = 404, description = "`ERR_NOT_FOUND`: unknown, used, too late, or the sender has gone", body = Failure),
              (status = 408, description = "`ERR_REQUEST_TIMEOUT`: no line for too long", body = Failure),
              TooFast, Overloaded))]
pub(crate) async fn reply(
    State(app): State<AppState>,
    Path(token): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let gone = || {
        ApiError::new(
            Code::NotFound,
            "nobody waits for this reply: it was used, came too late, or its sender has gone",
        )
    };
    let (agent, seq) = app.config.master_key.read_reply_token(&token).ok_or_else(gone)?;
    // Followed before it is taken: whatever was taken back before has nobody waiting any more.
    let (mut revocations, stream) = (app.revocations(agent), revocation::stream(agent));
    let begun = app.store.read::<_, StoreError, _>(move |tx: &mut dyn Tx| tx.head(stream)).await?;
    let listener = app.replies.take(agent, seq).ok_or_else(gone)?;
    let mut lines =
        Lines { body, buffer: BytesMut::new(), read: 0, number: 0, patience: app.config.times.reply };
    loop {
        let line = tokio::select! {
            biased;
            _ = revocations.wait_for(|head| *head > begun) => return Err(gone()),
            line = lines.next() => line,
        };
        let said = match line {
            Ok(Some(said)) => said,
            Ok(None) => {
                return Err(ApiError::validation("the last line must be of type done or error"));
            }
            Err(error) => {
                // The sender is told too; whether it still listens does not matter any more.
                drop(listener.send(Line::Malformed(error.message.clone())).await);
                return Err(error);
            }
        };
        let last = matches!(said, Line::Last(_));
        listener.send(said).await.map_err(|_| gone())?;
        if last {
            return Ok(success(&app, StatusCode::OK, Replied { status: "ok" }));
        }
    }
}

/// The answer to a reply.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct Replied {
    /// Always `ok`.
    status: &'static str,
}

/// The lines of a reply, as they come in.
struct Lines {
    body: Body,
    buffer: BytesMut,
    read: usize,
    number: usize,
    patience: Duration,
}

impl Lines {
    async fn next(&mut self) -> Result<Option<Line>, ApiError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end + 1);
                if let Some(said) = self.line(&line)? {
                    return Ok(Some(said));
                }
                continue;
            }
            if self.buffer.len() > MAX_LINE || self.read > MAX_BYTES {
                return Err(ApiError::validation(format_args!(
                    "line {}: a line may hold {MAX_LINE} bytes and a reply {MAX_BYTES}",
                    self.number + 1
                )));
            }
            let late = |_| ApiError::new(Code::RequestTimeout, "the next line did not arrive in time");
            let Some(frame) = timeout(self.patience, self.body.frame()).await.map_err(late)? else {
                let rest = self.buffer.split();
                return self.line(&rest);
            };
            let frame = frame.map_err(|_| ApiError::validation("the reply broke off"))?;
            if let Ok(data) = frame.into_data() {
                self.read += data.len();
                self.buffer.extend_from_slice(&data);
            }
        }
    }

    /// One line; an empty one says nothing.
    fn line(&mut self, line: &[u8]) -> Result<Option<Line>, ApiError> {
        self.number += 1;
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(None);
        }
        let fault = |what: String| ApiError::validation(format_args!("line {}: {what}", self.number));
        let value = json::parse(line).map_err(|error| fault(error.to_string()))?;
        let text = |name: &str| {
            value[name].as_str().map(str::to_owned).ok_or_else(|| fault(format!("{name}: must be a string")))
        };
        Ok(Some(match value["type"].as_str() {
            Some("chunk") => Line::Chunk(json!({"text": text("text")?}).to_string()),
            Some("done") => Line::Last(Last::Done(json!({"result": value["result"]}).to_string())),
            Some("error") => {
                let data = json!({"code": text("code")?, "message": text("message")?});
                Line::Last(Last::Error(data.to_string()))
            }
            _ => return Err(fault("type: must be chunk, done or error".into())),
        }))
    }
}
