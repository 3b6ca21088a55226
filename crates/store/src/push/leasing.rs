//! Finds deliveries that are due, and leases them.
//!
//! Finding is a read of its own, so that writers do not wait for it. First tries come first, and retries get
//! only a part of a node's capacity, so that receivers that hang do not hold up the others.

use super::next_in_line;
use crate::deliveries::{self, GIVE_UP_MS, Hold, Lease, Way};
use crate::directory::Agent;
use crate::error::word;
use crate::{StoreError, Tx, TxExt, directory, log, market, members};
use chorus_protocol::ids::{AgentId, ConversationId, DeliveryId, EventId};
use chorus_protocol::words::{EntryKind, EventKind, Transport};
use std::collections::{BTreeSet, HashMap, HashSet};
use uuid::Uuid;

/// The number of due deliveries that are examined at once.
const PAGE: i64 = 500;
/// The number of requests one agent may answer at its leisure at a time. Its next ones wait.
const LONG_PER_AGENT: usize = 16;
/// The number of deliveries of one conversation that move into an inbox at once.
const MOVED_TOGETHER: i64 = 100;

/// A delivery whose turn it is, leased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    pub id: DeliveryId,
    pub event: EventId,
    pub conversation: ConversationId,
    pub kind: EntryKind,
    pub transport: Transport,
    /// The number of this try, from 1.
    pub attempt: i64,
    pub give_up_at: i64,
    /// The right to try.
    pub lease: Lease,
}

/// The capacity of a node.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    pub tries: usize,
    /// Of these, tries of what failed before.
    pub retries: usize,
    /// Tries to one agent.
    pub per_agent: usize,
}

macro_rules! select_due {
    ($which:literal) => {
        concat!(
            "SELECT due_at, agent_id, seq FROM chats WHERE due_at IS NOT NULL AND ",
            $which,
            " AND due_at <= $1 AND due_at >= $2 AND (due_at > $2 OR agent_id > $3 OR (agent_id = $3 AND seq > $4))
             ORDER BY due_at, agent_id, seq LIMIT $5"
        )
    };
}

const FIRST_TRIES: &str = select_due!("attempt = 0");
/// Also what a node that died was trying.
const RETRIES: &str = select_due!("attempt > 0");

/// The first of each.
const NEXT: [&str; 2] = [
    "SELECT due_at FROM chats WHERE due_at IS NOT NULL AND attempt = 0 ORDER BY due_at LIMIT 1",
    "SELECT due_at FROM chats WHERE due_at IS NOT NULL AND attempt > 0 ORDER BY due_at LIMIT 1",
];

/// The deliveries that a node is trying.
const OWN: &str =
    "SELECT d.agent_id, c.attempt, d.seq FROM deliveries d JOIN chats c ON c.agent_id = d.agent_id AND c.seq = d.seq
     WHERE d.lease_until > $1 AND d.lease_owner = $2";

/// Returns when the next delivery can be leased: it is due and nobody holds it.
pub fn next_due(tx: &mut dyn Tx) -> Result<Option<i64>, StoreError> {
    let mut next = None;
    for sql in NEXT {
        let time = tx.first(sql, &[])?.map(|mut row| row.int("due_at")).transpose()?;
        next = next.into_iter().chain(time).min();
    }
    Ok(next)
}

/// Finds what this node could lease now, as far as it has room; the first tries first. Tries in `long` have room of their own: only
/// an agent that has too many of them gets no more jobs.
pub fn find_due(
    tx: &mut dyn Tx,
    node: Uuid,
    now: i64,
    room: &Room,
    long: &BTreeSet<DeliveryId>,
) -> Result<Vec<DeliveryId>, StoreError> {
    let own = tx.query(OWN, &[now.into(), (&node).into()])?;
    let (mut sending, mut retrying, mut tries) = (HashMap::new(), 0, 0);
    for mut row in own {
        let id = DeliveryId { agent: AgentId(row.uuid("agent_id")?), seq: row.int("seq")? };
        if !long.contains(&id) {
            *sending.entry(id.agent).or_insert(0) += 1;
            retrying += usize::from(row.int("attempt")? > 1);
            tries += 1;
        }
    }
    let mut answering: HashMap<AgentId, usize> = HashMap::new();
    for id in long {
        *answering.entry(id.agent).or_default() += 1;
    }
    answering.retain(|_, count| *count >= LONG_PER_AGENT);
    let busy = answering.into_keys().collect();
    let mut search = Search { now, per_agent: room.per_agent, sending, busy, found: vec![] };
    let most = room.tries.saturating_sub(tries);
    search.add(tx, FIRST_TRIES, most)?;
    let most = most.min(search.found.len() + room.retries.saturating_sub(retrying));
    search.add(tx, RETRIES, most)?;
    Ok(search.found)
}

/// A search for what is due.
struct Search {
    now: i64,
    per_agent: usize,
    /// The number of tries of each agent that run or were found.
    sending: HashMap<AgentId, usize>,
    /// Agents that get no more jobs for now.
    busy: HashSet<AgentId>,
    found: Vec<DeliveryId>,
}

impl Search {
    /// Adds to what was found until it is `most`, passing over agents that have enough to do.
    fn add(&mut self, tx: &mut dyn Tx, sql: &'static str, most: usize) -> Result<(), StoreError> {
        let mut after = (i64::MIN, DeliveryId { agent: AgentId(Uuid::nil()), seq: 0 });
        while self.found.len() < most {
            let (time, id) = after;
            let params = [self.now.into(), time.into(), (&id.agent).into(), id.seq.into(), PAGE.into()];
            let page = tx.query(sql, &params)?;
            let is_last = (page.len() as i64) < PAGE;
            for mut row in page {
                after = (
                    row.int("due_at")?,
                    DeliveryId { agent: AgentId(row.uuid("agent_id")?), seq: row.int("seq")? },
                );
                if self.busy.contains(&after.1.agent) && is_job(tx, after.1)? {
                    continue;
                }
                let sending = self.sending.entry(after.1.agent).or_insert(0);
                if self.found.len() < most && *sending < self.per_agent {
                    *sending += 1;
                    self.found.push(after.1);
                }
            }
            if is_last {
                break;
            }
        }
        Ok(())
    }
}

fn is_job(tx: &mut dyn Tx, id: DeliveryId) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM deliveries WHERE agent_id = $1 AND seq = $2 AND kind = 'job'";
    Ok(tx.first(sql, &[(&id.agent).into(), id.seq.into()])?.is_some())
}

/// Leases the deliveries that were found and not taken by another node, each by the best route of its agent.
/// Those that can go into an open inbox go there. Those without a route, or only with one that must not be
/// used yet, keep waiting.
pub fn lease(tx: &mut dyn Tx, found: &[DeliveryId], now: i64, lease: Lease) -> Result<Vec<Due>, StoreError> {
    // In one order everywhere, so that two nodes that lease at the same time never wait for each other.
    let mut found = found.to_vec();
    found.sort_unstable();
    let mut leased = vec![];
    for of_agent in found.chunk_by(|one, other| one.agent == other.agent) {
        let id = of_agent[0].agent;
        tx.lock(id.into())?;
        let agent = directory::by_id(tx, id)?;
        for id in of_agent {
            let Some(found) = find(tx, *id, now)? else { continue };
            let agent = match (&agent, found.kind) {
                (Some(agent), EntryKind::Job) => Some(market::agents::as_worker(tx, agent.clone())?),
                (Some(agent), EntryKind::Result) => {
                    Some(market::agents::as_hirer(agent.clone(), String::new()))
                }
                (agent, _) => agent.clone(),
            };
            // Of one that is gone whoever tries finds out.
            let gone = if found.kind == EntryKind::Result { Transport::Webhook } else { Transport::Channel };
            let transport = agent.as_ref().map_or(gone, deliveries::push_transport);
            let is_done = match &agent {
                Some(agent) => goes_or_waits(tx, *id, &found, agent, now)?,
                None => false,
            };
            if !is_done {
                leased.push(take(tx, *id, found, transport, lease)?);
            }
        }
    }
    Ok(leased)
}

/// Returns whether there is nothing to try now: the delivery went into an open inbox, or keeps waiting.
fn goes_or_waits(
    tx: &mut dyn Tx,
    id: DeliveryId,
    found: &Found,
    agent: &Agent,
    now: i64,
) -> Result<bool, StoreError> {
    let transport = deliveries::push_transport(agent);
    let way = deliveries::way(agent, None, now);
    if way == Way::WaitForOwner(Hold::Paused) {
        // However long that lasts, it is not given up meanwhile.
        tx.execute(
            "UPDATE chats SET due_at = $3, give_up_at = $3 WHERE agent_id = $1 AND seq = $2",
            &[(&id.agent).into(), id.seq.into(), (now + GIVE_UP_MS).into()],
        )?;
        return Ok(true);
    }
    let until = match way {
        // A delivery that is no longer wanted is not moved; the try notices that.
        Way::Session => return into_inbox(tx, id, found, now),
        Way::Harness | Way::Webhook | Way::Connection if found.transport == transport => found.not_before,
        Way::Harness | Way::Webhook | Way::Connection => None,
        // At its end it is looked at once more.
        Way::Inbox | Way::WaitForOwner(_) | Way::WaitBehind(_) => Some(found.give_up_at),
    };
    let Some(until) = until.filter(|until| *until > now) else { return Ok(false) };
    let (key, until) = ([(&id.agent).into(), id.seq.into()], until.into());
    tx.execute("UPDATE chats SET due_at = $3 WHERE agent_id = $1 AND seq = $2", &[key[0], key[1], until])?;
    let transport = transport.as_str().into();
    tx.execute(
        "UPDATE deliveries SET transport = $3 WHERE agent_id = $1 AND seq = $2",
        &[key[0], key[1], transport],
    )?;
    Ok(true)
}

/// A delivery that can be leased.
struct Found {
    event: EventId,
    conversation: ConversationId,
    kind: EntryKind,
    /// The transport of the last try.
    transport: Transport,
    attempt: i64,
    give_up_at: i64,
    /// Until then it is not tried again in that way.
    not_before: Option<i64>,
}

fn find(tx: &mut dyn Tx, id: DeliveryId, now: i64) -> Result<Option<Found>, StoreError> {
    let row = tx.first(
        "SELECT c.event_id, c.conversation_id, d.kind, d.transport, c.attempt, c.give_up_at, c.not_before
         FROM chats c JOIN deliveries d ON d.agent_id = c.agent_id AND d.seq = c.seq
         WHERE c.agent_id = $1 AND c.seq = $2 AND c.due_at <= $3 AND (d.lease_until IS NULL OR d.lease_until <= $3)",
        &[(&id.agent).into(), id.seq.into(), now.into()],
    )?;
    let Some(mut row) = row else { return Ok(None) };
    Ok(Some(Found {
        event: EventId(row.uuid("event_id")?),
        conversation: ConversationId(row.uuid("conversation_id")?),
        kind: word(&row.text("kind")?, EntryKind::parse)?,
        transport: word(&row.text("transport")?, Transport::parse)?,
        attempt: row.int("attempt")?,
        give_up_at: row.int("give_up_at")?,
        not_before: row.opt_int("not_before")?,
    }))
}

/// Leases a delivery. Should nobody tell how it ended, it is due when the lease ends.
fn take(
    tx: &mut dyn Tx,
    id: DeliveryId,
    found: Found,
    transport: Transport,
    lease: Lease,
) -> Result<Due, StoreError> {
    tx.execute(
        "UPDATE deliveries SET lease_owner = $3, lease_until = $4, transport = $5 WHERE agent_id = $1 AND seq = $2",
        &[
            (&id.agent).into(),
            id.seq.into(),
            (&lease.owner).into(),
            lease.until.into(),
            transport.as_str().into(),
        ],
    )?;
    tx.execute(
        "UPDATE chats SET attempt = attempt + 1, due_at = $3, not_before = NULL WHERE agent_id = $1 AND seq = $2",
        &[(&id.agent).into(), id.seq.into(), lease.until.into()],
    )?;
    let Found { event, conversation, kind, attempt, give_up_at, .. } = found;
    Ok(Due { id, event, conversation, kind, transport, attempt: attempt + 1, give_up_at, lease })
}

/// Moves the deliveries that wait in the conversation of this one into the inbox, in order. Each gets a new
/// sequence number, because readers may have passed its old one. Returns whether this one moved. A delivery
/// that is no longer wanted does not move, nor those behind it.
fn into_inbox(tx: &mut dyn Tx, first: DeliveryId, found: &Found, now: i64) -> Result<bool, StoreError> {
    let (agent, conversation) = (first.agent, found.conversation);
    if found.kind == EntryKind::Chat && members::of(tx, conversation, agent.into())?.is_none() {
        return Ok(false);
    }
    let waiting = tx.query(
        "SELECT seq, event_id FROM chats WHERE agent_id = $1 AND conversation_id = $2 AND give_up_at IS NOT NULL
         ORDER BY seq LIMIT $3",
        &[(&agent).into(), (&conversation).into(), MOVED_TOGETHER.into()],
    )?;
    let mut went = false;
    for mut row in waiting {
        let (from, event) = (row.int("seq")?, EventId(row.uuid("event_id")?));
        if log::changes(tx, &[], &[event])?.iter().any(|change| change.kind == EventKind::Delete) {
            break;
        }
        let to = tx.next_seq(agent.into())?;
        tx.execute(
            "UPDATE deliveries SET seq = $3, transport = 'inbox', state = 'delivered_sse', lease_owner = NULL,
                    lease_until = NULL, updated_at = $4 WHERE agent_id = $1 AND seq = $2",
            &[(&agent).into(), from.into(), to.into(), now.into()],
        )?;
        tx.execute(
            "UPDATE chats SET seq = $3, due_at = NULL, not_before = NULL, give_up_at = NULL WHERE agent_id = $1 AND seq = $2",
            &[(&agent).into(), from.into(), to.into()],
        )?;
        tx.execute(
            "UPDATE attempts SET seq = $3 WHERE agent_id = $1 AND seq = $2",
            &[(&agent).into(), from.into(), to.into()],
        )?;
        went |= from == first.seq;
    }
    if went {
        next_in_line(tx, agent, conversation, now)?;
    }
    Ok(went)
}

macro_rules! select_rerouted {
    ($which:literal) => {
        concat!(
            "SELECT c.agent_id, c.seq FROM chats c JOIN deliveries d ON d.agent_id = c.agent_id AND d.seq = c.seq
             JOIN agents a ON a.id = c.agent_id LEFT JOIN inboxes i ON i.agent_id = c.agent_id
             LEFT JOIN market_agents m ON m.agent_id = c.agent_id
             WHERE c.due_at IS NOT NULL AND ",
            $which,
            " AND c.due_at > $1 AND d.lease_until IS NULL AND d.kind <> 'result'
               AND ((i.open_until > $1 AND a.paused_at IS NULL) OR d.transport <> CASE
                    WHEN a.harness IS NOT NULL THEN 'harness'
                    WHEN CASE WHEN d.kind = 'job' THEN m.endpoint ELSE a.endpoint END IS NULL THEN 'channel' ELSE 'webhook' END)
             ORDER BY c.due_at LIMIT $2"
        )
    };
}

const REROUTED: [&str; 2] = [select_rerouted!("c.attempt = 0"), select_rerouted!("c.attempt > 0")];

/// Finds at most `limit` deliveries that wait for their next try although their agent has another route by
/// now.
pub fn find_rerouted(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<Vec<DeliveryId>, StoreError> {
    let mut found = vec![];
    for sql in REROUTED {
        for mut row in tx.query(sql, &[now.into(), (limit - found.len() as i64).into()])? {
            found.push(DeliveryId { agent: AgentId(row.uuid("agent_id")?), seq: row.int("seq")? });
        }
    }
    Ok(found)
}

/// Those that wait for a time are looked at now: who has another way than the one that failed takes it, the others wait on.
pub fn reroute(tx: &mut dyn Tx, found: &[DeliveryId], now: i64) -> Result<(), StoreError> {
    each_that_waits(
        tx,
        "UPDATE chats SET due_at = $3 WHERE agent_id = $1 AND seq = $2 AND due_at > $3 AND NOT EXISTS
             (SELECT 1 FROM deliveries d WHERE d.agent_id = $1 AND d.seq = $2 AND d.lease_until IS NOT NULL)",
        found,
        now,
    )
}

/// Those that wait for a time are tried now, in whichever way: for times that are wrong.
pub fn hurry(tx: &mut dyn Tx, found: &[DeliveryId], now: i64) -> Result<(), StoreError> {
    each_that_waits(
        tx,
        "UPDATE chats SET due_at = $3, not_before = NULL WHERE agent_id = $1 AND seq = $2 AND due_at > $3 AND NOT EXISTS
             (SELECT 1 FROM deliveries d WHERE d.agent_id = $1 AND d.seq = $2 AND d.lease_until IS NOT NULL)",
        found,
        now,
    )
}

fn each_that_waits(
    tx: &mut dyn Tx,
    sql: &'static str,
    found: &[DeliveryId],
    now: i64,
) -> Result<(), StoreError> {
    let mut found = found.to_vec();
    found.sort_unstable();
    for id in found {
        tx.execute(sql, &[(&id.agent).into(), id.seq.into(), now.into()])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::plan_of;

    /// However much waits, is being tried or is over: only what is due is looked at.
    #[tokio::test]
    async fn each_question_has_its_index() {
        for (sql, index) in [
            (FIRST_TRIES, "USING COVERING INDEX chats_first_tries (due_at>? AND due_at<?)"),
            (RETRIES, "USING COVERING INDEX chats_retries (due_at>? AND due_at<?)"),
        ] {
            let plan = plan_of(sql, 5).await;
            assert!(plan.contains(index) && !plan.contains("TEMP B-TREE"), "{plan}");
        }
        for (sql, index) in REROUTED.into_iter().zip(["first_tries", "retries"]) {
            let plan = plan_of(sql, 2).await;
            assert!(
                plan.starts_with("SEARCH c USING ") && plan.contains(&format!("INDEX chats_{index}")),
                "{plan}"
            );
            assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{plan}");
        }
        let plan = plan_of(OWN, 2).await;
        assert!(
            plan.starts_with("SEARCH d USING INDEX deliveries_by_lease") && !plan.contains("SCAN"),
            "{plan}"
        );
        for (sql, index) in NEXT.into_iter().zip(["first_tries", "retries"]) {
            let plan = plan_of(sql, 0).await;
            assert!(
                plan.contains(&format!("INDEX chats_{index}")) && !plan.contains("TEMP B-TREE"),
                "{plan}"
            );
        }
    }
}
