//! Reading: the log, a thread, what holds certain words, and who is there.

use super::context::Context;
use super::input::{GetRoster, Kind, ListEvents, Place, ReadThread, Search};
use super::output::{Channel, EventPage, Found, MemberKind, Roster, RosterMember};
use crate::error::Error;
use crate::views::{self, EventView};
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::Principal;
use chorus_protocol::page;
use chorus_protocol::time::rfc3339;
use chorus_store::conversations::{self, Event};
use chorus_store::log::{self, At, Filter, Kinds, PageSize, Standing};
use chorus_store::{conversation, members, search as index};
use std::sync::{Mutex, PoisonError};

/// Events as everybody sees them now.
pub(super) fn shown(events: &[Event], standing: &Standing) -> Vec<EventView> {
    views::events(events, &standing.changes, &standing.replies)
}

/// What a call filters by.
pub(super) fn of_kind(kind: Option<Kind>) -> Filter {
    Filter { thread: None, kinds: kind.map_or(Kinds::All, |Kind(word)| Kinds::named(&word)) }
}

pub(super) async fn list_events(context: Context, asked: ListEvents) -> Result<EventPage, Error> {
    let ListEvents { after, before, limit, kind } = asked;
    let at = match (after, before) {
        (Some(_), Some(_)) => {
            return Err(Faults::one("before", "cannot be asked for together with after").into());
        }
        (Some(Place(after)), None) => At::After(after),
        (None, before) => At::Before(before.map_or(i64::MAX, |Place(before)| before)),
    };
    let (who, filter, max_bytes) = (context.who, of_kind(kind), context.page_bytes());
    let read = context.read(move |tx, (conversation, _)| {
        let size = PageSize { events: limit, bytes: max_bytes as usize };
        let page = log::page(tx, &conversation, who, &filter, at, size)?;
        Ok((page, tx.head(conversation.id.0)?))
    });
    let (page, end) = read.await?;
    let (mut events, backwards) = (shown(&page.events, &page.standing), matches!(at, At::Before(_)));
    // What does not fit is what is farthest from where it is read from.
    if backwards {
        events.reverse();
    }
    let more = page::cut(&mut events, max_bytes) || page.more;
    let edge = events.last().map(|event| event.sequence);
    let next = if backwards { edge.unwrap_or(0) } else { edge.filter(|_| more).unwrap_or(end) };
    if backwards {
        events.reverse();
    }
    Ok(EventPage { events, next, more })
}

pub(super) async fn read_thread(context: Context, asked: ReadThread) -> Result<EventPage, Error> {
    let ReadThread { thread, after, limit } = asked;
    let at = At::After(after.map_or(0, |Place(after)| after));
    let (who, max_bytes) = (context.who, context.page_bytes());
    let read = context.read(move |tx, (conversation, _)| {
        let message = conversation::message(tx, &conversation, who, thread)?;
        let filter = Filter { thread: Some(message.thread.unwrap_or(message.id)), kinds: Kinds::All };
        let size = PageSize { events: limit, bytes: max_bytes as usize };
        let page = log::page(tx, &conversation, who, &filter, at, size)?;
        Ok((page, tx.head(conversation.id.0)?))
    });
    let (page, end) = read.await?;
    let mut events = shown(&page.events, &page.standing);
    let more = page::cut(&mut events, max_bytes) || page.more;
    let next = events.last().filter(|_| more).map_or(end, |last| last.sequence);
    Ok(EventPage { events, next, more })
}

pub(super) async fn search(context: Context, asked: Search) -> Result<Found, Error> {
    let Search { query, before, limit } = asked;
    let (who, max_bytes) = (context.who, context.page_bytes());
    let turn = Mutex::new(Some(context.app.searches.begin(who.uuid()).await?));
    let read = context.read(move |tx, (conversation, _)| {
        let found = index::page(tx, who, Some(conversation.id), &query, before, limit)?;
        let (mut events, mut bytes, mut next) = (vec![], 0, found.next);
        for event in found.events {
            if bytes >= max_bytes {
                next = events.last().map(|last: &Event| last.id);
                break;
            }
            if let Some(event) = conversations::event_by_id(tx, event)? {
                bytes += event.body.len() as u64;
                events.push(event);
            }
        }
        let stays = log::readable(tx, &conversation, who)?;
        let standing = log::stand(tx, &conversation, who, &stays, &events)?;
        // Before the answer is there: whoever has it may search again.
        drop(turn.lock().unwrap_or_else(PoisonError::into_inner).take());
        Ok((events, standing, next))
    });
    let (events, standing, next) = read.await?;
    let (mut events, mut next) = (shown(&events, &standing), next.map(|next| next.to_string()));
    if page::cut(&mut events, max_bytes) {
        next = events.last().map(|last| last.event_id.clone());
    }
    Ok(Found { events, next })
}

pub(super) async fn get_roster(context: Context, asked: GetRoster) -> Result<Roster, Error> {
    let (after, limit) = (asked.after.unwrap_or_default(), asked.limit);
    let read = context.read(move |tx, (conversation, me)| {
        let found = members::page(tx, conversation.id, &after, limit + 1)?;
        Ok((conversation, me, found))
    });
    let (conversation, me, mut found) = read.await?;
    let more = found.len() as i64 > limit;
    found.truncate(limit as usize);
    let members = found.into_iter().map(|member| RosterMember {
        handle: member.handle,
        kind: match member.principal {
            Principal::Agent(_) => MemberKind::Agent,
            Principal::Account(_) => MemberKind::Account,
        },
        id: member.principal.to_string(),
        roles: member.roles,
        lead: member.lead,
        joined_at: rfc3339(member.joined_at),
    });
    let mut members: Vec<_> = members.collect();
    let more = page::cut(&mut members, context.page_bytes()) || more;
    let next = members.last().filter(|_| more).map(|last| last.handle.clone());
    let channel = Channel {
        id: conversation.id.to_string(),
        kind: conversation.kind.as_str().to_owned(),
        name: conversation.name,
        context: conversation.context,
    };
    Ok(Roster { channel, you: me.handle, members, next })
}
