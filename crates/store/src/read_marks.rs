//! Up to where people have read their conversations, and what is new there.
//!
//! Agents have inboxes; a person has a mark in each conversation. It never goes back, and nothing is written for a person
//! when something is said: what is new is counted when it is looked for, up to a limit.

use crate::{Row, StoreError, Tx, TxExt};
use chorus_protocol::ids::{AccountId, ConversationId, Principal};
use chorus_protocol::words::ConversationKind;

/// So many new messages are counted in one conversation; where there are more, it is this many.
pub const MOST_NEW: i64 = 100;

/// A conversation as one of its members stands in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Which.
    pub conversation: ConversationId,
    /// Of many, or of two.
    pub kind: ConversationKind,
    /// What people call it.
    pub name: String,
    /// What the member is called there.
    pub handle: String,
    /// Up to where it has read.
    pub read: i64,
    /// How many messages of others are new, [`MOST_NEW`] at most.
    pub new: i64,
    /// With whom, in a conversation of two: who it is, and what it is called there.
    pub other: Option<(Principal, String)>,
}

fn standing(mut row: Row) -> Result<Standing, StoreError> {
    let (kind, other) = (row.text(1)?, row.opt_text(6)?);
    let other = match other {
        Some(kind) => {
            let who = Principal::new(&kind, row.uuid(7)?);
            let who = who.ok_or_else(|| StoreError::unexpected(format!("a member of kind {kind:?}")))?;
            Some((who, row.text(8)?))
        }
        None => None,
    };
    Ok(Standing {
        conversation: ConversationId(row.uuid(0)?),
        kind: ConversationKind::parse(&kind)
            .ok_or_else(|| StoreError::unexpected(format!("a conversation of kind {kind:?}")))?,
        name: row.opt_text(2)?.unwrap_or_default(),
        handle: row.text(3)?,
        read: row.int(4)?,
        new: row.int(5)?,
        other,
    })
}

/// The conversations of a person that are not archived, in the order they were made.
pub fn of_account(tx: &mut dyn Tx, account: AccountId, limit: i64) -> Result<Vec<Standing>, StoreError> {
    tx.query(
        "SELECT c.id, c.kind, c.name, m.handle, coalesce(r.seq, m.joined_seq),
                (SELECT count(*) FROM (SELECT 1 FROM events e WHERE e.conversation_id = c.id AND e.kind = 'message'
                    AND e.seq > coalesce(r.seq, m.joined_seq) AND e.seq <> 0 AND e.author_id <> $1 LIMIT $2) n),
                o.kind, o.member_id, o.handle
         FROM members m
         JOIN conversations c ON c.id = m.conversation_id
         LEFT JOIN read_marks r ON r.account_id = m.member_id AND r.conversation_id = c.id
         LEFT JOIN members o ON c.kind = 'dm' AND o.conversation_id = c.id AND o.member_id <> $1 AND o.left_seq IS NULL
         WHERE m.member_id = $1 AND m.left_seq IS NULL AND c.archived_at IS NULL
         ORDER BY c.id LIMIT $3",
        &[(&account.0).into(), MOST_NEW.into(), limit.into()],
    )?
    .into_iter()
    .map(standing)
    .collect()
}

/// Somebody has read up to here. A mark never goes back.
pub fn mark(
    tx: &mut dyn Tx,
    account: AccountId,
    conversation: ConversationId,
    seq: i64,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO read_marks (account_id, conversation_id, seq) VALUES ($1, $2, $3)
         ON CONFLICT (account_id, conversation_id) DO UPDATE SET seq = $3 WHERE read_marks.seq < $3",
        &[(&account.0).into(), (&conversation.0).into(), seq.into()],
    )?;
    Ok(())
}
