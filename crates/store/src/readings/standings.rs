//! The conversations of a person, with their unread counts.
//!
//! Counts are made on reading, up to a limit.

use super::MAX_COUNT;
use crate::{Row, StoreError, Tx, TxExt};
use chorus_protocol::ids::{AccountId, ConversationId, Principal};
use chorus_protocol::words::ConversationKind;

/// A conversation as one of its members stands in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    pub conversation: ConversationId,
    /// Of many, or of two.
    pub kind: ConversationKind,
    pub name: String,
    pub handle: String,
    /// Up to where it has read.
    pub read: i64,
    /// The number of new messages of others, at most [`MAX_COUNT`], and of messages that wait for approval.
    pub new: i64,
    /// The place of the last message that was for the member: that names it, or is in a conversation of two. None was if it is 0.
    pub asked: i64,
    /// With whom, in a conversation of two: who it is, and what it is called there.
    pub other: Option<(Principal, String)>,
}

fn standing(mut row: Row) -> Result<Standing, StoreError> {
    let (kind, other) = (row.text("kind")?, row.opt_text("other_kind")?);
    let other = match other {
        Some(kind) => {
            let who = Principal::new(&kind, row.uuid("other_id")?);
            let who = who.ok_or_else(|| StoreError::unexpected(format!("a member of kind {kind:?}")))?;
            Some((who, row.text("other_handle")?))
        }
        None => None,
    };
    Ok(Standing {
        conversation: ConversationId(row.uuid("id")?),
        kind: ConversationKind::parse(&kind)
            .ok_or_else(|| StoreError::unexpected(format!("a conversation of kind {kind:?}")))?,
        name: row.opt_text("name")?.unwrap_or_default(),
        handle: row.text("handle")?,
        read: row.int("read_seq")?,
        new: row.int("unread")?,
        asked: row.int("asked_seq")?,
        other,
    })
}

impl Standing {
    /// Returns whether an unread message addresses the member, or a report on a request of it is unread.
    pub fn is_asked(&self) -> bool {
        self.asked > self.read || (self.new > 0 && self.kind == ConversationKind::Dm)
    }
}

/// The conversations of a person that are not archived, in the order they were made.
pub fn of_account(tx: &mut dyn Tx, account: AccountId, limit: i64) -> Result<Vec<Standing>, StoreError> {
    tx.query(
        "SELECT q.id, q.kind, q.name, q.handle, q.read_seq,
                (SELECT count(*) FROM (SELECT 1 FROM events e WHERE e.conversation_id = q.id AND e.kind = 'message'
                    AND e.seq > q.read_seq AND e.seq <> 0 AND e.author_id <> $1 LIMIT $2) AS newer)
                + (SELECT count(*) FROM approvals a WHERE a.conversation_id = q.id AND a.state = 'held'
                    AND a.author_id <> $1) AS unread,
                q.asked_seq, o.kind AS other_kind, o.member_id AS other_id, o.handle AS other_handle
         FROM (SELECT c.id, c.kind, c.name, m.handle, COALESCE(r.asked_seq, 0) AS asked_seq,
                      CASE WHEN COALESCE(r.read_seq, 0) > m.joined_seq THEN r.read_seq ELSE m.joined_seq END AS read_seq
               FROM members m JOIN conversations c ON c.id = m.conversation_id
               LEFT JOIN readings r ON r.account_id = m.member_id AND r.conversation_id = m.conversation_id
               WHERE m.member_id = $1 AND m.left_seq IS NULL AND c.archived_at IS NULL
               ORDER BY c.id LIMIT $3) AS q
         LEFT JOIN members o ON q.kind = 'dm' AND o.conversation_id = q.id AND o.member_id <> $1 AND o.left_seq IS NULL
         ORDER BY q.id",
        &[(&account.0).into(), MAX_COUNT.into(), limit.into()],
    )?
    .into_iter()
    .map(standing)
    .collect()
}
