//! How long agents have talked among themselves in a conversation: how many of their messages have woken another agent since a
//! person spoke. Whether that is too long is not decided here.
//!
//! Whoever writes holds the conversation.

use crate::{StoreError, Tx, TxExt};
use chorus_protocol::ids::ConversationId;

/// How many.
pub fn turns(tx: &mut dyn Tx, conversation: ConversationId) -> Result<u32, StoreError> {
    let sql = "SELECT turns FROM loop_guards WHERE conversation_id = $1";
    let turns = tx.first(sql, &[(&conversation).into()])?.map_or(Ok(0), |mut row| row.int(0))?;
    Ok(u32::try_from(turns).unwrap_or(u32::MAX))
}

/// One more.
pub fn count(tx: &mut dyn Tx, conversation: ConversationId) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO loop_guards (conversation_id, turns) VALUES ($1, 1)
         ON CONFLICT (conversation_id) DO UPDATE SET turns = loop_guards.turns + 1",
        &[(&conversation).into()],
    )?;
    Ok(())
}

/// A person speaks: it begins anew. Nothing is written where nothing was counted.
pub fn reset(tx: &mut dyn Tx, conversation: ConversationId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM loop_guards WHERE conversation_id = $1", &[(&conversation).into()])?;
    Ok(())
}
