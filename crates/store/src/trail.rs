//! The activity log: claims, tool calls and messages in the order of time.
//!
//! It is read from claims and the log; nothing is written twice. Attention decisions and their outcomes are in
//! [`push`](crate::push). Each query goes to one conversation or one principal by an index.

use crate::claims::{Held, held, held_columns};
use crate::conversations::{Event, event, select_event};
use crate::{Row, StoreError, Tx, TxExt, audit};
use chorus_protocol::ids::{AgentId, ConversationId, EventId, Principal};
use chorus_protocol::words::EventKind;

/// The scope of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrailScope {
    Conversation(ConversationId),
    /// In whatever one agent or person did.
    Author(Principal),
}

/// A claim that somebody held, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimHolding {
    pub event: EventId,
    pub conversation: ConversationId,
    pub held: Held,
}

/// A place among claims: on which event, since when, who.
pub type ClaimPlace = (EventId, i64, Principal);

macro_rules! select_taken {
    ($which:literal) => {
        concat!(
            "SELECT h.event_id, c.conversation_id, ",
            held_columns!("h"),
            " FROM claims c JOIN claim_holders h ON h.event_id = c.event_id WHERE ",
            $which,
            " AND h.event_id >= $2 AND (h.event_id > $2 OR h.since_at > $3 OR (h.since_at = $3 AND h.holder > $4))
             ORDER BY h.event_id, h.since_at, h.holder LIMIT $5"
        )
    };
}

const TAKEN_IN: &str = select_taken!("c.conversation_id = $1");
const TAKEN_BY: &str = select_taken!("h.holder = $1");

fn taken(mut row: Row) -> Result<ClaimHolding, StoreError> {
    Ok(ClaimHolding {
        event: EventId(row.uuid("event_id")?),
        conversation: ConversationId(row.uuid("conversation_id")?),
        held: held(&mut row)?.ok_or_else(|| StoreError::unexpected("a claim of nobody"))?,
    })
}

/// Claims after a place, and on events since a time.
pub fn claims(
    tx: &mut dyn Tx,
    scope: TrailScope,
    after: Option<ClaimPlace>,
    since: i64,
    limit: i64,
) -> Result<Vec<ClaimHolding>, StoreError> {
    let begin = (EventId(audit::first_of(since)), 0, AgentId(uuid::Uuid::nil()).into());
    let (event, at, holder) = after.filter(|place| place.0 > begin.0).unwrap_or(begin);
    let (sql, of) = match scope {
        TrailScope::Conversation(id) => (TAKEN_IN, id.0),
        TrailScope::Author(who) => (TAKEN_BY, who.uuid()),
    };
    let holder = holder.uuid();
    let params = [(&of).into(), (&event).into(), at.into(), (&holder).into(), limit.into()];
    tx.query(sql, &params)?.into_iter().map(taken).collect()
}

const DONE_IN: &str = select_event!(
    "WHERE e.conversation_id = $1 AND e.kind = $2 AND e.seq <> 0 AND e.seq > $3 ORDER BY e.seq LIMIT $4"
);
const DONE_BY: &str =
    select_event!("WHERE e.author_id = $1 AND e.seq <> 0 AND e.id > $2 ORDER BY e.id LIMIT $3");

/// Lists events of one kind in a conversation, after a position.
pub fn done_in(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    kind: EventKind,
    after: i64,
    limit: i64,
) -> Result<Vec<Event>, StoreError> {
    let params = [(&conversation).into(), kind.as_str().into(), after.into(), limit.into()];
    tx.query(DONE_IN, &params)?.into_iter().map(event).collect()
}

/// Lists events of a principal after an event, of every kind.
pub fn done_by(
    tx: &mut dyn Tx,
    who: Principal,
    after: Option<EventId>,
    since: i64,
    limit: i64,
) -> Result<Vec<Event>, StoreError> {
    let begin = EventId(audit::first_of(since));
    let after = after.map_or(begin, |after| after.max(begin));
    tx.query(DONE_BY, &[(&who.uuid()).into(), (&after).into(), limit.into()])?
        .into_iter()
        .map(event)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::plan_of;

    /// However much everybody else did.
    #[tokio::test]
    async fn each_question_has_its_index() {
        for (sql, params, index) in [
            (TAKEN_IN, 5, "claims_by_conversation (conversation_id=?"),
            (TAKEN_BY, 5, "claim_holders_by_holder (holder=?"),
            (DONE_IN, 4, "events_by_kind (conversation_id=? AND kind=? AND seq>?"),
            (DONE_BY, 3, "events_by_author (author_id=? AND id>?"),
        ] {
            let plan = plan_of(sql, params).await;
            assert!(plan.contains(index), "{plan}");
        }
    }
}
