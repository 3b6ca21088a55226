//! What an agent says about a message it was sent, without a key, at the address that came with it.
//!
//! The address is bound to one delivery, and ends after a day, with the agent's place in the conversation, and with any
//! change of what the agent is reached by. A body is all or nothing: one transaction for all its events.

use crate::app::{App, AppState};
use crate::attention::{self, disposing};
use crate::caller::disabled;
use crate::charge::may_say;
use crate::conversation::{masked, post_in};
use crate::error::Error;
use crate::market::results;
use crate::once::{Done, Once};
use crate::relay::{EnvelopeAnswer, answer_envelope};
use crate::secrets::CallbackToken;
use crate::usage::event_bytes;
use chorus_attention::disposition::Cause;
use chorus_protocol::channel::{CallbackEvent, Lifecycle, read_events};
use chorus_protocol::code::Code;
use chorus_protocol::ids::{AgentId, ConversationId, DeliveryId, EventId};
use chorus_protocol::redact::Masked;
use chorus_protocol::words::{ConversationKind, EventKind};
use chorus_store::Tx;
use chorus_store::conversation::{self, Act, ConversationError, Post};
use chorus_store::conversations::{self, Event};
use chorus_store::deliveries;
use chorus_store::directory::{self, Agent};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::{Arc, OnceLock};
use tokio::runtime::Handle;

/// How long an address takes events.
const LIFE_MS: i64 = 24 * 60 * 60 * 1000;

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

/// Records what an agent says, in order, all or nothing. What it says to a member is said like everything else.
pub async fn take(
    app: &AppState,
    Address { conversation, token }: Address,
    is_ndjson: bool,
    body: &[u8],
    once: Once,
) -> Result<Done<Recorded>, Error> {
    let events = read_events(is_ndjson, body)?;
    let messages = events.iter().filter(|event| matches!(event, CallbackEvent::Message { .. })).count();
    let delivery = token.delivery;
    let answer = Answer {
        // Made here: the transaction may run again.
        events: events.into_iter().map(|event| (EventId(app.environment.uuid_v7()), event)).collect(),
        runtime: Handle::current(),
        now: app.now(),
        app: Arc::clone(app),
        conversation,
        token,
    };
    let may = move |tx: &mut dyn Tx| answered(tx, delivery, conversation).map(drop);
    let (hub, counted) = (Arc::clone(app), OnceLock::new());
    let work = move |tx: &mut dyn Tx| {
        // Not for whatever conversation the path names, nor for what is only said again. The transaction may run again: what was
        // decided stands.
        if messages > 0 {
            answered(tx, delivery, conversation)?;
            let may = || may_say(&hub, delivery.agent.into(), conversation, messages as u32);
            counted.get_or_init(may).clone()?;
        }
        answer.record(tx)
    };
    app.once(once, may, work).await
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

/// Events on their way into the log.
struct Answer {
    app: AppState,
    runtime: Handle,
    conversation: ConversationId,
    token: CallbackToken,
    events: Vec<(EventId, CallbackEvent)>,
    now: i64,
}

impl Answer {
    fn record(&self, tx: &mut dyn Tx) -> Result<Recorded, Error> {
        let sent = answered(tx, self.token.delivery, self.conversation)?;
        let agent = directory::by_id(tx, self.token.delivery.agent)?;
        let agent = agent.ok_or_else(|| gone("the agent is not registered any more"))?;
        if agent.epoch != self.token.epoch {
            return Err(gone(
                "the agent's key or connection was replaced since; newer messages carry valid callbacks",
            ));
        }
        if agent.disabled_at.is_some() {
            return Err(disabled("agent"));
        }
        let recorded = match sent.kind {
            EventKind::Envelope => {
                let events = self.answer_envelope(tx, &agent, &sent)?;
                Recorded { ok: true, events, masked: vec![], unknown: vec![] }
            }
            EventKind::Job => {
                let said =
                    |(_, event): &(EventId, CallbackEvent)| results::said(tx, &self.app, &sent.body, event);
                self.events.iter().try_for_each(said)?;
                let events = self.events.iter().map(|(id, _)| *id).collect();
                Recorded { ok: true, events, masked: vec![], unknown: vec![] }
            }
            _ => self.say(tx, &agent, &sent)?,
        };
        self.dispose(tx, sent.id)?;
        Ok(recorded)
    }

    /// What the agent made of the message, as far as its events tell.
    fn dispose(&self, tx: &mut dyn Tx, sent: EventId) -> Result<(), Error> {
        let agent = self.token.delivery.agent;
        for (_, event) in &self.events {
            let cause = match event {
                CallbackEvent::Message { .. } => Cause::Replied,
                CallbackEvent::Error { .. } => Cause::Failed,
                CallbackEvent::Lifecycle { status: Lifecycle::Idle } => Cause::KeptSilent,
                _ => continue,
            };
            disposing::record(tx, sent, agent, cause, None, self.now)?;
        }
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
        // Those that are no message have no use for whom they mention.
        let said = self
            .events
            .iter()
            .map(|(id, event)| {
                let (author, trace) = (agent.id.into(), sent.trace);
                let act = Act { conversation: self.conversation, author, event: *id, trace, now: self.now };
                let post = Post { thread, reply_to: Some(sent.id), ..Post::new(kept(event)?) };
                Ok((act, event.kind(), post))
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let messages: Vec<_> = said.iter().filter(|(_, kind, _)| *kind == EventKind::Message).collect();
        if messages.len() > 1 {
            let mut agents = vec![];
            for (act, _, post) in messages {
                let draft = conversation::draft_message(tx, act, post).map_err(left)?;
                let reach = attention::decide(tx, &draft)?.reach;
                agents.extend(reach.recipients.into_iter().map(|recipient| recipient.agent));
            }
            conversation::hold_inboxes(tx, agents)?;
        }
        let mut unknown = vec![];
        for (act, kind, post) in &said {
            if *kind == EventKind::Message {
                unknown.extend(post_in(&self.app, tx, act, post)?.unknown);
            } else {
                conversation::note(tx, act, *kind, thread, post.reply_to, &post.body).map_err(left)?;
                self.app.count_bytes(tx, agent.id.into(), event_bytes(post.body.json().len()))?;
            }
        }
        let mut masked: Vec<_> =
            said.iter().flat_map(|(.., post)| post.body.kinds()).map(|kind| (*kind).to_owned()).collect();
        masked.sort_unstable();
        masked.dedup();
        unknown.sort_unstable();
        unknown.dedup();
        Ok(Recorded { ok: true, events: self.events.iter().map(|(id, _)| *id).collect(), masked, unknown })
    }

    /// Back to the sender of an envelope, as envelopes: what else the agent shows of itself has no place there.
    fn answer_envelope(&self, tx: &mut dyn Tx, agent: &Agent, sent: &Event) -> Result<Vec<EventId>, Error> {
        let mut events = vec![];
        for (id, event) in &self.events {
            let CallbackEvent::Message { content } = event else {
                tracing::debug!(kind = event.kind().as_str(), trace_id = %sent.trace, "an agent's event about an envelope");
                continue;
            };
            let answer = EnvelopeAnswer { agent, sent, id: *id, content, now: self.now };
            answer_envelope(tx, &self.app, &self.runtime, &answer)?;
            events.push(*id);
        }
        Ok(events)
    }
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
