//! The plan of an obligation that is due: a reminder, an escalation, the end of a claim or a deferral, or the end of it all.

use super::audience::is_for_several;
use super::{Effect, resend};
use crate::capabilities::Abilities;
use crate::claims::{Claim, Open};
use crate::deadline::{Step, downgraded, given_up};
use crate::obligation::Obligation;
use chorus_protocol::ids::{EventId, Principal};
use chorus_protocol::words::Disposition;

/// An obligation on a message that a person holds, or that waits for an agent's other work, is looked at again after this time,
/// if not before.
const LOOK_AGAIN_MS: i64 = 30_000;

/// The facts for the plan of a due obligation. Facts that only one step needs are loaded for that step only.
#[derive(Debug)]
pub struct OverdueFacts {
    pub obligation: Obligation,
    /// The event is a relay envelope or another service's post: a send that is final, between two.
    pub is_direct: bool,
    /// The event is there, and the agent is still a member of its conversation.
    pub is_present: bool,
    /// The claim on the message, and when the reconciler looks at it.
    pub claim: Option<(Claim, Option<i64>)>,
    pub abilities: Abilities,
    /// The agent blocks the author.
    pub is_blocked: bool,
    /// Loaded if the step is an escalation, or the end of a request for several that no other agent has before itself.
    pub escalation: Option<EscalationFacts>,
    /// The agent works on another request and has not begun this one, which may wait for it until this time.
    pub queued_until: Option<i64>,
}

/// An escalation to be made.
#[derive(Debug)]
pub struct EscalationFacts {
    /// The id of the escalation.
    pub event: EventId,
    /// The handle of the agent that did not answer.
    pub silent: String,
    /// The event that the escalation refers to.
    pub original: EventId,
    /// The lead or the owner; `None` if nobody is left to tell, or that one has answered.
    pub target: Option<EscalationTarget>,
    /// The author of the request; `None` if it has left, or blocks the agent.
    pub author: Option<EscalationTarget>,
}

/// The outcome of a request that its author is told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The agent with this handle did not answer in time.
    Late(String),
    /// The agent with this handle failed.
    Failed(String),
    /// Nobody of those who were asked has answered.
    Unanswered,
}

/// The member that an escalation goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EscalationTarget {
    pub principal: Principal,
    pub handle: String,
}

impl OverdueFacts {
    /// Returns the step that is due.
    pub fn step(&self, now: i64) -> Option<Step> {
        self.obligation.next_step().filter(|(_, at)| *at <= now).map(|(step, _)| step)
    }

    /// Returns until when a person holds the claim on the message: meanwhile no agent is asked again.
    fn held_by_person(&self, now: i64) -> Option<i64> {
        match self.claim.map(|(claim, _)| claim.open(now)) {
            Some(Open::Held(held)) => matches!(held.holder, Principal::Account(_)).then_some(held.until_ms),
            _ => None,
        }
    }

    /// Returns when the claim on a message for several changes by itself: until then nobody else has let it pass.
    fn claim_due_at(&self) -> Option<i64> {
        let (_, due_at) = self.claim.filter(|_| is_for_several(self.obligation.attention.reason))?;
        due_at
    }
}

pub(super) fn plan(facts: &OverdueFacts, now: i64) -> Vec<Effect> {
    let known = &facts.obligation;
    let Some((step, at)) = known.next_step() else { return vec![Effect::Unschedule(known.clone())] };
    if at > now {
        return vec![look_again(known, at)];
    }
    if facts.is_direct {
        return plan_direct(known, step, now);
    }
    if !facts.is_present && known.is_over() {
        return vec![Effect::Unschedule(known.clone())];
    }
    if !facts.is_present {
        // An agent that has left has nothing to answer.
        return vec![end(known, Disposition::Ignored)];
    }
    let asks = matches!(step, Step::Redeliver | Step::Remind | Step::Escalate);
    if let Some(until) = facts.held_by_person(now).filter(|_| asks) {
        // A person that gives the message back early keeps nobody waiting for long.
        return vec![look_again(known, until.min(now + LOOK_AGAIN_MS))];
    }
    if facts.queued_until.is_some_and(|until| asks && now < until) {
        return vec![look_again(known, now + LOOK_AGAIN_MS)];
    }
    let may_repeat = facts.abilities.repeats && !facts.is_blocked;
    match step {
        Step::Redeliver | Step::Remind => {
            vec![resend(Obligation { reminded_at: Some(now), ..known.clone() }, may_repeat, now)]
        }
        Step::Escalate => escalate(facts, may_repeat, now),
        Step::Reopen => {
            let open = known.reopened();
            let again = if known.disposition == Some(Disposition::Claimed) {
                // The reconciler offers the claim again.
                Effect::Reschedule(open.clone().scheduled())
            } else {
                resend(open.clone(), may_repeat, now)
            };
            vec![Effect::Dispose(open), again]
        }
        Step::End(Disposition::Ignored) if facts.claim_due_at().is_some() => {
            let at = facts.claim_due_at().unwrap_or(now);
            vec![look_again(known, at.max(now) + 1)]
        }
        Step::End(disposition) => {
            let outcome = RequestOutcome::Unanswered;
            let is_for_several = is_for_several(known.attention.reason);
            let told = facts.escalation.as_ref().filter(|_| is_for_several);
            let told = told.and_then(|told| tell(told, outcome, known));
            std::iter::once(end(known, disposition)).chain(told).collect()
        }
    }
}

/// An envelope is not sent again, because such a send is final, nor escalated, because it is between two: an answer is expected no
/// longer, and in the end it was ignored.
fn plan_direct(known: &Obligation, step: Step, now: i64) -> Vec<Effect> {
    let known = known.clone();
    match step {
        Step::Redeliver | Step::Remind => {
            vec![Effect::Reschedule(Obligation { reminded_at: Some(now), ..known }.scheduled())]
        }
        // The sender of an envelope learns of a failure by its answer.
        Step::Escalate if known.is_over() => vec![Effect::Unschedule(known)],
        Step::Escalate => {
            let attention = given_up(known.attention);
            vec![Effect::Reschedule(Obligation { escalated_at: Some(now), attention, ..known }.scheduled())]
        }
        Step::Reopen => {
            let open = Obligation { disposition: None, until_at: None, next_at: None, ..known };
            vec![Effect::Dispose(open.clone()), Effect::Reschedule(open.scheduled())]
        }
        Step::End(disposition) => vec![end(&known, disposition)],
    }
}

/// The agent is asked no longer, and the author, and the lead or the owner, are told by an event of its own.
fn escalate(facts: &OverdueFacts, may_repeat: bool, now: i64) -> Vec<Effect> {
    let known = &facts.obligation;
    let has_failed = known.is_over();
    let step = if has_failed {
        Effect::Reschedule(Obligation { escalated_at: Some(now), next_at: None, ..known.clone() })
    } else {
        let attention = downgraded(known.attention);
        let stale = Obligation { escalated_at: Some(now), attention, ..known.clone() };
        if facts.abilities.shows.notify {
            resend(stale, may_repeat, now)
        } else {
            Effect::Reschedule(stale.scheduled())
        }
    };
    let told = facts.escalation.as_ref().and_then(|told| {
        let silent = told.silent.clone();
        let outcome = if has_failed { RequestOutcome::Failed(silent) } else { RequestOutcome::Late(silent) };
        tell(told, outcome, known)
    });
    std::iter::once(step).chain(told).collect()
}

/// Returns the effect that tells the author and the target, if there is either.
fn tell(facts: &EscalationFacts, outcome: RequestOutcome, known: &Obligation) -> Option<Effect> {
    let EscalationFacts { event, original, target, author, .. } = facts;
    (target.is_some() || author.is_some()).then(|| Effect::Escalate {
        event: *event,
        outcome,
        target: target.clone(),
        author: author.clone(),
        message: known.message(),
        original: *original,
    })
}

fn look_again(known: &Obligation, at: i64) -> Effect {
    Effect::Reschedule(Obligation { next_at: Some(at), ..known.clone() })
}

fn end(known: &Obligation, disposition: Disposition) -> Effect {
    let disposition = Some(disposition);
    Effect::Dispose(Obligation { disposition, until_at: None, next_at: None, ..known.clone() })
}
