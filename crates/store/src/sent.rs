//! What agents sent by the relay, as their senders see it: how far it came, and nothing of what it says.
//!
//! A row for each send names the receiver's inbox and the place there; how it stands is the delivery's business. Pages go
//! from the newest back, because traces are made before they are committed: going forward could pass one over.

use crate::error::word;
use crate::{Row, StoreError, Tx, TxExt};
use chorus_protocol::ids::{AgentId, TraceId};
use chorus_protocol::words::{DeliveryState, Transport};

/// One envelope that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// What it belongs to.
    pub trace: TraceId,
    /// Its place in the receiver's inbox.
    pub seq: i64,
    /// The receiver's name.
    pub receiver: String,
    /// How it travels.
    pub transport: Transport,
    /// How it stands.
    pub state: DeliveryState,
    /// Why it failed.
    pub detail: Option<String>,
    /// When it was stored.
    pub created_at: i64,
    /// When its state last changed.
    pub updated_at: i64,
    /// Whether a connection of the receiver's was handed it.
    pub handed: bool,
    /// When, if that was noted.
    pub handed_at: Option<i64>,
}

/// Where a page of them begins: after this one.
pub type Place = (TraceId, i64);

/// Notes that an envelope was sent.
pub(crate) fn note(
    tx: &mut dyn Tx,
    sender: AgentId,
    trace: TraceId,
    receiver: AgentId,
    seq: i64,
) -> Result<(), StoreError> {
    tx.append(
        "INSERT INTO sent (sender_id, trace_id, seq, agent_id) VALUES ($1, $2, $3, $4)",
        &[(&sender).into(), (&trace).into(), seq.into(), (&receiver).into()],
    )
}

macro_rules! select_sent {
    ($rest:literal) => {
        concat!(
            "SELECT s.trace_id, s.seq, a.name, d.transport, d.state, d.detail, d.created_at, d.updated_at,
                    CASE WHEN s.seq <= i.handed_through AND d.transport = 'inbox' THEN 1 ELSE 0 END,
                    (SELECT h.at FROM handed h WHERE h.agent_id = s.agent_id AND h.through >= s.seq
                     ORDER BY h.through LIMIT 1)
             FROM sent s JOIN deliveries d ON d.agent_id = s.agent_id AND d.seq = s.seq
                         JOIN agents a ON a.id = s.agent_id
                         JOIN inboxes i ON i.agent_id = s.agent_id ",
            $rest
        )
    };
}

fn sent(mut row: Row) -> Result<Sent, StoreError> {
    let handed = row.int(8)? == 1;
    Ok(Sent {
        trace: TraceId(row.uuid(0)?),
        seq: row.int(1)?,
        receiver: row.text(2)?,
        transport: word(&row.text(3)?, Transport::parse)?,
        state: word(&row.text(4)?, DeliveryState::parse)?,
        detail: row.opt_text(5)?,
        created_at: row.int(6)?,
        updated_at: row.int(7)?,
        handed,
        handed_at: row.opt_int(9)?.filter(|_| handed),
    })
}

/// A page of what an agent sent, from the newest back.
pub fn page(
    tx: &mut dyn Tx,
    sender: AgentId,
    after: Option<Place>,
    limit: i64,
) -> Result<Vec<Sent>, StoreError> {
    let rows = match after {
        None => tx.query(
            select_sent!("WHERE s.sender_id = $1 ORDER BY s.trace_id DESC, s.seq DESC LIMIT $2"),
            &[(&sender).into(), limit.into()],
        ),
        Some((trace, seq)) => tx.query(
            select_sent!(
                "WHERE s.sender_id = $1 AND (s.trace_id, s.seq) < ($2, $3)
                 ORDER BY s.trace_id DESC, s.seq DESC LIMIT $4"
            ),
            &[(&sender).into(), (&trace).into(), seq.into(), limit.into()],
        ),
    };
    rows?.into_iter().map(sent).collect()
}

/// One that an agent sent; the first, if it said several things under the same trace.
pub fn one(tx: &mut dyn Tx, sender: AgentId, trace: TraceId) -> Result<Option<Sent>, StoreError> {
    tx.first(
        select_sent!("WHERE s.sender_id = $1 AND s.trace_id = $2 ORDER BY s.seq LIMIT 1"),
        &[(&sender).into(), (&trace).into()],
    )?
    .map(sent)
    .transpose()
}

/// Forgets one whose delivery is gone.
pub(crate) fn remove(tx: &mut dyn Tx, sender: AgentId, trace: TraceId, seq: i64) -> Result<(), StoreError> {
    tx.execute(
        "DELETE FROM sent WHERE sender_id = $1 AND trace_id = $2 AND seq = $3",
        &[(&sender).into(), (&trace).into(), seq.into()],
    )?;
    Ok(())
}
