//! What is for whoever takes it, and nobody holds: it is offered again, to one first and then to all that may still answer.
//!
//! A step of background work, like those of `overdue`: whoever's claim ends, by whatever way, somebody is asked again, in the same
//! order, as long as there is anybody who has not let it pass. Who gave it back is not asked again, and nobody more than a few
//! times: to take something and let it go again and again wakes nobody for ever.

use super::deciding::choose;
use super::overdue::{bring, send_again};
use super::ways::shows;
use super::{claiming, disposing, taking};
use crate::error::Error;
use chorus_attention::claims::{Claim, Open, Request};
use chorus_attention::disposition::Cause;
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{AgentId, ConversationId, EventId, Principal};
use chorus_protocol::words::{ClaimState, Directedness, Disposition, Mode, Policy, Reason};
use chorus_store::conversations::{self, Event};
use chorus_store::deliveries::Bringing;
use chorus_store::members::{self, Member};
use chorus_store::obligations::{self, Obligation};
use chorus_store::{StoreError, Tx, blocks, claims, directory, work_streams};
use std::collections::BTreeMap;

/// How many members of a role are told that something is open to all of them.
const MAX_KNOCKED: i64 = 50;
/// Nobody is sent the same more often because others take it and let it go.
const MAX_ASKED: i64 = 5;
/// So many of those that held a claim are remembered as having given it back.
const MAX_HOLDERS: i64 = 200;

/// The claim on an event changes by itself: who held it is told by what becomes of the event, and it is offered again, or to all
/// that have the role. Whether anything was sent.
pub fn offer_again(
    tx: &mut dyn Tx,
    now: i64,
    (event, conversation): (EventId, ConversationId),
) -> Result<bool, Error> {
    tx.lock(conversation.0)?;
    let Some(claim) = claiming::of(tx, event)? else { return Ok(false) };
    let at = claim.at(now);
    claiming::keep(tx, conversation, event, at, now)?;
    if let (Some(before), Some(after)) = (claim.held, at.held)
        && before.state == ClaimState::Held
        && after.state == ClaimState::Expired
    {
        // What a person gives back becomes nothing of what agents have.
        if let Principal::Agent(holder) = before.holder {
            let given = obligations::current(tx, event, holder)?.unwrap_or(event);
            disposing::record_passively(tx, given, holder, Cause::ClaimEnded, now)?;
        }
    }
    let Some(said) = conversations::event_by_id(tx, event)? else { return Ok(false) };
    // It was dealt with, and nobody is asked again.
    if at.held.is_some_and(|held| held.state == ClaimState::Resolved) {
        return Ok(false);
    }
    match at.open(now) {
        Open::Held(_) => Ok(false),
        Open::ToOne(first, _) => offer_to_first(tx, &said, first, at, now),
        Open::ToAll => open_to_all(tx, &said, at, now),
    }
}

/// Whoever is asked first is asked once more; if it has let it pass, the others do not wait for it.
fn offer_to_first(
    tx: &mut dyn Tx,
    said: &Event,
    first: AgentId,
    claim: Claim,
    now: i64,
) -> Result<bool, Error> {
    let known = given(tx, said.id, first, now)?;
    match known.as_ref().map(|known| known.disposition) {
        Some(None) => match known.filter(|known| known.sent < MAX_ASKED) {
            Some(known) => Ok(ask_again(tx, known, now)?),
            None => Ok(false),
        },
        // It has answered, or says that it will.
        Some(Some(Disposition::Responded | Disposition::Deferred | Disposition::Claimed)) => Ok(false),
        Some(Some(
            Disposition::Acknowledged | Disposition::Ignored | Disposition::Superseded | Disposition::Failed,
        ))
        | None => {
            claiming::keep(tx, said.conversation, said.id, Claim { first: None, ..claim }, now)?;
            open_to_all(tx, said, claim, now)
        }
    }
}

/// Nobody holds it who was offered it: those of the role that know knocks are knocked; if none does, the next one is shown all of it.
fn open_to_all(tx: &mut dyn Tx, said: &Event, claim: Claim, now: i64) -> Result<bool, Error> {
    let Some(first) = first_given(tx, said, claim, now)? else { return Ok(false) };
    // Nor what was answered: a change of it is for whoever did so. What goes on in a thread is for who takes part.
    let is_settled = first.disposition == Some(Disposition::Responded);
    if is_settled || first.attention.reason == Reason::ThreadParticipation {
        return Ok(false);
    }
    // What was taken back is asked of nobody else.
    if first.disposition == Some(Disposition::Superseded)
        && obligations::current(tx, said.id, first.id.agent)? == Some(said.id)
    {
        return Ok(false);
    }
    let Obligation { mentions, attention: asked_first, .. } = first;
    let (asked, reason) = whom_to_ask(tx, said, &mentions)?;
    let attention = Attention {
        directedness: Directedness::ToMyRole,
        policy: Policy::MayRespond,
        mode: Mode::Notify,
        reason,
        priority: asked_first.priority,
        deadline_ms: asked_first.deadline_ms.or(Some(chorus_attention::DEFAULT_DEADLINE_MS)),
    };
    let gave_back = gave_back(tx, said.id)?;
    let (mut rest, mut knows_knocks) = (vec![], BTreeMap::new());
    for agent in asked {
        let known = given(tx, said.id, agent, now)?;
        if known.as_ref().is_some_and(|known| !may_ask_again(known, claim) || gave_back.contains(&agent))
            || blocks::keeps_out(tx, agent.into(), said.author)?
        {
            continue;
        }
        if shows(tx, agent, now)?.notify {
            knows_knocks.insert(agent, known);
        } else if let Some(agent) = directory::by_id(tx, agent)? {
            rest.push(agent);
        }
    }
    // The smaller inbox first, as everywhere.
    let mut knocked = false;
    for (agent, known) in knows_knocks {
        knocked |= ask(tx, said, (agent, known), (attention, &mentions), now)?;
    }
    if knocked {
        return Ok(true);
    }
    let Some(next) = choose(tx, &rest, now)? else { return Ok(false) };
    let known = given(tx, said.id, next, now)?;
    let shown = Attention { mode: Mode::Buffered, ..attention };
    if !ask(tx, said, (next, known), (shown, &mentions), now)? {
        return Ok(false);
    }
    let take = Request::Take { ttl_ms: None };
    taking::ask_and_dispose(tx, (said.conversation, said.id), next.into(), take, now)?;
    Ok(true)
}

/// Those that a message asks, and why: who has a role that it names, or else who owns the work stream.
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

/// Whether an agent that has it before itself is asked once more: it has let nothing pass, and was not asked since it is open.
fn may_ask_again(known: &Obligation, claim: Claim) -> bool {
    known.disposition.is_none()
        && known.acked
        && known.sent < MAX_ASKED
        && known.sent_at < claim.offered_at_ms
}

/// Those that had it and gave it back.
fn gave_back(tx: &mut dyn Tx, event: EventId) -> Result<Vec<AgentId>, StoreError> {
    let held = claims::holders(tx, event, MAX_HOLDERS)?;
    let released = held.into_iter().filter(|one| one.state == ClaimState::Released);
    Ok(released.filter_map(|one| one.holder.agent()).collect())
}

/// Brings it to an agent, or once more. Whether anything was sent.
fn ask(
    tx: &mut dyn Tx,
    said: &Event,
    (agent, known): (AgentId, Option<Obligation>),
    (attention, mentions): (Attention, &str),
    now: i64,
) -> Result<bool, StoreError> {
    if let Some(known) = known {
        ask_again(tx, known, now)
    } else {
        let bringing = Bringing { mentions, ..Bringing::FIRST };
        Ok(bring(tx, said, agent, attention, bringing, now)?.is_some())
    }
}

fn ask_again(tx: &mut dyn Tx, known: Obligation, now: i64) -> Result<bool, StoreError> {
    match conversations::event_by_id(tx, known.event)? {
        Some(said) => send_again(tx, &said, known, now),
        None => Ok(false),
    }
}

/// What an agent was given of a message last: as it was said, or as it was changed since.
fn given(
    tx: &mut dyn Tx,
    message: EventId,
    agent: AgentId,
    now: i64,
) -> Result<Option<Obligation>, StoreError> {
    match obligations::current(tx, message, agent)? {
        Some(event) => obligations::of(tx, event, agent, now),
        None => Ok(None),
    }
}

/// Those whose work stream it is, as long as it is open.
fn owners_of_stream(tx: &mut dyn Tx, said: &Event) -> Result<Vec<Member>, StoreError> {
    let Some(stream) = work_streams::of_event(tx, said.id)? else { return Ok(vec![]) };
    if work_streams::by_id(tx, stream)?.is_none_or(|stream| stream.closed_at.is_some()) {
        return Ok(vec![]);
    }
    let agents = work_streams::agents_in(tx, stream, said.conversation)?;
    Ok(agents.into_iter().filter(|(_, part)| part.owns).map(|(member, _)| member).collect())
}

/// Whether something was asked of those whose work stream it is.
pub(super) fn asks_owners(tx: &mut dyn Tx, said: &Event) -> Result<bool, StoreError> {
    for owner in owners_of_stream(tx, said)?.into_iter().filter_map(|owner| owner.principal.agent()) {
        if obligations::current(tx, said.id, owner)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What the first one was given: whom the event names, and how much it matters, was kept with it.
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
