//! Claims: who is asked first about an event that is for whoever takes it, who holds it, and who ever did.
//!
//! Rows and nothing more: who may hold one, and for how long, is the engine's to say. Whoever writes holds the conversation,
//! so that two who want the same claim come one after the other.

use crate::error::word;
use crate::{Row, StoreError, Tx, TxExt};
use chorus_protocol::ids::{AgentId, ConversationId, EventId, Principal, StreamId};
use chorus_protocol::words::ClaimState;
use uuid::Uuid;

/// The claim on one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// On which event.
    pub event: EventId,
    /// Where that was said.
    pub conversation: ConversationId,
    /// Whom it is offered to before others.
    pub first: Option<AgentId>,
    /// Since when it is offered.
    pub offered_at: i64,
    /// Who holds it, or held it last.
    pub held: Option<Held>,
    /// When something changes by itself.
    pub next_at: Option<i64>,
}

/// That somebody holds a claim, or held it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Who.
    pub holder: Principal,
    /// Since when.
    pub since: i64,
    /// Until when.
    pub until: i64,
    /// What became of it.
    pub state: ClaimState,
}

/// That somebody holds a claim, from the table that is called so: agents and accounts have ids of one kind, so what a holder is
/// follows from where its id is.
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
            ".holder) THEN 'account' ELSE 'agent' END"
        )
    };
}
pub(crate) use held_columns;

const COLUMNS: &str = concat!(
    "SELECT k.event_id, k.conversation_id, k.first_agent, k.offered_at, k.next_at, ",
    held_columns!("k"),
    " FROM claims k WHERE k.event_id = $1"
);

/// From these columns on; nothing where nobody ever held it.
pub(crate) fn held(row: &mut Row, first: usize) -> Result<Option<Held>, StoreError> {
    let Some(id) = row.opt_bytes(first)? else { return Ok(None) };
    let (id, kind) = (Uuid::from_slice(&id).map_err(StoreError::unexpected)?, row.text(first + 4)?);
    Ok(Some(Held {
        holder: Principal::new(&kind, id).ok_or_else(|| StoreError::unexpected("a holder of no kind"))?,
        since: row.int(first + 1)?,
        until: row.int(first + 2)?,
        state: word(&row.text(first + 3)?, ClaimState::parse)?,
    }))
}

fn claim(mut row: Row) -> Result<Claim, StoreError> {
    let held = held(&mut row, 5)?;
    Ok(Claim {
        event: EventId(row.uuid(0)?),
        conversation: ConversationId(row.uuid(1)?),
        first: row.opt_bytes(2)?.as_deref().and_then(AgentId::from_slice),
        offered_at: row.int(3)?,
        held,
        next_at: row.opt_int(4)?,
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

/// Somebody has to look at a claim by then.
pub fn look_at(tx: &mut dyn Tx, event: EventId, at: i64) -> Result<(), StoreError> {
    tx.execute("UPDATE claims SET next_at = $2 WHERE event_id = $1", &[(&event).into(), at.into()])?;
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
    .filter_map(|mut row| held(&mut row, 0).transpose())
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
    .map(|mut row| Ok((EventId(row.uuid(0)?), ConversationId(row.uuid(1)?))))
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
