//! The transactions of conversations: making them, coming and going, and everything that is said in them.
//!
//! Nobody says or changes anything in a conversation he is not a member of, and nothing in an archived one: every
//! transaction here begins with [`lock_as_speaker`], which keeps others out of the conversation until it ends. Agents' inboxes come
//! after it, the smallest id first, so that no two transactions wait for each other. Saying something is one transaction: the event, the words it is found by, and a
//! delivery to each agent that is woken. What wakes whom is decided by the caller's rule; ambient events leave no row per
//! member.

mod roster;

pub use roster::{
    Handle, Newcomer, add_member, admit, archive, change, create, leave_all, may_add, pair, remove_member,
};

use crate::artifacts::{self, Artifact};
use crate::conversations::{self, Conversation, ConversationKind, Event, NewEvent};
use crate::deliveries::{self, Chat, NewDelivery, OnItsWay, Way};
use crate::members::{self, Member, MembershipInterval};
use crate::push::{self, GIVE_UP_MS};
use crate::usage::Exceeded;
use crate::{StoreError, Tx, TxExt, blocks, directory, log, search};
use chorus_protocol::ids::{AgentId, ConversationId, DeliveryId, EventId, Principal, TraceId};
use chorus_protocol::words::{DeliveryState, EntryKind, EventKind, Reason, Signal, Transport};
use serde_json::json;
use std::collections::BTreeSet;

/// The most agents that one message wakes.
const MAX_WOKEN: usize = 50;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum ConversationError {
    /// There is no such conversation, as far as this caller may know.
    #[error("no such conversation")]
    NotFound,
    /// It is archived.
    #[error("the conversation is archived")]
    Archived,
    /// The caller may not do this here.
    #[error("not allowed here")]
    Forbidden,
    /// The owner stays: without one nobody could change the conversation any more.
    #[error("the owner cannot leave")]
    OwnerStays,
    /// What it is about is not in this conversation.
    #[error("no such message here")]
    NoTarget,
    /// Nobody here has this handle.
    #[error("nobody here is called {0}")]
    NoHandle(String),
    /// Somebody else has this handle.
    #[error("the handle {0} is taken")]
    HandleTaken(String),
    /// It is a member already, under this handle.
    #[error("a member already, as {0}")]
    Already(String),
    /// The document has moved on to this version.
    #[error("the document is at version {0}")]
    Stale(i64),
    /// The other of two keeps the caller out.
    #[error("the other keeps you out")]
    Blocked,
    /// A quota would be exceeded.
    #[error(transparent)]
    Quota(#[from] Exceeded),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Who does something, where, and when.
#[derive(Debug, Clone, Copy)]
pub struct Act {
    /// Where.
    pub conversation: ConversationId,
    /// Who.
    pub author: Principal,
    /// The id of the event it becomes.
    pub event: EventId,
    /// What it belongs to.
    pub trace: TraceId,
    /// When.
    pub now: i64,
}

/// The conversation, and the member that enters it to read.
pub fn as_reader(
    tx: &mut dyn Tx,
    id: ConversationId,
    who: Principal,
) -> Result<(Conversation, Member), ConversationError> {
    let conversation = conversations::by_id(tx, id)?.ok_or(ConversationError::NotFound)?;
    let member = members::of(tx, id, who)?.ok_or(ConversationError::NotFound)?;
    Ok((conversation, member))
}

/// The conversation, and the member that would say something in it.
fn as_speaker(
    tx: &mut dyn Tx,
    id: ConversationId,
    who: Principal,
) -> Result<(Conversation, Member), ConversationError> {
    let (conversation, member) = as_reader(tx, id, who)?;
    if conversation.archived_at.is_some() {
        return Err(ConversationError::Archived);
    }
    Ok((conversation, member))
}

/// The conversation, and the member that enters it to say something. Nobody comes, goes or speaks until this transaction
/// ends.
pub fn lock_as_speaker(
    tx: &mut dyn Tx,
    id: ConversationId,
    who: Principal,
) -> Result<(Conversation, Member), ConversationError> {
    // Strangers lock nothing; and who was a member before it had to wait may be none any more.
    as_speaker(tx, id, who)?;
    tx.lock(id.0)?;
    let (conversation, member) = as_speaker(tx, id, who)?;
    if conversation.kind == ConversationKind::Dm {
        let pair = members::page(tx, id, "", 2)?;
        if let Some(other) = pair.iter().find(|other| other.principal != who)
            && blocks::keeps_out(tx, other.principal, who)?
        {
            return Err(ConversationError::Blocked);
        }
    }
    Ok((conversation, member))
}

/// A message of this conversation that this member may read.
pub fn message(
    tx: &mut dyn Tx,
    conversation: &Conversation,
    who: Principal,
    id: EventId,
) -> Result<Event, ConversationError> {
    let event = conversations::event_by_id(tx, id)?
        .filter(|event| event.conversation == conversation.id && event.kind == EventKind::Message);
    let event = event.ok_or(ConversationError::NoTarget)?;
    let stays = log::readable(tx, conversation, who)?;
    if MembershipInterval::any_holds(&stays, event.seq) {
        Ok(event)
    } else {
        Err(ConversationError::NoTarget)
    }
}

/// The same, unless it was taken back.
fn standing_message(
    tx: &mut dyn Tx,
    conversation: &Conversation,
    who: Principal,
    id: EventId,
) -> Result<Event, ConversationError> {
    let event = message(tx, conversation, who, id)?;
    let gone =
        tx.first("SELECT 1 FROM events WHERE target_id = $1 AND kind = 'delete' LIMIT 1", &[(&id).into()])?;
    if gone.is_some() { Err(ConversationError::NoTarget) } else { Ok(event) }
}

fn append(
    tx: &mut dyn Tx,
    act: &Act,
    kind: EventKind,
    thread: Option<EventId>,
    target: Option<EventId>,
    body: &str,
) -> Result<i64, StoreError> {
    let seq = tx.next_seq(act.conversation.0)?;
    place(tx, act, kind, thread, target, body, seq)?;
    Ok(seq)
}

fn place(
    tx: &mut dyn Tx,
    act: &Act,
    kind: EventKind,
    thread: Option<EventId>,
    target: Option<EventId>,
    body: &str,
    seq: i64,
) -> Result<(), StoreError> {
    let event = NewEvent {
        id: act.event,
        conversation: act.conversation,
        kind,
        author: act.author,
        trace: act.trace,
        thread,
        target,
        body,
    };
    conversations::append(tx, &event, seq, act.now)
}

/// What a rule that decides who is woken can see.
#[derive(Debug)]
pub struct Scene<'a> {
    /// What kind of conversation.
    pub kind: ConversationKind,
    /// Who speaks.
    pub author: Principal,
    /// Who is named, each once; whom it is for comes before who is only mentioned.
    pub named: &'a [Member],
    /// In a conversation of two, both.
    pub pair: &'a [Member],
}

/// Somebody who is woken, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Woken {
    /// Whom.
    pub agent: AgentId,
    /// What it is called there.
    pub handle: String,
    /// Why.
    pub reason: Reason,
}

/// A rule that decides who is woken.
pub type Decide = fn(&Scene<'_>) -> Vec<Woken>;

/// A message to be said.
#[derive(Debug, Clone)]
pub struct Post {
    /// What it says, JSON.
    pub body: String,
    /// The words it is found by.
    pub text: String,
    /// The thread it belongs to: any message of it.
    pub thread: Option<EventId>,
    /// What it answers.
    pub reply_to: Option<EventId>,
    /// Whom it is for: these must be here.
    pub to: Vec<String>,
    /// Whom it mentions: who is not here is only a word.
    pub mentions: Vec<String>,
}

/// What was said.
#[derive(Debug, Clone)]
pub struct Posted {
    /// Its place.
    pub seq: i64,
    /// Where it was said.
    pub conversation: Conversation,
    /// What its author is called there.
    pub handle: String,
    /// The thread it is in.
    pub thread: Option<EventId>,
    /// Who is woken, with the delivery that does it and its way.
    pub woken: Vec<(Woken, DeliveryId, OnItsWay)>,
    /// Who would be, by handle, but for the number that one message wakes at most.
    pub left_out: Vec<String>,
}

/// Says something.
pub fn post(tx: &mut dyn Tx, act: &Act, new: &Post, decide: Decide) -> Result<Posted, ConversationError> {
    let (conversation, member) = lock_as_speaker(tx, act.conversation, act.author)?;
    let Prepared { thread, mut woken, left_out } = prepare(tx, &conversation, act, new, decide)?;
    let seq = append(tx, act, EventKind::Message, thread, new.reply_to, &new.body)?;
    search::put(tx, act.conversation, act.event, &new.text)?;

    // The smaller inbox first, so that two that wake the same agents never wait for each other.
    woken.sort_by_key(|woken| woken.agent);
    let mut done = vec![];
    for woken in woken {
        let id = DeliveryId { agent: woken.agent, seq: tx.next_seq(woken.agent.0)? };
        if let Some(way) = deliver(tx, act, id, EntryKind::Chat, woken.reason)? {
            done.push((woken, id, way));
        }
    }
    Ok(Posted { seq, conversation, handle: member.handle, thread, woken: done, left_out })
}

/// Keeps others from all inboxes that these messages wake, before the first of them is said. Said one after the other in one
/// transaction, each would take its own inboxes in order, but the second some that come before those of the first.
pub fn hold_inboxes<'a>(
    tx: &mut dyn Tx,
    messages: impl IntoIterator<Item = (&'a Act, &'a Post)>,
    decide: Decide,
) -> Result<(), ConversationError> {
    let mut agents = BTreeSet::new();
    for (act, new) in messages {
        let (conversation, _) = lock_as_speaker(tx, act.conversation, act.author)?;
        let woken = prepare(tx, &conversation, act, new, decide)?.woken;
        agents.extend(woken.into_iter().map(|woken| woken.agent));
    }
    agents.into_iter().try_for_each(|agent| Ok(tx.lock(agent.0)?))
}

/// Who would be woken, if it were said.
pub fn preview(
    tx: &mut dyn Tx,
    act: &Act,
    new: &Post,
    decide: Decide,
) -> Result<Vec<Woken>, ConversationError> {
    let (conversation, _) = as_speaker(tx, act.conversation, act.author)?;
    Ok(prepare(tx, &conversation, act, new, decide)?.woken)
}

/// The thread of a message, and whom it wakes.
struct Prepared {
    thread: Option<EventId>,
    woken: Vec<Woken>,
    left_out: Vec<String>,
}

fn prepare(
    tx: &mut dyn Tx,
    conversation: &Conversation,
    act: &Act,
    new: &Post,
    decide: Decide,
) -> Result<Prepared, ConversationError> {
    let mut thread = None;
    for target in new.reply_to.iter().chain(&new.thread) {
        let event = message(tx, conversation, act.author, *target)?;
        let is_thread = Some(*target) == new.thread;
        thread = event.thread.or(is_thread.then_some(event.id)).or(thread);
    }
    let mut named: Vec<Member> = vec![];
    let to = new.to.iter().map(|handle| (handle, true));
    for (handle, must_be_here) in to.chain(new.mentions.iter().map(|handle| (handle, false))) {
        match members::by_handle(tx, conversation.id, handle)? {
            Some(member) if named.iter().all(|other| other.principal != member.principal) => {
                named.push(member);
            }
            None if must_be_here => return Err(ConversationError::NoHandle(handle.clone())),
            _ => {}
        }
    }
    let pair = match conversation.kind {
        ConversationKind::Dm => members::page(tx, conversation.id, "", 2)?,
        ConversationKind::Channel => vec![],
    };
    let decided = decide(&Scene { kind: conversation.kind, author: act.author, named: &named, pair: &pair });
    let (mut woken, mut left_out) = (vec![], vec![]);
    for one in decided {
        let Some(agent) = directory::by_id(tx, one.agent)? else { continue };
        // Whoever is kept out wakes nobody, wherever he says it.
        if agent.has_blocks && blocks::keeps_out(tx, one.agent.into(), act.author)? {
            continue;
        }
        if woken.len() < MAX_WOKEN {
            woken.push(one);
        } else {
            left_out.push(one.handle);
        }
    }
    Ok(Prepared { thread, woken, left_out })
}

/// Puts an event on its way to an agent, by the best way it has open; one that is gone since it was found gets nothing.
/// The caller took `id.seq` of the agent's stream.
pub fn deliver(
    tx: &mut dyn Tx,
    act: &Act,
    id: DeliveryId,
    kind: EntryKind,
    reason: Reason,
) -> Result<Option<OnItsWay>, StoreError> {
    let Some(agent) = directory::by_id(tx, id.agent)? else { return Ok(None) };
    let first = push::first_waiting(tx, id.agent, act.conversation)?;
    let (pushed, give_up_at) = (deliveries::push_transport(&agent), act.now + GIVE_UP_MS);
    let (transport, state, push) = match deliveries::way(&agent, first, act.now) {
        Way::Session => (Transport::Inbox, DeliveryState::DeliveredSse, None),
        Way::Inbox => (Transport::Inbox, DeliveryState::Queued, None),
        Way::Webhook | Way::Connection => (pushed, DeliveryState::Waiting, Some((Some(act.now), give_up_at))),
        Way::WaitForOwner(_) => (pushed, DeliveryState::Waiting, Some((Some(give_up_at), give_up_at))),
        Way::WaitBehind(first) => {
            // What waits goes before it, into the inbox if that is open by now: each takes its way when it has its turn.
            if agent.open_until > act.now {
                push::reroute(tx, &[first], act.now)?;
            }
            (pushed, DeliveryState::Waiting, Some((None, give_up_at)))
        }
    };
    let delivery = NewDelivery {
        agent: id.agent,
        event: act.event,
        kind,
        transport,
        state,
        lease: None,
        chat: Some(Chat { conversation: act.conversation, reason, push }),
        trace: act.trace,
    };
    deliveries::append(tx, &delivery, id.seq, act.now)?;
    Ok(Some(OnItsWay { transport, epoch: agent.epoch }))
}

/// Says something that wakes nobody: a status, a tool call, a sign of life.
pub fn note(
    tx: &mut dyn Tx,
    act: &Act,
    kind: EventKind,
    thread: Option<EventId>,
    target: Option<EventId>,
    body: &str,
) -> Result<i64, ConversationError> {
    lock_as_speaker(tx, act.conversation, act.author)?;
    Ok(append(tx, act, kind, thread, target, body)?)
}

/// Changes what a message says; its author may.
pub fn edit(
    tx: &mut dyn Tx,
    act: &Act,
    target: EventId,
    body: &str,
    text: &str,
) -> Result<i64, ConversationError> {
    let thread = own(tx, act, target, false)?.thread;
    search::put(tx, act.conversation, target, text)?;
    Ok(append(tx, act, EventKind::Edit, thread, Some(target), body)?)
}

/// Takes a message back; its author may, and the conversation's owner.
pub fn delete(tx: &mut dyn Tx, act: &Act, target: EventId) -> Result<i64, ConversationError> {
    let thread = own(tx, act, target, true)?.thread;
    search::remove(tx, target)?;
    Ok(append(tx, act, EventKind::Delete, thread, Some(target), "{}")?)
}

fn own(tx: &mut dyn Tx, act: &Act, target: EventId, owner_may: bool) -> Result<Event, ConversationError> {
    let (conversation, _) = lock_as_speaker(tx, act.conversation, act.author)?;
    let event = standing_message(tx, &conversation, act.author, target)?;
    if event.author != act.author && !(owner_may && conversation.owner == act.author) {
        return Err(ConversationError::Forbidden);
    }
    Ok(event)
}

/// Reacts to a message, unless its author's last reaction of this `signal` to it says just that: then nothing is added. Which
/// event says it, and its place.
pub fn react(
    tx: &mut dyn Tx,
    act: &Act,
    target: EventId,
    signal: Signal,
    body: &str,
) -> Result<(EventId, i64), ConversationError> {
    let (conversation, _) = lock_as_speaker(tx, act.conversation, act.author)?;
    let thread = standing_message(tx, &conversation, act.author, target)?.thread;
    let standing = log::last_reaction(tx, target, act.author, signal)?;
    match standing.filter(|standing| standing.body == body) {
        Some(standing) => Ok((standing.id, standing.seq)),
        None => Ok((act.event, append(tx, act, EventKind::Reaction, thread, Some(target), body)?)),
    }
}

/// A document to be made, or changed from version `base`.
#[derive(Debug, Clone)]
pub struct NewArtifact {
    /// Its name in addresses.
    pub slug: String,
    /// What people call it; as before, if nothing is said.
    pub title: Option<String>,
    /// What it is made of; as before, if nothing is said.
    pub content_type: Option<String>,
    /// The document.
    pub content: String,
    /// The version that was changed; 0 for a new document.
    pub base: i64,
}

/// Makes a version of a document.
pub fn put_artifact(tx: &mut dyn Tx, act: &Act, new: &NewArtifact) -> Result<Artifact, ConversationError> {
    lock_as_speaker(tx, act.conversation, act.author)?;
    let newest = artifacts::newest(tx, act.conversation, &new.slug)?;
    let version = newest.as_ref().map_or(0, |newest| newest.version);
    if version != new.base {
        return Err(ConversationError::Stale(version));
    }
    let before = |get: fn(&Artifact) -> &String| newest.as_ref().map(|newest| get(newest).clone());
    let artifact = Artifact {
        slug: new.slug.clone(),
        version: version + 1,
        title: new.title.clone().or(before(|a| &a.title)).unwrap_or_else(|| new.slug.clone()),
        content_type: new
            .content_type
            .clone()
            .or(before(|a| &a.content_type))
            .unwrap_or_else(|| "text/markdown".into()),
        content: new.content.clone(),
        author: act.author,
        created_at: act.now,
        seq: tx.next_seq(act.conversation.0)?,
    };
    artifacts::insert(tx, act.conversation, &artifact, act.trace)?;
    let body = json!({"slug": artifact.slug, "version": artifact.version, "title": artifact.title});
    place(tx, act, EventKind::Artifact, None, None, &body.to_string(), artifact.seq)?;
    Ok(artifact)
}
