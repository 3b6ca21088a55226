//! Jobs that go through the hub: what was agreed on, how they stand, and their delivery to the agent.
//!
//! A job ends once: [`end`] says whether it was this call that ended it, and whoever ends one moves its money in the same
//! transaction. Its id is its idempotency.

use super::credits;
use crate::deliveries::{self, Bringing, Chat, GIVE_UP_MS, NewDelivery, Way};
use crate::directory::Agent;
use crate::error::word;
use crate::usage::{self, JOB_BYTES, ROW_BYTES, Refusal, length, row_bytes};
use crate::{Param, Row, StoreError, Tx, TxExt, conversations};
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{
    AccountId, AgentId, ConversationId, EventId, JobId, Principal, TraceId, WalletId,
};
use chorus_protocol::market::{Credits, JobStatus, Reputation, UncountedReason};
use chorus_protocol::words::{DeliveryState, EntryKind, Transport};
use std::collections::BTreeMap;

/// The terms of a job when it was requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreed {
    pub id: JobId,
    /// A hash of all that was asked for.
    pub content: [u8; 32],
    /// The agent that hires, if it is one.
    pub orchestrator: Option<AgentId>,
    pub payer: WalletId,
    /// The agent that is hired.
    pub agent: AgentId,
    /// The wallet that is paid.
    pub payee: WalletId,
    pub skill: String,
    /// The price at that time.
    pub price: Credits,
    /// The most it may cost.
    pub budget: Credits,
    /// The JSON Schema of its output.
    pub output_schema: Option<String>,
    /// The event that is delivered to the agent.
    pub event: EventId,
    /// The URL that the result is POSTed to, encrypted.
    pub callback: Option<Vec<u8>>,
    /// Until when a result counts.
    pub deadline_at: i64,
    /// The time that an agent has for the skill: it must be left when the agent gets the job, and the agent may decline within it.
    pub skill_time_ms: i64,
    pub created_at: i64,
    /// The day whose allowance the budget was taken from; `None` if no allowance was in force.
    pub allowance_day: Option<i64>,
    pub trace: TraceId,
}

/// A job and how it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub agreed: Agreed,
    pub status: JobStatus,
    pub paid: Credits,
    /// The result as JSON.
    pub result: Option<String>,
    /// The error: a code and a sentence.
    pub error: Option<(String, String)>,
    pub ended_at: Option<i64>,
    /// The reason why the last submitted result was not accepted.
    pub note: Option<String>,
    /// The time when the agent got it, if it was POSTed or polled for; an inbox knows that by itself.
    pub handed_at: Option<i64>,
    /// The reason why the job does not count for the reputation, whatever its result.
    pub excuse: Option<UncountedReason>,
}

impl Job {
    /// A job that was just asked for.
    pub fn asked(agreed: Agreed) -> Self {
        let (status, paid) = (JobStatus::Pending, Credits::ZERO);
        Self {
            agreed,
            status,
            paid,
            result: None,
            error: None,
            ended_at: None,
            note: None,
            handed_at: None,
            excuse: None,
        }
    }
}

macro_rules! select_job {
    ($($rest:literal),+) => {
        concat!(
            "SELECT id, content, orchestrator_id, payer_id, agent_id, payee_id, skill, price, budget, output_schema, event_id,
                    callback, deadline_at, created_at, trace_id, status, paid, result, error_code, error_message, ended_at,
                    note, skill_time, excuse, handed_at, allowance_day
             FROM jobs WHERE ",
            $($rest),+
        )
    };
}

fn job(mut row: Row) -> Result<Job, StoreError> {
    let content = row.bytes("content")?;
    let agreed = Agreed {
        id: JobId(row.uuid("id")?),
        content: content.try_into().map_err(|_| StoreError::unexpected("a hash of another length"))?,
        orchestrator: row.opt_bytes("orchestrator_id")?.as_deref().and_then(AgentId::from_slice),
        payer: WalletId(row.uuid("payer_id")?),
        agent: AgentId(row.uuid("agent_id")?),
        payee: WalletId(row.uuid("payee_id")?),
        skill: row.text("skill")?,
        price: credits(row.int("price")?)?,
        budget: credits(row.int("budget")?)?,
        output_schema: row.opt_text("output_schema")?,
        event: EventId(row.uuid("event_id")?),
        callback: row.opt_bytes("callback")?,
        deadline_at: row.int("deadline_at")?,
        created_at: row.int("created_at")?,
        allowance_day: row.opt_int("allowance_day")?,
        trace: TraceId(row.uuid("trace_id")?),
        skill_time_ms: row.int("skill_time")?,
    };
    Ok(Job {
        agreed,
        status: word(&row.text("status")?, JobStatus::parse)?,
        paid: credits(row.int("paid")?)?,
        result: row.opt_text("result")?,
        error: row.opt_text("error_code")?.zip(row.opt_text("error_message")?),
        ended_at: row.opt_int("ended_at")?,
        note: row.opt_text("note")?,
        handed_at: row.opt_int("handed_at")?,
        excuse: row.opt_text("excuse")?.map(|reason| word(&reason, UncountedReason::parse)).transpose()?,
    })
}

/// The job of this id.
pub fn by_id(tx: &mut dyn Tx, id: JobId) -> Result<Option<Job>, StoreError> {
    tx.first(select_job!("id = $1"), &[(&id).into()])?.map(job).transpose()
}

/// Remembers a job that is asked for, and says whether it is new. It counts for the wallet that pays for it.
pub fn insert(tx: &mut dyn Tx, new: &Agreed) -> Result<bool, StoreError> {
    let payer = usage::payer_by_id(tx, new.payer)?;
    let texts =
        new.skill.len() + length(new.output_schema.as_deref()) + new.callback.as_ref().map_or(0, Vec::len);
    usage::charge(tx, payer, JOB_BYTES + texts as i64, Refusal::WhenFull)?;
    let inserted = tx.execute(
        "INSERT INTO jobs (id, content, orchestrator_id, payer_id, agent_id, payee_id, skill, price, budget, output_schema, status,
                           paid, event_id, callback, deadline_at, created_at, trace_id, skill_time, allowance_day)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'PENDING', 0, $11, $12, $13, $14, $15, $16, $17) ON CONFLICT (id) DO NOTHING",
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
            new.skill_time_ms.into(),
            new.allowance_day.into(),
        ],
    )?;
    Ok(inserted == 1)
}

/// Removes the addresses that results are POSTed to, of all jobs that an agent asked for, and returns how many there were.
pub fn remove_callbacks(tx: &mut dyn Tx, agent: AgentId) -> Result<u64, StoreError> {
    let rows = tx.query(
        "SELECT payer_id, CAST(SUM(OCTET_LENGTH(callback)) AS BIGINT) AS bytes FROM jobs
         WHERE orchestrator_id = $1 AND callback IS NOT NULL GROUP BY payer_id",
        &[(&agent).into()],
    )?;
    for mut row in rows {
        let payer = usage::payer_by_id(tx, WalletId(row.uuid("payer_id")?))?;
        usage::give_back(tx, payer, row.int("bytes")?)?;
    }
    tx.execute(
        "UPDATE jobs SET callback = NULL WHERE orchestrator_id = $1 AND callback IS NOT NULL",
        &[(&agent).into()],
    )
}

/// Counts the open jobs that a wallet pays for, up to `most`.
pub fn count_open(tx: &mut dyn Tx, payer: WalletId, most: i64) -> Result<i64, StoreError> {
    let sql = "SELECT COUNT(*) AS count FROM (SELECT 1 FROM jobs WHERE payer_id = $1 AND status = 'PENDING' LIMIT $2) o";
    tx.first(sql, &[(&payer).into(), most.into()])?.map_or(Ok(0), |mut row| row.int("count"))
}

/// Counts an agent's open jobs without a hold, up to `most`.
pub fn count_free(tx: &mut dyn Tx, agent: AgentId, most: i64) -> Result<i64, StoreError> {
    let sql = "SELECT COUNT(*) AS count FROM
         (SELECT 1 FROM jobs WHERE agent_id = $1 AND status = 'PENDING' AND budget = 0 LIMIT $2) o";
    tx.first(sql, &[(&agent).into(), most.into()])?.map_or(Ok(0), |mut row| row.int("count"))
}

/// The end of a job.
#[derive(Debug, Clone)]
pub struct End<'a> {
    /// `SUCCESS`, `FAILURE` or `REJECTED`.
    pub status: JobStatus,
    pub paid: Credits,
    /// The result as JSON.
    pub result: Option<&'a str>,
    pub error: Option<(&'a str, &'a str)>,
    pub now: i64,
}

/// Ends a job, and says whether it was still open. Its result counts for its agent; of an error message a bounded part is kept.
pub fn end(tx: &mut dyn Tx, id: JobId, end: &End<'_>) -> Result<bool, StoreError> {
    let ended = tx.first(
        "UPDATE jobs SET status = $2, paid = $3, result = $4, error_code = $5, error_message = $6, ended_at = $7
         WHERE id = $1 AND status = 'PENDING' RETURNING agent_id",
        &[
            (&id).into(),
            end.status.as_str().into(),
            end.paid.hundredths().into(),
            end.result.into(),
            end.error.map(|(code, _)| code).into(),
            end.error.map(|(_, message)| shortened(message)).into(),
            end.now.into(),
        ],
    )?;
    let Some(mut ended) = ended else { return Ok(false) };
    if let Some(result) = end.result {
        usage::charge(
            tx,
            AgentId(ended.uuid("agent_id")?).into(),
            row_bytes([result.len()]),
            Refusal::WhenFull,
        )?;
    }
    Ok(true)
}

/// The most characters of an error message that are kept with a job.
const MAX_ERROR: usize = 1000;

/// The beginning of an error message. The result of a job, which is forgotten after some time, has it in full.
fn shortened(message: &str) -> &str {
    message.char_indices().nth(MAX_ERROR).map_or(message, |(end, _)| &message[..end])
}

/// The owners of the two sides of a job, and the reputation of their agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sides {
    /// The accounts of the wallet that pays and of the agent that hires.
    pub hirers: [Option<AccountId>; 2],
    /// The accounts of the wallet that is paid and of the agent that is hired.
    pub workers: [Option<AccountId>; 2],
    /// The reputation of the hiring agent, if it is on the market.
    pub hirer: Option<Reputation>,
    /// The reputation of the hired agent, if it is on the market.
    pub worker: Option<Reputation>,
}

/// Returns the owners of the two sides of a job.
pub fn sides(tx: &mut dyn Tx, job: &Agreed) -> Result<Sides, StoreError> {
    let row = tx.first(
        "SELECT (SELECT account_id FROM wallets WHERE id = $1) AS payer_account,
                (SELECT owner_id FROM agents WHERE id = $2) AS hirer_owner,
                (SELECT account_id FROM wallets WHERE id = $3) AS payee_account,
                (SELECT owner_id FROM agents WHERE id = $4) AS worker_owner,
                (SELECT reputation FROM market_agents WHERE agent_id = $2) AS hirer_reputation,
                (SELECT reputation FROM market_agents WHERE agent_id = $4) AS worker_reputation",
        &[(&job.payer).into(), job.orchestrator.as_ref().into(), (&job.payee).into(), (&job.agent).into()],
    )?;
    let mut row = row.ok_or_else(|| StoreError::unexpected("a row without a table"))?;
    let mut account =
        |column: &str| Ok::<_, StoreError>(row.opt_bytes(column)?.as_deref().and_then(AccountId::from_slice));
    let hirers = [account("payer_account")?, account("hirer_owner")?];
    let workers = [account("payee_account")?, account("worker_owner")?];
    let mut reputation = |column: &str| Ok::<_, StoreError>(row.opt_int(column)?.map(Reputation::clamped));
    let (hirer, worker) = (reputation("hirer_reputation")?, reputation("worker_reputation")?);
    Ok(Sides { hirers, workers, hirer, worker })
}

/// Notes of an open job why something was not taken as its result.
pub fn note(tx: &mut dyn Tx, id: JobId, why: &str) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE jobs SET note = $2 WHERE id = $1 AND status = 'PENDING'",
        &[(&id).into(), why.into()],
    )?;
    Ok(())
}

/// Notes of an open job that it will not count, whatever comes of it, and why for people. The first reason stays.
pub fn excuse(
    tx: &mut dyn Tx,
    event: EventId,
    reason: UncountedReason,
    note: &str,
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE jobs SET excuse = COALESCE(excuse, $2), note = $3 WHERE event_id = $1 AND status = 'PENDING'",
        &[(&event).into(), reason.as_str().into(), note.into()],
    )?;
    Ok(())
}

/// Returns whether the job that was handed out by this event is open.
pub fn is_open(tx: &mut dyn Tx, event: EventId) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM jobs WHERE event_id = $1 AND status = 'PENDING'";
    Ok(tx.first(sql, &[(&event).into()])?.is_some())
}

/// A reconciler: forgets what came of jobs that ended before `cutoff`, a bounded number at a time, and says how many bytes of whom. The
/// job itself stays: the ledger names it, and its id is taken.
pub fn forget_results(
    tx: &mut dyn Tx,
    cutoff: i64,
    limit: i64,
) -> Result<(u64, BTreeMap<Principal, i64>), StoreError> {
    let old = tx.query(
        "SELECT id, agent_id, OCTET_LENGTH(result) AS result_bytes FROM jobs
         WHERE ended_at < $1 AND result IS NOT NULL ORDER BY ended_at LIMIT $2",
        &[cutoff.into(), limit.into()],
    )?;
    let (count, mut bytes) = (old.len() as u64, BTreeMap::new());
    for mut row in old {
        let (id, agent, size) =
            (JobId(row.uuid("id")?), AgentId(row.uuid("agent_id")?), row.int("result_bytes")?);
        tx.execute("UPDATE jobs SET result = NULL, note = NULL WHERE id = $1", &[(&id).into()])?;
        usage::give_back(tx, agent.into(), size + ROW_BYTES)?;
        *bytes.entry(Principal::from(agent)).or_default() += size + ROW_BYTES;
    }
    Ok((count, bytes))
}

/// Jobs whose time is over, at most `limit`.
pub fn find_overdue(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<Vec<JobId>, StoreError> {
    let sql = "SELECT id FROM jobs WHERE status = 'PENDING' AND deadline_at <= $1 ORDER BY deadline_at, id LIMIT $2";
    ids(tx, sql, &[now.into(), limit.into()])
}

/// Returns open jobs of an agent, the oldest first, at most `limit`.
pub fn open_of_agent(tx: &mut dyn Tx, agent: AgentId, limit: i64) -> Result<Vec<JobId>, StoreError> {
    let sql =
        "SELECT id FROM jobs WHERE agent_id = $1 AND status = 'PENDING' ORDER BY created_at, id LIMIT $2";
    ids(tx, sql, &[(&agent).into(), limit.into()])
}

fn ids(tx: &mut dyn Tx, sql: &'static str, params: &[Param<'_>]) -> Result<Vec<JobId>, StoreError> {
    tx.query(sql, params)?.into_iter().map(|mut row| Ok(JobId(row.uuid("id")?))).collect()
}

/// The side by which jobs are listed.
#[derive(Debug, Clone, Copy)]
pub enum Side {
    /// Jobs that an agent works on or requested.
    Agent(AgentId),
    /// Jobs that a wallet pays or is paid for.
    Wallet(WalletId),
}

/// The cursor of a list of jobs.
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
    // A job between an agent and itself is on both sides.
    found.dedup_by_key(|job| job.agreed.id);
    found.truncate(limit.max(0) as usize);
    Ok(found)
}

/// Returns the average duration of an agent's last hundred finished jobs of a skill.
pub fn usual_time(tx: &mut dyn Tx, agent: AgentId, skill: &str) -> Result<Option<i64>, StoreError> {
    let row = tx.first(
        "SELECT CAST(AVG(took) AS BIGINT) AS took FROM (SELECT ended_at - created_at AS took FROM jobs
             WHERE agent_id = $1 AND skill = $2 AND status = 'SUCCESS' ORDER BY created_at DESC LIMIT 100) AS done",
        &[(&agent).into(), skill.into()],
    )?;
    row.map_or(Ok(None), |mut row| row.opt_int("took"))
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
    let seq = tx.next_seq(job.agent.into())?;
    deliveries::append(tx, &delivery, seq, now)?;
    Ok((seq, transport))
}

/// Returns the agent whose deliveries hold the callback of a job: the hiring agent, or an id for a wallet that
/// pays without one.
pub fn hirer(job: &Agreed) -> AgentId {
    job.orchestrator.unwrap_or_else(|| AgentId::of_wallet(job.payer))
}

/// Adds a delivery of a job's result to the callback address, pushed like every other. It is another delivery
/// of the job's event. The caller already holds the locks of wallets.
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
    let seq = tx.next_seq(agent.into())?;
    deliveries::append(tx, &delivery, seq, now)
}
