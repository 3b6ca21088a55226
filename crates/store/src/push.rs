//! Pushing: deliveries that are POSTed repeatedly until they arrive, are refused, or are given up.
//!
//! Of the deliveries that wait for one agent in one conversation only the first is due; the others have no due
//! time until their turn. This keeps the order, and a dead agent costs only the tries of its first delivery. A
//! try holds a lease, and meanwhile the delivery is due when the lease ends: an expired lease belongs to a
//! dead node, and the delivery is tried again. Every try is recorded and takes the best route at that time; if
//! that is the inbox, the delivery goes there and is done. A route that failed is not used until `not_before`;
//! an earlier due time is for another route. Adding a delivery and finishing one both lock the agent's stream,
//! so that neither misses the other.

mod leasing;
mod records;

pub use leasing::{Due, Room, find_due, find_rerouted, hurry, lease, next_due, reroute};
pub use records::{Cursor, Filter, Record, attempts, get, list, of_envelope, of_event};

use crate::deliveries::{self, GIVE_UP_MS, Way};
use crate::directory::{self, Agent};
use crate::{StoreError, Tx, TxExt, obligations};
use chorus_protocol::ids::{AgentId, ConversationId, DeliveryId};
use chorus_protocol::words::{DeliveryState, Transport};
use std::collections::BTreeSet;

/// Returns the first delivery that waits for this agent in this conversation. Later ones wait behind it, even
/// if there is a better route by now. The caller holds the lock of the agent's stream.
pub(crate) fn first_waiting(
    tx: &mut dyn Tx,
    agent: AgentId,
    conversation: ConversationId,
) -> Result<Option<DeliveryId>, StoreError> {
    let row = tx.first(
        "SELECT seq FROM chats WHERE agent_id = $1 AND conversation_id = $2 AND give_up_at IS NOT NULL AND due_at IS NOT NULL
         LIMIT 1",
        &[(&agent).into(), (&conversation).into()],
    )?;
    row.map(|mut row| Ok(DeliveryId { agent, seq: row.int("seq")? })).transpose()
}

/// Returns whether deliveries to this agent wait until its owner acts.
fn waits_for_its_owner(agent: &Agent, now: i64) -> bool {
    matches!(deliveries::way(agent, None, now), Way::WaitForOwner(_))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    pub at: i64,
    /// The receiver's HTTP status.
    pub status: Option<i64>,
    pub latency_ms: i64,
    pub error: Option<String>,
}

/// The outcome of a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver took it.
    Delivered,
    /// It is tried again at this time.
    Again(i64),
    /// The connection string that was in use at this epoch is wrong: nothing is tried until its owner mends it.
    Broken(i64),
    /// The receiver will never take it.
    Refused,
    Dead,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinishedTry {
    /// True if the lease was still valid. If not, another node tries now.
    pub held: bool,
    /// True if the try marked the connection as broken.
    pub broke: bool,
}

/// Records a try and what it led to. Without a try `why` says what else was the reason, and the delivery goes back as it was
/// taken if it is not over.
pub fn finish(
    tx: &mut dyn Tx,
    due: &Due,
    attempt: Option<&Attempt>,
    why: Option<&str>,
    outcome: Outcome,
    now: i64,
) -> Result<FinishedTry, StoreError> {
    tx.lock(due.id.agent.into())?;
    // Its owner may have replaced the connection string while the old one was tried: then the new one is tried at once.
    let outcome = match outcome {
        Outcome::Broken(epoch) => match directory::by_id(tx, due.id.agent)? {
            Some(agent) if agent.epoch != epoch => Outcome::Again(now),
            _ => outcome,
        },
        outcome => outcome,
    };
    let (state, due_at) = match outcome {
        Outcome::Delivered => (DeliveryState::Delivered, None),
        Outcome::Again(at) => (DeliveryState::Waiting, Some(at.min(due.give_up_at))),
        Outcome::Broken(_) => (DeliveryState::Waiting, Some(due.give_up_at)),
        // A refused delivery is final.
        Outcome::Refused | Outcome::Dead => (DeliveryState::Dead, None),
    };
    let error = attempt.map_or(why, |attempt| attempt.error.as_deref());
    let held = tx.execute(
        "UPDATE deliveries SET state = $3, detail = COALESCE($4, detail), updated_at = $5, lease_owner = NULL, lease_until = NULL
         WHERE agent_id = $1 AND seq = $2 AND lease_owner = $6 AND lease_until >= $7
           AND (SELECT attempt FROM chats c WHERE c.agent_id = $1 AND c.seq = $2) = $8",
        &[
            (&due.id.agent).into(),
            due.id.seq.into(),
            state.as_str().into(),
            error.into(),
            now.into(),
            (&due.lease.owner).into(),
            due.lease.until.into(),
            due.attempt.into(),
        ],
    )? == 1;
    if let Some(attempt) = attempt {
        insert_attempt(tx, due.id, attempt)?;
    }
    if !held {
        return Ok(FinishedTry { held, broke: false });
    }
    tx.execute(
        "UPDATE chats SET due_at = $3, not_before = $3, give_up_at = $4, undelivered = $5,
                handed_at = COALESCE($6, handed_at), attempt = attempt - $7
         WHERE agent_id = $1 AND seq = $2",
        &[
            (&due.id.agent).into(),
            due.id.seq.into(),
            due_at.into(),
            due_at.map(|_| due.give_up_at).into(),
            matches!(outcome, Outcome::Refused | Outcome::Dead).then_some(state.as_str()).into(),
            (outcome == Outcome::Delivered).then_some(now).into(),
            i64::from(attempt.is_none()).into(),
        ],
    )?;
    let broke = match outcome {
        Outcome::Again(_) => false,
        Outcome::Broken(epoch) => break_connection(tx, due.id.agent, epoch, error.unwrap_or("broken"), now)?,
        Outcome::Delivered | Outcome::Refused | Outcome::Dead => {
            // A C2A harness acknowledges the event; other receivers only answer the request.
            if outcome == Outcome::Delivered && due.transport == Transport::Harness {
                obligations::ack(tx, due.id.agent, &[due.id.seq], now)?;
            }
            next_in_line(tx, due.id.agent, due.conversation, now)?;
            false
        }
    };
    Ok(FinishedTry { held, broke })
}

/// Renews the lease of a try that takes longer, if nobody else has the delivery by now.
pub fn renew(tx: &mut dyn Tx, due: &Due, until: i64) -> Result<(), StoreError> {
    let held = tx.execute(
        "UPDATE deliveries SET lease_until = $4 WHERE agent_id = $1 AND seq = $2 AND lease_owner = $3 AND lease_until IS NOT NULL
           AND (SELECT attempt FROM chats c WHERE c.agent_id = $1 AND c.seq = $2) = $5",
        &[
            (&due.id.agent).into(),
            due.id.seq.into(),
            (&due.lease.owner).into(),
            until.into(),
            due.attempt.into(),
        ],
    )? == 1;
    if held {
        tx.execute(
            "UPDATE chats SET due_at = $3 WHERE agent_id = $1 AND seq = $2",
            &[(&due.id.agent).into(), due.id.seq.into(), until.into()],
        )?;
    }
    Ok(())
}

fn insert_attempt(tx: &mut dyn Tx, id: DeliveryId, attempt: &Attempt) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO attempts (agent_id, seq, number, at, status, latency_ms, error)
         VALUES ($1, $2, (SELECT COALESCE(MAX(number), 0) + 1 FROM attempts WHERE agent_id = $1 AND seq = $2),
                 $3, $4, $5, $6)",
        &[
            (&id.agent).into(),
            id.seq.into(),
            attempt.at.into(),
            attempt.status.into(),
            attempt.latency_ms.into(),
            attempt.error.as_deref().into(),
        ],
    )?;
    Ok(())
}

/// The connection string that was in use at this epoch is wrong: nothing is tried over it until its owner mends it. Says
/// whether that is news.
pub fn break_connection(
    tx: &mut dyn Tx,
    agent: AgentId,
    epoch: i64,
    why: &str,
    now: i64,
) -> Result<bool, StoreError> {
    tx.lock(agent.into())?;
    // Its owner may have replaced it meanwhile; and what is broken stays so since it was.
    let working = directory::by_id(tx, agent)?.filter(|agent| agent.epoch == epoch && agent.broken.is_none());
    if working.is_none() {
        return Ok(false);
    }
    directory::set_broken(tx, agent, Some((why, now)))?;
    tx.execute(
        "UPDATE chats SET due_at = give_up_at WHERE agent_id = $1 AND seq IN
             (SELECT c.seq FROM chats c JOIN deliveries d ON d.agent_id = c.agent_id AND d.seq = c.seq
              WHERE c.agent_id = $1 AND c.give_up_at IS NOT NULL AND c.due_at IS NOT NULL
                AND d.lease_until IS NULL AND d.transport = 'channel')",
        &[(&agent).into()],
    )?;
    Ok(true)
}

/// The first that waits in this conversation has its turn.
fn next_in_line(
    tx: &mut dyn Tx,
    agent: AgentId,
    conversation: ConversationId,
    now: i64,
) -> Result<(), StoreError> {
    // Over a broken connection nothing is tried: it waits for its end, or for whoever mends it.
    let broken = directory::by_id(tx, agent)?.is_some_and(|agent| waits_for_its_owner(&agent, now));
    tx.execute(
        "UPDATE chats SET due_at = CASE WHEN CAST($4 AS BIGINT) = 1 THEN give_up_at ELSE $3 END
         WHERE agent_id = $1 AND due_at IS NULL AND seq =
             (SELECT MIN(seq) FROM chats WHERE agent_id = $1 AND conversation_id = $2 AND give_up_at IS NOT NULL)",
        &[(&agent).into(), (&conversation).into(), now.into(), i64::from(broken).into()],
    )?;
    Ok(())
}

/// The agent can be reached again: what waited for it is due now.
pub fn mend(tx: &mut dyn Tx, agent: AgentId, now: i64) -> Result<u64, StoreError> {
    tx.lock(agent.into())?;
    directory::set_broken(tx, agent, None)?;
    take_from_inbox(tx, agent, now)?;
    tx.execute(RETRY_NOW, &[(&agent).into(), now.into()])
}

/// The most deliveries that an address gets of those that waited for an inbox.
const CAUGHT_UP: i64 = 500;

/// Pushes what was said to an agent while it had no address, and waits for an inbox that nobody opens: the last of it, in order.
/// Changes nothing for an agent that has no address, or whose inbox is open. The caller holds the lock of the agent's stream.
pub fn take_from_inbox(tx: &mut dyn Tx, agent: AgentId, now: i64) -> Result<(), StoreError> {
    let Some(known) = directory::by_id(tx, agent)? else { return Ok(()) };
    if known.open_until > now || deliveries::way_of_push(&known) == Way::Inbox {
        return Ok(());
    }
    let waiting = tx.query(
        "SELECT d.seq, c.conversation_id FROM deliveries d JOIN chats c ON c.agent_id = d.agent_id AND c.seq = d.seq
         LEFT JOIN inboxes i ON i.agent_id = d.agent_id
         WHERE d.agent_id = $1 AND d.state = 'queued' AND d.kind = 'chat' AND d.seq > COALESCE(i.handed_through, 0)
           AND c.acked_at IS NULL AND c.give_up_at IS NULL AND COALESCE(c.disposition, '') <> 'superseded'
           AND NOT EXISTS (SELECT 1 FROM chats n WHERE n.event_id = c.event_id AND n.agent_id = c.agent_id AND n.seq > c.seq)
         ORDER BY d.seq DESC LIMIT $2",
        &[(&agent).into(), CAUGHT_UP.into()],
    )?;
    let transport = deliveries::push_transport(&known);
    let mut conversations = BTreeSet::new();
    for mut row in waiting {
        let (seq, conversation) = (row.int("seq")?, ConversationId(row.uuid("conversation_id")?));
        tx.execute(
            "UPDATE deliveries SET state = 'waiting', transport = $3, updated_at = $4 WHERE agent_id = $1 AND seq = $2",
            &[(&agent).into(), seq.into(), transport.as_str().into(), now.into()],
        )?;
        tx.execute(
            "UPDATE chats SET give_up_at = $3 WHERE agent_id = $1 AND seq = $2",
            &[(&agent).into(), seq.into(), (now + GIVE_UP_MS).into()],
        )?;
        conversations.insert(conversation);
    }
    for conversation in conversations {
        if first_waiting(tx, agent, conversation)?.is_none() {
            next_in_line(tx, agent, conversation, now)?;
        }
    }
    Ok(())
}

const RETRY_NOW: &str = "UPDATE chats SET due_at = $2, not_before = NULL WHERE agent_id = $1 AND seq IN
     (SELECT c.seq FROM chats c JOIN deliveries d ON d.agent_id = c.agent_id AND d.seq = c.seq
      WHERE c.agent_id = $1 AND c.give_up_at IS NOT NULL AND c.due_at IS NOT NULL AND d.lease_until IS NULL)";

/// The agent may be called again: what waited for it is due now, unless it waits for its owner.
pub fn retry_now(tx: &mut dyn Tx, agent: AgentId, now: i64) -> Result<(), StoreError> {
    tx.lock(agent.into())?;
    take_from_inbox(tx, agent, now)?;
    if directory::by_id(tx, agent)?.is_some_and(|agent| !waits_for_its_owner(&agent, now)) {
        tx.execute(RETRY_NOW, &[(&agent).into(), now.into()])?;
    }
    Ok(())
}

/// Tries a delivery anew that was given up or refused, and says whether it was one. If others of its conversation wait, it
/// waits for its turn among them.
pub fn replay(tx: &mut dyn Tx, id: DeliveryId, now: i64) -> Result<bool, StoreError> {
    tx.lock(id.agent.into())?;
    let row = tx.first(
        "UPDATE chats SET undelivered = NULL, due_at = NULL, not_before = NULL, attempt = 0, give_up_at = $3
         WHERE agent_id = $1 AND seq = $2 AND undelivered IS NOT NULL RETURNING conversation_id",
        &[(&id.agent).into(), id.seq.into(), (now + GIVE_UP_MS).into()],
    )?;
    let Some(mut row) = row else { return Ok(false) };
    tx.execute(
        "UPDATE deliveries SET state = 'waiting', updated_at = $3 WHERE agent_id = $1 AND seq = $2",
        &[(&id.agent).into(), id.seq.into(), now.into()],
    )?;
    let conversation = ConversationId(row.uuid("conversation_id")?);
    if first_waiting(tx, id.agent, conversation)?.is_none() {
        next_in_line(tx, id.agent, conversation, now)?;
    }
    Ok(true)
}

/// Lists deliveries of a filter that can be replayed, oldest first, and whether there are more.
pub fn find_replayable(
    tx: &mut dyn Tx,
    filter: &Filter,
    limit: i64,
) -> Result<(Vec<DeliveryId>, bool), StoreError> {
    let mut found = vec![];
    let states = filter.state.map_or(vec![DeliveryState::Dead, DeliveryState::Failed], |state| vec![state]);
    for state in states {
        let filter = Filter { state: Some(state), ..filter.clone() };
        found.extend(list(tx, &filter, None, limit + 1)?);
    }
    found.sort_by_key(|record| (record.created_at, record.id));
    let more = found.len() as i64 > limit;
    found.truncate(limit.max(0) as usize);
    Ok((found.into_iter().map(|record| record.id).collect(), more))
}

/// Replays these, in this order, and says how many it were.
pub fn replay_all(tx: &mut dyn Tx, found: &[DeliveryId], now: i64) -> Result<u64, StoreError> {
    // The smaller stream first, as everywhere.
    for agent in found.iter().map(|id| id.agent).collect::<BTreeSet<_>>() {
        tx.lock(agent.into())?;
    }
    found.iter().try_fold(0, |replayed, id| Ok(replayed + u64::from(replay(tx, *id, now)?)))
}

/// Of so many of an agent's newest deliveries the last word is looked for.
const LOOKED_AT: i64 = 1000;

/// Returns the last result of POSTs to an agent by this transport: the error, or `None` for success, and the
/// time.
pub fn last_outcome(
    tx: &mut dyn Tx,
    agent: AgentId,
    transport: Transport,
) -> Result<Option<(Option<String>, i64)>, StoreError> {
    let after = tx.head(agent.into())? - LOOKED_AT;
    let row = tx.first(
        "SELECT CASE WHEN state = 'delivered' THEN NULL ELSE detail END AS error, updated_at FROM deliveries
         WHERE agent_id = $1 AND seq > $2 AND transport = $3 AND (state = 'delivered' OR detail IS NOT NULL)
         ORDER BY updated_at DESC, seq DESC LIMIT 1",
        &[(&agent).into(), after.into(), transport.as_str().into()],
    )?;
    row.map(|mut row| Ok((row.opt_text("error")?, row.int("updated_at")?))).transpose()
}

/// Returns the plan of SQLite, which has no statistics.
#[cfg(test)]
pub(crate) async fn plan_of(sql: &'static str, params: usize) -> String {
    let store = crate::Store::in_memory().unwrap();
    let sql: &'static str = Box::leak(format!("EXPLAIN QUERY PLAN {sql}").into_boxed_str());
    let explain = move |tx: &mut dyn Tx| {
        let params = vec![crate::Param::Null; params];
        tx.query(sql, &params)?
            .into_iter()
            .map(|mut row| row.text("detail"))
            .collect::<Result<Vec<_>, StoreError>>()
    };
    store.read(explain).await.unwrap().join("\n")
}
