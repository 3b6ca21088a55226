//! Records that a job reached its agent, and when.

use super::jobs::Agreed;
use crate::push::Due;
use crate::{StoreError, Tx, TxExt};
use chorus_protocol::ids::{AgentId, DeliveryId, EventId};

/// Returns the delivery of a job to its agent.
pub fn delivery(tx: &mut dyn Tx, job: &Agreed) -> Result<Option<DeliveryId>, StoreError> {
    let row = tx.first(
        "SELECT agent_id, seq FROM chats WHERE event_id = $1 AND agent_id = $2 LIMIT 1",
        &[(&job.event).into(), (&job.agent).into()],
    )?;
    row.map(|mut row| Ok(DeliveryId { agent: AgentId(row.uuid("agent_id")?), seq: row.int("seq")? }))
        .transpose()
}

/// Returns whether a job came to its agent: its endpoint took it, or its inbox was handed it.
pub fn was_handed(tx: &mut dyn Tx, job: &Agreed) -> Result<bool, StoreError> {
    let row = tx.first(
        "SELECT 1 FROM chats c JOIN deliveries d ON d.agent_id = c.agent_id AND d.seq = c.seq
                      JOIN inboxes i ON i.agent_id = c.agent_id
         WHERE c.event_id = $1 AND c.agent_id = $2
           AND (d.state = 'delivered' OR (d.transport = 'inbox' AND d.seq <= i.handed_through)) LIMIT 1",
        &[(&job.event).into(), (&job.agent).into()],
    )?;
    Ok(row.is_some())
}

/// Returns whether the agent of an open job got it by a POST whose outcome nobody recorded: the node that waited for the answer died.
pub fn was_cut_off(tx: &mut dyn Tx, due: &Due) -> Result<bool, StoreError> {
    let row = tx.first(
        "SELECT 1 FROM jobs WHERE event_id = $1 AND status = 'PENDING' AND handed_at IS NOT NULL
           AND (SELECT COUNT(*) FROM attempts WHERE agent_id = $2 AND seq = $3) < $4",
        &[(&due.event).into(), (&due.id.agent).into(), due.id.seq.into(), (due.attempt - 1).into()],
    )?;
    Ok(row.is_some())
}

/// The outcome of a POST: a status, if it was answered at all, and what went wrong.
pub type LastTry = (Option<i64>, Option<String>);

/// Returns the outcome of the last POST of a job to its agent's endpoint.
pub fn last_try(tx: &mut dyn Tx, job: &Agreed) -> Result<Option<LastTry>, StoreError> {
    let Some(delivery) = delivery(tx, job)? else { return Ok(None) };
    let row = tx.first(
        "SELECT status, error FROM attempts WHERE agent_id = $1 AND seq = $2 ORDER BY number DESC LIMIT 1",
        &[(&delivery.agent).into(), delivery.seq.into()],
    )?;
    row.map(|mut row| Ok((row.opt_int("status")?, row.opt_text("error")?))).transpose()
}

/// Returns those of these events whose jobs are open and whose agents have not got them yet, in order.
pub fn unrecorded(tx: &mut dyn Tx, events: &[EventId]) -> Result<Vec<EventId>, StoreError> {
    let sql = "SELECT 1 FROM jobs WHERE event_id = $1 AND status = 'PENDING' AND handed_at IS NULL";
    let mut found = vec![];
    for event in events {
        if tx.first(sql, &[event.into()])?.is_some() {
            found.push(*event);
        }
    }
    // In one order everywhere, so that two that poll never wait for each other.
    found.sort_unstable();
    Ok(found)
}

/// Notes that agents got these jobs at this time, in the order of [`unrecorded`].
pub fn record_all(tx: &mut dyn Tx, events: &[EventId], at: i64) -> Result<(), StoreError> {
    events.iter().try_for_each(|event| record(tx, *event, at))
}

/// Notes that the agent of an open job got it at this time. The first time stays.
pub fn record(tx: &mut dyn Tx, event: EventId, at: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE jobs SET handed_at = $2 WHERE event_id = $1 AND status = 'PENDING' AND handed_at IS NULL",
        &[(&event).into(), at.into()],
    )?;
    Ok(())
}
