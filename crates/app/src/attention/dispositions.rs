//! Records the dispositions of events that agents were given, after replies outside of conversations, reports
//! of harnesses, callbacks and failed pushes.

use super::{envelopes, handle};
use chorus_attention::disposition::Cause;
use chorus_attention::plan::HandlingRequest;
use chorus_node::Error;
use chorus_protocol::ids::{AgentId, EventId};
use chorus_protocol::redact::MaskedText;
use chorus_protocol::words::Disposition;
use chorus_store::{StoreError, Tx, attention, obligations};

/// Records a cause for an event. `until` is the end of a claim. Returns the disposition, or `None` if the
/// agent was not given the event or has it open.
pub fn record(
    tx: &mut dyn Tx,
    event: EventId,
    agent: AgentId,
    cause: Cause,
    until: Option<i64>,
    now: i64,
) -> Result<Option<Disposition>, Error> {
    recorded(tx, event, agent, HandlingRequest::Record { cause, until }, now)
}

/// Records a cause like [`record`], but ignores a cause that the policy forbids.
pub fn record_passively(
    tx: &mut dyn Tx,
    event: EventId,
    agent: AgentId,
    cause: Cause,
    now: i64,
) -> Result<Option<Disposition>, StoreError> {
    recorded(tx, event, agent, HandlingRequest::RecordPassively { cause }, now)
        .map_err(|error| StoreError::Unexpected(error.message.into()))
}

fn recorded(
    tx: &mut dyn Tx,
    event: EventId,
    agent: AgentId,
    request: HandlingRequest,
    now: i64,
) -> Result<Option<Disposition>, Error> {
    let mut facts = attention::load_record(tx, event, agent, request, now)?;
    // A relay envelope has no stored obligation until its agent reports on it.
    if facts.is_none() && envelopes::take_in(tx, event, agent, now)?.is_some() {
        facts = attention::load_record(tx, event, agent, request, now)?;
    }
    let Some(facts) = facts else { return Ok(None) };
    let (facts, effects) = handle(tx, facts, now)?;
    Ok(facts.disposition(&effects))
}

/// Stores the reason for the disposition of an event, if there is one.
pub fn explain(
    tx: &mut dyn Tx,
    event: EventId,
    agent: AgentId,
    why: Option<&str>,
    now: i64,
) -> Result<(), StoreError> {
    let Some(why) = why.filter(|why| !why.is_empty()) else { return Ok(()) };
    // The databases cannot store NUL characters in text.
    obligations::explain(tx, event, agent, &MaskedText::new(why.replace('\0', "")), now)
}

/// Stores the reason for the version of a message that the agent was given last.
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
