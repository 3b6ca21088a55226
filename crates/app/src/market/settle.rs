//! The end of a job: its money, its record and what it does to a reputation, in one transaction and once.

use crate::app::App;
use crate::attention::{self, disposing};
use crate::error::Error;
use chorus_attention::disposition;
use chorus_market::escrow::{self, Terms, Verdict};
use chorus_market::reputation;
use chorus_protocol::ids::AgentId;
use chorus_protocol::market::JobResult;
use chorus_store::market::jobs::{self, End, Job};
use chorus_store::market::ledger::{self, Cause};
use chorus_store::market::{agents, wallets};
use chorus_store::{StoreError, Tx, directory};

/// What is known of a job's end besides the verdict.
#[derive(Debug, Default)]
pub struct Ended {
    /// What came of it.
    pub result: Option<JobResult>,
    /// Why it failed: a code and a sentence.
    pub error: Option<(String, String)>,
}

impl Ended {
    /// It failed, for this reason.
    pub fn because(code: &str, message: impl Into<String>) -> Self {
        Self { result: None, error: Some((code.to_owned(), message.into())) }
    }
}

/// Ends a job, and says whether it was still open: if not, nothing moves.
pub fn settle(tx: &mut dyn Tx, app: &App, job: &Job, verdict: Verdict, ended: &Ended) -> Result<bool, Error> {
    let (agreed, now) = (&job.agreed, app.now());
    wallets::hold(tx, [agreed.payer, agreed.payee])?;
    let terms = Terms {
        job: agreed.id,
        payer: agreed.payer,
        payee: agreed.payee,
        budget: agreed.budget,
        price: agreed.price,
        own: is_own(tx, job)?,
    };
    let settlement = escrow::settle(&terms, verdict);
    let result = ended.result.as_ref().map(serde_json::to_string).transpose().map_err(Error::internal)?;
    let end = End {
        status: settlement.status,
        paid: settlement.paid,
        result: result.as_deref(),
        error: ended.error.as_ref().map(|(code, message)| (code.as_str(), message.as_str())),
        now,
    };
    if !jobs::end(tx, agreed.id, &end)? {
        return Ok(false);
    }
    let cause = Cause { job: Some(agreed.id), transfer: None, trace: agreed.trace };
    ledger::apply(tx, &settlement.movements, cause, now)?;
    if let Some(outcome) = settlement.counts
        && let Some(worker) = agents::by_id(tx, agreed.agent)?
    {
        let contractor = agreed.orchestrator.map_or(Ok(None), |hirer| known_reputation(tx, hirer))?;
        let change = reputation::change(worker.reputation, outcome, contractor);
        let change = chorus_store::market::reputation::Change {
            number: 0,
            job: agreed.id,
            status: settlement.status,
            old: change.old,
            new: change.new,
            arithmetic: change.arithmetic,
            created_at: now,
        };
        chorus_store::market::reputation::record(tx, agreed.agent, &change)?;
    }
    // Wallets before the inbox, as everywhere.
    disposing::record_passively(tx, agreed.event, agreed.agent, became(verdict), now)?;
    if agreed.callback.is_some() {
        jobs::call_back(tx, agreed, attention::FOREIGN, now)?;
        app.push_after(tx);
    }
    Ok(true)
}

/// What the end of a job is to whoever was given it.
fn became(verdict: Verdict) -> disposition::Cause {
    match verdict {
        Verdict::Done(_) => disposition::Cause::Replied,
        Verdict::Cancelled => disposition::Cause::Deleted,
        Verdict::Failed | Verdict::BrokenOutput | Verdict::Overdue | Verdict::AgentGone => {
            disposition::Cause::Failed
        }
    }
}

/// Whether one account stands behind both sides.
fn is_own(tx: &mut dyn Tx, job: &Job) -> Result<bool, StoreError> {
    let agreed = &job.agreed;
    let account = |tx: &mut dyn Tx, wallet| Ok(wallets::by_id(tx, wallet)?.and_then(|wallet| wallet.account));
    let owner = |tx: &mut dyn Tx, agent: Option<AgentId>| match agent {
        Some(agent) => directory::owner_of(tx, agent),
        None => Ok(None),
    };
    let hirers = [account(tx, agreed.payer)?, owner(tx, agreed.orchestrator)?];
    let workers = [account(tx, agreed.payee)?, owner(tx, Some(agreed.agent))?];
    Ok(hirers.iter().flatten().any(|hirer| workers.contains(&Some(*hirer))))
}

fn known_reputation(
    tx: &mut dyn Tx,
    agent: AgentId,
) -> Result<Option<chorus_protocol::market::Reputation>, StoreError> {
    Ok(agents::by_id(tx, agent)?.map(|listing| listing.reputation))
}
