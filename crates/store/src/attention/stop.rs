//! Loads the work that a stop is about, and tells the conversation of the end of work.

use super::handling::claim_on;
use crate::conversation::{self, Act, Draft};
use crate::conversations::{self, Conversation, ConversationKind, Event};
use crate::deliveries::Bringing;
use crate::members::{self, Member};
use crate::{StoreError, Tx, TxExt, blocks, directory, inboxes, obligations, readings, work_streams};
use chorus_attention::DEFAULT_DEADLINE_MS;
use chorus_attention::capabilities::{Abilities, Capabilities, is_delivered};
use chorus_attention::obligation::Obligation;
use chorus_attention::plan::{Candidate, StopFacts, Work};
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{AgentId, ConversationId, DeliveryId, EventId, Principal};
use chorus_protocol::redact::Masked;
use chorus_protocol::words::{Directedness, EntryKind, EventKind, Mode, Policy, Priority, Reason};
use serde_json::{Map, json};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// The most agents of one message, and the most open events of one agent or thread, that one stop looks at.
const MAX_WORK: i64 = 100;
/// The number of last messages of a thread whose work one stop looks at.
const MAX_IN_THREAD: i64 = 200;

/// The principal that stops work.
#[derive(Debug, Clone, Copy)]
pub struct Stopper<'a> {
    pub principal: Principal,
    /// The handle in the conversation, or a name.
    pub name: &'a str,
    /// The principal leads or owns the conversation.
    pub leads: bool,
}

impl<'a> Stopper<'a> {
    /// Returns a member as the principal that stops work in a conversation.
    pub fn member(place: &Conversation, member: &'a Member) -> Self {
        let leads = member.lead || place.owner == member.principal;
        Self { principal: member.principal, name: &member.handle, leads }
    }
}

/// Loads the work that a stop at one message is about: that on the message and, if it began a thread, in the thread. At a
/// message of an agent, it is the work of that agent in the thread of the message.
pub fn load_stop(
    tx: &mut dyn Tx,
    place: &Conversation,
    stopper: Stopper<'_>,
    said: &Event,
    now: i64,
) -> Result<StopFacts, StoreError> {
    let given = around(tx, place, said, now)?;
    load_work(tx, place, stopper, given)
}

/// Loads the work of one agent in one conversation, or only that on one event.
pub fn load_stop_of_agent(
    tx: &mut dyn Tx,
    place: &Conversation,
    stopper: Stopper<'_>,
    (agent, event): (AgentId, Option<EventId>),
    now: i64,
) -> Result<StopFacts, StoreError> {
    let mut given = of_agent(tx, place.id, agent, now)?;
    given.retain(|given| event.is_none_or(|event| given.event == event || given.message() == event));
    load_work(tx, place, stopper, given)
}

/// Loads the work that a message which stops work is about. In a conversation of two it is that of the other. In a thread, it is
/// that on the answered message or else in the thread. Elsewhere it is what its author asked of the agents that it names. A
/// message that names agents or roles stops the work of these only.
pub(super) fn load_stop_of_message(tx: &mut dyn Tx, draft: &Draft<'_>) -> Result<StopFacts, StoreError> {
    let (place, act) = (&draft.conversation, draft.act);
    let stopper = Stopper { principal: act.author, name: &draft.member.handle, leads: draft.author_leads };
    let is_named = |one: &&Candidate| one.named || one.in_named_role;
    let mut given = vec![];
    match (place.kind, draft.thread) {
        (ConversationKind::Dm, _) => {
            for candidate in &draft.candidates {
                given.extend(of_agent(tx, place.id, candidate.agent, act.now)?);
            }
            load_work(tx, place, stopper, given)
        }
        (ConversationKind::Channel, Some(thread)) => {
            if let Some(said) = &draft.answers {
                given = around(tx, place, said, act.now)?;
            }
            if given.is_empty() {
                given = in_thread(tx, place.id, thread, act.now)?;
            }
            if draft.names_somebody {
                let named: BTreeSet<_> =
                    draft.candidates.iter().filter(is_named).map(|one| one.agent).collect();
                given.retain(|given| named.contains(&given.id.agent));
            }
            load_work(tx, place, stopper, given)
        }
        (ConversationKind::Channel, None) => {
            for candidate in draft.candidates.iter().filter(is_named) {
                given.extend(of_agent(tx, place.id, candidate.agent, act.now)?);
            }
            let mut facts = load_work(tx, place, stopper, given)?;
            // Work in a thread is stopped in the thread.
            let is_meant = |work: &Work| work.asker == act.author && work.thread == work.obligation.message();
            facts.work.retain(is_meant);
            Ok(facts)
        }
    }
}

/// Lists the open obligations of a message and of its thread that a stop at this message is about.
fn around(
    tx: &mut dyn Tx,
    place: &Conversation,
    said: &Event,
    now: i64,
) -> Result<Vec<Obligation>, StoreError> {
    let mut given = match said.thread {
        Some(_) => of_message(tx, said.id, now)?,
        None => in_thread(tx, place.id, said.id, now)?,
    };
    if let Some(author) = said.author.agent() {
        let mut own = match place.kind {
            ConversationKind::Dm => of_agent(tx, place.id, author, now)?,
            ConversationKind::Channel => in_thread(tx, place.id, said.thread.unwrap_or(said.id), now)?,
        };
        own.retain(|given| given.id.agent == author);
        given.extend(own);
    }
    Ok(given)
}

/// Lists the open obligations on one message.
fn of_message(tx: &mut dyn Tx, message: EventId, now: i64) -> Result<Vec<Obligation>, StoreError> {
    let given = obligations::of_message(tx, message, MAX_WORK)?;
    read_all(tx, given, now)
}

/// Lists the open obligations on the message that began a thread and on the last messages in the thread.
fn in_thread(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    thread: EventId,
    now: i64,
) -> Result<Vec<Obligation>, StoreError> {
    let mut given = obligations::of_message(tx, thread, MAX_WORK)?;
    given.extend(obligations::open_in_thread(tx, conversation, thread, MAX_IN_THREAD, MAX_WORK)?);
    read_all(tx, given, now)
}

/// Lists the open obligations of one agent in a conversation.
fn of_agent(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    agent: AgentId,
    now: i64,
) -> Result<Vec<Obligation>, StoreError> {
    let open = obligations::open_in(tx, agent, conversation, MAX_WORK)?;
    read_all(tx, open.into_iter().map(|event| (event, agent)).collect(), now)
}

fn read_all(
    tx: &mut dyn Tx,
    given: Vec<(EventId, AgentId)>,
    now: i64,
) -> Result<Vec<Obligation>, StoreError> {
    let mut all = vec![];
    for (event, agent) in given {
        all.extend(obligations::of(tx, event, agent, now)?.filter(Work::is_work));
    }
    Ok(all)
}

/// Loads who asked for the work, and what gives authority over it.
fn load_work(
    tx: &mut dyn Tx,
    place: &Conversation,
    stopper: Stopper<'_>,
    given: Vec<Obligation>,
) -> Result<StopFacts, StoreError> {
    let (mut work, mut seen) = (vec![], BTreeSet::new());
    for obligation in given {
        if !seen.insert((obligation.event, obligation.id.agent)) {
            continue;
        }
        let said = conversations::event_by_id(tx, obligation.message())?;
        let Some(said) = said.filter(|said| said.kind == EventKind::Message) else { continue };
        let agent = obligation.id.agent;
        let Some(member) = members::of(tx, place.id, agent.into())? else { continue };
        let is_person = stopper.principal.agent().is_none();
        let owner = if is_person { directory::owner_of(tx, agent)?.map(Principal::from) } else { None };
        let is_led = stopper.leads || (is_person && owns_stream(tx, said.id, stopper.principal)?);
        let claim = claim_on(tx, Some(said.id))?;
        work.push(Work {
            obligation,
            handle: member.handle,
            asker: said.author,
            thread: said.thread.unwrap_or(said.id),
            is_led,
            is_owned: owner == Some(stopper.principal),
            claim,
        });
    }
    Ok(StopFacts { by: stopper.principal, name: stopper.name.to_owned(), work })
}

fn owns_stream(tx: &mut dyn Tx, event: EventId, who: Principal) -> Result<bool, StoreError> {
    let Some(stream) = work_streams::of_event(tx, event)? else { return Ok(false) };
    Ok(work_streams::part_of(tx, stream, who)?.is_some_and(|part| part.owns))
}

/// Says in each thread of the stopped work who stopped what, and tells those who asked for it and are still members. Agents without
/// a C2A session are told by this event too, unless a message of whoever asked for their work stopped it. `fresh` makes ids.
pub fn tell_of_stop(
    tx: &mut dyn Tx,
    act: &Act,
    name: &str,
    stopped: &[Work],
    is_message: bool,
    fresh: &dyn Fn() -> Uuid,
) -> Result<(), StoreError> {
    let Some(place) = conversations::by_id(tx, act.conversation)? else { return Ok(()) };
    let mut threads: BTreeMap<EventId, Vec<&Work>> = BTreeMap::new();
    for work in stopped {
        threads.entry(work.thread).or_default().push(work);
    }
    let concerned = stopped.iter().flat_map(|work| [work.asker.agent(), Some(work.obligation.id.agent)]);
    conversation::hold_inboxes(tx, concerned.flatten().collect::<Vec<_>>())?;
    for (thread, work) in threads {
        let act = Act { event: EventId(fresh()), ..*act };
        let seq = note(tx, &act, &place, (thread, name), &work)?;
        let mut told = BTreeMap::new();
        for asker in work.iter().map(|work| work.asker).filter(|asker| *asker != act.author) {
            if members::of(tx, place.id, asker)?.is_none() {
                continue;
            }
            match asker {
                Principal::Account(person) if !blocks::keeps_out(tx, asker, act.author)? => {
                    readings::ask(tx, &[person], act.conversation, seq, act.now)?;
                }
                Principal::Agent(agent) => {
                    told.insert(agent, FOR_ASKER);
                }
                Principal::Account(_) => {}
            }
        }
        let is_told = |work: &&&Work| !is_message || work.asker != act.author;
        for agent in work.iter().filter(is_told).map(|work| work.obligation.id.agent) {
            if !shows(tx, agent, act.now)?.notify {
                told.insert(agent, FOR_STOPPED);
            }
        }
        for (agent, attention) in told {
            deliver(tx, &act, agent, attention)?;
        }
    }
    Ok(())
}

/// The attention of the event for an agent whose work was stopped.
const FOR_STOPPED: Attention = Attention {
    directedness: Directedness::ToMe,
    policy: Policy::AckOnly,
    mode: Mode::Immediate,
    reason: Reason::Cancellation,
    priority: Priority::Urgent,
    deadline_ms: Some(DEFAULT_DEADLINE_MS),
};

/// The attention of the event for an agent that asked for the work.
const FOR_ASKER: Attention = Attention {
    directedness: Directedness::ToMe,
    policy: Policy::MustNotRespond,
    mode: Mode::Notify,
    reason: Reason::StatusBroadcast,
    priority: Priority::Normal,
    deadline_ms: None,
};

/// Appends the event that says who stopped what. Returns its position.
fn note(
    tx: &mut dyn Tx,
    act: &Act,
    place: &Conversation,
    (thread, name): (EventId, &str),
    work: &[&Work],
) -> Result<i64, StoreError> {
    let agents: BTreeSet<_> = work.iter().map(|work| work.handle.as_str()).collect();
    let messages: BTreeSet<_> = work.iter().map(|work| work.obligation.message()).collect();
    let mut askers = BTreeSet::new();
    for asker in work.iter().map(|work| work.asker).filter(|asker| *asker != act.author) {
        askers.extend(members::of(tx, place.id, asker)?.map(|asker| asker.handle));
    }
    let agents: Vec<_> = agents.into_iter().collect();
    let body = Masked::new(Map::from_iter([
        ("content".to_owned(), json!(format!("{name} stopped {}", agents.join(", ")))),
        ("by".to_owned(), json!(name)),
        ("agents".to_owned(), json!(agents)),
        ("stops".to_owned(), json!(messages.iter().map(ToString::to_string).collect::<Vec<_>>())),
        ("to".to_owned(), json!(askers)),
    ]));
    let thread = (place.kind == ConversationKind::Channel).then_some(thread);
    conversation::append(tx, act, EventKind::Stop, thread, messages.first().copied(), &body)
}

/// Returns the modes in which events can be shown to an agent.
fn shows(tx: &mut dyn Tx, agent: AgentId, now: i64) -> Result<Capabilities, StoreError> {
    Ok(Abilities::of_words(inboxes::shows(tx, agent, now)?.as_deref()).shows)
}

fn deliver(tx: &mut dyn Tx, act: &Act, agent: AgentId, attention: Attention) -> Result<(), StoreError> {
    let shows = shows(tx, agent, act.now)?;
    // An agent that gets no knocks is shown the event: it holds no text of a member.
    let modes = [attention.mode, Mode::Buffered].map(|mode| shows.fall_back(mode));
    let Some(mode) = modes.into_iter().find(|mode| is_delivered(*mode)) else { return Ok(()) };
    if blocks::keeps_out(tx, agent.into(), act.author)? {
        return Ok(());
    }
    let id = DeliveryId { agent, seq: tx.next_seq(agent.into())? };
    let attention = Attention { mode, ..attention };
    conversation::deliver(tx, act, id, EntryKind::Chat, attention, Bringing::FIRST)?;
    Ok(())
}

/// Lists the conversations in which an agent has open work, smallest id first.
pub fn conversations_with_work(tx: &mut dyn Tx, agent: AgentId) -> Result<Vec<ConversationId>, StoreError> {
    tx.query(
        "SELECT DISTINCT conversation_id FROM chats WHERE agent_id = $1 AND next_at IS NOT NULL
         ORDER BY conversation_id LIMIT $2",
        &[(&agent).into(), MAX_WORK.into()],
    )?
    .into_iter()
    .map(|mut row| Ok(ConversationId(row.uuid("conversation_id")?)))
    .collect()
}
