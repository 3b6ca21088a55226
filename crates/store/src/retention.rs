//! What was said is kept as long as the hub's settings and its channel say, and no longer.
//!
//! From the oldest on, a little at a time, and never past something that is still on its way, or that somebody still has to
//! answer: what is gone of a conversation
//! is everything before its `oldest` place, so that whoever goes on from before that learns of the gap. Documents stay, with
//! their newest version at least; so does who was there when.

use crate::deliveries::Removed;
use crate::usage::ROW_BYTES;
use crate::{StoreError, Tx, TxExt, search};
use chorus_protocol::ids::{ConversationId, EventId, Principal};

/// How many conversations one step looks into.
const CONVERSATIONS: i64 = 20;

/// A reconciler: removes what was said longer ago than `keep_ms`, or than the channel says, a bounded number at a time.
pub fn remove_said(
    tx: &mut dyn Tx,
    now: i64,
    keep_ms: Option<i64>,
    limit: i64,
) -> Result<Removed, StoreError> {
    let cutoff = keep_ms.map_or(i64::MIN / 2, |keep| now - keep);
    // The first that is there, of each conversation, tells whether there is anything to do.
    let old = tx.query(
        "SELECT c.id, CASE WHEN c.keep_days IS NOT NULL AND CAST($1 AS BIGINT) - c.keep_days * 86400000 > CAST($2 AS BIGINT)
                           THEN CAST($1 AS BIGINT) - c.keep_days * 86400000 ELSE CAST($2 AS BIGINT) END
         FROM conversations c JOIN events e ON e.conversation_id = c.id AND e.seq = c.oldest
         WHERE e.seq > 0 AND e.created_at <
               CASE WHEN c.keep_days IS NOT NULL AND CAST($1 AS BIGINT) - c.keep_days * 86400000 > CAST($2 AS BIGINT)
                    THEN CAST($1 AS BIGINT) - c.keep_days * 86400000 ELSE CAST($2 AS BIGINT) END
         ORDER BY c.id LIMIT $3",
        &[now.into(), cutoff.into(), CONVERSATIONS.into()],
    )?;
    let mut removed = Removed::default();
    for mut row in old {
        let (conversation, before) = (ConversationId(row.uuid(0)?), row.int(1)?);
        let left = limit - removed.events as i64;
        if left <= 0 {
            break;
        }
        remove_of(tx, conversation, before, left, &mut removed)?;
    }
    Ok(removed)
}

/// Removes the first events of one conversation that are from before this time.
fn remove_of(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    before: i64,
    limit: i64,
    removed: &mut Removed,
) -> Result<(), StoreError> {
    tx.lock(conversation.0)?;
    let events = tx.query(
        "SELECT e.id, e.seq, e.created_at, e.author_kind, e.author_id, COALESCE(OCTET_LENGTH(e.body), 0),
                CASE WHEN EXISTS (SELECT 1 FROM chats c WHERE c.event_id = e.id
                               AND (c.give_up_at IS NOT NULL OR c.next_at IS NOT NULL))
                       OR EXISTS (SELECT 1 FROM claims m WHERE m.event_id = e.id AND m.next_at IS NOT NULL)
                     THEN 1 ELSE 0 END
         FROM events e JOIN conversations k ON k.id = e.conversation_id
         WHERE e.conversation_id = $1 AND e.seq > 0 AND e.seq >= k.oldest ORDER BY e.seq LIMIT $2",
        &[(&conversation).into(), limit.into()],
    )?;
    let mut oldest = None;
    for mut row in events {
        let (id, seq, created_at) = (EventId(row.uuid(0)?), row.int(1)?, row.int(2)?);
        let is_under_way = row.int(6)? == 1;
        if created_at >= before || is_under_way {
            break;
        }
        let author = Principal::new(&row.text(3)?, row.uuid(4)?);
        let bytes = row.int(5)?;
        remove_event(tx, id, author, bytes, removed)?;
        oldest = Some(seq + 1);
    }
    if let Some(oldest) = oldest {
        tx.execute(
            "UPDATE conversations SET oldest = $2 WHERE id = $1",
            &[(&conversation).into(), oldest.into()],
        )?;
    }
    Ok(())
}

fn remove_event(
    tx: &mut dyn Tx,
    id: EventId,
    author: Option<Principal>,
    bytes: i64,
    removed: &mut Removed,
) -> Result<(), StoreError> {
    for mut row in tx.query("SELECT agent_id, seq FROM chats WHERE event_id = $1", &[(&id).into()])? {
        let (agent, seq) = (row.uuid(0)?, row.int(1)?);
        let key = [(&agent).into(), seq.into()];
        tx.execute("DELETE FROM chats WHERE agent_id = $1 AND seq = $2", &key)?;
        tx.execute("DELETE FROM attempts WHERE agent_id = $1 AND seq = $2", &key)?;
        removed.deliveries += tx.execute("DELETE FROM deliveries WHERE agent_id = $1 AND seq = $2", &key)?;
    }
    for sql in [
        "DELETE FROM claims WHERE event_id = $1",
        "DELETE FROM claim_holders WHERE event_id = $1",
        "DELETE FROM work_stream_events WHERE event_id = $1",
    ] {
        tx.execute(sql, &[(&id).into()])?;
    }
    search::remove(tx, id)?;
    let large = tx.first(
        "DELETE FROM large_bodies WHERE event_id = $1 RETURNING OCTET_LENGTH(body)",
        &[(&id).into()],
    )?;
    let large = large.map_or(Ok(0), |mut row| row.int(0))?;
    tx.execute("DELETE FROM events WHERE id = $1", &[(&id).into()])?;
    if let Some(author) = author {
        *removed.bytes.entry(author).or_default() += bytes + large + ROW_BYTES;
    }
    removed.events += 1;
    Ok(())
}
