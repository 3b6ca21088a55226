//! Counts messages by which agents woke other agents in a conversation since a person spoke. Callers decide on
//! the limit.
//!
//! Writers hold the lock of the conversation.

use crate::{StoreError, Tx, TxExt};
use chorus_protocol::ids::{AgentId, ConversationId};

/// Returns the count, or 0 if the last message is older than `since`.
pub fn turns(tx: &mut dyn Tx, conversation: ConversationId, since: i64) -> Result<u32, StoreError> {
    let sql = "SELECT turns FROM loop_guards WHERE conversation_id = $1 AND counted_at > $2";
    let turns =
        tx.first(sql, &[(&conversation).into(), since.into()])?.map_or(Ok(0), |mut row| row.int("turns"))?;
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

/// The number of an agent's newest jobs that are examined.
const RECENT_JOBS: i64 = 100;

/// Returns whether one of two agents works for the other: it has claimed or deferred a message of the other in
/// this conversation, or has an open job of the other.
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
