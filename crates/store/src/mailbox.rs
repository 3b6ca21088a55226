//! The mailbox of an agent: what it was brought, and what was said where it is, in one order.
//!
//! Nobody writes it: it is put together from the agent's inbox and from its conversations, all of which are read by one statement. The
//! order is that of the events' ids, which are made before they are committed and so may be a little out of step with
//! places in an inbox: of a source that is not read to its end, what was read last is left for the next look.

use crate::error::word;
use crate::{StoreError, Tx, TxExt, audit, deliveries};
use chorus_protocol::ids::{AgentId, ConversationId, EventId};
use chorus_protocol::words::EntryKind;
use std::collections::BTreeMap;

/// So many conversations are looked into.
const MAX_PLACES: i64 = 200;
/// So far beyond what is wanted a source is read.
const BEYOND: i64 = 50;

/// The place where an event was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// In the agent's inbox, at this place.
    Brought(i64, EntryKind),
    /// In a conversation of its.
    Said,
}

/// A page of a mailbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Look {
    /// In order.
    pub found: Vec<(EventId, Found)>,
    /// True if there are more events.
    pub more: bool,
    /// The number of conversations that were not searched.
    pub left_out: i64,
}

const BROUGHT: &str = "SELECT d.event_id, d.seq, d.kind FROM deliveries d WHERE d.agent_id = $1 AND d.seq > $2 AND d.event_id > $4
     ORDER BY d.seq LIMIT $3";
// Of each conversation no more than could be wanted is read, from where the last look ended: an index has its messages by id.
// It is written with every message for this alone. By halving, the index of places could find the same: of 200 conversations in
// 29 ms instead of 1, while a message costs a tenth less of what its own row and indexes cost.
const SAID: &str = "SELECT e.id FROM
         (SELECT m.conversation_id AS place_id,
                 CASE WHEN m.joined_seq < c.open_from THEN m.joined_seq ELSE c.open_from END AS joined
          FROM members m JOIN conversations c ON c.id = m.conversation_id
          WHERE m.member_id = $1 AND m.left_seq IS NULL ORDER BY m.conversation_id LIMIT $4) p
     JOIN events e ON e.conversation_id = p.place_id AND e.kind = 'message' AND e.seq <> 0 AND e.seq - p.joined > 0 AND e.id > $2
         AND e.id <= (SELECT l.id FROM (SELECT b.id FROM events b WHERE b.conversation_id = p.place_id AND b.kind = 'message'
                                            AND b.seq <> 0 AND b.seq - p.joined > 0 AND b.id > $2 ORDER BY b.id LIMIT $3) l
                      ORDER BY l.id DESC LIMIT 1)
     ORDER BY e.id LIMIT $3";

/// The smallest id that an event of this time can have.
pub fn first_of(time: i64) -> EventId {
    EventId(audit::first_of(time))
}

/// Lists up to `limit` events after an event.
pub fn after(tx: &mut dyn Tx, agent: AgentId, after: EventId, limit: i64) -> Result<Look, StoreError> {
    let mut all = Sources { limit, found: BTreeMap::new(), end: None };
    let (place, most) = (deliveries::place_before(tx, agent, audit::time_of(after.0))?, limit + BEYOND);
    let mut brought = vec![];
    for mut row in tx.query(BROUGHT, &[(&agent).into(), place.into(), most.into(), (&after).into()])? {
        let found = Found::Brought(row.int("seq")?, word(&row.text("kind")?, EntryKind::parse)?);
        brought.push((EventId(row.uuid("event_id")?), found));
    }
    let is_all = (brought.len() as i64) < most;
    all.add(brought, is_all);

    let params = [(&agent).into(), (&after).into(), most.into(), MAX_PLACES.into()];
    let said =
        tx.query(SAID, &params)?.into_iter().map(|mut row| Ok((EventId(row.uuid("id")?), Found::Said)));
    let said = said.collect::<Result<Vec<_>, StoreError>>()?;
    let is_all = (said.len() as i64) < most;
    all.add(said, is_all);
    let left_out = (count_places(tx, agent)? - MAX_PLACES).max(0);
    let (found, more) = all.in_order();
    Ok(Look { found, more, left_out })
}

/// So far back an inbox is looked through for one exchange, and what was sent.
const LOOKED_AT: i64 = 2000;
const SENT_LOOKED_AT: i64 = 500;

macro_rules! sent_to {
    ($table:literal) => {
        concat!(
            "SELECT e.id FROM (SELECT trace_id, seq, agent_id FROM ",
            $table,
            " WHERE sender_id = $1 ORDER BY trace_id DESC, seq DESC LIMIT $3) s
              JOIN deliveries d ON d.agent_id = s.agent_id AND d.seq = s.seq
              JOIN events e ON e.id = d.event_id WHERE e.conversation_id = $2"
        )
    };
}

/// Lists the direct exchange between an agent and another principal: deliveries, with their positions, and
/// envelopes that the agent sent. In order, and limited to the scanned range.
pub fn exchange(
    tx: &mut dyn Tx,
    agent: AgentId,
    conversation: ConversationId,
) -> Result<Vec<(EventId, Found)>, StoreError> {
    let mut found = BTreeMap::new();
    for sql in [sent_to!("sent"), sent_to!("sent_lately")] {
        for mut row in tx.query(sql, &[(&agent).into(), (&conversation).into(), SENT_LOOKED_AT.into()])? {
            found.insert(EventId(row.uuid("id")?), Found::Said);
        }
    }
    let after = tx.head(agent.into())? - LOOKED_AT;
    let rows = tx.query(
        "SELECT d.event_id, d.seq, d.kind FROM deliveries d JOIN events e ON e.id = d.event_id
         WHERE d.agent_id = $1 AND d.seq > $2 AND d.kind <> 'chat' AND e.conversation_id = $3 ORDER BY d.seq",
        &[(&agent).into(), after.into(), (&conversation).into()],
    )?;
    for mut row in rows {
        let place = Found::Brought(row.int("seq")?, word(&row.text("kind")?, EntryKind::parse)?);
        found.insert(EventId(row.uuid("event_id")?), place);
    }
    Ok(found.into_iter().collect())
}

fn count_places(tx: &mut dyn Tx, agent: AgentId) -> Result<i64, StoreError> {
    let sql = "SELECT COUNT(*) AS count FROM members WHERE member_id = $1 AND left_seq IS NULL";
    tx.first(sql, &[(&agent).into()])?.map_or(Ok(0), |mut row| row.int("count"))
}

/// The events of several sources.
struct Sources {
    limit: i64,
    found: BTreeMap<EventId, Found>,
    /// From this one on not all may be there.
    end: Option<EventId>,
}

impl Sources {
    /// One of them, in the order of its places; whether it is all of it.
    fn add(&mut self, source: Vec<(EventId, Found)>, is_all: bool) {
        if !is_all {
            // Of its end nobody knows what is still to come before it.
            let tail = &source[source.len().saturating_sub(BEYOND as usize)..];
            let end = tail.iter().map(|(event, _)| *event).min();
            self.end = [self.end, end].into_iter().flatten().min();
        }
        for (event, found) in source {
            let known = self.found.entry(event).or_insert(found);
            // A delivery says more than a message, because it has a position.
            if *known == Found::Said {
                *known = found;
            }
        }
    }

    fn in_order(self) -> (Vec<(EventId, Found)>, bool) {
        let Self { found, end, limit } = self;
        let in_step = found.iter().take_while(|(event, _)| end.is_none_or(|end| **event < end)).count();
        // If all are out of order, returns them anyway, so that the reader makes progress.
        let count = if in_step == 0 { found.len() } else { in_step }.min(limit.max(0) as usize);
        let more = end.is_some() || found.len() > count;
        (found.into_iter().take(count).collect(), more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::plan_of;
    use uuid::Uuid;

    fn events(ids: impl IntoIterator<Item = u128>) -> Vec<(EventId, Found)> {
        ids.into_iter().map(|id| (EventId(Uuid::from_u128(id)), Found::Said)).collect()
    }

    fn ids((found, more): (Vec<(EventId, Found)>, bool)) -> (Vec<u128>, bool) {
        (found.into_iter().map(|(event, _)| event.0.as_u128()).collect(), more)
    }

    fn sources(limit: i64) -> Sources {
        Sources { limit, found: BTreeMap::new(), end: None }
    }

    #[test]
    fn sources_are_one_order_and_nothing_is_there_twice() {
        let mut all = sources(10);
        all.add(events([4, 3]), true);
        all.add(vec![(EventId(Uuid::from_u128(4)), Found::Brought(7, EntryKind::Chat))], true);
        all.add(events([2, 6]), true);
        assert_eq!(all.found[&EventId(Uuid::from_u128(4))], Found::Brought(7, EntryKind::Chat));
        assert_eq!(ids(all.in_order()), (vec![2, 3, 4, 6], false));
        let mut few = sources(2);
        few.add(events([3, 1, 2]), true);
        assert_eq!(ids(few.in_order()), (vec![1, 2], true));
    }

    /// One that was read only in part hides what another has later.
    #[test]
    fn what_may_come_before_is_waited_for() {
        let mut all = sources(10);
        all.add(events(10..70), false);
        all.add(events([5, 100]), true);
        let (found, more) = ids(all.in_order());
        assert_eq!((found, more), ([vec![5], (10..19).collect()].concat(), true));
        // But for ever nobody waits.
        let mut all = sources(10);
        all.add(events((10..69).chain([3])), false);
        assert_eq!(ids(all.in_order()), ([vec![3], (10..19).collect()].concat(), true));
    }

    /// However long an inbox and a conversation are.
    #[tokio::test]
    async fn each_source_has_its_index() {
        for (sql, params, index) in [
            (BROUGHT, 4, "d USING PRIMARY KEY (agent_id=? AND seq>?)"),
            (SAID, 4, "e USING INDEX events_said (conversation_id=? AND kind=? AND id>? AND id<?)"),
            (SAID, 4, "b USING INDEX events_said (conversation_id=? AND kind=? AND id>?)"),
        ] {
            let plan = plan_of(sql, params).await;
            assert!(plan.contains(index), "{plan}");
        }
    }
}
