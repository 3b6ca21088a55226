//! What becomes of what agents were given: the one writer of dispositions, whatever says so.
//!
//! A reply, a reaction, a notice, a callback, an edit, the time: each is a cause, the engine says what follows from it, and
//! when somebody has to look again is kept with it. Of an event that an agent was not given nothing is kept: that it
//! ignores it follows from that.

use super::{claiming, envelopes};
use crate::error::{Error, Refused};
use chorus_attention::claims::Request;
use chorus_attention::deadline::{Pending, Stage};
use chorus_attention::disposition::{Cause, PolicyForbidden, is_final, next};
use chorus_protocol::code::Code;
use chorus_protocol::ids::{AgentId, EventId};
use chorus_protocol::redact::MaskedText;
use chorus_protocol::words::Disposition;
use chorus_store::obligations::{self, Obligation};
use chorus_store::{StoreError, Tx};

/// How long a deferral holds before the event is open again.
pub const DEFERRED_MS: i64 = 60 * 60 * 1000;

/// What an agent made of an event, if it was given it.
pub type Disposed = Option<Disposition>;

/// An obligation as the engine knows it.
pub(crate) fn pending(known: &Obligation) -> Pending {
    let stage = match (known.reminded_at, known.escalated_at) {
        (_, Some(at)) => Stage::Escalated(at),
        (Some(at), None) => Stage::Reminded(at),
        (None, None) => Stage::InTime,
    };
    Pending {
        policy: known.attention.policy,
        // An answer may take so long from when it was first sent; a reminder is sent at that time, and has its own.
        since_ms: known.sent_at,
        deadline_ms: known.attention.deadline_ms,
        attempt: u32::try_from(known.sent).unwrap_or(u32::MAX),
        sent_at_ms: known.sent_at,
        acked: known.acked,
        connected: known.connected,
        stage,
        disposition: known.disposition,
        until_ms: known.until_at.unwrap_or(known.sent_at),
    }
}

/// Something happened to an event that an agent may have been given. `until` is when a claim ends.
pub fn record(
    tx: &mut dyn Tx,
    event: EventId,
    agent: AgentId,
    cause: Cause,
    until: Option<i64>,
    now: i64,
) -> Result<Disposed, Error> {
    let known = match obligations::of(tx, event, agent, now)? {
        Some(known) => Some(known),
        None => envelopes::take_in(tx, event, agent, now)?,
    };
    let Some(known) = known else { return Ok(None) };
    let disposition = next(known.attention.policy, known.disposition, cause).map_err(forbidden)?;
    let until_at = match disposition {
        Some(Disposition::Claimed) => until.or(known.until_at),
        Some(Disposition::Deferred) if known.disposition == disposition => known.until_at,
        Some(Disposition::Deferred) => Some(now + DEFERRED_MS),
        _ => None,
    };
    if disposition == known.disposition && until_at == known.until_at {
        return Ok(disposition);
    }
    let after = Obligation { disposition, until_at, ..known.clone() };
    let next_at = pending(&after).next_step().map(|(_, at)| at.max(now));
    obligations::dispose(tx, &known, disposition, (until_at, next_at), now)?;
    if matches!(disposition, Some(Disposition::Ignored | Disposition::Failed)) {
        // Who does nothing about it keeps it from nobody.
        let message = known.supersedes.unwrap_or(event);
        claiming::ask_as_holder(tx, message, agent.into(), Request::Release, now)?;
    }
    Ok(disposition)
}

/// Keeps why an agent made of an event what it did, if it says so.
pub fn explain(
    tx: &mut dyn Tx,
    event: EventId,
    agent: AgentId,
    why: Option<&str>,
    now: i64,
) -> Result<(), StoreError> {
    let Some(why) = why.filter(|why| !why.is_empty()) else { return Ok(()) };
    // No database keeps that sign.
    obligations::explain(tx, event, agent, &MaskedText::new(why.replace('\0', "")), now)
}

/// The same for what it was given of a message last.
pub fn explain_message(
    tx: &mut dyn Tx,
    message: EventId,
    agent: AgentId,
    why: Option<&str>,
    now: i64,
) -> Result<(), StoreError> {
    let given = obligations::current(tx, message, agent)?.unwrap_or(message);
    explain(tx, given, agent, why, now)
}

/// By how many names an agent may have been given one message: its changes, and one for each who has not answered.
const MAX_NAMES: i64 = 50;

/// Something happened to a message: it is so of what the agent was given of it last, perhaps a change, or that another has not
/// answered; and of everything else it was given of it and is not done with.
pub fn record_of_message(
    tx: &mut dyn Tx,
    message: EventId,
    agent: AgentId,
    cause: Cause,
    until: Option<i64>,
    now: i64,
) -> Result<Disposed, Error> {
    let mut names = obligations::names(tx, message, agent, MAX_NAMES)?.into_iter();
    let disposed = record(tx, names.next().unwrap_or(message), agent, cause, until, now)?;
    for earlier in names.filter(|_| disposed.is_some()) {
        if !is_over(obligations::disposition(tx, earlier, agent)?) {
            allowed(record(tx, earlier, agent, cause, until, now))?;
        }
    }
    Ok(disposed)
}

/// Whether an agent has answered a message, by whatever name it was given that.
pub fn has_answered(tx: &mut dyn Tx, message: EventId, agent: AgentId) -> Result<bool, StoreError> {
    for name in obligations::names(tx, message, agent, MAX_NAMES)? {
        if obligations::disposition(tx, name, agent)? == Some(Disposition::Responded) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The same for what nobody is refused: what happens to an event whatever its policy is.
pub fn record_passively(
    tx: &mut dyn Tx,
    event: EventId,
    agent: AgentId,
    cause: Cause,
    now: i64,
) -> Result<Disposed, StoreError> {
    // A policy that forbids an answer is not broken by what nobody says.
    allowed(record(tx, event, agent, cause, None, now))
        .map_err(|error| StoreError::Unexpected(error.message.into()))
}

/// Nothing, where policy forbids it.
fn allowed(recorded: Result<Disposed, Error>) -> Result<Disposed, Error> {
    match recorded {
        Err(error) if error.refused == Some(Refused::Policy) => Ok(None),
        recorded => recorded,
    }
}

/// Whether nobody has to look at it again.
pub fn is_over(disposed: Disposed) -> bool {
    disposed.is_some_and(is_final)
}

/// What policy forbids.
pub(crate) fn forbidden(refusal: PolicyForbidden) -> Error {
    Error::new(Code::PolicyForbidden, refusal).refused(Refused::Policy)
}
