//! Whether an agent may answer an event: what was decided for it, and whose claim it is.
//!
//! What was decided is kept with what an agent was given. Of what it only found it is decided now, by the same rules: to see
//! something is no reason to answer it. What an agent says of its own accord, and what people say, is not asked about.

use super::deciding::{Known, decide_each};
use super::{claiming, disposing, loop_guard, offering};
use crate::error::{Error, Refused};
use chorus_attention::capabilities::Capabilities;
use chorus_attention::claims::{Claim, Request};
use chorus_attention::disposition::{Cause, PolicyForbidden};
use chorus_attention::outbound::{self, Refusal, Reply};
use chorus_attention::{AuthorKind, Event, classify};
use chorus_protocol::attention::Attention;
use chorus_protocol::code::Code;
use chorus_protocol::ids::{AgentId, EventId, Principal};
use chorus_protocol::mentions::mentions;
use chorus_protocol::words::{
    ClaimState, ConversationKind, Directedness, Disposition, EventKind, Intent, Policy, Priority, Reason,
};
use chorus_store::conversation::{Candidate, Draft, DraftKind};
use chorus_store::conversations::{self, Conversation};
use chorus_store::members::{self, Member};
use chorus_store::{StoreError, Tx, obligations, work_streams};
use serde_json::{Value, json};

/// An agent's answer, that was let through.
#[derive(Debug, Clone, Copy)]
pub struct Answer {
    agent: AgentId,
    event: EventId,
}

/// Refuses a draft in which an agent answers what it may not, and claims for it what it answers.
pub fn check(tx: &mut dyn Tx, draft: &Draft<'_>) -> Result<Option<Answer>, Error> {
    let Some((answer, claim)) = look(tx, draft)? else { return Ok(None) };
    if let Some(claim) = claim {
        claiming::keep(tx, draft.act.conversation, answer.event, claim, draft.act.now)?;
    }
    Ok(Some(answer))
}

/// Refuses the same, and writes nothing: what it answers, and the claim that it would take.
pub fn look(tx: &mut dyn Tx, draft: &Draft<'_>) -> Result<Option<(Answer, Option<Claim>)>, Error> {
    let (DraftKind::Message(answered), Some(agent)) = (draft.kind, draft.act.author.agent()) else {
        return Ok(None);
    };
    let now = draft.act.now;
    if let Some(signal) = draft.answers_signal {
        return check_signal(tx, draft, (agent, signal), now);
    }
    let Some(event) = answered else {
        check_thread(tx, draft, agent)?;
        return Ok(None);
    };
    let Some(answered) = conversations::event_by_id(tx, event)? else { return Ok(None) };
    if answered.author == draft.act.author {
        return Ok(None);
    }
    let answered_as = draft.answers_as.unwrap_or(event);
    if let Some(newest) = newest(tx, (event, answered_as), agent, now)? {
        return Err(superseded(newest));
    }
    let Some(member) = members::of(tx, draft.act.conversation, agent.into())? else { return Ok(None) };
    let attention = meaning(tx, &draft.conversation, &member, &answered, now)?;
    let text = draft.body.text("content");
    let named = attention.directedness == Directedness::ToMe;
    let claim = claiming::of(tx, event)?;
    let dealt_with = claim.and_then(|claim| claim.held).filter(|held| held.state == ClaimState::Resolved);
    let reply = Reply {
        policy: attention.policy,
        named,
        needs_claim: !named && attention.reason == Reason::RoleMention,
        answered: dealt_with.is_some_and(|held| held.holder != agent.into()),
        claim: match claim {
            Some(claim) => Some(claim),
            None => answered.thread.map_or(Ok(None), |thread| claiming::of(tx, thread))?,
        },
        text,
        mentions: draft.names_somebody,
    };
    match outbound::check(now, agent.into(), &reply) {
        Ok(claim) => Ok(Some((Answer { agent, event }, claim))),
        Err(refusal) => Err(refused(tx, draft, refusal)?),
    }
}

/// Refuses an answer to a reaction that is not to be answered. It is nobody else's, so there is nothing to claim.
fn check_signal(
    tx: &mut dyn Tx,
    draft: &Draft<'_>,
    (agent, event): (AgentId, EventId),
    now: i64,
) -> Result<Option<(Answer, Option<Claim>)>, Error> {
    let Some(given) = obligations::of(tx, event, agent, now)? else { return Ok(None) };
    let reply = Reply {
        policy: given.attention.policy,
        named: true,
        needs_claim: false,
        answered: false,
        claim: None,
        text: draft.body.text("content"),
        mentions: draft.names_somebody,
    };
    match outbound::check(now, agent.into(), &reply) {
        Ok(_) => Ok(Some((Answer { agent, event }, None))),
        Err(refusal) => Err(refused(tx, draft, refusal)?),
    }
}

/// What an agent was given in place of the version of a message that it names; nothing, if that one stands. Who was never given a
/// change under a name of its own answers the message as it stands.
fn newest(
    tx: &mut dyn Tx,
    (message, named): (EventId, EventId),
    agent: AgentId,
    now: i64,
) -> Result<Option<EventId>, StoreError> {
    let Some(newest) = obligations::current(tx, message, agent)?.filter(|newest| *newest != named) else {
        return Ok(None);
    };
    let known = obligations::of(tx, named, agent, now)?;
    let is_superseded = known.is_some_and(|known| known.disposition == Some(Disposition::Superseded));
    Ok(is_superseded.then_some(newest))
}

/// The name by which an agent was given last what it names.
pub(crate) fn stands_as(tx: &mut dyn Tx, named: EventId, agent: AgentId) -> Result<EventId, StoreError> {
    let mut message = named;
    while let Some(said) = conversations::event_by_id(tx, message)?
        && matches!(said.kind, EventKind::Edit | EventKind::Escalation)
        && let Some(about) = said.target
    {
        message = about;
    }
    Ok(obligations::current(tx, message, agent)?.unwrap_or(named))
}

fn superseded(newest: EventId) -> Error {
    let what =
        format_args!("the message was changed since: read {newest}, which took its place, and answer that");
    let details = json!({"refusal": "superseded", "newest": newest.to_string()});
    Error::new(Code::PolicyForbidden, what).details(details).refused(Refused::Superseded)
}

fn refused(tx: &mut dyn Tx, draft: &Draft<'_>, refusal: Refusal) -> Result<Error, StoreError> {
    match refusal {
        Refusal::Claim(refusal) => claiming::refused(tx, draft.act.conversation, refusal),
        refusal => Ok(Error::new(Code::PolicyForbidden, refusal).refused(Refused::Policy)),
    }
}

/// Refuses what an agent says in the thread of what another holds, or what it may not answer: to leave out what it answers makes
/// it no less an answer. Who has spoken there, or was asked there, takes part.
fn check_thread(tx: &mut dyn Tx, draft: &Draft<'_>, agent: AgentId) -> Result<(), Error> {
    let (conversation, now) = (draft.act.conversation, draft.act.now);
    let Some(thread) = draft.thread.filter(|_| draft.conversation.kind == ConversationKind::Channel) else {
        return Ok(());
    };
    let (Some(began), Some(member)) =
        (conversations::event_by_id(tx, thread)?, members::of(tx, conversation, agent.into())?)
    else {
        return Ok(());
    };
    let takes_part = began.author == draft.act.author
        || obligations::asked_in_thread(tx, thread, agent)?
        || members::agents_in_thread(tx, conversation, thread)?
            .iter()
            .any(|other| other.member.principal == member.principal);
    if takes_part {
        return Ok(());
    }
    let attention = meaning(tx, &draft.conversation, &member, &began, now)?;
    let reply = Reply {
        // What names nobody anybody may speak about, as anybody may claim it.
        policy: match attention.reason {
            Reason::AddressedToOther => attention.policy,
            _ => Policy::MayRespond,
        },
        named: attention.directedness == Directedness::ToMe,
        needs_claim: false,
        claim: claiming::of(tx, thread)?,
        answered: false,
        text: "",
        mentions: false,
    };
    match outbound::check(now, agent.into(), &reply) {
        Ok(_) => Ok(()),
        Err(refusal) => Err(refused(tx, draft, refusal)?),
    }
}

/// The answer was posted: that is what became of the event.
pub fn remember(tx: &mut dyn Tx, reply: Option<Answer>, now: i64) -> Result<(), Error> {
    let Some(Answer { agent, event }) = reply else { return Ok(()) };
    disposing::record_of_message(tx, event, agent, Cause::Replied, None, now)?;
    // Whoever held the claim on it is done.
    claiming::ask_as_holder(tx, event, agent.into(), Request::Resolve, now)
}

/// A person answers what it has taken on, by naming it or in the thread that it began: then that is dealt with.
pub fn remember_person(tx: &mut dyn Tx, draft: &Draft<'_>) -> Result<(), Error> {
    let (DraftKind::Message(answered), Principal::Account(_)) = (draft.kind, draft.act.author) else {
        return Ok(());
    };
    let mut answered: Vec<_> = answered.into_iter().chain(draft.thread).collect();
    answered.dedup();
    let (who, now) = (draft.act.author, draft.act.now);
    answered.into_iter().try_for_each(|event| claiming::ask_as_holder(tx, event, who, Request::Resolve, now))
}

/// What an event means for an agent: as it was decided when it was given it, or else by the same rules now. Who holds the claim
/// on what is for nobody may answer it.
pub fn meaning(
    tx: &mut dyn Tx,
    conversation: &Conversation,
    member: &Member,
    said: &conversations::Event,
    now: i64,
) -> Result<Attention, StoreError> {
    let Some(agent) = member.principal.agent() else {
        return Err(StoreError::Unexpected("people are not told what to answer".into()));
    };
    let given = obligations::current(tx, said.id, agent)?.unwrap_or(said.id);
    match obligations::of(tx, given, agent, now)? {
        Some(given) => Ok(given.attention),
        None => meaning_of_found(tx, conversation, (agent, member), said, now),
    }
}

/// The same of what an agent was not given.
pub fn meaning_of_found(
    tx: &mut dyn Tx,
    conversation: &Conversation,
    (agent, member): (AgentId, &Member),
    said: &conversations::Event,
    now: i64,
) -> Result<Attention, StoreError> {
    let mut attention = decide_now(tx, conversation, member, agent, said)?;
    let holds = claiming::holder(tx, said.id, now)? == Some(agent.into());
    if holds && attention.policy == Policy::MustNotRespond && attention.directedness == Directedness::Ambient
    {
        attention.policy = Policy::MayRespond;
    }
    Ok(attention)
}

/// Refuses an agent that takes on, or ends, what is for others: for whom it names, for a role, or for the owners of a work stream that
/// were asked. What is for nobody is for whoever takes it; people are not asked about.
pub fn may_take_on(
    tx: &mut dyn Tx,
    (conversation, member): (&Conversation, &Member),
    said: &conversations::Event,
    now: i64,
) -> Result<(), Error> {
    // Whoever asked may say that it is done.
    if said.author == member.principal {
        return Ok(());
    }
    let meant = meaning(tx, conversation, member, said, now)?;
    if meant.policy != Policy::MustNotRespond {
        return Ok(());
    }
    let is_for_nobody = meant.directedness == Directedness::Ambient || meant.reason == Reason::AgentNoTask;
    if is_for_nobody && !offering::asks_owners(tx, said)? {
        return Ok(());
    }
    Err(disposing::forbidden(PolicyForbidden { policy: meant.policy }))
}

/// Whether the work stream is its that something was said in.
fn owns_stream(tx: &mut dyn Tx, event: EventId, agent: AgentId) -> Result<bool, StoreError> {
    let Some(stream) = work_streams::of_event(tx, event)? else { return Ok(false) };
    Ok(work_streams::part_of(tx, stream, agent.into())?.is_some_and(|part| part.owns))
}

fn decide_now(
    tx: &mut dyn Tx,
    conversation: &Conversation,
    member: &Member,
    agent: AgentId,
    answered: &conversations::Event,
) -> Result<Attention, StoreError> {
    let said: Value =
        serde_json::from_str(&answered.body).map_err(|error| StoreError::Unexpected(error.into()))?;
    let word = |name: &str| said[name].as_str();
    let text = word("content").unwrap_or_default();
    let beside = said["to"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let names: Vec<&str> = mentions(text).into_iter().chain(beside).collect();
    let is_named = |name: &str| names.iter().any(|other| other.eq_ignore_ascii_case(name));
    // Whoever was called so when it was said was named, not who is called so now.
    let called_since = members::called_since(tx, conversation.id, member.principal)?;
    let mut candidate = Candidate {
        agent,
        handle: member.handle.clone(),
        named: is_named(&member.handle) && answered.seq > called_since,
        in_named_role: member.roles.iter().any(|role| is_named(role)),
        owns_thread: false,
        participates: false,
        last_in_thread: false,
        said_target: false,
        owns_stream: owns_stream(tx, answered.id, agent)?,
    };
    if let Some(thread) = answered.thread {
        for other in members::agents_in_thread(tx, conversation.id, thread)? {
            if other.member.principal == member.principal {
                candidate.owns_thread = other.began_it;
                candidate.participates = other.spoke;
                candidate.last_in_thread = other.is_last;
            }
        }
    }
    let event = Event {
        conversation: conversation.kind,
        in_thread: answered.thread.is_some(),
        author: match answered.author {
            Principal::Account(_) => AuthorKind::Human,
            Principal::Agent(_) => AuthorKind::Agent,
        },
        author_leads: conversation.owner == answered.author
            || members::of(tx, conversation.id, answered.author)?.is_some_and(|author| author.lead),
        text,
        names_somebody: !names.is_empty(),
        intent: word("intent").and_then(Intent::parse),
        directedness: word("directedness").and_then(Directedness::parse),
        priority: word("priority").and_then(Priority::parse),
        deadline_ms: said["deadline_ms"].as_i64(),
        damped: loop_guard::stands(tx, answered, &said)?,
        ..Event::EMPTY
    };
    let known = Known { shows: vec![Capabilities::default()], ..Known::default() };
    let decided = decide_each(&classify(event), &[candidate], &known);
    decided
        .first()
        .map(|one| one.attention)
        .ok_or_else(|| StoreError::Unexpected("nothing was decided".into()))
}
