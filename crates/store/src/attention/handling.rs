//! Loads the relation of one agent or person to one message.

use super::stored_message::StoredMessage;
use crate::conversations::{self, Conversation, Event};
use crate::members::{self, Member};
use crate::{StoreError, Tx, claims, log, obligations, work_streams};
use chorus_attention::claims::{Claim, Request};
use chorus_attention::deadline::LONGEST_TASK_MS;
use chorus_attention::disposition::Cause;
use chorus_attention::obligation::Obligation;
use chorus_attention::plan::{Candidate, Handling, HandlingFacts, HandlingRequest, meaning_of_found};
use chorus_attention::{AuthorKind, Event as AttentionEvent};
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{AgentId, EventId, Principal};
use chorus_protocol::words::{EventKind, Signal};

/// The most versions and escalations of one message that are loaded for one agent.
const MAX_VERSIONS: i64 = 50;
/// The member of a message that says that the loop guard stopped it.
const LOOP_NOTE: &str = "loop_guard";

/// Returns the claim on an event, if there is one.
pub(super) fn claim_on(tx: &mut dyn Tx, event: Option<EventId>) -> Result<Option<Claim>, StoreError> {
    let Some(event) = event else { return Ok(None) };
    Ok(claims::of(tx, event)?.map(|row| row.claim()))
}

pub(super) fn kind_of(author: Principal) -> AuthorKind {
    match author {
        Principal::Account(_) => AuthorKind::Human,
        Principal::Agent(_) => AuthorKind::Agent,
    }
}

/// Loads the facts of an act of an agent or a person on a message.
pub fn load_handling(
    tx: &mut dyn Tx,
    place: &Conversation,
    member: &Member,
    said: &Event,
    request: HandlingRequest,
    now: i64,
) -> Result<HandlingFacts, StoreError> {
    let claim = claim_on(tx, Some(said.id))?;
    let takes_on = match request {
        HandlingRequest::Claim(Request::Take { .. }) | HandlingRequest::Resolve => true,
        HandlingRequest::React(signal) => matches!(signal, Signal::Working | Signal::Claimed),
        HandlingRequest::Claim(Request::Release | Request::Resolve)
        | HandlingRequest::Defer
        | HandlingRequest::PersonReacts { .. }
        | HandlingRequest::Work
        | HandlingRequest::Record { .. }
        | HandlingRequest::RecordPassively { .. } => false,
    };
    let handling = if takes_on || request == HandlingRequest::Defer {
        handling_of(tx, place, member, said, claim, now)?
    } else {
        relation(tx, member.principal, said, claim, now)?
    };
    let is_author = said.author == member.principal;
    let owners_were_asked =
        takes_on && !is_author && handling.is_for_nobody() && were_owners_asked(tx, said)?;
    let work_ends_at = if takes_on { work_ends_at(tx, place, &handling)? } else { None };
    Ok(HandlingFacts { handling, request, is_author, owners_were_asked, work_ends_at })
}

/// Loads the facts of an agent that works on an event; `None` if it was not given the event, or has left the conversation. Holds
/// the conversation.
pub fn load_work(
    tx: &mut dyn Tx,
    event: EventId,
    agent: AgentId,
    now: i64,
) -> Result<Option<HandlingFacts>, StoreError> {
    let Some(known) = obligations::of(tx, event, agent, now)? else { return Ok(None) };
    tx.lock(known.conversation.into())?;
    let message = known.message();
    let Some(place) = conversations::by_id(tx, known.conversation)? else { return Ok(None) };
    if members::of(tx, place.id, agent.into())?.is_none() {
        return Ok(None);
    }
    let handling = Handling {
        who: agent.into(),
        conversation: place.id,
        message,
        given: given(tx, message, agent, now)?,
        claim: claim_on(tx, Some(message))?,
        found: None,
    };
    let work_ends_at = work_ends_at(tx, &place, &handling)?;
    let request = HandlingRequest::Work;
    Ok(Some(HandlingFacts { handling, request, is_author: false, owners_were_asked: false, work_ends_at }))
}

/// Returns the time at which an agent's work on a message has to be done, if it has begun.
fn work_ends_at(
    tx: &mut dyn Tx,
    place: &Conversation,
    handling: &Handling,
) -> Result<Option<i64>, StoreError> {
    let Some(agent) = handling.who.agent() else { return Ok(None) };
    let begun_at = obligations::begun_at(tx, handling.message, agent)?;
    Ok(begun_at.map(|begun_at| begun_at + place.longest_task_ms.unwrap_or(LONGEST_TASK_MS)))
}

/// Loads the facts of something that happened to one event that an agent was given; `None` if it was not given the event.
pub fn load_record(
    tx: &mut dyn Tx,
    event: EventId,
    agent: AgentId,
    request: HandlingRequest,
    now: i64,
) -> Result<Option<HandlingFacts>, StoreError> {
    let Some(given) = obligations::of(tx, event, agent, now)? else { return Ok(None) };
    let (HandlingRequest::Record { cause, .. } | HandlingRequest::RecordPassively { cause }) = request else {
        return Err(StoreError::unexpected("not a report on one event"));
    };
    let claim = if gives_up(&given, cause, now) { claim_on(tx, Some(given.message()))? } else { None };
    let handling = Handling {
        who: agent.into(),
        conversation: given.conversation,
        message: given.message(),
        given: vec![given],
        claim,
        found: None,
    };
    let (is_author, owners_were_asked, work_ends_at) = (false, false, None);
    Ok(Some(HandlingFacts { handling, request, is_author, owners_were_asked, work_ends_at }))
}

fn gives_up(given: &Obligation, cause: Cause, now: i64) -> bool {
    let after = given.after(cause, None, now).ok().flatten();
    after.is_some_and(|after| after.gives_up())
}

/// Loads an agent's versions of a message and the claim on it, without what the message means for an agent that has no version.
fn relation(
    tx: &mut dyn Tx,
    who: Principal,
    said: &Event,
    claim: Option<Claim>,
    now: i64,
) -> Result<Handling, StoreError> {
    let given = match who.agent() {
        Some(agent) => given(tx, said.id, agent, now)?,
        None => vec![],
    };
    let (conversation, message) = (said.conversation, said.id);
    Ok(Handling { who, conversation, message, given, claim, found: None })
}

/// Loads the same, with what the message means for an agent that was not given it.
pub(super) fn handling_of(
    tx: &mut dyn Tx,
    place: &Conversation,
    member: &Member,
    said: &Event,
    claim: Option<Claim>,
    now: i64,
) -> Result<Handling, StoreError> {
    let handling = relation(tx, member.principal, said, claim, now)?;
    let is_found = handling.who.agent().is_some() && handling.given.is_empty();
    let found = is_found.then(|| found(tx, place, member, said, claim, now)).transpose()?;
    Ok(Handling { found, ..handling })
}

/// Loads the versions and escalations of a message that an agent was given, the last one first.
pub(super) fn given(
    tx: &mut dyn Tx,
    message: EventId,
    agent: AgentId,
    now: i64,
) -> Result<Vec<Obligation>, StoreError> {
    let mut given = vec![];
    for name in obligations::names(tx, message, agent, MAX_VERSIONS)? {
        given.extend(obligations::of(tx, name, agent, now)?);
    }
    Ok(given)
}

/// Returns what a message means for an agent that was not given it.
pub fn load_found(
    tx: &mut dyn Tx,
    place: &Conversation,
    member: &Member,
    said: &Event,
    now: i64,
) -> Result<Attention, StoreError> {
    let claim = claim_on(tx, Some(said.id))?;
    found(tx, place, member, said, claim, now)
}

fn found(
    tx: &mut dyn Tx,
    conversation: &Conversation,
    member: &Member,
    said: &Event,
    claim: Option<Claim>,
    now: i64,
) -> Result<Attention, StoreError> {
    let Some(agent) = member.principal.agent() else {
        return Err(StoreError::unexpected("a message asks nothing of people"));
    };
    let body = StoredMessage::read(&said.body)?;
    let names = body.names();
    let is_named = |name: &str| names.iter().any(|other| other.eq_ignore_ascii_case(name));
    // The member that had the handle when the message was posted was named, not the one that has it now.
    let called_since = members::called_since(tx, conversation.id, member.principal)?;
    let mut candidate = Candidate {
        named: is_named(&member.handle) && said.seq > called_since,
        in_named_role: member.roles.iter().any(|role| is_named(role)),
        owns_stream: owns_stream(tx, said.id, agent)?,
        ..Candidate::new(agent, member.handle.clone())
    };
    if let Some(thread) = said.thread {
        for other in members::agents_in_thread(tx, conversation.id, thread)? {
            if other.member.principal == member.principal {
                candidate.owns_thread = other.began_it;
                candidate.participates = other.spoke;
                candidate.last_in_thread = other.is_last;
            }
        }
    }
    // A message that the loop guard stopped is answered by nobody until a person speaks.
    let damped = body.has(LOOP_NOTE) && !log::person_spoke_after(tx, said.conversation, said.seq)?;
    let event = AttentionEvent {
        conversation: conversation.kind,
        in_thread: said.thread.is_some(),
        author: kind_of(said.author),
        author_leads: conversation.owner == said.author
            || members::of(tx, conversation.id, said.author)?.is_some_and(|author| author.lead),
        text: body.text(),
        names_somebody: !names.is_empty(),
        damped,
        ..AttentionEvent::EMPTY
    };
    let holds_claim = claim.is_some_and(|claim| claim.holder(now) == Some(agent.into()));
    Ok(meaning_of_found(body.declared(event), candidate, holds_claim))
}

/// Returns `true` if an agent owns the work stream that an event belongs to.
fn owns_stream(tx: &mut dyn Tx, event: EventId, agent: AgentId) -> Result<bool, StoreError> {
    let Some(stream) = work_streams::of_event(tx, event)? else { return Ok(false) };
    Ok(work_streams::part_of(tx, stream, agent.into())?.is_some_and(|part| part.owns))
}

/// Returns the agents that own the work stream of a message, as long as the stream is open.
pub(super) fn owners_of_stream(tx: &mut dyn Tx, said: &Event) -> Result<Vec<Member>, StoreError> {
    let Some(stream) = work_streams::of_event(tx, said.id)? else { return Ok(vec![]) };
    if work_streams::by_id(tx, stream)?.is_none_or(|stream| stream.closed_at.is_some()) {
        return Ok(vec![]);
    }
    let agents = work_streams::agents_in(tx, stream, said.conversation)?;
    Ok(agents.into_iter().filter(|(_, part)| part.owns).map(|(member, _)| member).collect())
}

/// Returns `true` if a message was given to an owner of its work stream.
fn were_owners_asked(tx: &mut dyn Tx, said: &Event) -> Result<bool, StoreError> {
    for owner in owners_of_stream(tx, said)?.into_iter().filter_map(|owner| owner.principal.agent()) {
        if obligations::current(tx, said.id, owner)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the id by which an agent was given last the message that it names.
pub fn newest_version(tx: &mut dyn Tx, named: EventId, agent: AgentId) -> Result<EventId, StoreError> {
    let mut message = named;
    while let Some(said) = conversations::event_by_id(tx, message)?
        && matches!(said.kind, EventKind::Edit | EventKind::Escalation)
        && let Some(about) = said.target
    {
        message = about;
    }
    Ok(obligations::current(tx, message, agent)?.unwrap_or(named))
}
