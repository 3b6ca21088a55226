//! Settles finished jobs: the movements of credits, and the outcome for the agent's reputation.
//! [`counting`](crate::counting) decides whether that outcome counts.
//!
//! Every settlement empties the hold: the cost of the job goes to the agent's owner, the rest back to the
//! payer.

use crate::money::{Movement, Purse, movement};
use crate::reputation::Outcome;
use chorus_protocol::ids::{JobId, WalletId};
use chorus_protocol::market::{Credits, JobStatus, MovementKind};

/// The agreed terms of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    pub job: JobId,
    /// The paying wallet.
    pub payer: WalletId,
    /// The wallet of the agent's owner.
    pub payee: WalletId,
    /// The credits that are held.
    pub budget: Credits,
    /// The price of the skill when the job was requested.
    pub price: Credits,
}

/// The end of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The agent succeeded, at this cost or, if it gives none, at the skill's price.
    Done(Option<Credits>),
    /// The agent reported a failure.
    Failed,
    /// The agent declined in time.
    Declined,
    /// The output does not match the skill's schema.
    BrokenOutput,
    Overdue,
    /// The client cancelled the job.
    Cancelled,
    /// The agent left the market.
    AgentGone,
}

/// The consequences of a job's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// The final status of the job.
    pub status: JobStatus,
    /// The credits that are paid.
    pub paid: Credits,
    /// The movements that empty the hold.
    pub movements: Vec<Movement>,
    /// The outcome for the agent's reputation; `None` if the end says nothing about its work.
    pub outcome: Option<Outcome>,
}

/// Settles a job by its end.
pub fn settle(terms: &Terms, verdict: Verdict) -> Settlement {
    let (status, cost, outcome) = match verdict {
        Verdict::Done(cost) => (JobStatus::Success, cost.unwrap_or(terms.price), Some(Outcome::Success)),
        Verdict::Failed | Verdict::BrokenOutput | Verdict::Overdue => {
            (JobStatus::Failure, Credits::ZERO, Some(Outcome::Failure))
        }
        Verdict::Declined => (JobStatus::Rejected, Credits::ZERO, Some(Outcome::Declined)),
        // Neither end says anything about the agent's work.
        Verdict::Cancelled | Verdict::AgentGone => (JobStatus::Failure, Credits::ZERO, None),
    };
    let paid = cost.min(terms.budget);
    let rest = terms.budget.minus(paid);
    let hold = Purse::Hold(terms.job);
    let movements = [
        movement(MovementKind::Settle, hold, Purse::Wallet(terms.payee), paid),
        movement(MovementKind::Refund, hold, Purse::Wallet(terms.payer), rest),
    ];
    // Movements of zero are omitted.
    Settlement { status, paid, movements: movements.into_iter().flatten().collect(), outcome }
}

/// The error for a budget below the price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the budget is {budget} credits, the agent asks {price}")]
pub struct BudgetInsufficient {
    pub budget: Credits,
    pub price: Credits,
}

/// Checks that a budget covers the price.
pub fn check_budget(budget: Credits, price: Credits) -> Result<(), BudgetInsufficient> {
    if budget < price {
        return Err(BudgetInsufficient { budget, price });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
