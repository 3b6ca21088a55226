//! The log of a conversation as one member reads it: pages of events, and the current state of the messages on
//! them.
//!
//! In a conversation with history `joined`, this applies to changes too: an edit from a time when the member
//! was away is not shown, nor is the text before it, which its author replaced. A deletion applies to
//! everyone.

mod last_messages;

pub use last_messages::{last_message_by, last_messages};

use crate::conversations::{self, Conversation, Event, History, event, event_columns, select_event};
use crate::members::{self, MembershipInterval};
use crate::{Param, StoreError, Tx, TxExt};
use chorus_protocol::ids::{ConversationId, EventId, Principal};
use chorus_protocol::words::{EventKind, Signal};
use serde_json::Value;
use std::collections::HashSet;

/// So many events are looked at together for what changed them.
const TOGETHER: usize = 20;

/// A filter for the events of a page.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only this thread, its first message included.
    pub thread: Option<EventId>,
    pub kinds: Kinds,
}

/// The kinds of events on a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kinds {
    #[default]
    All,
    Only(EventKind),
    /// None: what was asked for is no kind.
    Nothing,
}

impl Kinds {
    /// The kind that a caller names. A word that is no kind finds nothing, and is no fault.
    pub fn named(word: &str) -> Self {
        EventKind::parse(word).map_or(Self::Nothing, Self::Only)
    }
}

/// The position of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// The first ones after this place.
    After(i64),
    /// The last ones before this place; `i64::MAX` for the newest.
    Before(i64),
}

impl At {
    fn holds(self, seq: i64) -> bool {
        match self {
            Self::After(after) => seq > after,
            Self::Before(before) => seq < before,
        }
    }
}

/// The current state of messages.
#[derive(Debug, Clone, Default)]
pub struct Standing {
    /// The deletion and the newest edit of each, and what was thought of it.
    pub changes: Vec<Event>,
    /// The number of replies in the threads that these messages began.
    pub replies: Vec<(EventId, i64)>,
}

/// A page of the log.
#[derive(Debug, Clone)]
pub struct Page {
    /// In order.
    pub events: Vec<Event>,
    /// The current state of the messages among them.
    pub standing: Standing,
    /// True if there are more events in the direction of reading.
    pub more: bool,
}

/// The parts of a conversation that a member may read, in order: since its history is open everything, before that what was said
/// while the member was there.
pub fn readable(
    tx: &mut dyn Tx,
    conversation: &Conversation,
    who: Principal,
) -> Result<Vec<MembershipInterval>, StoreError> {
    let open = match conversation.history {
        History::All => MembershipInterval { from: conversation.open_from, to: None },
        History::Joined => return members::intervals(tx, conversation.id, who),
    };
    if open.from == 0 {
        return Ok(vec![open]);
    }
    let stays = members::intervals(tx, conversation.id, who)?.into_iter();
    let before = stays.filter(|stay| stay.from < open.from).map(|stay| MembershipInterval {
        to: Some(stay.to.map_or(open.from, |to| to.min(open.from))),
        ..stay
    });
    Ok(before.chain([open]).collect())
}

/// The limits of a page: a number of events, and a number of bytes after which it ends.
#[derive(Debug, Clone, Copy)]
pub struct PageSize {
    /// At most so many; one, if it is less.
    pub events: i64,
    /// The first event is there, however long it is.
    pub bytes: usize,
}

/// A page of what a member may read. The caller has seen, in this transaction, that it is a member.
pub fn page(
    tx: &mut dyn Tx,
    conversation: &Conversation,
    who: Principal,
    filter: &Filter,
    at: At,
    size: PageSize,
) -> Result<Page, StoreError> {
    // The first one always: a page without any would never end.
    let (limit, max_bytes) = (size.events.max(1) as usize, size.bytes.max(1));
    let stays = readable(tx, conversation, who)?;
    let mut reading = Reading { events: vec![], bytes: 0, limit, max_bytes, more: false };
    reading.read(tx, conversation.id, &stays, filter, at)?;
    let Reading { mut events, mut more, .. } = reading;
    hide_edits(tx, &stays, &mut events)?;
    let (mut standing, mut bytes, mut done) = (Standing::default(), 0, 0);
    while done < events.len() && bytes < max_bytes {
        let together = &events[done..events.len().min(done + TOGETHER)];
        let new = stand(tx, conversation, who, &stays, together)?;
        done += together.len();
        bytes += new.changes.iter().map(|change| change.body.len()).sum::<usize>();
        standing.changes.extend(new.changes);
        standing.replies.extend(new.replies);
    }
    // Texts may have grown since they were said.
    more |= done < events.len();
    events.truncate(done);
    if matches!(at, At::Before(_)) {
        events.reverse();
    }
    Ok(Page { events, standing, more })
}

/// Empties the edits of messages from before the reader could read: an edit holds the whole text.
fn hide_edits(tx: &mut dyn Tx, stays: &[MembershipInterval], events: &mut [Event]) -> Result<(), StoreError> {
    if MembershipInterval::any_holds(stays, 1) && stays.len() == 1 {
        return Ok(());
    }
    for event in events.iter_mut().filter(|event| event.kind == EventKind::Edit) {
        let row = tx.first("SELECT seq FROM events WHERE id = $1", &[event.target.as_ref().into()])?;
        let said_at = row.map_or(Ok(0), |mut row| row.int("seq"))?;
        if !MembershipInterval::any_holds(stays, said_at) {
            event.body = "{}".into();
        }
    }
    Ok(())
}

const FORWARD: &str = select_event!(
    "WHERE e.conversation_id = $1 AND e.seq > 0 AND e.seq BETWEEN $2 AND $3 ORDER BY e.seq LIMIT $4"
);
const BACKWARD: &str = select_event!(
    "WHERE e.conversation_id = $1 AND e.seq > 0 AND e.seq BETWEEN $2 AND $3 ORDER BY e.seq DESC LIMIT $4"
);
// Of their own, so that `events_by_kind` finds them: a conversation may be long and hold none of the kind.
const KIND_FORWARD: &str = select_event!(
    "WHERE e.conversation_id = $1 AND e.kind = $5 AND e.seq <> 0 AND e.seq BETWEEN $2 AND $3 ORDER BY e.seq LIMIT $4"
);
const KIND_BACKWARD: &str = select_event!(
    "WHERE e.conversation_id = $1 AND e.kind = $5 AND e.seq <> 0 AND e.seq BETWEEN $2 AND $3
     ORDER BY e.seq DESC LIMIT $4"
);
const THREAD_FORWARD: &str = select_event!(
    "WHERE e.thread_id = $6 AND e.conversation_id = $1 AND e.seq BETWEEN $2 AND $3 AND ($5 = '' OR e.kind = $5)
     ORDER BY e.seq LIMIT $4"
);
const THREAD_BACKWARD: &str = select_event!(
    "WHERE e.thread_id = $6 AND e.conversation_id = $1 AND e.seq BETWEEN $2 AND $3 AND ($5 = '' OR e.kind = $5)
     ORDER BY e.seq DESC LIMIT $4"
);

/// Events as they are read, the nearest first.
struct Reading {
    events: Vec<Event>,
    bytes: usize,
    limit: usize,
    max_bytes: usize,
    more: bool,
}

impl Reading {
    /// Takes one more, if there is room, and says whether there was.
    fn take(&mut self, event: Event) -> bool {
        self.more = self.events.len() == self.limit || self.bytes >= self.max_bytes;
        if !self.more {
            self.bytes += event.body.len();
            self.events.push(event);
        }
        !self.more
    }

    fn read(
        &mut self,
        tx: &mut dyn Tx,
        id: ConversationId,
        stays: &[MembershipInterval],
        filter: &Filter,
        at: At,
    ) -> Result<(), StoreError> {
        let kind = match filter.kinds {
            Kinds::All => None,
            Kinds::Only(kind) => Some(kind),
            Kinds::Nothing => return Ok(()),
        };
        let mut first = match filter.thread {
            Some(thread) => conversations::event_by_id(tx, thread)?.filter(|first| {
                let asked = kind.is_none_or(|kind| first.kind == kind) && at.holds(first.seq);
                first.conversation == id && asked && MembershipInterval::any_holds(stays, first.seq)
            }),
            None => None,
        };
        let (forward, backward) = match (filter.thread, kind) {
            (Some(_), _) => (THREAD_FORWARD, THREAD_BACKWARD),
            (None, Some(_)) => (KIND_FORWARD, KIND_BACKWARD),
            (None, None) => (FORWARD, BACKWARD),
        };
        let (sql, stays): (_, Vec<_>) = match at {
            At::After(_) => (forward, stays.to_vec()),
            At::Before(_) => (backward, stays.iter().rev().copied().collect()),
        };
        if matches!(at, At::After(_))
            && let Some(first) = first.take()
        {
            self.take(first);
        }
        for stay in stays {
            if self.more {
                break;
            }
            let to = stay.to.unwrap_or(i64::MAX);
            // From the first place to the last, both included.
            let (from, to) = match at {
                At::After(after) => (after.max(stay.from).saturating_add(1), to),
                At::Before(before) => (stay.from + 1, to.min(before.saturating_sub(1))),
            };
            let limit = (self.limit + 1 - self.events.len()) as i64;
            let mut params = vec![(&id).into(), from.into(), to.into(), limit.into()];
            if kind.is_some() || filter.thread.is_some() {
                params.push(kind.map_or("", EventKind::as_str).into());
            }
            params.extend(filter.thread.as_ref().map(Param::from));
            tx.each(sql, &params, &mut |row| Ok(self.take(event(row)?)))?;
        }
        if let Some(first) = first.filter(|_| !self.more) {
            self.take(first);
        }
        Ok(())
    }
}

/// The number of later messages that are scanned for a person's.
const LOOKED_AT: i64 = 200;

/// Returns whether a person posted in a conversation soon after this position.
pub fn person_spoke_after(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    seq: i64,
) -> Result<bool, StoreError> {
    let found = tx.first(
        "SELECT 1 FROM (SELECT e.author_kind, e.kind FROM events e WHERE e.conversation_id = $1 AND e.seq > $2
                        ORDER BY e.seq LIMIT $3) l
         WHERE l.kind = 'message' AND l.author_kind = 'account' LIMIT 1",
        &[(&conversation).into(), seq.into(), LOOKED_AT.into()],
    )?;
    Ok(found.is_some())
}

/// Returns the current state of these events, for a member that read them.
pub fn stand(
    tx: &mut dyn Tx,
    conversation: &Conversation,
    who: Principal,
    stays: &[MembershipInterval],
    events: &[Event],
) -> Result<Standing, StoreError> {
    let targets: Vec<_> = events
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::Message => Some(event.id),
            // The text of an edit is current as long as the message has it.
            EventKind::Edit => event.target,
            _ => None,
        })
        .collect();
    let replies = replies(tx, conversation, who, &targets)?;
    Ok(Standing { changes: changes(tx, stays, &targets)?, replies })
}

/// The places of [`TOGETHER`] ids in a statement.
macro_rules! ids {
    () => {
        "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)"
    };
}

/// At most one deletion and one edit each.
const TEXTS: &str = select_event!(
    "WHERE e.target_id IN ",
    ids!(),
    " AND (e.kind = 'delete' OR (e.kind = 'edit' AND NOT EXISTS
         (SELECT 1 FROM events n WHERE n.target_id = e.target_id AND n.seq > e.seq AND n.kind = 'edit')))
     ORDER BY e.seq LIMIT 40"
);
/// The newest: whatever is left out, nothing that was taken back stands.
const REACTIONS: &str =
    select_event!("WHERE e.target_id IN ", ids!(), " AND e.kind = 'reaction' ORDER BY e.seq DESC LIMIT 1000");
const REPLIES: &str = concat!(
    "SELECT e.thread_id, COUNT(*) AS count FROM events e WHERE e.kind = 'message' AND e.thread_id IN ",
    ids!(),
    " AND (e.seq > $21 OR EXISTS (SELECT 1 FROM members w WHERE w.conversation_id = e.conversation_id AND w.member_id = $22
          AND e.seq > w.joined_seq AND (w.left_seq IS NULL OR e.seq <= w.left_seq)))
     GROUP BY e.thread_id"
);

/// Returns a principal's last reaction with this signal to a message, removed or not.
pub(crate) fn last_reaction(
    tx: &mut dyn Tx,
    message: EventId,
    who: Principal,
    signal: Signal,
) -> Result<Option<Event>, StoreError> {
    let (who, mut found) = (who.uuid(), None);
    tx.each(
        select_event!(
            "WHERE e.target_id = $1 AND e.kind = 'reaction' AND e.author_id = $2 ORDER BY e.seq DESC LIMIT 1000"
        ),
        &[(&message).into(), (&who).into()],
        &mut |row| {
            let reaction = event(row)?;
            let body: Value = serde_json::from_str(&reaction.body).map_err(StoreError::unexpected)?;
            found = (body["signal"] == signal.as_str()).then_some(reaction);
            Ok(found.is_none())
        },
    )?;
    Ok(found)
}

/// The ids as parameters, the last one as often as there is room.
fn params(ids: &[EventId]) -> Vec<Param<'_>> {
    let mut params: Vec<Param<'_>> = ids.iter().map(Into::into).collect();
    if let Some(last) = params.last().copied() {
        params.resize(TOGETHER, last);
    }
    params
}

/// Lists the changes of these messages, as visible to a member with these stays.
pub fn changes(
    tx: &mut dyn Tx,
    stays: &[MembershipInterval],
    messages: &[EventId],
) -> Result<Vec<Event>, StoreError> {
    let mut changes = vec![];
    for ids in messages.chunks(TOGETHER) {
        let texts = tx.query(TEXTS, &params(ids))?;
        let reactions = tx.query(REACTIONS, &params(ids))?;
        for row in texts.into_iter().chain(reactions.into_iter().rev()) {
            changes.extend(as_seen(event(row)?, stays));
        }
    }
    Ok(changes)
}

/// A change, as somebody sees it who was there during these stays.
pub(crate) fn as_seen(mut change: Event, stays: &[MembershipInterval]) -> Option<Event> {
    if !MembershipInterval::any_holds(stays, change.seq) {
        match change.kind {
            EventKind::Delete => {}
            EventKind::Edit => change.body = "{}".into(),
            _ => return None,
        }
    }
    Some(change)
}

/// The same as [`TEXTS`], of what an agent was sent: its inbox from one place to another, at most 200 entries.
const TEXTS_OF_PAGE: &str = concat!(
    "SELECT h.seq, ",
    event_columns!("COALESCE(e.body, b.body)"),
    " FROM chats h JOIN events e ON e.target_id = h.event_id LEFT JOIN large_bodies b ON b.event_id = e.id
      WHERE h.agent_id = $1 AND h.seq BETWEEN $2 AND $3
         AND (e.kind = 'delete' OR (e.kind = 'edit' AND NOT EXISTS
             (SELECT 1 FROM events n WHERE n.target_id = e.target_id AND n.seq > e.seq AND n.kind = 'edit')))
      ORDER BY h.seq, e.seq LIMIT 400"
);
/// The newest of each message first, so that many on one leave room for those on others.
const REACTIONS_OF_PAGE: &str = select_event!(
    "JOIN (SELECT r.id, ROW_NUMBER() OVER (PARTITION BY r.target_id ORDER BY r.seq DESC) AS newer
           FROM (SELECT DISTINCT h.event_id FROM chats h
                 WHERE h.agent_id = $1 AND h.seq BETWEEN $2 AND $3) p
           JOIN events r ON r.target_id = p.event_id AND r.kind = 'reaction') r ON r.id = e.id
     ORDER BY r.newer LIMIT 4000"
);

/// Lists the latest edit or the deletion of each message on a page of an inbox (an agent and two positions),
/// in the order of the inbox. Also returns the position from which on they exceed `max_bytes`, if they do.
pub(crate) fn texts_of_page(
    tx: &mut dyn Tx,
    page: &[Param<'_>],
    max_bytes: usize,
) -> Result<(Vec<Event>, Option<i64>), StoreError> {
    let (mut texts, mut told, mut bytes, mut last, mut end) = (vec![], HashSet::new(), 0, None, None);
    tx.each(TEXTS_OF_PAGE, page, &mut |mut row| {
        let (place, text) = (row.int("seq")?, event(row)?);
        bytes += text.body.len();
        // All of one message, or nothing.
        if bytes > max_bytes && last.is_some_and(|last| last != place) {
            end = Some(place);
            return Ok(false);
        }
        last = Some(place);
        // It counts at each place of its message, and is told at the first.
        if told.insert(text.id) {
            texts.push(text);
        }
        Ok(true)
    })?;
    Ok((texts, end))
}

/// Lists the reactions to the messages of a page of an inbox, oldest first.
pub(crate) fn reactions_of_page(tx: &mut dyn Tx, page: &[Param<'_>]) -> Result<Vec<Event>, StoreError> {
    let mut reactions =
        tx.query(REACTIONS_OF_PAGE, page)?.into_iter().map(event).collect::<Result<Vec<_>, _>>()?;
    reactions.sort_by_key(|reaction| reaction.seq);
    Ok(reactions)
}

fn replies(
    tx: &mut dyn Tx,
    conversation: &Conversation,
    who: Principal,
    messages: &[EventId],
) -> Result<Vec<(EventId, i64)>, StoreError> {
    let (mut replies, who) = (vec![], who.uuid());
    for ids in messages.chunks(TOGETHER) {
        let mut params = params(ids);
        params.extend([Param::from(conversation.open_after()), Param::from(&who)]);
        for mut row in tx.query(REPLIES, &params)? {
            replies.push((EventId(row.uuid("thread_id")?), row.int("count")?));
        }
    }
    Ok(replies)
}
