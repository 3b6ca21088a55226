//! How long agents have talked among themselves in a conversation: how many of their messages have woken another agent since a
//! person spoke. Whether that is too long is not decided here.
//!
//! Whoever writes holds the conversation.

use crate::{StoreError, Tx, TxExt};
use chorus_protocol::ids::{AgentId, ConversationId};

/// How many, if the last one is not as old as `since`.
pub fn turns(tx: &mut dyn Tx, conversation: ConversationId, since: i64) -> Result<u32, StoreError> {
    let sql = "SELECT turns FROM loop_guards WHERE conversation_id = $1 AND counted_at > $2";
    let turns =
        tx.first(sql, &[(&conversation).into(), since.into()])?.map_or(Ok(0), |mut row| row.int(0))?;
    Ok(u32::try_from(turns).unwrap_or(u32::MAX))
}

/// One more; the first one, if the last is as old as `since`.
pub fn count(tx: &mut dyn Tx, conversation: ConversationId, since: i64, now: i64) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO loop_guards (conversation_id, turns, counted_at) VALUES ($1, 1, $3)
         ON CONFLICT (conversation_id) DO UPDATE SET
             turns = CASE WHEN loop_guards.counted_at > $2 THEN loop_guards.turns + 1 ELSE 1 END, counted_at = $3",
        &[(&conversation).into(), since.into(), now.into()],
    )?;
    Ok(())
}

/// A person speaks: it begins anew. Nothing is written where nothing was counted.
pub fn reset(tx: &mut dyn Tx, conversation: ConversationId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM loop_guards WHERE conversation_id = $1", &[(&conversation).into()])?;
    Ok(())
}

/// How many of an agent's newest jobs are looked at.
const RECENT_JOBS: i64 = 100;

/// Whether one of two agents is at work for the other: it has taken on or put off something that the other said there, or has
/// an open job of its.
pub fn work_together(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    (one, other): (AgentId, AgentId),
) -> Result<bool, StoreError> {
    for (worker, asker) in [(one, other), (other, one)] {
        let found = tx.first(
            "SELECT 1 FROM chats c JOIN events e ON e.id = c.event_id
             WHERE c.agent_id = $1 AND c.next_at IS NOT NULL AND c.disposition IN ('claimed', 'deferred')
               AND e.author_id = $2 AND e.conversation_id = $3 LIMIT 1",
            &[(&worker).into(), (&asker).into(), (&conversation).into()],
        )?;
        if found.is_some() {
            return Ok(true);
        }
        let found = tx.first(
            "SELECT 1 FROM (SELECT orchestrator_id, status FROM jobs WHERE agent_id = $1
                            ORDER BY created_at DESC, id DESC LIMIT $3) j
             WHERE j.orchestrator_id = $2 AND j.status = 'PENDING' LIMIT 1",
            &[(&worker).into(), (&asker).into(), RECENT_JOBS.into()],
        )?;
        if found.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}
