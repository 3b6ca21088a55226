//! What time does to what agents were given: reminders, downgrades, escalations, ends; and to claims, which are offered again.
//!
//! Steps of background work: each takes a transaction and the time, finds out for itself how things stand, and is harmless
//! when they are no longer so. One thing at a time, so that no two of them wait for each other. What follows from what is the
//! engine's to say; whom an escalation goes to, too.

use super::{choose, claiming, disposing, shows};
use crate::error::Error;
use chorus_attention::claims::{Claim, Open, Request};
use chorus_attention::deadline::{Step, downgraded, escalate_to, escalation};
use chorus_attention::disposition::Cause;
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{AgentId, ConversationId, DeliveryId, EventId, Principal};
use chorus_protocol::redact::Masked;
use chorus_protocol::words::{
    ClaimState, Directedness, Disposition, EntryKind, EventKind, Mode, Policy, Reason,
};
use chorus_store::conversation::{self, Act};
use chorus_store::conversations::{self, Event};
use chorus_store::deliveries::Bringing;
use chorus_store::members::{self, Member};
use chorus_store::obligations::{self, Obligation};
use chorus_store::{StoreError, Tx, claims, directory, work_streams};
use serde_json::{Map, json};
use std::collections::BTreeSet;

/// How many members of a role are told that something is open to all of them.
const MAX_KNOCKED: i64 = 50;

/// What a person has taken on is looked at again after so long, if not before.
const LOOK_AGAIN_MS: i64 = 30_000;

/// Something that an agent was given is due: the next step is taken if it is time for it. `escalation` is the id of an event, should
/// there be one. Whether anything was sent.
pub fn attend(
    tx: &mut dyn Tx,
    now: i64,
    (event, agent): (EventId, AgentId),
    escalation: EventId,
) -> Result<bool, StoreError> {
    let Some(known) = obligations::of(tx, event, agent, now)? else { return Ok(false) };
    // Who answers it holds the conversation, and so does another node that attends to it: how it stands is read once they are done.
    tx.lock(known.conversation.0)?;
    let Some(known) = obligations::of(tx, event, agent, now)? else { return Ok(false) };
    let Some((step, at)) = pending(&known).next_step() else {
        obligations::leave(tx, &known)?;
        return Ok(false);
    };
    if at > now {
        obligations::put_off(tx, &Obligation { next_at: Some(at), ..known })?;
        return Ok(false);
    }
    let said = conversations::event_by_id(tx, event)?;
    if said.as_ref().is_some_and(|said| said.kind == EventKind::Envelope) {
        return attend_envelope(tx, known, step, now);
    }
    let member = members::of(tx, known.conversation, agent.into())?;
    let (Some(said), Some(member)) = (said, member) else {
        // Who is not there any more has nothing to answer.
        obligations::dispose(tx, &known, Some(Disposition::Ignored), (None, None), now)?;
        return Ok(false);
    };
    let asks = matches!(step, Step::Redeliver | Step::Remind | Step::Escalate);
    if asks && let Some(until) = held_by_person(tx, known.supersedes.unwrap_or(event), now)? {
        // Whoever gives it back early keeps nobody waiting for long.
        let next_at = Some(until.min(now + LOOK_AGAIN_MS));
        obligations::put_off(tx, &Obligation { next_at, ..known })?;
        return Ok(false);
    }
    match step {
        Step::Redeliver | Step::Remind => {
            let known = Obligation { reminded_at: Some(now), ..known };
            send_again(tx, &said, known, now)
        }
        Step::Escalate => escalate(tx, &said, &member, known, escalation, now),
        Step::Reopen => {
            let was_claimed = known.disposition == Some(Disposition::Claimed);
            obligations::dispose(tx, &known, None, (None, None), now)?;
            let open = Obligation { disposition: None, until_at: None, reminded_at: None, ..known };
            // What was claimed is offered again, by whoever looks after claims.
            if was_claimed { put_off(tx, open) } else { send_again(tx, &said, open, now) }
        }
        Step::End(disposition) => {
            obligations::dispose(tx, &known, Some(disposition), (None, None), now)?;
            Ok(false)
        }
    }
}

/// Until when a person has taken an event on, if one has: meanwhile no agent is asked again.
fn held_by_person(tx: &mut dyn Tx, event: EventId, now: i64) -> Result<Option<i64>, StoreError> {
    let Some(Open::Held(held)) = claiming::of(tx, event)?.map(|claim| claim.open(now)) else {
        return Ok(None);
    };
    Ok(matches!(held.holder, Principal::Account(_)).then_some(held.until_ms))
}

/// The time of an envelope has come: an answer is expected no longer, and in the end it was ignored. It is not sent again, because a
/// relay send is final; nor escalated, because it is between two.
fn attend_envelope(tx: &mut dyn Tx, known: Obligation, step: Step, now: i64) -> Result<bool, StoreError> {
    let known = match step {
        Step::Redeliver | Step::Remind => Obligation { reminded_at: Some(now), ..known },
        Step::Escalate => {
            let attention = Attention { mode: known.attention.mode, ..downgraded(known.attention) };
            Obligation { escalated_at: Some(now), attention, ..known }
        }
        Step::Reopen => {
            obligations::dispose(tx, &known, None, (None, None), now)?;
            Obligation { disposition: None, until_at: None, ..known }
        }
        Step::End(disposition) => {
            obligations::dispose(tx, &known, Some(disposition), (None, None), now)?;
            return Ok(false);
        }
    };
    put_off(tx, known)
}

/// What a harness does not acknowledge comes again by its own session, and what waits to be posted by the pusher: here nobody is
/// connected.
fn pending(known: &Obligation) -> chorus_attention::deadline::Pending {
    chorus_attention::deadline::Pending { connected: false, ..disposing::pending(known) }
}

/// Keeps how it stands, and when somebody looks again.
fn put_off(tx: &mut dyn Tx, known: Obligation) -> Result<bool, StoreError> {
    let next_at = pending(&known).next_step().map(|(_, at)| at);
    obligations::put_off(tx, &Obligation { next_at, ..known })?;
    Ok(false)
}

/// Sends an event once more to who has it already; who has not taken it yet still has it before itself.
fn send_again(tx: &mut dyn Tx, said: &Event, known: Obligation, now: i64) -> Result<bool, StoreError> {
    if !known.acked {
        return put_off(tx, known);
    }
    let agent = known.id.agent;
    let bringing = Bringing { mentions: &known.mentions, supersedes: known.supersedes, sent: known.sent + 1 };
    let Some(id) = bring(tx, said, agent, known.attention, bringing, now)? else { return put_off(tx, known) };
    obligations::leave(tx, &known)?;
    let again = Obligation { id, sent_at: now, acked: false, ..known };
    put_off(tx, again)?;
    Ok(true)
}

fn bring(
    tx: &mut dyn Tx,
    said: &Event,
    agent: AgentId,
    attention: Attention,
    bringing: Bringing<'_>,
    now: i64,
) -> Result<Option<DeliveryId>, StoreError> {
    let act =
        Act { conversation: said.conversation, author: said.author, event: said.id, trace: said.trace, now };
    let id = DeliveryId { agent, seq: tx.next_seq(agent.0)? };
    let way = conversation::deliver(tx, &act, id, EntryKind::Chat, attention, bringing)?;
    Ok(way.map(|_| id))
}

/// What was not answered is asked no longer, and the lead, or else the owner, is told: by an event of its own, which names the
/// original. An agent is given it; a person finds it in the conversation. Who asked knows already.
fn escalate(
    tx: &mut dyn Tx,
    said: &Event,
    silent: &Member,
    known: Obligation,
    event: EventId,
    now: i64,
) -> Result<bool, StoreError> {
    let was_escalation = known.attention.reason == Reason::Escalation;
    // The conversation first, then the smaller inbox, as everywhere.
    tx.lock(said.conversation.0)?;
    let place = conversations::by_id(tx, said.conversation)?.filter(|place| place.archived_at.is_none());
    let to = match &place {
        None => None,
        Some(place) => {
            let lead = members::lead(tx, place.id)?.map(|lead| lead.principal);
            let to = escalate_to(&silent.principal, was_escalation, lead, Some(place.owner));
            to.filter(|to| *to != said.author).map_or(Ok(None), |to| members::of(tx, place.id, to))?
        }
    };
    let agents = [silent.principal.agent(), to.as_ref().and_then(|to| to.principal.agent())];
    conversation::hold_inboxes(tx, agents.into_iter().flatten())?;
    let knocks = shows(tx, known.id.agent, now)?.notify;
    let attention = downgraded(known.attention);
    let known = Obligation { escalated_at: Some(now), attention, ..known };
    let sent = if knocks { send_again(tx, said, known, now)? } else { put_off(tx, known)? };
    let Some(to) = to else { return Ok(sent) };
    let original = if was_escalation { said.target.unwrap_or(said.id) } else { said.id };
    let text = format!("{} has not answered in time; it goes to {} now", silent.handle, to.handle);
    let body = Masked::new(Map::from_iter([
        ("content".to_owned(), json!(text)),
        ("escalates".to_owned(), json!(original.to_string())),
        ("to".to_owned(), json!([to.handle])),
    ]));
    let conversation = said.conversation;
    let act = Act { conversation, author: said.author, event, trace: said.trace, now };
    conversation::tell(tx, &act, EventKind::Escalation, said.thread, Some(original), &body)?;
    if let Principal::Agent(agent) = to.principal {
        let told = Event { id: event, ..said.clone() };
        let mentions = format!("agent:{}", to.handle);
        let bringing = Bringing { mentions: &mentions, ..Bringing::FIRST };
        bring(tx, &told, agent, escalation(), bringing, now)?;
    }
    Ok(true)
}

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
        if let Principal::Agent(agent) = before.holder {
            disposing::record_passively(tx, event, agent, Cause::ClaimEnded, now)?;
        }
    }
    let Some(said) = conversations::event_by_id(tx, event)? else { return Ok(false) };
    match at.open(now) {
        // It is somebody's; or it was dealt with, and nobody is asked again.
        Open::Held(_) => Ok(false),
        _ if at.held.is_some_and(|held| held.state == ClaimState::Resolved) => Ok(false),
        Open::ToOne(first, _) => {
            let Some(known) = obligations::of(tx, event, first, now)? else { return Ok(false) };
            if known.disposition.is_some() {
                return Ok(false);
            }
            Ok(send_again(tx, &said, known, now)?)
        }
        Open::ToAll => open_to_all(tx, &said, at, now),
    }
}

/// Nobody took what was offered: those of the role that know knocks are knocked; if none does, the next one is shown all of it.
fn open_to_all(tx: &mut dyn Tx, said: &Event, claim: Claim, now: i64) -> Result<bool, Error> {
    let Some(given) = first_given(tx, said, claim, now)? else { return Ok(false) };
    // Nor what was answered: a change of it is for whoever did so. What goes on in a thread is for who takes part.
    let is_settled = given.disposition == Some(Disposition::Responded);
    if is_settled || given.attention.reason == Reason::ThreadParticipation {
        return Ok(false);
    }
    // What was taken back is asked of nobody else.
    if given.disposition == Some(Disposition::Superseded)
        && obligations::current(tx, said.id, given.id.agent)? == Some(said.id)
    {
        return Ok(false);
    }
    let Obligation { mentions, attention: asked_first, .. } = given;
    let attention = Attention {
        directedness: Directedness::ToMyRole,
        policy: Policy::MayRespond,
        mode: Mode::Notify,
        reason: Reason::RoleMention,
        priority: asked_first.priority,
        deadline_ms: asked_first.deadline_ms.or(Some(chorus_attention::DEFAULT_DEADLINE_MS)),
    };
    let bringing = Bringing { mentions: &mentions, ..Bringing::FIRST };
    let mut asked = vec![];
    for role in mentions.split(' ').filter_map(|one| one.strip_prefix("role:")) {
        asked.extend(members::in_role(tx, said.conversation, role, MAX_KNOCKED)?);
    }
    let attention = if asked.is_empty() {
        asked.extend(owners_of_stream(tx, said)?);
        Attention { reason: Reason::StreamOwner, ..attention }
    } else {
        attention
    };
    let (mut rest, mut knows_knocks) = (vec![], BTreeSet::new());
    for member in asked {
        let Some(agent) = member.principal.agent().filter(|_| member.principal != said.author) else {
            continue;
        };
        if obligations::of(tx, said.id, agent, now)?.is_some() {
            continue;
        }
        if shows(tx, agent, now)?.notify {
            knows_knocks.insert(agent);
        } else if let Some(agent) = directory::by_id(tx, agent)? {
            rest.push(agent);
        }
    }
    // The smaller inbox first, as everywhere.
    let mut knocked = false;
    for agent in knows_knocks {
        knocked |= bring(tx, said, agent, attention, bringing, now)?.is_some();
    }
    if knocked {
        return Ok(true);
    }
    let Some(next) = choose(tx, &rest, now)? else { return Ok(false) };
    let shown = Attention { mode: Mode::Buffered, ..attention };
    if bring(tx, said, next, shown, bringing, now)?.is_none() {
        return Ok(false);
    }
    let take = Request::Take { ttl_ms: None };
    claiming::ask_and_dispose(tx, (said.conversation, said.id), next.into(), take, now)?;
    Ok(true)
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

/// What is due of both, some of it.
pub fn find(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<Due, StoreError> {
    Ok(Due { given: obligations::due(tx, now, limit)?, claims: claims::due(tx, now, limit)? })
}

/// What time has come for.
#[derive(Debug, Clone, Default)]
pub struct Due {
    pub given: Vec<(EventId, AgentId)>,
    pub claims: Vec<(EventId, ConversationId)>,
}
