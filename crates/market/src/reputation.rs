//! Reputation by the market document's formula, in fixed point, with the arithmetic of each step.
//!
//! A success adds `2.0 × the contractor's reputation / 100`, and a failure subtracts `3.0 × 1.5`. The score
//! stays between 0 and 100. A contractor without a reputation counts as neutral. Steps are rounded half up to
//! 0.0001.

use crate::counting::{self, JobFacts};
use chorus_protocol::market::{Reputation, UncountedReason};

/// The divisor of the contractor's score in a success: 2.0 × contractor / 100 is contractor / 50.
const CONTRACTOR_PER_REWARD: i64 = 50;
/// The penalty of a failure in ten-thousandths: 3.0 × 1.5.
const PENALTY: i64 = 45_000;

/// The outcome of a job for its agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The agent completed the job.
    Success,
    /// The agent did not complete the job.
    Failure,
    /// The agent declined in time, which never changes a score.
    Declined,
}

/// A change of a reputation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub old: Reputation,
    pub new: Reputation,
    /// The calculation, for people.
    pub arithmetic: String,
    /// The reason why the job did not count; `None` if it did.
    pub not_counted: Option<UncountedReason>,
}

/// Returns the change after a finished job: the formula's step if the job counts, otherwise the reason why it
/// does not.
pub fn account(
    old: Reputation,
    outcome: Outcome,
    contractor: Option<Reputation>,
    facts: &JobFacts,
) -> Change {
    let facts = JobFacts { is_declined: outcome == Outcome::Declined, ..*facts };
    match counting::uncounted_reason(&facts) {
        None => change(old, outcome, contractor),
        Some(reason) => {
            let arithmetic = format!("{old}, not counted: {}", counting::explain(reason));
            Change { old, new: old, arithmetic, not_counted: Some(reason) }
        }
    }
}

/// Returns the change after a job that counts.
fn change(old: Reputation, outcome: Outcome, contractor: Option<Reputation>) -> Change {
    let contractor = contractor.unwrap_or(Reputation::NEUTRAL);
    let (step, formula) = match outcome {
        Outcome::Success => {
            let twice = 2 * contractor.ten_thousandths() + CONTRACTOR_PER_REWARD;
            (twice / (2 * CONTRACTOR_PER_REWARD), format!("{old} + 2.0 × {contractor} / 100"))
        }
        Outcome::Failure => (-PENALTY, format!("{old} - 3.0 × 1.5")),
        Outcome::Declined => (0, old.to_string()),
    };
    let reached = old.ten_thousandths() + step;
    let new = Reputation::clamped(reached);
    let clamped = if new.ten_thousandths() == reached { "" } else { ", kept from 0 to 100" };
    Change { old, new, arithmetic: format!("{formula} = {new}{clamped}"), not_counted: None }
}

#[cfg(test)]
mod tests;
