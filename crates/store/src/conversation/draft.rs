//! What is about to be said, changed, taken back or reacted to: checked, and with everything that is known of whom it may
//! concern.
//!
//! A [`Draft`] comes from here and from nowhere else. What an agent has to do with it is found by the conversation's own
//! indexes in a bounded number of queries: nobody goes through the roster, and who is not among the candidates is a
//! bystander. What follows from it is not decided here.

use super::{Act, ConversationError, as_speaker, lock_as_speaker, message, signal_to, standing_message};
use crate::conversations::{Conversation, ConversationKind, Event};
use crate::members::{self, Member};
use crate::{StoreError, Tx, log, work_streams};
use chorus_protocol::ids::{AccountId, AgentId, EventId, Principal, StreamId};
use chorus_protocol::mentions::split_mentions;
use chorus_protocol::redact::Masked;
use chorus_protocol::words::{EventKind, Signal};
use std::borrow::Cow;

/// How much of whom an event names goes with it.
const MAX_MENTIONS_BYTES: usize = 2000;

/// The most members of a role that something for the role may concern.
const MAX_IN_ROLE: i64 = 50;

/// The most open work streams that go on in one conversation.
pub const MAX_STREAMS: i64 = 20;

/// A message to be said.
#[derive(Debug, Clone)]
pub struct Post {
    /// What it says; it is found by the words of `content`.
    pub body: Masked,
    /// The thread it belongs to: any message of it.
    pub thread: Option<EventId>,
    /// What it answers.
    pub reply_to: Option<EventId>,
    /// The work stream it belongs to, if it says so.
    pub stream: Option<StreamId>,
    /// Whom it is for: these must be here.
    pub to: Vec<String>,
    /// Whom it mentions: who is not here is only a word.
    pub mentions: Vec<String>,
    /// The first of those that it mentions besides, which are too many.
    pub left_out: Vec<String>,
}

impl Post {
    /// A message to whom its text mentions.
    pub fn new(body: Masked) -> Self {
        let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        let (mentions, left_out) = split_mentions(body.text("content"));
        let (mentions, left_out) = (owned(mentions), owned(left_out));
        Self { body, thread: None, reply_to: None, stream: None, to: vec![], mentions, left_out }
    }
}

/// What a draft does, and to which message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DraftKind {
    /// It says something, perhaps as an answer.
    Message(Option<EventId>),
    /// It changes what a message says.
    Edit(EventId),
    /// It takes a message back.
    Deletion(EventId),
    /// It reacts to a message.
    Reaction(EventId, Signal),
}

impl DraftKind {
    /// The kind of event it becomes.
    pub fn event(self) -> EventKind {
        match self {
            Self::Message(_) => EventKind::Message,
            Self::Edit(_) => EventKind::Edit,
            Self::Deletion(_) => EventKind::Delete,
            Self::Reaction(..) => EventKind::Reaction,
        }
    }

    /// The message that it answers, changes or reacts to.
    pub fn target(self) -> Option<EventId> {
        match self {
            Self::Message(answered) => answered,
            Self::Edit(target) | Self::Deletion(target) | Self::Reaction(target, _) => Some(target),
        }
    }
}

/// An agent that an event may concern, and what it has to do with it. It is a present member, and not the author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Which.
    pub agent: AgentId,
    /// What it is called there.
    pub handle: String,
    /// The event names it, or is for it.
    pub named: bool,
    /// The event names a role of its.
    pub in_named_role: bool,
    /// It began the thread.
    pub owns_thread: bool,
    /// It has spoken in the thread, as far back as that is looked up.
    pub participates: bool,
    /// Of all agents it was the last that spoke or was asked in the thread; several, if they were asked together.
    pub last_in_thread: bool,
    /// It said what the event changes or reacts to, or what a message in a thread answers.
    pub said_target: bool,
    /// It owns the work stream that the event belongs to.
    pub owns_stream: bool,
}

/// Something that is about to be appended. It is good for the transaction it was made in, which keeps others out of the
/// conversation.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Draft<'a> {
    /// Who does it, where, and when.
    pub act: &'a Act,
    /// What it does, and to which message.
    pub kind: DraftKind,
    /// What it says.
    pub body: Cow<'a, Masked>,
    /// Where.
    pub conversation: Conversation,
    /// What its author is called there.
    pub handle: String,
    /// Whether its author leads there, or owns it.
    pub author_leads: bool,
    /// The thread it is in.
    pub thread: Option<EventId>,
    /// The work stream it belongs to.
    pub stream: Option<StreamId>,
    /// The place of the message that it changes or takes back.
    pub changed_seq: Option<i64>,
    /// What a message answers: what it says it does, or in a conversation of two the message before it.
    pub answers: Option<Event>,
    /// The id by which it names what it answers: the message's own, or that of a change of it.
    pub answers_as: Option<EventId>,
    /// The reaction to a message of its author's, or the end of its author's wait for a person, that it answers.
    pub answers_signal: Option<EventId>,
    /// Whether it names any member, agent or person, or a role.
    pub names_somebody: bool,
    /// Whom it mentions, and nobody here is called so.
    pub unknown: Vec<String>,
    /// People that it names, or with whom it is a conversation of two: they are told if they are away.
    pub people: Vec<AccountId>,
    /// Whom it names, `agent:bob role:ops`, as far as there is room for it.
    pub mentions: String,
    /// Whom it may concern: those of a conversation of two, then those it is for, then those it mentions, then others.
    pub candidates: Vec<Candidate>,
}

/// Checks a message that is to be said.
pub fn draft_message<'a>(
    tx: &mut dyn Tx,
    act: &'a Act,
    new: &'a Post,
) -> Result<Draft<'a>, ConversationError> {
    let (conversation, author) = lock_as_speaker(tx, act.conversation, act.author)?;
    message_of(tx, act, new, conversation, author)
}

/// The same without keeping anybody out, to see what would be: in a transaction that only reads.
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
            // What was not said has no thread of its own: an answer goes where it was to be said.
            let Some(about) = signal.target else {
                draft.kind = DraftKind::Message(None);
                draft.thread = draft.thread.or(signal.thread);
                continue;
            };
            named = about;
        }
        // What was taken back no agent answers; people may speak of it.
        let answers = Some(*target) == new.reply_to && act.author.agent().is_some();
        let find = if answers { standing_message } else { message };
        let event = find(tx, &draft.conversation, act.author, named)?;
        // An answer begins a thread at what it answers, but between two, where everything answers.
        let begins = Some(*target) == new.thread || draft.conversation.kind == ConversationKind::Channel;
        draft.thread = event.thread.or(begins.then_some(event.id)).or(draft.thread);
        if Some(*target) == new.reply_to {
            draft.kind = DraftKind::Message(Some(event.id));
            (draft.answers, draft.answers_as) = (Some(event), new.reply_to);
        }
    }
    draft.find_pair(tx)?;
    draft.find_named(tx, &new.to, &new.mentions)?;
    draft.find_answered(tx)?;
    draft.find_thread(tx)?;
    draft.place_in_stream(tx, new.stream)?;
    Ok(draft)
}

/// Checks a change of what a message says; its author may. Only what it says and whom it mentions changes.
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
    draft.stream = work_streams::of_event(tx, target.id)?;
    draft.find_stream(tx)?;
    Ok(draft)
}

/// Checks that a message may be taken back; its author may do that, and the conversation's owner.
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

/// A reaction, as far as it is one.
#[derive(Debug)]
pub enum Reaction<'a> {
    /// It is to be appended.
    New(Box<Draft<'a>>),
    /// Its author's last reaction of this signal says just that: this event, at this place.
    Stands(EventId, i64),
}

/// Checks a reaction to a message. It concerns who said that, and in a conversation of two the other: nobody else.
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

/// A message that the author of an act may change.
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
        handle: author.handle,
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
    /// The same act, with the event that agents are given: of a change, the message as it stands from then on.
    pub fn given(&self) -> Act {
        match self.kind {
            DraftKind::Edit(message) => Act { event: message, ..*self.act },
            DraftKind::Message(_) | DraftKind::Deletion(_) | DraftKind::Reaction(..) => *self.act,
        }
    }

    /// A member as a candidate, if it is one: people are never pushed to, and nobody writes to himself.
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
            self.candidates.push(Candidate {
                agent,
                handle: member.handle,
                named: false,
                in_named_role: false,
                owns_thread: false,
                participates: false,
                last_in_thread: false,
                said_target: false,
                owns_stream: false,
            });
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

    /// Those that have a role which is named. A handle wins over a role of the same name.
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

    fn find_answered(&mut self, tx: &mut dyn Tx) -> Result<(), StoreError> {
        let answered = self.answers.take();
        if self.thread.is_some()
            && let Some(answered) = &answered
        {
            self.find_author_of(tx, answered)?;
        }
        self.answers = match answered {
            None if self.conversation.kind == ConversationKind::Dm => {
                log::last_messages(tx, self.act.conversation, None, 1)?.pop()
            }
            answered => answered,
        };
        Ok(())
    }

    fn find_thread(&mut self, tx: &mut dyn Tx) -> Result<(), StoreError> {
        let Some(thread) = self.thread else { return Ok(()) };
        for agent in members::agents_in_thread(tx, self.act.conversation, thread)? {
            // Who was asked once and never spoke has nothing to do with it any more.
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

    /// What is said belongs to the stream that it names; else to that of its thread, or to the only one that goes on here.
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

    /// Whose the stream is that it belongs to. Who only takes part finds what is said there.
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
