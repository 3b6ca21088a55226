//! Deletes events that are older than the hub's and the channel's settings allow.
//!
//! Deletion begins with the oldest event, works in small steps, and stops at an event that is still being
//! delivered or must still be answered. In a conversation everything before its `oldest` position is gone, so
//! that a reader with an older cursor notices the gap. Documents keep at least their newest version, and
//! membership rows stay.

use crate::error::word;
use crate::usage::{self, ROW_BYTES};
use crate::{StoreError, Tx, TxExt, search, sent};
use chorus_protocol::ids::{ConversationId, EventId, Principal, TraceId};
use chorus_protocol::words::EntryKind;
use std::collections::BTreeMap;
use uuid::Uuid;

/// The number of conversations per step.
const CONVERSATIONS: i64 = 20;

/// The condition that an event `e` is still being delivered or must still be answered.
macro_rules! is_under_way {
    () => {
        "(EXISTS (SELECT 1 FROM chats h WHERE h.event_id = e.id AND (h.give_up_at IS NOT NULL OR h.next_at IS NOT NULL))
          OR EXISTS (SELECT 1 FROM claims m WHERE m.event_id = e.id AND m.next_at IS NOT NULL))"
    };
}

/// Conversations whose first event is old, and since when what was said there is not. One that is under way may stay so for ever
/// (its agent is paused): conversations that begin with such a one do not take the places of others.
const OLD: &str = concat!(
    "SELECT c.id, CASE WHEN c.keep_days IS NOT NULL AND CAST($1 AS BIGINT) - c.keep_days * 86400000 > CAST($2 AS BIGINT)
                       THEN CAST($1 AS BIGINT) - c.keep_days * 86400000 ELSE CAST($2 AS BIGINT) END AS cutoff
     FROM conversations c JOIN events e ON e.conversation_id = c.id AND e.seq = c.oldest
     WHERE e.seq > 0 AND e.created_at <
           CASE WHEN c.keep_days IS NOT NULL AND CAST($1 AS BIGINT) - c.keep_days * 86400000 > CAST($2 AS BIGINT)
                THEN CAST($1 AS BIGINT) - c.keep_days * 86400000 ELSE CAST($2 AS BIGINT) END
           AND NOT ",
    is_under_way!(),
    " ORDER BY c.id LIMIT $3"
);

/// The first events of a conversation, and whether each is under way.
const FIRST_EVENTS: &str = concat!(
    "SELECT e.id, e.seq, e.created_at, e.author_kind, e.author_id, COALESCE(OCTET_LENGTH(e.body), 0) AS body_bytes, CASE WHEN ",
    is_under_way!(),
    " THEN 1 ELSE 0 END AS is_under_way
     FROM events e JOIN conversations k ON k.id = e.conversation_id
     WHERE e.conversation_id = $1 AND e.seq > 0 AND e.seq >= k.oldest ORDER BY e.seq LIMIT $2"
);

/// The result of a retention step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    /// Deliveries that are gone.
    pub deliveries: u64,
    /// Events that are gone.
    pub events: u64,
    /// The bytes removed, by author.
    pub bytes: BTreeMap<Principal, i64>,
}

/// A reconciler: removes what was said longer ago than `keep_ms`, or than the channel says, a bounded number at a time.
pub fn remove_said(
    tx: &mut dyn Tx,
    now: i64,
    keep_ms: Option<i64>,
    limit: i64,
) -> Result<Removed, StoreError> {
    let cutoff = keep_ms.map_or(i64::MIN / 2, |keep| now - keep);
    let old = tx.query(OLD, &[now.into(), cutoff.into(), CONVERSATIONS.into()])?;
    let mut removed = Removed::default();
    for mut row in old {
        let (conversation, before) = (ConversationId(row.uuid("id")?), row.int("cutoff")?);
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
    tx.lock(conversation.into())?;
    let events = tx.query(FIRST_EVENTS, &[(&conversation).into(), limit.into()])?;
    let mut oldest = None;
    for mut row in events {
        let (id, seq, created_at) = (EventId(row.uuid("id")?), row.int("seq")?, row.int("created_at")?);
        let is_under_way = row.int("is_under_way")? == 1;
        if created_at >= before || is_under_way {
            break;
        }
        let author = Principal::new(&row.text("author_kind")?, row.uuid("author_id")?);
        let bytes = row.int("body_bytes")?;
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
        let (agent, seq) = (row.uuid("agent_id")?, row.int("seq")?);
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
        "DELETE FROM large_bodies WHERE event_id = $1 RETURNING OCTET_LENGTH(body) AS body_bytes",
        &[(&id).into()],
    )?;
    let large = large.map_or(Ok(0), |mut row| row.int("body_bytes"))?;
    tx.execute("DELETE FROM events WHERE id = $1", &[(&id).into()])?;
    if let Some(author) = author {
        give_back(tx, author, bytes + large + ROW_BYTES, removed)?;
    }
    removed.events += 1;
    Ok(())
}

/// Gives the bytes of a removed event back to its author.
fn give_back(
    tx: &mut dyn Tx,
    author: Principal,
    bytes: i64,
    removed: &mut Removed,
) -> Result<(), StoreError> {
    *removed.bytes.entry(author).or_default() += bytes;
    usage::give_back(tx, author, bytes)
}

/// Removes what an owner without an agent was told of a job, with the job: it is in no inbox that would be gone through.
fn remove_called_back(tx: &mut dyn Tx, job: Uuid) -> Result<(), StoreError> {
    let told = tx.query(
        "SELECT c.agent_id, c.seq FROM chats c WHERE c.event_id = $1
             AND NOT EXISTS (SELECT 1 FROM inboxes i WHERE i.agent_id = c.agent_id)",
        &[(&job).into()],
    )?;
    for mut row in told {
        let (agent, seq) = (row.uuid("agent_id")?, row.int("seq")?);
        let key = [(&agent).into(), seq.into()];
        tx.execute("DELETE FROM chats WHERE agent_id = $1 AND seq = $2", &key)?;
        tx.execute("DELETE FROM attempts WHERE agent_id = $1 AND seq = $2", &key)?;
        tx.execute("DELETE FROM deliveries WHERE agent_id = $1 AND seq = $2", &key)?;
    }
    Ok(())
}

/// A reconciler: removes deliveries and events from before `cutoff`, a bounded number at a time; undelivered ones
/// stay, and jobs that are open or whose result is on its way. An inbox remembers the oldest entry it still has, so that a reader learns of the gap.
pub fn remove_before(tx: &mut dyn Tx, cutoff: i64, limit: i64) -> Result<Removed, StoreError> {
    let old = tx.query(
        "SELECT d.agent_id, d.seq, d.event_id, d.kind FROM deliveries d JOIN inboxes i ON i.agent_id = d.agent_id
         WHERE d.created_at < $1 AND d.seq >= i.oldest AND d.lease_until IS NULL AND d.state <> 'waiting'
           AND (d.transport <> 'inbox' OR d.seq <= i.handed_through)
           AND (d.kind <> 'job'
                OR NOT (EXISTS (SELECT 1 FROM jobs j WHERE j.event_id = d.event_id AND j.status = 'PENDING')
                        OR EXISTS (SELECT 1 FROM chats c WHERE c.event_id = d.event_id AND c.give_up_at IS NOT NULL)))
         ORDER BY d.agent_id, d.seq LIMIT $2",
        &[cutoff.into(), limit.into()],
    )?;
    let mut removed = Removed::default();
    let mut inboxes = BTreeMap::new();
    for mut row in old {
        let (agent, seq, event) = (row.uuid("agent_id")?, row.int("seq")?, row.uuid("event_id")?);
        let kind = word(&row.text("kind")?, EntryKind::parse)?;
        let key = [(&agent).into(), seq.into()];
        if kind != EntryKind::Message {
            // The chat first, as whoever replays it does.
            tx.execute("DELETE FROM chats WHERE agent_id = $1 AND seq = $2", &key)?;
            tx.execute("DELETE FROM attempts WHERE agent_id = $1 AND seq = $2", &key)?;
        }
        removed.deliveries += tx.execute("DELETE FROM deliveries WHERE agent_id = $1 AND seq = $2", &key)?;
        if kind == EntryKind::Job {
            remove_called_back(tx, event)?;
        }
        remove_undelivered(tx, event, kind, seq, &mut removed)?;
        inboxes.insert(agent, seq + 1);
    }
    for (agent, next) in inboxes {
        // Not always what comes next: an older entry that still waits must not be passed over.
        tx.execute(
            "UPDATE inboxes SET oldest = COALESCE((SELECT MIN(seq) FROM deliveries WHERE agent_id = $1), $2)
             WHERE agent_id = $1",
            &[(&agent).into(), next.into()],
        )?;
        // A mark below the oldest entry is nobody's.
        tx.execute(
            "DELETE FROM handed WHERE agent_id = $1
                 AND through < (SELECT oldest FROM inboxes WHERE inboxes.agent_id = handed.agent_id)",
            &[(&agent).into()],
        )?;
    }
    Ok(removed)
}

/// Removes an event whose last delivery was removed, unless it has a place in a conversation: then it belongs to all readers. One
/// without may have several: many are asked for one offer, and what came of a job is brought under the event of the job.
fn remove_undelivered(
    tx: &mut dyn Tx,
    event: Uuid,
    kind: EntryKind,
    seq: i64,
    removed: &mut Removed,
) -> Result<(), StoreError> {
    let gone = tx.first(
        "DELETE FROM events WHERE id = $1 AND seq = 0 AND NOT EXISTS (SELECT 1 FROM chats WHERE event_id = $1)
         RETURNING author_kind, author_id, OCTET_LENGTH(body) AS body_bytes, trace_id",
        &[(&event).into()],
    )?;
    let Some(mut gone) = gone else { return Ok(()) };
    removed.events += 1;
    let large = tx.first(
        "DELETE FROM large_bodies WHERE event_id = $1 RETURNING OCTET_LENGTH(body) AS body_bytes",
        &[(&event).into()],
    )?;
    let large = large.map_or(Ok(0), |mut row| row.int("body_bytes"))?;
    let Some(author) = Principal::new(&gone.text("author_kind")?, gone.uuid("author_id")?) else {
        return Ok(());
    };
    let bytes = gone.opt_int("body_bytes")?.unwrap_or(0) + large + ROW_BYTES;
    // A digest is the hub's own, and was counted for nobody.
    if kind != EntryKind::Digest {
        give_back(tx, author, bytes, removed)?;
    }
    match author.agent() {
        Some(sender) => sent::remove(tx, sender, TraceId(gone.uuid("trace_id")?), seq),
        None => Ok(()),
    }
}
