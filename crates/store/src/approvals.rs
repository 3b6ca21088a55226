//! Messages that wait for a person's approval, and their outcomes.
//!
//! A message waits for a limited time. It ends earlier when it can no longer be sent: an act that removes its
//! author from the conversation, or closes the conversation, calls [`end_of`], [`end_in`] or [`end_by`] in its
//! own transaction, and the reconciler does the rest. [`decide`] decides a message once; its text is deleted
//! then. The store does not decide who may approve.

use crate::error::word;
use crate::usage::{self, ROW_BYTES, Refusal, row_bytes};
use crate::{Row, StoreError, Tx, TxExt};
use chorus_protocol::ids::{AccountId, ApprovalId, ConversationId, EventId, Principal, StreamId, TraceId};
use chorus_protocol::redact::{Masked, MaskedText};
pub use chorus_protocol::words::ApprovalState;

/// The time a message waits at most.
pub const WAITS_MS: i64 = 24 * 60 * 60 * 1000;
/// The time that outcomes are kept.
pub const KEPT_MS: i64 = 30 * 24 * 60 * 60 * 1000;
/// The most that wait of one author in one conversation.
pub const MOST_OF_AUTHOR: i64 = 10;
/// The most that wait in one conversation.
pub const MOST_IN_CONVERSATION: i64 = 100;

/// A message that waits until a person agrees.
#[derive(Debug, Clone)]
pub struct NewApproval {
    pub id: ApprovalId,
    pub conversation: ConversationId,
    pub author: Principal,
    pub body: Masked,
    /// A message of the thread it is for.
    pub thread: Option<EventId>,
    pub reply_to: Option<EventId>,
    /// The work stream it says it belongs to.
    pub stream: Option<StreamId>,
    /// The approved message whose text it would replace; `None` for a new message.
    pub edit_of: Option<EventId>,
    pub trace: TraceId,
    pub now: i64,
}

/// The same as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    pub id: ApprovalId,
    pub conversation: ConversationId,
    pub author: Principal,
    /// The message as JSON, while it waits.
    pub body: String,
    /// A message of the thread it is for.
    pub thread: Option<EventId>,
    pub reply_to: Option<EventId>,
    /// The work stream it says it belongs to.
    pub stream: Option<StreamId>,
    /// The approved message whose text it would replace; `None` for a new message.
    pub edit_of: Option<EventId>,
    pub trace: TraceId,
    pub state: ApprovalState,
    /// Since when it waits.
    pub created_at: i64,
    pub expires_at: i64,
    /// The time it ends by itself: `expires_at`, or earlier if it can no longer be sent.
    pub ends_at: i64,
    /// The outcome, once it no longer waits.
    pub decided: Option<Decided>,
}

impl Approval {
    /// Returns whether it can still be approved.
    pub fn waits(&self, now: i64) -> bool {
        self.state == ApprovalState::Held && self.ends_at > now
    }
}

/// The outcome of a message that waited.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decided {
    pub at: i64,
    /// The person that agreed or declined.
    pub by: Option<AccountId>,
    /// The reason given for declining.
    pub reason: Option<MaskedText>,
    /// The message it became.
    pub event: Option<EventId>,
}

macro_rules! select_approval {
    ($rest:literal) => {
        concat!(
            "SELECT a.id, a.conversation_id, a.author_kind, a.author_id, a.body, a.thread_id, a.reply_to, a.stream_id, a.trace_id,
                    a.state, a.created_at, a.expires_at, a.ends_at, a.decided_at, a.decided_by, a.reason, a.event_id, a.edit_of
             FROM approvals a ",
            $rest
        )
    };
}

fn approval(mut row: Row) -> Result<Approval, StoreError> {
    let (kind, author) = (row.text("author_kind")?, row.uuid("author_id")?);
    let author = Principal::new(&kind, author)
        .ok_or_else(|| StoreError::unexpected(format!("an author of kind {kind:?}")))?;
    let decided = match row.opt_int("decided_at")? {
        Some(at) => Some(Decided {
            at,
            by: row.opt_uuid("decided_by")?.map(AccountId),
            reason: row.opt_text("reason")?.map(MaskedText::stored),
            event: row.opt_uuid("event_id")?.map(EventId),
        }),
        None => None,
    };
    Ok(Approval {
        id: ApprovalId(row.uuid("id")?),
        conversation: ConversationId(row.uuid("conversation_id")?),
        author,
        body: row.text("body")?,
        thread: row.opt_uuid("thread_id")?.map(EventId),
        reply_to: row.opt_uuid("reply_to")?.map(EventId),
        stream: row.opt_uuid("stream_id")?.map(StreamId),
        edit_of: row.opt_uuid("edit_of")?.map(EventId),
        trace: TraceId(row.uuid("trace_id")?),
        state: word(&row.text("state")?, ApprovalState::parse)?,
        created_at: row.int("created_at")?,
        expires_at: row.int("expires_at")?,
        ends_at: row.int("ends_at")?,
        decided,
    })
}

/// Keeps a message back, unless as many wait as may; whether it does. The caller holds the conversation.
pub fn hold(tx: &mut dyn Tx, new: &NewApproval) -> Result<bool, StoreError> {
    let author = new.author.uuid();
    let counted = tx.first(
        "SELECT COUNT(*) AS count, CAST(COALESCE(SUM(CASE WHEN author_id = $2 THEN 1 ELSE 0 END), 0) AS BIGINT) AS of_author
         FROM approvals WHERE conversation_id = $1 AND state = 'held'",
        &[(&new.conversation).into(), (&author).into()],
    )?;
    let (all, own) = counted
        .map_or(Ok((0, 0)), |mut row| Ok::<_, StoreError>((row.int("count")?, row.int("of_author")?)))?;
    if all >= MOST_IN_CONVERSATION || own >= MOST_OF_AUTHOR {
        return Ok(false);
    }
    usage::charge(tx, new.author, row_bytes([new.body.json().len()]), Refusal::WhenFull)?;
    let ends_at = new.now + WAITS_MS;
    tx.execute(
        "INSERT INTO approvals (id, conversation_id, author_kind, author_id, body, thread_id, reply_to, stream_id, trace_id,
                                state, created_at, expires_at, ends_at, edit_of)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'held', $10, $11, $11, $12)",
        &[
            (&new.id).into(),
            (&new.conversation).into(),
            new.author.kind().as_str().into(),
            (&author).into(),
            new.body.json().into(),
            new.thread.as_ref().into(),
            new.reply_to.as_ref().into(),
            new.stream.as_ref().into(),
            (&new.trace).into(),
            new.now.into(),
            ends_at.into(),
            new.edit_of.as_ref().into(),
        ],
    )?;
    Ok(true)
}

/// A message that waits, or did.
pub fn by_id(tx: &mut dyn Tx, id: ApprovalId) -> Result<Option<Approval>, StoreError> {
    tx.first(select_approval!("WHERE a.id = $1"), &[(&id).into()])?.map(approval).transpose()
}

/// Returns the edit of a message that waits for a person. There is one at most: a newer edit replaces an older one.
pub fn edit_of(tx: &mut dyn Tx, message: EventId) -> Result<Option<Approval>, StoreError> {
    let found =
        tx.first(select_approval!("WHERE a.edit_of = $1 AND a.state = 'held'"), &[(&message).into()])?;
    found.map(approval).transpose()
}

/// Held messages of all authors in the conversations of a person.
const OF_PERSON: &str = select_approval!(
    "JOIN members m ON m.conversation_id = a.conversation_id AND m.member_id = $1 AND m.left_seq IS NULL
     WHERE a.state = 'held' AND a.ends_at > $2 AND a.id > $3 ORDER BY a.id LIMIT $4"
);
/// Held messages of all authors in one conversation.
const IN_CONVERSATION: &str = select_approval!(
    "JOIN members m ON m.conversation_id = a.conversation_id AND m.member_id = $1 AND m.left_seq IS NULL
     WHERE a.conversation_id = $5 AND a.state = 'held' AND a.ends_at > $2 AND a.id > $3 ORDER BY a.id LIMIT $4"
);
/// Held messages of one author.
const OF_AUTHOR: &str = select_approval!(
    "WHERE a.author_id = $1 AND a.state = 'held' AND a.ends_at > $2 AND a.id > $3 ORDER BY a.id LIMIT $4"
);
/// The same in one conversation.
const OF_AUTHOR_IN: &str = select_approval!(
    "WHERE a.author_id = $1 AND a.conversation_id = $5 AND a.state = 'held' AND a.ends_at > $2 AND a.id > $3
     ORDER BY a.id LIMIT $4"
);

/// Lists held messages by id, after `after`: for a person, those in its conversations; for an agent, its own.
pub fn page(
    tx: &mut dyn Tx,
    who: Principal,
    conversation: Option<ConversationId>,
    after: Option<ApprovalId>,
    now: i64,
    limit: i64,
) -> Result<Vec<Approval>, StoreError> {
    let (id, after) = (who.uuid(), after.as_ref().map_or([].as_slice(), ApprovalId::as_bytes));
    let place = conversation.as_ref().map_or([].as_slice(), ConversationId::as_bytes);
    let params = [(&id).into(), now.into(), after.into(), limit.into(), place.into()];
    let (sql, used) = match (who, conversation) {
        (Principal::Account(_), Some(_)) => (IN_CONVERSATION, 5),
        (Principal::Account(_), None) => (OF_PERSON, 4),
        (Principal::Agent(_), Some(_)) => (OF_AUTHOR_IN, 5),
        (Principal::Agent(_), None) => (OF_AUTHOR, 4),
    };
    tx.query(sql, &params[..used])?.into_iter().map(approval).collect()
}

/// Decides a held message, and deletes its text. Returns whether it was still held.
pub fn decide(
    tx: &mut dyn Tx,
    id: ApprovalId,
    state: ApprovalState,
    decided: &Decided,
) -> Result<bool, StoreError> {
    let held = tx.first(
        "SELECT author_kind, author_id, OCTET_LENGTH(body) AS body_bytes FROM approvals WHERE id = $1 AND state = 'held'",
        &[(&id).into()],
    )?;
    if let Some(mut held) = held
        && let Some(author) = Principal::new(&held.text("author_kind")?, held.uuid("author_id")?)
    {
        usage::give_back(tx, author, held.int("body_bytes")?)?;
    }
    let changed = tx.execute(
        "UPDATE approvals SET state = $2, body = '', decided_at = $3, decided_by = $4, reason = $5, event_id = $6
         WHERE id = $1 AND state = 'held'",
        &[
            (&id).into(),
            state.as_str().into(),
            decided.at.into(),
            decided.by.as_ref().into(),
            decided.reason.as_deref().into(),
            decided.event.as_ref().into(),
        ],
    )?;
    Ok(changed == 1)
}

/// Somebody is in a conversation no longer: nothing comes of what it wanted to say there.
pub(crate) fn end_of(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    author: Principal,
    now: i64,
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE approvals SET ends_at = $3 WHERE conversation_id = $1 AND author_id = $2 AND state = 'held' AND ends_at > $3",
        &[(&conversation).into(), (&author.uuid()).into(), now.into()],
    )?;
    Ok(())
}

/// A conversation is closed: nothing comes of what was to be said there.
pub(crate) fn end_in(tx: &mut dyn Tx, conversation: ConversationId, now: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE approvals SET ends_at = $2 WHERE conversation_id = $1 AND state = 'held' AND ends_at > $2",
        &[(&conversation).into(), now.into()],
    )?;
    Ok(())
}

/// Ends the waiting edit of a message that was deleted.
pub(crate) fn end_edit_of(tx: &mut dyn Tx, message: EventId, now: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE approvals SET ends_at = $2 WHERE edit_of = $1 AND state = 'held' AND ends_at > $2",
        &[(&message).into(), now.into()],
    )?;
    Ok(())
}

/// Somebody is kept out of the hub: nothing comes of what it wanted to say anywhere.
pub(crate) fn end_by(tx: &mut dyn Tx, author: Principal, now: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE approvals SET ends_at = $2 WHERE author_id = $1 AND state = 'held' AND ends_at > $2",
        &[(&author.uuid()).into(), now.into()],
    )?;
    Ok(())
}

/// Lists held messages that end by now, those that have waited longest first.
pub fn due(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<Vec<ApprovalId>, StoreError> {
    tx.query(
        "SELECT id FROM approvals WHERE state = 'held' AND ends_at <= $1 ORDER BY ends_at, id LIMIT $2",
        &[now.into(), limit.into()],
    )?
    .into_iter()
    .map(|mut row| Ok(ApprovalId(row.uuid("id")?)))
    .collect()
}

/// A reconciler: forgets a bounded number of those that were decided long ago.
pub fn remove_old(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<u64, StoreError> {
    let gone = tx.query(
        "DELETE FROM approvals WHERE id IN (SELECT id FROM approvals WHERE decided_at IS NOT NULL AND decided_at < $1
                                            ORDER BY decided_at LIMIT $2)
         RETURNING author_kind, author_id",
        &[(now - KEPT_MS).into(), limit.into()],
    )?;
    let removed = gone.len() as u64;
    for mut row in gone {
        if let Some(author) = Principal::new(&row.text("author_kind")?, row.uuid("author_id")?) {
            usage::give_back(tx, author, ROW_BYTES)?;
        }
    }
    Ok(removed)
}
