//! How long agents have talked among themselves in a conversation: how many of their messages have woken another agent since a
//! person spoke. Whether that is too long is not decided here.
//!
//! Whoever writes holds the conversation.

use crate::{StoreError, Tx, TxExt};
use chorus_protocol::ids::ConversationId;

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
