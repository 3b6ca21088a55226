//! Obligations: the events that agents were given, and their dispositions, by event and agent.
//!
//! The rows are those of `chats`. An event that was sent to an agent several times has several rows: the last one holds the
//! current state, and a disposition is written to all of them. The attention engine decides; this module only reads and writes.

use crate::deliveries::{self, Chat, attention_columns};
use crate::error::word;
use crate::{Row, StoreError, Tx, TxExt};
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{AgentId, ConversationId, DeliveryId, EventId};
use chorus_protocol::redact::MaskedText;
use chorus_protocol::words::Disposition;
use std::collections::HashMap;

pub use chorus_attention::obligation::Obligation;

const COLUMNS: &str = concat!(
    "SELECT c.agent_id, c.seq, c.event_id, c.conversation_id, c.created_at, c.sent, c.mentions, c.supersedes,
            CASE WHEN c.acked_at IS NOT NULL OR c.seq <= i.handed_through OR d.state = 'delivered' THEN 1 ELSE 0 END AS is_acked,
            CASE WHEN i.open_until > $3 THEN 1 ELSE 0 END AS is_connected,
            CASE WHEN c.give_up_at IS NOT NULL THEN 1 ELSE 0 END AS is_waiting,
            c.injected_at, c.reminded_at, c.escalated_at, c.disposition, c.until_at, c.next_at, ",
    attention_columns!("c"),
    " FROM chats c JOIN deliveries d ON d.agent_id = c.agent_id AND d.seq = c.seq
      LEFT JOIN inboxes i ON i.agent_id = c.agent_id
      WHERE c.event_id = $1 AND c.agent_id = $2 ORDER BY c.seq DESC LIMIT 1"
);

fn obligation(mut row: Row) -> Result<Obligation, StoreError> {
    let disposition = row.opt_text("disposition")?.map(|text| word(&text, Disposition::parse)).transpose()?;
    Ok(Obligation {
        id: DeliveryId { agent: AgentId(row.uuid("agent_id")?), seq: row.int("seq")? },
        event: EventId(row.uuid("event_id")?),
        conversation: ConversationId(row.uuid("conversation_id")?),
        sent_at: row.int("created_at")?,
        sent: row.int("sent")?,
        mentions: row.opt_text("mentions")?.unwrap_or_default(),
        supersedes: row.opt_bytes("supersedes")?.as_deref().and_then(EventId::from_slice),
        acked: row.int("is_acked")? == 1,
        connected: row.int("is_connected")? == 1,
        waits: row.int("is_waiting")? == 1,
        injected_at: row.opt_int("injected_at")?,
        reminded_at: row.opt_int("reminded_at")?,
        escalated_at: row.opt_int("escalated_at")?,
        disposition,
        until_at: row.opt_int("until_at")?,
        next_at: row.opt_int("next_at")?,
        attention: deliveries::attention(&mut row)?,
    })
}

/// Returns the state of an event for an agent, or `None` if the agent was not given it.
pub fn of(
    tx: &mut dyn Tx,
    event: EventId,
    agent: AgentId,
    now: i64,
) -> Result<Option<Obligation>, StoreError> {
    tx.first(COLUMNS, &[(&event).into(), (&agent).into(), now.into()])?.map(obligation).transpose()
}

/// Returns the event that brought a message to an agent last: the message itself, an edit of it, or an escalation.
pub fn current(tx: &mut dyn Tx, message: EventId, agent: AgentId) -> Result<Option<EventId>, StoreError> {
    Ok(names(tx, message, agent, 1)?.pop())
}

/// Lists the events that brought a message to an agent, up to `limit`, the last first.
pub fn names(
    tx: &mut dyn Tx,
    message: EventId,
    agent: AgentId,
    limit: i64,
) -> Result<Vec<EventId>, StoreError> {
    tx.query(
        "SELECT g.event_id, MAX(g.seq) AS seq FROM
             (SELECT event_id, seq FROM chats WHERE event_id = $1 AND agent_id = $2
              UNION ALL SELECT event_id, seq FROM chats WHERE supersedes = $1 AND agent_id = $2) g
         GROUP BY g.event_id ORDER BY 2 DESC LIMIT $3",
        &[(&message).into(), (&agent).into(), limit.into()],
    )?
    .into_iter()
    .map(|mut row| row.uuid("event_id").map(EventId))
    .collect()
}

/// Returns an agent's disposition of an event, if it has one.
pub fn disposition(
    tx: &mut dyn Tx,
    event: EventId,
    agent: AgentId,
) -> Result<Option<Disposition>, StoreError> {
    let sql = "SELECT disposition FROM chats WHERE event_id = $1 AND agent_id = $2 ORDER BY seq DESC LIMIT 1";
    let row = tx.first(sql, &[(&event).into(), (&agent).into()])?;
    let text = row.map_or(Ok(None), |mut row| row.opt_text("disposition"))?;
    text.map(|text| word(&text, Disposition::parse)).transpose()
}

/// Writes a new disposition of an obligation, the time it holds until, and the time to look again. Only the last of several
/// deliveries is looked at again.
pub fn dispose(
    tx: &mut dyn Tx,
    known: &Obligation,
    disposition: Option<Disposition>,
    until_at: Option<i64>,
    next_at: Option<i64>,
    now: i64,
) -> Result<(), StoreError> {
    let after = Obligation { disposition, until_at, next_at, ..known.clone() };
    save_disposition(tx, &after, now)
}

/// Writes the disposition of an obligation to all its deliveries, and when to look again to the last one.
pub fn save_disposition(tx: &mut dyn Tx, after: &Obligation, now: i64) -> Result<(), StoreError> {
    set_disposition(tx, after.event, after.id, after.disposition, (after.until_at, after.next_at), now)
}

/// Writes the same for a delivery that was just made.
pub(crate) fn set_disposition(
    tx: &mut dyn Tx,
    event: EventId,
    id: DeliveryId,
    disposition: Option<Disposition>,
    (until_at, next_at): (Option<i64>, Option<i64>),
    now: i64,
) -> Result<(), StoreError> {
    let changed_at = disposition.map(|_| now);
    tx.execute(
        "UPDATE chats SET disposition = $3, disposition_at = CASE WHEN disposition = $3 THEN disposition_at ELSE CAST($4 AS BIGINT) END,
                disposition_reason = CASE WHEN disposition = $3 THEN disposition_reason END,
                until_at = $5, next_at = CASE WHEN seq = $6 THEN CAST($7 AS BIGINT) END
         WHERE event_id = $1 AND agent_id = $2",
        &[
            (&event).into(),
            (&id.agent).into(),
            disposition.map(Disposition::as_str).into(),
            changed_at.into(),
            until_at.into(),
            id.seq.into(),
            next_at.into(),
        ],
    )?;
    Ok(())
}

/// Stores the reason of an agent's disposition. It is kept until the next disposition. A disposition that had ended the
/// obligation earlier gets no reason afterwards.
pub fn explain(
    tx: &mut dyn Tx,
    event: EventId,
    agent: AgentId,
    why: &MaskedText,
    now: i64,
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE chats SET disposition_reason = $3 WHERE event_id = $1 AND agent_id = $2 AND disposition IS NOT NULL
             AND (disposition_at = $4 OR disposition IN ('claimed', 'deferred'))",
        &[(&event).into(), (&agent).into(), why.as_str().into(), now.into()],
    )?;
    Ok(())
}

/// Stores the reminder and escalation of an unanswered obligation, its current attention, and the time to look again.
pub fn put_off(tx: &mut dyn Tx, known: &Obligation) -> Result<(), StoreError> {
    let Attention { policy, mode, reason, .. } = known.attention;
    tx.execute(
        "UPDATE chats SET reminded_at = $3, escalated_at = $4, next_at = $5, policy = $6, mode = $7, reason = $8
         WHERE agent_id = $1 AND seq = $2",
        &[
            (&known.id.agent).into(),
            known.id.seq.into(),
            known.reminded_at.into(),
            known.escalated_at.into(),
            known.next_at.into(),
            policy.as_str().into(),
            mode.as_str().into(),
            reason.as_str().into(),
        ],
    )?;
    Ok(())
}

/// Stores the current attention of an obligation, and the names that the event mentions, in its last delivery.
pub fn change(tx: &mut dyn Tx, known: &Obligation) -> Result<(), StoreError> {
    let Attention { directedness, policy, mode, reason, priority, deadline_ms } = known.attention;
    tx.execute(
        "UPDATE chats SET directedness = $3, policy = $4, mode = $5, reason = $6, priority = $7,
                deadline_at = created_at + CAST($8 AS BIGINT), mentions = $9, next_at = $10
         WHERE agent_id = $1 AND seq = $2",
        &[
            (&known.id.agent).into(),
            known.id.seq.into(),
            directedness.as_str().into(),
            policy.as_str().into(),
            mode.as_str().into(),
            reason.as_str().into(),
            priority.as_str().into(),
            deadline_ms.into(),
            known.mentions.as_str().into(),
            known.next_at.into(),
        ],
    )?;
    Ok(())
}

/// Ends the waiting of an event's deliveries that another delivery has replaced.
pub fn leave(tx: &mut dyn Tx, known: &Obligation) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE chats SET next_at = NULL WHERE event_id = $1 AND agent_id = $2 AND seq <= $3",
        &[(&known.event).into(), (&known.id.agent).into(), known.id.seq.into()],
    )?;
    Ok(())
}

/// An envelope in an inbox that has no row in `chats` yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unkept {
    pub id: DeliveryId,
    pub event: EventId,
    pub stored_at: i64,
}

/// Marks deliveries as acknowledged by their agent. Envelopes without a row in `chats` are covered by the inbox's watermark alone.
pub fn ack(tx: &mut dyn Tx, agent: AgentId, taken: &[i64], now: i64) -> Result<(), StoreError> {
    let mut taken = taken.to_vec();
    taken.sort_unstable();
    // Most acknowledged numbers are consecutive, so that one statement covers many.
    for run in taken.chunk_by(|seq, next| seq + 1 == *next) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        tx.execute(
            // A delivery that needs no answer may end earlier once it is acknowledged, so it is looked at now.
            "UPDATE chats SET acked_at = $4,
                    next_at = CASE WHEN policy <> 'must_respond' AND next_at > $4 THEN CAST($4 AS BIGINT) ELSE next_at END
             WHERE agent_id = $1 AND seq BETWEEN $2 AND $3 AND acked_at IS NULL",
            &[(&agent).into(), (*first).into(), (*last).into(), now.into()],
        )?;
    }
    Ok(())
}

/// The most envelopes that [`unkept`] returns.
const UNKEPT_PAGE: usize = 100;

/// Lists the envelopes after one position of an inbox and up to another that have no row in `chats`; at most a hundred.
pub fn unkept(tx: &mut dyn Tx, agent: AgentId, after: i64, through: i64) -> Result<Vec<Unkept>, StoreError> {
    tx.query(
        "SELECT d.seq, d.event_id, d.created_at
         FROM deliveries d LEFT JOIN chats c ON c.agent_id = d.agent_id AND c.seq = d.seq
         WHERE d.agent_id = $1 AND d.seq > $2 AND d.seq <= $3 AND d.kind = 'message' AND c.seq IS NULL
         ORDER BY d.seq LIMIT $4",
        &[(&agent).into(), after.into(), through.into(), (UNKEPT_PAGE as i64).into()],
    )?
    .into_iter()
    .map(|mut row| {
        let (id, event) = (DeliveryId { agent, seq: row.int("seq")? }, EventId(row.uuid("event_id")?));
        Ok(Unkept { id, event, stored_at: row.int("created_at")? })
    })
    .collect()
}

/// Inserts the row in `chats` of an envelope that was delivered at `since`. A relay send makes none, so it is made when the
/// envelope's status is first needed. Changes nothing if there is one.
pub fn keep(
    tx: &mut dyn Tx,
    id: DeliveryId,
    event: EventId,
    chat: &Chat<'_>,
    since: i64,
) -> Result<(), StoreError> {
    deliveries::keep_chat(tx, id, event, chat, since)
}

/// Counts that a session sends a delivery to its agent once more. Returns the number of times, including this one.
pub fn count_again(tx: &mut dyn Tx, id: DeliveryId) -> Result<i64, StoreError> {
    let sql = "UPDATE chats SET sent = sent + 1 WHERE agent_id = $1 AND seq = $2 RETURNING sent";
    tx.first(sql, &[(&id.agent).into(), id.seq.into()])?.map_or(Ok(1), |mut row| row.int("sent"))
}

/// Returns, by position, how often the entries of a range of an agent's inbox were sent to it. Entries sent once are left out.
pub fn sent(
    tx: &mut dyn Tx,
    agent: AgentId,
    from: i64,
    through: i64,
) -> Result<HashMap<i64, i64>, StoreError> {
    tx.query(
        "SELECT seq, sent FROM chats WHERE agent_id = $1 AND seq BETWEEN $2 AND $3 AND sent > 1",
        &[(&agent).into(), from.into(), through.into()],
    )?
    .into_iter()
    .map(|mut row| Ok((row.int("seq")?, row.int("sent")?)))
    .collect()
}

/// Records that an event entered a turn of an agent's model. Returns whether the agent was given the event.
pub fn inject(tx: &mut dyn Tx, event: EventId, agent: AgentId, now: i64) -> Result<bool, StoreError> {
    let changed = tx.execute(
        "UPDATE chats SET injected_at = COALESCE(injected_at, $3) WHERE event_id = $1 AND agent_id = $2",
        &[(&event).into(), (&agent).into(), now.into()],
    )?;
    Ok(changed > 0)
}

/// Returns when a message, or a version of it, first entered a turn of an agent's model.
pub fn begun_at(tx: &mut dyn Tx, message: EventId, agent: AgentId) -> Result<Option<i64>, StoreError> {
    let row = tx.first(
        "SELECT MIN(g.injected_at) AS begun_at FROM
             (SELECT injected_at FROM chats WHERE event_id = $1 AND agent_id = $2
              UNION ALL SELECT injected_at FROM chats WHERE supersedes = $1 AND agent_id = $2) g",
        &[(&message).into(), (&agent).into()],
    )?;
    row.map_or(Ok(None), |mut row| row.opt_int("begun_at"))
}

/// Returns `true` if an agent works on an event: its model was shown the event, and its claim or its progress holds.
pub fn is_working(tx: &mut dyn Tx, agent: AgentId, now: i64) -> Result<bool, StoreError> {
    let found = tx.first(
        "SELECT 1 FROM chats WHERE agent_id = $1 AND next_at IS NOT NULL AND injected_at IS NOT NULL
             AND disposition = 'claimed' AND until_at > $2 LIMIT 1",
        &[(&agent).into(), now.into()],
    )?;
    Ok(found.is_some())
}

/// Lists the obligations that are due, the longest waiting first.
pub fn due(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<Vec<(EventId, AgentId)>, StoreError> {
    tx.query(
        "SELECT event_id, agent_id FROM chats WHERE next_at IS NOT NULL AND next_at <= $1 ORDER BY next_at, agent_id, seq LIMIT $2",
        &[now.into(), limit.into()],
    )?
    .into_iter()
    .map(|mut row| Ok((EventId(row.uuid("event_id")?), AgentId(row.uuid("agent_id")?))))
    .collect()
}

/// Returns an agent's load: the number of claims it holds plus the number of answers it owes, up to `most` of each; and the time
/// of its last delivery.
pub fn load(tx: &mut dyn Tx, agent: AgentId, most: i64) -> Result<(i64, i64), StoreError> {
    let row = tx.first(
        "SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM claims WHERE holder = $1 AND state = 'held' LIMIT $2) c)
              + (SELECT COUNT(*) FROM (SELECT 1 FROM chats WHERE agent_id = $1 AND next_at IS NOT NULL
                                        AND policy = 'must_respond' LIMIT $2) o) AS open_items,
                (SELECT MAX(created_at) FROM chats WHERE agent_id = $1 AND seq > 0) AS given_at",
        &[(&agent).into(), most.into()],
    )?;
    let Some(mut row) = row else { return Ok((0, 0)) };
    Ok((row.int("open_items")?, row.opt_int("given_at")?.unwrap_or(0)))
}

/// Lists an agent's open events in a conversation, up to `limit`, the smallest id first.
pub fn open_in(
    tx: &mut dyn Tx,
    agent: AgentId,
    conversation: ConversationId,
    limit: i64,
) -> Result<Vec<EventId>, StoreError> {
    tx.query(
        "SELECT DISTINCT event_id FROM chats WHERE agent_id = $1 AND conversation_id = $2 AND next_at IS NOT NULL
         ORDER BY event_id LIMIT $3",
        &[(&agent).into(), (&conversation).into(), limit.into()],
    )?
    .into_iter()
    .map(|mut row| Ok(EventId(row.uuid("event_id")?)))
    .collect()
}

/// Lists the open events of agents among the last `messages` messages of a thread, up to `limit`.
pub fn open_in_thread(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    thread: EventId,
    messages: i64,
    limit: i64,
) -> Result<Vec<(EventId, AgentId)>, StoreError> {
    tx.query(
        "SELECT DISTINCT c.event_id, c.agent_id FROM
             (SELECT e.id FROM events e WHERE e.thread_id = $2 ORDER BY e.seq DESC LIMIT $3) l
         CROSS JOIN chats c WHERE c.event_id = l.id AND c.conversation_id = $1 AND c.next_at IS NOT NULL
         ORDER BY c.agent_id, c.event_id LIMIT $4",
        &[(&conversation).into(), (&thread).into(), messages.into(), limit.into()],
    )?
    .into_iter()
    .map(|mut row| Ok((EventId(row.uuid("event_id")?), AgentId(row.uuid("agent_id")?))))
    .collect()
}

/// The number of last entries of an inbox that [`taken_back`] searches, and the most that it returns.
const TAKEN_BACK_AMONG: i64 = 1000;
const TAKEN_BACK_PAGE: i64 = 200;

/// Lists the events that an agent acknowledged and that were superseded, without a replacement, since its last session ended; the
/// oldest first.
pub fn taken_back(tx: &mut dyn Tx, agent: AgentId) -> Result<Vec<(DeliveryId, EventId)>, StoreError> {
    let after = tx.head(agent.into())? - TAKEN_BACK_AMONG;
    tx.query(
        "SELECT c.seq, c.event_id FROM chats c JOIN inboxes i ON i.agent_id = c.agent_id
         WHERE c.agent_id = $1 AND c.seq > $2 AND c.disposition = 'superseded' AND c.disposition_at >= i.closed_at
           AND (c.acked_at IS NOT NULL OR c.seq <= i.handed_through)
           AND NOT EXISTS (SELECT 1 FROM chats n WHERE n.agent_id = $1 AND n.seq > c.seq
                           AND ((n.event_id = c.event_id AND n.acked_at IS NOT NULL)
                                OR (n.supersedes = COALESCE(c.supersedes, c.event_id)
                                    AND COALESCE(n.disposition, '') <> 'superseded')))
         ORDER BY c.seq LIMIT $3",
        &[(&agent).into(), after.into(), TAKEN_BACK_PAGE.into()],
    )?
    .into_iter()
    .map(|mut row| Ok((DeliveryId { agent, seq: row.int("seq")? }, EventId(row.uuid("event_id")?))))
    .collect()
}

/// Lists the last event that brought a message, or an edit of it, to each agent, for up to `limit` agents.
pub fn of_message(
    tx: &mut dyn Tx,
    message: EventId,
    limit: i64,
) -> Result<Vec<(EventId, AgentId)>, StoreError> {
    tx.query(
        "SELECT c.event_id, c.agent_id FROM chats c JOIN
             (SELECT g.agent_id, MAX(g.seq) AS seq FROM
                 (SELECT agent_id, seq FROM chats WHERE event_id = $1
                  UNION ALL SELECT agent_id, seq FROM chats WHERE supersedes = $1) g
              GROUP BY g.agent_id) l ON l.agent_id = c.agent_id AND l.seq = c.seq
         ORDER BY c.agent_id LIMIT $2",
        &[(&message).into(), limit.into()],
    )?
    .into_iter()
    .map(|mut row| Ok((EventId(row.uuid("event_id")?), AgentId(row.uuid("agent_id")?))))
    .collect()
}

/// Returns whether one of the last hundred replies of a thread was given to an agent that may answer it.
pub fn asked_in_thread(tx: &mut dyn Tx, thread: EventId, agent: AgentId) -> Result<bool, StoreError> {
    let found = tx.first(
        "SELECT 1 FROM (SELECT e.id FROM events e WHERE e.thread_id = $1 ORDER BY e.seq DESC LIMIT 100) l
         CROSS JOIN chats c WHERE c.event_id = l.id AND c.agent_id = $2
             AND COALESCE(c.policy, 'must_respond') <> 'must_not_respond' LIMIT 1",
        &[(&thread).into(), (&agent).into()],
    )?;
    Ok(found.is_some())
}

/// Returns `true` if other agents than this one still have a message before them, or one of them has answered it.
pub fn concerns_others(tx: &mut dyn Tx, message: EventId, agent: AgentId) -> Result<bool, StoreError> {
    let found = tx.first(
        "SELECT 1 FROM chats WHERE event_id = $1 AND agent_id <> $2
             AND (next_at IS NOT NULL OR disposition IN ('responded', 'acknowledged')) LIMIT 1",
        &[(&message).into(), (&agent).into()],
    )?;
    Ok(found.is_some())
}

/// Lists the agents that an event was given to, up to `limit`.
pub fn given(tx: &mut dyn Tx, event: EventId, limit: i64) -> Result<Vec<AgentId>, StoreError> {
    tx.query(
        "SELECT DISTINCT agent_id FROM chats WHERE event_id = $1 ORDER BY agent_id LIMIT $2",
        &[(&event).into(), limit.into()],
    )?
    .into_iter()
    .map(|mut row| Ok(AgentId(row.uuid("agent_id")?)))
    .collect()
}
