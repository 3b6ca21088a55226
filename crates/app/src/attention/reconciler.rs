//! Steps of the reconciler for due obligations and claims.
//!
//! Each step runs in one transaction, loads the current state, and does nothing if the item is no longer due.
//! A step handles one item, so that no two steps wait for each other.

use chorus_attention::plan::{Facts, plan};
use chorus_protocol::ids::{AgentId, ConversationId, EventId};
use chorus_store::attention::{Occasion, apply, load_overdue, load_reoffer};
use chorus_store::{StoreError, Tx};

/// Takes the next step of an obligation that is due. `escalation` is the id of the escalation, if there is one. Returns `true`
/// if something was sent.
pub fn attend(
    tx: &mut dyn Tx,
    event: EventId,
    agent: AgentId,
    escalation: EventId,
    now: i64,
) -> Result<bool, StoreError> {
    let Some((facts, occasion)) = load_overdue(tx, event, agent, escalation, now)? else { return Ok(false) };
    step(tx, &Facts::Overdue(Box::new(facts)), occasion.as_ref(), now)
}

/// Offers the request of a claim that is due to somebody else. Returns `true` if something was sent.
pub fn reoffer(
    tx: &mut dyn Tx,
    event: EventId,
    conversation: ConversationId,
    now: i64,
) -> Result<bool, StoreError> {
    let Some((facts, occasion)) = load_reoffer(tx, event, conversation, now)? else { return Ok(false) };
    step(tx, &Facts::Reoffer(Box::new(facts)), occasion.as_ref(), now)
}

fn step(
    tx: &mut dyn Tx,
    facts: &Facts<'_>,
    occasion: Option<&Occasion>,
    now: i64,
) -> Result<bool, StoreError> {
    let effects =
        plan(facts, now).map_err(|refusal| StoreError::Unexpected(format!("{refusal:?}").into()))?;
    Ok(apply(tx, occasion, &effects, now)?.sent)
}
