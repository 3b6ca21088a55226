//! Settles a job: its money, its record and its effect on reputation, in one transaction and once.

use crate::allowance;
use crate::attention::cancellations::tell_cancelled;
use crate::attention::{self, dispositions};
use chorus_attention::disposition;
use chorus_market::counting::{self, JobFacts};
use chorus_market::escrow::{self, Settlement, Terms, Verdict};
use chorus_market::reputation;
use chorus_node::App;
use chorus_node::Error;
use chorus_protocol::market::JobResult;
use chorus_store::market::jobs::{self, End, Job, Sides};
use chorus_store::market::ledger::{self, Cause};
use chorus_store::market::{self as store, wallets};
use chorus_store::{StoreError, Tx};

/// Details of a job's end besides the verdict.
#[derive(Debug, Default)]
pub struct Ended {
    pub result: Option<JobResult>,
    /// The code and the message, if the job failed.
    pub error: Option<(String, String)>,
    /// A time by which the agent had the job, from the route of its result. A time in the store takes
    /// precedence.
    pub handed_at: Option<i64>,
}

impl Ended {
    /// Builds the end of a job that failed for this reason.
    pub fn because(code: &str, message: impl Into<String>) -> Self {
        Self { result: None, error: Some((code.to_owned(), message.into())), handed_at: None }
    }
}

/// Ends a job and returns the consequences, or `None` if it had ended before.
pub fn settle(
    tx: &mut dyn Tx,
    app: &App,
    job: &Job,
    verdict: Verdict,
    ended: &Ended,
) -> Result<Option<Settlement>, Error> {
    let (agreed, now) = (&job.agreed, app.now());
    wallets::hold(tx, [agreed.payer, agreed.payee])?;
    let sides = jobs::sides(tx, agreed)?;
    let terms = Terms {
        job: agreed.id,
        payer: agreed.payer,
        payee: agreed.payee,
        budget: agreed.budget,
        price: agreed.price,
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
        return Ok(None);
    }
    let cause = Cause { job: Some(agreed.id), transfer: None, trace: agreed.trace };
    ledger::apply(tx, &settlement.movements, cause, now)?;
    allowance::give_back(tx, agreed, settlement.paid)?;
    if let (Some(outcome), Some(worker)) = (settlement.outcome, sides.worker) {
        let facts = facts(tx, job, &sides, ended, now)?;
        let change = reputation::account(worker, outcome, sides.hirer, &facts);
        let change = store::reputation::Change {
            number: 0,
            job: agreed.id,
            status: settlement.status,
            old: change.old,
            new: change.new,
            arithmetic: change.arithmetic,
            not_counted: change.not_counted,
            created_at: now,
        };
        store::reputation::record(tx, agreed.agent, agreed.payer, &change)?;
    }
    // Wallets are locked before the inbox, as everywhere.
    dispositions::record_passively(tx, agreed.event, agreed.agent, became(verdict), now)?;
    if let Some(reason) = withdrawn(verdict)
        && let Some(delivery) = store::handing::delivery(tx, agreed)?
    {
        tell_cancelled(app, tx, (delivery, agreed.event), reason, now)?;
    }
    if agreed.callback.is_some() {
        jobs::call_back(tx, agreed, attention::FOREIGN, now)?;
        app.push_after(tx);
    }
    Ok(Some(settlement))
}

/// Gathers the facts that decide whether an ended job counts for reputation. A payment for it is one of them.
fn facts(tx: &mut dyn Tx, job: &Job, sides: &Sides, ended: &Ended, now: i64) -> Result<JobFacts, StoreError> {
    let agreed = &job.agreed;
    let (paid_since, counted_since) = (now - counting::PARTNERS_MS, now - counting::DAY_MS);
    let evidence = store::reputation::evidence(tx, agreed, paid_since, counted_since)?;
    Ok(JobFacts {
        // One account may be behind both sides, through different wallets.
        is_own: agreed.payer == agreed.payee
            || sides.hirers.iter().flatten().any(|hirer| sides.workers.contains(&Some(*hirer))),
        price: agreed.price,
        handed_at: evidence.handed_at.or(ended.handed_at),
        deadline_at: agreed.deadline_at,
        skill_time_ms: agreed.skill_time_ms,
        excuse: job.excuse,
        paid_both_ways: evidence.paid_both_ways,
        counted_today: evidence.counted,
        declined_today: evidence.declined,
        is_declined: false,
    })
}

/// Returns the reason to withdraw the job from its agent, unless the agent itself ended it.
fn withdrawn(verdict: Verdict) -> Option<&'static str> {
    match verdict {
        Verdict::Cancelled => Some("job_cancelled"),
        Verdict::Overdue => Some("job_deadline_passed"),
        Verdict::Done(_)
        | Verdict::Failed
        | Verdict::Declined
        | Verdict::BrokenOutput
        | Verdict::AgentGone => None,
    }
}

/// Returns the disposition that a verdict records for the job's delivery.
fn became(verdict: Verdict) -> disposition::Cause {
    match verdict {
        Verdict::Done(_) => disposition::Cause::Replied,
        Verdict::Cancelled => disposition::Cause::Deleted,
        Verdict::Failed
        | Verdict::Declined
        | Verdict::BrokenOutput
        | Verdict::Overdue
        | Verdict::AgentGone => disposition::Cause::Failed,
    }
}
