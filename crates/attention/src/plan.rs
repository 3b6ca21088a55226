//! Plans: the effects that follow from the facts, for everything that touches attention.
//!
//! Each trigger (a message, an edit, a deletion, a reaction, a request of an agent, the time) has its own facts. The store loads them
//! (`chorus_store::attention::load`), [`plan`] decides without I/O, and the store applies the effects in the order they are
//! given (`chorus_store::attention::apply`). All of it happens in one transaction that holds the conversation.

mod audience;
mod edit;
mod handling;
mod message;
mod overdue;
mod reaction;
mod reoffer;
mod reply;
mod stop;

pub use audience::{
    Audience, Candidate, EventRecipient, ExchangeFacts, ExchangePartner, ResponderFacts, first_to_ask,
    meaning_of_found,
};
pub use edit::{EditFacts, Version};
pub use handling::{ClaimStatus, Handling, HandlingFacts, HandlingRequest};
pub use message::MessageFacts;
pub use overdue::{EscalationFacts, EscalationTarget, OverdueFacts, RequestOutcome};
pub use reaction::{ReactionFacts, outcome};
pub use reoffer::{AskedAgent, OpenFacts, ReofferFacts};
pub use reply::ReplyFacts;
pub use stop::{StopFacts, Work};

use crate::claims::{self, Claim};
use crate::disposition::PolicyForbidden;
use crate::loop_guard::Loop;
use crate::obligation::Obligation;
use crate::outbound;
use chorus_protocol::ids::{AgentId, ConversationId, EventId};
use chorus_protocol::words::Disposition;

/// Everything that a decision needs, by trigger.
#[derive(Debug)]
pub enum Facts<'a> {
    /// A message is about to be posted.
    Message(Box<MessageFacts<'a>>),
    /// The text of a message is about to change.
    Edit(EditFacts<'a>),
    /// A message is about to be deleted. These are the versions of it that agents were given.
    Deletion(Vec<Obligation>),
    /// A reaction to a message is about to be posted.
    Reaction(ReactionFacts<'a>),
    /// An agent claims, releases, defers, resolves or reacts to an event, or its harness reports on it; or a person does.
    Handling(HandlingFacts),
    /// A person or an agent stops work, by other means than a message.
    Stop(StopFacts),
    /// An obligation is due: the reconciler looks at it.
    Overdue(Box<OverdueFacts>),
    /// A claim is due: it expired, was released, or its offer ended.
    Reoffer(Box<ReofferFacts>),
}

impl Facts<'_> {
    /// Returns the disposition, after the effects, of the version that an agent was given last of the message it acts on.
    pub fn disposition(&self, effects: &[Effect]) -> Option<Disposition> {
        match self {
            Self::Handling(facts) => facts.disposition(effects),
            _ => None,
        }
    }
}

/// One write that follows from a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Notes in the message that it continues a loop, so that readers see why nobody answers.
    Damp(Loop),
    /// Delivers the event to an agent for the first time.
    Deliver {
        to: EventRecipient,
        /// The members and roles that the event names, as `agent:bob role:ops`.
        mentions: String,
        /// The end of the claim that the agent has by being shown all of the event.
        claimed_until: Option<i64>,
    },
    /// Reports an agent that finds the event when it looks; nothing is written.
    Store(EventRecipient),
    /// Delivers an event again to the agent that has it, and reschedules it.
    Redeliver(Obligation),
    /// Delivers an edit in place of the version that the agent has.
    Supersede(Obligation),
    /// Writes the disposition of an obligation, and the time of its next check.
    Dispose(Obligation),
    /// Writes the stage of an obligation, its lowered attention, and the time of its next check.
    Reschedule(Obligation),
    /// Writes the current attention of an edited message for an agent without a C2A session.
    Revise(Obligation),
    /// Clears the schedule of an obligation that is done with.
    Unschedule(Obligation),
    /// Tells a harness that an event needs no answer any more.
    Cancel {
        obligation: Obligation,
        reason: &'static str,
        /// The harness is notified of edits, which counts as a delivery for the author.
        wakes: bool,
    },
    /// Ends work that was stopped, with the reason.
    Stop { work: Box<Work>, reason: String },
    /// Writes the claim on an event, and the time of its next check.
    SaveClaim { conversation: ConversationId, event: EventId, claim: Claim, next_at: Option<i64> },
    /// Appends an escalation, or a report to the author, and delivers it to the agents among those that it goes to.
    Escalate {
        /// The id of the escalation.
        event: EventId,
        outcome: RequestOutcome,
        /// The member that is to answer instead, if there is one.
        target: Option<EscalationTarget>,
        /// The author of the request, if it is told.
        author: Option<EscalationTarget>,
        /// The message that was not answered.
        message: EventId,
        /// The event that the escalation refers to.
        original: EventId,
    },
    /// Counts one more turn of the author, an agent, with each agent that it woke.
    CountTurn { with: Vec<AgentId> },
    /// Resets the counts of turns after a person spoke.
    ResetTurns,
}

impl Effect {
    fn save_claim(conversation: ConversationId, event: EventId, claim: Claim, now: i64) -> Self {
        Self::SaveClaim { conversation, event, claim, next_at: claim.next_change(now) }
    }

    /// Writes a released claim. It is due at once, so that the reconciler asks another agent.
    fn save_released(conversation: ConversationId, event: EventId, claim: Claim, now: i64) -> Self {
        Self::SaveClaim { conversation, event, claim, next_at: Some(now) }
    }

    /// Returns the agent that the effect wakes.
    pub fn wakes(&self) -> Option<AgentId> {
        match self {
            Self::Deliver { to, .. } => Some(to.agent),
            Self::Supersede(known) | Self::Cancel { obligation: known, wakes: true, .. } => {
                Some(known.id.agent)
            }
            _ => None,
        }
    }

    /// Counts the turns of an agent whose event has these effects; `None` if it woke nobody.
    fn count_turns(effects: &[Self]) -> Option<Self> {
        let mut with: Vec<_> = effects.iter().filter_map(Self::wakes).collect();
        with.sort_unstable();
        with.dedup();
        (!with.is_empty()).then_some(Self::CountTurn { with })
    }
}

/// The reason why an act is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanRefusal {
    /// The response policy forbids it.
    Policy(PolicyForbidden),
    /// The reply is not allowed.
    Reply(outbound::Refusal),
    /// Another agent or person has the claim.
    Claim(claims::Refusal),
    /// The agent answers a version of a message that was replaced by this one.
    Superseded(EventId),
    /// The agent was not given the event that it wants to defer.
    NotGiven,
    /// Somebody without the authority to do so wants to stop work.
    MayNotStop,
}

impl From<PolicyForbidden> for PlanRefusal {
    fn from(refusal: PolicyForbidden) -> Self {
        Self::Policy(refusal)
    }
}

impl From<claims::Refusal> for PlanRefusal {
    fn from(refusal: claims::Refusal) -> Self {
        Self::Claim(refusal)
    }
}

/// Decides what follows from the facts.
pub fn plan(facts: &Facts<'_>, now: i64) -> Result<Vec<Effect>, PlanRefusal> {
    match facts {
        Facts::Message(facts) => message::plan(facts, now),
        Facts::Edit(facts) => Ok(edit::plan(facts, now)),
        Facts::Deletion(given) => Ok(edit::plan_deletion(given, now)),
        Facts::Reaction(facts) => Ok(reaction::plan(facts)),
        Facts::Handling(facts) => handling::plan(facts, now),
        Facts::Stop(facts) => stop::plan(facts, now),
        Facts::Overdue(facts) => Ok(overdue::plan(facts, now)),
        Facts::Reoffer(facts) => Ok(reoffer::plan(facts, now)),
    }
}

/// Returns the effect of a redelivery, or of waiting where the agent has not acknowledged the event yet, cannot tell a
/// repetition, or blocks the author.
fn resend(obligation: Obligation, may_repeat: bool, now: i64) -> Effect {
    if obligation.acked && may_repeat {
        Effect::Redeliver(Obligation { sent_at: now, acked: false, ..obligation }.scheduled())
    } else {
        Effect::Reschedule(obligation.scheduled())
    }
}

/// Returns when a claim that was just taken ends.
fn held_until(claim: &Claim) -> Option<i64> {
    claim.held.map(|held| held.until_ms)
}

/// Returns the agents that effects deliver to, for whoever locks their inboxes first.
pub fn inboxes(effects: &[Effect]) -> Vec<AgentId> {
    let agent = |effect: &Effect| match effect {
        Effect::Deliver { to, .. } => Some(to.agent),
        Effect::Supersede(known) | Effect::Redeliver(known) | Effect::Cancel { obligation: known, .. } => {
            Some(known.id.agent)
        }
        _ => None,
    };
    let told = effects.iter().filter_map(|effect| match effect {
        Effect::Escalate { target, author, .. } => Some([target, author]),
        _ => None,
    });
    let told = told.flatten().flatten().filter_map(|one| one.principal.agent());
    effects.iter().filter_map(agent).chain(told).collect()
}
