//! Loads the facts of due obligations and claims for the reconciler.

use super::apply::Occasion;
use super::audience::{abilities, load_responder};
use super::handling::{claim_on, given, owners_of_stream};
use crate::conversations::{self, Conversation, Event};
use crate::members::{self, Member};
use crate::{StoreError, Tx, blocks, claims, obligations};
use chorus_attention::capabilities::Abilities;
use chorus_attention::claims::{Claim, Open};
use chorus_attention::deadline::{LONGEST_TASK_MS, Step, escalate_to};
use chorus_attention::obligation::Obligation;
use chorus_attention::plan::{
    AskedAgent, EscalationFacts, EscalationTarget, OpenFacts, OverdueFacts, ReofferFacts,
};
use chorus_protocol::ids::{AgentId, ConversationId, EventId, Principal};
use chorus_protocol::words::{ClaimState, Directedness, Disposition, EventKind, Policy, Reason};

/// The largest number of role members that a request is offered to.
const MAX_KNOCKED: i64 = 50;
/// The largest number of former holders of a claim that are loaded.
const MAX_HOLDERS: i64 = 200;

/// The obligations and claims that are due.
#[derive(Debug, Clone, Default)]
pub struct DueItems {
    pub obligations: Vec<(EventId, AgentId)>,
    pub claims: Vec<(EventId, ConversationId)>,
}

/// Returns up to `limit` due obligations and claims.
pub fn find_due(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<DueItems, StoreError> {
    Ok(DueItems { obligations: obligations::due(tx, now, limit)?, claims: claims::due(tx, now, limit)? })
}

/// Loads the facts of an obligation that is due, in a transaction that holds its conversation. `escalation` is the id of the
/// escalation, if there is one. Returns `None` if there is no such obligation any more.
pub fn load_overdue(
    tx: &mut dyn Tx,
    event: EventId,
    agent: AgentId,
    escalation: EventId,
    now: i64,
) -> Result<Option<(OverdueFacts, Option<Occasion>)>, StoreError> {
    let Some(known) = obligations::of(tx, event, agent, now)? else { return Ok(None) };
    // An answering agent or another node may hold the lock. The obligation is read after that transaction
    // ends.
    tx.lock(known.conversation.into())?;
    let Some(obligation) = obligations::of(tx, event, agent, now)? else { return Ok(None) };
    let message = obligation.message();
    let mut facts = OverdueFacts {
        obligation,
        is_direct: false,
        is_present: false,
        claim: None,
        abilities: Abilities::WITHOUT_KNOCKS,
        is_blocked: false,
        escalation: None,
        queued_until: None,
    };
    let Some(step) = facts.step(now) else { return Ok(Some((facts, None))) };
    let said = conversations::event_by_id(tx, event)?;
    let Some(said) = said else { return Ok(Some((facts, None))) };
    let occasion = Some(Occasion::of(&said, now));
    facts.is_direct = matches!(said.kind, EventKind::Envelope | EventKind::Foreign);
    if facts.is_direct {
        return Ok(Some((facts, occasion)));
    }
    let Some(silent) = members::of(tx, said.conversation, agent.into())? else {
        return Ok(Some((facts, occasion)));
    };
    facts.is_present = true;
    facts.claim = claims::of(tx, message)?.map(|row| (row.claim(), row.next_at));
    if !matches!(step, Step::End(_)) {
        facts.abilities = abilities(tx, agent, now)?;
        facts.is_blocked = blocks::keeps_out(tx, agent.into(), said.author)?;
    }
    if matches!(step, Step::Remind | Step::Escalate)
        && facts.obligation.injected_at.is_none()
        && facts.obligation.acked
        && obligations::is_working(tx, agent, now)?
    {
        let place = conversations::by_id(tx, said.conversation)?;
        let longest = place.and_then(|place| place.longest_task_ms).unwrap_or(LONGEST_TASK_MS);
        facts.queued_until = Some(said.created_at + longest);
    }
    if step == Step::Escalate || is_last_of_several(tx, &facts.obligation, step, now)? {
        facts.escalation = Some(load_escalation(tx, &said, &silent, &facts.obligation, escalation, now)?);
    }
    Ok(Some((facts, occasion)))
}

/// Returns `true` if an obligation that ends was the last one of a request for several that nobody has answered.
fn is_last_of_several(tx: &mut dyn Tx, known: &Obligation, step: Step, now: i64) -> Result<bool, StoreError> {
    let is_for_several = matches!(known.attention.reason, Reason::RoleMention | Reason::StreamOwner);
    if !is_for_several || step != Step::End(Disposition::Ignored) {
        return Ok(false);
    }
    let holder = claim_on(tx, Some(known.message()))?.and_then(|claim| claim.held);
    let is_taken = holder.is_some_and(|held| {
        held.state == ClaimState::Resolved || (held.state == ClaimState::Held && held.until_ms > now)
    });
    Ok(!is_taken && !obligations::concerns_others(tx, known.message(), known.id.agent)?)
}

/// Loads whom an escalation goes to. A member that has already answered is not asked again.
fn load_escalation(
    tx: &mut dyn Tx,
    said: &Event,
    silent: &Member,
    known: &Obligation,
    event: EventId,
    now: i64,
) -> Result<EscalationFacts, StoreError> {
    let was_escalation = known.attention.reason == Reason::Escalation;
    let place = conversations::by_id(tx, said.conversation)?.filter(|place| place.archived_at.is_none());
    let mut target = None;
    if let Some(place) = place
        && let Some(to) = responsible(tx, &place, silent.principal, was_escalation, said.author)?
        && let Some(member) = members::of(tx, place.id, to)?
    {
        // A lead that answers the message itself would answer it twice.
        let answers = |given: &Obligation| match given.disposition {
            None | Some(Disposition::Claimed | Disposition::Deferred) => {
                given.attention.policy == Policy::MustRespond
            }
            other => other == Some(Disposition::Responded),
        };
        let answers_itself = match to.agent() {
            Some(agent) => given(tx, known.message(), agent, now)?.iter().any(answers),
            None => false,
        };
        target = (!answers_itself).then_some(EscalationTarget { principal: to, handle: member.handle });
    }
    if known.attention.policy != Policy::MustRespond {
        // A request for several that nobody answered obliges nobody else.
        target = None;
    }
    let original = if was_escalation { said.target.unwrap_or(said.id) } else { said.id };
    let author = author_of(tx, said, silent.principal)?;
    Ok(EscalationFacts { event, silent: silent.handle.clone(), original, target, author })
}

/// Returns the author of a request, unless it has left or blocks the agent that did not answer.
fn author_of(
    tx: &mut dyn Tx,
    said: &Event,
    silent: Principal,
) -> Result<Option<EscalationTarget>, StoreError> {
    if said.author == silent || blocks::keeps_out(tx, said.author, silent)? {
        return Ok(None);
    }
    let member = members::of(tx, said.conversation, said.author)?;
    Ok(member.map(|member| EscalationTarget { principal: said.author, handle: member.handle }))
}

/// Returns the lead or the owner that is told of a silent agent: not the author, and nobody who blocks the author.
fn responsible(
    tx: &mut dyn Tx,
    place: &Conversation,
    silent: Principal,
    was_escalation: bool,
    author: Principal,
) -> Result<Option<Principal>, StoreError> {
    let mut lead = members::lead(tx, place.id)?.map(|lead| lead.principal);
    // A lead that is itself the silent agent was already asked, even if it blocks the author.
    if let Some(other) = lead.filter(|lead| *lead != silent)
        && blocks::keeps_out(tx, other, author)?
    {
        lead = None;
    }
    let to = escalate_to(&silent, was_escalation, lead, Some(place.owner)).filter(|to| *to != author);
    match to {
        Some(to) if blocks::keeps_out(tx, to, author)? => Ok(None),
        to => Ok(to),
    }
}

/// Loads the facts of a claim that is due, in a transaction that holds its conversation. Returns `None` if there is no claim.
pub fn load_reoffer(
    tx: &mut dyn Tx,
    event: EventId,
    conversation: ConversationId,
    now: i64,
) -> Result<Option<(ReofferFacts, Option<Occasion>)>, StoreError> {
    tx.lock(conversation.into())?;
    let Some(claim) = claim_on(tx, Some(event))? else { return Ok(None) };
    let expired = match ReofferFacts::expired_holder(claim, now) {
        Some(holder) => {
            let last = obligations::current(tx, event, holder)?.unwrap_or(event);
            obligations::of(tx, last, holder, now)?
        }
        None => None,
    };
    let said = conversations::event_by_id(tx, event)?;
    let is_there = said.is_some();
    let mut facts = ReofferFacts { conversation, event, claim, expired, is_there, first: None, open: None };
    let Some(said) = said else { return Ok(Some((facts, None))) };
    let at = facts.claim_now(now);
    let is_resolved = at.held.is_some_and(|held| held.state == ClaimState::Resolved);
    if let (Open::ToOne(first, _), false) = (at.open(now), is_resolved) {
        facts.first = Some(load_asked(tx, &said, first, now)?);
    }
    if facts.is_open(now) {
        facts.open = load_open(tx, &said, at, now)?;
    }
    Ok(Some((facts, Some(Occasion::of(&said, now)))))
}

fn load_asked(tx: &mut dyn Tx, said: &Event, agent: AgentId, now: i64) -> Result<AskedAgent, StoreError> {
    Ok(AskedAgent {
        agent,
        given: given(tx, said.id, agent, now)?,
        abilities: abilities(tx, agent, now)?,
        is_blocked: blocks::keeps_out(tx, agent.into(), said.author)?,
        gave_back: false,
        responder: None,
    })
}

/// Loads who may be asked, if the request still waits for an answer.
fn load_open(tx: &mut dyn Tx, said: &Event, claim: Claim, now: i64) -> Result<Option<OpenFacts>, StoreError> {
    let Some(first) = first_given(tx, said, claim, now)? else { return Ok(None) };
    let first_is_last = obligations::current(tx, said.id, first.id.agent)? == Some(said.id);
    // A message to one agent is not offered to others when that agent lets go of it.
    if claim.first.is_none() && first.attention.directedness == Directedness::ToMe {
        return Ok(None);
    }
    let is_waiting = OpenFacts::is_waiting(&first, first_is_last);
    let mut open = OpenFacts { first, first_is_last, asked: vec![], reason: Reason::RoleMention };
    if !is_waiting {
        return Ok(Some(open));
    }
    let (asked, reason) = whom_to_ask(tx, said, &open.first.mentions)?;
    open.reason = reason;
    let holders = claims::holders(tx, said.id, MAX_HOLDERS)?;
    for agent in asked {
        let gave_back = holders
            .iter()
            .any(|held| held.state == ClaimState::Released && held.holder == Principal::from(agent));
        open.asked.push(AskedAgent { gave_back, ..load_asked(tx, said, agent, now)? });
    }
    let choice = open.to_choose_from(claim, now);
    for asked in open.asked.iter_mut().filter(|asked| choice.contains(&asked.agent)) {
        asked.responder = load_responder(tx, asked.agent, now)?;
    }
    Ok(Some(open))
}

/// Returns the message as it was given to the first agent: whom it names, and its priority, was kept with that.
fn first_given(
    tx: &mut dyn Tx,
    said: &Event,
    claim: Claim,
    now: i64,
) -> Result<Option<Obligation>, StoreError> {
    let held = claim.held.and_then(|held| held.holder.agent());
    for agent in claim.first.into_iter().chain(held).chain(obligations::given(tx, said.id, 1)?) {
        if let Some(known) = obligations::of(tx, said.id, agent, now)? {
            return Ok(Some(known));
        }
    }
    Ok(None)
}

/// Returns the agents that a message asks, and the reason: the members of a role that it names, or else the owners of the work stream.
fn whom_to_ask(tx: &mut dyn Tx, said: &Event, mentions: &str) -> Result<(Vec<AgentId>, Reason), StoreError> {
    let (mut asked, mut reason) = (vec![], Reason::RoleMention);
    for role in mentions.split(' ').filter_map(|one| one.strip_prefix("role:")) {
        asked.extend(members::in_role(tx, said.conversation, role, MAX_KNOCKED)?);
    }
    if asked.is_empty() {
        asked.extend(owners_of_stream(tx, said)?);
        reason = Reason::StreamOwner;
    }
    let others = asked.into_iter().filter(|member| member.principal != said.author);
    Ok((others.filter_map(|member| member.principal.agent()).collect(), reason))
}
