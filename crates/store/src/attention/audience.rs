//! Loads the facts of a message and of a reaction: the candidates, and the answered message.

use super::handling::{claim_on, handling_of, kind_of};
use super::stop::load_stop_of_message;
use super::stored_message::StoredMessage;
use crate::conversation::{Draft, DraftKind};
use crate::conversations::{self, Conversation, ConversationKind};
use crate::loop_guards::ExchangeLifetime;
use crate::{StoreError, Tx, blocks, directory, inboxes, log, loop_guards, members, obligations};
use chorus_attention::capabilities::Abilities;
use chorus_attention::claims::Claim;
use chorus_attention::loop_guard::{DEFAULT_TURNS, LONGEST_TURNS, RECENT};
use chorus_attention::plan::{
    Audience, Candidate, ExchangeFacts, ExchangePartner, Facts, MessageFacts, ReactionFacts, ReplyFacts,
    ResponderFacts, StopFacts, first_to_ask,
};
use chorus_attention::{Event, Happening, classify};
use chorus_protocol::ids::{AgentId, ConversationId, EventId, Principal};
use chorus_protocol::words::{Directedness, Intent, Priority, Signal};

/// An agent's load counts up to this number.
const MAX_LOAD: i64 = 1000;
/// The most bytes of a message that is nothing but a stop word, with names.
const MAX_STOP_BYTES: usize = 400;
/// An exchange in which no agent woke the other for this time is over.
const EXCHANGE_MS: i64 = 60 * 60 * 1000;

/// Loads the facts of a message that is checked and not posted now.
pub fn load_check<'a>(tx: &mut dyn Tx, draft: &'a Draft<'_>) -> Result<Facts<'a>, StoreError> {
    let thread_claim = claim_on(tx, draft.thread)?;
    let reply = load_reply(tx, draft, thread_claim)?;
    let audience = audience(draft, event_of(draft)?, vec![], thread_claim);
    Ok(Facts::Message(Box::new(MessageFacts { audience, reply, stop: None, only_checked: true })))
}

pub(super) fn load_message<'a>(
    tx: &mut dyn Tx,
    draft: &'a Draft<'_>,
) -> Result<MessageFacts<'a>, StoreError> {
    let now = draft.act.now;
    let thread_claim = claim_on(tx, draft.thread)?;
    let reply = load_reply(tx, draft, thread_claim)?;
    let event = event_of(draft)?;
    let stop = may_stop(event).then(|| load_stop_of_message(tx, draft)).transpose()?;
    let candidates = with_stopped(draft.candidates.clone(), stop.as_ref());
    let candidates = load_candidates(tx, draft, candidates)?;
    let audience = audience(draft, event, candidates, thread_claim);
    let mut facts = MessageFacts { audience, reply, stop, only_checked: false };
    let partners = facts.partners(now);
    if !partners.is_empty() {
        facts.audience.exchange = Some(load_exchange(tx, draft, &partners)?);
    }
    Ok(facts)
}

/// Returns `true` for a message that stops work if its author may: one that declares it, or that is nothing but a stop word.
fn may_stop(event: Event<'_>) -> bool {
    match event.intent {
        Some(intent) => intent == Intent::Cancellation,
        None => event.text.len() <= MAX_STOP_BYTES && classify(event).intent == Intent::Cancellation,
    }
}

/// Marks the agents whose work a message stops. They are candidates whatever else the message has to do with them.
fn with_stopped(mut candidates: Vec<Candidate>, stop: Option<&StopFacts>) -> Vec<Candidate> {
    for work in stop.into_iter().flat_map(StopFacts::stopped) {
        let agent = work.obligation.id.agent;
        if let Some(candidate) = candidates.iter_mut().find(|candidate| candidate.agent == agent) {
            candidate.is_stopped = true;
        } else {
            let candidate = Candidate::new(agent, work.handle.clone());
            candidates.push(Candidate { is_stopped: true, ..candidate });
        }
    }
    candidates
}

pub(super) fn audience<'a>(
    draft: &'a Draft<'_>,
    event: Event<'a>,
    candidates: Vec<Candidate>,
    thread_claim: Option<Claim>,
) -> Audience<'a> {
    Audience {
        event,
        conversation: draft.act.conversation,
        given: draft.given().event,
        author: draft.act.author,
        thread: draft.thread,
        mentions: draft.mentions.clone(),
        candidates,
        thread_claim,
        exchange: None,
    }
}

/// Returns a draft of a message or an edit as the engine reads it.
pub(super) fn event_of<'a>(draft: &'a Draft<'_>) -> Result<Event<'a>, StoreError> {
    let body = &*draft.body;
    let answers = answered_intent(draft)?;
    Ok(Event {
        happening: Happening::Message,
        conversation: draft.conversation.kind,
        in_thread: draft.thread.is_some(),
        author: kind_of(draft.act.author),
        author_leads: draft.author_leads,
        text: body.text("content"),
        names_somebody: draft.names_somebody,
        intent: Intent::parse(body.text("intent")),
        directedness: Directedness::parse(body.text("directedness")),
        priority: Priority::parse(body.text("priority")),
        deadline_ms: body.integer("deadline_ms"),
        answers,
        damped: false,
    })
}

/// Returns the intent of the answered message. What one person asks another waits for no agent.
fn answered_intent(draft: &Draft<'_>) -> Result<Option<Intent>, StoreError> {
    let Some(answered) = &draft.answers else { return Ok(None) };
    if draft.act.author.agent().is_none() && answered.author.agent().is_none() {
        return Ok(None);
    }
    Ok(Some(StoredMessage::read(&answered.body)?.answered_intent()))
}

/// Returns `Some` if a message is for the author of a draft, with `true` if it waits for an answer.
pub(crate) fn waits_for_author(
    tx: &mut dyn Tx,
    draft: &Draft<'_>,
    said: &conversations::Event,
) -> Result<Option<bool>, StoreError> {
    let said = StoredMessage::read(&said.body)?;
    let waits = !matches!(
        said.answered_intent(),
        Intent::Chat
            | Intent::Thanks
            | Intent::Acknowledgement
            | Intent::Status
            | Intent::Progress
            | Intent::Log
    );
    Ok(is_for_author(tx, draft, &said)?.then_some(waits))
}

/// Returns the agreed abilities of an agent's harness. For an agent without a session, returns those of its
/// last session.
pub fn abilities(tx: &mut dyn Tx, agent: AgentId, now: i64) -> Result<Abilities, StoreError> {
    Ok(Abilities::of_words(inboxes::shows(tx, agent, now)?.as_deref()))
}

/// Loads each candidate's abilities, its block of the author and, if it may be asked first, its load.
pub(super) fn load_candidates(
    tx: &mut dyn Tx,
    draft: &Draft<'_>,
    mut candidates: Vec<Candidate>,
) -> Result<Vec<Candidate>, StoreError> {
    let now = draft.act.now;
    for candidate in &mut candidates {
        match inboxes::reachability(tx, candidate.agent, now)? {
            Some((words, has_blocks)) => {
                candidate.abilities = Abilities::of_words(words.as_deref());
                candidate.is_excluded =
                    has_blocks && blocks::keeps_out(tx, candidate.agent.into(), draft.act.author)?;
            }
            None => candidate.is_excluded = true,
        }
    }
    for place in first_to_ask(&candidates, draft.names_somebody, draft.thread.is_some()) {
        if let Some(candidate) = candidates.get_mut(place) {
            candidate.responder = load_responder(tx, candidate.agent, now)?;
        }
    }
    Ok(candidates)
}

/// Loads an agent's load. Returns `None` for a deleted agent.
pub(super) fn load_responder(
    tx: &mut dyn Tx,
    agent: AgentId,
    now: i64,
) -> Result<Option<ResponderFacts>, StoreError> {
    let Some(agent) = directory::by_id(tx, agent)? else { return Ok(None) };
    let (load, active_at_ms) = obligations::load(tx, agent.id, MAX_LOAD)?;
    let can_be_reached = agent.open_until > now
        || agent.harness.is_some()
        || agent.endpoint.is_some()
        || agent.working_connection().is_some();
    Ok(Some(ResponderFacts {
        is_available: can_be_reached && agent.disabled_at.is_none() && agent.paused_at.is_none(),
        load: u32::try_from(load).unwrap_or(u32::MAX),
        active_at_ms,
        address: agent.name,
    }))
}

/// Loads the facts about the message that a message answers.
fn load_reply(
    tx: &mut dyn Tx,
    draft: &Draft<'_>,
    thread_claim: Option<Claim>,
) -> Result<ReplyFacts, StoreError> {
    let (DraftKind::Message(answered), now) = (draft.kind, draft.act.now) else {
        return Ok(ReplyFacts::Nothing);
    };
    let Some(agent) = draft.act.author.agent() else {
        let mut claims = vec![];
        let answered = answered.filter(|answered| draft.thread != Some(*answered));
        claims.extend(answered.zip(claim_on(tx, answered)?));
        claims.extend(draft.thread.zip(thread_claim));
        return Ok(ReplyFacts::Person { person: draft.act.author, claims });
    };
    if let Some(signal) = draft.answers_signal {
        let given = obligations::of(tx, signal, agent, now)?;
        return Ok(given.map_or(ReplyFacts::Nothing, ReplyFacts::Signal));
    }
    let Some(event) = answered else { return load_thread(tx, draft, agent, thread_claim) };
    let Some(said) = draft.answers.as_ref().filter(|said| said.id == event) else {
        return Ok(ReplyFacts::Nothing);
    };
    if said.author == draft.act.author {
        return Ok(ReplyFacts::Nothing);
    }
    let claim = if draft.thread == Some(event) { thread_claim } else { claim_on(tx, Some(event))? };
    let claim_on_thread = match said.thread.filter(|_| claim.is_none()) {
        thread if thread == draft.thread => thread.and(thread_claim),
        thread => claim_on(tx, thread)?,
    };
    let answered = handling_of(tx, &draft.conversation, &draft.member, said, claim, now)?;
    let named_as = draft.answers_as.unwrap_or(event);
    Ok(ReplyFacts::Message { answered: Box::new(answered), named_as, thread_claim: claim_on_thread })
}

/// Loads the message that began the thread in which an agent speaks, unless the agent takes part: it began the thread, has spoken
/// there, or was asked there.
fn load_thread(
    tx: &mut dyn Tx,
    draft: &Draft<'_>,
    agent: AgentId,
    claim: Option<Claim>,
) -> Result<ReplyFacts, StoreError> {
    let thread = draft.thread.filter(|_| draft.conversation.kind == ConversationKind::Channel);
    let Some(thread) = thread.filter(|_| !draft.author_in_thread) else { return Ok(ReplyFacts::Nothing) };
    let Some(began) = conversations::event_by_id(tx, thread)? else { return Ok(ReplyFacts::Nothing) };
    if began.author == draft.act.author || obligations::asked_in_thread(tx, thread, agent)? {
        return Ok(ReplyFacts::Nothing);
    }
    let handling = handling_of(tx, &draft.conversation, &draft.member, &began, claim, draft.act.now)?;
    let meaning = handling.meaning();
    Ok(meaning.map_or(ReplyFacts::Nothing, |meaning| ReplyFacts::Thread {
        agent: agent.into(),
        meaning,
        claim,
    }))
}

/// Decides how long exchanges last. One that has reached its last turn goes on until a person speaks, except between two
/// agents alone, where no person can.
pub(super) fn exchange_lifetime(conversation: &Conversation, now: i64) -> ExchangeLifetime {
    let kept_turns = match conversation.kind {
        ConversationKind::Channel => LONGEST_TURNS.into(),
        ConversationKind::Dm => i64::MAX,
    };
    ExchangeLifetime { since: now - EXCHANGE_MS, kept_turns }
}

/// Loads the facts for the loop guard. `partners` are the agents that the author wakes.
pub(super) fn load_exchange(
    tx: &mut dyn Tx,
    draft: &Draft<'_>,
    partners: &[AgentId],
) -> Result<ExchangeFacts, StoreError> {
    let (conversation, now) = (draft.act.conversation, draft.act.now);
    let Some(author) = draft.act.author.agent() else { return Ok(ExchangeFacts::default()) };
    let mut recent = vec![];
    for message in log::last_messages(tx, conversation, draft.thread, RECENT as i64)? {
        // An edit is not a repetition of its own message.
        if Some(message.seq) != draft.changed_seq {
            let by_person = matches!(message.author, Principal::Account(_));
            recent.push((by_person, StoredMessage::read(&message.body)?.text().to_owned()));
        }
    }
    let mut exchange = ExchangeFacts { partners: vec![], recent, limit: turn_limit(tx, draft)? };
    let lifetime = exchange_lifetime(&draft.conversation, now);
    for &agent in partners {
        let known = loop_guards::of(tx, conversation, (author, agent), lifetime)?;
        let (turns, began_at) = known.map_or((0, now), |known| (known.turns, known.began_at));
        let mut partner = ExchangePartner { agent, turns, on_task: false };
        if exchange.find_loop(draft.body.text("content"), &partner).is_some() {
            partner.on_task = is_on_task(tx, conversation, (author, agent), began_at)?;
        }
        exchange.partners.push(partner);
    }
    Ok(exchange)
}

/// Returns the number of turns that agents may take among themselves in a conversation, or `None` if its owner
/// turned the guard off. The owner may relax the limit for its own agents only, because other owners did not
/// agree to pay.
fn turn_limit(tx: &mut dyn Tx, draft: &Draft<'_>) -> Result<Option<u32>, StoreError> {
    let set = match draft.conversation.loop_turns.map(u32::try_from) {
        None | Some(Err(_)) => return Ok(Some(DEFAULT_TURNS)),
        Some(Ok(turns)) => Some(turns).filter(|turns| *turns > 0),
    };
    let is_strict = set.is_some_and(|turns| turns <= DEFAULT_TURNS);
    Ok(if is_strict || are_all_of_owner(tx, draft)? { set } else { Some(DEFAULT_TURNS) })
}

/// Returns `true` if the author and all candidates are agents of the conversation's owner.
fn are_all_of_owner(tx: &mut dyn Tx, draft: &Draft<'_>) -> Result<bool, StoreError> {
    let owner = draft.conversation.owner;
    let account = match owner {
        Principal::Account(account) => Some(account),
        Principal::Agent(agent) => directory::by_id(tx, agent)?.and_then(|agent| agent.owner),
    };
    let concerned = draft.candidates.iter().map(|candidate| candidate.agent);
    for agent in draft.act.author.agent().into_iter().chain(concerned) {
        let is_own = owner == agent.into()
            || account.is_some() && directory::by_id(tx, agent)?.and_then(|agent| agent.owner) == account;
        if !is_own {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns `true` if one of two agents works on a task that a person in this conversation, or a job of the other, gave it
/// before their exchange began.
fn is_on_task(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    (one, other): (AgentId, AgentId),
    began_at: i64,
) -> Result<bool, StoreError> {
    for pair in [(one, other), (other, one)] {
        if loop_guards::works_for_person(tx, conversation, pair.0, began_at)?
            || loop_guards::works_on_job(tx, pair, began_at)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn load_reaction<'a>(
    tx: &mut dyn Tx,
    draft: &'a Draft<'_>,
    target: EventId,
    signal: Signal,
) -> Result<ReactionFacts<'a>, StoreError> {
    let mut event = Event { happening: Happening::Reaction(signal), text: "", ..event_of(draft)? };
    if draft.body.is_true("removed") {
        return Ok(ReactionFacts { event, recipients: vec![] });
    }
    if let Some(said) = conversations::event_by_id(tx, target)? {
        let said = StoredMessage::read(&said.body)?;
        event.answers = if is_for_author(tx, draft, &said)? { Some(said.intent()) } else { None };
    }
    let authors = draft.candidates.iter().filter(|candidate| candidate.said_target).cloned();
    let recipients = load_candidates(tx, draft, authors.collect())?;
    Ok(ReactionFacts { event, recipients })
}

/// Returns `true` if a message is for the member that reacts to it: it names no member, that member, or one of
/// its roles.
fn is_for_author(tx: &mut dyn Tx, draft: &Draft<'_>, said: &StoredMessage) -> Result<bool, StoreError> {
    let (conversation, reacts) = (draft.act.conversation, &draft.member);
    let mut names_other = false;
    for name in said.names() {
        match members::by_handle(tx, conversation, name)? {
            Some(member) if member.principal == reacts.principal => return Ok(true),
            Some(_) => names_other = true,
            None if reacts.roles.iter().any(|role| role.eq_ignore_ascii_case(name)) => return Ok(true),
            None => names_other |= !members::in_role(tx, conversation, name, 1)?.is_empty(),
        }
    }
    Ok(!names_other)
}
