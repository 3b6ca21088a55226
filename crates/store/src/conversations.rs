//! Conversations and their events: append-only, each event in its conversation, most with a place in its sequence.
//!
//! What changes a message (an edit, a deletion, a reaction) is an event of its own that names it; [`log`](crate::log) finds
//! them, and whoever shows a message applies them. Events are never rewritten.

use crate::error::word;
use crate::{Param, Row, StoreError, Tx, TxExt};
use chorus_protocol::ids::{ConversationId, EventId, Principal, TraceId};
use chorus_protocol::redact::Masked;
use chorus_protocol::words::EventKind;
pub use chorus_protocol::words::{ConversationKind, History};

/// A body up to this size lies in the event's own row; a larger one elsewhere, so that the rows stay small.
pub(crate) const INLINE_BODY: usize = 64 * 1024;
/// The place of an event whose order something else tells: a relay envelope's is its receiver's inbox.
pub const UNPLACED: i64 = 0;

/// One conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    /// Its id.
    pub id: ConversationId,
    /// What kind.
    pub kind: ConversationKind,
    /// What people call it.
    pub name: String,
    /// What it is for.
    pub context: Option<String>,
    /// Who may change it.
    pub owner: Principal,
    /// What its members may read.
    pub history: History,
    /// When it was made.
    pub created_at: i64,
    /// Since when nothing can be said in it.
    pub archived_at: Option<i64>,
    /// How many days what was said is kept, if its owner says so; never longer than the hub keeps it.
    pub keep_days: Option<i64>,
    /// After how many turns among themselves agents are in a loop there, if its owner says so; 0 for never.
    pub loop_turns: Option<i64>,
    /// How signals are shown there, if its owner says so: JSON.
    pub glyphs: Option<String>,
    /// The first place that is still there.
    pub oldest: i64,
}

impl Conversation {
    /// One that is new, open to all of its members, and of which its owner has said nothing.
    pub fn new(
        id: ConversationId,
        kind: ConversationKind,
        name: String,
        owner: Principal,
        created_at: i64,
    ) -> Self {
        Self {
            id,
            kind,
            name,
            context: None,
            owner,
            history: History::All,
            created_at,
            archived_at: None,
            keep_days: None,
            loop_turns: None,
            glyphs: None,
            oldest: 1,
        }
    }
}

/// What [`conversation`] reads.
macro_rules! conversation_columns {
    () => {
        "c.id, c.kind, c.name, c.context, c.owner_kind, c.owner_id, c.history, c.created_at, c.archived_at,
         c.keep_days, c.oldest, c.loop_turns, c.glyphs"
    };
}
pub(crate) use conversation_columns;

macro_rules! select_conversation {
    ($rest:literal) => {
        concat!("SELECT ", conversation_columns!(), " FROM conversations c ", $rest)
    };
}

pub(crate) fn conversation(mut row: Row) -> Result<Conversation, StoreError> {
    let (id, kind) = (ConversationId(row.uuid(0)?), row.text(1)?);
    let owner = (row.text(4)?, row.uuid(5)?);
    let history = row.text(6)?;
    let odd = || StoreError::unexpected(format!("conversation {id}: {kind} {owner:?} {history}"));
    Ok(Conversation {
        id,
        kind: ConversationKind::parse(&kind).ok_or_else(odd)?,
        name: row.text(2)?,
        context: row.opt_text(3)?,
        owner: Principal::new(&owner.0, owner.1).ok_or_else(odd)?,
        history: History::parse(&history).ok_or_else(odd)?,
        created_at: row.int(7)?,
        archived_at: row.opt_int(8)?,
        keep_days: row.opt_int(9)?,
        oldest: row.int(10)?,
        loop_turns: row.opt_int(11)?,
        glyphs: row.opt_text(12)?,
    })
}

/// Adds a conversation. The caller has seen, in this transaction, that there is none of this id.
pub fn insert(tx: &mut dyn Tx, new: &Conversation, trace: TraceId) -> Result<(), StoreError> {
    // Two agents that sent each other envelopes before may have one that nobody could enter.
    tx.execute(
        "INSERT INTO conversations (id, kind, created_at, trace_id, name, context, owner_kind, owner_id, history)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
         ON CONFLICT (id) DO UPDATE SET name = $5, context = $6, owner_kind = $7, owner_id = $8, history = $9",
        &[
            (&new.id).into(),
            new.kind.as_str().into(),
            new.created_at.into(),
            (&trace).into(),
            new.name.as_str().into(),
            new.context.as_deref().into(),
            new.owner.kind().as_str().into(),
            (&new.owner.uuid()).into(),
            new.history.as_str().into(),
        ],
    )?;
    Ok(())
}

/// Replaces what can change of a conversation.
pub fn update(tx: &mut dyn Tx, changed: &Conversation) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE conversations SET name = $2, context = $3, history = $4, archived_at = $5, owner_kind = $6, owner_id = $7,
                keep_days = $8, loop_turns = $9, glyphs = $10
         WHERE id = $1",
        &[
            (&changed.id).into(),
            changed.name.as_str().into(),
            changed.context.as_deref().into(),
            changed.history.as_str().into(),
            changed.archived_at.into(),
            changed.owner.kind().as_str().into(),
            (&changed.owner.uuid()).into(),
            changed.keep_days.into(),
            changed.loop_turns.into(),
            changed.glyphs.as_deref().into(),
        ],
    )?;
    Ok(())
}

/// The conversation of this id.
pub fn by_id(tx: &mut dyn Tx, id: ConversationId) -> Result<Option<Conversation>, StoreError> {
    // The conversation of two agents that only send each other envelopes has no owner and no name.
    tx.first(select_conversation!("WHERE c.id = $1 AND c.owner_id IS NOT NULL"), &[(&id).into()])?
        .map(conversation)
        .transpose()
}

/// Gives a channel of somebody who is going away to a lead, else to whoever has been there longest; if nobody else is in it,
/// it keeps its owner. The caller has locked it: the heir must not leave meanwhile.
pub(crate) fn pass_on(tx: &mut dyn Tx, id: ConversationId, from: Principal) -> Result<(), StoreError> {
    let heir = tx.first(
        "SELECT kind, member_id FROM members WHERE conversation_id = $1 AND left_seq IS NULL AND member_id <> $2
         ORDER BY lead DESC, joined_seq LIMIT 1",
        &[(&id).into(), (&from.uuid()).into()],
    )?;
    let Some(mut heir) = heir else { return Ok(()) };
    tx.execute(
        "UPDATE conversations SET owner_kind = $2, owner_id = $3
         WHERE id = $1 AND owner_id = $4 AND kind = 'channel'",
        &[(&id).into(), heir.text(0)?.as_str().into(), (&heir.uuid(1)?).into(), (&from.uuid()).into()],
    )?;
    Ok(())
}

/// The conversations somebody is a member of, in the order of their ids, after `after`: those that are open, or those that
/// are archived.
pub fn of_member(
    tx: &mut dyn Tx,
    principal: Principal,
    archived: bool,
    after: Option<ConversationId>,
    limit: i64,
) -> Result<Vec<Conversation>, StoreError> {
    let after = after.as_ref().map_or([].as_slice(), ConversationId::as_bytes);
    let sql = if archived {
        select_conversation!(
            "JOIN members m ON m.conversation_id = c.id
             WHERE m.member_id = $1 AND m.left_seq IS NULL AND c.archived_at IS NOT NULL AND c.id > $2
             ORDER BY c.id LIMIT $3"
        )
    } else {
        select_conversation!(
            "JOIN members m ON m.conversation_id = c.id
             WHERE m.member_id = $1 AND m.left_seq IS NULL AND c.archived_at IS NULL AND c.id > $2
             ORDER BY c.id LIMIT $3"
        )
    };
    tx.query(sql, &[(&principal.uuid()).into(), after.into(), limit.into()])?
        .into_iter()
        .map(conversation)
        .collect()
}

/// The open conversations of somebody that show signals otherwise than usual, some of them, and how.
pub fn remapped(
    tx: &mut dyn Tx,
    principal: Principal,
    limit: i64,
) -> Result<Vec<(ConversationId, String)>, StoreError> {
    tx.query(
        "SELECT c.id, c.glyphs FROM members m JOIN conversations c ON c.id = m.conversation_id
         WHERE m.member_id = $1 AND m.left_seq IS NULL AND c.archived_at IS NULL AND c.glyphs IS NOT NULL
         ORDER BY c.id LIMIT $2",
        &[(&principal.uuid()).into(), limit.into()],
    )?
    .into_iter()
    .map(|mut row| Ok((ConversationId(row.uuid(0)?), row.text(1)?)))
    .collect()
}

/// One thing that happened, to be appended.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// Its id.
    pub id: EventId,
    /// Where.
    pub conversation: ConversationId,
    /// By whom.
    pub author: Principal,
    /// What it belongs to.
    pub trace: TraceId,
    /// The message that began the thread it is in.
    pub thread: Option<EventId>,
    /// What it is about: what a reply answers, what an edit changes.
    pub target: Option<EventId>,
}

/// Appends an event at `seq`, which the caller took with [`Tx::next_seq`] of the conversation. Nothing with a credential in
/// it has a place there: only what is masked can be given one.
pub fn append(
    tx: &mut dyn Tx,
    event: &NewEvent,
    kind: EventKind,
    body: &Masked,
    seq: i64,
    now: i64,
) -> Result<(), StoreError> {
    store(tx, event, kind, body.json(), seq, now)
}

/// Appends a relay envelope, as it came: it is for its receiver, and no conversation's.
pub fn append_envelope(
    tx: &mut dyn Tx,
    event: &NewEvent,
    envelope: &str,
    now: i64,
) -> Result<(), StoreError> {
    store(tx, event, EventKind::Envelope, envelope, UNPLACED, now)
}

/// Appends another service's channel message, which is sealed and has no place either.
pub fn append_foreign(tx: &mut dyn Tx, event: &NewEvent, sealed: &str, now: i64) -> Result<(), StoreError> {
    store(tx, event, EventKind::Foreign, sealed, UNPLACED, now)
}

/// Appends a job, as its agent gets it; outside of any order.
pub(crate) fn append_job(tx: &mut dyn Tx, event: &NewEvent, body: &str, now: i64) -> Result<(), StoreError> {
    store(tx, event, EventKind::Job, body, UNPLACED, now)
}

/// Appends a digest, as its agent gets it; outside of any order.
pub(crate) fn append_digest(
    tx: &mut dyn Tx,
    event: &NewEvent,
    body: &str,
    now: i64,
) -> Result<(), StoreError> {
    store(tx, event, EventKind::Digest, body, UNPLACED, now)
}

fn store(
    tx: &mut dyn Tx,
    event: &NewEvent,
    kind: EventKind,
    body: &str,
    seq: i64,
    now: i64,
) -> Result<(), StoreError> {
    let inline = body.len() <= INLINE_BODY;
    tx.append(
        "INSERT INTO events (id, conversation_id, seq, kind, author_id, trace_id, created_at, body, author_kind, thread_id,
                             target_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        &[
            (&event.id).into(),
            (&event.conversation).into(),
            seq.into(),
            kind.as_str().into(),
            (&event.author.uuid()).into(),
            (&event.trace).into(),
            now.into(),
            if inline { body.into() } else { Param::Null },
            event.author.kind().as_str().into(),
            event.thread.as_ref().into(),
            event.target.as_ref().into(),
        ],
    )?;
    if !inline {
        tx.append(
            "INSERT INTO large_bodies (event_id, body) VALUES ($1, $2)",
            &[(&event.id).into(), body.into()],
        )?;
    }
    Ok(())
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its id.
    pub id: EventId,
    /// Where.
    pub conversation: ConversationId,
    /// Its place there.
    pub seq: i64,
    /// What kind of thing.
    pub kind: EventKind,
    /// By whom.
    pub author: Principal,
    /// What the author was called there at last; none for one that never was a member.
    pub handle: Option<String>,
    /// What it belongs to.
    pub trace: TraceId,
    /// When.
    pub created_at: i64,
    /// The message that began the thread it is in.
    pub thread: Option<EventId>,
    /// What it is about.
    pub target: Option<EventId>,
    /// What was said, JSON.
    pub body: String,
}

/// What [`event`] reads, with this as the body.
macro_rules! event_columns {
    ($body:literal) => {
        concat!(
            "e.id, e.conversation_id, e.seq, e.kind, e.author_kind, e.author_id, e.trace_id, e.created_at, e.thread_id,
             e.target_id, ",
            $body,
            ", (SELECT m.handle FROM members m WHERE m.conversation_id = e.conversation_id
                    AND m.member_id = e.author_id ORDER BY m.joined_seq DESC LIMIT 1)"
        )
    };
}
pub(crate) use event_columns;

macro_rules! select_event {
    ($($rest:tt)+) => {
        concat!(
            "SELECT ",
            $crate::conversations::event_columns!("COALESCE(e.body, b.body)"),
            " FROM events e LEFT JOIN large_bodies b ON b.event_id = e.id ",
            $($rest)+
        )
    };
}
pub(crate) use select_event;

pub(crate) fn event(mut row: Row) -> Result<Event, StoreError> {
    let id = |bytes: Option<Vec<u8>>| bytes.as_deref().and_then(EventId::from_slice);
    let (kind, author) = (row.text(4)?, row.uuid(5)?);
    Ok(Event {
        id: EventId(row.uuid(0)?),
        conversation: ConversationId(row.uuid(1)?),
        seq: row.int(2)?,
        kind: word(&row.text(3)?, EventKind::parse)?,
        author: Principal::new(&kind, author)
            .ok_or_else(|| StoreError::unexpected(format!("an author of kind {kind:?}")))?,
        trace: TraceId(row.uuid(6)?),
        created_at: row.int(7)?,
        thread: id(row.opt_bytes(8)?),
        target: id(row.opt_bytes(9)?),
        body: row.text(10)?,
        handle: row.opt_text(11)?,
    })
}

/// The event of this id.
pub fn event_by_id(tx: &mut dyn Tx, id: EventId) -> Result<Option<Event>, StoreError> {
    tx.first(select_event!("WHERE e.id = $1"), &[(&id).into()])?.map(event).transpose()
}
