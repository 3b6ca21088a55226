//! Relays a receiver's streamed answer to the sender.
//!
//! An endpoint answers the POST with server-sent events. A receiver with an inbox POSTs lines of JSON to the
//! `reply_stream` address that came with the message (`reply`), so that streaming works without a public
//! address. A connection string answers by its callback and a harness by its reply. The last event decides the
//! outcome, and the outcome is recorded before that event goes out. Nothing is read faster than the sender
//! takes it, so no queue can overflow.

use super::outcome::{delivered, failed, record};
use super::post::answer_to;
use bytes::Bytes;
use chorus_node::authentication::is_key_of;
use chorus_node::transport::outbound::{PostError, Signed, To};
use chorus_node::transport::outbound_limits::Slot;
use chorus_node::transport::replies::{Last, Line, MAX_STREAM};
use chorus_node::{App, AppState};
use chorus_protocol::code::Code;
use chorus_protocol::ids::{AgentId, DeliveryId, TraceId};
use chorus_protocol::json;
use chorus_protocol::relay::{Outcome, ReplyKind};
use chorus_protocol::sse::{self, Item, Parser};
use chorus_store::directory::KeyHash;
use chorus_store::relay::Pending;
use chorus_store::reply_lines::{self, SaidLine};
use chorus_store::{StoreError, StreamKey, Tx};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

/// Bytes that a receiver may send in one stream.
pub(super) const MAX_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of a result that are kept for a repeated request.
const MAX_KEPT: usize = 64 * 1024;
/// Frames between the receiver's output and the sender's connection.
const AHEAD: usize = 4;

/// The reason why a stream ended without a last event from the receiver.
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

/// A sender's stream of the receiver's answer as server-sent events. It ends when the sender's credential is
/// revoked.
pub struct Listener {
    /// The trace of the answered message.
    pub trace: TraceId,
    app: AppState,
    id: AgentId,
    /// `None` for the operator, whose key changes only with a restart.
    key: Option<KeyHash>,
    revocations: watch::Receiver<i64>,
    doubted: bool,
    frames: mpsc::Receiver<Bytes>,
}

impl Listener {
    /// Relays the receiver's output to the sender. A task of its own does the work, so that the outcome is
    /// recorded even if the sender hangs up or loses access.
    pub(super) fn new(
        app: &AppState,
        id: AgentId,
        key: Option<KeyHash>,
        pending: Pending,
        output: Output,
    ) -> Self {
        let (said, frames) = mpsc::channel(AHEAD);
        let (trace, revocations) = (pending.trace, app.revocations(id));
        app.tasks.tracker.spawn(run(Arc::clone(app), pending, output, said));
        // The key may have been revoked since it was checked.
        Self { trace, app: Arc::clone(app), id, key, revocations, doubted: key.is_some(), frames }
    }

    /// Returns the next event, or `None` at the end of the stream or after the sender lost access.
    pub async fn next(&mut self) -> Option<Bytes> {
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
                said = timeout(self.app.config.times.ping, self.frames.recv()) => {
                    self.doubted = false;
                    return said.unwrap_or_else(|_| Some(Bytes::from_static(sse::PING)));
                }
            }
        }
    }
}

/// The source of a receiver's output.
pub(super) enum Output {
    /// The endpoint, which gets the message now. The sender's slot is held until the end.
    Endpoint(Box<(To, Signed)>, Option<Slot>),
    /// The receiver's POST to the reply address, on this node or on another.
    Reply(mpsc::Receiver<Line>),
    /// The receiver's callback, after it took the message that is POSTed now. The sender's slot is held until
    /// the end.
    Callback(Box<(To, Signed)>, Option<Slot>),
}

async fn run(app: AppState, pending: Pending, output: Output, frames: mpsc::Sender<Bytes>) {
    let to = DeliveryId { agent: pending.receiver.id, seq: pending.seq };
    let is_reply = !matches!(output, Output::Endpoint(..));
    let relayed = match output {
        Output::Endpoint(posting, _place) => {
            let (to, message) = *posting;
            timeout(MAX_STREAM, from_endpoint(&app, &to, message, &frames)).await
        }
        Output::Reply(lines) => timeout(MAX_STREAM, from_reply(&app, to, Some(lines), &frames)).await,
        Output::Callback(posting, _place) => {
            let (agent, message) = *posting;
            let said = async {
                answer_to(&app, &pending, &agent, message).await?;
                from_reply(&app, to, None, &frames).await
            };
            timeout(MAX_STREAM, said).await
        }
    };
    let relayed = relayed.unwrap_or_else(|_| Err(Broken::new(Code::Timeout, "the stream lasted too long")));
    let relayed = if is_reply { stop_waiting(&app, to, relayed).await } else { relayed };
    let (outcome, last) = match relayed {
        Ok(Last::Done(data)) => {
            let outcome = Outcome { receiver_response: Some(kept(&data)), ..delivered(&pending) };
            (outcome, sse::encode(ReplyKind::Done.as_str(), None, &data))
        }
        Ok(Last::Error(data)) => {
            let start: String = data.chars().take(500).collect();
            let why = format!("the receiver reported an error: {start}");
            (
                failed(&pending, Code::AgentUnreachable, why),
                sse::encode(ReplyKind::Error.as_str(), None, &data),
            )
        }
        Err(Broken { code, why }) => {
            let data = json!({"code": code.as_str(), "message": why, "trace_id": pending.trace});
            (failed(&pending, code, why), sse::encode(ReplyKind::Error.as_str(), None, &data.to_string()))
        }
    };
    record(&app, pending, &outcome).await;
    app.telemetry.metrics.delivery(outcome.delivery.as_str());
    // A sender that hung up can read the outcome from its history, or repeat the request with the same
    // idempotency key.
    drop(frames.send(last.into()).await);
}

/// Returns a result as stored: parsed as JSON if possible, otherwise as text, and cut to the limit.
fn kept(data: &str) -> Value {
    if data.len() > MAX_KEPT {
        return Value::String(format!("a result of {} bytes, too large to keep", data.len()));
    }
    json::parse(data.as_bytes()).unwrap_or_else(|_| Value::String(data.replace('\0', "")))
}

async fn relay_chunk(frames: &mpsc::Sender<Bytes>, data: &str) -> Result<(), Broken> {
    let frame = sse::encode(ReplyKind::Chunk.as_str(), None, data).into();
    frames
        .send(frame)
        .await
        .map_err(|_| Broken::new(Code::AgentUnreachable, "the sender left before the end of the stream"))
}

/// Reads the events of an endpoint's response, up to the last one.
async fn from_endpoint(
    app: &App,
    to: &To,
    message: Signed,
    frames: &mpsc::Sender<Bytes>,
) -> Result<Last, Broken> {
    let mut answer = app.transport.outbound.open(to, message).await?;
    if !answer.is_event_stream() {
        // A receiver without streaming has answered in one piece.
        return Ok(Last::Done(app.transport.outbound.finish(answer).await?.to_string()));
    }
    let (mut parser, mut bytes) = (Parser::new(), 0);
    while let Some(piece) = app.transport.outbound.piece(&mut answer).await? {
        bytes += piece.len();
        if bytes > MAX_BYTES {
            return Err(Broken::new(Code::AgentUnreachable, "the receiver said more than a stream may hold"));
        }
        for item in parser.push(&piece).map_err(|error| Broken::new(Code::AgentUnreachable, error))? {
            let Item::Event(event) = item else { continue };
            match ReplyKind::parse(&event.event) {
                Some(ReplyKind::Chunk) => relay_chunk(frames, &event.data).await?,
                Some(ReplyKind::Done) => return Ok(Last::Done(event.data)),
                Some(ReplyKind::Error) => return Ok(Last::Error(event.data)),
                None => {}
            }
        }
    }
    Err(Broken::new(Code::AgentUnreachable, "the receiver's stream ended without done or error"))
}

/// Reads the lines of the receiver's reply, up to the last one: lines posted on this node, and stored lines
/// from other nodes.
async fn from_reply(
    app: &App,
    to: DeliveryId,
    mut here: Option<mpsc::Receiver<Line>>,
    frames: &mpsc::Sender<Bytes>,
) -> Result<Last, Broken> {
    let patience = app.config.times.reply;
    // Subscribes before the first read, so that no line in between is missed.
    let mut written = app.transport.live.follow(StreamKey::replies(to.agent)).0;
    let mut last_line = 0;
    // Replies of the same receiver to others wake this loop too, so only lines of this answer reset the
    // timeout.
    let silence = sleep(patience);
    tokio::pin!(silence);
    loop {
        written.mark_unchanged();
        for SaidLine { line, kind, data } in read_lines(app, to, &mut last_line).await? {
            tracing::trace!(line, "a line of a reply");
            match ReplyKind::parse(&kind) {
                Some(ReplyKind::Chunk) => relay_chunk(frames, &data).await?,
                Some(ReplyKind::Done) => return Ok(Last::Done(data)),
                Some(ReplyKind::Error) => return Ok(Last::Error(data)),
                // A sign of life without content.
                None => {}
            }
            silence.set(sleep(patience));
        }
        let said = async {
            match &mut here {
                Some(lines) => lines.recv().await,
                None => std::future::pending().await,
            }
        };
        let said = tokio::select! {
            changed = written.changed() => {
                changed.map_err(|_| Broken::new(Code::AgentUnreachable, "the hub stops"))?;
                continue;
            }
            () = &mut silence => {
                let late = format_args!("the receiver said nothing for {} s", patience.as_secs_f64());
                return Err(Broken::new(Code::Timeout, late));
            }
            said = said => said,
        };
        match said {
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
        silence.set(sleep(patience));
    }
}

/// Takes the stored lines after the last one, which makes room for more.
async fn read_lines(app: &App, to: DeliveryId, last: &mut i64) -> Result<Vec<SaidLine>, Broken> {
    let after = *last;
    let read = move |tx: &mut dyn Tx| reply_lines::after(tx, to, after);
    let broken = |error: StoreError| Broken::new(Code::AgentUnreachable, error);
    let said = app.store.read::<_, StoreError, _>(read).await.map_err(broken)?;
    if let Some(newest) = said.last() {
        let line = newest.line;
        *last = line;
        let took = move |tx: &mut dyn Tx| reply_lines::took(tx, to, line);
        app.store.write::<_, StoreError, _>(took).await.map_err(broken)?;
    }
    Ok(said)
}

/// Stops waiting. A last line that arrived meanwhile counts, because the receiver was told that it was
/// accepted.
async fn stop_waiting(app: &App, to: DeliveryId, relayed: Result<Last, Broken>) -> Result<Last, Broken> {
    let stop = move |tx: &mut dyn Tx| {
        let said = reply_lines::after(tx, to, 0)?;
        reply_lines::end(tx, to)?;
        Ok(said)
    };
    let said = match app.store.write::<_, StoreError, _>(stop).await {
        Ok(said) => said,
        Err(error) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "a reply is waited for until its lease ends"
            );
            vec![]
        }
    };
    relayed.or_else(|broken| {
        let last = said.into_iter().filter(|said| !said.data.is_empty()).find_map(|said| {
            match ReplyKind::parse(&said.kind)? {
                ReplyKind::Done => Some(Last::Done(said.data)),
                ReplyKind::Error => Some(Last::Error(said.data)),
                ReplyKind::Chunk => None,
            }
        });
        last.ok_or(broken)
    })
}
