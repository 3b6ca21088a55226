//! Callbacks: an agent's events about a message it was sent, posted without a key to the address that came
//! with the message.
//!
//! The address is bound to one delivery. It expires after a day, when the agent leaves the conversation, and
//! with any change of the ways to reach the agent. Each event is a transaction of its own: if a line of a body
//! is invalid, the lines before it stay recorded.

use crate::attention::dispositions;
use crate::conversation::{go_on, masked, post_in, put, stop_work, version};
use crate::market::results::{self, WorkerReport};
use crate::relay::{EnvelopeAnswer, answer_envelope, say_to_listener};
use bytes::Bytes;
use chorus_attention::disposition::Cause;
use chorus_node::Error;
use chorus_node::caller::disabled;
use chorus_node::idempotency::{Done, Once};
use chorus_node::limits::body_budget::BodyLease;
use chorus_node::secrets::CallbackToken;
use chorus_node::transport::body_lines::{Bounds, Lines};
use chorus_node::{App, AppState};
use chorus_protocol::api::documents::Slug;
use chorus_protocol::channel::{CallbackEvent, Lifecycle, MAX_BODY, MAX_CONTENT, MAX_EVENTS};
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AgentId, ConversationId, DeliveryId, EventId};
use chorus_protocol::redact::Masked;
use chorus_protocol::relay::ReplyLine;
use chorus_protocol::words::{ConversationKind, EventKind, EventSource};
use chorus_store::Tx;
use chorus_store::artifacts;
use chorus_store::conversation::{self, Act, ConversationError, NewArtifact, Post};
use chorus_store::conversations::{self, Event};
use chorus_store::deliveries;
use chorus_store::directory::{self, Agent};
use chorus_store::growing::{self, NewPiece};
use chorus_store::obligations;
use futures_util::Stream;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::{Arc, OnceLock};
use tokio::runtime::Handle;

/// The lifetime of an address.
const LIFE_MS: i64 = 24 * 60 * 60 * 1000;
/// The most bytes of all lines of one body.
const MAX_LINES_BODY: usize = 16 * 1024 * 1024;

/// The events are recorded.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Recorded {
    /// Always `true`.
    ok: bool,
    /// The recorded events, in order.
    #[schema(value_type = Vec<String>, example = json!(["evt_0190a3c4d5e67f8090a1b2c3d4e5f607"]))]
    events: Vec<EventId>,
    /// The kinds of credentials that were masked in the events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    masked: Vec<String>,
    /// The mentioned names that belong to no member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<String>,
}

impl Recorded {
    fn of(event: EventId) -> Self {
        Self { ok: true, events: vec![event], masked: vec![], unknown: vec![] }
    }

    /// Adds the events that are already recorded to an error that ends the body.
    fn so_far(&self, error: Error) -> Error {
        let recorded: Vec<_> = self.events.iter().map(EventId::to_string).collect();
        error.details(json!({"recorded": recorded}))
    }
}

/// The address of a callback: one delivery in one conversation.
#[derive(Debug, Clone, Copy)]
pub struct CallbackAddress {
    conversation: ConversationId,
    token: CallbackToken,
}

impl CallbackAddress {
    /// Returns the delivery that the address is bound to.
    pub fn delivery(&self) -> DeliveryId {
        self.token.delivery
    }
}

/// Returns the agent of a callback token. Returns `None` if this hub did not sign the token.
pub fn agent_of(app: &App, token: &str) -> Option<AgentId> {
    Some(app.config.master_key.read_callback_token(token)?.delivery.agent)
}

/// Returns the address that a conversation and a token make. Fails if it is expired.
pub fn address(app: &App, conversation: &str, token: &str) -> Result<CallbackAddress, Error> {
    let token = app.config.master_key.read_callback_token(token);
    let (conversation, token) = ConversationId::parse(conversation).zip(token).ok_or_else(unknown)?;
    if app.now() >= token.made_at + LIFE_MS {
        return Err(gone("a callback takes events for 24 hours after it was given out"));
    }
    Ok(CallbackAddress { conversation, token })
}

/// Records one event of an agent. Messages go through the same act as those of any member.
pub async fn take(
    app: &AppState,
    address: CallbackAddress,
    body: &[u8],
    once: Once,
) -> Result<Done<Recorded>, Error> {
    let CallbackAddress { conversation, token } = address;
    let event = CallbackEvent::read(body)?;
    let document = document_of(&event)?;
    let told = results::parse_report(app, token.delivery, &event).await?;
    let (delivery, is_message) = (token.delivery, matches!(event, CallbackEvent::Message { .. }));
    let answer = Answer {
        // The id is made outside the transaction, which may be retried.
        id: EventId(app.environment.uuid_v7()),
        event,
        document,
        told,
        runtime: Handle::current(),
        now: app.now(),
        app: Arc::clone(app),
        conversation,
        token,
    };
    // A repeated request gets the first answer only if the agent may still answer.
    let may = move |tx: &mut dyn Tx| {
        answered(tx, delivery, conversation)?;
        answering(tx, &token).map(drop)
    };
    let (hub, counted) = (Arc::clone(app), OnceLock::new());
    let work = move |tx: &mut dyn Tx| {
        // Counted only for the conversation of the delivery, and not for a repeated request. The cell keeps
        // the decision when the transaction is retried.
        if is_message {
            answered(tx, delivery, conversation)?;
            counted.get_or_init(|| hub.limits.may_say(delivery.agent.into(), conversation, 1)).clone()?;
        }
        answer.record(tx)
    };
    app.once(once, may, work).await
}

/// Records the events of an agent line by line, as they arrive. With an idempotency key, lines recorded before
/// are recognized by their number.
pub async fn take_lines<B, E>(
    app: &AppState,
    address: CallbackAddress,
    body: B,
    lease: BodyLease,
    key: Option<&str>,
) -> Result<Recorded, Error>
where
    B: Stream<Item = Result<Bytes, E>> + Unpin,
{
    let bounds = Bounds { line: MAX_BODY, body: MAX_LINES_BODY, patience: app.config.times.reply };
    let mut lines = Lines::new(body, bounds, lease);
    let mut all = Recorded { ok: true, events: vec![], masked: vec![], unknown: vec![] };
    let mut count = 0;
    loop {
        let line = lines.next().await.map_err(|error| all.so_far(error))?;
        let Some(line) = line else { break };
        let number = lines.number();
        let fault = |mut error: Error| {
            error.message = format!("line {number}: {}", error.message);
            error
        };
        count += 1;
        if count > MAX_EVENTS {
            let many = Faults::one("body", format_args!("must hold at most {MAX_EVENTS} events"));
            return Err(all.so_far(fault(many.into())));
        }
        let key = key.map(|key| format!("{key} {number}"));
        let once = Once::new(app, "api", &address.delivery(), "callback", key.as_deref(), &line);
        let done = take(app, address, &line, once).await.map_err(|error| all.so_far(fault(error)))?;
        let Recorded { events, masked, unknown, .. } = done.result;
        // The chunks of one message share an id.
        all.events.extend(events.into_iter().filter(|id| all.events.last() != Some(id)).collect::<Vec<_>>());
        all.masked.extend(masked);
        all.unknown.extend(unknown);
    }
    if count == 0 {
        return Err(Faults::one("body", "must hold at least one event").into());
    }
    for names in [&mut all.masked, &mut all.unknown] {
        names.sort_unstable();
        names.dedup();
    }
    Ok(all)
}

fn unknown() -> Error {
    Error::new(
        Code::NotFound,
        "there is no such callback; post to the one that came with the message, as it is",
    )
}

fn gone(why: &str) -> Error {
    Error::new(Code::Gone, why)
}

/// Returns the event of a delivery. Fails if it belongs to another conversation.
fn answered(tx: &mut dyn Tx, delivery: DeliveryId, conversation: ConversationId) -> Result<Event, Error> {
    let sent = deliveries::event_of(tx, delivery)?.ok_or_else(unknown)?;
    let Some(sent) = conversations::event_by_id(tx, sent)? else {
        return Err(gone("the message this answers is not kept any more"));
    };
    if sent.conversation == conversation { Ok(sent) } else { Err(unknown()) }
}

/// Returns the agent that a token was given to. Fails if the token is no longer valid.
fn answering(tx: &mut dyn Tx, token: &CallbackToken) -> Result<Agent, Error> {
    let agent = directory::by_id(tx, token.delivery.agent)?;
    let agent = agent.ok_or_else(|| gone("the agent is not registered any more"))?;
    if agent.epoch != token.epoch {
        return Err(gone(
            "the agent's key or connection was replaced since; newer messages carry valid callbacks",
        ));
    }
    if agent.disabled_at.is_some() {
        return Err(disabled("agent"));
    }
    Ok(agent)
}

/// An event to be recorded.
struct Answer {
    app: AppState,
    runtime: Handle,
    conversation: ConversationId,
    token: CallbackToken,
    id: EventId,
    event: CallbackEvent,
    /// The new document version, if the event carries one.
    document: Option<NewArtifact>,
    /// The report about a job, if the event carries one.
    told: Option<WorkerReport>,
    now: i64,
}

impl Answer {
    fn record(&self, tx: &mut dyn Tx) -> Result<Recorded, Error> {
        let sent = answered(tx, self.token.delivery, self.conversation)?;
        let agent = answering(tx, &self.token)?;
        let source = sent.kind.source();
        if self.document.is_some() && matches!(source, EventSource::Envelope | EventSource::Job) {
            let what = "a document is put into a conversation, and what this answers came from none";
            return Err(Faults::one("type", what).into());
        }
        let recorded = match source {
            EventSource::Envelope => self.answer_envelope(tx, &agent, &sent)?,
            EventSource::Job => {
                // Other events of the agent while it works on a job are dropped.
                if let Some(told) = &self.told {
                    results::apply_report(tx, &self.app, agent.id, told)?;
                }
                Recorded::of(self.id)
            }
            EventSource::Conversation | EventSource::Foreign | EventSource::Digest => {
                self.say(tx, &agent, &sent)?
            }
        };
        self.dispose(tx, &sent)?;
        Ok(recorded)
    }

    /// Records the disposition of the message, if the event implies one.
    fn dispose(&self, tx: &mut dyn Tx, sent: &Event) -> Result<(), Error> {
        let cause = match &self.event {
            CallbackEvent::Message { .. } => Cause::Replied,
            CallbackEvent::Error { .. } => Cause::Failed,
            CallbackEvent::Lifecycle { status: Lifecycle::Idle } => {
                if sent.kind.source() == EventSource::Conversation {
                    stop_work(tx, self.token.delivery.agent, sent.id, self.now)?;
                }
                Cause::KeptSilent
            }
            CallbackEvent::Lifecycle { status: Lifecycle::Processing }
            | CallbackEvent::ToolCall { .. }
            | CallbackEvent::ToolResult { .. }
            | CallbackEvent::Status { .. } => return self.work_on(tx, sent),
            CallbackEvent::Chunk { .. } | CallbackEvent::Artifact { .. } => return Ok(()),
        };
        dispositions::record(tx, sent.id, self.token.delivery.agent, cause, None, self.now)?;
        Ok(())
    }

    /// Records that the agent works on a message of a conversation.
    fn work_on(&self, tx: &mut dyn Tx, sent: &Event) -> Result<(), Error> {
        if sent.kind.source() != EventSource::Conversation {
            return Ok(());
        }
        let agent = self.token.delivery.agent;
        if matches!(self.event, CallbackEvent::Lifecycle { .. }) {
            obligations::inject(tx, sent.id, agent, self.now)?;
        }
        go_on(tx, agent, sent.id, self.now)?;
        Ok(())
    }

    /// Records the event in the thread of the message that it answers.
    fn say(&self, tx: &mut dyn Tx, agent: &Agent, sent: &Event) -> Result<Recorded, Error> {
        let (conversation, member) =
            conversation::as_reader(tx, self.conversation, agent.id.into()).map_err(left)?;
        if sent.seq <= member.joined_seq {
            return Err(gone("the agent has left this conversation since, and come back"));
        }
        let thread = match conversation.kind {
            ConversationKind::Channel => Some(sent.thread.unwrap_or(sent.id)),
            ConversationKind::Dm => sent.thread,
        };
        if let CallbackEvent::Chunk { text } = &self.event {
            conversation::as_speaker(tx, self.conversation, agent.id.into()).map_err(left)?;
            return self.grow(tx, thread, text);
        }
        if let Some(document) = &self.document {
            return self.put_document(tx, agent, sent, document);
        }
        let Some(kind) = self.event.kind() else { return Ok(Recorded::of(self.id)) };
        let is_message = kind == EventKind::Message;
        // The message keeps the id under which its chunks were shown.
        let grown = if is_message { growing::finish(tx, self.token.delivery)? } else { None };
        let id = grown.unwrap_or(self.id);
        let (author, trace) = (agent.id.into(), sent.trace);
        let act = Act { conversation: self.conversation, author, event: id, trace, now: self.now };
        let post = Post { thread, reply_to: Some(sent.id), ..Post::new(kept(&self.event)?) };
        let mut unknown = vec![];
        if is_message {
            unknown = post_in(&self.app, tx, &act, &post)?.unknown;
        } else {
            // Mentions count only in messages.
            conversation::note(tx, &act, kind, thread, post.reply_to, &post.body).map_err(left)?;
            let ends = matches!(
                self.event,
                CallbackEvent::Error { .. } | CallbackEvent::Lifecycle { status: Lifecycle::Idle }
            );
            if ends {
                growing::abandon(tx, self.token.delivery, self.conversation)?;
            }
        }
        let mut masked: Vec<_> = post.body.kinds().iter().map(|kind| (*kind).to_owned()).collect();
        masked.sort_unstable();
        masked.dedup();
        unknown.sort_unstable();
        unknown.dedup();
        Ok(Recorded { ok: true, events: vec![id], masked, unknown })
    }

    /// Shows a chunk of a growing message to the followers of the conversation.
    fn grow(&self, tx: &mut dyn Tx, thread: Option<EventId>, text: &str) -> Result<Recorded, Error> {
        let piece = NewPiece {
            delivery: self.token.delivery,
            conversation: self.conversation,
            thread,
            event: self.id,
            text,
            now: self.now,
        };
        let grown = growing::add(tx, &piece, MAX_CONTENT)?;
        let long = || {
            let what = format_args!("the message would be longer than {MAX_CONTENT} characters");
            Error::from(Faults::one("text", what))
        };
        grown.map(Recorded::of).ok_or_else(long)
    }

    /// Makes a document or its next version. Without a base version it builds on the newest one.
    fn put_document(
        &self,
        tx: &mut dyn Tx,
        agent: &Agent,
        sent: &Event,
        document: &NewArtifact,
    ) -> Result<Recorded, Error> {
        let (author, trace) = (agent.id.into(), sent.trace);
        let act = Act { conversation: self.conversation, author, event: self.id, trace, now: self.now };
        conversation::lock_as_speaker(tx, self.conversation, author).map_err(left)?;
        let mut document = document.clone();
        if document.base == 0 {
            let newest = artifacts::newest(tx, self.conversation, &document.slug)?;
            document.base = newest.map_or(0, |newest| newest.version);
        }
        put(&self.app, tx, &act, &document)?;
        let mut masked: Vec<_> = document.kinds().into_iter().map(str::to_owned).collect();
        masked.sort_unstable();
        Ok(Recorded { masked, ..Recorded::of(self.id) })
    }

    /// Returns the event to the sender of an envelope: on the open connection if the sender waits on one, else
    /// a message as an envelope. Other events are dropped then.
    fn answer_envelope(&self, tx: &mut dyn Tx, agent: &Agent, sent: &Event) -> Result<Recorded, Error> {
        let recorded = Recorded { events: vec![], ..Recorded::of(self.id) };
        let (kind, data) = line(&self.event);
        if say_to_listener(tx, self.token.delivery, kind, &data, self.now)? {
            return Ok(recorded);
        }
        let CallbackEvent::Message { content } = &self.event else {
            tracing::debug!(kind = self.event.word(), trace_id = %sent.trace, "an agent's event about an envelope");
            return Ok(recorded);
        };
        let answer = EnvelopeAnswer { agent, sent, id: self.id, content, now: self.now };
        answer_envelope(tx, &self.app, &self.runtime, &answer)?;
        Ok(Recorded::of(self.id))
    }
}

/// Returns the document version that an event carries, checked.
fn document_of(event: &CallbackEvent) -> Result<Option<NewArtifact>, Error> {
    let CallbackEvent::Artifact { slug: Slug(slug), title, content, encoding, content_type, base_version } =
        event.clone()
    else {
        return Ok(None);
    };
    version(slug, title, content, encoding, content_type, base_version.unwrap_or(0)).map(Some)
}

/// Returns an event as a line for the sender that waits for the answer.
fn line(event: &CallbackEvent) -> (&'static str, String) {
    let said = match event {
        CallbackEvent::Message { content } => ReplyLine::Done { result: content.as_str().into() },
        CallbackEvent::Chunk { text } => ReplyLine::Chunk { text: text.clone() },
        CallbackEvent::Error { message, code } => {
            let code = code.clone().unwrap_or_else(|| "agent_error".into());
            ReplyLine::Error { code, message: message.clone() }
        }
        CallbackEvent::Lifecycle { status: Lifecycle::Idle } => ReplyLine::Error {
            code: "no_answer".into(),
            message: "the agent is done with the message, and has nothing to say".into(),
        },
        // The sender learns only that the agent is alive.
        CallbackEvent::Lifecycle { status: Lifecycle::Processing }
        | CallbackEvent::ToolCall { .. }
        | CallbackEvent::ToolResult { .. }
        | CallbackEvent::Status { .. }
        | CallbackEvent::Artifact { .. } => return ("sign", String::new()),
    };
    (said.kind().as_str(), said.data())
}

/// Turns the error for a former member into one that says that the callback has ended.
fn left(error: ConversationError) -> Error {
    match error {
        ConversationError::NotFound => gone("the agent is not in this conversation any more"),
        error => error.into(),
    }
}

/// Returns the body of an event for the log: without its kind, which has a column of its own, and with
/// credentials masked.
fn kept(event: &CallbackEvent) -> Result<Masked, Error> {
    let mut event = serde_json::to_value(event).map_err(Error::internal)?;
    if let Value::Object(members) = &mut event {
        members.remove("type");
    }
    masked(&event)
}
