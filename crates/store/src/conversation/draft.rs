//! Drafts: messages, edits, deletions and reactions that are checked and about to be appended, with the agents that they may
//! concern.
//!
//! A [`Draft`] is made only here. Its candidates are found through the conversation's indexes in a bounded number of
//! queries, never by reading the whole roster. A member that is not among the candidates is a bystander. The attention engine
//! decides what follows from a draft.

mod answered;

use super::{Act, ConversationError, as_speaker, lock_as_speaker, message, signal_to, standing_message};
use crate::conversations::{self, Conversation, ConversationKind, Event};
use crate::members::{self, Member};
use crate::{StoreError, Tx, log, work_streams};
use chorus_attention::plan::Candidate;
use chorus_protocol::ids::{AccountId, EventId, Principal, StreamId};
use chorus_protocol::mentions::split_mentions;
use chorus_protocol::redact::Masked;
use chorus_protocol::words::{EventKind, Signal};
use std::borrow::Cow;

/// The most bytes of the names that an event carries.
const MAX_MENTIONS_BYTES: usize = 2000;

/// The most members of a named role that are candidates.
const MAX_IN_ROLE: i64 = 50;

/// The most open work streams that go on in one conversation.
pub const MAX_STREAMS: i64 = 20;

/// A message to be said.
#[derive(Debug, Clone)]
pub struct Post {
    /// The content. Search finds it by the words of `content`.
    pub body: Masked,
    /// The thread it belongs to: any message of it.
    pub thread: Option<EventId>,
    /// The message that it answers.
    pub reply_to: Option<EventId>,
    /// The work stream it belongs to, if it says so.
    pub stream: Option<StreamId>,
    /// The handles of its recipients, who must be members.
    pub to: Vec<String>,
    /// The mentioned handles and roles. Names of no member stay plain text.
    pub mentions: Vec<String>,
    /// The first mentions beyond the limit.
    pub left_out: Vec<String>,
}

impl Post {
    /// Makes a message whose mentions come from its text.
    pub fn new(body: Masked) -> Self {
        let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        let (mentions, left_out) = split_mentions(body.text("content"));
        let (mentions, left_out) = (owned(mentions), owned(left_out));
        Self { body, thread: None, reply_to: None, stream: None, to: vec![], mentions, left_out }
    }
}

/// The kind of a draft, with the message that it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DraftKind {
    /// A message, perhaps an answer to another.
    Message(Option<EventId>),
    /// A change of a message's content.
    Edit(EventId),
    Deletion(EventId),
    Reaction(EventId, Signal),
}

impl DraftKind {
    /// Returns the kind of the event that it becomes.
    pub fn event(self) -> EventKind {
        match self {
            Self::Message(_) => EventKind::Message,
            Self::Edit(_) => EventKind::Edit,
            Self::Deletion(_) => EventKind::Delete,
            Self::Reaction(..) => EventKind::Reaction,
        }
    }

    /// Returns the message that it answers, changes or reacts to.
    pub fn target(self) -> Option<EventId> {
        match self {
            Self::Message(answered) => answered,
            Self::Edit(target) | Self::Deletion(target) | Self::Reaction(target, _) => Some(target),
        }
    }
}

/// A checked event that is about to be appended. It is valid only in the transaction that made it, which holds the lock of the
/// conversation.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Draft<'a> {
    pub act: &'a Act,
    pub kind: DraftKind,
    pub body: Cow<'a, Masked>,
    pub conversation: Conversation,
    /// The author as a member of the conversation.
    pub member: Member,
    /// True if the author is an agent that has spoken or was asked in the thread.
    pub author_in_thread: bool,
    /// True if the author is a lead or the owner of the conversation.
    pub author_leads: bool,
    pub thread: Option<EventId>,
    /// The work stream it belongs to.
    pub stream: Option<StreamId>,
    /// The position of the message that it changes or deletes.
    pub changed_seq: Option<i64>,
    /// The answered message: the one that it names, or else the last one of the agent that it is for, there.
    pub answers: Option<Event>,
    /// The id by which it names the answered message: the message's own, or that of an edit of it.
    pub answers_as: Option<EventId>,
    /// The answered signal: a reaction to a message of the author's, or the end of the author's wait for a person.
    pub answers_signal: Option<EventId>,
    /// True if it names a member or a role.
    pub names_somebody: bool,
    /// Mentioned names of no member and no role.
    pub unknown: Vec<String>,
    /// The named people, or the other person of a direct conversation. They get mail if they are away.
    pub people: Vec<AccountId>,
    /// The mentioned names, such as `agent:bob role:ops`, up to 2,000 bytes.
    pub mentions: String,
    /// The agents that it may concern: the other of a direct conversation, then recipients, then mentioned agents, then others.
    pub candidates: Vec<Candidate>,
}

/// Checks a new message.
pub fn draft_message<'a>(
    tx: &mut dyn Tx,
    act: &'a Act,
    new: &'a Post,
) -> Result<Draft<'a>, ConversationError> {
    let (conversation, author) = lock_as_speaker(tx, act.conversation, act.author)?;
    message_of(tx, act, new, conversation, author)
}

/// Checks a new message without a lock, for a preview in a transaction that only reads.
pub fn preview_message<'a>(
    tx: &mut dyn Tx,
    act: &'a Act,
    new: &'a Post,
) -> Result<Draft<'a>, ConversationError> {
    let (conversation, author) = as_speaker(tx, act.conversation, act.author)?;
    message_of(tx, act, new, conversation, author)
}

fn message_of<'a>(
    tx: &mut dyn Tx,
    act: &'a Act,
    new: &'a Post,
    conversation: Conversation,
    author: Member,
) -> Result<Draft<'a>, ConversationError> {
    let kind = DraftKind::Message(new.reply_to);
    let mut draft = draft(act, kind, Cow::Borrowed(&new.body), conversation, author);
    for target in new.reply_to.iter().chain(&new.thread) {
        let mut named = *target;
        if let Some(signal) = signal_to(tx, &draft.conversation, act.author, named)? {
            draft.answers_signal = Some(named).filter(|named| Some(*named) == new.reply_to);
            // A message that was never posted has no thread: an answer to it goes to the thread it was meant for.
            let Some(about) = signal.target else {
                draft.kind = DraftKind::Message(None);
                draft.thread = draft.thread.or(signal.thread);
                continue;
            };
            named = about;
        }
        // An agent cannot answer a deleted message; people may refer to it.
        let answers = Some(*target) == new.reply_to && act.author.agent().is_some();
        let find = if answers { standing_message } else { message };
        let event = find(tx, &draft.conversation, act.author, named)?;
        // An answer begins a thread at the answered message, except in a direct conversation, where every message answers.
        let begins = Some(*target) == new.thread || draft.conversation.kind == ConversationKind::Channel;
        draft.thread = event.thread.or(begins.then_some(event.id)).or(draft.thread);
        if Some(*target) == new.reply_to {
            draft.kind = DraftKind::Message(Some(event.id));
            (draft.answers, draft.answers_as) = (Some(event), new.reply_to);
        }
    }
    draft.find_pair(tx)?;
    draft.find_named(tx, &new.to, &new.mentions)?;
    draft.find_author_of_answered(tx)?;
    draft.find_thread(tx)?;
    draft.find_answered(tx)?;
    draft.place_in_stream(tx, new.stream)?;
    Ok(draft)
}

/// Checks an edit, which only the author of a message may make. It changes the content and the mentions, nothing else.
pub fn draft_edit<'a>(
    tx: &mut dyn Tx,
    act: &'a Act,
    target: EventId,
    new: &'a Post,
) -> Result<Draft<'a>, ConversationError> {
    let (conversation, author, target) = own(tx, act, target, false)?;
    let mut draft = draft(act, DraftKind::Edit(target.id), Cow::Borrowed(&new.body), conversation, author);
    (draft.thread, draft.changed_seq) = (target.thread, Some(target.seq));
    draft.find_pair(tx)?;
    draft.find_named(tx, &[], &new.mentions)?;
    draft.find_thread(tx)?;
    if let Some(answered) = target.target {
        (draft.answers, draft.answers_as) = (conversations::event_by_id(tx, answered)?, Some(answered));
    }
    draft.find_answered(tx)?;
    draft.stream = work_streams::of_event(tx, target.id)?;
    draft.find_stream(tx)?;
    Ok(draft)
}

/// Checks a deletion, which only the author of a message and the owner of the conversation may make.
pub fn draft_deletion<'a>(
    tx: &mut dyn Tx,
    act: &'a Act,
    target: EventId,
) -> Result<Draft<'a>, ConversationError> {
    let (conversation, author, target) = own(tx, act, target, true)?;
    let (kind, nothing) = (DraftKind::Deletion(target.id), Cow::Owned(Masked::nothing()));
    let mut draft = draft(act, kind, nothing, conversation, author);
    (draft.thread, draft.changed_seq) = (target.thread, Some(target.seq));
    draft.find_pair(tx)?;
    draft.find_author_of(tx, &target)?;
    draft.find_thread(tx)?;
    Ok(draft)
}

/// The result of checking a reaction.
#[derive(Debug)]
pub enum Reaction<'a> {
    /// A reaction to be appended.
    New(Box<Draft<'a>>),
    /// The author's last reaction with this signal is the same: its id and position.
    Stands(EventId, i64),
}

/// Checks a reaction to a message. It concerns the message's author, and the other member of a direct conversation.
pub fn draft_reaction<'a>(
    tx: &mut dyn Tx,
    act: &'a Act,
    target: EventId,
    signal: Signal,
    body: &'a Masked,
) -> Result<Reaction<'a>, ConversationError> {
    let (conversation, author) = lock_as_speaker(tx, act.conversation, act.author)?;
    let target = standing_message(tx, &conversation, act.author, target)?;
    let last = log::last_reaction(tx, target.id, act.author, signal)?;
    if let Some(last) = last.filter(|last| last.body == body.json()) {
        return Ok(Reaction::Stands(last.id, last.seq));
    }
    let kind = DraftKind::Reaction(target.id, signal);
    let mut draft = draft(act, kind, Cow::Borrowed(body), conversation, author);
    draft.thread = target.thread;
    draft.find_pair(tx)?;
    draft.find_author_of(tx, &target)?;
    Ok(Reaction::New(Box::new(draft)))
}

/// Returns a message that the author of an act may change.
fn own(
    tx: &mut dyn Tx,
    act: &Act,
    target: EventId,
    owner_may: bool,
) -> Result<(Conversation, Member, Event), ConversationError> {
    let (conversation, author) = lock_as_speaker(tx, act.conversation, act.author)?;
    let event = standing_message(tx, &conversation, act.author, target)?;
    if event.id != target {
        return Err(ConversationError::NoTarget);
    }
    if event.author != act.author && !(owner_may && conversation.owner == act.author) {
        return Err(ConversationError::Forbidden);
    }
    Ok((conversation, author, event))
}

fn draft<'a>(
    act: &'a Act,
    kind: DraftKind,
    body: Cow<'a, Masked>,
    conversation: Conversation,
    author: Member,
) -> Draft<'a> {
    Draft {
        act,
        kind,
        body,
        author_leads: author.lead || conversation.owner == act.author,
        conversation,
        member: author,
        author_in_thread: false,
        thread: None,
        stream: None,
        changed_seq: None,
        answers: None,
        answers_as: None,
        answers_signal: None,
        names_somebody: false,
        unknown: vec![],
        people: vec![],
        mentions: String::new(),
        candidates: vec![],
    }
}

impl Draft<'_> {
    /// Returns the act with the event that agents are given: for an edit, the edited message.
    pub fn given(&self) -> Act {
        match self.kind {
            DraftKind::Edit(message) => Act { event: message, ..*self.act },
            DraftKind::Message(_) | DraftKind::Deletion(_) | DraftKind::Reaction(..) => *self.act,
        }
    }

    /// Returns a member as a candidate if it is an agent other than the author. Notes a person as someone to mail.
    fn candidate(&mut self, member: Member) -> Option<&mut Candidate> {
        if let Principal::Account(person) = member.principal
            && member.principal != self.act.author
            && !self.people.contains(&person)
        {
            self.people.push(person);
        }
        let agent = member.principal.agent().filter(|_| member.principal != self.act.author)?;
        let known = self.candidates.iter().position(|candidate| candidate.agent == agent);
        let place = known.unwrap_or_else(|| {
            self.candidates.push(Candidate::new(agent, member.handle));
            self.candidates.len() - 1
        });
        self.candidates.get_mut(place)
    }

    fn find_pair(&mut self, tx: &mut dyn Tx) -> Result<(), StoreError> {
        if self.conversation.kind == ConversationKind::Dm {
            for member in members::page(tx, self.act.conversation, "", 2)? {
                self.candidate(member);
            }
        }
        Ok(())
    }

    fn find_named(
        &mut self,
        tx: &mut dyn Tx,
        to: &[String],
        mentions: &[String],
    ) -> Result<(), ConversationError> {
        let to = to.iter().map(|handle| (handle, true));
        for (handle, must_be_here) in to.chain(mentions.iter().map(|handle| (handle, false))) {
            match members::by_handle(tx, self.act.conversation, handle)? {
                Some(member) => {
                    self.names_somebody = true;
                    self.mention(
                        if member.principal.agent().is_some() { "agent" } else { "human" },
                        &member.handle,
                    );
                    if let Some(candidate) = self.candidate(member) {
                        candidate.named = true;
                    }
                }
                None if must_be_here => return Err(ConversationError::NoHandle(handle.clone())),
                None => self.find_role(tx, handle)?,
            }
        }
        Ok(())
    }

    /// Adds the members of a named role. A handle wins over a role of the same name.
    fn find_role(&mut self, tx: &mut dyn Tx, role: &str) -> Result<(), StoreError> {
        let members = members::in_role(tx, self.act.conversation, role, MAX_IN_ROLE)?;
        if members.is_empty() {
            self.unknown.push(role.to_owned());
            return Ok(());
        }
        self.names_somebody = true;
        self.mention("role", role);
        for member in members {
            if let Some(candidate) = self.candidate(member) {
                candidate.in_named_role = true;
            }
        }
        Ok(())
    }

    fn mention(&mut self, kind: &str, name: &str) {
        let mention = format!("{kind}:{name}");
        let known = self.mentions.split(' ').any(|known| known == mention);
        if !known && self.mentions.len() + mention.len() < MAX_MENTIONS_BYTES {
            if !self.mentions.is_empty() {
                self.mentions.push(' ');
            }
            self.mentions.push_str(&mention);
        }
    }

    fn find_author_of(&mut self, tx: &mut dyn Tx, target: &Event) -> Result<(), StoreError> {
        if matches!(target.author, Principal::Agent(_))
            && target.author != self.act.author
            && let Some(member) = members::of(tx, self.act.conversation, target.author)?
            && let Some(candidate) = self.candidate(member)
        {
            candidate.said_target = true;
        }
        Ok(())
    }

    fn find_thread(&mut self, tx: &mut dyn Tx) -> Result<(), StoreError> {
        let Some(thread) = self.thread else { return Ok(()) };
        for agent in members::agents_in_thread(tx, self.act.conversation, thread)? {
            self.author_in_thread |= agent.member.principal == self.act.author;
            // An agent that was asked earlier and never spoke no longer takes part.
            if (agent.spoke || agent.is_last)
                && let Some(candidate) = self.candidate(agent.member)
            {
                candidate.participates = agent.spoke;
                candidate.owns_thread = agent.began_it;
                candidate.last_in_thread = agent.is_last;
            }
        }
        Ok(())
    }

    /// Sets the work stream: the named one, else that of the thread, else the only open one of the conversation.
    fn place_in_stream(&mut self, tx: &mut dyn Tx, named: Option<StreamId>) -> Result<(), ConversationError> {
        let open = work_streams::open_in(tx, self.act.conversation, MAX_STREAMS)?;
        if named.is_some_and(|named| !open.contains(&named)) {
            return Err(ConversationError::NoStream);
        }
        if open.is_empty() {
            return Ok(());
        }
        let of_thread = match (named, self.thread) {
            (None, Some(thread)) => work_streams::of_event(tx, thread)?.filter(|id| open.contains(id)),
            _ => None,
        };
        let only = open.first().copied().filter(|_| open.len() == 1);
        self.stream = named.or(of_thread).or(only);
        if let Some(stream) = self.stream {
            self.body = Cow::Owned(self.body.with_id("stream", stream));
        }
        Ok(self.find_stream(tx)?)
    }

    /// Marks the owners of its work stream. Other participants read the stream when they choose to.
    fn find_stream(&mut self, tx: &mut dyn Tx) -> Result<(), StoreError> {
        let Some(stream) = self.stream else { return Ok(()) };
        for (member, part) in work_streams::agents_in(tx, stream, self.act.conversation)? {
            if part.owns
                && let Some(candidate) = self.candidate(member)
            {
                candidate.owns_stream = true;
            }
        }
        Ok(())
    }
}
