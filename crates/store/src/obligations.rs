//! What agents were given and what they make of it: by event and agent, whichever delivery brought it.
//!
//! The rows are those of `chats`. An event that an agent was sent several times has as many; the last one tells how it
//! stands, and a disposition is written to all. What follows from what is not decided here.

use crate::deliveries::{self, Chat, attention_columns};
use crate::error::word;
use crate::{Row, StoreError, Tx, TxExt};
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{AgentId, ConversationId, DeliveryId, EventId};
use chorus_protocol::redact::MaskedText;
use chorus_protocol::words::Disposition;
use std::collections::HashMap;

/// One event that one agent was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obligation {
    /// The last delivery of it.
    pub id: DeliveryId,
    /// Which event.
    pub event: EventId,
    /// Where that was said.
    pub conversation: ConversationId,
    /// What was decided.
    pub attention: Attention,
    /// When it was sent last.
    pub sent_at: i64,
    /// How often.
    pub sent: i64,
    /// Whom the event names.
    pub mentions: String,
    /// The message whose place it takes, as a change of it does, or of which it says that somebody has not answered.
    pub supersedes: Option<EventId>,
    /// Whether the agent has taken it.
    pub acked: bool,
    /// Whether it waits to be posted to the agent.
    pub waits: bool,
    /// Whether the agent has an open session.
    pub connected: bool,
    /// When it entered a turn of the model.
    pub injected_at: Option<i64>,
    /// When the agent was reminded.
    pub reminded_at: Option<i64>,
    /// When others were told that it does not answer.
    pub escalated_at: Option<i64>,
    /// What the agent made of it.
    pub disposition: Option<Disposition>,
    /// When a claim or a deferral ends.
    pub until_at: Option<i64>,
    /// When somebody has to look at it.
    pub next_at: Option<i64>,
}

const COLUMNS: &str = concat!(
    "SELECT c.agent_id, c.seq, c.event_id, c.conversation_id, c.created_at, c.sent, c.mentions, c.supersedes,
            CASE WHEN c.acked_at IS NOT NULL OR c.seq <= i.handed_through OR d.state = 'delivered' THEN 1 ELSE 0 END,
            CASE WHEN i.open_until > $3 THEN 1 ELSE 0 END,
            CASE WHEN c.give_up_at IS NOT NULL THEN 1 ELSE 0 END,
            c.injected_at, c.reminded_at, c.escalated_at, c.disposition, c.until_at, c.next_at, ",
    attention_columns!("c"),
    " FROM chats c JOIN deliveries d ON d.agent_id = c.agent_id AND d.seq = c.seq
      LEFT JOIN inboxes i ON i.agent_id = c.agent_id
      WHERE c.event_id = $1 AND c.agent_id = $2 ORDER BY c.seq DESC LIMIT 1"
);

fn obligation(mut row: Row) -> Result<Obligation, StoreError> {
    let disposition = row.opt_text(14)?.map(|text| word(&text, Disposition::parse)).transpose()?;
    Ok(Obligation {
        id: DeliveryId { agent: AgentId(row.uuid(0)?), seq: row.int(1)? },
        event: EventId(row.uuid(2)?),
        conversation: ConversationId(row.uuid(3)?),
        sent_at: row.int(4)?,
        sent: row.int(5)?,
        mentions: row.opt_text(6)?.unwrap_or_default(),
        supersedes: row.opt_bytes(7)?.as_deref().and_then(EventId::from_slice),
        acked: row.int(8)? == 1,
        connected: row.int(9)? == 1,
        waits: row.int(10)? == 1,
        injected_at: row.opt_int(11)?,
        reminded_at: row.opt_int(12)?,
        escalated_at: row.opt_int(13)?,
        disposition,
        until_at: row.opt_int(15)?,
        next_at: row.opt_int(16)?,
        attention: deliveries::attention(&mut row, 17)?,
    })
}

/// How an event stands that an agent was given; nothing if it was not.
pub fn of(
    tx: &mut dyn Tx,
    event: EventId,
    agent: AgentId,
    now: i64,
) -> Result<Option<Obligation>, StoreError> {
    tx.first(COLUMNS, &[(&event).into(), (&agent).into(), now.into()])?.map(obligation).transpose()
}

/// As what an agent was given a message last: as it was said, as it was changed since, or as what another has not answered.
pub fn current(tx: &mut dyn Tx, message: EventId, agent: AgentId) -> Result<Option<EventId>, StoreError> {
    Ok(names(tx, message, agent, 1)?.pop())
}

/// Everything by which an agent was given a message, up to `limit`, the last first.
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
    .map(|mut row| row.uuid(0).map(EventId))
    .collect()
}

/// What an agent made of an event, if it made anything of it.
pub fn disposition(
    tx: &mut dyn Tx,
    event: EventId,
    agent: AgentId,
) -> Result<Option<Disposition>, StoreError> {
    let sql = "SELECT disposition FROM chats WHERE event_id = $1 AND agent_id = $2 ORDER BY seq DESC LIMIT 1";
    let row = tx.first(sql, &[(&event).into(), (&agent).into()])?;
    let text = row.map_or(Ok(None), |mut row| row.opt_text(0))?;
    text.map(|text| word(&text, Disposition::parse)).transpose()
}

/// What the agent makes of it by now, and when somebody looks again. Of several deliveries only the last is looked at.
pub fn dispose(
    tx: &mut dyn Tx,
    known: &Obligation,
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
            (&known.event).into(),
            (&known.id.agent).into(),
            disposition.map(Disposition::as_str).into(),
            changed_at.into(),
            until_at.into(),
            known.id.seq.into(),
            next_at.into(),
        ],
    )?;
    Ok(())
}

/// Keeps why an agent made of an event what it made of it now, until it makes something else of it. What it had done with before
/// is not explained afterwards.
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

/// Keeps how far it came without an answer, what it is by now, and when somebody looks again.
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

/// What an event means for the agent by now, and whom it names, in the delivery that brings it.
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

/// Nobody looks at these deliveries of an event any more: another took their place.
pub fn leave(tx: &mut dyn Tx, known: &Obligation) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE chats SET next_at = NULL WHERE event_id = $1 AND agent_id = $2 AND seq <= $3",
        &[(&known.event).into(), (&known.id.agent).into(), known.id.seq.into()],
    )?;
    Ok(())
}

/// An envelope in an inbox that nothing is kept of yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unkept {
    /// Its delivery.
    pub id: DeliveryId,
    /// The envelope.
    pub event: EventId,
    /// When it was stored.
    pub stored_at: i64,
}

/// An agent took these deliveries. Of an envelope of which nothing else is kept, only the inbox's watermark tells.
pub fn ack(tx: &mut dyn Tx, agent: AgentId, taken: &[i64], now: i64) -> Result<(), StoreError> {
    let mut taken = taken.to_vec();
    taken.sort_unstable();
    // Mostly one after the other, so that one statement does many.
    for run in taken.chunk_by(|seq, next| seq + 1 == *next) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        tx.execute(
            // What need not be answered ends earlier once it was taken: somebody looks at it now, and then at its time.
            "UPDATE chats SET acked_at = $4,
                    next_at = CASE WHEN policy <> 'must_respond' AND next_at > $4 THEN CAST($4 AS BIGINT) ELSE next_at END
             WHERE agent_id = $1 AND seq BETWEEN $2 AND $3 AND acked_at IS NULL",
            &[(&agent).into(), (*first).into(), (*last).into(), now.into()],
        )?;
    }
    Ok(())
}

/// How many envelopes that nothing is kept of are found at once.
const UNKEPT_PAGE: usize = 100;

/// The envelopes between two places of an inbox, the first left out, that nothing is kept of; some of them, if they are many.
pub fn unkept(
    tx: &mut dyn Tx,
    agent: AgentId,
    (after, through): (i64, i64),
) -> Result<Vec<Unkept>, StoreError> {
    tx.query(
        "SELECT d.seq, d.event_id, d.created_at
         FROM deliveries d LEFT JOIN chats c ON c.agent_id = d.agent_id AND c.seq = d.seq
         WHERE d.agent_id = $1 AND d.seq > $2 AND d.seq <= $3 AND d.kind = 'message' AND c.seq IS NULL
         ORDER BY d.seq LIMIT $4",
        &[(&agent).into(), after.into(), through.into(), (UNKEPT_PAGE as i64).into()],
    )?
    .into_iter()
    .map(|mut row| {
        let (id, event) = (DeliveryId { agent, seq: row.int(0)? }, EventId(row.uuid(1)?));
        Ok(Unkept { id, event, stored_at: row.int(2)? })
    })
    .collect()
}

/// Keeps what an envelope means for the agent that it was brought to `since`: of relay sends nothing is kept until somebody asks
/// what became of them. Nothing changes if it is kept already.
pub fn keep(
    tx: &mut dyn Tx,
    id: DeliveryId,
    event: EventId,
    chat: &Chat<'_>,
    since: i64,
) -> Result<(), StoreError> {
    deliveries::keep_chat(tx, id, event, chat, since)
}

/// The agent is sent a delivery once more, by the session that has it: for the how many'th time that is.
pub fn count_again(tx: &mut dyn Tx, id: DeliveryId) -> Result<i64, StoreError> {
    let sql = "UPDATE chats SET sent = sent + 1 WHERE agent_id = $1 AND seq = $2 RETURNING sent";
    tx.first(sql, &[(&id.agent).into(), id.seq.into()])?.map_or(Ok(1), |mut row| row.int(0))
}

/// How often the agent was sent the entries between two places of its inbox, as far as that is counted.
pub fn sent(
    tx: &mut dyn Tx,
    agent: AgentId,
    (from, through): (i64, i64),
) -> Result<HashMap<i64, i64>, StoreError> {
    tx.query(
        "SELECT seq, sent FROM chats WHERE agent_id = $1 AND seq BETWEEN $2 AND $3 AND sent > 1",
        &[(&agent).into(), from.into(), through.into()],
    )?
    .into_iter()
    .map(|mut row| Ok((row.int(0)?, row.int(1)?)))
    .collect()
}

/// An event entered a turn of an agent's model. Whether it was given the event at all.
pub fn inject(tx: &mut dyn Tx, event: EventId, agent: AgentId, now: i64) -> Result<bool, StoreError> {
    let changed = tx.execute(
        "UPDATE chats SET injected_at = COALESCE(injected_at, $3) WHERE event_id = $1 AND agent_id = $2",
        &[(&event).into(), (&agent).into(), now.into()],
    )?;
    Ok(changed > 0)
}

/// What somebody has to look at by now, what waits longest first.
pub fn due(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<Vec<(EventId, AgentId)>, StoreError> {
    tx.query(
        "SELECT event_id, agent_id FROM chats WHERE next_at IS NOT NULL AND next_at <= $1 ORDER BY next_at, agent_id, seq LIMIT $2",
        &[now.into(), limit.into()],
    )?
    .into_iter()
    .map(|mut row| Ok((EventId(row.uuid(0)?), AgentId(row.uuid(1)?))))
    .collect()
}

/// How much an agent has to do: events it holds a claim on or must answer, up to `most` of each; and when it was given something
/// last.
pub fn load(tx: &mut dyn Tx, agent: AgentId, most: i64) -> Result<(i64, i64), StoreError> {
    let row = tx.first(
        "SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM claims WHERE holder = $1 AND state = 'held' LIMIT $2) c)
              + (SELECT COUNT(*) FROM (SELECT 1 FROM chats WHERE agent_id = $1 AND next_at IS NOT NULL
                                        AND policy = 'must_respond' LIMIT $2) o),
                (SELECT MAX(created_at) FROM chats WHERE agent_id = $1 AND seq > 0)",
        &[(&agent).into(), most.into()],
    )?;
    let Some(mut row) = row else { return Ok((0, 0)) };
    Ok((row.int(0)?, row.opt_int(1)?.unwrap_or(0)))
}

/// What an agent was given in a conversation and is not done with, some of it, the smallest id first.
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
    .map(|mut row| Ok(EventId(row.uuid(0)?)))
    .collect()
}

/// So far back an inbox is searched for what was taken back, and so much of it is told.
const TAKEN_BACK_AMONG: i64 = 1000;
const TAKEN_BACK_PAGE: i64 = 200;

/// What an agent has taken and not answered, and was taken back since a session of it ended last, or asks nothing of it any more, and
/// nothing took its place; the oldest first.
pub fn taken_back(tx: &mut dyn Tx, agent: AgentId) -> Result<Vec<(DeliveryId, EventId)>, StoreError> {
    let after = tx.head(agent.0)? - TAKEN_BACK_AMONG;
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
    .map(|mut row| Ok((DeliveryId { agent, seq: row.int(0)? }, EventId(row.uuid(1)?))))
    .collect()
}

/// What agents were given of a message, as it was said or as it was changed since: of each the last, and of some agents.
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
    .map(|mut row| Ok((EventId(row.uuid(0)?), AgentId(row.uuid(1)?))))
    .collect()
}

/// Whether an agent was given something lately in a thread, after what began it, that it may answer.
pub fn asked_in_thread(tx: &mut dyn Tx, thread: EventId, agent: AgentId) -> Result<bool, StoreError> {
    let found = tx.first(
        "SELECT 1 FROM (SELECT e.id FROM events e WHERE e.thread_id = $1 ORDER BY e.seq DESC LIMIT 100) l
         CROSS JOIN chats c WHERE c.event_id = l.id AND c.agent_id = $2
             AND COALESCE(c.policy, 'must_respond') <> 'must_not_respond' LIMIT 1",
        &[(&thread).into(), (&agent).into()],
    )?;
    Ok(found.is_some())
}

/// The agents that an event was given to, some of them.
pub fn given(tx: &mut dyn Tx, event: EventId, limit: i64) -> Result<Vec<AgentId>, StoreError> {
    tx.query(
        "SELECT DISTINCT agent_id FROM chats WHERE event_id = $1 ORDER BY agent_id LIMIT $2",
        &[(&event).into(), limit.into()],
    )?
    .into_iter()
    .map(|mut row| Ok(AgentId(row.uuid(0)?)))
    .collect()
}
