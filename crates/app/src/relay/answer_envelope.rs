//! Sends an agent's answer to an envelope back as an envelope, if the agent answered over a door that has
//! none. The sender is thus answered in the protocol it used.
//!
//! This is part of a transaction. An envelope for an endpoint is POSTed after the commit.

use super::pursue;
use chorus_node::transport::outbound::lease_ms;
use chorus_node::{App, AppState};
use chorus_node::{Error, Refused};
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{DeliveryId, EventId};
use chorus_protocol::relay::{CHORUS_VERSION, EnvelopeText};
use chorus_protocol::words::DeliveryState;
use chorus_store::Tx;
use chorus_store::conversations::Event;
use chorus_store::deliveries::Lease;
use chorus_store::directory::{self, Agent};
use chorus_store::relay::{self, SendError, Sent};
use chorus_store::reply_lines::{self, Waiting};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::runtime::Handle;

/// The longest text of an envelope, in characters.
const MAX_TEXT: usize = 10_000;

/// An answer to an envelope.
pub struct EnvelopeAnswer<'a> {
    /// The answering agent.
    pub agent: &'a Agent,
    /// The envelope that is answered.
    pub sent: &'a Event,
    /// The id of the answer.
    pub id: EventId,
    pub content: &'a str,
    pub now: i64,
}

/// Sends a line to the sender of the delivered envelope if it waits for a streamed answer. Returns whether it
/// does.
pub fn say_to_listener(
    tx: &mut dyn Tx,
    to: DeliveryId,
    kind: &str,
    data: &str,
    now: i64,
) -> Result<bool, Error> {
    match reply_lines::waiting(tx, to, now)? {
        Waiting::Nobody => Ok(false),
        Waiting::Lags => {
            let why = "the sender has not taken in yet what was said before; say this again later";
            Err(Error::new(Code::Overloaded, why).retry_after_ms(1000))
        }
        Waiting::Listens => Ok(reply_lines::say(tx, to, kind, data, now)?),
    }
}

/// Sends the answer to the sender of an envelope and returns the outcome so far. `runtime` runs the POST to an
/// endpoint.
pub fn answer_envelope(
    tx: &mut dyn Tx,
    app: &AppState,
    runtime: &Handle,
    answer: &EnvelopeAnswer<'_>,
) -> Result<DeliveryState, Error> {
    let EnvelopeAnswer { agent, sent, id, content, now } = *answer;
    let sender = sent.author.agent().map_or(Ok(None), |id| directory::by_id(tx, id))?;
    let sender = sender.ok_or_else(gone)?;
    let length = content.chars().count();
    if length > MAX_TEXT {
        let what = format_args!("must be at most {MAX_TEXT} characters in an envelope, not {length}");
        return Err(Faults::one("content", what).into());
    }
    let envelope = envelope(app, agent, sent, content)?;
    let send = relay::Send {
        sender: agent.id,
        receiver: sender.name.clone(),
        envelope: envelope.clone(),
        event: id,
        trace: sent.trace,
        keys: vec![],
        turn: None,
        stream: false,
        lease: Lease { owner: app.config.node, until: now + lease_ms(app.config.webhook_timeout) },
        now,
    };
    let went = relay::send(tx, &send).map_err(refused)?;
    match went {
        Sent::Stored { outcome, .. } => Ok(outcome.delivery),
        Sent::Pending(pending) => {
            let (app, runtime) = (Arc::clone(app), runtime.clone());
            let (from, address) = (agent.id, app.address(&agent.name));
            tx.after_commit(Box::new(move || {
                let work = pursue(Arc::clone(&app), from, address, pending, envelope);
                app.tasks.tracker.spawn_on(work, &runtime);
            }));
            Ok(DeliveryState::Sending)
        }
        // The answer has no idempotency key.
        Sent::Again(_) => Err(Error::internal("an envelope without a key was sent before")),
    }
}

fn gone() -> Error {
    Error::new(Code::Gone, "the sender is not registered any more")
}

fn refused(error: SendError) -> Error {
    match error {
        SendError::ReceiverNotFound => gone(),
        SendError::Blocked => {
            Error::new(Code::Forbidden, "the sender does not take messages from this agent any more")
                .refused(Refused::Blocked)
        }
        SendError::Store(error) => error.into(),
        // The answer has no idempotency key.
        SendError::Conflict | SendError::InProgress => Error::internal(error),
    }
}

/// Builds the envelope for the agent's answer.
fn envelope(app: &App, agent: &Agent, sent: &Event, content: &str) -> Result<String, Error> {
    let answered: Value = serde_json::from_str(&sent.body).map_err(Error::internal)?;
    let card: Value =
        agent.card.as_deref().and_then(|card| serde_json::from_str(card).ok()).unwrap_or_default();
    let culture =
        [&card["user_culture"], &answered["sender_culture"]].into_iter().find(|culture| culture.is_string());
    let mut envelope = json!({
        "chorus_version": CHORUS_VERSION,
        "sender_id": app.address(&agent.name),
        "original_text": content,
        "sender_culture": culture,
        // The depth limits two agents that keep answering each other, as it does for agents that send
        // envelopes themselves.
        "reply_depth": EnvelopeText::read(&sent.body).depth().saturating_add(1),
    });
    if let Some(conversation) = answered.get("conversation_id").filter(|id| id.is_string()) {
        envelope["conversation_id"] = conversation.clone();
    }
    Ok(envelope.to_string())
}
