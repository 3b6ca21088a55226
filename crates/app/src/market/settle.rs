//! The end of a job: its money, its record and what it does to a reputation, in one transaction and once.

use crate::app::App;
use crate::attention::cancelling::tell_cancelled;
use crate::attention::{self, disposing};
use crate::error::Error;
use chorus_attention::disposition;
use chorus_market::escrow::{self, Settlement, Terms, Verdict};
use chorus_market::reputation;
use chorus_protocol::market::JobResult;
use chorus_store::Tx;
use chorus_store::market::jobs::{self, End, Job};
use chorus_store::market::ledger::{self, Cause};
use chorus_store::market::wallets;

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

/// Ends a job, and says what followed: nothing, if it had ended before.
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
        // One account stands behind both sides.
        own: sides.hirers.iter().flatten().any(|hirer| sides.workers.contains(&Some(*hirer))),
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
    if let (Some(outcome), Some(worker)) = (settlement.counts, sides.worker) {
        let change = reputation::change(worker, outcome, sides.hirer);
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
    if let Some(reason) = withdrawn(verdict)
        && let Some(delivery) = jobs::delivery(tx, agreed)?
    {
        tell_cancelled(app, tx, (delivery, agreed.event), reason, now)?;
    }
    if agreed.callback.is_some() {
        jobs::call_back(tx, agreed, attention::FOREIGN, now)?;
        app.push_after(tx);
    }
    Ok(Some(settlement))
}

/// Why whoever has a job need not go on with it, if that did not end it itself.
fn withdrawn(verdict: Verdict) -> Option<&'static str> {
    match verdict {
        Verdict::Cancelled => Some("job_cancelled"),
        Verdict::Overdue => Some("job_deadline_passed"),
        Verdict::Done(_) | Verdict::Failed | Verdict::BrokenOutput | Verdict::AgentGone => None,
    }
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
