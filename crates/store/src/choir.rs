//! Scores with their versions, secrets and evidence; receipts and comparisons.
//!
//! Acts decide on permissions; here every read and write names its Score. Bodies are canonical JSON, which
//! escapes U+0000, so that both databases can store them. The transparency log is in `log`.

mod evidence;
pub mod log;

pub use evidence::*;

use crate::usage::{self, ROW_BYTES, Refusal, row_bytes};
use crate::{Row, StoreError, Tx, TxExt};
use chorus_protocol::ids::{AccountId, ScoreId, TraceId};
use uuid::Uuid;

/// A Score, without what it declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScoreRow {
    pub id: ScoreId,
    /// Its account; none while it is held by an edit link.
    pub owner: Option<AccountId>,
    /// The end of the address where signed evidence goes.
    pub ingest: String,
    pub title: String,
    pub version: i64,
    pub created_at: i64,
    /// The time of its newest version.
    pub updated_at: i64,
    pub archived_at: Option<i64>,
}

fn score(mut row: Row) -> Result<ScoreRow, StoreError> {
    let owner = row.opt_bytes("owner_id")?.map(|bytes| {
        AccountId::from_slice(&bytes).ok_or_else(|| StoreError::unexpected("an owner is no account"))
    });
    Ok(ScoreRow {
        id: ScoreId(row.uuid("id")?),
        owner: owner.transpose()?,
        ingest: row.text("ingest")?,
        title: row.text("title")?,
        version: row.int("version")?,
        created_at: row.int("created_at")?,
        updated_at: row.int("updated_at")?,
        archived_at: row.opt_int("archived_at")?,
    })
}

/// Makes a Score in its first version.
pub fn insert(
    tx: &mut dyn Tx,
    new: &ScoreRow,
    edit_hash: Option<&[u8]>,
    body: &str,
    trace: TraceId,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO scores (id, owner_id, edit_hash, ingest, title, version, created_at, updated_at, trace_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        &[
            (&new.id).into(),
            new.owner.as_ref().into(),
            edit_hash.into(),
            new.ingest.as_str().into(),
            new.title.as_str().into(),
            new.version.into(),
            new.created_at.into(),
            new.updated_at.into(),
            (&trace).into(),
        ],
    )?;
    insert_version(tx, new.id, new.version, body, new.created_at)
}

fn insert_version(
    tx: &mut dyn Tx,
    id: ScoreId,
    version: i64,
    body: &str,
    now: i64,
) -> Result<(), StoreError> {
    charge(tx, id, row_bytes([body.len()]))?;
    tx.execute(
        "INSERT INTO score_versions (score_id, version, body, created_at) VALUES ($1, $2, $3, $4)",
        &[(&id).into(), version.into(), body.into(), now.into()],
    )?;
    Ok(())
}

pub fn find(tx: &mut dyn Tx, id: ScoreId) -> Result<Option<ScoreRow>, StoreError> {
    let sql = "SELECT id, owner_id, ingest, title, version, created_at, updated_at, archived_at
               FROM scores WHERE id = $1";
    tx.first(sql, &[(&id).into()])?.map(score).transpose()
}

/// The same, while nobody else changes it: writes of one Score come one after the other.
pub fn find_to_change(tx: &mut dyn Tx, id: ScoreId) -> Result<Option<ScoreRow>, StoreError> {
    tx.lock(id.into())?;
    find(tx, id)
}

/// The Score that signed evidence at this address is for.
pub fn by_ingest(tx: &mut dyn Tx, ingest: &str) -> Result<Option<ScoreRow>, StoreError> {
    let sql = "SELECT id, owner_id, ingest, title, version, created_at, updated_at, archived_at
               FROM scores WHERE ingest = $1";
    tx.first(sql, &[ingest.into()])?.map(score).transpose()
}

/// The Score that this edit link holds.
pub fn by_edit_link(tx: &mut dyn Tx, hash: &[u8]) -> Result<Option<ScoreId>, StoreError> {
    let sql = "SELECT id FROM scores WHERE edit_hash = $1";
    tx.first(sql, &[hash.into()])?.map(|mut row| Ok(ScoreId(row.uuid("id")?))).transpose()
}

/// An account's Scores in the order of their ids, after `after`.
pub fn page(
    tx: &mut dyn Tx,
    owner: AccountId,
    after: Option<ScoreId>,
    limit: i64,
) -> Result<Vec<ScoreRow>, StoreError> {
    let after = after.as_ref().map_or([].as_slice(), ScoreId::as_bytes);
    let sql = "SELECT id, owner_id, ingest, title, version, created_at, updated_at, archived_at
               FROM scores WHERE owner_id = $1 AND id > $2 ORDER BY id LIMIT $3";
    tx.query(sql, &[(&owner).into(), after.into(), limit.into()])?.into_iter().map(score).collect()
}

/// Counts the Scores of an account.
pub fn count(tx: &mut dyn Tx, owner: AccountId) -> Result<i64, StoreError> {
    let sql = "SELECT COUNT(*) AS count FROM scores WHERE owner_id = $1";
    tx.first(sql, &[(&owner).into()])?.map_or(Ok(0), |mut row| row.int("count"))
}

/// Returns the declaration of a version.
pub fn body(tx: &mut dyn Tx, id: ScoreId, version: i64) -> Result<Option<String>, StoreError> {
    let sql = "SELECT body FROM score_versions WHERE score_id = $1 AND version = $2";
    tx.first(sql, &[(&id).into(), version.into()])?.map(|mut row| row.text("body")).transpose()
}

/// Makes the next version; the caller holds the Score.
pub fn add_version(
    tx: &mut dyn Tx,
    id: ScoreId,
    version: i64,
    title: &str,
    body: &str,
    now: i64,
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE scores SET version = $2, title = $3, updated_at = $4 WHERE id = $1",
        &[(&id).into(), version.into(), title.into(), now.into()],
    )?;
    insert_version(tx, id, version, body, now)
}

/// Puts a Score away, unless it is already.
pub fn archive(tx: &mut dyn Tx, id: ScoreId, now: i64) -> Result<(), StoreError> {
    let sql = "UPDATE scores SET archived_at = $2 WHERE id = $1 AND archived_at IS NULL";
    tx.execute(sql, &[(&id).into(), now.into()])?;
    Ok(())
}

/// Gives the Score that this edit link holds to an account. The link is dead then. Says whether it was so. The caller holds the
/// Score.
pub fn claim(tx: &mut dyn Tx, id: ScoreId, edit_hash: &[u8], owner: AccountId) -> Result<bool, StoreError> {
    let sql = "UPDATE scores SET owner_id = $3, edit_hash = NULL
               WHERE id = $1 AND edit_hash = $2 AND owner_id IS NULL";
    let is_claimed = tx.execute(sql, &[(&id).into(), edit_hash.into(), (&owner).into()])? == 1;
    if is_claimed {
        // It counts for the account from now on.
        let row = tx.first(
            "SELECT CAST(COALESCE((SELECT SUM(256 + OCTET_LENGTH(body)) FROM score_versions WHERE score_id = $1), 0)
                       + COALESCE((SELECT SUM(256 + OCTET_LENGTH(body)) FROM evidence WHERE score_id = $1), 0)
                       + COALESCE((SELECT SUM(256 + OCTET_LENGTH(body)) FROM evidence_answers WHERE score_id = $1), 0)
                       + COALESCE((SELECT SUM(256 + OCTET_LENGTH(payload)) FROM receipts WHERE score_id = $1), 0) AS BIGINT)
                    AS bytes",
            &[(&id).into()],
        )?;
        charge(tx, id, row.map_or(Ok(0), |mut row| row.int("bytes"))?)?;
    }
    Ok(is_claimed)
}

/// Counts bytes of a Score for the account that owns it. One that nobody owns is bounded by the number of its parts.
fn charge(tx: &mut dyn Tx, score: ScoreId, bytes: i64) -> Result<(), StoreError> {
    let owner = find(tx, score)?.and_then(|score| score.owner);
    owner.map_or(Ok(()), |owner| usage::charge(tx, owner.into(), bytes, Refusal::WhenFull))
}

/// The time an unclaimed Score is kept after its last version.
pub const UNCLAIMED_MS: i64 = 30 * 24 * 60 * 60 * 1000;
/// The number of unclaimed Scores that one step removes. Each has few other rows, because limits are low
/// without an owner.
const UNCLAIMED_STEP: i64 = 20;

/// Removes unclaimed Scores that have not changed for long, with everything that belongs to them. Their
/// receipts stay, because they are public and in the log. Returns whether there may be more.
pub fn remove_unclaimed(tx: &mut dyn Tx, now: i64) -> Result<bool, StoreError> {
    let sql = "SELECT id FROM scores WHERE owner_id IS NULL AND updated_at < $1 ORDER BY updated_at LIMIT $2";
    let old = tx.query(sql, &[(now - UNCLAIMED_MS).into(), UNCLAIMED_STEP.into()])?;
    let more = old.len() as i64 == UNCLAIMED_STEP;
    for mut row in old {
        let id = row.uuid("id")?;
        tx.lock(ScoreId(id).into())?;
        // It may have been claimed, or written in, since it was found.
        let sql = "DELETE FROM scores WHERE id = $1 AND owner_id IS NULL AND updated_at < $2";
        if tx.execute(sql, &[(&id).into(), (now - UNCLAIMED_MS).into()])? == 0 {
            continue;
        }
        for sql in [
            "DELETE FROM score_versions WHERE score_id = $1",
            "DELETE FROM signing_secrets WHERE score_id = $1",
            "DELETE FROM evidence WHERE score_id = $1",
            "DELETE FROM evidence_answers WHERE score_id = $1",
        ] {
            tx.execute(sql, &[(&id).into()])?;
        }
    }
    Ok(more)
}

/// A signing secret, without what makes it secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRow {
    /// The id that the secret is derived from, together with the master key and the Score.
    pub id: Uuid,
    pub prefix: String,
    pub created_at: i64,
}

/// Makes a secret known.
pub fn insert_secret(tx: &mut dyn Tx, score: ScoreId, new: &SecretRow) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO signing_secrets (id, score_id, prefix, created_at) VALUES ($1, $2, $3, $4)",
        &[(&new.id).into(), (&score).into(), new.prefix.as_str().into(), new.created_at.into()],
    )?;
    Ok(())
}

/// The secrets of a Score that are in use; there are few.
pub fn secrets(tx: &mut dyn Tx, score: ScoreId) -> Result<Vec<SecretRow>, StoreError> {
    let sql = "SELECT id, prefix, created_at FROM signing_secrets
               WHERE score_id = $1 AND revoked_at IS NULL ORDER BY created_at, id LIMIT 100";
    let rows = tx.query(sql, &[(&score).into()])?.into_iter();
    rows.map(|mut row| {
        Ok(SecretRow { id: row.uuid("id")?, prefix: row.text("prefix")?, created_at: row.int("created_at")? })
    })
    .collect()
}

/// Ends a secret. Says whether it was in use.
pub fn revoke_secret(tx: &mut dyn Tx, score: ScoreId, prefix: &str, now: i64) -> Result<bool, StoreError> {
    let sql = "UPDATE signing_secrets SET revoked_at = $3 WHERE score_id = $1 AND prefix = $2 AND revoked_at IS NULL";
    Ok(tx.execute(sql, &[(&score).into(), prefix.into(), now.into()])? > 0)
}

/// Ends all secrets of a Score.
pub fn revoke_secrets(tx: &mut dyn Tx, score: ScoreId, now: i64) -> Result<(), StoreError> {
    let sql = "UPDATE signing_secrets SET revoked_at = $2 WHERE score_id = $1 AND revoked_at IS NULL";
    tx.execute(sql, &[(&score).into(), now.into()])?;
    Ok(())
}

/// Ends all secrets of an account's Scores.
pub(crate) fn revoke_secrets_of(tx: &mut dyn Tx, owner: AccountId, now: i64) -> Result<(), StoreError> {
    let sql = "UPDATE signing_secrets SET revoked_at = $2
               WHERE revoked_at IS NULL AND score_id IN (SELECT id FROM scores WHERE owner_id = $1)";
    tx.execute(sql, &[(&owner).into(), now.into()])?;
    Ok(())
}

/// A receipt as it was issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptRow {
    /// Nobody can guess it.
    pub id: String,
    pub score: ScoreId,
    pub generated_at: i64,
    /// The hash of the payload.
    pub payload_hash: String,
    pub payload: String,
    /// The claim that the receipt makes.
    pub label: String,
    /// Its place in the log.
    pub log_index: i64,
    /// The signed statement, as JSON; `None` for a receipt that was issued before envelopes were kept and has not
    /// been read since.
    pub attestation: Option<String>,
    /// The signed test result, as JSON; `None` for a receipt without one.
    pub test_result: Option<String>,
}

pub fn insert_receipt(tx: &mut dyn Tx, new: &ReceiptRow, trace: TraceId) -> Result<(), StoreError> {
    charge(tx, new.score, row_bytes([new.payload.len()]))?;
    tx.execute(
        "INSERT INTO receipts (id, score_id, generated_at, payload_hash, payload, label, log_index, attestation, test_result, trace_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        &[
            new.id.as_str().into(),
            (&new.score).into(),
            new.generated_at.into(),
            new.payload_hash.as_str().into(),
            new.payload.as_str().into(),
            new.label.as_str().into(),
            new.log_index.into(),
            new.attestation.as_deref().into(),
            new.test_result.as_deref().into(),
            (&trace).into(),
        ],
    )?;
    Ok(())
}

pub fn receipt(tx: &mut dyn Tx, id: &str) -> Result<Option<ReceiptRow>, StoreError> {
    let sql = "SELECT id, score_id, generated_at, payload_hash, payload, label, log_index, attestation, test_result FROM receipts WHERE id = $1";
    tx.first(sql, &[id.into()])?.map(receipt_row).transpose()
}

fn receipt_row(mut row: Row) -> Result<ReceiptRow, StoreError> {
    Ok(ReceiptRow {
        id: row.text("id")?,
        score: ScoreId(row.uuid("score_id")?),
        generated_at: row.int("generated_at")?,
        payload_hash: row.text("payload_hash")?,
        payload: row.text("payload")?,
        label: row.text("label")?,
        log_index: row.int("log_index")?,
        attestation: row.opt_text("attestation")?,
        test_result: row.opt_text("test_result")?,
    })
}

/// Keeps the signed statement of a receipt that has none yet.
pub fn keep_attestation(tx: &mut dyn Tx, id: &str, envelope: &str) -> Result<(), StoreError> {
    let sql = "UPDATE receipts SET attestation = $2 WHERE id = $1 AND attestation IS NULL";
    tx.execute(sql, &[id.into(), envelope.into()])?;
    Ok(())
}

/// A Score's receipts, the newest first, before the one at this place in the log.
pub fn receipts_page(
    tx: &mut dyn Tx,
    score: ScoreId,
    before: i64,
    limit: i64,
) -> Result<Vec<ReceiptRow>, StoreError> {
    let sql = "SELECT id, score_id, generated_at, payload_hash, payload, label, log_index, attestation, test_result FROM receipts
               WHERE score_id = $1 AND log_index < $2 ORDER BY log_index DESC LIMIT $3";
    tx.query(sql, &[(&score).into(), before.into(), limit.into()])?.into_iter().map(receipt_row).collect()
}

/// Counts the receipts of a Score.
pub fn count_receipts(tx: &mut dyn Tx, score: ScoreId) -> Result<i64, StoreError> {
    let sql = "SELECT COUNT(*) AS count FROM receipts WHERE score_id = $1";
    tx.first(sql, &[(&score).into()])?.map_or(Ok(0), |mut row| row.int("count"))
}

/// Keeps which two receipts are shown side by side.
pub fn insert_comparison(
    tx: &mut dyn Tx,
    slug: &str,
    before: &str,
    after: &str,
    now: i64,
) -> Result<(), StoreError> {
    if let Some(receipt) = receipt(tx, before)? {
        charge(tx, receipt.score, ROW_BYTES)?;
    }
    tx.execute(
        "INSERT INTO comparisons (slug, before_id, after_id, created_at) VALUES ($1, $2, $3, $4)",
        &[slug.into(), before.into(), after.into(), now.into()],
    )?;
    Ok(())
}

/// Returns the ids of the two receipts of a comparison.
pub fn comparison(tx: &mut dyn Tx, slug: &str) -> Result<Option<(String, String)>, StoreError> {
    let sql = "SELECT before_id, after_id FROM comparisons WHERE slug = $1";
    tx.first(sql, &[slug.into()])?
        .map(|mut row| Ok((row.text("before_id")?, row.text("after_id")?)))
        .transpose()
}
