//! Checks that an agent may reply, and plans the effects of the reply on the answered message.

use super::handling::{Handling, record_all};
use super::{Effect, PlanRefusal};
use crate::claims::{Claim, Request};
use crate::disposition::Cause;
use crate::obligation::Obligation;
use crate::outbound::{self, Reply};
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{ConversationId, EventId, Principal};
use chorus_protocol::words::{ClaimState, Directedness, Disposition, Policy, Reason};

/// The facts about the message that a reply answers.
#[derive(Debug)]
pub enum ReplyFacts {
    /// Nothing, or a message of its own author.
    Nothing,
    /// An agent answers a reaction to one of its messages, or the decision on a message that waited for approval. Nobody else
    /// was given that, so there is nothing to claim.
    Signal(Obligation),
    /// An agent answers a message of another author.
    Message {
        answered: Box<Handling>,
        /// The id by which the reply names the message: its own, or that of an edit or an escalation.
        named_as: EventId,
        /// The claim on the thread that the answered message is in.
        thread_claim: Option<Claim>,
    },
    /// An agent speaks in a thread that it has no part in. To leave out what it answers makes it no less an answer.
    Thread {
        agent: Principal,
        /// The meaning of the message that began the thread.
        meaning: Attention,
        claim: Option<Claim>,
    },
    /// A person answers a message, or speaks in a thread. These are the claims on both.
    Person { person: Principal, claims: Vec<(EventId, Claim)> },
}

/// Refuses a reply that is not allowed. Returns the claim that the author makes by replying, if it makes one.
pub(super) fn check(
    facts: &ReplyFacts,
    text: &str,
    mentions: bool,
    now: i64,
) -> Result<Option<Claim>, PlanRefusal> {
    let reply = Reply {
        policy: Policy::MayRespond,
        named: true,
        needs_claim: false,
        claim: None,
        answered: false,
        text,
        mentions,
    };
    let (who, reply) = match facts {
        ReplyFacts::Nothing | ReplyFacts::Person { .. } => return Ok(None),
        ReplyFacts::Signal(given) => {
            (given.id.agent.into(), Reply { policy: given.attention.policy, ..reply })
        }
        ReplyFacts::Message { answered, named_as, thread_claim } => {
            let newest = answered.given.first().filter(|newest| newest.event != *named_as);
            let named = answered.given.iter().find(|given| given.event == *named_as);
            if let (Some(newest), Some(Disposition::Superseded)) =
                (newest, named.and_then(|named| named.disposition))
            {
                return Err(PlanRefusal::Superseded(newest.event));
            }
            let Some(meaning) = answered.meaning() else { return Ok(None) };
            let named = meaning.directedness == Directedness::ToMe;
            let settled = answered.claim.and_then(|claim| claim.held);
            let settled = settled.filter(|held| held.state == ClaimState::Resolved);
            let reply = Reply {
                policy: meaning.policy,
                named,
                needs_claim: !named && meaning.reason == Reason::RoleMention,
                answered: settled.is_some_and(|held| held.holder != answered.who),
                claim: answered.claim.or(*thread_claim),
                ..reply
            };
            (answered.who, reply)
        }
        ReplyFacts::Thread { agent, meaning, claim } => {
            // Anybody may speak about a message that names nobody, as anybody may claim it.
            let policy = match meaning.reason {
                Reason::AddressedToOther => meaning.policy,
                _ => Policy::MayRespond,
            };
            let named = meaning.directedness == Directedness::ToMe;
            (*agent, Reply { policy, named, claim: *claim, text: "", mentions: false, ..reply })
        }
    };
    outbound::check(now, who, &reply).map_err(PlanRefusal::Reply)
}

/// Returns the effects of a posted reply: the author is done with what it answered, and with the claim on it. A person is done
/// with what it holds of the answered message and of the thread.
pub(super) fn effects(
    facts: &ReplyFacts,
    conversation: ConversationId,
    taken: Option<Claim>,
    now: i64,
) -> Result<Vec<Effect>, PlanRefusal> {
    let mut effects = vec![];
    match facts {
        ReplyFacts::Nothing | ReplyFacts::Thread { .. } => {}
        ReplyFacts::Signal(given) => {
            record_all(std::slice::from_ref(given), &mut None, Cause::Replied, None, now, &mut effects)?;
        }
        ReplyFacts::Message { answered, .. } => {
            let mut claim = taken.or(answered.claim);
            record_all(&answered.given, &mut claim, Cause::Replied, None, now, &mut effects)?;
            let resolved = claim.map(|claim| resolve_as_holder(claim, answered.who, now)).transpose()?;
            let saved = resolved.flatten().or(taken);
            effects.extend(saved.map(|claim| Effect::save_claim(conversation, answered.message, claim, now)));
        }
        ReplyFacts::Person { person, claims } => {
            for (event, claim) in claims {
                let resolved = resolve_as_holder(*claim, *person, now)?;
                effects.extend(resolved.map(|claim| Effect::save_claim(conversation, *event, claim, now)));
            }
        }
    }
    Ok(effects)
}

/// Resolves a claim for its holder. Returns `None` for everybody else.
fn resolve_as_holder(claim: Claim, who: Principal, now: i64) -> Result<Option<Claim>, PlanRefusal> {
    if claim.holder(now) != Some(who) {
        return Ok(None);
    }
    Ok(Some(claim.apply(now, who, Request::Resolve)?))
}
