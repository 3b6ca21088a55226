//! The fleet: current and recent activity of agents, read from the log and other tables.
//!
//! This module only reads. Each query concerns one agent or one conversation, uses an index and reads a
//! bounded number of rows. Acts decide on visibility; every row names its conversation.

use crate::conversations::{Event, event, select_event};
use crate::directory::{self, Agent};
use crate::{StoreError, Tx, TxExt, audit};
use chorus_protocol::ids::{AgentId, ConversationId, EventId, Principal};

/// The most that is counted of anything that waits.
pub const MOST: i64 = 100;
/// The most of what one agent did or was given in a day that is looked at.
const LATELY: i64 = 5000;
/// The most conversations of one agent that are looked at.
const PLACES: i64 = 50;

/// A page of agents in the order of their names, after this one: those that somebody owns or meets in a conversation, and
/// itself; for nobody in particular, all.
pub fn visible(
    tx: &mut dyn Tx,
    who: Option<Principal>,
    after: &str,
    limit: i64,
) -> Result<Vec<Agent>, StoreError> {
    let rows = match who {
        None => tx.query(
            directory::select_agent!("a.name_key > $1 ORDER BY a.name_key LIMIT $2"),
            &[after.into(), limit.into()],
        )?,
        Some(who) => tx.query(
            directory::select_agent!(
                "a.id IN (SELECT id FROM agents WHERE owner_id = $3 OR id = $3 UNION
                          SELECT m.member_id FROM members o
                          JOIN members m ON m.conversation_id = o.conversation_id AND m.left_seq IS NULL AND m.kind = 'agent'
                          WHERE o.member_id = $3 AND o.left_seq IS NULL)
                 AND a.name_key > $1 ORDER BY a.name_key LIMIT $2"
            ),
            &[after.into(), limit.into(), (&who.uuid()).into()],
        )?,
    };
    rows.into_iter().map(directory::agent).collect()
}

/// Counts of waiting and failed deliveries of an agent, up to [`MOST`] of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Troubles {
    /// Deliveries that were refused or given up.
    pub dead: i64,
    /// Deliveries that wait to be posted.
    pub waiting: i64,
    /// Reminders that were not answered.
    pub overdue: i64,
}

/// Returns the counts of waiting and failed deliveries of an agent.
pub fn troubles(tx: &mut dyn Tx, agent: AgentId) -> Result<Troubles, StoreError> {
    let row = tx.first(
        "SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM chats WHERE agent_id = $1 AND undelivered IS NOT NULL LIMIT $2) d)
                    AS undelivered,
                (SELECT COUNT(*) FROM (SELECT 1 FROM chats WHERE agent_id = $1 AND give_up_at IS NOT NULL LIMIT $2) w) AS waiting,
                (SELECT COUNT(*) FROM (SELECT 1 FROM chats WHERE agent_id = $1 AND next_at IS NOT NULL
                                         AND reminded_at IS NOT NULL AND disposition IS NULL LIMIT $2) o) AS overdue",
        &[(&agent).into(), MOST.into()],
    )?;
    let Some(mut row) = row else { return Ok(Troubles::default()) };
    Ok(Troubles { dead: row.int("undelivered")?, waiting: row.int("waiting")?, overdue: row.int("overdue")? })
}

/// Something that an agent has in its hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InHand {
    pub event: EventId,
    pub conversation: ConversationId,
    pub since: i64,
}

fn in_hand(rows: Vec<crate::Row>) -> Result<Vec<InHand>, StoreError> {
    rows.into_iter()
        .map(|mut row| {
            Ok(InHand {
                event: EventId(row.uuid("event_id")?),
                conversation: ConversationId(row.uuid("conversation_id")?),
                since: row.int("since_at")?,
            })
        })
        .collect()
}

const CLAIMS: &str = "SELECT event_id, conversation_id, since_at FROM claims
     WHERE holder = $1 AND state = 'held' AND until_at > $2 ORDER BY event_id DESC LIMIT 10";

/// The claims an agent holds, the newest events first.
pub fn claims(tx: &mut dyn Tx, agent: AgentId, now: i64) -> Result<Vec<InHand>, StoreError> {
    in_hand(tx.query(CLAIMS, &[(&agent).into(), now.into()])?)
}

const TURNS: &str = "SELECT event_id, conversation_id, injected_at AS since_at FROM chats
     WHERE agent_id = $1 AND next_at IS NOT NULL AND injected_at IS NOT NULL ORDER BY event_id DESC LIMIT 10";

/// Lists events that entered a turn of the agent's model and are not finished, newest first.
pub fn turns(tx: &mut dyn Tx, agent: AgentId) -> Result<Vec<InHand>, StoreError> {
    in_hand(tx.query(TURNS, &[(&agent).into()])?)
}

const LAST: &str = select_event!("WHERE e.author_id = $1 AND e.seq <> 0 ORDER BY e.id DESC LIMIT $2");

/// Lists the last activity of a principal in conversations, newest first.
pub fn last_done(tx: &mut dyn Tx, who: Principal, limit: i64) -> Result<Vec<Event>, StoreError> {
    tx.query(LAST, &[(&who.uuid()).into(), limit.into()])?.into_iter().map(event).collect()
}

/// Something that happened: where, when, and whether somebody said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentActivity {
    pub conversation: ConversationId,
    pub at: i64,
    /// Of what an agent did: that it said something. Of what it was given: that it went into a turn of its model.
    pub counts: bool,
}

fn happened(rows: Vec<crate::Row>) -> Result<Vec<AgentActivity>, StoreError> {
    rows.into_iter().map(|mut row| one(&mut row)).collect()
}

fn one(row: &mut crate::Row) -> Result<AgentActivity, StoreError> {
    Ok(AgentActivity {
        conversation: ConversationId(row.uuid("conversation_id")?),
        at: row.int("created_at")?,
        counts: row.int("counts")? == 1,
    })
}

const DONE: &str =
    "SELECT conversation_id, created_at, CASE WHEN kind = 'message' THEN 1 ELSE 0 END AS counts FROM events
     WHERE author_id = $1 AND seq <> 0 AND id >= $2 ORDER BY id DESC LIMIT $3";

/// Lists an agent's activity since a time, newest first.
pub fn done_since(tx: &mut dyn Tx, agent: AgentId, since: i64) -> Result<Vec<AgentActivity>, StoreError> {
    let first = audit::first_of(since);
    happened(tx.query(DONE, &[(&agent).into(), (&first).into(), LATELY.into()])?)
}

// Deliveries whose turn is not recorded count if they were shown in full. A message woke its agent if it was
// shown in full when it was posted; for deliveries that no longer require an answer only that is known.
const GIVEN: &str = "SELECT c.conversation_id, c.created_at,
            CASE WHEN c.injected_at IS NOT NULL THEN 1
                 WHEN c.mode IN ('immediate', 'buffered') AND COALESCE(c.disposition, '') <> 'superseded' THEN 1
                 ELSE 0 END AS counts,
            CASE WHEN e.kind = 'message' AND e.seq <> 0 AND c.created_at = e.created_at
                      AND (c.mode IN ('immediate', 'buffered') OR c.escalated_at IS NOT NULL) THEN 1 ELSE 0 END AS woke
     FROM chats c LEFT JOIN events e ON e.id = c.event_id
     WHERE c.agent_id = $1 AND c.seq > 0 AND c.created_at >= $2 ORDER BY c.created_at DESC LIMIT $3";

/// Lists the events an agent was sent since a time, newest first, with whether each was a message that woke
/// it.
pub fn given_since(
    tx: &mut dyn Tx,
    agent: AgentId,
    since: i64,
) -> Result<Vec<(AgentActivity, bool)>, StoreError> {
    let rows = tx.query(GIVEN, &[(&agent).into(), since.into(), LATELY.into()])?;
    rows.into_iter()
        .map(|mut row| {
            let woke = row.int("woke")? == 1;
            Ok((one(&mut row)?, woke))
        })
        .collect()
}

/// The conversations an agent is in, some of them, and from which place on.
pub fn places(tx: &mut dyn Tx, agent: AgentId) -> Result<Vec<(ConversationId, i64)>, StoreError> {
    tx.query(
        "SELECT conversation_id, joined_seq FROM members WHERE member_id = $1 AND left_seq IS NULL
         ORDER BY conversation_id LIMIT $2",
        &[(&agent).into(), PLACES.into()],
    )?
    .into_iter()
    .map(|mut row| Ok((ConversationId(row.uuid("conversation_id")?), row.int("joined_seq")?)))
    .collect()
}

/// The last place of a conversation before this time. Places are in the order of time, so it is found in a few steps, however
/// long the conversation is.
pub fn place_at(tx: &mut dyn Tx, conversation: ConversationId, time: i64) -> Result<i64, StoreError> {
    if time <= 0 {
        return Ok(0);
    }
    let (mut before, mut from) = (0, tx.head(conversation.into())? + 1);
    while from - before > 1 {
        let middle = before + (from - before) / 2;
        let row = tx.first(
            "SELECT created_at FROM events WHERE conversation_id = $1 AND seq > 0 AND seq >= $2 ORDER BY seq LIMIT 1",
            &[(&conversation).into(), middle.into()],
        )?;
        match row.map(|mut row| row.int("created_at")).transpose()? {
            Some(at) if at < time => before = middle,
            _ => from = middle,
        }
    }
    Ok(before)
}

const MESSAGES: &str = "SELECT COUNT(*) AS count FROM (SELECT 1 FROM events
     WHERE conversation_id = $1 AND kind = 'message' AND seq <> 0 AND seq > $2 LIMIT $3) m";

/// Counts the messages of a conversation after a position, up to a limit.
pub fn messages_after(tx: &mut dyn Tx, conversation: ConversationId, place: i64) -> Result<i64, StoreError> {
    let row = tx.first(MESSAGES, &[(&conversation).into(), place.into(), LATELY.into()])?;
    row.map_or(Ok(0), |mut row| row.int("count"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::plan_of;

    /// However much everybody else did.
    #[tokio::test]
    async fn each_question_has_its_index() {
        for (sql, params, index) in [
            (CLAIMS, 2, "claims_by_holder (holder=?"),
            (TURNS, 1, "chats_open (agent_id=?"),
            (LAST, 2, "events_by_author (author_id=?"),
            (DONE, 3, "events_by_author (author_id=? AND id>?"),
            (GIVEN, 3, "chats_by_agent (agent_id=? AND created_at>?"),
            (MESSAGES, 3, "events_by_kind (conversation_id=? AND kind=? AND seq>?"),
        ] {
            let plan = plan_of(sql, params).await;
            assert!(plan.contains(index) && !plan.contains("TEMP B-TREE"), "{plan}");
        }
    }
}
