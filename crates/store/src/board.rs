//! Open work of a conversation: claims held, answers awaited, and members that reported being blocked.
//!
//! This module only reads, from claims, deliveries and the log. Each query goes by the members of the
//! conversation or by its reactions, so that its cost depends on the open work and not on the history.

use crate::claims::{Held, held, held_columns};
use crate::conversations::{Event, event, select_event};
use crate::{StoreError, Tx, TxExt};
use chorus_protocol::ids::{AgentId, ConversationId, EventId};

// Goes by the members' current claims, which are few. The claims ever made in a conversation are many.
const HELD: &str = concat!(
    "SELECT k.event_id, ",
    held_columns!("k"),
    " FROM members m CROSS JOIN claims k
      WHERE m.conversation_id = $1 AND m.left_seq IS NULL AND k.holder = m.member_id AND k.state = 'held' AND k.until_at > $2
        AND COALESCE(k.conversation_id, k.event_id) = $1
      ORDER BY k.until_at, k.event_id LIMIT $3"
);

/// Lists claims that members hold, those that expire first coming first.
pub fn held_in(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    now: i64,
    limit: i64,
) -> Result<Vec<(EventId, Held)>, StoreError> {
    let mut found = vec![];
    for mut row in tx.query(HELD, &[(&conversation).into(), now.into(), limit.into()])? {
        let event = EventId(row.uuid("event_id")?);
        found.extend(held(&mut row)?.map(|held| (event, held)));
    }
    Ok(found)
}

/// Something that an agent must answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Awaited {
    pub event: EventId,
    pub agent: AgentId,
    /// Until when, if that is said.
    pub deadline: Option<i64>,
}

// Every event comes after nothing: said so that what is open is gone through, and not all that an agent was ever given.
const AWAITED: &str = "SELECT c.event_id, c.agent_id, c.deadline_at FROM members m CROSS JOIN chats c
     WHERE m.conversation_id = $1 AND m.left_seq IS NULL AND c.agent_id = m.member_id AND c.next_at IS NOT NULL
       AND c.event_id > $3 AND COALESCE(c.conversation_id, c.event_id) = $1 AND c.policy = 'must_respond' AND c.disposition IS NULL
     ORDER BY c.deadline_at, c.event_id, c.agent_id LIMIT $2";

/// Before the id of every event.
const NOTHING: &[u8] = &[];

/// Lists answers that agents owe, those due first coming first.
pub fn awaited_in(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    limit: i64,
) -> Result<Vec<Awaited>, StoreError> {
    tx.query(AWAITED, &[(&conversation).into(), limit.into(), NOTHING.into()])?
        .into_iter()
        .map(|mut row| {
            Ok(Awaited {
                event: EventId(row.uuid("event_id")?),
                agent: AgentId(row.uuid("agent_id")?),
                deadline: row.opt_int("deadline_at")?,
            })
        })
        .collect()
}

const REACTIONS: &str = select_event!(
    "WHERE e.conversation_id = $1 AND e.kind = 'reaction' AND e.seq <> 0 ORDER BY e.seq DESC LIMIT $2"
);

/// The last reactions in a conversation, the newest first.
pub fn reactions_in(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    limit: i64,
) -> Result<Vec<Event>, StoreError> {
    tx.query(REACTIONS, &[(&conversation).into(), limit.into()])?.into_iter().map(event).collect()
}

/// Lists agents that got a knock about an event, in the order of time. Escalations do not count as knocks.
pub fn knocked(tx: &mut dyn Tx, event: EventId, limit: i64) -> Result<Vec<AgentId>, StoreError> {
    tx.query(
        "SELECT k.agent_id FROM (SELECT c.agent_id, MIN(c.created_at) AS first_at FROM chats c
             WHERE c.event_id = $1 AND c.mode = 'notify' AND c.reason <> 'stale' GROUP BY c.agent_id) k
         ORDER BY k.first_at, k.agent_id LIMIT $2",
        &[(&event).into(), limit.into()],
    )?
    .into_iter()
    .map(|mut row| Ok(AgentId(row.uuid("agent_id")?)))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::plan_of;

    /// However much there was, and elsewhere is.
    #[tokio::test]
    async fn each_question_has_its_index() {
        for (sql, params, index) in [
            (HELD, 3, "claims_by_holder (holder=?"),
            (AWAITED, 3, "chats_open (agent_id=?"),
            (REACTIONS, 2, "events_by_kind (conversation_id=? AND kind=?"),
        ] {
            let plan = plan_of(sql, params).await;
            assert!(plan.contains(index), "{plan}");
        }
    }
}
