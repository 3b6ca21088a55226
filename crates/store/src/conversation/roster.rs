//! Making, changing and archiving conversations, and who comes and goes.

use super::{Act, ConversationError, append, append_always, as_reader, lock_as_speaker, new_event, told};
use crate::conversations::{self, Conversation, ConversationKind, History};
use crate::digests::{self, DigestPosition, DigestScope};
use crate::members::{self, Member};
use crate::usage::Refusal;
use crate::{StoreError, Tx, approvals, claims};
use chorus_protocol::ids::{ConversationId, EventId, Principal, TraceId, is_id};
use chorus_protocol::mentions::MAX_HANDLE;
use chorus_protocol::redact::Masked;
use chorus_protocol::words::EventKind;
use serde_json::json;
use uuid::Uuid;

/// The most members that are called the same but for a number.
const MAX_NAMESAKES: usize = 1000;

/// Makes a conversation, with its owner as the first member.
pub fn create(
    tx: &mut dyn Tx,
    act: &Act,
    new: &Conversation,
    handle: Handle,
) -> Result<Member, ConversationError> {
    create_as(tx, act, new, handle, Refusal::WhenFull)
}

fn create_as(
    tx: &mut dyn Tx,
    act: &Act,
    new: &Conversation,
    handle: Handle,
    refusal: Refusal,
) -> Result<Member, ConversationError> {
    conversations::insert(tx, new, act.trace, refusal)?;
    let owner = Newcomer { principal: new.owner, handle, roles: vec![], lead: false };
    join(tx, act, &owner, refusal)
}

/// The second member of a new direct conversation.
#[derive(Debug)]
pub struct SecondMember {
    pub principal: Principal,
    pub handle: Handle,
    /// The id of the event by which it joins.
    pub event: EventId,
}

/// Returns the direct conversation of an act's author, with `handle`, and another, and whether it was made just now. It counts
/// for the author.
pub fn pair(
    tx: &mut dyn Tx,
    act: &Act,
    new: &Conversation,
    handle: Handle,
    second: SecondMember,
    refusal: Refusal,
) -> Result<(Conversation, bool), ConversationError> {
    // Of two that make it at the same time one comes first.
    tx.lock(act.conversation.into())?;
    if let Some(known) = conversations::by_id(tx, act.conversation)? {
        return Ok((known, false));
    }
    create_as(tx, act, new, handle, refusal)?;
    let other = Newcomer { principal: second.principal, handle: second.handle, roles: vec![], lead: false };
    join(tx, &Act { event: second.event, ..*act }, &other, refusal)?;
    Ok((new.clone(), true))
}

/// The handle that a new member asks for.
#[derive(Debug, Clone)]
pub enum Handle {
    Exactly(String),
    /// This, or with a number added when that is taken.
    Like(String),
}

/// Somebody who becomes a member.
#[derive(Debug, Clone)]
pub struct Newcomer {
    pub principal: Principal,
    pub handle: Handle,
    pub roles: Vec<String>,
    /// True if it becomes a lead.
    pub lead: bool,
}

/// Handles that nobody may have: they would be taken for the hub, or for everybody.
const RESERVED: [&str; 7] = ["all", "channel", "everyone", "here", "hub", "operator", "system"];

/// Returns `true` for words with a meaning of their own, and for texts that a caller could take for a member's id.
fn is_reserved(handle: &str) -> bool {
    is_id(handle) || RESERVED.iter().any(|word| word.eq_ignore_ascii_case(handle))
}

/// Returns whether a role here has this name. A handle would take precedence over the role and get its
/// messages.
fn is_role(tx: &mut dyn Tx, id: ConversationId, handle: &str) -> Result<bool, StoreError> {
    Ok(!members::in_role(tx, id, handle, 1)?.is_empty())
}

/// Returns the handle that a new member gets. A member that adds it may give it the name of a role; a new
/// member cannot choose one itself.
fn free_handle(tx: &mut dyn Tx, id: ConversationId, wanted: &Handle) -> Result<String, ConversationError> {
    let (Handle::Exactly(base) | Handle::Like(base)) = wanted;
    let is_chosen = matches!(wanted, Handle::Exactly(_));
    if is_chosen && is_reserved(base) {
        return Err(ConversationError::HandleReserved(base.clone()));
    }
    let is_apart = is_chosen || !(is_reserved(base) || is_role(tx, id, base)?);
    if is_apart && members::by_handle(tx, id, base)?.is_none() {
        return Ok(base.clone());
    }
    if matches!(wanted, Handle::Like(_)) {
        for number in 2..=MAX_NAMESAKES {
            let ending = format!("-{number}");
            let room = MAX_HANDLE - ending.len();
            let handle = base.chars().take(room).chain(ending.chars()).collect::<String>();
            if members::by_handle(tx, id, &handle)?.is_none() {
                return Ok(handle);
            }
        }
    }
    Err(ConversationError::HandleTaken(base.clone()))
}

fn join(tx: &mut dyn Tx, act: &Act, new: &Newcomer, refusal: Refusal) -> Result<Member, ConversationError> {
    // The conversation's stream is a lock as well: of two who want the same handle one comes first.
    let seq = tx.next_seq(act.conversation.into())?;
    if let Some(member) = members::of(tx, act.conversation, new.principal)? {
        return Err(ConversationError::Already(member.handle));
    }
    let member = Member {
        principal: new.principal,
        handle: free_handle(tx, act.conversation, &new.handle)?,
        roles: new.roles.clone(),
        lead: new.lead,
        joined_seq: seq - 1,
        joined_at: act.now,
    };
    members::insert(tx, act.conversation, &member, act.trace)?;
    if member.lead {
        begin_digests(tx, act, &member, seq)?;
    }
    let append = match refusal {
        Refusal::WhenFull => conversations::append,
        Refusal::Never => conversations::append_always,
    };
    append(tx, &new_event(act), EventKind::Join, &about(&member), seq, act.now)?;
    Ok(member)
}

/// The body of an event about a member.
fn about(member: &Member) -> Masked {
    let (id, kind) = (member.principal.to_string(), member.principal.kind());
    told([("member", json!({"handle": member.handle, "id": id, "kind": kind}))])
}

/// Returns whether a principal may add members here: the owner and the leads may.
pub fn may_add(
    tx: &mut dyn Tx,
    id: ConversationId,
    who: Principal,
) -> Result<Conversation, ConversationError> {
    let (conversation, member) = lock_as_speaker(tx, id, who)?;
    if conversation.kind == ConversationKind::Dm || (conversation.owner != who && !member.lead) {
        return Err(ConversationError::Forbidden);
    }
    Ok(conversation)
}

/// Adds a member; the owner and the leads may.
pub fn add_member(tx: &mut dyn Tx, act: &Act, new: &Newcomer) -> Result<Member, ConversationError> {
    may_add(tx, act.conversation, act.author)?;
    join(tx, act, new, Refusal::WhenFull)
}

/// Lets somebody into a channel whom nobody there adds: the operator does, or it was invited. The caller has seen that it may.
pub fn admit(tx: &mut dyn Tx, act: &Act, new: &Newcomer) -> Result<Member, ConversationError> {
    // Checked before waiting for the lock, and again after it, because the conversation may have been archived
    // meanwhile.
    takes_members(tx, act.conversation)?;
    tx.lock(act.conversation.into())?;
    takes_members(tx, act.conversation)?;
    join(tx, act, new, Refusal::WhenFull)
}

fn takes_members(tx: &mut dyn Tx, id: ConversationId) -> Result<(), ConversationError> {
    let conversation = conversations::by_id(tx, id)?.ok_or(ConversationError::NotFound)?;
    if conversation.kind == ConversationKind::Dm {
        return Err(ConversationError::Forbidden);
    }
    if conversation.archived_at.is_some() {
        return Err(ConversationError::Archived);
    }
    Ok(())
}

/// Takes a member out; the owner and the leads may take out anybody but the owner, everybody himself.
pub fn remove_member(tx: &mut dyn Tx, act: &Act, handle: &str) -> Result<(), ConversationError> {
    let (conversation, me) = lock_as_speaker(tx, act.conversation, act.author)?;
    let member = members::by_handle(tx, act.conversation, handle)?
        .ok_or_else(|| ConversationError::NoHandle(handle.to_owned()))?;
    let own = member.principal == act.author;
    // A lead does not take a conversation from its owner.
    let lead = me.lead && member.principal != conversation.owner;
    if conversation.kind == ConversationKind::Dm || !(own || lead || conversation.owner == act.author) {
        return Err(ConversationError::Forbidden);
    }
    if member.principal == conversation.owner {
        return Err(ConversationError::OwnerStays);
    }
    let seq = append(tx, act, EventKind::Leave, None, None, &about(&member))?;
    end_stay(tx, act.conversation, member.principal, seq, act.now)?;
    Ok(())
}

/// Somebody is gone, what it had taken on is for others, and what it wanted to say is not said.
fn end_stay(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    who: Principal,
    seq: i64,
    now: i64,
) -> Result<(), StoreError> {
    members::end(tx, conversation, who, seq, now)?;
    approvals::end_of(tx, conversation, who, now)?;
    claims::free(tx, conversation, who, now)
}

/// Changes of a member.
#[derive(Debug, Clone, Default)]
pub struct MemberChange {
    pub handle: Option<String>,
    pub roles: Option<Vec<String>>,
    /// True if it is a lead.
    pub lead: Option<bool>,
}

/// Changes what a member is; the owner and the leads may, and everybody what it is called itself.
pub fn change_member(
    tx: &mut dyn Tx,
    act: &Act,
    handle: &str,
    change: &MemberChange,
) -> Result<Member, ConversationError> {
    let (conversation, me) = lock_as_speaker(tx, act.conversation, act.author)?;
    let mut member = members::by_handle(tx, act.conversation, handle)?
        .ok_or_else(|| ConversationError::NoHandle(handle.to_owned()))?;
    let owns = conversation.owner == act.author;
    // A lead makes no other one, and takes nothing from the owner.
    let leads = me.lead && member.principal != conversation.owner && change.lead.is_none();
    let own = member.principal == act.author && change.roles.is_none() && change.lead.is_none();
    if conversation.kind == ConversationKind::Dm || !(owns || leads || own) {
        return Err(ConversationError::Forbidden);
    }
    if let Some(new) = &change.handle {
        let other = members::by_handle(tx, act.conversation, new)?;
        if other.is_some_and(|other| other.principal != member.principal) {
            return Err(ConversationError::HandleTaken(new.clone()));
        }
        let is_own_choice = !owns && !leads;
        if is_reserved(new) || is_own_choice && is_role(tx, act.conversation, new)? {
            return Err(ConversationError::HandleReserved(new.clone()));
        }
        member.handle.clone_from(new);
    }
    member.roles = change.roles.clone().unwrap_or(member.roles);
    member.lead = change.lead.unwrap_or(member.lead);
    members::update(tx, act.conversation, &member)?;
    let (id, kind) = (member.principal.to_string(), member.principal.kind());
    let told = told([(
        "member",
        json!({"handle": member.handle, "id": id, "kind": kind, "roles": member.roles, "lead": member.lead}),
    )]);
    let seq = append(tx, act, EventKind::Change, None, None, &told)?;
    if change.handle.is_some() {
        members::call_since(tx, act.conversation, member.principal, seq)?;
    }
    if member.lead {
        begin_digests(tx, act, &member, seq)?;
    }
    Ok(member)
}

/// An agent that leads is told from now on how much happens.
fn begin_digests(tx: &mut dyn Tx, act: &Act, member: &Member, through: i64) -> Result<(), StoreError> {
    let Some(agent) = member.principal.agent() else { return Ok(()) };
    let (id, scope, since_at) = (act.conversation.0, DigestScope::Channel, act.now);
    digests::begin(tx, &DigestPosition { agent, id, scope, through, since_at })
}

/// Takes somebody who is going away out of every conversation; what it owned gets another owner. `fresh` makes ids.
pub fn leave_all(
    tx: &mut dyn Tx,
    who: Principal,
    now: i64,
    fresh: &dyn Fn() -> Uuid,
) -> Result<(), StoreError> {
    // In the order of their ids, so that two that go away never wait for each other.
    for conversation in members::conversations_of(tx, who)? {
        tx.lock(conversation.into())?;
        // Somebody may have taken it out before it got here.
        let Some(member) = members::of(tx, conversation, who)? else { continue };
        conversations::pass_on(tx, conversation, who)?;
        let act = Act { conversation, author: who, event: EventId(fresh()), trace: TraceId(fresh()), now };
        let seq = append(tx, &act, EventKind::Leave, None, None, &about(&member))?;
        end_stay(tx, conversation, who, seq, now)?;
    }
    Ok(())
}

/// Changes a conversation, and makes the member of the handle `owner` its owner; its owner may.
pub fn change(
    tx: &mut dyn Tx,
    act: &Act,
    owner: Option<&str>,
    apply: &dyn Fn(&mut Conversation),
) -> Result<Conversation, ConversationError> {
    change_as(tx, act, owner, apply, Refusal::WhenFull)
}

fn change_as(
    tx: &mut dyn Tx,
    act: &Act,
    owner: Option<&str>,
    apply: &dyn Fn(&mut Conversation),
    refusal: Refusal,
) -> Result<Conversation, ConversationError> {
    let (mut conversation, _) = lock_as_speaker(tx, act.conversation, act.author)?;
    if conversation.owner != act.author || conversation.kind == ConversationKind::Dm {
        return Err(ConversationError::Forbidden);
    }
    let was_joined = conversation.history == History::Joined;
    apply(&mut conversation);
    if let Some(handle) = owner {
        let heir = members::by_handle(tx, act.conversation, handle)?;
        conversation.owner = heir.ok_or_else(|| ConversationError::NoHandle(handle.to_owned()))?.principal;
    }
    let owner = json!({"id": conversation.owner.to_string(), "kind": conversation.owner.kind()});
    let body = told([
        ("name", conversation.name.as_str().into()),
        ("context", conversation.context.as_deref().into()),
        ("history", conversation.history.as_str().into()),
        ("archived", conversation.archived_at.is_some().into()),
        ("owner", owner),
    ]);
    let seq = match refusal {
        Refusal::WhenFull => append(tx, act, EventKind::Change, None, None, &body)?,
        Refusal::Never => append_always(tx, act, EventKind::Change, &body)?,
    };
    if was_joined && conversation.history == History::All {
        // Nobody agreed to be read later by others: what was said before stays with those who were there.
        conversation.open_from = seq - 1;
    }
    conversations::update(tx, &conversation)?;
    Ok(conversation)
}

/// Opens an archived channel again; its owner may, again and again.
pub fn restore(tx: &mut dyn Tx, act: &Act) -> Result<Conversation, ConversationError> {
    // Only its owner makes others wait; and it may be somebody else's by now.
    own_channel(tx, act)?;
    tx.lock(act.conversation.into())?;
    let mut conversation = own_channel(tx, act)?;
    if conversation.archived_at.is_some() {
        conversation.archived_at = None;
        conversations::update(tx, &conversation)?;
        append(tx, act, EventKind::Change, None, None, &told([("archived", false.into())]))?;
    }
    Ok(conversation)
}

/// A channel of whoever acts.
fn own_channel(tx: &mut dyn Tx, act: &Act) -> Result<Conversation, ConversationError> {
    let (conversation, _) = as_reader(tx, act.conversation, act.author)?;
    if conversation.owner != act.author || conversation.kind == ConversationKind::Dm {
        return Err(ConversationError::Forbidden);
    }
    Ok(conversation)
}

/// Archives a conversation; its owner may, again and again.
pub fn archive(tx: &mut dyn Tx, act: &Act) -> Result<(), ConversationError> {
    let (conversation, _) = as_reader(tx, act.conversation, act.author)?;
    let archived =
        change_as(tx, act, None, &|conversation| conversation.archived_at = Some(act.now), Refusal::Never);
    match archived {
        Err(ConversationError::Archived) if conversation.owner == act.author => Ok(()),
        Err(ConversationError::Archived) => Err(ConversationError::Forbidden),
        archived => {
            archived?;
            Ok(approvals::end_in(tx, act.conversation, act.now)?)
        }
    }
}
