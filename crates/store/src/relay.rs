//! The transactions of the relay: registering, unregistering, sending.
//!
//! A send is one transaction when the receiver has an inbox: event, delivery and idempotency record together. To
//! an endpoint, or when the receiver's output is streamed, it is two, with a lease between them, because no
//! transaction may wait for a stranger.

use crate::deliveries::{self, Hold, Lease, NewDelivery, Way};
use crate::directory::{self, Agent, KeyHash, Record};
use crate::idempotency::{self, Answer, Key, Known, Shorter};
use crate::{StoreError, Tx, blocks, conversations, inboxes, push, reply_lines, sent};
use chorus_protocol::code::Code;
use chorus_protocol::ids::{AgentId, ConversationId, DeliveryId, EventId, TraceId};
use chorus_protocol::relay::{Named, Outcome};
use chorus_protocol::words::{DeliveryState, EntryKind, Transport};

/// The time during which the same turn is delivered only once.
const TURN_LIFE_MS: i64 = 30 * 24 * 60 * 60 * 1000;
/// The time that a receiver's response is kept for repeated requests.
const RESPONSE_LIFE_MS: i64 = 24 * 60 * 60 * 1000;

/// An error of a registration.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The name belongs to an agent whose key was not shown.
    #[error("the name is taken")]
    Taken,
    /// The agent is kept out, and so is its key.
    #[error("the agent is disabled")]
    Disabled,
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Debug, Clone, Copy)]
pub enum Registrar {
    /// Anybody, perhaps the agent itself with its key: a taken name needs that key, which is replaced.
    Itself(Option<KeyHash>),
    /// The operator: may update any agent, whose key stays.
    Operator,
}

/// A registration to be made.
#[derive(Debug)]
pub struct Registration {
    pub record: Record,
    /// The fields that it names. Other fields of an existing agent stay as they are.
    pub names: Named,
    pub registrar: Registrar,
    /// The id of the agent, if it is new.
    pub id: AgentId,
    /// Its key from now on, if it gets one.
    pub key: KeyHash,
    pub trace: TraceId,
    pub now: i64,
}

/// The result of a registration.
#[derive(Debug, Clone)]
pub struct Registered {
    pub agent: Agent,
    pub created: bool,
    /// True if the key in [`Registration`] is now its key.
    pub keyed: bool,
}

/// Registers or updates an agent.
pub fn register(tx: &mut dyn Tx, new: &Registration) -> Result<Registered, RegisterError> {
    let Some(agent) = directory::by_name(tx, &new.record.name)? else {
        let agent = directory::insert(tx, new.id, &new.record, &new.key, new.trace, new.now)?;
        return Ok(Registered { agent, created: true, keyed: true });
    };
    let keyed = match new.registrar {
        Registrar::Operator => false,
        Registrar::Itself(Some(key)) if holds(tx, &agent, &key)? => {
            // Ends the inbox connection, which used the old key.
            inboxes::disconnect(tx, agent.id)?;
            // Its row is a lock as well: another with the same key may have come first.
            if !holds(tx, &agent, &key)? {
                return Err(RegisterError::Taken);
            }
            if agent.disabled_at.is_some() {
                return Err(RegisterError::Disabled);
            }
            true
        }
        Registrar::Itself(_) => return Err(RegisterError::Taken),
    };
    let Record { name, endpoint, card } = new.record.clone();
    let endpoint = if new.names.endpoint { endpoint } else { agent.endpoint.clone() };
    let card = if new.names.card { card } else { agent.card.clone() };
    let record = Record { name, endpoint, card };
    let has_new_way = agent.endpoint.is_none() && record.endpoint.is_some();
    let agent = directory::update(tx, agent, &record, keyed.then_some(&new.key), new.now)?;
    if has_new_way {
        push::retry_now(tx, agent.id, new.now)?;
    }
    Ok(Registered { agent, created: false, keyed })
}

fn holds(tx: &mut dyn Tx, agent: &Agent, key: &KeyHash) -> Result<bool, StoreError> {
    Ok(directory::by_key(tx, key)?.is_some_and(|holder| holder.id == agent.id))
}

/// A message to be sent.
#[derive(Debug)]
pub struct Send {
    pub sender: AgentId,
    pub receiver: String,
    /// The envelope as received.
    pub envelope: String,
    pub event: EventId,
    pub trace: TraceId,
    /// The keys under which it may come again: an idempotency key, a turn.
    pub keys: Vec<Key>,
    /// Turns are between two agents: made into a key once the receiver is known.
    pub turn: Option<NumberedEnvelope>,
    /// True if the sender wants the receiver's output streamed. The outcome is then known only at the end.
    pub stream: bool,
    /// Held while the outcome is not known.
    pub lease: Lease,
    pub now: i64,
}

/// The number an envelope has in an exchange: its turn.
#[derive(Debug, Clone)]
pub struct NumberedEnvelope {
    pub conversation: String,
    /// The place in it.
    pub number: i64,
    /// The content in canonical form.
    pub content: String,
}

/// The result of a send's transaction.
#[derive(Debug)]
pub enum Sent {
    /// It is in the inbox; this is the outcome.
    Stored {
        receiver: Agent,
        seq: i64,
        /// The outcome for the sender.
        outcome: Outcome,
    },
    /// The outcome is not known yet; once it is, [`record_outcome`] is due.
    Pending(Pending),
    /// It was sent before; this was the answer.
    Again(Answer),
}

/// A message whose outcome this node has to find out.
#[derive(Debug, Clone)]
pub struct Pending {
    pub receiver: Agent,
    pub event: EventId,
    /// The conversation of the two.
    pub conversation: ConversationId,
    /// The transport. A delivery by inbox is answered from there.
    pub transport: Transport,
    /// Its place in the receiver's inbox.
    pub seq: i64,
    /// The keys that were reserved for it.
    pub keys: Vec<Key>,
    /// The right to record it.
    pub lease: Lease,
    pub trace: TraceId,
}

/// An error of a send.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// Nobody has this name.
    #[error("no such receiver")]
    ReceiverNotFound,
    /// The receiver keeps the sender out.
    #[error("the receiver keeps the sender out")]
    Blocked,
    /// The same key or turn with other content.
    #[error("the key was used for something else")]
    Conflict,
    /// The first request with this key is still being worked on.
    #[error("the first request is still in progress")]
    InProgress,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The HTTP status of an outcome: what waits for its receiver is accepted, not done.
pub fn status(outcome: &Outcome) -> u16 {
    if outcome.delivery == DeliveryState::Queued { 202 } else { 200 }
}

/// Returns the response for an outcome, now and on repeated requests. The receiver's reply is kept for a
/// limited time.
fn answer_of(outcome: &Outcome, now: i64) -> Result<Answer, StoreError> {
    let told = |outcome: &Outcome| serde_json::to_string(outcome).map_err(StoreError::unexpected);
    let mut answer = Answer::new(status(outcome), told(outcome)?);
    if outcome.receiver_response.is_some() {
        let body = told(&Outcome { receiver_response: None, ..outcome.clone() })?;
        answer.shorter = Some(Shorter { from: now + RESPONSE_LIFE_MS, body });
    }
    Ok(answer)
}

/// Accepts a message: into the receiver's inbox, or for a POST to its endpoint.
pub fn send(tx: &mut dyn Tx, send: &Send) -> Result<Sent, SendError> {
    let receiver = directory::by_name(tx, &send.receiver)?.ok_or(SendError::ReceiverNotFound)?;
    if receiver.has_blocks && blocks::keeps_out(tx, receiver.id.into(), send.sender.into())? {
        return Err(SendError::Blocked);
    }
    let mut keys = send.keys.clone();
    keys.extend(send.turn.as_ref().map(|turn| {
        let place = [
            send.sender.as_bytes(),
            receiver.id.as_bytes(),
            turn.conversation.as_bytes(),
            &turn.number.to_be_bytes(),
        ];
        Key::new("turn", &place, turn.content.as_bytes(), Some(send.now + TURN_LIFE_MS))
    }));
    for key in &keys {
        match idempotency::reserve(tx, key, send.now, send.lease.until)? {
            Known::New => {}
            Known::Answered(answer) => return again(tx, send, &keys, answer),
            Known::InProgress => return Err(SendError::InProgress),
            Known::Conflict => return Err(SendError::Conflict),
        }
    }

    let (transport, state) = how(&receiver, send);
    let pending = state == DeliveryState::Sending;
    let lease = pending.then_some(send.lease);
    let seq = store(tx, send, receiver.id, transport, state, lease)?;

    if pending {
        // A webhook answers its POST with the stream itself.
        if send.stream && transport != Transport::Webhook {
            reply_lines::wait(tx, DeliveryId { agent: receiver.id, seq }, send.lease.until)?;
        }
        return Ok(Sent::Pending(Pending {
            event: send.event,
            conversation: ConversationId::of_pair(send.sender, receiver.id),
            receiver,
            transport,
            seq,
            keys,
            lease: send.lease,
            trace: send.trace,
        }));
    }
    let outcome = Outcome {
        delivery: state,
        receiver_response: None,
        error_code: None,
        detail: None,
        trace_id: Some(send.trace.into()),
    };
    let answer = answer_of(&outcome, send.now)?;
    for key in &keys {
        idempotency::answer(tx, key, send.lease.until, &answer)?;
    }
    Ok(Sent::Stored { receiver, seq, outcome })
}

/// Returns the transport of an envelope to its receiver, and its first state.
fn how(receiver: &Agent, send: &Send) -> (Transport, DeliveryState) {
    match deliveries::way(receiver, None, send.now) {
        Way::Session if send.stream => (Transport::Inbox, DeliveryState::Sending),
        Way::Session => (Transport::Inbox, DeliveryState::DeliveredSse),
        Way::Harness => (Transport::Harness, DeliveryState::Sending),
        Way::Webhook => (Transport::Webhook, DeliveryState::Sending),
        // Its sender waits for the outcome, so a broken one is tried all the same.
        Way::Connection | Way::WaitForOwner(Hold::Broken) => (Transport::Channel, DeliveryState::Sending),
        // Envelopes wait behind nobody; and whoever is kept out is called nowhere.
        Way::Inbox | Way::WaitForOwner(Hold::Disabled | Hold::Paused) | Way::WaitBehind(_) => {
            (Transport::Inbox, DeliveryState::Queued)
        }
    }
}

/// The first answer once more, also under the keys that are new: a retry may carry one the first try had not.
fn again(tx: &mut dyn Tx, send: &Send, keys: &[Key], answer: Answer) -> Result<Sent, SendError> {
    for key in keys {
        idempotency::answer(tx, key, send.lease.until, &answer)?;
    }
    Ok(Sent::Again(answer))
}

/// Event and delivery. The conversation of two agents follows from the pair and has no row of its own.
fn store(
    tx: &mut dyn Tx,
    send: &Send,
    receiver: AgentId,
    transport: Transport,
    state: DeliveryState,
    lease: Option<Lease>,
) -> Result<i64, StoreError> {
    let event = conversations::NewEvent {
        id: send.event,
        conversation: ConversationId::of_pair(send.sender, receiver),
        author: send.sender.into(),
        trace: send.trace,
        thread: None,
        target: None,
    };
    conversations::append_envelope(tx, &event, &send.envelope, send.now)?;
    let delivery = NewDelivery {
        agent: receiver,
        event: send.event,
        kind: EntryKind::Message,
        transport,
        state,
        lease,
        chat: None,
        trace: send.trace,
    };
    let seq = tx.next_seq(receiver.into())?;
    deliveries::append(tx, &delivery, seq, send.now)?;
    sent::note(tx, send.sender, send.trace, receiver, seq)?;
    Ok(seq)
}

/// Records what became of a pending message. A failure is final for the hub, and its keys are free, so that the sender can
/// try again with the same ones.
pub fn record_outcome(
    tx: &mut dyn Tx,
    pending: &Pending,
    outcome: &Outcome,
    now: i64,
) -> Result<(), StoreError> {
    let failure = outcome.error_code.as_deref().and_then(Code::parse).zip(outcome.detail.as_deref());
    let id = DeliveryId { agent: pending.receiver.id, seq: pending.seq };
    deliveries::finish(tx, id, pending.lease, outcome.delivery, failure, now)?;
    let answer = answer_of(outcome, now)?;
    for key in &pending.keys {
        if outcome.delivery == DeliveryState::Failed {
            idempotency::forget(tx, key, pending.lease.until)?;
        } else {
            idempotency::answer(tx, key, pending.lease.until, &answer)?;
        }
    }
    Ok(())
}
