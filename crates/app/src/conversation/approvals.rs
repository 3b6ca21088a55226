//! Messages that await approval: their visibility, the decisions of people, and their expiry.
//!
//! Any person of the conversation decides, except about the person's own message; an agent never decides. The
//! decision locks the conversation, so that the first of several wins, and the others see its outcome. An
//! approved message is said by its author at that moment, with attention as of then. The author gets a signal
//! that ends its wait.

use super::follow::DIALECT;
use super::post::post_planned;
use super::{act, only};
use crate::attention;
use crate::views;
use chorus_attention::plan::{self, inboxes};
use chorus_node::Error;
use chorus_node::audit::{Deed, note};
use chorus_node::caller::Person;
use chorus_node::page::fitting;
use chorus_node::{App, AppState};
use chorus_protocol::api::Items;
use chorus_protocol::api::approvals::{ApprovalPage, ApprovalView, Decline};
use chorus_protocol::code::Code;
use chorus_protocol::ids::{ApprovalId, ConversationId, DeliveryId, EventId, Principal};
use chorus_protocol::redact::{Masked, MaskedText};
use chorus_protocol::relay::Notice;
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::{ApprovalState, EntryKind, EventKind, Signal};
use chorus_store::approvals::{self, Approval, Decided};
use chorus_store::attention::{abilities, newest_version};
use chorus_store::audit::{Action, Actor, Subject};
use chorus_store::conversation::{self, Act, ConversationError, Post};
use chorus_store::conversations::{self, NewEvent, UNPLACED};
use chorus_store::deliveries::Bringing;
use chorus_store::members::{self, Member};
use chorus_store::{StoreError, Tx};
use serde::Deserialize;
use serde_json::{Map, json};
use std::sync::Arc;

/// Returns a page of pending approvals, the oldest first: for a person those of its conversations, for an
/// agent its own.
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

/// Returns a pending or decided approval.
pub async fn look_at_approval(app: &App, who: Principal, id: &str) -> Result<ApprovalView, Error> {
    let (id, now) = (ApprovalId::parse(id), app.now());
    let find = move |tx: &mut dyn Tx| {
        let found = find(tx, who, id)?;
        view(tx, who, &found, now)
    };
    app.store.read::<_, Error, _>(find).await
}

/// Approves a message, which is said now. Approving it again changes nothing.
pub async fn agree(app: &AppState, person: &Person, id: &str) -> Result<ApprovalView, Error> {
    let (id, me, hub) = (ApprovalId::parse(id), Principal::from(person.id), Arc::clone(app));
    // The conversation is found inside the transaction; this id is a placeholder.
    let (said, told) = (act(app, me, ConversationId(person.id.0)), EventId(app.environment.uuid_v7()));
    let (account, now) = (person.id, said.now);
    let work = move |tx: &mut dyn Tx| {
        let (found, member) = enter(tx, me, id)?;
        if found.state == ApprovalState::Agreed {
            return view(tx, me, &found, now);
        }
        still_waits(&found, now)?;
        publish(&hub, tx, &found, &member, said.event, now)?;
        let decided = Decided { at: now, by: Some(account), reason: None, event: Some(said.event) };
        let agreed = Outcome { state: ApprovalState::Agreed, decided, by: Some(&member), told };
        end(&hub, tx, &found, &agreed)?;
        let found = approvals::by_id(tx, found.id)?.ok_or_else(missing)?;
        view(tx, me, &found, now)
    };
    app.store.write::<_, Error, _>(work).await
}

/// Declines a message. It is not said, and its author is told, with the reason if one is given.
pub async fn decline(app: &AppState, person: &Person, id: &str, why: Decline) -> Result<ApprovalView, Error> {
    let (id, me, hub) = (ApprovalId::parse(id), Principal::from(person.id), Arc::clone(app));
    let (account, now, told) = (person.id, app.now(), EventId(app.environment.uuid_v7()));
    let reason = why.reason.map(MaskedText::new);
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

/// Withdraws the caller's own message.
pub async fn withdraw(app: &AppState, who: Principal, id: &str) -> Result<(), Error> {
    let (id, hub, now) = (ApprovalId::parse(id), Arc::clone(app), app.now());
    let told = EventId(app.environment.uuid_v7());
    let work = move |tx: &mut dyn Tx| {
        let found = find(tx, who, id)?;
        tx.lock(found.conversation.into())?;
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

/// Runs one step of background work: ends an approval that has expired or can no longer be said. Returns
/// `false` if it is still pending or was already decided.
pub fn end_by_itself(
    app: &AppState,
    tx: &mut dyn Tx,
    now: i64,
    id: ApprovalId,
    told: EventId,
) -> Result<bool, StoreError> {
    let Some(found) = approvals::by_id(tx, id)? else { return Ok(false) };
    tx.lock(found.conversation.into())?;
    let found = approvals::by_id(tx, id)?.filter(|found| found.state == ApprovalState::Held);
    let Some(found) = found.filter(|found| !found.waits(now)) else { return Ok(false) };
    let decided = Decided { at: now, ..Decided::default() };
    let ended = Outcome { state: by_itself(&found, now), decided, by: None, told };
    end(app, tx, &found, &ended)?;
    Ok(true)
}

/// Returns the final state of an approval that nobody decided.
fn by_itself(found: &Approval, now: i64) -> ApprovalState {
    if now >= found.expires_at { ApprovalState::Expired } else { ApprovalState::Ended }
}

fn missing() -> Error {
    Error::not_found("message that waits for a person")
}

/// Returns an approval that the caller may see: its author, and the people of the conversation.
fn find(tx: &mut dyn Tx, who: Principal, id: Option<ApprovalId>) -> Result<Approval, Error> {
    let found = id.map_or(Ok(None), |id| approvals::by_id(tx, id))?.ok_or_else(missing)?;
    let is_member = members::of(tx, found.conversation, who)?.is_some();
    let may_know = found.author == who || matches!(who, Principal::Account(_));
    if is_member && may_know { Ok(found) } else { Err(missing()) }
}

/// Returns an approval for a person who decides, and locks its conversation until the transaction ends.
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

/// The explicit recipients of a message, besides its mentions.
#[derive(Deserialize)]
struct Recipients {
    #[serde(default)]
    to: Vec<String>,
}

/// Says an approved message, by its author and as of now.
fn publish(
    app: &AppState,
    tx: &mut dyn Tx,
    found: &Approval,
    by: &Member,
    event: EventId,
    now: i64,
) -> Result<(), Error> {
    let who = views::author(by.principal, Some(by.handle.clone()));
    let approved_by = Map::from_iter([(views::APPROVED_BY.to_owned(), json!(who))]);
    let body = Masked::kept(&found.body, approved_by).map_err(Error::internal)?;
    let Approval { conversation, author, thread, reply_to, stream, trace, .. } = *found;
    let act = Act { conversation, author, event, trace, now };
    if let Some(message) = found.edit_of {
        let post = Post::new(body);
        let draft = conversation::draft_edit(tx, &act, message, &post)?;
        let effects = attention::decide(tx, &draft)?;
        conversation::hold_inboxes(tx, inboxes(&effects).into_iter().chain(author.agent()))?;
        return post_planned(app, tx, &draft, &effects).map(drop);
    }
    let Recipients { to } = serde_json::from_str(&found.body).map_err(Error::internal)?;
    // An approved reply answers the newest version of its message.
    let reply_to = match (reply_to, author.agent()) {
        (Some(named), Some(agent)) => Some(newest_version(tx, named, agent)?),
        (reply_to, _) => reply_to,
    };
    let post = Post { thread, reply_to, stream, to, ..Post::new(body) };
    let draft = conversation::draft_message(tx, &act, &post)?;
    let effects = attention::decide(tx, &draft)?;
    // The author's inbox too: it is told of the decision.
    conversation::hold_inboxes(tx, inboxes(&effects).into_iter().chain(author.agent()))?;
    post_planned(app, tx, &draft, &effects).map(drop)
}

/// Withdraws a held edit because its author made a newer one.
pub(super) fn withdraw_held(
    app: &AppState,
    tx: &mut dyn Tx,
    found: &Approval,
    act: &Act,
) -> Result<(), StoreError> {
    let decided = Decided { at: act.now, ..Decided::default() };
    end(app, tx, found, &Outcome { state: ApprovalState::Withdrawn, decided, by: None, told: act.event })
}

/// Notifies the people who follow a conversation, on every node, that its pending approvals changed. The
/// notice carries no content; each follower asks for what it may see.
pub(super) fn tell_people(app: &AppState, tx: &mut dyn Tx, id: ConversationId) -> Result<(), StoreError> {
    let sign = DIALECT.notice(Notice::Approvals, &json!({}));
    let sign = sign.map_err(|error| StoreError::Unexpected(error.to_string().into()))?;
    let hub = Arc::clone(app);
    tx.after_commit(Box::new(move || {
        hub.store.pass(id.into(), &sign);
        hub.transport.live.show(id.into(), sign);
    }));
    Ok(())
}

/// The outcome of an approval.
struct Outcome<'a> {
    state: ApprovalState,
    decided: Decided,
    /// The person who decided; `None` if nobody did.
    by: Option<&'a Member>,
    /// The id of the event that notifies the author.
    told: EventId,
}

/// Ends an approval: releases its quota, records it in the audit log, and notifies its author.
fn end(app: &AppState, tx: &mut dyn Tx, found: &Approval, outcome: &Outcome<'_>) -> Result<(), StoreError> {
    let Outcome { state, ref decided, by, .. } = *outcome;
    if !approvals::decide(tx, found.id, state, decided)? {
        return Err(StoreError::Unexpected("what was held was decided meanwhile".into()));
    }
    tell_people(app, tx, found.conversation)?;
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

/// Notifies an agent of the outcome of its message, by a signal outside the conversation's sequence that
/// nobody else sees. An agent that has left is not notified, nor one whose session cannot tell signals from
/// messages; it has to ask.
fn tell(app: &AppState, tx: &mut dyn Tx, found: &Approval, outcome: &Outcome<'_>) -> Result<(), StoreError> {
    let Outcome { state, ref decided, by, told: event } = *outcome;
    let Some(agent) = found.author.agent() else { return Ok(()) };
    if members::of(tx, found.conversation, found.author)?.is_none() {
        return Ok(());
    }
    let signal = if state == ApprovalState::Agreed { Signal::Agree } else { Signal::Declined };
    let Some(attention) = plan::outcome(signal, abilities(tx, agent, decided.at)?) else { return Ok(()) };
    let name = by.map_or("nobody", |by| by.handle.as_str());
    let (what, done) = if found.edit_of.is_some() { ("edit", "made") } else { ("message", "said") };
    let text = match (state, &decided.reason) {
        (ApprovalState::Agreed, _) => format!("{name} agreed: your {what} was {done}"),
        (ApprovalState::Declined, None) => format!("{name} declined your {what}"),
        (ApprovalState::Declined, Some(why)) => format!("{name} declined your {what}: {why}"),
        (ApprovalState::Expired, _) => format!("nobody agreed to your {what} in time"),
        (ApprovalState::Held | ApprovalState::Withdrawn | ApprovalState::Ended, _)
            if found.edit_of.is_some() =>
        {
            "your edit was not made: the message or the conversation is closed".to_owned()
        }
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
    let id = DeliveryId { agent, seq: tx.next_seq(agent.into())? };
    conversation::deliver(tx, &act, id, EntryKind::Chat, attention, Bringing::FIRST)?;
    app.push_after(tx);
    Ok(())
}

/// Returns the view of an approval for a caller who may see it.
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
        name: place.name.into(),
        author,
        state: if held && !waits { by_itself(found, now) } else { found.state },
        content: waits.then(|| body.text("content").to_owned()),
        thread: found.thread,
        reply_to: found.reply_to,
        edit_of: found.edit_of,
        may_decide: waits && found.author != who && matches!(who, Principal::Account(_)),
        created_at: rfc3339(found.created_at),
        expires_at: rfc3339(found.expires_at),
        decided_by,
        decided_at: found.decided.as_ref().map(|decided| rfc3339(decided.at)),
        reason: decided.reason.map(Into::into),
        event_id: decided.event,
    })
}
