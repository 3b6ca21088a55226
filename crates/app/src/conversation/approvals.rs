//! What waits until a person agrees: who sees it, what people say to it, and what becomes of it by itself.
//!
//! Any person of the conversation decides, but not about what it wants to say itself; an agent never does. Whoever decides holds
//! the conversation: of several one is first, and the others are told how it stands. Who agrees lets the message be said, by its
//! author and at that moment, with attention as it is then. The author is told by a signal that ends its wait.

use super::follow::DIALECT;
use super::post::post_decided;
use super::{act, only};
use crate::app::{App, AppState};
use crate::attention::{self, replying};
use crate::audit::{Deed, note};
use crate::caller::Person;
use crate::error::Error;
use crate::page::fitting;
use crate::usage::event_bytes;
use crate::views;
use chorus_protocol::api::Items;
use chorus_protocol::api::approvals::{ApprovalPage, ApprovalView, Decline};
use chorus_protocol::code::Code;
use chorus_protocol::ids::{ApprovalId, ConversationId, DeliveryId, EventId, Principal};
use chorus_protocol::redact::{Masked, MaskedText};
use chorus_protocol::relay::Notice;
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::{ApprovalState, EntryKind, EventKind, Signal};
use chorus_store::approvals::{self, Approval, Decided};
use chorus_store::audit::{Action, Actor, Subject};
use chorus_store::conversation::{self, Act, ConversationError, Post};
use chorus_store::conversations::{self, NewEvent, UNPLACED};
use chorus_store::deliveries::Bringing;
use chorus_store::members::{self, Member};
use chorus_store::{StoreError, Tx};
use serde::Deserialize;
use serde_json::{Map, json};
use std::sync::Arc;

/// What waits and the caller may know of, oldest first: of a person, whatever waits in its conversations; of an agent, its own.
pub async fn list_approvals(
    app: &App,
    who: Principal,
    asked: ApprovalPage,
) -> Result<Items<ApprovalView>, Error> {
    let (ApprovalPage { channel, after, limit }, now) = (asked, app.now());
    let find = move |tx: &mut dyn Tx| {
        let mut found = approvals::page(tx, who, channel, after, now, limit + 1)?;
        let more = found.len() as i64 > limit;
        found.truncate(limit as usize);
        let next = found.last().filter(|_| more).map(|last| last.id.to_string());
        let seen = found.iter().map(|one| view(tx, who, one, now)).collect::<Result<Vec<_>, _>>()?;
        Ok((seen, next))
    };
    let (seen, next) = app.store.read::<_, Error, _>(find).await?;
    Ok(fitting(app, seen, next, |last: &ApprovalView| last.id.to_string()))
}

/// How something stands that waits, or did.
pub async fn look_at_approval(app: &App, who: Principal, id: &str) -> Result<ApprovalView, Error> {
    let (id, now) = (ApprovalId::parse(id), app.now());
    let find = move |tx: &mut dyn Tx| {
        let found = find(tx, who, id)?;
        view(tx, who, &found, now)
    };
    app.store.read::<_, Error, _>(find).await
}

/// Agrees: the message is said now. Who agrees to what somebody has agreed to already changes nothing.
pub async fn agree(app: &AppState, person: &Person, id: &str) -> Result<ApprovalView, Error> {
    let (id, me, hub) = (ApprovalId::parse(id), Principal::from(person.id), Arc::clone(app));
    // In which conversation is known inside.
    let (said, told) = (act(app, me, ConversationId(person.id.0)), EventId(app.environment.uuid_v7()));
    let (account, now) = (person.id, said.now);
    let work = move |tx: &mut dyn Tx| {
        let (found, member) = enter(tx, me, id)?;
        if found.state == ApprovalState::Agreed {
            return view(tx, me, &found, now);
        }
        still_waits(&found, now)?;
        publish(&hub, tx, &found, &member, (said.event, now))?;
        let decided = Decided { at: now, by: Some(account), reason: None, event: Some(said.event) };
        let agreed = Outcome { state: ApprovalState::Agreed, decided, by: Some(&member), told };
        end(&hub, tx, &found, &agreed)?;
        let found = approvals::by_id(tx, found.id)?.ok_or_else(missing)?;
        view(tx, me, &found, now)
    };
    app.store.write::<_, Error, _>(work).await
}

/// Declines: the message is not said, and its author is told, with the reason if there is one.
pub async fn decline(app: &AppState, person: &Person, id: &str, why: Decline) -> Result<ApprovalView, Error> {
    let (id, me, hub) = (ApprovalId::parse(id), Principal::from(person.id), Arc::clone(app));
    let (account, now, told) = (person.id, app.now(), EventId(app.environment.uuid_v7()));
    let reason = why.reason.map(|reason| MaskedText::new(reason).as_str().to_owned());
    let work = move |tx: &mut dyn Tx| {
        let (found, member) = enter(tx, me, id)?;
        still_waits(&found, now)?;
        let decided = Decided { at: now, by: Some(account), reason: reason.clone(), event: None };
        let declined = Outcome { state: ApprovalState::Declined, decided, by: Some(&member), told };
        end(&hub, tx, &found, &declined)?;
        let found = approvals::by_id(tx, found.id)?.ok_or_else(missing)?;
        view(tx, me, &found, now)
    };
    app.store.write::<_, Error, _>(work).await
}

/// Takes back what the caller wants to say itself.
pub async fn withdraw(app: &AppState, who: Principal, id: &str) -> Result<(), Error> {
    let (id, hub, now) = (ApprovalId::parse(id), Arc::clone(app), app.now());
    let told = EventId(app.environment.uuid_v7());
    let work = move |tx: &mut dyn Tx| {
        let found = find(tx, who, id)?;
        tx.lock(found.conversation.0)?;
        let found = find(tx, who, Some(found.id))?;
        if found.author != who {
            return Err(only("its author, and nobody else, takes back what waits; you may decline it")(
                ConversationError::Forbidden,
            ));
        }
        if found.state == ApprovalState::Withdrawn {
            return Ok(());
        }
        still_waits(&found, now)?;
        let decided = Decided { at: now, ..Decided::default() };
        let withdrawn = Outcome { state: ApprovalState::Withdrawn, decided, by: None, told };
        Ok(end(&hub, tx, &found, &withdrawn)?)
    };
    app.store.write::<_, Error, _>(work).await
}

/// A step of background work: what has waited long enough, or cannot be said any more, ends. Harmless if it is no longer so.
pub fn end_by_itself(
    app: &AppState,
    tx: &mut dyn Tx,
    now: i64,
    id: ApprovalId,
    told: EventId,
) -> Result<bool, StoreError> {
    let Some(found) = approvals::by_id(tx, id)? else { return Ok(false) };
    tx.lock(found.conversation.0)?;
    let found = approvals::by_id(tx, id)?.filter(|found| found.state == ApprovalState::Held);
    let Some(found) = found.filter(|found| !found.waits(now)) else { return Ok(false) };
    let decided = Decided { at: now, ..Decided::default() };
    let ended = Outcome { state: by_itself(&found, now), decided, by: None, told };
    end(app, tx, &found, &ended)?;
    Ok(true)
}

/// How something ended that nobody decided.
fn by_itself(found: &Approval, now: i64) -> ApprovalState {
    if now >= found.expires_at { ApprovalState::Expired } else { ApprovalState::Ended }
}

fn missing() -> Error {
    Error::not_found("message that waits for a person")
}

/// What waits, or did, as far as somebody may know of it: its author, and the people of the conversation.
fn find(tx: &mut dyn Tx, who: Principal, id: Option<ApprovalId>) -> Result<Approval, Error> {
    let found = id.map_or(Ok(None), |id| approvals::by_id(tx, id))?.ok_or_else(missing)?;
    let is_member = members::of(tx, found.conversation, who)?.is_some();
    let may_know = found.author == who || matches!(who, Principal::Account(_));
    if is_member && may_know { Ok(found) } else { Err(missing()) }
}

/// The same for a person that decides. Nobody else does, nor says anything there, until the transaction ends.
fn enter(tx: &mut dyn Tx, who: Principal, id: Option<ApprovalId>) -> Result<(Approval, Member), Error> {
    let found = find(tx, who, id)?;
    let entered = conversation::lock_as_speaker(tx, found.conversation, who);
    let (_, member) = entered.map_err(|error| match error {
        ConversationError::NotFound => missing(),
        error => error.into(),
    })?;
    let found = find(tx, who, Some(found.id))?;
    if found.author == who {
        return Err(Error::new(Code::Forbidden, "somebody else has to agree to what you want to say"));
    }
    Ok((found, member))
}

fn still_waits(found: &Approval, now: i64) -> Result<(), Error> {
    if found.waits(now) {
        return Ok(());
    }
    let held = found.state == ApprovalState::Held;
    let state = if held { by_itself(found, now) } else { found.state };
    let what = format_args!("it does not wait any more: it is {state}");
    Err(Error::new(Code::Conflict, what).details(json!({"state": state})))
}

/// Whom a message is for, besides those it mentions.
#[derive(Deserialize)]
struct Recipients {
    #[serde(default)]
    to: Vec<String>,
}

/// Says what waited, by its author and as of now.
fn publish(
    app: &AppState,
    tx: &mut dyn Tx,
    found: &Approval,
    by: &Member,
    (event, now): (EventId, i64),
) -> Result<(), Error> {
    let Recipients { to } = serde_json::from_str(&found.body).map_err(Error::internal)?;
    let who = views::author(by.principal, Some(by.handle.clone()));
    let approved_by = Map::from_iter([("approved_by".to_owned(), json!(who))]);
    let body = Masked::kept(&found.body, approved_by).map_err(Error::internal)?;
    let Approval { conversation, author, thread, reply_to, stream, trace, .. } = *found;
    // A person has agreed to it: it answers the message as it stands by now.
    let reply_to = match (reply_to, author.agent()) {
        (Some(named), Some(agent)) => Some(replying::stands_as(tx, named, agent)?),
        (reply_to, _) => reply_to,
    };
    let post = Post { thread, reply_to, stream, to, ..Post::new(body) };
    let act = Act { conversation, author, event, trace, now };
    let draft = conversation::draft_message(tx, &act, &post)?;
    let answer = replying::check(tx, &draft)?;
    let decided = attention::decide(tx, &draft)?;
    // The author's as well, which is told.
    let woken = decided.reach.recipients.iter().map(|one| one.agent);
    conversation::hold_inboxes(tx, woken.chain(author.agent()))?;
    post_decided(app, tx, &draft, decided)?;
    replying::remember(tx, answer, now)
}

/// Tells the people who follow a conversation just now, on whichever node, that what waits there is not what it was. What
/// it is they ask themselves, for it may be nothing that they may know.
pub(super) fn tell_people(app: &AppState, tx: &mut dyn Tx, id: ConversationId) -> Result<(), StoreError> {
    let sign = DIALECT.notice(Notice::Approvals, &json!({}));
    let sign = sign.map_err(|error| StoreError::Unexpected(error.to_string().into()))?;
    let hub = Arc::clone(app);
    tx.after_commit(Box::new(move || {
        hub.store.pass(id.0, &sign);
        hub.live.show(id.0, sign);
    }));
    Ok(())
}

/// What became of something that waited.
struct Outcome<'a> {
    state: ApprovalState,
    decided: Decided,
    /// The person who decided, if one did.
    by: Option<&'a Member>,
    /// The id of the event that tells its author.
    told: EventId,
}

/// It waits no longer: its room is free, it is written down, and its author is told.
fn end(app: &AppState, tx: &mut dyn Tx, found: &Approval, outcome: &Outcome<'_>) -> Result<(), StoreError> {
    let Outcome { state, ref decided, by, .. } = *outcome;
    if !approvals::decide(tx, found.id, state, decided)? {
        return Err(StoreError::Unexpected("what was held was decided meanwhile".into()));
    }
    tell_people(app, tx, found.conversation)?;
    app.usage.give_back(tx, [(found.author, event_bytes(found.body.len()))]);
    let action = match state {
        ApprovalState::Held => Action::ApprovalHeld,
        ApprovalState::Agreed => Action::ApprovalAgreed,
        ApprovalState::Declined => Action::ApprovalDeclined,
        ApprovalState::Withdrawn => Action::ApprovalWithdrawn,
        ApprovalState::Expired => Action::ApprovalExpired,
        ApprovalState::Ended => Action::ApprovalEnded,
    };
    let actor = Actor::Principal(by.map_or(found.author, |by| by.principal));
    let detail = json!({"approval": found.id.to_string(), "author": found.author.to_string(),
        "event": decided.event.map(|event| event.to_string())});
    note(tx, app, Deed::new(actor, action, Subject::Channel(found.conversation), detail))?;
    if state == ApprovalState::Withdrawn {
        return Ok(());
    }
    tell(app, tx, found, outcome)
}

/// Tells an agent what became of what it wanted to say: a signal of whoever decided, outside of the conversation's order, which
/// nobody else sees. Who left is not told, nor one whose session does not tell signals from messages: it looks.
fn tell(app: &AppState, tx: &mut dyn Tx, found: &Approval, outcome: &Outcome<'_>) -> Result<(), StoreError> {
    let Outcome { state, ref decided, by, told: event } = *outcome;
    let Some(agent) = found.author.agent() else { return Ok(()) };
    if members::of(tx, found.conversation, found.author)?.is_none() {
        return Ok(());
    }
    let signal = if state == ApprovalState::Agreed { Signal::Agree } else { Signal::Declined };
    let Some(attention) = attention::outcome(tx, agent, signal, decided.at)? else { return Ok(()) };
    let name = by.map_or("nobody", |by| by.handle.as_str());
    let text = match (state, &decided.reason) {
        (ApprovalState::Agreed, _) => format!("{name} agreed: your message was said"),
        (ApprovalState::Declined, None) => format!("{name} declined your message"),
        (ApprovalState::Declined, Some(why)) => format!("{name} declined your message: {why}"),
        (ApprovalState::Expired, _) => "nobody agreed to your message in time".to_owned(),
        (ApprovalState::Held | ApprovalState::Withdrawn | ApprovalState::Ended, _) => {
            "your message was not said: nothing is said there any more".to_owned()
        }
    };
    let body = Masked::new(Map::from_iter([
        ("content".to_owned(), json!(text)),
        ("signal".to_owned(), json!(signal)),
        ("approval".to_owned(), json!(found.id.to_string())),
        ("outcome".to_owned(), json!(state)),
    ]));
    let Approval { conversation, trace, thread, .. } = *found;
    let author = by.map_or(found.author, |by| by.principal);
    let new = NewEvent { id: event, conversation, author, trace, thread, target: decided.event };
    conversations::append(tx, &new, EventKind::Reaction, &body, UNPLACED, decided.at)?;
    let act = Act { conversation, author, event, trace, now: decided.at };
    let id = DeliveryId { agent, seq: tx.next_seq(agent.0)? };
    conversation::deliver(tx, &act, id, EntryKind::Chat, attention, Bringing::FIRST)?;
    app.push_after(tx);
    Ok(())
}

/// What waits, or did, as somebody sees it who may know of it.
fn view(tx: &mut dyn Tx, who: Principal, found: &Approval, now: i64) -> Result<ApprovalView, Error> {
    let place = conversations::by_id(tx, found.conversation)?.ok_or_else(missing)?;
    let mut handle = |who: Principal| -> Result<Option<String>, StoreError> {
        Ok(members::of(tx, found.conversation, who)?.map(|member| member.handle))
    };
    let author = views::author(found.author, handle(found.author)?);
    let decided = found.decided.clone().unwrap_or_default();
    let decided_by = match decided.by {
        Some(by) => Some(handle(by.into())?.unwrap_or_else(|| by.to_string())),
        None => None,
    };
    let waits = found.waits(now);
    let body = Masked::kept(if waits { &found.body } else { "{}" }, Map::new()).map_err(Error::internal)?;
    let held = found.state == ApprovalState::Held;
    Ok(ApprovalView {
        id: found.id,
        channel: found.conversation,
        name: place.name,
        author,
        state: if held && !waits { by_itself(found, now) } else { found.state },
        content: waits.then(|| body.text("content").to_owned()),
        thread: found.thread,
        reply_to: found.reply_to,
        may_decide: waits && found.author != who && matches!(who, Principal::Account(_)),
        created_at: rfc3339(found.created_at),
        expires_at: rfc3339(found.expires_at),
        decided_by,
        decided_at: found.decided.as_ref().map(|decided| rfc3339(decided.at)),
        reason: decided.reason,
        event_id: decided.event,
    })
}
