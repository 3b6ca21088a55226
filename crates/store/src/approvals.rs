//! Messages that wait until a person agrees, and what became of them.
//!
//! A message waits for so long at most, and ends sooner when nothing can come of it any more: whatever takes its author out of the
//! conversation, or closes that, says so here, in its own transaction ([`end_of`], [`end_in`], [`end_by`]), and whoever looks after
//! what is due does the rest. What was decided stays decided: [`decide`] moves a message out of its waiting once. What it says is
//! forgotten then. Who may agree is no business of the store.

use crate::error::word;
use crate::{Row, StoreError, Tx, TxExt};
use chorus_protocol::ids::{AccountId, ApprovalId, ConversationId, EventId, Principal, StreamId, TraceId};
use chorus_protocol::redact::Masked;
pub use chorus_protocol::words::ApprovalState;

/// How long a message waits.
pub const WAITS_MS: i64 = 24 * 60 * 60 * 1000;
/// How long it is known what became of it.
pub const KEPT_MS: i64 = 30 * 24 * 60 * 60 * 1000;
/// The most that wait of one author in one conversation.
pub const MOST_OF_AUTHOR: i64 = 10;
/// The most that wait in one conversation.
pub const MOST_IN_CONVERSATION: i64 = 100;

/// A message that waits until a person agrees.
#[derive(Debug, Clone)]
pub struct NewApproval {
    /// What it is called as long as it waits.
    pub id: ApprovalId,
    /// Where it is to be said.
    pub conversation: ConversationId,
    /// By whom.
    pub author: Principal,
    /// What.
    pub body: Masked,
    /// A message of the thread it is for.
    pub thread: Option<EventId>,
    /// What it answers.
    pub reply_to: Option<EventId>,
    /// The work stream it says it belongs to.
    pub stream: Option<StreamId>,
    /// What it belongs to.
    pub trace: TraceId,
    /// Since when.
    pub now: i64,
}

/// The same as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// What it is called.
    pub id: ApprovalId,
    /// Where it is to be said.
    pub conversation: ConversationId,
    /// By whom.
    pub author: Principal,
    /// What it says, JSON, as long as it waits.
    pub body: String,
    /// A message of the thread it is for.
    pub thread: Option<EventId>,
    /// What it answers.
    pub reply_to: Option<EventId>,
    /// The work stream it says it belongs to.
    pub stream: Option<StreamId>,
    /// What it belongs to.
    pub trace: TraceId,
    /// How it stands.
    pub state: ApprovalState,
    /// Since when it waits.
    pub created_at: i64,
    /// When its time is over.
    pub expires_at: i64,
    /// When it ends by itself: then, or since nothing can come of it any more.
    pub ends_at: i64,
    /// What was decided, if it does not wait any more.
    pub decided: Option<Decided>,
}

impl Approval {
    /// Whether somebody may still agree to it.
    pub fn waits(&self, now: i64) -> bool {
        self.state == ApprovalState::Held && self.ends_at > now
    }
}

/// What became of a message that waited.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decided {
    /// When.
    pub at: i64,
    /// The person that agreed or declined.
    pub by: Option<AccountId>,
    /// Why it was declined.
    pub reason: Option<String>,
    /// The message it became.
    pub event: Option<EventId>,
}

macro_rules! select_approval {
    ($rest:literal) => {
        concat!(
            "SELECT a.id, a.conversation_id, a.author_kind, a.author_id, a.body, a.thread_id, a.reply_to, a.stream_id, a.trace_id,
                    a.state, a.created_at, a.expires_at, a.ends_at, a.decided_at, a.decided_by, a.reason, a.event_id
             FROM approvals a ",
            $rest
        )
    };
}

fn approval(mut row: Row) -> Result<Approval, StoreError> {
    let (kind, author) = (row.text(2)?, row.uuid(3)?);
    let author = Principal::new(&kind, author)
        .ok_or_else(|| StoreError::unexpected(format!("an author of kind {kind:?}")))?;
    let decided = match row.opt_int(13)? {
        Some(at) => Some(Decided {
            at,
            by: row.opt_uuid(14)?.map(AccountId),
            reason: row.opt_text(15)?,
            event: row.opt_uuid(16)?.map(EventId),
        }),
        None => None,
    };
    Ok(Approval {
        id: ApprovalId(row.uuid(0)?),
        conversation: ConversationId(row.uuid(1)?),
        author,
        body: row.text(4)?,
        thread: row.opt_uuid(5)?.map(EventId),
        reply_to: row.opt_uuid(6)?.map(EventId),
        stream: row.opt_uuid(7)?.map(StreamId),
        trace: TraceId(row.uuid(8)?),
        state: word(&row.text(9)?, ApprovalState::parse)?,
        created_at: row.int(10)?,
        expires_at: row.int(11)?,
        ends_at: row.int(12)?,
        decided,
    })
}

/// Keeps a message back, unless as many wait as may; whether it does. The caller holds the conversation.
pub fn hold(tx: &mut dyn Tx, new: &NewApproval) -> Result<bool, StoreError> {
    let author = new.author.uuid();
    let counted = tx.first(
        "SELECT COUNT(*), CAST(COALESCE(SUM(CASE WHEN author_id = $2 THEN 1 ELSE 0 END), 0) AS BIGINT)
         FROM approvals WHERE conversation_id = $1 AND state = 'held'",
        &[(&new.conversation).into(), (&author).into()],
    )?;
    let (all, own) = counted.map_or(Ok((0, 0)), |mut row| Ok::<_, StoreError>((row.int(0)?, row.int(1)?)))?;
    if all >= MOST_IN_CONVERSATION || own >= MOST_OF_AUTHOR {
        return Ok(false);
    }
    let ends_at = new.now + WAITS_MS;
    tx.execute(
        "INSERT INTO approvals (id, conversation_id, author_kind, author_id, body, thread_id, reply_to, stream_id, trace_id,
                                state, created_at, expires_at, ends_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'held', $10, $11, $11)",
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
        ],
    )?;
    Ok(true)
}

/// A message that waits, or did.
pub fn by_id(tx: &mut dyn Tx, id: ApprovalId) -> Result<Option<Approval>, StoreError> {
    tx.first(select_approval!("WHERE a.id = $1"), &[(&id).into()])?.map(approval).transpose()
}

/// What waits in the conversations of a person, by whomever.
const OF_PERSON: &str = select_approval!(
    "JOIN members m ON m.conversation_id = a.conversation_id AND m.member_id = $1 AND m.left_seq IS NULL
     WHERE a.state = 'held' AND a.ends_at > $2 AND a.id > $3 ORDER BY a.id LIMIT $4"
);
/// What waits in one conversation, by whomever.
const IN_CONVERSATION: &str = select_approval!(
    "JOIN members m ON m.conversation_id = a.conversation_id AND m.member_id = $1 AND m.left_seq IS NULL
     WHERE a.conversation_id = $5 AND a.state = 'held' AND a.ends_at > $2 AND a.id > $3 ORDER BY a.id LIMIT $4"
);
/// What an agent wants to say itself.
const OF_AUTHOR: &str = select_approval!(
    "WHERE a.author_id = $1 AND a.state = 'held' AND a.ends_at > $2 AND a.id > $3 ORDER BY a.id LIMIT $4"
);
/// The same in one conversation.
const OF_AUTHOR_IN: &str = select_approval!(
    "WHERE a.author_id = $1 AND a.conversation_id = $5 AND a.state = 'held' AND a.ends_at > $2 AND a.id > $3
     ORDER BY a.id LIMIT $4"
);

/// What waits and somebody may know of, in the order of its ids, after `after`: a person, whatever waits in its conversations; an
/// agent, what it wants to say itself.
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

/// A message waits no longer; whether it did until now. What it said is forgotten.
pub fn decide(
    tx: &mut dyn Tx,
    id: ApprovalId,
    state: ApprovalState,
    decided: &Decided,
) -> Result<bool, StoreError> {
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

/// Somebody is kept out of the hub: nothing comes of what it wanted to say anywhere.
pub(crate) fn end_by(tx: &mut dyn Tx, author: Principal, now: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE approvals SET ends_at = $2 WHERE author_id = $1 AND state = 'held' AND ends_at > $2",
        &[(&author.uuid()).into(), now.into()],
    )?;
    Ok(())
}

/// What ends by itself by now, some of it, what waits longest first.
pub fn due(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<Vec<ApprovalId>, StoreError> {
    tx.query(
        "SELECT id FROM approvals WHERE state = 'held' AND ends_at <= $1 ORDER BY ends_at, id LIMIT $2",
        &[now.into(), limit.into()],
    )?
    .into_iter()
    .map(|mut row| Ok(ApprovalId(row.uuid(0)?)))
    .collect()
}

/// A reconciler: forgets a bounded number of those that were decided long ago.
pub fn remove_old(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM approvals WHERE id IN (SELECT id FROM approvals WHERE decided_at IS NOT NULL AND decided_at < $1
                                            ORDER BY decided_at LIMIT $2)",
        &[(now - KEPT_MS).into(), limit.into()],
    )
}
