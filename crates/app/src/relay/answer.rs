//! Answers as they come: the receiver's output, relayed to the sender.
//!
//! From an endpoint it is the server-sent events the POST is answered with. From an inbox it is what the receiver
//! POSTs, as lines of JSON, to the `reply_stream` address that came with the message (`reply`), so that streaming works
//! without a public address; from a connection string it is what the receiver says by its callback, from a harness what it sends in reply. Either way the last event decides the outcome, the outcome is recorded before that event goes
//! out, and nothing is read faster than the sender takes it: there is no queue to overflow.

use super::outcome::{delivered, failed, record};
use super::post::answer_to;
use crate::app::{App, AppState};
use crate::authenticate::is_key_of;
use crate::transport::limits::Slot;
use crate::transport::outbound::{PostError, Signed, To};
use crate::transport::replies::{Last, Line, MAX_STREAM};
use bytes::Bytes;
use chorus_protocol::code::Code;
use chorus_protocol::ids::{AgentId, DeliveryId, TraceId};
use chorus_protocol::json;
use chorus_protocol::relay::{Outcome, ReplyKind};
use chorus_protocol::sse::{self, Item, Parser};
use chorus_store::directory::KeyHash;
use chorus_store::relay::Pending;
use chorus_store::reply_lines::{self, SaidLine};
use chorus_store::{StoreError, Tx};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

/// The most a receiver may say in one stream.
pub(super) const MAX_BYTES: usize = 16 * 1024 * 1024;
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

/// A sender that hears what the receiver says, as server-sent events, as long as what it showed is good.
pub struct Listener {
    /// Of the message that is answered.
    pub trace: TraceId,
    app: AppState,
    id: AgentId,
    /// None for the operator, whose key is replaced by a restart only.
    key: Option<KeyHash>,
    revocations: watch::Receiver<i64>,
    doubted: bool,
    frames: mpsc::Receiver<Bytes>,
}

impl Listener {
    /// Relays the receiver's output to the sender. The work goes on in a task of its own, so that the outcome is
    /// recorded even if the sender hangs up, or is not let in any more.
    pub(super) fn new(
        app: &AppState,
        (id, key): (AgentId, Option<KeyHash>),
        pending: Pending,
        output: Output,
    ) -> Self {
        let (said, frames) = mpsc::channel(AHEAD);
        let (trace, revocations) = (pending.trace, app.revocations(id));
        app.tasks.spawn(run(Arc::clone(app), pending, output, said));
        // It may have lost its key since it was let in.
        Self { trace, app: Arc::clone(app), id, key, revocations, doubted: key.is_some(), frames }
    }

    /// The next of what is said to it; nothing at the end, nor once it is not let in any more.
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

/// Where a receiver's output comes from.
pub(super) enum Output {
    /// The endpoint, which gets the message now, and the sender's place, which is held to the end.
    Endpoint(Box<(To, Signed)>, Option<Slot>),
    /// The receiver's POST to the reply address, on this node or on another.
    Reply(mpsc::Receiver<Line>),
    /// What the receiver says by its callback, once it took the message that it gets now; and the sender's place.
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
    let frame = sse::encode(ReplyKind::Chunk.as_str(), None, data).into();
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

/// Takes the lines of the receiver's reply, up to the last one: those that are said on this node, and those that are written
/// down.
async fn from_reply(
    app: &App,
    to: DeliveryId,
    mut here: Option<mpsc::Receiver<Line>>,
    frames: &mpsc::Sender<Bytes>,
) -> Result<Last, Broken> {
    let patience = app.config.times.reply;
    // Followed before the first look, so that nothing in between goes unnoticed.
    let mut written = app.live.follow(reply_lines::stream(to.agent)).0;
    let mut last_line = 0;
    // What others are answered by the same receiver moves its stream, and tells nothing of this answer.
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
                // It lives.
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

/// What was written down since, which makes room for more.
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

/// Nobody waits any more. A last word that came meanwhile counts: whoever said it was told that it was heard.
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
