//! Requests that may come twice: the first answer is kept and given again.
//!
//! One table for all of them. An entry is found by a hash of who asked and under which key, and bound to a hash of
//! what was asked: the same key with other content is a conflict, never a second act. Work that outlives one
//! transaction is `in_progress` meanwhile, under a lease that ends with its node. Nothing is kept longer than needed:
//! keys expire, and of an answer that holds what somebody else said only the rest is kept after a while.

use crate::clock::MAX_SKEW_MS;
use crate::{Row, StoreError, Tx, TxExt};
use sha2::{Digest, Sha256};

/// The longest reservation, but for those of a hub whose webhooks may take longer.
const MAX_LEASE_MS: i64 = 31 * 60 * 1000;
/// The number of tries for a key that other transactions remove at the same time.
const MAX_TRIES: u32 = 10;

/// A request under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// A hash of the caller and its key.
    id: [u8; 32],
    request: [u8; 32],
    /// The time the key is forgotten; `None` for never.
    expires_at: Option<i64>,
}

impl Key {
    /// `scope` tells one kind of key from another; `parts` say who asked and under which key.
    pub fn new(scope: &str, parts: &[&[u8]], request: &[u8], expires_at: Option<i64>) -> Self {
        let mut id = Sha256::new_with_prefix(scope);
        for part in parts {
            // Lengths keep ("ab", "c") apart from ("a", "bc").
            id.update((part.len() as u64).to_be_bytes());
            id.update(part);
        }
        Self { id: id.finalize().into(), request: Sha256::digest(request).into(), expires_at }
    }
}

/// An answer as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// JSON.
    pub body: String,
    /// The shorter response that replaces it after a time.
    pub shorter: Option<Shorter>,
}

/// An answer that was cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shorter {
    pub from: i64,
    /// JSON.
    pub body: String,
}

impl Answer {
    /// One that is kept as long as its key.
    pub fn new(status: u16, body: String) -> Self {
        Self { status, body, shorter: None }
    }
}

/// The state of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    New,
    /// This was asked before, and this was the answer.
    Answered(Answer),
    /// The first one is still being worked on.
    InProgress,
    /// The key was used for something else.
    Conflict,
}

/// Reserves `key` for this request until `lease_until`, or says what is known of it already. One that lasts longer
/// than any was made before the clock was set back, and is over.
///
/// The insert is the lock: of two transactions with the same key the second waits here for the first to end.
pub fn reserve(tx: &mut dyn Tx, key: &Key, now: i64, lease_until: i64) -> Result<Known, StoreError> {
    for _ in 0..MAX_TRIES {
        if let Some(known) = try_reserve(tx, key, now, lease_until)? {
            return Ok(known);
        }
    }
    Err(StoreError::unexpected("an idempotency key kept vanishing"))
}

/// Nothing, if somebody forgot the key between two statements of this.
fn try_reserve(tx: &mut dyn Tx, key: &Key, now: i64, lease_until: i64) -> Result<Option<Known>, StoreError> {
    let (id, request) = (key.id.as_slice(), key.request.as_slice());
    let ahead = lease_until.max(now.saturating_add(MAX_LEASE_MS)).saturating_add(MAX_SKEW_MS);
    let reserved = tx.execute(
        "INSERT INTO idempotency (id, request, state, lease_until, expires_at) VALUES ($1, $2, 'in_progress', $3, $4)
         ON CONFLICT (id) DO NOTHING",
        &[id.into(), request.into(), lease_until.into(), key.expires_at.into()],
    )? == 1
        || tx.execute(
            "UPDATE idempotency SET request = $2, state = 'in_progress', status = NULL, answer = NULL,
                    shorter = NULL, shorter_from = NULL, lease_until = $3, expires_at = $4
             WHERE id = $1 AND
                 (expires_at <= $5 OR (state = 'in_progress' AND (lease_until <= $5 OR lease_until > $6)))",
            &[
                id.into(),
                request.into(),
                lease_until.into(),
                key.expires_at.into(),
                now.into(),
                ahead.into(),
            ],
        )? == 1;
    if reserved {
        return Ok(Some(Known::New));
    }
    let row = tx.first(SELECT, &[id.into()])?;
    row.map(|row| known(key, row, now)).transpose()
}

const SELECT: &str =
    "SELECT request, status, answer, shorter_from, shorter, expires_at FROM idempotency WHERE id = $1";

fn known(key: &Key, mut row: Row, now: i64) -> Result<Known, StoreError> {
    let (found, status, body) = (row.bytes("request")?, row.opt_int("status")?, row.opt_text("answer")?);
    let shorter =
        row.opt_int("shorter_from")?.zip(row.opt_text("shorter")?).map(|(from, body)| Shorter { from, body });
    Ok(match status.zip(body) {
        _ if found != key.request => Known::Conflict,
        None => Known::InProgress,
        Some((status, body)) => Known::Answered(match shorter {
            Some(shorter) if shorter.from <= now => Answer::new(status as u16, shorter.body),
            shorter => Answer { status: status as u16, body, shorter },
        }),
    })
}

/// Returns what is known of a key, without reserving it. A key that has expired is new.
pub fn find(tx: &mut dyn Tx, key: &Key, now: i64) -> Result<Known, StoreError> {
    let Some(mut row) = tx.first(SELECT, &[key.id.as_slice().into()])? else { return Ok(Known::New) };
    match row.opt_int("expires_at")? {
        Some(expires_at) if expires_at <= now => Ok(Known::New),
        _ => known(key, row, now),
    }
}

/// Keeps the answer to a key, if it is still reserved until `lease_until`: who came later has reserved it anew.
pub fn answer(tx: &mut dyn Tx, key: &Key, lease_until: i64, answer: &Answer) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE idempotency SET state = 'done', status = $3, answer = $4, shorter_from = $5, shorter = $6, lease_until = NULL
         WHERE id = $1 AND lease_until = $2",
        &[
            key.id.as_slice().into(),
            lease_until.into(),
            i64::from(answer.status).into(),
            answer.body.as_str().into(),
            answer.shorter.as_ref().map(|shorter| shorter.from).into(),
            answer.shorter.as_ref().map(|shorter| shorter.body.as_str()).into(),
        ],
    )?;
    Ok(())
}

/// Forgets a key, if it is still reserved until `lease_until`, so that the same request is a new attempt.
pub fn forget(tx: &mut dyn Tx, key: &Key, lease_until: i64) -> Result<(), StoreError> {
    tx.execute(
        "DELETE FROM idempotency WHERE id = $1 AND lease_until = $2",
        &[key.id.as_slice().into(), lease_until.into()],
    )?;
    Ok(())
}

/// A reconciler: forgets a bounded number of keys that have expired.
pub fn remove_expired(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<u64, StoreError> {
    // The time again, because on PostgreSQL the same key may have been reserved anew meanwhile.
    tx.execute(
        "DELETE FROM idempotency WHERE expires_at <= $1 AND id IN
             (SELECT id FROM idempotency WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)",
        &[now.into(), limit.into()],
    )
}

/// A reconciler: cuts a bounded number of answers whose time has come.
pub fn shorten(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<u64, StoreError> {
    tx.execute(
        "UPDATE idempotency SET answer = shorter, shorter = NULL, shorter_from = NULL
         WHERE shorter_from <= $1 AND id IN
             (SELECT id FROM idempotency WHERE shorter_from <= $1 ORDER BY shorter_from LIMIT $2)",
        &[now.into(), limit.into()],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_into_each_other() {
        let one = Key::new("s", &[b"ab", b"c"], b"", None);
        let other = Key::new("s", &[b"a", b"bc"], b"", None);
        assert_ne!(one.id, other.id);
    }
}
