//! The transactions of conversations: making them, coming and going, and everything that is said in them.
//!
//! Nobody says or changes anything in a conversation he is not a member of, and nothing in an archived one: what a member does
//! here begins with [`lock_as_speaker`], which keeps others out of the conversation until the transaction ends. Where there is no
//! such member to ask for ([`create`], [`pair`], [`admit`], [`leave_all`]), or an archived conversation is meant ([`restore`]), it is
//! locked all the same; who calls [`append`] has locked it. Saying something is one transaction in two steps: a [`Draft`] has been
//! checked and tells what is known of whom it may concern; [`post`] appends it, with the words it is found by, and a delivery to
//! each agent for which one was decided in between. Who that is, is no business of the store.

mod draft;
mod post;
mod roster;

pub use draft::{
    Candidate, Draft, DraftKind, MAX_STREAMS, Post, Reaction, draft_deletion, draft_edit, draft_message,
    draft_reaction, preview_message,
};
pub use post::{Posted, Reach, Recipient, deliver, hold_inboxes, post, reach};
pub use roster::{
    Handle, MemberChange, Newcomer, add_member, admit, archive, change, change_member, create, leave_all,
    may_add, pair, remove_member, restore,
};

use crate::artifacts::{self, Artifact, Content};
use crate::conversations::{self, Conversation, ConversationKind, Event, NewEvent};
use crate::members::{self, Member, MembershipInterval};
use crate::usage::Exceeded;
use crate::{StoreError, Tx, TxExt, blocks, log, obligations};
use chorus_protocol::ids::{ConversationId, EventId, Principal, TraceId};
use chorus_protocol::redact::{Masked, MaskedContent, MaskedText};
use chorus_protocol::words::EventKind;
use serde_json::Value;

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
    /// No open work stream of this id goes on here.
    #[error("no such work stream here")]
    NoStream,
    /// Nobody here has this handle.
    #[error("nobody here is called {0}")]
    NoHandle(String),
    /// Somebody else has this handle.
    #[error("the handle {0} is taken")]
    HandleTaken(String),
    /// A role here is called so, or the hub and everybody would be.
    #[error("the handle {0} is no member's")]
    HandleReserved(String),
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

/// A message of this conversation that this member may read, or was told that nobody answers.
pub fn message(
    tx: &mut dyn Tx,
    conversation: &Conversation,
    who: Principal,
    id: EventId,
) -> Result<Event, ConversationError> {
    let named = conversations::event_by_id(tx, id)?.ok_or(ConversationError::NoTarget)?;
    // Who may read that somebody has not answered may answer instead, also when it came later than the question.
    let seq_of_escalation = (named.kind == EventKind::Escalation).then_some(named.seq);
    let mut event = named;
    // Whoever was given a change of a message, or that nobody answers it, knows the message by that; and it may be the change
    // that nobody answers.
    while let (EventKind::Edit | EventKind::Escalation, Some(about)) = (event.kind, event.target) {
        event = conversations::event_by_id(tx, about)?.ok_or(ConversationError::NoTarget)?;
    }
    if event.conversation != conversation.id || event.kind != EventKind::Message {
        return Err(ConversationError::NoTarget);
    }
    let stays = log::readable(tx, conversation, who)?;
    if MembershipInterval::any_holds(&stays, seq_of_escalation.unwrap_or(event.seq)) {
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
    let gone = tx.first(
        "SELECT 1 FROM events WHERE target_id = $1 AND kind = 'delete' LIMIT 1",
        &[(&event.id).into()],
    )?;
    if gone.is_some() { Err(ConversationError::NoTarget) } else { Ok(event) }
}

/// A reaction to something that an agent said, or that its wait for a person is over, if it was given that: it knows no other name for
/// it.
fn signal_to(
    tx: &mut dyn Tx,
    conversation: &Conversation,
    who: Principal,
    named: EventId,
) -> Result<Option<Event>, StoreError> {
    let Some(agent) = who.agent() else { return Ok(None) };
    let event = conversations::event_by_id(tx, named)?;
    let signal =
        event.filter(|event| event.kind == EventKind::Reaction && event.conversation == conversation.id);
    match signal {
        Some(_) if obligations::current(tx, named, agent)?.is_none() => Ok(None),
        signal => Ok(signal),
    }
}

/// Appends what is decided elsewhere, or the hub's own, to a conversation that the caller holds.
pub fn append(
    tx: &mut dyn Tx,
    act: &Act,
    kind: EventKind,
    thread: Option<EventId>,
    target: Option<EventId>,
    body: &Masked,
) -> Result<i64, StoreError> {
    let seq = tx.next_seq(act.conversation.0)?;
    let event = NewEvent { thread, target, ..new_event(act) };
    conversations::append(tx, &event, kind, body, seq, act.now)?;
    Ok(seq)
}

/// Appends what belongs to no thread and is about no other event, with a number that was taken for it.
fn append_at(tx: &mut dyn Tx, act: &Act, kind: EventKind, body: &Masked, seq: i64) -> Result<(), StoreError> {
    conversations::append(tx, &new_event(act), kind, body, seq, act.now)
}

fn new_event(act: &Act) -> NewEvent {
    let Act { conversation, author, event: id, trace, .. } = *act;
    NewEvent { id, conversation, author, trace, thread: None, target: None }
}

/// What the hub itself tells of a conversation. It is masked like everything: names are what members wrote.
fn told<const N: usize>(members: [(&str, Value); N]) -> Masked {
    Masked::new(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// Says something that is delivered to nobody: a status, a tool call, a sign of life.
pub fn note(
    tx: &mut dyn Tx,
    act: &Act,
    kind: EventKind,
    thread: Option<EventId>,
    target: Option<EventId>,
    body: &Masked,
) -> Result<i64, ConversationError> {
    lock_as_speaker(tx, act.conversation, act.author)?;
    Ok(append(tx, act, kind, thread, target, body)?)
}

/// A document to be made, or changed from version `base`.
#[derive(Debug, Clone)]
pub struct NewArtifact {
    /// Its name in addresses.
    pub slug: String,
    /// What people call it; as before, if nothing is said.
    pub title: Option<MaskedText>,
    /// What it is made of; as before, if nothing is said.
    pub content_type: Option<String>,
    /// The document.
    pub content: MaskedContent,
    /// The version that was changed; 0 for a new document.
    pub base: i64,
}

impl NewArtifact {
    /// The kinds of what was masked in it, each once.
    pub fn kinds(&self) -> Vec<&'static str> {
        let mut kinds = self.content.kinds().to_vec();
        let more = self.title.iter().flat_map(|title| title.kinds().iter().copied());
        kinds.extend(more.filter(|kind| !self.content.kinds().contains(kind)));
        kinds
    }
}

/// What a version is made of if nothing is said: what the one before was, unless one is a text and the other is not.
fn same_type(newest: Option<&Artifact>, content: &Content) -> String {
    let alike =
        |newest: &&Artifact| std::mem::discriminant(&newest.content) == std::mem::discriminant(content);
    match (newest.filter(alike), content) {
        (Some(newest), _) => newest.content_type.clone(),
        (None, Content::Text(_)) => "text/markdown".into(),
        (None, Content::Bytes(_)) => "application/octet-stream".into(),
    }
}

/// Makes a version of a document.
pub fn put_artifact(tx: &mut dyn Tx, act: &Act, new: &NewArtifact) -> Result<Artifact, ConversationError> {
    lock_as_speaker(tx, act.conversation, act.author)?;
    let newest = artifacts::newest(tx, act.conversation, &new.slug)?;
    let version = newest.as_ref().map_or(0, |newest| newest.version);
    if version != new.base {
        return Err(ConversationError::Stale(version));
    }
    let content = match new.content.get() {
        Ok(text) => Content::Text(text.to_owned()),
        Err(bytes) => Content::Bytes(bytes.to_owned()),
    };
    let title = new.title.as_ref().map(|title| title.as_str().to_owned());
    let before = newest.as_ref().map(|newest| newest.title.clone());
    let artifact = Artifact {
        slug: new.slug.clone(),
        version: version + 1,
        title: title.or(before).unwrap_or_else(|| new.slug.clone()),
        content_type: new.content_type.clone().unwrap_or_else(|| same_type(newest.as_ref(), &content)),
        size: new.content.get().map_or_else(<[u8]>::len, str::len) as i64,
        content,
        author: act.author,
        created_at: act.now,
        seq: tx.next_seq(act.conversation.0)?,
    };
    artifacts::insert(tx, act.conversation, &artifact, act.trace)?;
    let body = told([
        ("slug", artifact.slug.as_str().into()),
        ("version", artifact.version.into()),
        ("title", artifact.title.as_str().into()),
    ]);
    append_at(tx, act, EventKind::Artifact, &body, artifact.seq)?;
    Ok(artifact)
}

/// Removes a document with all its versions; who began it may, and the owner of the channel. Whose the versions were, and how many
/// bytes each had; nothing, if there is no such document.
pub fn remove_artifact(
    tx: &mut dyn Tx,
    act: &Act,
    slug: &str,
) -> Result<Option<Vec<(Principal, i64)>>, ConversationError> {
    let (conversation, _) = lock_as_speaker(tx, act.conversation, act.author)?;
    let Some(newest) = artifacts::newest(tx, act.conversation, slug)? else { return Ok(None) };
    let began = artifacts::begun_by(tx, act.conversation, slug)?;
    if conversation.owner != act.author && began != Some(act.author) {
        return Err(ConversationError::Forbidden);
    }
    let removed = artifacts::remove(tx, act.conversation, slug)?;
    let body = told([
        ("slug", newest.slug.as_str().into()),
        ("version", newest.version.into()),
        ("title", newest.title.as_str().into()),
        ("removed", true.into()),
    ]);
    append(tx, act, EventKind::Artifact, None, None, &body)?;
    Ok(Some(removed))
}
