//! Conversations and their events. Events are append-only and most have a sequence number in their
//! conversation.
//!
//! Edits, deletions and reactions are events of their own that name the message. [`log`](crate::log) finds
//! them, and readers apply them. Events are never rewritten.

use crate::error::word;
use crate::usage::{self, Refusal, length, row_bytes};
use crate::{Param, Row, StoreError, Tx, TxExt};
use chorus_protocol::ids::{ConversationId, EventId, Principal, TraceId};
use chorus_protocol::redact::{Masked, MaskedText};
use chorus_protocol::words::EventKind;
pub use chorus_protocol::words::{ConversationKind, History};

/// A body up to this size lies in the event's own row; a larger one elsewhere, so that the rows stay small.
pub(crate) const INLINE_BODY: usize = 64 * 1024;
/// The place of an event whose order something else tells: a relay envelope's is its receiver's inbox.
pub const UNPLACED: i64 = 0;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    pub id: ConversationId,
    pub kind: ConversationKind,
    pub name: MaskedText,
    /// The purpose of the conversation.
    pub context: Option<MaskedText>,
    pub owner: Principal,
    /// The part of the history that members may read.
    pub history: History,
    /// The place after which all members may read everything while `history` is `all`. It is 0 unless the history was opened later:
    /// what was said before then stays with those who were there.
    pub open_from: i64,
    pub created_at: i64,
    /// Since when nothing can be said in it.
    pub archived_at: Option<i64>,
    /// The number of days that events are kept, if the owner set one. The hub's own limit still applies.
    pub keep_days: Option<i64>,
    /// After how many turns among themselves agents are in a loop there, if its owner says so; 0 for never.
    pub loop_turns: Option<i64>,
    /// The time for which progress moves the deadline of a request, if the owner set it.
    pub longest_task_ms: Option<i64>,
    /// The display of signals, if the owner set it: JSON.
    pub glyphs: Option<String>,
    /// The first place that is still there.
    pub oldest: i64,
}

impl Conversation {
    /// Returns the place after which every member may read everything; there is none while members read only what was said while they
    /// were there.
    pub(crate) fn open_after(&self) -> i64 {
        match self.history {
            History::All => self.open_from,
            History::Joined => i64::MAX,
        }
    }

    /// One that is new, open to all of its members, and of which its owner has said nothing.
    pub fn new(
        id: ConversationId,
        kind: ConversationKind,
        name: MaskedText,
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
            open_from: 0,
            created_at,
            archived_at: None,
            keep_days: None,
            loop_turns: None,
            longest_task_ms: None,
            glyphs: None,
            oldest: 1,
        }
    }
}

macro_rules! conversation_columns {
    () => {
        "c.id AS c_id, c.kind AS c_kind, c.name AS c_name, c.context AS c_context, c.owner_kind AS c_owner_kind,
         c.owner_id AS c_owner_id, c.history AS c_history, c.created_at AS c_created_at, c.archived_at AS c_archived_at,
         c.keep_days AS c_keep_days, c.oldest AS c_oldest, c.loop_turns AS c_loop_turns, c.glyphs AS c_glyphs,
         c.open_from AS c_open_from, c.longest_task_ms AS c_longest_task_ms"
    };
}
pub(crate) use conversation_columns;

macro_rules! select_conversation {
    ($rest:literal) => {
        concat!("SELECT ", conversation_columns!(), " FROM conversations c ", $rest)
    };
}

pub(crate) fn conversation(row: &mut Row) -> Result<Conversation, StoreError> {
    let (id, kind) = (ConversationId(row.uuid("c_id")?), row.text("c_kind")?);
    let owner = (row.text("c_owner_kind")?, row.uuid("c_owner_id")?);
    let history = row.text("c_history")?;
    let odd = || StoreError::unexpected(format!("conversation {id}: {kind} {owner:?} {history}"));
    Ok(Conversation {
        id,
        kind: ConversationKind::parse(&kind).ok_or_else(odd)?,
        name: MaskedText::stored(row.text("c_name")?),
        context: row.opt_text("c_context")?.map(MaskedText::stored),
        owner: Principal::new(&owner.0, owner.1).ok_or_else(odd)?,
        history: History::parse(&history).ok_or_else(odd)?,
        created_at: row.int("c_created_at")?,
        archived_at: row.opt_int("c_archived_at")?,
        keep_days: row.opt_int("c_keep_days")?,
        oldest: row.int("c_oldest")?,
        loop_turns: row.opt_int("c_loop_turns")?,
        longest_task_ms: row.opt_int("c_longest_task_ms")?,
        glyphs: row.opt_text("c_glyphs")?,
        open_from: row.int("c_open_from")?,
    })
}

/// The bytes of a conversation, which count for its owner.
fn stored_bytes(conversation: &Conversation) -> i64 {
    let texts = [conversation.context.as_deref(), conversation.glyphs.as_deref()];
    row_bytes([conversation.name.len(), length(texts[0]), length(texts[1])])
}

/// Adds a conversation. The caller has seen, in this transaction, that there is none of this id.
pub fn insert(
    tx: &mut dyn Tx,
    new: &Conversation,
    trace: TraceId,
    refusal: Refusal,
) -> Result<(), StoreError> {
    usage::charge(tx, new.owner, stored_bytes(new), refusal)?;
    // Two agents that sent each other envelopes before may have one that nobody could enter.
    tx.execute(
        "INSERT INTO conversations (id, kind, created_at, trace_id, name, context, owner_kind, owner_id, history,
                                    open_from)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
         ON CONFLICT (id) DO UPDATE
             SET name = $5, context = $6, owner_kind = $7, owner_id = $8, history = $9, open_from = $10",
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
            new.open_after().into(),
        ],
    )?;
    Ok(())
}

/// Replaces what can change of a conversation. Its bytes count for its new owner.
pub fn update(tx: &mut dyn Tx, changed: &Conversation) -> Result<(), StoreError> {
    if let Some(before) = by_id(tx, changed.id)? {
        if before.owner == changed.owner {
            usage::replace(tx, changed.owner, stored_bytes(&before), stored_bytes(changed))?;
        } else {
            usage::give_back(tx, before.owner, stored_bytes(&before))?;
            usage::charge(tx, changed.owner, stored_bytes(changed), Refusal::Never)?;
        }
    }
    tx.execute(
        "UPDATE conversations SET name = $2, context = $3, history = $4, archived_at = $5, owner_kind = $6, owner_id = $7,
                keep_days = $8, loop_turns = $9, glyphs = $10, open_from = $11, longest_task_ms = $12
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
            changed.open_after().into(),
            changed.longest_task_ms.into(),
        ],
    )?;
    Ok(())
}

/// The conversation of this id.
pub fn by_id(tx: &mut dyn Tx, id: ConversationId) -> Result<Option<Conversation>, StoreError> {
    // The conversation of two agents that only send each other envelopes has no owner and no name.
    tx.first(select_conversation!("WHERE c.id = $1 AND c.owner_id IS NOT NULL"), &[(&id).into()])?
        .map(|mut row| conversation(&mut row))
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
    let (kind, heir) = (heir.text("kind")?, heir.uuid("member_id")?);
    let passed = tx.execute(
        "UPDATE conversations SET owner_kind = $2, owner_id = $3
         WHERE id = $1 AND owner_id = $4 AND kind = 'channel'",
        &[(&id).into(), kind.as_str().into(), (&heir).into(), (&from.uuid()).into()],
    )?;
    if let (1, Some(conversation)) = (passed, by_id(tx, id)?) {
        usage::give_back(tx, from, stored_bytes(&conversation))?;
        usage::charge(tx, conversation.owner, stored_bytes(&conversation), Refusal::Never)?;
    }
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
        .map(|mut row| conversation(&mut row))
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
    .map(|mut row| Ok((ConversationId(row.uuid("id")?), row.text("glyphs")?)))
    .collect()
}

/// One thing that happened, to be appended.
#[derive(Debug, Clone)]
pub struct NewEvent {
    pub id: EventId,
    pub conversation: ConversationId,
    pub author: Principal,
    pub trace: TraceId,
    /// The message that began the thread it is in.
    pub thread: Option<EventId>,
    /// The target: the message a reply answers or an edit changes.
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
    let refusal = match kind {
        EventKind::Leave | EventKind::Delete | EventKind::Escalation | EventKind::Stop => Refusal::Never,
        // The hub tells an agent what was decided.
        EventKind::Reaction if seq == UNPLACED => Refusal::Never,
        _ => Refusal::WhenFull,
    };
    charge(tx, event, body.json(), refusal)?;
    store(tx, event, kind, body.json(), seq, now)
}

/// Appends the same where a full quota of its author must not refuse it.
pub(crate) fn append_always(
    tx: &mut dyn Tx,
    event: &NewEvent,
    kind: EventKind,
    body: &Masked,
    seq: i64,
    now: i64,
) -> Result<(), StoreError> {
    charge(tx, event, body.json(), Refusal::Never)?;
    store(tx, event, kind, body.json(), seq, now)
}

/// Appends a relay envelope, as it came: it is for its receiver, and no conversation's.
pub fn append_envelope(
    tx: &mut dyn Tx,
    event: &NewEvent,
    envelope: &str,
    now: i64,
) -> Result<(), StoreError> {
    charge(tx, event, envelope, Refusal::WhenFull)?;
    store(tx, event, EventKind::Envelope, envelope, UNPLACED, now)
}

/// Appends another service's channel message, which is sealed and has no place either.
pub fn append_foreign(tx: &mut dyn Tx, event: &NewEvent, sealed: &str, now: i64) -> Result<(), StoreError> {
    charge(tx, event, sealed, Refusal::WhenFull)?;
    store(tx, event, EventKind::Foreign, sealed, UNPLACED, now)
}

/// Appends a job, as its agent gets it; outside of any order.
pub(crate) fn append_job(tx: &mut dyn Tx, event: &NewEvent, body: &str, now: i64) -> Result<(), StoreError> {
    charge(tx, event, body, Refusal::WhenFull)?;
    store(tx, event, EventKind::Job, body, UNPLACED, now)
}

/// Appends a digest, as its agent gets it; outside of any order.
pub(crate) fn append_digest(
    tx: &mut dyn Tx,
    event: &NewEvent,
    body: &str,
    now: i64,
) -> Result<(), StoreError> {
    // A digest is the hub's own, so it counts for nobody.
    store(tx, event, EventKind::Digest, body, UNPLACED, now)
}

/// Counts an event for its author.
fn charge(tx: &mut dyn Tx, event: &NewEvent, body: &str, refusal: Refusal) -> Result<(), StoreError> {
    usage::charge(tx, event.author, row_bytes([body.len()]), refusal)
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
    pub id: EventId,
    pub conversation: ConversationId,
    pub seq: i64,
    pub kind: EventKind,
    pub author: Principal,
    /// The author's last handle in the conversation; `None` if it was never a member.
    pub handle: Option<String>,
    pub trace: TraceId,
    pub created_at: i64,
    /// The message that began the thread it is in.
    pub thread: Option<EventId>,
    pub target: Option<EventId>,
    /// The body as JSON.
    pub body: String,
}

/// The columns that [`event`] reads, with this expression as the body.
macro_rules! event_columns {
    ($body:literal) => {
        concat!(
            "e.id AS e_id, e.conversation_id AS e_conversation_id, e.seq AS e_seq, e.kind AS e_kind,
             e.author_kind AS e_author_kind, e.author_id AS e_author_id, e.trace_id AS e_trace_id,
             e.created_at AS e_created_at, e.thread_id AS e_thread_id, e.target_id AS e_target_id, ",
            $body,
            " AS e_body, (SELECT m.handle FROM members m WHERE m.conversation_id = e.conversation_id
                    AND m.member_id = e.author_id ORDER BY m.joined_seq DESC LIMIT 1) AS e_handle"
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
    let (kind, author) = (row.text("e_author_kind")?, row.uuid("e_author_id")?);
    Ok(Event {
        id: EventId(row.uuid("e_id")?),
        conversation: ConversationId(row.uuid("e_conversation_id")?),
        seq: row.int("e_seq")?,
        kind: word(&row.text("e_kind")?, EventKind::parse)?,
        author: Principal::new(&kind, author)
            .ok_or_else(|| StoreError::unexpected(format!("an author of kind {kind:?}")))?,
        trace: TraceId(row.uuid("e_trace_id")?),
        created_at: row.int("e_created_at")?,
        thread: id(row.opt_bytes("e_thread_id")?),
        target: id(row.opt_bytes("e_target_id")?),
        body: row.text("e_body")?,
        handle: row.opt_text("e_handle")?,
    })
}

/// The event of this id.
pub fn event_by_id(tx: &mut dyn Tx, id: EventId) -> Result<Option<Event>, StoreError> {
    tx.first(select_event!("WHERE e.id = $1"), &[(&id).into()])?.map(event).transpose()
}
