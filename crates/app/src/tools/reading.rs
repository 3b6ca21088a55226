//! Tools that read: the log, a thread, a search and the roster.

use super::context::Context;
use super::input::{GetRoster, Kind, ListEvents, Place, ReadThread, Search, required};
use super::output::{Channel, EventPage, Found, MemberKind, Roster, RosterMember, SeenEvent};
use crate::c2a;
use crate::views::{self, EventView};
use chorus_node::Error;
use chorus_protocol::c2a::ListEvents as Wanted;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{EventId, Principal};
use chorus_protocol::inbox::ChatAttention;
use chorus_protocol::page;
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::EventKind;
use chorus_store::conversations::{self, Conversation, Event};
use chorus_store::log::{self, At, Filter, Kinds, PageSize, Standing};
use chorus_store::members::{self, Member};
use chorus_store::{StoreError, Tx, conversation, obligations, search as index, work_streams};
use std::sync::{Mutex, PoisonError};

/// Renders events in their current state, as every member sees them.
fn shown(events: &[Event], standing: &Standing) -> Vec<EventView> {
    views::events(events, &standing.changes, &standing.replies)
}

/// Renders events as one member sees them. An agent also gets the attention of each event and its own
/// disposition.
pub(super) fn seen(
    tx: &mut dyn Tx,
    (conversation, me): (&Conversation, &Member),
    events: &[Event],
    standing: &Standing,
    now: i64,
) -> Result<Vec<SeenEvent>, StoreError> {
    let mut seen = vec![];
    for (said, event) in events.iter().zip(shown(events, standing)) {
        let meant = match (me.principal.agent(), said.kind) {
            (Some(agent), EventKind::Message) => {
                let meant = c2a::meant(tx, conversation, (agent, me), said, now)?;
                Some((meant.attention, meant.disposition))
            }
            // An event that is no message has attention only if it was delivered to the agent: a change or an
            // escalation.
            (Some(agent), _) => {
                obligations::of(tx, said.id, agent, now)?.map(|known| (known.attention, known.disposition))
            }
            (None, _) => None,
        };
        let (attention, disposition) = meant.unzip();
        let attention = attention.map(ChatAttention::from);
        seen.push(SeenEvent { event, attention, disposition: disposition.flatten() });
    }
    Ok(seen)
}

/// Returns a message in its current state, for a member that may read it.
pub(super) async fn look_at(context: &Context, event: EventId) -> Result<Option<SeenEvent>, Error> {
    let (who, now) = (context.who, context.app.now());
    let read = context.read(move |tx, (conversation, me)| {
        let said = conversation::message(tx, &conversation, who, event)?;
        let stays = log::readable(tx, &conversation, who)?;
        let said = std::slice::from_ref(&said);
        let standing = log::stand(tx, &conversation, who, &stays, said)?;
        Ok(seen(tx, (&conversation, &me), said, &standing, now)?.pop())
    });
    read.await
}

/// Builds the filter of a call.
pub(super) fn of_kind(kind: Option<Kind>) -> Filter {
    Filter { thread: None, kinds: kind.map_or(Kinds::All, |Kind(word)| Kinds::named(&word)) }
}

pub(super) async fn list_events(context: Context, asked: ListEvents) -> Result<EventPage, Error> {
    let ListEvents { after, before, limit, kind, policy, stream_id: stream, since, until, conversation_id } =
        asked;
    context.is_here("conversation_id", conversation_id)?;
    if policy.is_some() && context.who.agent().is_none() {
        return Err(Faults::one("policy", "is for agents: nothing asks anything of people").into());
    }
    let at = match (after, before) {
        (Some(_), Some(_)) => {
            return Err(Faults::one("before", "cannot be asked for together with after").into());
        }
        (Some(Place(after)), None) => At::After(after),
        (None, before) => At::Before(before.map_or(i64::MAX, |Place(before)| before)),
    };
    let (stream_id, conversation_id) = (None, None);
    let wanted = Wanted { stream_id, conversation_id, policy, since, until, after: None, limit };
    let (who, filter, max_bytes, now) = (context.who, of_kind(kind), context.page_bytes(), context.app.now());
    let backwards = matches!(at, At::Before(_));
    let read = context.read(move |tx, (conversation, me)| {
        let size = PageSize { events: limit, bytes: max_bytes as usize };
        let mut page = log::page(tx, &conversation, who, &filter, at, size)?;
        let edge = if backwards { page.events.first() } else { page.events.last() }.map(|event| event.seq);
        let mut events = vec![];
        for event in std::mem::take(&mut page.events) {
            if stream.is_none() || work_streams::of_event(tx, event.id)? == stream {
                events.push(event);
            }
        }
        let mut seen = seen(tx, (&conversation, &me), &events, &page.standing, now)?;
        let mut said = events.iter();
        seen.retain(|seen| {
            let policy = seen.attention.and_then(|attention| attention.policy);
            said.next().is_some_and(|said| c2a::wants(&wanted, policy, said.created_at))
        });
        Ok((seen, page.more, edge, tx.head(conversation.id.into())?))
    });
    let (mut events, more, edge, end) = read.await?;
    // Events that do not fit are those farthest from the starting point.
    if backwards {
        events.reverse();
    }
    let cut = page::cut(&mut events, max_bytes);
    let edge = if cut { events.last().map(|seen| seen.event.sequence) } else { edge };
    let more = cut || more;
    let next = if backwards { edge.unwrap_or(0) } else { edge.filter(|_| more).unwrap_or(end) };
    if backwards {
        events.reverse();
    }
    Ok(EventPage { events, next, more })
}

pub(super) async fn read_thread(context: Context, asked: ReadThread) -> Result<EventPage, Error> {
    let ReadThread { thread, thread_id, conversation_id, after, limit } = asked;
    context.is_here("conversation_id", conversation_id)?;
    let thread = required(("thread", thread), ("thread_id", thread_id))?;
    let at = At::After(after.map_or(0, |Place(after)| after));
    let (who, max_bytes, now) = (context.who, context.page_bytes(), context.app.now());
    let read = context.read(move |tx, (conversation, me)| {
        let message = conversation::message(tx, &conversation, who, thread)?;
        let filter = Filter { thread: Some(message.thread.unwrap_or(message.id)), kinds: Kinds::All };
        let size = PageSize { events: limit, bytes: max_bytes as usize };
        let page = log::page(tx, &conversation, who, &filter, at, size)?;
        let events = seen(tx, (&conversation, &me), &page.events, &page.standing, now)?;
        Ok((events, page.more, tx.head(conversation.id.into())?))
    });
    let (mut events, more, end) = read.await?;
    let more = page::cut(&mut events, max_bytes) || more;
    let next = events.last().filter(|_| more).map_or(end, |last| last.event.sequence);
    Ok(EventPage { events, next, more })
}

pub(super) async fn search(context: Context, asked: Search) -> Result<Found, Error> {
    let Search { query, before, limit } = asked;
    let (who, max_bytes) = (context.who, context.page_bytes());
    let turn = Mutex::new(Some(context.app.limits.searches.begin(context.source, who.uuid()).await?));
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
        // Freed before the answer is sent, so that its recipient may search again at once.
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
        name: conversation.name.into(),
        context: conversation.context.map(Into::into),
    };
    Ok(Roster { channel, you: me.handle, members, next })
}
