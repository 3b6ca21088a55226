//! The plan of a claim that is due: the request is offered to the first agent again, and then to everyone who may still answer.
//!
//! An agent that gave the claim back is not asked again, and nobody is asked more than a few times: to take something and let it go
//! again and again wakes nobody for ever.

use super::audience::{EventRecipient, ResponderFacts, choose};
use super::handling::{record_all, record_passively};
use super::{Effect, held_until, resend};
use crate::capabilities::Abilities;
use crate::claims::{Claim, Open, Request};
use crate::decide::DEFAULT_DEADLINE_MS;
use crate::disposition::Cause;
use crate::obligation::Obligation;
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{AgentId, ConversationId, EventId, Principal};
use chorus_protocol::words::{ClaimState, Directedness, Disposition, Mode, Policy, Reason};

/// The most deliveries of one event to one agent that claims of others cause.
const MAX_ASKED: i64 = 5;

/// Everything that the plan of a due claim needs.
#[derive(Debug)]
pub struct ReofferFacts {
    pub conversation: ConversationId,
    pub event: EventId,
    pub claim: Claim,
    /// The version that the agent whose claim just ran out was given last.
    pub expired: Option<Obligation>,
    /// The message still exists.
    pub is_there: bool,
    /// The agent that is asked first, while the offer to it stands.
    pub first: Option<AskedAgent>,
    /// Loaded if the offer is open to all.
    pub open: Option<OpenFacts>,
}

/// The facts for offering a request to everyone who may answer.
#[derive(Debug)]
pub struct OpenFacts {
    /// The message as it was given to the first agent.
    pub first: Obligation,
    /// The first agent was given no later version of the message.
    pub first_is_last: bool,
    /// Loaded if the request still waits for an answer ([`is_waiting`]).
    pub asked: Vec<AskedAgent>,
    /// The reason for which these agents are asked.
    pub reason: Reason,
}

/// An agent that a request may be offered to.
#[derive(Debug)]
pub struct AskedAgent {
    pub agent: AgentId,
    /// The versions of the message that it was given, the last one first.
    pub given: Vec<Obligation>,
    pub abilities: Abilities,
    /// The agent blocks the author.
    pub is_blocked: bool,
    /// The agent had the claim and released it.
    pub gave_back: bool,
    pub responder: Option<ResponderFacts>,
}

impl ReofferFacts {
    /// Returns the claim as it is now.
    pub fn claim_now(&self, now: i64) -> Claim {
        self.claim.at(now)
    }

    /// Returns the holder whose claim ran out.
    pub fn expired_holder(claim: Claim, now: i64) -> Option<AgentId> {
        let (before, after) = (claim.held?, claim.at(now).held?);
        let ran_out = before.state == ClaimState::Held && after.state == ClaimState::Expired;
        before.holder.agent().filter(|_| ran_out)
    }

    /// Returns `true` if the request is open to all: nobody holds it, and the first agent has let it pass.
    pub fn is_open(&self, now: i64) -> bool {
        let claim = self.claim_now(now);
        if claim.held.is_some_and(|held| held.state == ClaimState::Resolved) {
            return false;
        }
        match claim.open(now) {
            Open::Held(_) => false,
            Open::ToOne(..) => self.first.as_ref().is_none_or(AskedAgent::has_let_pass),
            Open::ToAll => true,
        }
    }
}

impl OpenFacts {
    /// Returns `true` if the request still waits for an answer. Returns `false` for a request that was
    /// answered or withdrawn, or that continues in a thread.
    pub fn is_waiting(first: &Obligation, first_is_last: bool) -> bool {
        let is_withdrawn = first.disposition == Some(Disposition::Superseded) && first_is_last;
        first.disposition != Some(Disposition::Responded)
            && first.attention.reason != Reason::ThreadParticipation
            && !is_withdrawn
    }

    fn attention(&self) -> Attention {
        Attention {
            directedness: Directedness::ToMyRole,
            policy: Policy::MayRespond,
            mode: Mode::Notify,
            reason: self.reason,
            priority: self.first.attention.priority,
            deadline_ms: self.first.attention.deadline_ms.or(Some(DEFAULT_DEADLINE_MS)),
        }
    }

    /// Returns the agents that may be asked, in the order of their inboxes.
    fn may_ask(&self, claim: Claim) -> Vec<&AskedAgent> {
        let mut asked: Vec<_> = self.asked.iter().filter(|one| one.may_be_asked(claim)).collect();
        asked.sort_by_key(|one| one.agent);
        asked.dedup_by_key(|one| one.agent);
        asked
    }

    /// Returns the agents of which one is chosen and shown the request: those without knocks, if nobody can be knocked.
    pub fn to_choose_from(&self, claim: Claim, now: i64) -> Vec<AgentId> {
        let asked = self.may_ask(claim);
        let knocked = asked.iter().filter(|one| one.abilities.shows.notify);
        if knocked.filter(|one| is_sent(&one.ask(self, Mode::Notify, None, now))).count() > 0 {
            return vec![];
        }
        asked.iter().filter(|one| !one.abilities.shows.notify).map(|one| one.agent).collect()
    }
}

impl AskedAgent {
    /// Returns `true` if the first agent has let the offer pass, so that the others do not wait for it.
    fn has_let_pass(&self) -> bool {
        match self.given.first().map(|given| given.disposition) {
            // The agent has the offer, has answered, or has said that it will.
            Some(None | Some(Disposition::Responded | Disposition::Deferred | Disposition::Claimed)) => false,
            Some(Some(
                Disposition::Acknowledged
                | Disposition::Ignored
                | Disposition::Superseded
                | Disposition::Failed,
            ))
            | None => true,
        }
    }

    /// Returns `true` if the agent may be asked: it was not given the request, or has it before itself and was not asked since
    /// the request is open.
    fn may_be_asked(&self, claim: Claim) -> bool {
        let may_ask_again = |given: &Obligation| {
            given.disposition.is_none()
                && given.acked
                && given.sent < MAX_ASKED
                && given.sent_at < claim.offered_at_ms
        };
        !self.is_blocked && self.given.first().is_none_or(|given| may_ask_again(given) && !self.gave_back)
    }

    /// Returns the delivery of the request to the agent. `claimed_until` is the end of the claim that it has by that.
    fn ask(&self, open: &OpenFacts, mode: Mode, claimed_until: Option<i64>, now: i64) -> Effect {
        if let Some(given) = self.given.first() {
            return resend(given.clone(), self.abilities.repeats && !self.is_blocked, now);
        }
        let attention = Attention { mode, ..open.attention() };
        let to = EventRecipient { agent: self.agent, handle: String::new(), attention };
        Effect::Deliver { to, mentions: open.first.mentions.clone(), claimed_until }
    }
}

fn is_sent(effect: &Effect) -> bool {
    matches!(effect, Effect::Deliver { .. } | Effect::Redeliver(_))
}

pub(super) fn plan(facts: &ReofferFacts, now: i64) -> Vec<Effect> {
    let mut claim = facts.claim_now(now);
    let mut effects = vec![];
    if let Some(expired) = &facts.expired {
        record_passively(expired, &mut Some(claim), Cause::ClaimEnded, now, &mut effects);
    }
    if facts.is_there && facts.is_open(now) {
        if matches!(claim.open(now), Open::ToOne(..)) {
            claim.first = None;
        }
        if let Some(open) = &facts.open {
            ask_all(facts, open, &mut claim, now, &mut effects);
        }
    } else if let (true, Open::ToOne(..), Some(first)) = (facts.is_there, claim.open(now), &facts.first)
        && claim.held.is_none_or(|held| held.state != ClaimState::Resolved)
        && let Some(given) = first.given.first()
        && given.disposition.is_none()
        && given.sent < MAX_ASKED
    {
        effects.push(resend(given.clone(), first.abilities.repeats && !first.is_blocked, now));
    }
    effects.insert(0, Effect::save_claim(facts.conversation, facts.event, claim, now));
    effects
}

/// Knocks everyone who may be asked and gets knocks. If nobody does, one other agent is shown the request and has it by that.
fn ask_all(facts: &ReofferFacts, open: &OpenFacts, claim: &mut Claim, now: i64, effects: &mut Vec<Effect>) {
    if !OpenFacts::is_waiting(&open.first, open.first_is_last) {
        return;
    }
    let asked = open.may_ask(facts.claim_now(now));
    let knocks = asked.iter().filter(|one| one.abilities.shows.notify);
    let knocks: Vec<_> = knocks.map(|one| one.ask(open, Mode::Notify, None, now)).collect();
    let is_knocked = knocks.iter().any(is_sent);
    effects.extend(knocks);
    if is_knocked {
        return;
    }
    let rest = asked.iter().filter(|one| !one.abilities.shows.notify);
    let Some(next) = choose(rest.filter_map(|one| Some((one.agent, one.responder.as_ref()?)))) else {
        return;
    };
    let Some(next) = asked.into_iter().find(|one| one.agent == next) else { return };
    let who = Principal::from(next.agent);
    let Ok(taken) = claim.apply(now, who, Request::Take { ttl_ms: None }) else { return };
    let until = held_until(&taken);
    let ask = next.ask(open, Mode::Buffered, until, now);
    if !is_sent(&ask) {
        effects.push(ask);
        return;
    }
    *claim = taken;
    match ask {
        Effect::Redeliver(again) => {
            let taken = again.after(Cause::Claimed, until, now).ok().flatten();
            effects.push(Effect::Redeliver(taken.unwrap_or(again)));
            if let Some((_, earlier)) = next.given.split_first() {
                let open: Vec<_> = earlier.iter().filter(|other| !other.is_over()).cloned().collect();
                for other in &open {
                    let one = std::slice::from_ref(other);
                    let (Ok(_) | Err(_)) = record_all(one, &mut None, Cause::Claimed, until, now, effects);
                }
            }
        }
        ask => effects.push(ask),
    }
}
