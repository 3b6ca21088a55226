//! The fleet: what agents do just now and did lately, read from what the log and the tables hold anyway.
//!
//! Nothing is written here. Each question goes to one agent or one conversation by an index and reads a bounded number of
//! rows. Who may see which of it is not decided here; every row says in which conversation it happened.

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

/// What waits for an agent or went wrong on the way to it, up to [`MOST`] of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Troubles {
    /// Deliveries that were refused or given up.
    pub dead: i64,
    /// Deliveries that wait to be posted.
    pub waiting: i64,
    /// What it was reminded of and has not answered.
    pub overdue: i64,
}

/// What is wrong with an agent.
pub fn troubles(tx: &mut dyn Tx, agent: AgentId) -> Result<Troubles, StoreError> {
    let row = tx.first(
        "SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM chats WHERE agent_id = $1 AND undelivered IS NOT NULL LIMIT $2) d),
                (SELECT COUNT(*) FROM (SELECT 1 FROM chats WHERE agent_id = $1 AND give_up_at IS NOT NULL LIMIT $2) w),
                (SELECT COUNT(*) FROM (SELECT 1 FROM chats WHERE agent_id = $1 AND next_at IS NOT NULL
                                         AND reminded_at IS NOT NULL AND disposition IS NULL LIMIT $2) o)",
        &[(&agent).into(), MOST.into()],
    )?;
    let Some(mut row) = row else { return Ok(Troubles::default()) };
    Ok(Troubles { dead: row.int(0)?, waiting: row.int(1)?, overdue: row.int(2)? })
}

/// Something that an agent has in its hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InHand {
    /// What it is about.
    pub event: EventId,
    /// Where.
    pub conversation: ConversationId,
    /// Since when.
    pub since: i64,
}

fn in_hand(rows: Vec<crate::Row>) -> Result<Vec<InHand>, StoreError> {
    rows.into_iter()
        .map(|mut row| {
            Ok(InHand {
                event: EventId(row.uuid(0)?),
                conversation: ConversationId(row.uuid(1)?),
                since: row.int(2)?,
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

const TURNS: &str = "SELECT event_id, conversation_id, injected_at FROM chats
     WHERE agent_id = $1 AND next_at IS NOT NULL AND injected_at IS NOT NULL ORDER BY event_id DESC LIMIT 10";

/// What entered a turn of an agent's model and is not over, the newest events first.
pub fn turns(tx: &mut dyn Tx, agent: AgentId) -> Result<Vec<InHand>, StoreError> {
    in_hand(tx.query(TURNS, &[(&agent).into()])?)
}

const LAST: &str = select_event!("WHERE e.author_id = $1 AND e.seq <> 0 ORDER BY e.id DESC LIMIT $2");

/// What somebody did last in conversations, the newest first.
pub fn last_done(tx: &mut dyn Tx, who: Principal, limit: i64) -> Result<Vec<Event>, StoreError> {
    tx.query(LAST, &[(&who.uuid()).into(), limit.into()])?.into_iter().map(event).collect()
}

/// Something that happened: where, when, and whether somebody said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Happened {
    /// Where.
    pub conversation: ConversationId,
    /// When.
    pub at: i64,
    /// Of what an agent did: that it said something. Of what it was given: that it went into a turn of its model.
    pub counts: bool,
}

fn happened(rows: Vec<crate::Row>) -> Result<Vec<Happened>, StoreError> {
    rows.into_iter().map(|mut row| one(&mut row)).collect()
}

fn one(row: &mut crate::Row) -> Result<Happened, StoreError> {
    Ok(Happened { conversation: ConversationId(row.uuid(0)?), at: row.int(1)?, counts: row.int(2)? == 1 })
}

const DONE: &str =
    "SELECT conversation_id, created_at, CASE WHEN kind = 'message' THEN 1 ELSE 0 END FROM events
     WHERE author_id = $1 AND seq <> 0 AND id >= $2 ORDER BY id DESC LIMIT $3";

/// What an agent did since, the newest first.
pub fn done_since(tx: &mut dyn Tx, agent: AgentId, since: i64) -> Result<Vec<Happened>, StoreError> {
    let first = audit::first_of(since);
    happened(tx.query(DONE, &[(&agent).into(), (&first).into(), LATELY.into()])?)
}

// What never told whether it entered a turn did if it was shown in full. A message woke its agent that was shown in full when it
// was said; of what was asked no longer only that is known.
const GIVEN: &str = "SELECT c.conversation_id, c.created_at,
            CASE WHEN c.injected_at IS NOT NULL THEN 1
                 WHEN c.mode IN ('immediate', 'buffered') AND COALESCE(c.disposition, '') <> 'superseded' THEN 1 ELSE 0 END,
            CASE WHEN e.kind = 'message' AND e.seq <> 0 AND c.created_at = e.created_at
                      AND (c.mode IN ('immediate', 'buffered') OR c.escalated_at IS NOT NULL) THEN 1 ELSE 0 END
     FROM chats c LEFT JOIN events e ON e.id = c.event_id
     WHERE c.agent_id = $1 AND c.seq > 0 AND c.created_at >= $2 ORDER BY c.created_at DESC LIMIT $3";

/// What an agent was given since, the newest first, and whether it was a message that woke it.
pub fn given_since(tx: &mut dyn Tx, agent: AgentId, since: i64) -> Result<Vec<(Happened, bool)>, StoreError> {
    let rows = tx.query(GIVEN, &[(&agent).into(), since.into(), LATELY.into()])?;
    rows.into_iter()
        .map(|mut row| {
            let woke = row.int(3)? == 1;
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
    .map(|mut row| Ok((ConversationId(row.uuid(0)?), row.int(1)?)))
    .collect()
}

/// The last place of a conversation before this time. Places are in the order of time, so it is found in a few steps, however
/// long the conversation is.
pub fn place_at(tx: &mut dyn Tx, conversation: ConversationId, time: i64) -> Result<i64, StoreError> {
    if time <= 0 {
        return Ok(0);
    }
    let (mut before, mut from) = (0, tx.head(conversation.0)? + 1);
    while from - before > 1 {
        let middle = before + (from - before) / 2;
        let row = tx.first(
            "SELECT created_at FROM events WHERE conversation_id = $1 AND seq > 0 AND seq >= $2 ORDER BY seq LIMIT 1",
            &[(&conversation).into(), middle.into()],
        )?;
        match row.map(|mut row| row.int(0)).transpose()? {
            Some(at) if at < time => before = middle,
            _ => from = middle,
        }
    }
    Ok(before)
}

const MESSAGES: &str = "SELECT COUNT(*) FROM (SELECT 1 FROM events
     WHERE conversation_id = $1 AND kind = 'message' AND seq <> 0 AND seq > $2 LIMIT $3) m";

/// How many messages a conversation has after a place, as far as they are counted.
pub fn messages_after(tx: &mut dyn Tx, conversation: ConversationId, place: i64) -> Result<i64, StoreError> {
    let row = tx.first(MESSAGES, &[(&conversation).into(), place.into(), LATELY.into()])?;
    row.map_or(Ok(0), |mut row| row.int(0))
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
