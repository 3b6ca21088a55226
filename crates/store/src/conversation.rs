//! The transactions of conversations: creating them, joining and leaving, and posting.
//!
//! Only members post or change anything in a conversation, and nobody in an archived one: a member's act
//! begins with [`lock_as_speaker`], which locks the conversation until the transaction ends. Acts without such
//! a member ([`create`], [`pair`], [`admit`], [`leave_all`]) and those on an archived conversation
//! ([`restore`]) lock it as well; callers of [`append`] have locked it. Posting is one transaction in two
//! steps: a [`Draft`] is a checked message with the facts about its candidates; [`post`] appends it with its
//! search terms, and adds a delivery to each recipient. The store does not choose the recipients.

mod draft;
mod post;
mod roster;

pub use chorus_attention::plan::Candidate;
pub use draft::{
    Draft, DraftKind, MAX_STREAMS, Post, Reaction, draft_deletion, draft_edit, draft_message, draft_reaction,
    preview_message,
};
pub use post::{append_draft, deliver, hold_inboxes};
pub use roster::{
    Handle, MemberChange, Newcomer, SecondMember, add_member, admit, archive, change, change_member, create,
    leave_all, may_add, pair, remove_member, restore,
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

/// An error of a conversation act.
#[derive(Debug, thiserror::Error)]
pub enum ConversationError {
    /// There is no such conversation, as far as this caller may know.
    #[error("no such conversation")]
    NotFound,
    #[error("the conversation is archived")]
    Archived,
    /// The caller may not do this here.
    #[error("not allowed here")]
    Forbidden,
    /// The owner stays: without one nobody could change the conversation any more.
    #[error("the owner cannot leave")]
    OwnerStays,
    /// The target event is not in this conversation.
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
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The actor, conversation and time of an act.
#[derive(Debug, Clone, Copy)]
pub struct Act {
    pub conversation: ConversationId,
    pub author: Principal,
    /// The id of the event it becomes.
    pub event: EventId,
    pub trace: TraceId,
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

/// Returns the conversation and the member, if the member may say something there: the conversation is not archived, and the other
/// one of two does not block it.
pub fn as_speaker(
    tx: &mut dyn Tx,
    id: ConversationId,
    who: Principal,
) -> Result<(Conversation, Member), ConversationError> {
    let (conversation, member) = as_reader(tx, id, who)?;
    if conversation.archived_at.is_some() {
        return Err(ConversationError::Archived);
    }
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

/// The conversation, and the member that enters it to say something. Nobody comes, goes or speaks until this transaction
/// ends.
pub fn lock_as_speaker(
    tx: &mut dyn Tx,
    id: ConversationId,
    who: Principal,
) -> Result<(Conversation, Member), ConversationError> {
    // Strangers lock nothing, and a member may have left while this waited for the lock.
    as_reader(tx, id, who)?;
    tx.lock(id.into())?;
    as_speaker(tx, id, who)
}

/// A message of this conversation that this member may read, or was told that nobody answers.
pub fn message(
    tx: &mut dyn Tx,
    conversation: &Conversation,
    who: Principal,
    id: EventId,
) -> Result<Event, ConversationError> {
    let named = conversations::event_by_id(tx, id)?.ok_or(ConversationError::NoTarget)?;
    // A member that may read an escalation may answer the question, even if it joined after the question.
    let seq_of_escalation = (named.kind == EventKind::Escalation).then_some(named.seq);
    let mut event = named;
    // An agent that was sent an edit or an escalation knows the message by the id of that event. An escalation
    // may be about an edit.
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
    let seq = tx.next_seq(act.conversation.into())?;
    let event = NewEvent { thread, target, ..new_event(act) };
    conversations::append(tx, &event, kind, body, seq, act.now)?;
    Ok(seq)
}

/// Appends the same where a full quota of its author must not refuse it.
fn append_always(tx: &mut dyn Tx, act: &Act, kind: EventKind, body: &Masked) -> Result<i64, StoreError> {
    let seq = tx.next_seq(act.conversation.into())?;
    conversations::append_always(tx, &new_event(act), kind, body, seq, act.now)?;
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

/// Builds the body of a system event. Names are masked, because members chose them.
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
    /// The new title; `None` keeps the current one.
    pub title: Option<MaskedText>,
    /// The new media type; `None` keeps the current one.
    pub content_type: Option<String>,
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

/// Returns the media type of a version without one: that of the previous version, unless one is text and the
/// other bytes.
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
        seq: tx.next_seq(act.conversation.into())?,
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

/// Removes a document with all its versions. Its creator and the channel owner may do this. Returns the
/// authors and sizes of the versions, or `None` if there is no such document.
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
    append_always(tx, act, EventKind::Artifact, &body)?;
    Ok(Some(removed))
}
