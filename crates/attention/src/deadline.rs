//! What happens to an event that nobody deals with, and when.
//!
//! [`Pending::next_step`] says what is next and at what time; [`Pending::after`] is what is pending once that was
//! done. Every event that has no final disposition has a next step, and without any help from its agent it comes to
//! an end. What was not taken by a harness is sent again while one is connected; what must be answered is sent once
//! more at its deadline, then downgraded and escalated to one other, never to all.
//!
//! Nothing is sent here, and who leads or owns a conversation is told.

use crate::decide::DEFAULT_DEADLINE_MS;
use crate::disposition::is_final;
use chorus_protocol::attention::Attention;
use chorus_protocol::words::{Directedness, Disposition, Mode, Policy, Priority, Reason};

/// How long the first redelivery waits, and the longest that any does.
pub const REDELIVERY_MS: std::ops::RangeInclusive<i64> = 30_000..=300_000;

/// The longest time between a deadline and its escalation.
pub const LONGEST_GRACE_MS: i64 = 300_000;

/// When what no harness ever took is given up.
pub const UNDELIVERED_MS: i64 = 86_400_000;

/// One event that one agent was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    /// What is expected.
    pub policy: Policy,
    /// Since when.
    pub since_ms: i64,
    /// How long an answer may take.
    pub deadline_ms: Option<i64>,
    /// How often it was sent.
    pub attempt: u32,
    /// When last.
    pub sent_at_ms: i64,
    /// The harness has taken it.
    pub acked: bool,
    /// The harness is there to be sent to.
    pub connected: bool,
    /// How far it came without an answer.
    pub stage: Stage,
    /// What its agent made of it.
    pub disposition: Option<Disposition>,
    /// When a claim or a deferral ends.
    pub until_ms: i64,
}

/// How far an event came without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// There is time.
    InTime,
    /// It was sent again at its deadline, then.
    Reminded(i64),
    /// It was downgraded and escalated, then.
    Escalated(i64),
}

/// What is to be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Send it again to the same harness, which did not take it.
    Redeliver,
    /// Send it again to the same harness, whose time is over.
    Remind,
    /// Make it [`downgraded`], and tell whom [`escalate_to`] names, if anybody.
    Escalate,
    /// A claim or deferral ended: it is open again, with all its time, and sent again.
    Reopen,
    /// It ends like this.
    End(Disposition),
}

impl Pending {
    /// What comes next if nothing else does, and when; a moment that has passed means now. `None` when it is done with.
    pub fn next_step(&self) -> Option<(Step, i64)> {
        if let Some(disposition) = self.disposition {
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

    /// What is pending once `step` was done.
    pub fn after(self, step: Step, now_ms: i64) -> Self {
        let sent = Self { attempt: self.attempt.saturating_add(1), sent_at_ms: now_ms, ..self };
        let (overdue, at_ms) = self.overdue();
        match step {
            // Two are one when both are late.
            Step::Redeliver if overdue != Step::Remind || now_ms < at_ms => sent,
            Step::Redeliver | Step::Remind => Self { stage: Stage::Reminded(now_ms), ..sent },
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

    /// What a harness took and did not answer was not needed; what none took stays a day, as everything that is
    /// pushed does.
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

/// What an event is to an agent that did not answer it in time.
pub fn downgraded(attention: Attention) -> Attention {
    Attention { policy: Policy::MayRespond, mode: Mode::Notify, reason: Reason::Stale, ..attention }
}

/// What an escalation is to whom it is told, if that is an agent.
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

/// Whom an escalation is told: the lead, or else the owner, but not who has just not answered. An escalation that its
/// lead does not answer goes on to the owner, and no further.
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
