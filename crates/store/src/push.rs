//! Pushing: deliveries that are POSTed again and again until they arrive, are refused, or are given up.
//!
//! Of the deliveries that wait for one agent in one conversation only the first is due; the others have no time until
//! their turn comes, so that order is kept and a dead agent costs nothing but its first delivery's tries. Whoever POSTs
//! holds a lease; one that ran out belongs to a node that died, and the delivery is tried again. Every try is recorded.
//! Both ends of the chain, a new delivery and a finished one, hold the agent's stream, so that neither misses the other.

use crate::deliveries::{Lease, Transport};
use crate::{Row, StoreError, Tx, TxExt, directory};
use chorus_protocol::ids::{AccountId, AgentId, ConversationId, DeliveryId, EventId, TraceId};
use chorus_protocol::relay::Delivery;
use std::collections::BTreeSet;

/// How long a delivery is tried before it is given up.
pub const GIVE_UP_MS: i64 = 24 * 60 * 60 * 1000;

/// When a new delivery of this agent and conversation is due: now, unless another waits. The caller holds the agent's stream.
pub fn due_for(
    tx: &mut dyn Tx,
    agent: AgentId,
    conversation: ConversationId,
    now: i64,
) -> Result<Option<i64>, StoreError> {
    let waiting = tx.first(
        "SELECT 1 FROM deliveries WHERE agent_id = $1 AND conversation_id = $2 AND state = 'waiting' LIMIT 1",
        &[(&agent).into(), (&conversation).into()],
    )?;
    Ok(waiting.is_none().then_some(now))
}

/// A delivery whose turn it is, leased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// Which.
    pub id: DeliveryId,
    /// Of which event.
    pub event: EventId,
    /// In which conversation.
    pub conversation: ConversationId,
    /// What kind of inbox entry it would be.
    pub kind: String,
    /// How it travels.
    pub transport: Transport,
    /// Which try this is, from 1.
    pub attempt: i64,
    /// When it is given up.
    pub give_up_at: i64,
    /// The right to try.
    pub lease: Lease,
}

/// A reconciler: leases what is due, at most `limit`, and so many that this owner sends at most `per_agent` to each
/// agent at a time.
pub fn lease_due(
    tx: &mut dyn Tx,
    now: i64,
    lease: Lease,
    limit: i64,
    per_agent: i64,
) -> Result<Vec<Due>, StoreError> {
    // What is leased stays due, so the same rows tell how much each agent has to do. In one order everywhere, so that two
    // nodes that lease at the same time never wait for each other.
    let rows = tx.query(
        "SELECT agent_id, seq, event_id, conversation_id, kind, transport, attempt, give_up_at
         FROM (SELECT agent_id, seq, event_id, conversation_id, kind, transport, attempt, give_up_at, due_at, lease_until,
                      SUM(CASE WHEN lease_until > $1 AND lease_owner = $3 THEN 1 ELSE 0 END)
                          OVER (PARTITION BY agent_id) AS sending,
                      ROW_NUMBER() OVER (PARTITION BY agent_id, CASE WHEN lease_until > $1 THEN 1 ELSE 0 END
                                         ORDER BY due_at, seq) AS place
               FROM deliveries WHERE due_at <= $1 AND retry = 'push') d
         WHERE (lease_until IS NULL OR lease_until <= $1) AND place + sending <= $4
         ORDER BY due_at, agent_id, seq LIMIT $2",
        &[now.into(), limit.into(), (&lease.owner).into(), per_agent.into()],
    )?;
    let mut leased = vec![];
    for mut row in rows {
        let due = Due {
            id: DeliveryId { agent: AgentId(row.uuid(0)?), seq: row.int(1)? },
            event: EventId(row.uuid(2)?),
            conversation: ConversationId(row.uuid(3)?),
            kind: row.text(4)?,
            transport: Transport::parse(&row.text(5)?)?,
            attempt: row.int(6)? + 1,
            give_up_at: row.opt_int(7)?.unwrap_or(now),
            lease,
        };
        // Another node may have been faster.
        let won = tx.execute(
            "UPDATE deliveries SET lease_owner = $3, lease_until = $4, attempt = $5
             WHERE agent_id = $1 AND seq = $2 AND state = 'waiting' AND due_at <= $6 AND (lease_until IS NULL OR lease_until <= $6)",
            &[
                (&due.id.agent).into(),
                due.id.seq.into(),
                (&lease.owner).into(),
                lease.until.into(),
                due.attempt.into(),
                now.into(),
            ],
        )?;
        if won == 1 {
            leased.push(due);
        }
    }
    Ok(leased)
}

/// When something can be leased next: it is due, and nobody holds it any more.
pub fn next_due(tx: &mut dyn Tx) -> Result<Option<i64>, StoreError> {
    let row = tx.first(
        "SELECT MIN(CASE WHEN lease_until > due_at THEN lease_until ELSE due_at END) FROM deliveries
         WHERE due_at IS NOT NULL",
        &[],
    )?;
    row.map_or(Ok(None), |mut row| row.opt_int(0))
}

/// One try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// When it began.
    pub at: i64,
    /// What the receiver answered.
    pub status: Option<i64>,
    /// How long it took.
    pub latency_ms: i64,
    /// Why it did not succeed.
    pub error: Option<String>,
}

/// What a try led to.
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
    /// Time is up.
    Dead,
}

/// Records a try and what it led to, and says whether the lease still held; if not, somebody else tries now. Without a try
/// the delivery goes back as it was taken.
pub fn finish(
    tx: &mut dyn Tx,
    due: &Due,
    attempt: Option<&Attempt>,
    outcome: Outcome,
    now: i64,
) -> Result<bool, StoreError> {
    tx.lock(due.id.agent.0)?;
    // Its owner may have replaced the connection string while the old one was tried: then the new one is tried at once.
    let outcome = match outcome {
        Outcome::Broken(epoch) => match directory::by_id(tx, due.id.agent)? {
            Some(agent) if agent.epoch != epoch => Outcome::Again(now),
            _ => outcome,
        },
        outcome => outcome,
    };
    let (state, due_at) = match outcome {
        Outcome::Delivered => (Delivery::Delivered, None),
        Outcome::Again(at) => (Delivery::Waiting, Some(at.min(due.give_up_at))),
        Outcome::Broken(_) => (Delivery::Waiting, Some(due.give_up_at)),
        Outcome::Refused => (Delivery::Failed, None),
        Outcome::Dead => (Delivery::Dead, None),
    };
    let error = attempt.and_then(|attempt| attempt.error.as_deref());
    let held = tx.execute(
        "UPDATE deliveries SET state = $3, due_at = $4, detail = COALESCE($5, detail), updated_at = $6, lease_owner = NULL,
                lease_until = NULL, handed_at = CASE WHEN $3 = 'delivered' THEN $6 ELSE handed_at END, attempt = attempt - $9
         WHERE agent_id = $1 AND seq = $2 AND lease_owner = $7 AND lease_until = $8",
        &[
            (&due.id.agent).into(),
            due.id.seq.into(),
            state.as_str().into(),
            due_at.into(),
            error.into(),
            now.into(),
            (&due.lease.owner).into(),
            due.lease.until.into(),
            i64::from(attempt.is_none()).into(),
        ],
    )? == 1;
    if let Some(attempt) = attempt {
        tx.execute(
            "INSERT INTO attempts (agent_id, seq, number, at, status, latency_ms, error) VALUES ($1, $2, $3, $4, $5, $6, $7)
             ON CONFLICT (agent_id, seq, number) DO NOTHING",
            &[
                (&due.id.agent).into(),
                due.id.seq.into(),
                due.attempt.into(),
                attempt.at.into(),
                attempt.status.into(),
                attempt.latency_ms.into(),
                error.into(),
            ],
        )?;
    }
    if !held {
        return Ok(false);
    }
    match outcome {
        Outcome::Again(_) => {}
        Outcome::Broken(_) => {
            directory::set_broken(tx, due.id.agent, Some((error.unwrap_or("broken"), now)))?;
            tx.execute(
                "UPDATE deliveries SET due_at = give_up_at WHERE agent_id = $1 AND transport = 'channel' AND seq IN
                     (SELECT seq FROM deliveries WHERE agent_id = $1 AND state = 'waiting' AND due_at IS NOT NULL)",
                &[(&due.id.agent).into()],
            )?;
        }
        Outcome::Delivered | Outcome::Refused | Outcome::Dead => {
            next_in_line(tx, due.id.agent, due.conversation, now)?;
        }
    }
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
    tx.execute(
        "UPDATE deliveries SET due_at = CASE WHEN transport = 'channel' AND EXISTS
             (SELECT 1 FROM agents WHERE id = $1 AND broken IS NOT NULL) THEN give_up_at ELSE $3 END
         WHERE agent_id = $1 AND due_at IS NULL AND seq =
             (SELECT MIN(seq) FROM deliveries WHERE agent_id = $1 AND conversation_id = $2 AND state = 'waiting')",
        &[(&agent).into(), (&conversation).into(), now.into()],
    )?;
    Ok(())
}

/// The agent can be reached again: what waited for it is due now.
pub fn mend(tx: &mut dyn Tx, agent: AgentId, now: i64) -> Result<u64, StoreError> {
    tx.lock(agent.0)?;
    directory::set_broken(tx, agent, None)?;
    tx.execute(
        "UPDATE deliveries SET due_at = $2 WHERE agent_id = $1 AND state = 'waiting' AND due_at IS NOT NULL",
        &[(&agent).into(), now.into()],
    )
}

/// Tries a delivery anew that was given up or refused, and says whether it was one. If others of its conversation wait, it
/// waits for its turn among them.
pub fn replay(tx: &mut dyn Tx, id: DeliveryId, now: i64) -> Result<bool, StoreError> {
    tx.lock(id.agent.0)?;
    let row = tx.first(
        "UPDATE deliveries SET state = 'waiting', due_at = NULL, give_up_at = $4, updated_at = $3
         WHERE agent_id = $1 AND seq = $2 AND state IN ('dead', 'failed') AND retry = 'push' RETURNING conversation_id",
        &[(&id.agent).into(), id.seq.into(), now.into(), (now + GIVE_UP_MS).into()],
    )?;
    let Some(mut row) = row else { return Ok(false) };
    let conversation = ConversationId(row.uuid(0)?);
    let in_line = tx.first(
        "SELECT 1 FROM deliveries
         WHERE agent_id = $1 AND conversation_id = $2 AND state = 'waiting' AND due_at IS NOT NULL LIMIT 1",
        &[(&id.agent).into(), (&conversation).into()],
    )?;
    if in_line.is_none() {
        next_in_line(tx, id.agent, conversation, now)?;
    }
    Ok(true)
}

/// Replays what a filter finds of what was given up or refused, the oldest first, and says how many it were and whether
/// there are more.
pub fn replay_all(tx: &mut dyn Tx, filter: &Filter, now: i64, limit: i64) -> Result<(u64, bool), StoreError> {
    let mut found = vec![];
    let states = filter.state.map_or(vec![Delivery::Dead, Delivery::Failed], |state| vec![state]);
    for state in states {
        let filter = Filter { state: Some(state), ..filter.clone() };
        found.extend(list(tx, &filter, None, limit + 1)?);
    }
    found.sort_by_key(|record| (record.created_at, record.id));
    let more = found.len() as i64 > limit;
    found.truncate(limit.max(0) as usize);
    // The smaller stream first, as everywhere.
    for agent in found.iter().map(|record| record.id.agent).collect::<BTreeSet<_>>() {
        tx.lock(agent.0)?;
    }
    let mut replayed = 0;
    for record in found {
        replayed += u64::from(replay(tx, record.id, now)?);
    }
    Ok((replayed, more))
}

/// What an agent made of what it was given. Who once responded has responded, whatever it says later.
pub fn dispose(tx: &mut dyn Tx, id: DeliveryId, disposition: &str, now: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE deliveries SET disposition = $3, disposition_at = $4
         WHERE agent_id = $1 AND seq = $2 AND (disposition IS NULL OR disposition <> 'responded')",
        &[(&id.agent).into(), id.seq.into(), disposition.into(), now.into()],
    )?;
    Ok(())
}

/// The same, unless it made something of it before.
pub fn dispose_unless(
    tx: &mut dyn Tx,
    id: DeliveryId,
    disposition: &str,
    now: i64,
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE deliveries SET disposition = $3, disposition_at = $4
         WHERE agent_id = $1 AND seq = $2 AND disposition IS NULL",
        &[(&id.agent).into(), id.seq.into(), disposition.into(), now.into()],
    )?;
    Ok(())
}

/// A delivery as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Which.
    pub id: DeliveryId,
    /// To whom, by name.
    pub agent: String,
    /// Of which event.
    pub event: EventId,
    /// In which conversation.
    pub conversation: ConversationId,
    /// What kind of inbox entry it is.
    pub kind: String,
    /// How it travels.
    pub transport: Transport,
    /// How it stands.
    pub state: Delivery,
    /// Why it goes to this agent.
    pub reason: Option<String>,
    /// How often it was tried.
    pub attempt: i64,
    /// When it is tried next.
    pub due_at: Option<i64>,
    /// What went wrong last.
    pub detail: Option<String>,
    /// When it was stored.
    pub created_at: i64,
    /// When it last changed.
    pub updated_at: i64,
    /// Whether it was given to its transport.
    pub handed: bool,
    /// When, if that is known.
    pub handed_at: Option<i64>,
    /// What the agent made of it, and when.
    pub disposition: Option<(String, i64)>,
    /// What it belongs to.
    pub trace: TraceId,
}

macro_rules! select_record {
    ($rest:literal) => {
        concat!(
            "SELECT d.agent_id, d.seq, a.name, d.event_id, d.conversation_id, d.kind, d.transport, d.state, d.reason, d.attempt,
                    d.due_at, d.detail, d.created_at, d.handed_at, d.disposition, d.disposition_at, d.trace_id, i.handed_through,
                    d.updated_at
             FROM deliveries d JOIN agents a ON a.id = d.agent_id LEFT JOIN inboxes i ON i.agent_id = d.agent_id
             WHERE d.conversation_id IS NOT NULL AND ",
            $rest
        )
    };
}

fn record(mut row: Row) -> Result<Record, StoreError> {
    let (seq, state) = (row.int(1)?, row.text(7)?);
    let transport = Transport::parse(&row.text(6)?)?;
    let through = transport == Transport::Inbox && seq <= row.opt_int(17)?.unwrap_or(0);
    let handed_at = row.opt_int(13)?;
    let stored = Delivery::parse(&state).ok_or_else(|| StoreError::unexpected(format!("state {state:?}")))?;
    Ok(Record {
        id: DeliveryId { agent: AgentId(row.uuid(0)?), seq },
        agent: row.text(2)?,
        event: EventId(row.uuid(3)?),
        conversation: ConversationId(row.uuid(4)?),
        kind: row.text(5)?,
        transport,
        // What waited in an inbox and was handed since has been delivered.
        state: match stored {
            Delivery::Queued if through => Delivery::DeliveredSse,
            state => state,
        },
        reason: row.opt_text(8)?,
        attempt: row.int(9)?,
        due_at: row.opt_int(10)?,
        detail: row.opt_text(11)?,
        created_at: row.int(12)?,
        updated_at: row.int(18)?,
        handed: through || handed_at.is_some(),
        handed_at,
        disposition: row.opt_text(14)?.zip(row.opt_int(15)?),
        trace: TraceId(row.uuid(16)?),
    })
}

/// One delivery.
pub fn get(tx: &mut dyn Tx, id: DeliveryId) -> Result<Option<Record>, StoreError> {
    tx.first(select_record!("d.agent_id = $1 AND d.seq = $2"), &[(&id.agent).into(), id.seq.into()])?
        .map(record)
        .transpose()
}

/// All deliveries of an event.
pub fn of_event(tx: &mut dyn Tx, event: EventId, limit: i64) -> Result<Vec<Record>, StoreError> {
    tx.query(
        select_record!("d.event_id = $1 ORDER BY d.agent_id LIMIT $2"),
        &[(&event).into(), limit.into()],
    )?
    .into_iter()
    .map(record)
    .collect()
}

/// Which deliveries a list holds.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only those to agents of this account.
    pub owner: Option<AccountId>,
    /// Only those to this agent.
    pub agent: Option<AgentId>,
    /// Only those of this conversation.
    pub conversation: Option<ConversationId>,
    /// Only those in this state.
    pub state: Option<Delivery>,
    /// Only those stored since.
    pub since: i64,
    /// Only those stored before.
    pub until: Option<i64>,
}

/// A place in the list of deliveries: when, to whom, which.
pub type Cursor = (i64, DeliveryId);

/// A page of deliveries in the order of time, after `after`.
pub fn list(
    tx: &mut dyn Tx,
    filter: &Filter,
    after: Option<Cursor>,
    limit: i64,
) -> Result<Vec<Record>, StoreError> {
    let nobody = uuid::Uuid::nil();
    let owner = filter.owner.map_or(nobody, |id| id.0);
    let agent = filter.agent.map_or(nobody, |id| id.0);
    let conversation = filter.conversation.map_or(nobody, |id| id.0);
    let state = filter.state.map_or("", Delivery::as_str);
    let (time, id) = after.map_or((i64::MIN, (nobody, 0)), |(time, id)| (time, (id.agent.0, id.seq)));
    tx.query(
        select_record!(
            "d.created_at >= $1 AND d.created_at >= $2
             AND (d.created_at > $2 OR d.agent_id > $3 OR (d.agent_id = $3 AND d.seq > $4))
             AND (CAST($5 AS BIGINT) = 0 OR a.owner_id = $6) AND (CAST($7 AS BIGINT) = 0 OR d.agent_id = $8)
             AND (CAST($9 AS BIGINT) = 0 OR d.conversation_id = $10)
             AND ($11 = '' OR $11 = CASE WHEN d.state = 'queued' AND d.seq <= COALESCE(i.handed_through, 0)
                                         THEN 'delivered_sse' ELSE d.state END)
             AND d.created_at < $13
             ORDER BY d.created_at, d.agent_id, d.seq LIMIT $12"
        ),
        &[
            filter.since.into(),
            time.into(),
            (&id.0).into(),
            id.1.into(),
            i64::from(filter.owner.is_some()).into(),
            (&owner).into(),
            i64::from(filter.agent.is_some()).into(),
            (&agent).into(),
            i64::from(filter.conversation.is_some()).into(),
            (&conversation).into(),
            state.into(),
            limit.into(),
            filter.until.unwrap_or(i64::MAX).into(),
        ],
    )?
    .into_iter()
    .map(record)
    .collect()
}

/// The tries of a delivery, the first first.
pub fn attempts(tx: &mut dyn Tx, id: DeliveryId, limit: i64) -> Result<Vec<Attempt>, StoreError> {
    tx.query(
        "SELECT at, status, latency_ms, error FROM attempts WHERE agent_id = $1 AND seq = $2 ORDER BY number LIMIT $3",
        &[(&id.agent).into(), id.seq.into(), limit.into()],
    )?
    .into_iter()
    .map(|mut row| {
        Ok(Attempt {
            at: row.int(0)?,
            status: row.opt_int(1)?,
            latency_ms: row.int(2)?,
            error: row.opt_text(3)?,
        })
    })
    .collect()
}
