//! The plan of what an agent or a person does about one message: claim, release, defer, resolve, react, or report.

use super::{Effect, PlanRefusal, held_until};
use crate::claims::{Claim, DEFAULT_TTL_MS, Open, Request};
use crate::disposition::{Cause, PolicyForbidden};
use crate::obligation::Obligation;
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{ConversationId, EventId, Principal};
use chorus_protocol::words::{ClaimState, Directedness, Disposition, Policy, Reason, Signal};

/// The relation of one agent or person to one message.
#[derive(Debug)]
pub struct Handling {
    pub who: Principal,
    pub conversation: ConversationId,
    pub message: EventId,
    /// The versions and the escalations of the message that the agent was given, the last one first.
    pub given: Vec<Obligation>,
    pub claim: Option<Claim>,
    /// The meaning of the message for an agent that was not given it.
    pub found: Option<Attention>,
}

impl Handling {
    /// Returns what the message means for the agent: as it was decided when it was given it last, or else by the same rules now.
    pub fn meaning(&self) -> Option<Attention> {
        self.given.first().map(|given| given.attention).or(self.found)
    }

    /// Returns `true` if the message is for nobody, so that whoever takes it may have it.
    pub fn is_for_nobody(&self) -> bool {
        self.meaning().is_some_and(|meaning| {
            meaning.policy == Policy::MustNotRespond
                && (meaning.directedness == Directedness::Ambient || meaning.reason == Reason::AgentNoTask)
        })
    }
}

/// An act on a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandlingRequest {
    /// The claim tool: take, renew or give back.
    Claim(Request),
    /// The resolve tool: the message is dealt with, whether or not it was claimed.
    Resolve,
    /// The agent called the defer tool.
    Defer,
    /// The agent reacted with this signal.
    React(Signal),
    /// A person's reaction, or its removal.
    PersonReacts { signal: Signal, removed: bool },
    /// Something else that happened to the last version that the agent was given. `until` is the end of a claim.
    Record { cause: Cause, until: Option<i64> },
    /// The same where the policy refuses nothing: what it forbids changes nothing.
    RecordPassively { cause: Cause },
    /// The agent works on the message now: its model was shown it, or its harness reports progress.
    Work,
}

/// Everything that the plan of an act on a message needs.
#[derive(Debug)]
pub struct HandlingFacts {
    pub handling: Handling,
    pub request: HandlingRequest,
    /// The agent wrote the message itself.
    pub is_author: bool,
    /// The message was given to an owner of its work stream. Loaded for messages that are for nobody.
    pub owners_were_asked: bool,
    /// The time at which work on the message has to be done: then a claim or progress moves its deadline no more. `None` if
    /// the agent has not begun.
    pub work_ends_at: Option<i64>,
}

impl HandlingFacts {
    /// Returns the disposition of the version that the agent was given last, after the effects.
    pub(super) fn disposition(&self, effects: &[Effect]) -> Option<Disposition> {
        let last = self.handling.given.first()?;
        let written = effects.iter().rev().find_map(|effect| match effect {
            Effect::Dispose(after) if after.event == last.event => Some(after.disposition),
            _ => None,
        });
        written.unwrap_or(last.disposition)
    }

    /// Refuses an agent that takes or ends what is for others: for the members that the message names, for a role, or for the owners
    /// of a work stream that were asked. The author may say that its request is done.
    fn may_take_on(&self) -> Result<(), PolicyForbidden> {
        let meaning = self.handling.meaning().filter(|_| !self.is_author);
        match meaning {
            Some(Attention { policy: policy @ Policy::MustNotRespond, .. })
                if !self.handling.is_for_nobody() || self.owners_were_asked =>
            {
                Err(PolicyForbidden { policy })
            }
            _ => Ok(()),
        }
    }

    /// Refuses to defer what is not to be answered, or is another's.
    fn may_defer(&self, now: i64) -> Result<(), PlanRefusal> {
        let Some(meaning) = self.handling.meaning() else { return Ok(()) };
        if meaning.policy == Policy::MustNotRespond {
            return Err(PolicyForbidden { policy: meaning.policy }.into());
        }
        match self.handling.claim {
            Some(claim) if meaning.directedness != Directedness::ToMe => {
                claim.apply(now, self.handling.who, Request::Take { ttl_ms: None })?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Returns `true` if the agent has answered the message, or its version was replaced.
    fn is_settled(&self) -> bool {
        let disposition = self.handling.given.first().and_then(|given| given.disposition);
        let held = self.handling.claim.and_then(|claim| claim.held);
        held.is_some_and(|held| held.state == ClaimState::Resolved && held.holder == self.handling.who)
            || matches!(disposition, Some(Disposition::Responded | Disposition::Superseded))
    }
}

/// The state of a claim for the agent that asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimStatus {
    pub state: ClaimState,
    pub until: i64,
}

impl ClaimStatus {
    /// Returns the state of the claim that is written by these effects.
    pub fn of(effects: &[Effect], who: Principal, now: i64) -> Self {
        let claim = effects.iter().rev().find_map(|effect| match effect {
            Effect::SaveClaim { claim, .. } => Some(*claim),
            _ => None,
        });
        let held = claim.and_then(|claim| claim.held).filter(|held| held.holder == who);
        held.map_or(Self { state: ClaimState::Released, until: now }, |held| Self {
            state: held.state,
            until: held.until_ms,
        })
    }
}

pub(super) fn plan(facts: &HandlingFacts, now: i64) -> Result<Vec<Effect>, PlanRefusal> {
    let mut planner = Planner { facts, claim: facts.handling.claim, effects: vec![], now };
    match facts.request {
        HandlingRequest::Claim(request) => {
            if matches!(request, Request::Take { .. }) {
                facts.may_take_on()?;
            }
            planner.ask(request)?;
            planner.record(cause_of(request))?;
        }
        HandlingRequest::Resolve => {
            facts.may_take_on()?;
            if planner.claim.is_some() {
                planner.ask(Request::Resolve)?;
            }
            planner.record(Cause::Resolved)?;
        }
        HandlingRequest::Defer => {
            facts.may_defer(now)?;
            if planner.record(Cause::Deferred)?.is_none() {
                return Err(PlanRefusal::NotGiven);
            }
        }
        HandlingRequest::React(signal) => {
            if let Some(request) = planner.request_of(signal)? {
                planner.ask(request)?;
            }
            planner.record(Cause::Reacted(signal))?;
        }
        HandlingRequest::PersonReacts { signal, removed } => {
            if let Some(request) = planner.request_of_person(signal, removed) {
                planner.ask(request)?;
            }
        }
        HandlingRequest::Record { cause, until } => {
            if let Some(given) = facts.handling.given.first() {
                record(given, &mut planner.claim, cause, until, now, &mut planner.effects)?;
            }
        }
        HandlingRequest::Work => planner.work()?,
        HandlingRequest::RecordPassively { cause } => {
            if let Some(given) = facts.handling.given.first() {
                record_passively(given, &mut planner.claim, cause, now, &mut planner.effects);
            }
        }
    }
    Ok(planner.effects)
}

/// Returns what happens to the event of an agent that asks for this.
fn cause_of(request: Request) -> Cause {
    match request {
        Request::Take { .. } => Cause::Claimed,
        Request::Resolve => Cause::Resolved,
        Request::Release => Cause::ClaimEnded,
    }
}

/// The claim as it is after the effects so far.
struct Planner<'a> {
    facts: &'a HandlingFacts,
    claim: Option<Claim>,
    effects: Vec<Effect>,
    now: i64,
}

impl Planner<'_> {
    /// Asks for the claim, and writes it.
    fn ask(&mut self, request: Request) -> Result<(), PlanRefusal> {
        let (handling, now) = (&self.facts.handling, self.now);
        let (conversation, event) = (handling.conversation, handling.message);
        let claim = self.claim.unwrap_or(Claim::offered(None, now));
        let claim = claim.apply(now, handling.who, request)?;
        self.effects.push(match request {
            Request::Release => Effect::save_released(conversation, event, claim, now),
            Request::Take { .. } | Request::Resolve => Effect::save_claim(conversation, event, claim, now),
        });
        self.claim = Some(claim);
        Ok(())
    }

    /// Records what happened to all versions that the agent was given. Returns the disposition of the last one.
    fn record(&mut self, cause: Cause) -> Result<Option<Disposition>, PolicyForbidden> {
        let (who, now) = (self.facts.handling.who, self.now);
        let until = self.claim.filter(|claim| claim.holder(now) == Some(who)).as_ref().and_then(held_until);
        let until = until.filter(|_| !self.effects.is_empty());
        self.record_until(cause, until)
    }

    /// Records the same with the end of a claim. A claim beyond the end of the work leaves the deadline where it is.
    fn record_until(
        &mut self,
        cause: Cause,
        until: Option<i64>,
    ) -> Result<Option<Disposition>, PolicyForbidden> {
        let given = &self.facts.handling.given;
        let is_claim = matches!(cause, Cause::Claimed | Cause::Reacted(Signal::Working | Signal::Claimed));
        let until = match self.facts.work_ends_at.filter(|_| is_claim) {
            Some(ends_at) if ends_at <= self.now => {
                return Ok(given.first().and_then(|given| given.disposition));
            }
            Some(ends_at) => until.map(|until| until.min(ends_at)),
            None => until,
        };
        record_all(given, &mut self.claim, cause, until, self.now, &mut self.effects)
    }

    /// Claims the message for the agent that works on it, or renews its claim, and moves the deadline. A message that the agent
    /// need not answer is not claimed for it, but a claim that it has is renewed. Where another agent or person has the claim, the
    /// deadline moves for an agent that may answer all the same. Nothing is written before half of the time is over.
    fn work(&mut self) -> Result<(), PlanRefusal> {
        let (handling, now) = (&self.facts.handling, self.now);
        let Some(last) = handling.given.first().filter(|last| !last.is_over()) else { return Ok(()) };
        let until = now + DEFAULT_TTL_MS;
        let is_fresh = |until: Option<i64>| until.is_some_and(|until| until - now > DEFAULT_TTL_MS / 2);
        let own = self.claim.filter(|claim| claim.holder(now) == Some(handling.who));
        let must = last.attention.policy == Policy::MustRespond;
        if own.is_none() && !must {
            return Ok(());
        }
        if !is_fresh(own.as_ref().and_then(held_until)) {
            let claim = self.claim.unwrap_or(Claim::offered(None, now));
            if let Ok(taken) = claim.apply(now, handling.who, Request::Take { ttl_ms: None }) {
                let (conversation, event) = (handling.conversation, handling.message);
                self.effects.push(Effect::save_claim(conversation, event, taken, now));
                self.claim = Some(taken);
            } else if last.attention.directedness != Directedness::ToMe {
                return Ok(());
            }
        }
        let is_claimed = last.disposition == Some(Disposition::Claimed);
        if !(is_claimed && is_fresh(last.until_at)) {
            let held = self.claim.filter(|claim| claim.holder(now) == Some(handling.who));
            let until = held.as_ref().and_then(held_until).unwrap_or(until);
            self.record_until(Cause::Claimed, Some(until))?;
        }
        Ok(())
    }

    /// Returns what an agent's reaction asks of the claim.
    fn request_of(&self, signal: Signal) -> Result<Option<Request>, PlanRefusal> {
        let (who, now) = (self.facts.handling.who, self.now);
        let open = self.claim.map(|claim| claim.open(now));
        let holds = matches!(open, Some(Open::Held(held)) if held.holder == who);
        let is_first = matches!(open, Some(Open::ToOne(first, _)) if who == first.into());
        match signal {
            // An agent that has answered, or whose version was replaced, has nothing left to take on.
            Signal::Working | Signal::Claimed if self.facts.is_settled() => Ok(None),
            Signal::Working | Signal::Claimed => {
                self.facts.may_take_on()?;
                Ok(Some(Request::Take { ttl_ms: None }))
            }
            Signal::Done if holds => Ok(Some(Request::Resolve)),
            Signal::Declined if holds || is_first => Ok(Some(Request::Release)),
            Signal::Seen
            | Signal::Agree
            | Signal::Queued
            | Signal::Done
            | Signal::Declined
            | Signal::Blocked
            | Signal::Unclear
            | Signal::Stop => Ok(None),
        }
    }

    /// Returns what a person's reaction, or its removal, asks of the claim.
    fn request_of_person(&self, signal: Signal, removed: bool) -> Option<Request> {
        let request = match (signal, removed) {
            (Signal::Claimed | Signal::Working, false) => return Some(Request::Take { ttl_ms: None }),
            (Signal::Claimed | Signal::Working, true) | (Signal::Declined, false) => Request::Release,
            (Signal::Done, false) => Request::Resolve,
            (Signal::Done | Signal::Declined, true)
            | (
                Signal::Seen
                | Signal::Agree
                | Signal::Queued
                | Signal::Blocked
                | Signal::Unclear
                | Signal::Stop,
                _,
            ) => {
                return None;
            }
        };
        let holder = self.claim.and_then(|claim| claim.holder(self.now));
        (holder == Some(self.facts.handling.who)).then_some(request)
    }
}

/// Records what happened to the event of one obligation. An agent that gives up on the event gives back its claim.
pub(super) fn record(
    given: &Obligation,
    claim: &mut Option<Claim>,
    cause: Cause,
    until: Option<i64>,
    now: i64,
    effects: &mut Vec<Effect>,
) -> Result<Option<Disposition>, PolicyForbidden> {
    let Some(after) = given.after(cause, until, now)? else { return Ok(given.disposition) };
    let (disposition, gives_up) = (after.disposition, after.gives_up());
    effects.push(Effect::Dispose(after));
    let who = Principal::from(given.id.agent);
    if gives_up && let Some(held) = claim.filter(|claim| claim.holder(now) == Some(who)) {
        // The holder may always give its claim back.
        if let Ok(released) = held.apply(now, who, Request::Release) {
            effects.push(Effect::save_released(given.conversation, given.message(), released, now));
            *claim = Some(released);
        }
    }
    Ok(disposition)
}

/// Records the same where the policy refuses nothing.
pub(super) fn record_passively(
    given: &Obligation,
    claim: &mut Option<Claim>,
    cause: Cause,
    now: i64,
    effects: &mut Vec<Effect>,
) {
    // A policy that forbids an answer is not broken by an agent that says nothing.
    let (Ok(_) | Err(_)) = record(given, claim, cause, None, now, effects);
}

/// Records what happened to a message: to the version that the agent was given last, and to all others that it is not done
/// with. Returns the disposition of the last version.
pub(super) fn record_all(
    given: &[Obligation],
    claim: &mut Option<Claim>,
    cause: Cause,
    until: Option<i64>,
    now: i64,
    effects: &mut Vec<Effect>,
) -> Result<Option<Disposition>, PolicyForbidden> {
    let Some((last, earlier)) = given.split_first() else { return Ok(None) };
    let disposition = record(last, claim, cause, until, now, effects)?;
    for other in earlier.iter().filter(|other| disposition.is_some() && !other.is_over()) {
        // A disposition that the policy of an earlier version forbids is not recorded for that version.
        let (Ok(_) | Err(_)) = record(other, claim, cause, until, now, effects);
    }
    Ok(disposition)
}
