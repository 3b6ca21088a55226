//! Jobs that go through the hub: what was agreed on, how they stand, and their delivery to the agent.
//!
//! A job ends once: [`end`] says whether it was this call that ended it, and whoever ends one moves its money in the same
//! transaction. Its id is its idempotency.

use super::credits;
use crate::clock::MAX_SKEW_MS;
use crate::deliveries::{self, Bringing, Chat, GIVE_UP_MS, NewDelivery, Way};
use crate::directory::Agent;
use crate::error::word;
use crate::usage::ROW_BYTES;
use crate::{Param, Row, StoreError, Tx, TxExt, conversations};
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{
    AccountId, AgentId, ConversationId, DeliveryId, EventId, JobId, Principal, TraceId, WalletId,
};
use chorus_protocol::market::{Credits, JobStatus, MAX_DEADLINE_MS, Reputation};
use chorus_protocol::words::{DeliveryState, EntryKind, Transport};
use std::collections::BTreeMap;

/// What was agreed on when a job was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreed {
    /// Which job.
    pub id: JobId,
    /// A hash of all that was asked for.
    pub content: [u8; 32],
    /// The agent that hires, if it is one.
    pub orchestrator: Option<AgentId>,
    /// Whose wallet pays.
    pub payer: WalletId,
    /// The agent that is hired.
    pub agent: AgentId,
    /// Whose wallet is paid.
    pub payee: WalletId,
    /// What is to be done.
    pub skill: String,
    /// What that cost then.
    pub price: Credits,
    /// What it may cost.
    pub budget: Credits,
    /// What must come of it, JSON.
    pub output_schema: Option<String>,
    /// What is handed to the agent.
    pub event: EventId,
    /// Where the result is POSTed to, sealed.
    pub callback: Option<Vec<u8>>,
    /// Until when a result counts.
    pub deadline_at: i64,
    /// When it was asked for.
    pub created_at: i64,
    /// What it belongs to.
    pub trace: TraceId,
}

/// A job and how it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// What was agreed on.
    pub agreed: Agreed,
    /// How it stands.
    pub status: JobStatus,
    /// What was paid.
    pub paid: Credits,
    /// What came of it, JSON.
    pub result: Option<String>,
    /// Why it failed: a code and a sentence.
    pub error: Option<(String, String)>,
    /// When it ended.
    pub ended_at: Option<i64>,
    /// Why something that came was not taken as its result, the last time.
    pub note: Option<String>,
}

impl Job {
    /// A job that was just asked for.
    pub fn asked(agreed: Agreed) -> Self {
        let (status, paid) = (JobStatus::Pending, Credits::ZERO);
        Self { agreed, status, paid, result: None, error: None, ended_at: None, note: None }
    }
}

macro_rules! select_job {
    ($($rest:literal),+) => {
        concat!(
            "SELECT id, content, orchestrator_id, payer_id, agent_id, payee_id, skill, price, budget, output_schema, event_id,
                    callback, deadline_at, created_at, trace_id, status, paid, result, error_code, error_message, ended_at,
                    note
             FROM jobs WHERE ",
            $($rest),+
        )
    };
}

fn job(mut row: Row) -> Result<Job, StoreError> {
    let content = row.bytes(1)?;
    let agreed = Agreed {
        id: JobId(row.uuid(0)?),
        content: content.try_into().map_err(|_| StoreError::unexpected("a hash of another length"))?,
        orchestrator: row.opt_bytes(2)?.as_deref().and_then(AgentId::from_slice),
        payer: WalletId(row.uuid(3)?),
        agent: AgentId(row.uuid(4)?),
        payee: WalletId(row.uuid(5)?),
        skill: row.text(6)?,
        price: credits(row.int(7)?)?,
        budget: credits(row.int(8)?)?,
        output_schema: row.opt_text(9)?,
        event: EventId(row.uuid(10)?),
        callback: row.opt_bytes(11)?,
        deadline_at: row.int(12)?,
        created_at: row.int(13)?,
        trace: TraceId(row.uuid(14)?),
    };
    Ok(Job {
        agreed,
        status: word(&row.text(15)?, JobStatus::parse)?,
        paid: credits(row.int(16)?)?,
        result: row.opt_text(17)?,
        error: row.opt_text(18)?.zip(row.opt_text(19)?),
        ended_at: row.opt_int(20)?,
        note: row.opt_text(21)?,
    })
}

/// The job of this id.
pub fn by_id(tx: &mut dyn Tx, id: JobId) -> Result<Option<Job>, StoreError> {
    tx.first(select_job!("id = $1"), &[(&id).into()])?.map(job).transpose()
}

/// Remembers a job that is asked for, and says whether it is new.
pub fn insert(tx: &mut dyn Tx, new: &Agreed) -> Result<bool, StoreError> {
    let inserted = tx.execute(
        "INSERT INTO jobs (id, content, orchestrator_id, payer_id, agent_id, payee_id, skill, price, budget, output_schema, status,
                           paid, event_id, callback, deadline_at, created_at, trace_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'PENDING', 0, $11, $12, $13, $14, $15) ON CONFLICT (id) DO NOTHING",
        &[
            (&new.id).into(),
            new.content.as_slice().into(),
            new.orchestrator.as_ref().into(),
            (&new.payer).into(),
            (&new.agent).into(),
            (&new.payee).into(),
            new.skill.as_str().into(),
            new.price.hundredths().into(),
            new.budget.hundredths().into(),
            new.output_schema.as_deref().into(),
            (&new.event).into(),
            new.callback.as_deref().into(),
            new.deadline_at.into(),
            new.created_at.into(),
            (&new.trace).into(),
        ],
    )?;
    Ok(inserted == 1)
}

/// How many jobs are open that a wallet pays for, counted up to `most`.
pub fn count_open(tx: &mut dyn Tx, payer: WalletId, most: i64) -> Result<i64, StoreError> {
    let sql =
        "SELECT COUNT(*) FROM (SELECT 1 FROM jobs WHERE payer_id = $1 AND status = 'PENDING' LIMIT $2) o";
    tx.first(sql, &[(&payer).into(), most.into()])?.map_or(Ok(0), |mut row| row.int(0))
}

/// How many of an agent's open jobs have nothing held for them, counted up to `most`.
pub fn count_free(tx: &mut dyn Tx, agent: AgentId, most: i64) -> Result<i64, StoreError> {
    let sql = "SELECT COUNT(*) FROM
         (SELECT 1 FROM jobs WHERE agent_id = $1 AND status = 'PENDING' AND budget = 0 LIMIT $2) o";
    tx.first(sql, &[(&agent).into(), most.into()])?.map_or(Ok(0), |mut row| row.int(0))
}

/// How a job ended.
#[derive(Debug, Clone)]
pub struct End<'a> {
    /// `SUCCESS` or `FAILURE`.
    pub status: JobStatus,
    /// What was paid.
    pub paid: Credits,
    /// What came of it, JSON.
    pub result: Option<&'a str>,
    /// Why it failed.
    pub error: Option<(&'a str, &'a str)>,
    /// When.
    pub now: i64,
}

/// Ends a job, and says whether it was still open.
pub fn end(tx: &mut dyn Tx, id: JobId, end: &End<'_>) -> Result<bool, StoreError> {
    let ended = tx.execute(
        "UPDATE jobs SET status = $2, paid = $3, result = $4, error_code = $5, error_message = $6, ended_at = $7
         WHERE id = $1 AND status = 'PENDING'",
        &[
            (&id).into(),
            end.status.as_str().into(),
            end.paid.hundredths().into(),
            end.result.into(),
            end.error.map(|(code, _)| code).into(),
            end.error.map(|(_, message)| message).into(),
            end.now.into(),
        ],
    )?;
    Ok(ended == 1)
}

/// Who stands behind the two sides of a job, and what is thought of their agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sides {
    /// The accounts of the wallet that pays and of the agent that hires.
    pub hirers: [Option<AccountId>; 2],
    /// The accounts of the wallet that is paid and of the agent that is hired.
    pub workers: [Option<AccountId>; 2],
    /// What is thought of the agent that hires, if it is on the market.
    pub hirer: Option<Reputation>,
    /// What is thought of the agent that is hired, if it is.
    pub worker: Option<Reputation>,
}

/// Who stands behind the two sides of a job.
pub fn sides(tx: &mut dyn Tx, job: &Agreed) -> Result<Sides, StoreError> {
    let row = tx.first(
        "SELECT (SELECT account_id FROM wallets WHERE id = $1), (SELECT owner_id FROM agents WHERE id = $2),
                (SELECT account_id FROM wallets WHERE id = $3), (SELECT owner_id FROM agents WHERE id = $4),
                (SELECT reputation FROM market_agents WHERE agent_id = $2),
                (SELECT reputation FROM market_agents WHERE agent_id = $4)",
        &[(&job.payer).into(), job.orchestrator.as_ref().into(), (&job.payee).into(), (&job.agent).into()],
    )?;
    let mut row = row.ok_or_else(|| StoreError::unexpected("a row without a table"))?;
    let mut account =
        |column| Ok::<_, StoreError>(row.opt_bytes(column)?.as_deref().and_then(AccountId::from_slice));
    let (hirers, workers) = ([account(0)?, account(1)?], [account(2)?, account(3)?]);
    let mut reputation = |column| Ok::<_, StoreError>(row.opt_int(column)?.map(Reputation::clamped));
    Ok(Sides { hirers, workers, hirer: reputation(4)?, worker: reputation(5)? })
}

/// Notes of an open job why something was not taken as its result.
pub fn note(tx: &mut dyn Tx, id: JobId, why: &str) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE jobs SET note = $2 WHERE id = $1 AND status = 'PENDING'",
        &[(&id).into(), why.into()],
    )?;
    Ok(())
}

/// A reconciler: forgets what came of jobs that ended before `cutoff`, a bounded number at a time, and says how many bytes of whom. The
/// job itself stays: the ledger names it, and its id is taken.
pub fn forget_results(
    tx: &mut dyn Tx,
    cutoff: i64,
    limit: i64,
) -> Result<(u64, BTreeMap<Principal, i64>), StoreError> {
    let old = tx.query(
        "SELECT id, agent_id, OCTET_LENGTH(result) FROM jobs WHERE ended_at < $1 AND result IS NOT NULL ORDER BY ended_at LIMIT $2",
        &[cutoff.into(), limit.into()],
    )?;
    let (count, mut bytes) = (old.len() as u64, BTreeMap::new());
    for mut row in old {
        let (id, agent, size) = (JobId(row.uuid(0)?), AgentId(row.uuid(1)?), row.int(2)?);
        tx.execute("UPDATE jobs SET result = NULL, note = NULL WHERE id = $1", &[(&id).into()])?;
        *bytes.entry(Principal::from(agent)).or_default() += size + ROW_BYTES;
    }
    Ok((count, bytes))
}

/// Jobs whose time is over, at most `limit`.
pub fn find_overdue(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<Vec<JobId>, StoreError> {
    let sql = "SELECT id FROM jobs WHERE status = 'PENDING' AND deadline_at <= $1 ORDER BY deadline_at, id LIMIT $2";
    ids(tx, sql, &[now.into(), limit.into()])
}

/// Open jobs of an agent, at most `limit`. None is older than the longest deadline, so that many that ended long ago cost nothing.
pub fn open_of_agent(
    tx: &mut dyn Tx,
    agent: AgentId,
    now: i64,
    limit: i64,
) -> Result<Vec<JobId>, StoreError> {
    let sql = "SELECT id FROM jobs WHERE agent_id = $1 AND created_at >= $2 AND status = 'PENDING' ORDER BY created_at, id LIMIT $3";
    let oldest = now.saturating_sub(MAX_DEADLINE_MS + MAX_SKEW_MS);
    ids(tx, sql, &[(&agent).into(), oldest.into(), limit.into()])
}

fn ids(tx: &mut dyn Tx, sql: &'static str, params: &[Param<'_>]) -> Result<Vec<JobId>, StoreError> {
    tx.query(sql, params)?.into_iter().map(|mut row| Ok(JobId(row.uuid(0)?))).collect()
}

/// Whose jobs are listed.
#[derive(Debug, Clone, Copy)]
pub enum Side {
    /// What an agent does, or has done for it.
    Agent(AgentId),
    /// What a wallet pays, or is paid for.
    Wallet(WalletId),
}

/// Where a list of jobs goes on.
pub type Cursor = (i64, JobId);

macro_rules! select_side {
    ($column:literal) => {
        select_job!(
            $column,
            " = $1 AND (created_at, id) < ($2, $3) AND ($4 = '' OR status = $4) ORDER BY created_at DESC, id DESC LIMIT $5"
        )
    };
}

/// Somebody's jobs, the newest first.
pub fn list(
    tx: &mut dyn Tx,
    side: Side,
    status: Option<JobStatus>,
    before: Option<Cursor>,
    limit: i64,
) -> Result<Vec<Job>, StoreError> {
    let (sql, who) = match side {
        Side::Agent(agent) => ([select_side!("orchestrator_id"), select_side!("agent_id")], agent.0),
        Side::Wallet(wallet) => ([select_side!("payer_id"), select_side!("payee_id")], wallet.0),
    };
    let (time, id) = before.unwrap_or((i64::MAX, JobId(uuid::Uuid::max())));
    let status = status.map_or("", JobStatus::as_str);
    let params = [(&who).into(), time.into(), (&id).into(), status.into(), limit.into()];
    let mut found: Vec<Job> = vec![];
    for sql in sql {
        for row in tx.query(sql, &params)? {
            found.push(job(row)?);
        }
    }
    found.sort_by_key(|job| std::cmp::Reverse((job.agreed.created_at, job.agreed.id)));
    // Who hires itself is on both sides.
    found.dedup_by_key(|job| job.agreed.id);
    found.truncate(limit.max(0) as usize);
    Ok(found)
}

/// How long an agent's jobs of a skill took, on average over its last hundred that were done.
pub fn usual_time(tx: &mut dyn Tx, agent: AgentId, skill: &str) -> Result<Option<i64>, StoreError> {
    let row = tx.first(
        "SELECT CAST(AVG(took) AS BIGINT) FROM (SELECT ended_at - created_at AS took FROM jobs
             WHERE agent_id = $1 AND skill = $2 AND status = 'SUCCESS' ORDER BY created_at DESC LIMIT 100) AS done",
        &[(&agent).into(), skill.into()],
    )?;
    row.map_or(Ok(None), |mut row| row.opt_int(0))
}

/// Puts a job on its way to its agent, as jobs reach that, by the best way it has open for them, until its deadline. Tells its place
/// in the inbox and how it travels. The caller holds wallets, if any, already: the agent's inbox is taken here.
pub fn hand_out(
    tx: &mut dyn Tx,
    job: &Agreed,
    agent: &Agent,
    author: Principal,
    body: &str,
    attention: Attention,
) -> Result<(i64, Transport), StoreError> {
    let (now, conversation) = (job.created_at, ConversationId::of_job(job.id));
    let event = conversations::NewEvent {
        id: job.event,
        conversation,
        author,
        trace: job.trace,
        thread: None,
        target: None,
    };
    conversations::append_job(tx, &event, body, now)?;
    let pushed = deliveries::push_transport(agent);
    let (transport, state, push) = match deliveries::way(agent, None, now) {
        Way::Session => (Transport::Inbox, DeliveryState::DeliveredSse, None),
        Way::Inbox | Way::WaitBehind(_) => (Transport::Inbox, DeliveryState::Queued, None),
        Way::Harness | Way::Webhook | Way::Connection => {
            (pushed, DeliveryState::Waiting, Some((Some(now), job.deadline_at)))
        }
        Way::WaitForOwner(_) => {
            (pushed, DeliveryState::Waiting, Some((Some(job.deadline_at), job.deadline_at)))
        }
    };
    let delivery = NewDelivery {
        agent: job.agent,
        event: job.event,
        kind: EntryKind::Job,
        transport,
        state,
        lease: None,
        chat: Some(Chat { conversation, attention, push, bringing: Bringing::FIRST, next_at: None }),
        trace: job.trace,
    };
    let seq = tx.next_seq(job.agent.0)?;
    deliveries::append(tx, &delivery, seq, now)?;
    Ok((seq, transport))
}

/// The delivery of a job.
pub fn delivery(tx: &mut dyn Tx, job: &Agreed) -> Result<Option<DeliveryId>, StoreError> {
    let row = tx.first(
        "SELECT agent_id, seq FROM chats WHERE event_id = $1 AND agent_id = $2 LIMIT 1",
        &[(&job.event).into(), (&job.agent).into()],
    )?;
    row.map(|mut row| Ok(DeliveryId { agent: AgentId(row.uuid(0)?), seq: row.int(1)? })).transpose()
}

/// Whether a job came to its agent: its endpoint took it, or its inbox was handed it.
pub fn was_handed(tx: &mut dyn Tx, job: &Agreed) -> Result<bool, StoreError> {
    let row = tx.first(
        "SELECT 1 FROM chats c JOIN deliveries d ON d.agent_id = c.agent_id AND d.seq = c.seq
                      JOIN inboxes i ON i.agent_id = c.agent_id
         WHERE c.event_id = $1 AND c.agent_id = $2
           AND (d.state = 'delivered' OR (d.transport = 'inbox' AND d.seq <= i.handed_through)) LIMIT 1",
        &[(&job.event).into(), (&job.agent).into()],
    )?;
    Ok(row.is_some())
}

/// What came of a POST: a status, if it was answered at all, and what went wrong.
pub type LastTry = (Option<i64>, Option<String>);

/// What its agent's endpoint answered to the last POST of a job.
pub fn last_try(tx: &mut dyn Tx, job: &Agreed) -> Result<Option<LastTry>, StoreError> {
    let Some(delivery) = delivery(tx, job)? else { return Ok(None) };
    let row = tx.first(
        "SELECT status, error FROM attempts WHERE agent_id = $1 AND seq = $2 ORDER BY number DESC LIMIT 1",
        &[(&delivery.agent).into(), delivery.seq.into()],
    )?;
    row.map(|mut row| Ok((row.opt_int(0)?, row.opt_text(1)?))).transpose()
}

/// Whose deliveries the callback of a job is among: the agent's that hires, or those of a wallet that pays without one.
pub fn hirer(job: &Agreed) -> AgentId {
    job.orchestrator.unwrap_or_else(|| AgentId::of_wallet(job.payer))
}

/// What came of a job is on its way to whoever hired, at the address it gave: like everything that is pushed, until it is taken,
/// refused or given up. It is another delivery of the job's event. The caller holds wallets already.
pub fn call_back(tx: &mut dyn Tx, job: &Agreed, attention: Attention, now: i64) -> Result<(), StoreError> {
    let (agent, conversation) = (hirer(job), ConversationId::of_job(job.id));
    let push = Some((Some(now), now + GIVE_UP_MS));
    let delivery = NewDelivery {
        agent,
        event: job.event,
        kind: EntryKind::Result,
        transport: Transport::Webhook,
        state: DeliveryState::Waiting,
        lease: None,
        chat: Some(Chat { conversation, attention, push, bringing: Bringing::FIRST, next_at: None }),
        trace: job.trace,
    };
    let seq = tx.next_seq(agent.0)?;
    deliveries::append(tx, &delivery, seq, now)
}
