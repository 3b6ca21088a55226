//! What a job's end means: who is paid what was held, and whether it counts for the agent's reputation.
//!
//! Whatever the end, all that was held leaves the hold: what the job cost goes to the agent's owner, the rest back.

use crate::money::{Movement, Purse, movement};
use crate::reputation::Outcome;
use chorus_protocol::ids::{JobId, WalletId};
use chorus_protocol::market::{Credits, JobStatus, MovementKind};

/// What was agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Which job.
    pub job: JobId,
    /// Whose wallet pays.
    pub payer: WalletId,
    /// Whose wallet is paid.
    pub payee: WalletId,
    /// What is held.
    pub budget: Credits,
    /// What the skill cost when the job was taken.
    pub price: Credits,
    /// Whether whoever hires also owns the agent, by whatever wallet each of them uses.
    pub own: bool,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The agent did it, for so much; for the skill's price, if it does not say.
    Done(Option<Credits>),
    /// The agent says that it failed.
    Failed,
    /// What it gave is not what its skill promises.
    BrokenOutput,
    /// Its time is over.
    Overdue,
    /// Whoever hired took it back.
    Cancelled,
    /// The agent left the market.
    AgentGone,
}

/// What follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// How the job stands.
    pub status: JobStatus,
    /// What is paid.
    pub paid: Credits,
    /// What moves: all that was held.
    pub movements: Vec<Movement>,
    /// How it counts for the agent's reputation, if it does.
    pub counts: Option<Outcome>,
}

/// Ends a job.
pub fn settle(terms: &Terms, verdict: Verdict) -> Settlement {
    let (status, cost, counts) = match verdict {
        Verdict::Done(cost) => (JobStatus::Success, cost.unwrap_or(terms.price), Some(Outcome::Success)),
        Verdict::Failed | Verdict::BrokenOutput | Verdict::Overdue => {
            (JobStatus::Failure, Credits::ZERO, Some(Outcome::Failure))
        }
        // Neither says anything about the agent's work.
        Verdict::Cancelled | Verdict::AgentGone => (JobStatus::Failure, Credits::ZERO, None),
    };
    let paid = cost.min(terms.budget);
    let rest = terms.budget.minus(paid);
    let at_stake = if status == JobStatus::Success { paid } else { terms.budget };
    let hold = Purse::Hold(terms.job);
    let movements = [
        movement(MovementKind::Settle, hold, Purse::Wallet(terms.payee), paid),
        movement(MovementKind::Refund, hold, Purse::Wallet(terms.payer), rest),
    ];
    Settlement {
        status,
        paid,
        // What would move nothing is no movement.
        movements: movements.into_iter().flatten().collect(),
        // Who hires its own agents would praise them, and who works for nothing anybody. What was paid, or held in vain, counts,
        // whatever price is listed.
        counts: counts.filter(|_| !terms.own && terms.payer != terms.payee && !at_stake.is_zero()),
    }
}

/// The offered budget is below the price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the budget is {budget} credits, the agent asks {price}")]
pub struct BudgetInsufficient {
    /// What was offered.
    pub budget: Credits,
    /// What it costs.
    pub price: Credits,
}

/// Whether a budget covers the price.
pub fn check_budget(budget: Credits, price: Credits) -> Result<(), BudgetInsufficient> {
    if budget < price {
        return Err(BudgetInsufficient { budget, price });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
