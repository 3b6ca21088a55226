//! Reputation: the document's formula, in fixed point, each step with its arithmetic.
//!
//! A success adds `2.0 × the contractor's reputation / 100`, a failure takes `3.0 × 1.5` away; the score stays from 0 to 100. A
//! contractor that has none counts as neutral. Steps are rounded half up to 0.0001.

use chorus_protocol::market::Reputation;

/// What a success is worth: 2.0 × contractor / 100 is the contractor's score by this.
const CONTRACTOR_PER_REWARD: i64 = 50;
/// What a failure costs, in ten-thousandths: 3.0 × 1.5.
const PENALTY: i64 = 45_000;

/// How a job counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Success,
    /// It was not.
    Failure,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Before.
    pub old: Reputation,
    /// After.
    pub new: Reputation,
    /// What was calculated, for people.
    pub arithmetic: String,
}

/// The score after a job for this contractor.
pub fn change(old: Reputation, outcome: Outcome, contractor: Option<Reputation>) -> Change {
    let contractor = contractor.unwrap_or(Reputation::NEUTRAL);
    let (step, formula) = match outcome {
        Outcome::Success => {
            let twice = 2 * contractor.ten_thousandths() + CONTRACTOR_PER_REWARD;
            (twice / (2 * CONTRACTOR_PER_REWARD), format!("{old} + 2.0 × {contractor} / 100"))
        }
        Outcome::Failure => (-PENALTY, format!("{old} - 3.0 × 1.5")),
    };
    let reached = old.ten_thousandths() + step;
    let new = Reputation::clamped(reached);
    let clamped = if new.ten_thousandths() == reached { "" } else { ", kept from 0 to 100" };
    Change { old, new, arithmetic: format!("{formula} = {new}{clamped}") }
}

#[cfg(test)]
mod tests;
