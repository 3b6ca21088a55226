//! Decides whether a finished job counts towards its agent's reputation.
//!
//! Reputation can be attacked from both sides: a client can let jobs fail at no cost, and two owners of the
//! same person can praise each other. Therefore a job counts only if the agent had a fair chance, something
//! was at stake, and the two owners are strangers whose money flows one way. The rules look at the agreement
//! and never at the outcome, so whatever can raise a score can also lower it.

use chorus_protocol::market::{Credits, UncountedReason};

/// The minimum time, in milliseconds, that an agent has for any skill: to do a job, or to decline it without
/// loss.
pub const LEAST_TIME_MS: i64 = 30_000;
/// The lowest price of a job that counts: 0.10.
pub const LEAST_PRICE: Credits = match Credits::from_hundredths(10) {
    Some(price) => price,
    None => Credits::ZERO,
};
/// The maximum number of jobs between one payer and one agent that count within [`DAY_MS`].
pub const MOST_PER_DAY: i64 = 5;
/// The period of [`MOST_PER_DAY`].
pub const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// The period in which payments in both directions make two owners partners, in milliseconds.
pub const PARTNERS_MS: i64 = 30 * DAY_MS;
/// The tolerance, in milliseconds, for the delay until a job reaches its agent and the hub records it.
const HANDING_SLACK_MS: i64 = 2000;

/// Returns the time that a job with this skill needs: its `min_deadline_ms`, but at least [`LEAST_TIME_MS`].
pub fn skill_time_ms(min_deadline_ms: Option<i64>) -> i64 {
    min_deadline_ms.map_or(LEAST_TIME_MS, |least| least.max(LEAST_TIME_MS))
}

/// The facts that decide whether a job counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobFacts {
    /// Set if the same owner is client and agent.
    pub is_own: bool,
    /// The agreed price, whatever was paid in the end.
    pub price: Credits,
    /// The time at which the agent received the job; `None` if it never did.
    pub handed_at: Option<i64>,
    /// The deadline of the job, in milliseconds like `handed_at`.
    pub deadline_at: i64,
    /// The skill's own time, see [`skill_time_ms`].
    pub skill_time_ms: i64,
    /// An incident during the job that was not the agent's fault.
    pub excuse: Option<UncountedReason>,
    /// Set if the two owners paid each other in both directions within [`PARTNERS_MS`]. Payments by the payee
    /// after the job was requested are excluded, because they would let it escape a failure.
    pub paid_both_ways: bool,
    /// The number of jobs between this payer and this agent that counted within [`DAY_MS`].
    pub counted_today: i64,
    /// The number of jobs of this payer that this agent declined within [`DAY_MS`].
    pub declined_today: i64,
    /// Set if the agent declined in time.
    pub is_declined: bool,
}

/// Returns the reason why a job does not count, or `None` if it does.
pub fn uncounted_reason(facts: &JobFacts) -> Option<UncountedReason> {
    use UncountedReason as Reason;
    if facts.is_own {
        return Some(Reason::OwnAgent);
    }
    if facts.price < LEAST_PRICE {
        return Some(Reason::LowPrice);
    }
    // A payer can neither use up an agent's jobs of a day with jobs that it must decline, nor ruin its rate of declines.
    let declined = if facts.declined_today >= MOST_PER_DAY { Reason::DailyLimit } else { Reason::Declined };
    match facts.excuse {
        Some(Reason::Declined) => return Some(declined),
        Some(_) => return facts.excuse,
        None => {}
    }
    match facts.handed_at {
        None => return Some(Reason::NotHanded),
        Some(at) if facts.deadline_at - at + HANDING_SLACK_MS < facts.skill_time_ms => {
            return Some(Reason::ShortTime);
        }
        Some(_) => {}
    }
    if facts.paid_both_ways {
        return Some(Reason::PaidBothWays);
    }
    if facts.is_declined {
        return Some(declined);
    }
    (facts.counted_today >= MOST_PER_DAY).then_some(Reason::DailyLimit)
}

/// Returns `true` if an agent that received a job at `handed_at` may still decline it without loss.
pub fn may_decline(handed_at: Option<i64>, skill_time_ms: i64, now: i64) -> bool {
    handed_at.is_none_or(|at| now - at <= skill_time_ms)
}

/// Explains a reason in words that follow "not counted: ".
pub fn explain(reason: UncountedReason) -> &'static str {
    match reason {
        UncountedReason::OwnAgent => "one owner stands on both sides",
        UncountedReason::LowPrice => "the price is below 0.10",
        UncountedReason::HubDown => "the hub was down meanwhile",
        UncountedReason::CutOff => "the hub ended the open request",
        UncountedReason::NotHanded => "the agent never got the job",
        UncountedReason::ShortTime => "the agent got it with too little time left",
        UncountedReason::AtLimit => "the agent was at its limit",
        UncountedReason::PaidBothWays => "the two owners paid each other within 30 days",
        UncountedReason::DailyLimit => "five jobs of this payer counted within a day already",
        UncountedReason::Declined => "the agent declined in time",
    }
}

#[cfg(test)]
mod tests;
