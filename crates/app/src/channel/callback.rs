//! What an agent says about a message it was sent, without a key, at the address that came with it.
//!
//! The address is bound to one delivery, and ends after a day, with the agent's place in the conversation, and with any
//! change of what the agent is reached by. Each event is a transaction of its own; of a body of lines, what came before a
//! broken one stays.

use crate::app::{App, AppState};
use crate::attention::disposing;
use crate::caller::disabled;
use crate::charge::may_say;
use crate::conversation::{masked, post_in, put, version};
use crate::error::Error;
use crate::lines::{Bounds, Lines};
use crate::market::results::{self, Told};
use crate::once::{Done, Once};
use crate::relay::{EnvelopeAnswer, answer_envelope, say_to_listener};
use crate::secrets::CallbackToken;
use crate::usage::event_bytes;
use bytes::Bytes;
use chorus_attention::disposition::Cause;
use chorus_protocol::api::documents::Slug;
use chorus_protocol::channel::{CallbackEvent, Lifecycle, MAX_BODY, MAX_CONTENT, MAX_EVENTS};
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AgentId, ConversationId, DeliveryId, EventId};
use chorus_protocol::redact::Masked;
use chorus_protocol::relay::ReplyLine;
use chorus_protocol::words::{ConversationKind, EventKind};
use chorus_store::Tx;
use chorus_store::artifacts;
use chorus_store::conversation::{self, Act, ConversationError, NewArtifact, Post};
use chorus_store::conversations::{self, Event};
use chorus_store::deliveries;
use chorus_store::directory::{self, Agent};
use chorus_store::growing::{self, NewPiece};
use futures_util::Stream;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::{Arc, OnceLock};
use tokio::runtime::Handle;

/// How long an address takes events.
const LIFE_MS: i64 = 24 * 60 * 60 * 1000;
/// All lines of one body, in bytes.
const MAX_LINES_BODY: usize = 16 * 1024 * 1024;

/// The events are recorded.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Recorded {
    /// Always `true`.
    ok: bool,
    /// What they became, in order.
    #[schema(value_type = Vec<String>, example = json!(["evt_0190a3c4d5e67f8090a1b2c3d4e5f607"]))]
    events: Vec<EventId>,
    /// The kinds of credentials that were masked in them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    masked: Vec<String>,
    /// Names that they mention and nobody there has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<String>,
}

impl Recorded {
    fn of(event: EventId) -> Self {
        Self { ok: true, events: vec![event], masked: vec![], unknown: vec![] }
    }

    /// Why there is no more; what came before is recorded.
    fn so_far(&self, error: Error) -> Error {
        let recorded: Vec<_> = self.events.iter().map(EventId::to_string).collect();
        error.details(json!({"recorded": recorded}))
    }
}

/// An address that takes events: one delivery, in one conversation.
#[derive(Debug, Clone, Copy)]
pub struct Address {
    conversation: ConversationId,
    token: CallbackToken,
}

impl Address {
    /// The delivery it is bound to.
    pub fn delivery(&self) -> DeliveryId {
        self.token.delivery
    }
}

/// The agent that may answer at an address that ends like this, if we signed it.
pub fn agent_of(app: &App, token: &str) -> Option<AgentId> {
    Some(app.config.master_key.read_callback_token(token)?.delivery.agent)
}

/// The address that a conversation and a token make, as long as it takes events.
pub fn address(app: &App, conversation: &str, token: &str) -> Result<Address, Error> {
    let token = app.config.master_key.read_callback_token(token);
    let (conversation, token) = ConversationId::parse(conversation).zip(token).ok_or_else(unknown)?;
    if app.now() >= token.made_at + LIFE_MS {
        return Err(gone("a callback takes events for 24 hours after it was given out"));
    }
    Ok(Address { conversation, token })
}

/// Records one thing that an agent says. What it says to a member is said like everything else.
pub async fn take(
    app: &AppState,
    address: Address,
    body: &[u8],
    once: Once,
) -> Result<Done<Recorded>, Error> {
    let Address { conversation, token } = address;
    let event = CallbackEvent::read(body)?;
    let document = document_of(&event)?;
    let told = results::told(app, token.delivery, &event).await?;
    let (delivery, is_message) = (token.delivery, matches!(event, CallbackEvent::Message { .. }));
    let answer = Answer {
        // Made here: the transaction may run again.
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
    // What is said again is answered again, to whoever may say it now.
    let may = move |tx: &mut dyn Tx| {
        answered(tx, delivery, conversation)?;
        answering(tx, &token).map(drop)
    };
    let (hub, counted) = (Arc::clone(app), OnceLock::new());
    let work = move |tx: &mut dyn Tx| {
        // Not for whatever conversation the path names, nor for what is only said again. The transaction may run again: what was
        // decided stands.
        if is_message {
            answered(tx, delivery, conversation)?;
            counted.get_or_init(|| may_say(&hub, delivery.agent.into(), conversation, 1)).clone()?;
        }
        answer.record(tx)
    };
    app.once(once, may, work).await
}

/// Records what an agent says line by line, each as it comes. With a key, lines that came before are known by their number.
pub async fn take_lines<B, E>(
    app: &AppState,
    address: Address,
    body: B,
    key: Option<&str>,
) -> Result<Recorded, Error>
where
    B: Stream<Item = Result<Bytes, E>> + Unpin,
{
    let bounds = Bounds { line: MAX_BODY, body: MAX_LINES_BODY, patience: app.config.times.reply };
    let mut lines = Lines::new(body, bounds);
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
        // The pieces of a message are one.
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

/// The message that a delivery brought, if it was in this conversation.
fn answered(tx: &mut dyn Tx, delivery: DeliveryId, conversation: ConversationId) -> Result<Event, Error> {
    let sent = deliveries::event_of(tx, delivery)?.ok_or_else(unknown)?;
    let Some(sent) = conversations::event_by_id(tx, sent)? else {
        return Err(gone("the message this answers is not kept any more"));
    };
    if sent.conversation == conversation { Ok(sent) } else { Err(unknown()) }
}

/// The agent that a token was given to, as long as it may use it.
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

/// An event on its way into the log.
struct Answer {
    app: AppState,
    runtime: Handle,
    conversation: ConversationId,
    token: CallbackToken,
    id: EventId,
    event: CallbackEvent,
    /// If the event puts one.
    document: Option<NewArtifact>,
    /// If it says what came of a job.
    told: Option<Told>,
    now: i64,
}

impl Answer {
    fn record(&self, tx: &mut dyn Tx) -> Result<Recorded, Error> {
        let sent = answered(tx, self.token.delivery, self.conversation)?;
        let agent = answering(tx, &self.token)?;
        if self.document.is_some() && matches!(sent.kind, EventKind::Envelope | EventKind::Job) {
            let what = "a document is put into a conversation, and what this answers came from none";
            return Err(Faults::one("type", what).into());
        }
        let recorded = match sent.kind {
            EventKind::Envelope => self.answer_envelope(tx, &agent, &sent)?,
            EventKind::Job => {
                // What the agent does meanwhile is nobody's business.
                if let Some(told) = &self.told {
                    results::said(tx, &self.app, agent.id, told)?;
                }
                Recorded::of(self.id)
            }
            EventKind::Message
            | EventKind::Edit
            | EventKind::Delete
            | EventKind::Reaction
            | EventKind::Status
            | EventKind::ToolCall
            | EventKind::ToolResult
            | EventKind::Error
            | EventKind::Lifecycle
            | EventKind::Join
            | EventKind::Leave
            | EventKind::Change
            | EventKind::Artifact
            | EventKind::Escalation
            | EventKind::Digest
            | EventKind::Foreign => self.say(tx, &agent, &sent)?,
        };
        self.dispose(tx, sent.id)?;
        Ok(recorded)
    }

    /// What the agent made of the message, as far as its event tells.
    fn dispose(&self, tx: &mut dyn Tx, sent: EventId) -> Result<(), Error> {
        let cause = match &self.event {
            CallbackEvent::Message { .. } => Cause::Replied,
            CallbackEvent::Error { .. } => Cause::Failed,
            CallbackEvent::Lifecycle { status: Lifecycle::Idle } => Cause::KeptSilent,
            CallbackEvent::Lifecycle { status: Lifecycle::Processing }
            | CallbackEvent::ToolCall { .. }
            | CallbackEvent::ToolResult { .. }
            | CallbackEvent::Status { .. }
            | CallbackEvent::Chunk { .. }
            | CallbackEvent::Artifact { .. } => return Ok(()),
        };
        disposing::record(tx, sent, self.token.delivery.agent, cause, None, self.now)?;
        Ok(())
    }

    /// Into the thread of the message it was sent.
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
            if conversation.archived_at.is_some() {
                return Err(ConversationError::Archived.into());
            }
            return self.grow(tx, thread, text);
        }
        if let Some(document) = &self.document {
            return self.put_document(tx, agent, sent, document);
        }
        let Some(kind) = self.event.kind() else { return Ok(Recorded::of(self.id)) };
        let is_message = kind == EventKind::Message;
        // It was seen under this id while it grew.
        let grown = if is_message { growing::finish(tx, self.token.delivery)? } else { None };
        let id = grown.unwrap_or(self.id);
        let (author, trace) = (agent.id.into(), sent.trace);
        let act = Act { conversation: self.conversation, author, event: id, trace, now: self.now };
        let post = Post { thread, reply_to: Some(sent.id), ..Post::new(kept(&self.event)?) };
        let mut unknown = vec![];
        if is_message {
            unknown = post_in(&self.app, tx, &act, &post)?.unknown;
        } else {
            // What is no message has no use for whom it mentions.
            conversation::note(tx, &act, kind, thread, post.reply_to, &post.body).map_err(left)?;
            self.app.count_bytes(tx, agent.id.into(), event_bytes(post.body.json().len()))?;
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

    /// Shows a piece of the message that is being made to whoever follows the conversation.
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

    /// Makes a document, or a new version of it: on top of whatever is there, if nothing is said.
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

    /// Back to the sender of an envelope: to one that waits for it as it comes, else as an envelope. What else the agent shows of
    /// itself has no place there.
    fn answer_envelope(&self, tx: &mut dyn Tx, agent: &Agent, sent: &Event) -> Result<Recorded, Error> {
        let recorded = Recorded { events: vec![], ..Recorded::of(self.id) };
        let (kind, data) = line(&self.event);
        if say_to_listener(tx, self.token.delivery, (kind, &data), self.now)? {
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

/// The document that an event puts, ready to be put.
fn document_of(event: &CallbackEvent) -> Result<Option<NewArtifact>, Error> {
    let CallbackEvent::Artifact { slug: Slug(slug), title, content, encoding, content_type, base_version } =
        event.clone()
    else {
        return Ok(None);
    };
    version(slug, title, (content, encoding), content_type, base_version.unwrap_or(0)).map(Some)
}

/// What an agent shows of itself, as a line to the sender that waits for its answer.
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
        // It lives, and that is all that its sender is told.
        CallbackEvent::Lifecycle { status: Lifecycle::Processing }
        | CallbackEvent::ToolCall { .. }
        | CallbackEvent::ToolResult { .. }
        | CallbackEvent::Status { .. }
        | CallbackEvent::Artifact { .. } => return ("sign", String::new()),
    };
    (said.kind().as_str(), said.data())
}

/// Who is no member any more has no callback either.
fn left(error: ConversationError) -> Error {
    match error {
        ConversationError::NotFound => gone("the agent is not in this conversation any more"),
        error => error.into(),
    }
}

/// An event as the log keeps it: its kind is told elsewhere, its credentials nowhere.
fn kept(event: &CallbackEvent) -> Result<Masked, Error> {
    let mut event = serde_json::to_value(event).map_err(Error::internal)?;
    if let Value::Object(members) = &mut event {
        members.remove("type");
    }
    masked(&event)
}
