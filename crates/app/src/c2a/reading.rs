//! Events as an agent reads them, with their meaning for it.
//!
//! An event that was given to the agent shows the attention decided then. Any other event shows the attention
//! that the same rules decide now.

use super::harness::Harness;
use crate::conversation::conversation_id;
use crate::delivery::c2a::{self, Told};
use crate::views;
use crate::work_streams::stream_id;
use chorus_node::Error;
use chorus_protocol::attention::Attention;
use chorus_protocol::c2a::{Cursor, Event, EventPage, ListEvents, ReadThread, Time};
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AgentId, ConversationId, EventId, StreamId};
use chorus_protocol::mentions::mentions;
use chorus_protocol::words::{Directedness, Disposition, EventKind, Mode, Policy, Priority, Reason};
use chorus_store::attention::load_found;
use chorus_store::conversation;
use chorus_store::conversations::{self, Conversation};
use chorus_store::log::{self, At, Filter, Kinds, PageSize};
use chorus_store::members::{self, Member, MembershipInterval};
use chorus_store::obligations::Obligation;
use chorus_store::{StoreError, Tx, chats, obligations, work_streams};

/// The most bytes of a page, so that a model can read it.
pub(super) const PAGE_BYTES: u64 = 256 * 1024;

/// The most mentions resolved in a message that the agent was not given.
const MAX_MENTIONS: usize = 8;

/// A message with its changes, and its position for the cursor.
struct Shown {
    conversation: Conversation,
    said: conversations::Event,
    changes: Vec<conversations::Event>,
    place: i64,
}

/// Returns a page of the events of one conversation or work stream.
pub(super) async fn list_events(harness: &Harness, asked: ListEvents) -> Result<EventPage, Error> {
    let (agent, app, now) = (harness.agent(), std::sync::Arc::clone(&harness.app), harness.app.now());
    let in_one = asked.conversation_id.as_ref().map(|id| conversation_id(&id.0)).transpose()?;
    let (stream, limit) = (asked.stream_id.as_ref().map(|id| stream_id(&id.0)).transpose()?, asked.limit);
    let (place, event) = match (&asked.after, stream) {
        (Some(after), Some(_)) => (0, event_of_cursor(after)?),
        (Some(after), None) => (place_of(after)?, None),
        (None, _) => (0, None),
    };
    let read = move |tx: &mut dyn Tx| {
        let (found, more, next) = match (stream, in_one) {
            (Some(stream), in_one) => {
                let (found, more, last) = in_stream(tx, stream, in_one, agent, event, limit)?;
                (found, more, work_streams::cursor(last))
            }
            (None, in_one) => {
                let in_one = in_one.ok_or_else(|| Error::internal("no conversation to list"))?;
                let (found, more) = in_conversation(tx, in_one, agent, None, At::After(place), limit)?;
                let last = found.last().map_or(place, |shown| shown.place);
                (found, more, last.to_string())
            }
        };
        let mut events = vec![];
        for shown in found {
            events.extend(event_of(tx, &app, agent, &shown, now)?.filter(|event| is_wanted(&asked, event)));
        }
        Ok(EventPage { events, next: Some(Cursor(next)), more, left_out: 0 })
    };
    harness.app.store.read::<_, Error, _>(read).await
}

/// Returns `true` if an event matches the filters of the request.
pub(super) fn is_wanted(asked: &ListEvents, event: &Event) -> bool {
    let at = event.header.timing.as_ref().and_then(|timing| timing.created_at.as_ref()).map_or(0, Time::ms);
    wants(asked, Some(event.header.attention.policy), at)
}

/// Returns `true` if an event with this reply policy and time matches the filters of the request.
pub(crate) fn wants(asked: &ListEvents, policy: Option<Policy>, at: i64) -> bool {
    asked.policy.is_none_or(|wanted| Some(wanted) == policy)
        && asked.since.as_ref().is_none_or(|since| at >= since.ms())
        && asked.until.as_ref().is_none_or(|until| at < until.ms())
}

/// Returns a page of a thread or a conversation: the newest messages, or those after the cursor.
pub(super) async fn read_thread(harness: &Harness, asked: ReadThread) -> Result<EventPage, Error> {
    let (agent, app, now) = (harness.agent(), std::sync::Arc::clone(&harness.app), harness.app.now());
    let id = conversation_id(&asked.conversation_id.0)?;
    let thread =
        asked.thread_id.as_ref().map(|thread| crate::conversation::event_id(&thread.0)).transpose()?;
    let at = match asked.after.as_ref().map(place_of).transpose()? {
        Some(after) => At::After(after),
        None => At::Before(i64::MAX),
    };
    let limit = asked.limit;
    let read = move |tx: &mut dyn Tx| {
        let (found, more) = in_conversation(tx, id, agent, thread, at, limit)?;
        let last = found.last().map(|shown| shown.place);
        let mut events = vec![];
        for shown in &found {
            events.extend(event_of(tx, &app, agent, shown, now)?);
        }
        Ok((events, last, more))
    };
    let (events, last, more) = harness.app.store.read::<_, Error, _>(read).await?;
    // Older messages before the newest page are no next page.
    let more = more && matches!(at, At::After(_));
    let next = last.or(match at {
        At::After(after) => Some(after),
        At::Before(_) => None,
    });
    Ok(EventPage { events, next: next.map(cursor), more, left_out: 0 })
}

/// Returns one event. Returns `None` if the agent may not read it.
pub(super) fn one(
    tx: &mut dyn Tx,
    app: &chorus_node::App,
    agent: AgentId,
    event: EventId,
    now: i64,
) -> Result<Option<Event>, Error> {
    let Some(shown) = shown(tx, agent, event)? else { return Ok(None) };
    event_of(tx, app, agent, &shown, now)
}

/// Returns an event with its changes. Returns `None` if the agent may not read it.
fn shown(tx: &mut dyn Tx, agent: AgentId, event: EventId) -> Result<Option<Shown>, Error> {
    let Some(said) = conversations::event_by_id(tx, event)? else { return Ok(None) };
    let Ok((conversation, _)) = conversation::as_reader(tx, said.conversation, agent.into()) else {
        return Ok(None);
    };
    let stays = log::readable(tx, &conversation, agent.into())?;
    if !MembershipInterval::any_holds(&stays, said.seq) {
        return Ok(None);
    }
    let standing = log::stand(tx, &conversation, agent.into(), &stays, std::slice::from_ref(&said))?;
    Ok(Some(Shown { conversation, place: said.seq, said, changes: standing.changes }))
}

fn in_conversation(
    tx: &mut dyn Tx,
    id: ConversationId,
    agent: AgentId,
    thread: Option<EventId>,
    at: At,
    limit: i64,
) -> Result<(Vec<Shown>, bool), Error> {
    let (conversation, _) = conversation::as_reader(tx, id, agent.into())?;
    let thread = match thread {
        None => None,
        Some(any) => {
            let message = conversation::message(tx, &conversation, agent.into(), any)?;
            Some(message.thread.unwrap_or(message.id))
        }
    };
    let filter = Filter { thread, kinds: Kinds::Only(EventKind::Message) };
    let size = PageSize { events: limit, bytes: PAGE_BYTES as usize };
    let page = log::page(tx, &conversation, agent.into(), &filter, at, size)?;
    let shown = page.events.into_iter().map(|said| Shown {
        conversation: conversation.clone(),
        changes: page
            .standing
            .changes
            .iter()
            .filter(|change| change.target == Some(said.id))
            .cloned()
            .collect(),
        place: said.seq,
        said,
    });
    Ok((shown.collect(), page.more))
}

/// Returns the messages of a work stream after this event that the agent may read, in one conversation if
/// `in_one` is set; whether there are more; and the last event that was looked at. The cursor is an event,
/// because a sequence number would reveal how much is said in conversations that the agent is not in.
fn in_stream(
    tx: &mut dyn Tx,
    stream: StreamId,
    in_one: Option<ConversationId>,
    agent: AgentId,
    after: Option<EventId>,
    limit: i64,
) -> Result<(Vec<Shown>, bool, Option<EventId>), Error> {
    let place = after.map_or(Ok(0), |event| work_streams::place_of(tx, stream, event))?;
    let mut places = work_streams::page(tx, stream, agent.into(), place, limit + 1)?;
    let mut more = places.len() as i64 > limit;
    places.truncate(limit as usize);
    let (mut found, mut bytes, mut last) = (vec![], 0, after);
    for (place, event) in places {
        if bytes > PAGE_BYTES {
            more = true;
            break;
        }
        last = Some(event);
        let Some(shown) = shown(tx, agent, event)? else { continue };
        if in_one.is_none_or(|id| id == shown.conversation.id) {
            bytes += shown.said.body.len() as u64;
            found.push(Shown { place, ..shown });
        }
    }
    Ok((found, more, last))
}

fn event_of(
    tx: &mut dyn Tx,
    app: &chorus_node::App,
    agent: AgentId,
    shown: &Shown,
    now: i64,
) -> Result<Option<Event>, Error> {
    let Shown { conversation, said, changes, .. } = shown;
    let Some(member) = members::of(tx, conversation.id, agent.into())? else { return Ok(None) };
    let event = views::events(std::slice::from_ref(said), changes, &[]).remove(0);
    let Meant { given, known, attention, disposition } =
        meant(tx, conversation, (agent, &member), said, now)?;
    let mentions = match &known {
        Some(known) => known.mentions.clone(),
        None => mentions_of(tx, conversation, said, now)?,
    };
    // An escalation about this message is an event of its own, and is shown as such.
    let is_told_of = given != said.id
        && conversations::event_by_id(tx, given)?.is_some_and(|given| given.kind == EventKind::Escalation);
    let supersedes = known.as_ref().and_then(|known| known.supersedes).filter(|_| !is_told_of);
    let about = chats::about(tx, conversation, agent, said)?;
    let told = Told {
        id: if is_told_of { said.id } else { given },
        conversation,
        agent,
        handle: Some(&member.handle),
        attention,
        mentions: &mentions,
        supersedes,
        sent: 1,
        event,
        about: about.as_ref().map(views::about),
    };
    Ok(Some(c2a::event(app, &told, disposition)))
}

/// The attention that a message asks of an agent, and its disposition.
pub(crate) struct Meant {
    /// The event as it was given last, under whose id it is answered.
    given: EventId,
    /// The stored obligation; `None` if the message was not given to the agent.
    known: Option<Obligation>,
    pub(crate) attention: Attention,
    pub(crate) disposition: Option<Disposition>,
}

/// Finds the meaning of a message for a member. Every door shows this.
pub(crate) fn meant(
    tx: &mut dyn Tx,
    conversation: &Conversation,
    (agent, member): (AgentId, &Member),
    said: &conversations::Event,
    now: i64,
) -> Result<Meant, StoreError> {
    let given = obligations::current(tx, said.id, agent)?.unwrap_or(said.id);
    let known = obligations::of(tx, given, agent, now)?;
    let attention = match &known {
        Some(known) => known.attention,
        None if said.author == agent.into() => own(),
        None => load_found(tx, conversation, member, said, now)?,
    };
    let disposition = match &known {
        Some(known) => known.disposition,
        // Nothing is stored about a message that the agent was not given. It counts as ignored if the agent
        // must not respond.
        None => (said.author != agent.into() && attention.policy == Policy::MustNotRespond)
            .then_some(Disposition::Ignored),
    };
    Ok(Meant { given, known, attention, disposition })
}

/// Returns the mentions of a message that the agent was not given: those stored for another recipient, or the
/// members with these handles now.
fn mentions_of(
    tx: &mut dyn Tx,
    conversation: &Conversation,
    said: &conversations::Event,
    now: i64,
) -> Result<String, StoreError> {
    for other in obligations::given(tx, said.id, 1)? {
        if let Some(known) = obligations::of(tx, said.id, other, now)? {
            return Ok(known.mentions);
        }
    }
    let content = views::event(said).content.unwrap_or_default();
    let mut named = vec![];
    for name in mentions(&content).into_iter().take(MAX_MENTIONS) {
        if let Some(member) = members::by_handle(tx, conversation.id, name)? {
            let kind = if member.principal.agent().is_some() { "agent" } else { "human" };
            named.push(format!("{kind}:{}", member.handle));
        }
    }
    Ok(named.join(" "))
}

/// Returns the attention of an agent's own message, which asks nothing of it.
pub(super) fn own() -> Attention {
    Attention {
        directedness: Directedness::ToOther,
        policy: Policy::MustNotRespond,
        mode: Mode::ToolMailbox,
        reason: Reason::AddressedToOther,
        priority: Priority::Normal,
        deadline_ms: None,
    }
}

fn cursor(place: i64) -> Cursor {
    Cursor(place.to_string())
}

fn event_of_cursor(cursor: &Cursor) -> Result<Option<EventId>, Error> {
    let wrong = || Faults::one("after", "must be `next` of the page before").into();
    work_streams::after(&cursor.0).ok_or_else(wrong)
}

fn place_of(cursor: &Cursor) -> Result<i64, Error> {
    let place = cursor.0.parse().ok().filter(|place: &i64| *place >= 0);
    place.ok_or_else(|| Faults::one("after", "must be `next` of the page before").into())
}
