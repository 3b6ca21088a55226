//! Claims: the agent that an open event is offered to first, its holder, and its former holders.
//!
//! This module only reads and writes rows. The attention engine decides who may hold a claim and for how long. A writer locks
//! the conversation first, so that two claims on the same event are handled one after the other.

use crate::error::word;
use crate::{Row, StoreError, Tx, TxExt};
use chorus_protocol::ids::{AgentId, ConversationId, EventId, Principal, StreamId};
use chorus_protocol::words::ClaimState;
use uuid::Uuid;

/// The claim on one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    pub event: EventId,
    pub conversation: ConversationId,
    /// The agent that it is offered to before others.
    pub first: Option<AgentId>,
    pub offered_at: i64,
    /// The current or last holder.
    pub held: Option<Held>,
    /// The time of its next change without an act, such as its end.
    pub next_at: Option<i64>,
}

/// The holding of a claim by one principal, now or earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    pub holder: Principal,
    pub since: i64,
    pub until: i64,
    pub state: ClaimState,
}

/// The columns that [`held`] reads, from the table of this name. A holder's id does not tell agents from accounts, so its kind is
/// looked up in the accounts.
macro_rules! held_columns {
    ($table:literal) => {
        concat!(
            $table,
            ".holder, ",
            $table,
            ".since_at, ",
            $table,
            ".until_at, ",
            $table,
            ".state, CASE WHEN EXISTS (SELECT 1 FROM accounts p WHERE p.id = ",
            $table,
            ".holder) THEN 'account' ELSE 'agent' END AS holder_kind"
        )
    };
}
pub(crate) use held_columns;

impl Claim {
    /// Returns the claim as the engine reads it.
    pub fn claim(&self) -> chorus_attention::claims::Claim {
        let held = self.held.map(|held| chorus_attention::claims::Held {
            holder: held.holder,
            since_ms: held.since,
            until_ms: held.until,
            state: held.state,
        });
        chorus_attention::claims::Claim { first: self.first, offered_at_ms: self.offered_at, held }
    }

    /// Returns the row of a claim as the engine left it.
    pub fn row(
        conversation: ConversationId,
        event: EventId,
        claim: &chorus_attention::claims::Claim,
        next_at: Option<i64>,
    ) -> Self {
        let held = claim.held.map(|held| Held {
            holder: held.holder,
            since: held.since_ms,
            until: held.until_ms,
            state: held.state,
        });
        Self { event, conversation, first: claim.first, offered_at: claim.offered_at_ms, held, next_at }
    }
}

const COLUMNS: &str = concat!(
    "SELECT k.event_id, k.conversation_id, k.first_agent, k.offered_at, k.next_at, ",
    held_columns!("k"),
    " FROM claims k WHERE k.event_id = $1"
);

/// Reads the columns of [`held_columns`]. Returns `None` for a claim that nobody ever held.
pub(crate) fn held(row: &mut Row) -> Result<Option<Held>, StoreError> {
    let Some(id) = row.opt_bytes("holder")? else { return Ok(None) };
    let (id, kind) = (Uuid::from_slice(&id).map_err(StoreError::unexpected)?, row.text("holder_kind")?);
    Ok(Some(Held {
        holder: Principal::new(&kind, id).ok_or_else(|| StoreError::unexpected("a holder of no kind"))?,
        since: row.int("since_at")?,
        until: row.int("until_at")?,
        state: word(&row.text("state")?, ClaimState::parse)?,
    }))
}

fn claim(mut row: Row) -> Result<Claim, StoreError> {
    let held = held(&mut row)?;
    Ok(Claim {
        event: EventId(row.uuid("event_id")?),
        conversation: ConversationId(row.uuid("conversation_id")?),
        first: row.opt_bytes("first_agent")?.as_deref().and_then(AgentId::from_slice),
        offered_at: row.int("offered_at")?,
        held,
        next_at: row.opt_int("next_at")?,
    })
}

/// The claim on an event, if there is one.
pub fn of(tx: &mut dyn Tx, event: EventId) -> Result<Option<Claim>, StoreError> {
    tx.first(COLUMNS, &[(&event).into()])?.map(claim).transpose()
}

/// Keeps a claim as it stands now, and who holds it among those that ever did.
pub fn put(tx: &mut dyn Tx, claim: &Claim) -> Result<(), StoreError> {
    let held = claim.held.as_ref();
    tx.execute(
        "INSERT INTO claims (event_id, conversation_id, first_agent, offered_at, holder, since_at, until_at, state, next_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
         ON CONFLICT (event_id) DO UPDATE SET first_agent = $3, offered_at = $4, holder = $5, since_at = $6, until_at = $7,
             state = $8, next_at = $9",
        &[
            (&claim.event).into(),
            (&claim.conversation).into(),
            claim.first.as_ref().into(),
            claim.offered_at.into(),
            held.map(|held| held.holder.uuid()).as_ref().into(),
            held.map(|held| held.since).into(),
            held.map(|held| held.until).into(),
            held.map(|held| held.state.as_str()).into(),
            claim.next_at.into(),
        ],
    )?;
    if let Some(held) = held {
        tx.execute(
            "INSERT INTO claim_holders (event_id, since_at, holder, until_at, state) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (event_id, since_at, holder) DO UPDATE SET until_at = $4, state = $5",
            &[
                (&claim.event).into(),
                held.since.into(),
                (&held.holder.uuid()).into(),
                held.until.into(),
                held.state.as_str().into(),
            ],
        )?;
    }
    Ok(())
}

/// Everybody that ever held the claim on an event, the first one first.
pub fn holders(tx: &mut dyn Tx, event: EventId, limit: i64) -> Result<Vec<Held>, StoreError> {
    tx.query(
        concat!(
            "SELECT ",
            held_columns!("h"),
            " FROM claim_holders h WHERE h.event_id = $1 ORDER BY h.since_at, h.holder LIMIT $2"
        ),
        &[(&event).into(), limit.into()],
    )?
    .into_iter()
    .filter_map(|mut row| held(&mut row).transpose())
    .collect()
}

/// Claims that change by themselves by now, those that wait longest first.
pub fn due(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<Vec<(EventId, ConversationId)>, StoreError> {
    tx.query(
        "SELECT event_id, conversation_id FROM claims WHERE next_at IS NOT NULL AND next_at <= $1
         ORDER BY next_at, event_id LIMIT $2",
        &[now.into(), limit.into()],
    )?
    .into_iter()
    .map(|mut row| Ok((EventId(row.uuid("event_id")?), ConversationId(row.uuid("conversation_id")?))))
    .collect()
}

/// Somebody has left a conversation: what it holds there runs out now, and what was offered to it first is open to the others.
/// What follows is for whoever looks after claims that are due.
pub(crate) fn free(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    who: Principal,
    now: i64,
) -> Result<(), StoreError> {
    let id = who.uuid();
    let of_agent = [(&conversation).into(), (&id).into(), now.into()];
    tx.execute(
        "UPDATE claims SET until_at = $3, next_at = $3
         WHERE holder = $2 AND state = 'held' AND conversation_id = $1 AND until_at > $3",
        &of_agent,
    )?;
    // Nobody who is gone is asked again. An offer that is open is due.
    tx.execute(
        "UPDATE claims SET first_agent = NULL,
                next_at = CASE WHEN next_at IS NULL OR (state = 'held' AND holder <> $2) THEN next_at ELSE CAST($3 AS BIGINT) END
         WHERE first_agent = $2 AND conversation_id = $1",
        &of_agent,
    )?;
    Ok(())
}

/// A work stream was closed: what is held of it runs out now.
pub fn free_stream(tx: &mut dyn Tx, stream: StreamId, now: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE claims SET until_at = $2, next_at = $2 WHERE state = 'held' AND until_at > $2
         AND event_id IN (SELECT w.event_id FROM work_stream_events w WHERE w.stream_id = $1)",
        &[(&stream).into(), now.into()],
    )?;
    Ok(())
}
