//! The plan of a stop: which work ends, and who is told.
//!
//! Work is ended only by the person or agent that asked for it, by a person that leads or owns the channel or the work stream,
//! and by the owner of the agent. An agent ends only what it asked for itself. A stop ends only the work that it is about, which
//! the store finds: that of one message, or of one thread.

use super::{Effect, PlanRefusal};
use crate::claims::Claim;
use crate::disposition::Cause;
use crate::obligation::Obligation;
use chorus_protocol::ids::{AgentId, EventId, Principal};
use chorus_protocol::words::{Disposition, Policy, Reason};
use std::collections::BTreeSet;

/// Something that an agent was asked to do and has not finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// The version of the message that the agent was given last.
    pub obligation: Obligation,
    /// The agent's handle in the conversation.
    pub handle: String,
    /// The author of the message.
    pub asker: Principal,
    /// The message that began the thread of the work, or the message itself.
    pub thread: EventId,
    /// The principal that stops the work leads or owns the conversation or the work stream.
    pub is_led: bool,
    /// The principal that stops the work owns the agent.
    pub is_owned: bool,
    /// The claim on the message.
    pub claim: Option<Claim>,
}

impl Work {
    /// Returns `true` if an obligation is work: the agent must answer, has taken it on, or is offered it. A message that an
    /// agent only overhears is none.
    pub fn is_work(given: &Obligation) -> bool {
        let is_asked = given.attention.policy == Policy::MustRespond
            || matches!(given.attention.reason, Reason::RoleMention | Reason::StreamOwner);
        let is_taken = matches!(given.disposition, Some(Disposition::Claimed | Disposition::Deferred));
        !given.is_over() && (is_asked || is_taken)
    }

    /// Returns `true` if a principal may stop the work.
    fn may_be_stopped_by(&self, who: Principal) -> bool {
        who == self.asker || (who.agent().is_none() && (self.is_led || self.is_owned))
    }
}

/// A stop, and the work that it is about.
#[derive(Debug, Clone)]
pub struct StopFacts {
    pub by: Principal,
    /// The handle or the name of the principal.
    pub name: String,
    pub work: Vec<Work>,
}

impl StopFacts {
    /// Returns the work that ends.
    pub fn stopped(&self) -> impl Iterator<Item = &Work> {
        self.work.iter().filter(|work| work.may_be_stopped_by(self.by))
    }

    /// Returns `true` if work of the agent ends.
    pub fn stops(&self, agent: AgentId) -> bool {
        self.stopped().any(|work| work.obligation.id.agent == agent)
    }

    /// Returns `true` if there is work, and the principal may stop none of it.
    pub fn is_refused(&self) -> bool {
        !self.work.is_empty() && self.stopped().next().is_none()
    }
}

/// A stop that is no message. One that ends nothing although there is work is refused.
pub(super) fn plan(facts: &StopFacts, now: i64) -> Result<Vec<Effect>, PlanRefusal> {
    if facts.is_refused() {
        return Err(PlanRefusal::MayNotStop);
    }
    Ok(effects(facts, now))
}

/// Returns the effects on the work that ends. A claim on it is free and is offered to nobody: the work is not wanted.
pub(super) fn effects(facts: &StopFacts, now: i64) -> Vec<Effect> {
    let mut effects = vec![];
    let agents: BTreeSet<_> = facts.stopped().map(|work| work.obligation.id.agent).collect();
    let mut settled = BTreeSet::new();
    for work in facts.stopped() {
        // The policy forbids no end by another.
        if let Ok(Some(after)) = work.obligation.after(Cause::Stopped, None, now) {
            let stopped = Box::new(Work { obligation: after, ..work.clone() });
            effects.push(Effect::Stop { work: stopped, reason: format!("{} stopped it", facts.name) });
        }
        let (conversation, message) = (work.obligation.conversation, work.obligation.message());
        let is_theirs = |claim: &Claim| match claim.holder(now) {
            Some(holder) => holder.agent().is_some_and(|agent| agents.contains(&agent)),
            None => true,
        };
        if let Some(claim) = work.claim.filter(is_theirs)
            && settled.insert(message)
        {
            let claim = claim.stopped(now);
            effects.push(Effect::SaveClaim { conversation, event: message, claim, next_at: None });
        }
    }
    effects
}

#[cfg(test)]
mod tests;
