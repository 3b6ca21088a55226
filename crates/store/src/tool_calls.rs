//! Calls of the hub's tools, and their outcomes, without their arguments.
//!
//! The newest [`MOST_OF_ONE`] calls of each caller are kept for a limited time, so that no caller fills the
//! table or pushes out another's calls.

use crate::audit::{KEPT_MS, first_of, time_of};
use crate::trail::TrailScope;
use crate::{Row, StoreError, Tx, TxExt};
use chorus_protocol::ids::{ConversationId, EventId, Principal};
use std::collections::BTreeSet;
use uuid::Uuid;

/// So many calls of one caller are kept.
pub const MOST_OF_ONE: i64 = 1000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// Its id, which sorts by time.
    pub id: Uuid,
    pub caller: Principal,
    /// The tool's name, as it is at the door.
    pub tool: String,
    pub door: String,
    /// The conversation, if the caller is a member of it.
    pub conversation: Option<ConversationId>,
    pub event: Option<EventId>,
    /// `done`, or the code of the refusal.
    pub outcome: String,
}

impl ToolCall {
    /// Returns its time, from the id.
    pub fn at(&self) -> i64 {
        time_of(self.id)
    }
}

const FORGET: &str = "DELETE FROM tool_calls WHERE caller_id = $1 AND id <=
     (SELECT id FROM tool_calls WHERE caller_id = $1 ORDER BY id DESC LIMIT 1 OFFSET $2)";

pub fn record(tx: &mut dyn Tx, calls: &[ToolCall]) -> Result<(), StoreError> {
    for call in calls {
        tx.execute(
            "INSERT INTO tool_calls (id, caller_kind, caller_id, tool, door, conversation_id, event_id, outcome)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING",
            &[
                (&call.id).into(),
                call.caller.kind().as_str().into(),
                (&call.caller.uuid()).into(),
                call.tool.as_str().into(),
                call.door.as_str().into(),
                call.conversation.as_ref().into(),
                call.event.as_ref().into(),
                call.outcome.as_str().into(),
            ],
        )?;
    }
    for caller in calls.iter().map(|call| call.caller.uuid()).collect::<BTreeSet<_>>() {
        tx.execute(FORGET, &[(&caller).into(), MOST_OF_ONE.into()])?;
    }
    Ok(())
}

macro_rules! select_calls {
    ($which:literal) => {
        concat!(
            "SELECT id, caller_kind, caller_id, tool, door, conversation_id, event_id, outcome FROM tool_calls WHERE ",
            $which,
            " AND id > $2 ORDER BY id LIMIT $3"
        )
    };
}
const IN: &str = select_calls!("conversation_id = $1");
const BY: &str = select_calls!("caller_id = $1");
const ABOUT: &str = select_calls!("event_id = $1");

/// Calls in one conversation or of one caller, in order, after a call and since a time.
pub fn list(
    tx: &mut dyn Tx,
    scope: TrailScope,
    after: Option<Uuid>,
    since: i64,
    limit: i64,
) -> Result<Vec<ToolCall>, StoreError> {
    let (sql, of) = match scope {
        TrailScope::Conversation(id) => (IN, id.0),
        TrailScope::Author(who) => (BY, who.uuid()),
    };
    page(tx, sql, of, after, since, limit)
}

/// The same for calls about one event.
pub fn about(
    tx: &mut dyn Tx,
    event: EventId,
    after: Option<Uuid>,
    since: i64,
    limit: i64,
) -> Result<Vec<ToolCall>, StoreError> {
    page(tx, ABOUT, event.0, after, since, limit)
}

fn page(
    tx: &mut dyn Tx,
    sql: &'static str,
    of: Uuid,
    after: Option<Uuid>,
    since: i64,
    limit: i64,
) -> Result<Vec<ToolCall>, StoreError> {
    let begin = first_of(since);
    let after = after.map_or(begin, |after| after.max(begin));
    tx.query(sql, &[(&of).into(), (&after).into(), limit.into()])?.into_iter().map(call).collect()
}

fn call(mut row: Row) -> Result<ToolCall, StoreError> {
    let (kind, caller) = (row.text("caller_kind")?, row.uuid("caller_id")?);
    Ok(ToolCall {
        id: row.uuid("id")?,
        caller: Principal::new(&kind, caller)
            .ok_or_else(|| StoreError::unexpected(format!("a caller of kind {kind:?}")))?,
        tool: row.text("tool")?,
        door: row.text("door")?,
        conversation: row.opt_bytes("conversation_id")?.as_deref().and_then(ConversationId::from_slice),
        event: row.opt_bytes("event_id")?.as_deref().and_then(EventId::from_slice),
        outcome: row.text("outcome")?,
    })
}

/// A reconciler: forgets some of what is too old, and says how much.
pub fn remove_old(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM tool_calls WHERE id IN (SELECT id FROM tool_calls WHERE id < $1 ORDER BY id LIMIT $2)",
        &[(&first_of(now - KEPT_MS)).into(), limit.into()],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::plan_of;

    /// However much everybody else called.
    #[tokio::test]
    async fn each_question_has_its_index() {
        for (sql, params, index) in [
            (IN, 3, "tool_calls_in (conversation_id=? AND id>?"),
            (BY, 3, "tool_calls_by_caller (caller_id=? AND id>?"),
            (ABOUT, 3, "tool_calls_about (event_id=? AND id>?"),
        ] {
            let plan = plan_of(sql, params).await;
            assert!(plan.contains(index), "{plan}");
        }
    }
}
