//! Sessions of MCP clients: whose each is, in which conversation, and what it subscribed to.
//!
//! A session is looked up with its owner and its conversation, so another's id is as unknown as one that never was. It lasts
//! until it is ended, until nobody has used it for a day, or until its owner has opened so many, there or in all, that
//! the oldest goes.
//! It holds nothing else, so a restart changes nothing.

use crate::{StoreError, Tx, TxExt};
use chorus_protocol::ids::{ConversationId, Principal};
use uuid::Uuid;

/// The most sessions of one owner in one conversation.
pub const MAX_SESSIONS: i64 = 16;
/// The most sessions of one owner in all.
pub const MAX_OF_OWNER: i64 = 256;
/// The most documents that one session is subscribed to.
pub const MAX_SUBSCRIPTIONS: usize = 100;
/// The lifetime of an unused session.
pub const LIFE_MS: i64 = 24 * 60 * 60 * 1000;
/// A use is written down only when the last one that was is so long ago.
const USE_MS: i64 = 60 * 60 * 1000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The slugs of documents.
    pub subscribed: Vec<String>,
    /// The last recorded use.
    pub last_used_at: i64,
}

impl Session {
    /// Returns whether its use must be recorded now. Also true after the clock was set back.
    pub fn must_touch(&self, now: i64) -> bool {
        (now - self.last_used_at).abs() >= USE_MS
    }
}

/// The owner and conversation of sessions.
pub type Place = (Principal, ConversationId);

/// The session of this id, unless it is over.
pub fn get(
    tx: &mut dyn Tx,
    (owner, conversation): Place,
    id: Uuid,
    now: i64,
) -> Result<Option<Session>, StoreError> {
    let found = tx.first(
        "SELECT subscribed, last_used_at FROM mcp_sessions
         WHERE id = $1 AND owner_kind = $2 AND owner_id = $3 AND conversation_id = $4 AND last_used_at > $5",
        &[
            (&id).into(),
            owner.kind().as_str().into(),
            (&owner.uuid()).into(),
            (&conversation).into(),
            (now - LIFE_MS).into(),
        ],
    )?;
    let Some(mut row) = found else { return Ok(None) };
    let subscribed = serde_json::from_str(&row.text("subscribed")?).map_err(StoreError::unexpected)?;
    Ok(Some(Session { subscribed, last_used_at: row.int("last_used_at")? }))
}

/// Opens one; the oldest go if there are too many.
pub fn begin(tx: &mut dyn Tx, (owner, conversation): Place, id: Uuid, now: i64) -> Result<(), StoreError> {
    // Two that are opened at the same time follow one another, so that one of them is older.
    tx.lock(owner.into())?;
    let newest = tx.first(
        "SELECT MAX(created_at) AS newest_at FROM mcp_sessions WHERE owner_id = $1 AND conversation_id = $2",
        &[(&owner.uuid()).into(), (&conversation).into()],
    )?;
    let newest = newest.map(|mut row| row.opt_int("newest_at")).transpose()?.flatten();
    let created_at = newest.map_or(now, |newest| now.max(newest + 1));
    tx.execute(
        "INSERT INTO mcp_sessions (id, owner_kind, owner_id, conversation_id, created_at, last_used_at, subscribed)
         VALUES ($1, $2, $3, $4, $5, $6, '[]')",
        &[
            (&id).into(),
            owner.kind().as_str().into(),
            (&owner.uuid()).into(),
            (&conversation).into(),
            created_at.into(),
            now.into(),
        ],
    )?;
    tx.execute(
        "DELETE FROM mcp_sessions WHERE id IN
             (SELECT id FROM mcp_sessions WHERE owner_id = $1 AND conversation_id = $2
              ORDER BY created_at DESC LIMIT 1000 OFFSET $3)",
        &[(&owner.uuid()).into(), (&conversation).into(), MAX_SESSIONS.into()],
    )?;
    tx.execute(
        "DELETE FROM mcp_sessions WHERE id IN
             (SELECT id FROM mcp_sessions WHERE owner_id = $1 AND id <> $2
              ORDER BY created_at DESC LIMIT 1000 OFFSET $3)",
        &[(&owner.uuid()).into(), (&id).into(), (MAX_OF_OWNER - 1).into()],
    )?;
    Ok(())
}

pub fn end(tx: &mut dyn Tx, (owner, conversation): Place, id: Uuid) -> Result<(), StoreError> {
    tx.execute(
        "DELETE FROM mcp_sessions WHERE id = $1 AND owner_kind = $2 AND owner_id = $3 AND conversation_id = $4",
        &[(&id).into(), owner.kind().as_str().into(), (&owner.uuid()).into(), (&conversation).into()],
    )?;
    Ok(())
}

/// It is used now.
pub fn touch(tx: &mut dyn Tx, id: Uuid, now: i64) -> Result<(), StoreError> {
    tx.execute("UPDATE mcp_sessions SET last_used_at = $2 WHERE id = $1", &[(&id).into(), now.into()])?;
    Ok(())
}

/// Subscribes a session to a document, or takes that back; whether there was room. One that is over has room for everything.
pub fn subscribe(
    tx: &mut dyn Tx,
    place: Place,
    id: Uuid,
    slug: &str,
    wanted: bool,
    now: i64,
) -> Result<bool, StoreError> {
    // Of two that change a session at the same time one waits.
    tx.lock(place.0.into())?;
    let Some(Session { mut subscribed, .. }) = get(tx, place, id, now)? else { return Ok(true) };
    subscribed.retain(|known| known != slug);
    if wanted {
        if subscribed.len() >= MAX_SUBSCRIPTIONS {
            return Ok(false);
        }
        subscribed.push(slug.to_owned());
    }
    let list = serde_json::to_string(&subscribed).map_err(StoreError::unexpected)?;
    tx.execute(
        "UPDATE mcp_sessions SET subscribed = $2, last_used_at = $3 WHERE id = $1",
        &[(&id).into(), list.as_str().into(), now.into()],
    )?;
    Ok(true)
}

/// Removes up to `limit` that nobody used for too long; how many went.
pub fn remove_unused(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM mcp_sessions WHERE id IN
             (SELECT id FROM mcp_sessions WHERE last_used_at <= $1 ORDER BY last_used_at LIMIT $2)",
        &[(now - LIFE_MS).into(), limit.into()],
    )
}
