//! The transactions of the relay: registering, unregistering, sending.
//!
//! A send is one transaction when the receiver has an inbox: event, delivery and idempotency record together. To
//! an endpoint, or when the receiver's output is streamed, it is two, with a lease between them, because no
//! transaction may wait for a stranger.

use crate::deliveries::{self, Hold, Lease, NewDelivery, Way};
use crate::directory::{self, Agent, KeyHash, Record};
use crate::idempotency::{self, Answer, Key, Known, Shorter};
use crate::{StoreError, Tx, blocks, conversations, inboxes, reply_lines, sent};
use chorus_protocol::code::Code;
use chorus_protocol::ids::{AgentId, ConversationId, DeliveryId, EventId, TraceId};
use chorus_protocol::relay::{Named, Outcome};
use chorus_protocol::words::{DeliveryState, EntryKind, Transport};

/// How long a turn is known: the same one within this time is delivered once.
const TURN_LIFE_MS: i64 = 30 * 24 * 60 * 60 * 1000;
/// How long what a receiver answered is kept for senders that ask again.
const RESPONSE_LIFE_MS: i64 = 24 * 60 * 60 * 1000;

/// Why a registration was not made.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The name belongs to an agent whose key was not shown.
    #[error("the name is taken")]
    Taken,
    /// The agent is kept out, and so is its key.
    #[error("the agent is disabled")]
    Disabled,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Who registers.
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
    /// What it says.
    pub record: Record,
    /// What of that it names: of an agent that is there already, the rest stays as it is.
    pub names: Named,
    /// Who makes it.
    pub registrar: Registrar,
    /// The id of the agent, if it is new.
    pub id: AgentId,
    /// Its key from now on, if it gets one.
    pub key: KeyHash,
    /// What it belongs to.
    pub trace: TraceId,
    /// When.
    pub now: i64,
}

/// What a registration did.
#[derive(Debug, Clone)]
pub struct Registered {
    /// The agent now.
    pub agent: Agent,
    /// Whether it is new.
    pub created: bool,
    /// Whether the key in [`Registration`] is its key now.
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
            // Whoever reads the inbox did so with the old key.
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
    let agent = directory::update(tx, agent, &record, keyed.then_some(&new.key), new.now)?;
    Ok(Registered { agent, created: false, keyed })
}

fn holds(tx: &mut dyn Tx, agent: &Agent, key: &KeyHash) -> Result<bool, StoreError> {
    Ok(directory::by_key(tx, key)?.is_some_and(|holder| holder.id == agent.id))
}

/// A message to be sent.
#[derive(Debug)]
pub struct Send {
    /// Who sends it.
    pub sender: AgentId,
    /// To which name.
    pub receiver: String,
    /// The envelope as received.
    pub envelope: String,
    /// Its id.
    pub event: EventId,
    /// What it belongs to.
    pub trace: TraceId,
    /// The keys under which it may come again: an idempotency key, a turn.
    pub keys: Vec<Key>,
    /// Turns are between two agents: made into a key once the receiver is known.
    pub turn: Option<NumberedEnvelope>,
    /// Whether the sender wants the receiver's output as it comes: then the outcome is known only at its end.
    pub stream: bool,
    /// Held while the outcome is not known.
    pub lease: Lease,
    /// When.
    pub now: i64,
}

/// The number an envelope has in an exchange: its turn.
#[derive(Debug, Clone)]
pub struct NumberedEnvelope {
    /// The exchange.
    pub conversation: String,
    /// The place in it.
    pub number: i64,
    /// What it says, in a form that is the same for the same content.
    pub content: String,
}

/// What became of a send in its transaction.
#[derive(Debug)]
pub enum Sent {
    /// It is in the inbox; this is the outcome.
    Stored {
        /// In whose.
        receiver: Agent,
        /// Its place there.
        seq: i64,
        /// What to tell the sender.
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
    /// To whom.
    pub receiver: Agent,
    /// Which event.
    pub event: EventId,
    /// The conversation of the two.
    pub conversation: ConversationId,
    /// How it travels: by inbox, it will be answered from there.
    pub transport: Transport,
    /// Its place in the receiver's inbox.
    pub seq: i64,
    /// The keys that were reserved for it.
    pub keys: Vec<Key>,
    /// The right to record it.
    pub lease: Lease,
    /// What it belongs to.
    pub trace: TraceId,
}

/// Why a message was not accepted.
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
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The HTTP status of an outcome: what waits for its receiver is accepted, not done.
pub fn status(outcome: &Outcome) -> u16 {
    if outcome.delivery == DeliveryState::Queued { 202 } else { 200 }
}

/// What an outcome is told as, now and when it is asked for again: what the receiver said, only for a while.
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

/// How an envelope travels to its receiver, and what it is called until its outcome is known.
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
    let seq = tx.next_seq(receiver.0)?;
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
