//! The steps that follow if nobody deals with an event, and their times.
//!
//! [`Pending::next_step`] returns the next step and its time. [`Pending::after`] returns the state once that
//! step is done. Every event without a final disposition has a next step, so it ends even if its agent does
//! nothing. An event that no harness acknowledged is sent again while a harness is connected. An event that
//! must be answered is sent once more at its deadline, then downgraded and escalated to one other recipient,
//! never to all.
//!
//! This module sends nothing. The caller supplies the lead and the owner of a conversation.

use crate::decide::DEFAULT_DEADLINE_MS;
use crate::disposition::is_final;
use chorus_protocol::attention::Attention;
use chorus_protocol::words::{Directedness, Disposition, Mode, Policy, Priority, Reason};

/// The delay before the first redelivery, and the longest delay before any.
pub const REDELIVERY_MS: std::ops::RangeInclusive<i64> = 30_000..=300_000;

/// The longest time between a deadline and its escalation.
pub const LONGEST_GRACE_MS: i64 = 300_000;

/// The time for which progress moves the deadline of an event, counted from its first turn, unless the channel
/// sets another.
pub const LONGEST_TASK_MS: i64 = 4 * 60 * 60 * 1000;

/// The time after which an event that no harness acknowledged is given up.
pub const UNDELIVERED_MS: i64 = 86_400_000;

/// An event that was given to one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    pub policy: Policy,
    /// The start of the time for an answer.
    pub since_ms: i64,
    /// The time for an answer, counted from `since_ms`.
    pub deadline_ms: Option<i64>,
    /// The number of times the event was sent.
    pub attempt: u32,
    /// The time of the last attempt.
    pub sent_at_ms: i64,
    /// The harness has acknowledged the event.
    pub acked: bool,
    /// The harness is connected, so that the event can be sent again.
    pub connected: bool,
    pub stage: Stage,
    pub disposition: Option<Disposition>,
    /// The end of a claim or a deferral.
    pub until_ms: i64,
}

/// The escalation stage of an unanswered event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The deadline has not passed.
    InTime,
    /// The event was sent again at its deadline, at the given time.
    Reminded(i64),
    /// The event was downgraded and escalated, at the given time.
    Escalated(i64),
}

/// The next action for a pending event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Send the event again to the same harness, which did not acknowledge it.
    Redeliver,
    /// Send the event again to the same harness, because its deadline has passed.
    Remind,
    /// Downgrade the event (see [`downgraded`]), and notify its author and the recipient that [`escalate_to`]
    /// returns, if any. An event that failed keeps its disposition.
    Escalate,
    /// Open the event again after a claim or a deferral, with its whole deadline, and send it again.
    Reopen,
    /// End the event with this disposition.
    End(Disposition),
}

impl Pending {
    /// Returns the next step and its time if nothing else happens. A time in the past means now. Returns
    /// `None` for an event that has ended.
    pub fn next_step(&self) -> Option<(Step, i64)> {
        if let Some(disposition) = self.disposition {
            // The author, and the lead or the owner, learn at once of a request that failed.
            let is_untold = disposition == Disposition::Failed
                && self.policy == Policy::MustRespond
                && !matches!(self.stage, Stage::Escalated(_));
            if is_untold {
                return Some((Step::Escalate, self.since_ms));
            }
            return (!is_final(disposition)).then_some((Step::Reopen, self.until_ms));
        }
        if self.policy == Policy::MustNotRespond {
            return Some((Step::End(Disposition::Ignored), self.since_ms));
        }
        let (step, at_ms) = self.overdue();
        match self.redelivery() {
            Some(redelivery_ms) if redelivery_ms < at_ms => Some((Step::Redeliver, redelivery_ms)),
            _ => Some((step, at_ms)),
        }
    }

    /// Returns the state after `step` was done.
    pub fn after(self, step: Step, now_ms: i64) -> Self {
        let sent = Self { attempt: self.attempt.saturating_add(1), sent_at_ms: now_ms, ..self };
        let (overdue, at_ms) = self.overdue();
        match step {
            // A redelivery and a reminder that are both late are one step.
            Step::Redeliver if overdue != Step::Remind || now_ms < at_ms => sent,
            Step::Redeliver | Step::Remind => Self { stage: Stage::Reminded(now_ms), ..sent },
            Step::Escalate if self.disposition.is_some() => Self { stage: Stage::Escalated(now_ms), ..self },
            Step::Escalate => Self { policy: Policy::MayRespond, stage: Stage::Escalated(now_ms), ..self },
            Step::Reopen => {
                Self { disposition: None, since_ms: now_ms, stage: Stage::InTime, acked: false, ..sent }
            }
            Step::End(disposition) => Self { disposition: Some(disposition), ..self },
        }
    }

    fn overdue(&self) -> (Step, i64) {
        let deadline_ms = self.deadline_ms.unwrap_or(DEFAULT_DEADLINE_MS);
        let grace_ms = deadline_ms.min(LONGEST_GRACE_MS);
        let deadline = self.since_ms + deadline_ms;
        match (self.policy, self.stage) {
            (Policy::MustRespond, Stage::InTime) => (Step::Remind, deadline),
            (Policy::MustRespond, Stage::Reminded(at)) => (Step::Escalate, at + grace_ms),
            (_, Stage::Escalated(at)) => self.end(at + grace_ms),
            (_, Stage::InTime | Stage::Reminded(_)) => self.end(deadline),
        }
    }

    /// Returns the final step. An acknowledged event without an answer is ignored. An event that no harness
    /// acknowledged fails after a day, like every pushed event.
    fn end(&self, at_ms: i64) -> (Step, i64) {
        if self.acked {
            (Step::End(Disposition::Ignored), at_ms)
        } else {
            (Step::End(Disposition::Failed), at_ms.max(self.since_ms + UNDELIVERED_MS))
        }
    }

    fn redelivery(&self) -> Option<i64> {
        let doublings = self.attempt.saturating_sub(1).min(8);
        let wait_ms = (REDELIVERY_MS.start() << doublings).min(*REDELIVERY_MS.end());
        (self.connected && !self.acked).then_some(self.sent_at_ms + wait_ms)
    }
}

/// Returns the attention for an agent that did not answer an event in time.
pub fn downgraded(attention: Attention) -> Attention {
    Attention { policy: Policy::MayRespond, mode: Mode::Notify, reason: Reason::Stale, ..attention }
}

/// Returns the attention of an envelope that was not answered in time: it is shown as before.
pub fn given_up(attention: Attention) -> Attention {
    Attention { mode: attention.mode, ..downgraded(attention) }
}

/// Returns the attention of an escalation to an agent.
pub fn escalation() -> Attention {
    Attention {
        directedness: Directedness::ToMe,
        policy: Policy::MustRespond,
        mode: Mode::Buffered,
        reason: Reason::Escalation,
        priority: Priority::High,
        deadline_ms: Some(DEFAULT_DEADLINE_MS),
    }
}

/// Returns the attention of the report to an agent whose request was not answered. The agent may act on it.
pub fn report() -> Attention {
    Attention { policy: Policy::MayRespond, priority: Priority::Normal, ..escalation() }
}

/// Returns the recipient of an escalation: the lead, or else the owner, but never the agent that has just not
/// answered. An escalation that the lead does not answer goes on to the owner, and no further.
pub fn escalate_to<T: PartialEq>(
    responsible: &T,
    is_escalation: bool,
    lead: Option<T>,
    owner: Option<T>,
) -> Option<T> {
    let owner = owner.filter(|owner| owner != responsible);
    match lead {
        Some(lead) if lead != *responsible => {
            if is_escalation {
                None
            } else {
                Some(lead)
            }
        }
        Some(_) => owner,
        None => owner.filter(|_| !is_escalation),
    }
}

#[cfg(test)]
mod tests;
