//! Requests that may come twice: the first answer is kept and given again.
//!
//! One table for all of them. An entry is found by a hash of who asked and under which key, and bound to a hash of
//! what was asked: the same key with other content is a conflict, never a second act. Work that outlives one
//! transaction is `in_progress` meanwhile, under a lease that ends with its node. Nothing is kept longer than needed:
//! keys expire, and of an answer that holds what somebody else said only the rest is kept after a while.

use crate::clock::MAX_SKEW_MS;
use crate::{StoreError, Tx, TxExt};
use sha2::{Digest, Sha256};

/// The longest reservation, but for those of a hub whose webhooks may take longer.
const MAX_LEASE_MS: i64 = 31 * 60 * 1000;
/// How often a key is asked for that others forget at the same time.
const MAX_TRIES: u32 = 10;

/// A request under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Who asked, and under which key.
    id: [u8; 32],
    /// What was asked.
    request: [u8; 32],
    /// When the key is forgotten; never, if absent.
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
    /// HTTP status.
    pub status: u16,
    /// JSON.
    pub body: String,
    /// What is left of it after a time, if not all.
    pub shorter: Option<Shorter>,
}

/// An answer that was cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shorter {
    /// From when on.
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

/// What is known of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// Nothing: go on.
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
    let row = tx.first(
        "SELECT request, status, answer, shorter_from, shorter FROM idempotency WHERE id = $1",
        &[id.into()],
    )?;
    let Some(mut row) = row else { return Ok(None) };
    let (found, status, body) = (row.bytes(0)?, row.opt_int(1)?, row.opt_text(2)?);
    let shorter = row.opt_int(3)?.zip(row.opt_text(4)?).map(|(from, body)| Shorter { from, body });
    Ok(Some(match status.zip(body) {
        _ if found != request => Known::Conflict,
        None => Known::InProgress,
        Some((status, body)) => Known::Answered(match shorter {
            Some(shorter) if shorter.from <= now => Answer::new(status as u16, shorter.body),
            shorter => Answer { status: status as u16, body, shorter },
        }),
    }))
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
