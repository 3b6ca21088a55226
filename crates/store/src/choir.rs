//! Scores with their versions, secrets and evidence; receipts and comparisons.
//!
//! Who may do what is the acts' business; here every read and write names its Score. Bodies are canonical JSON, which
//! escapes U+0000, so that both databases hold them. The transparency log is in `log`.

pub mod log;

use crate::{Row, StoreError, Tx, TxExt};
use chorus_protocol::choir::receipt::VerificationStatus;
use chorus_protocol::ids::{AccountId, EvidenceId, ScoreId, TraceId};
use uuid::Uuid;

/// A Score, without what it declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScoreRow {
    /// Its id.
    pub id: ScoreId,
    /// Its account; none while it is held by an edit link.
    pub owner: Option<AccountId>,
    /// The end of the address where signed evidence goes.
    pub ingest: String,
    /// What people call it.
    pub title: String,
    /// Its newest version.
    pub version: i64,
    /// When it was made.
    pub created_at: i64,
    /// When its newest version was made.
    pub updated_at: i64,
    /// When it was put away.
    pub archived_at: Option<i64>,
}

fn score(mut row: Row) -> Result<ScoreRow, StoreError> {
    let owner = row.opt_bytes(1)?.map(|bytes| {
        AccountId::from_slice(&bytes).ok_or_else(|| StoreError::unexpected("an owner is no account"))
    });
    Ok(ScoreRow {
        id: ScoreId(row.uuid(0)?),
        owner: owner.transpose()?,
        ingest: row.text(2)?,
        title: row.text(3)?,
        version: row.int(4)?,
        created_at: row.int(5)?,
        updated_at: row.int(6)?,
        archived_at: row.opt_int(7)?,
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
    tx.execute(
        "INSERT INTO score_versions (score_id, version, body, created_at) VALUES ($1, $2, $3, $4)",
        &[(&id).into(), version.into(), body.into(), now.into()],
    )?;
    Ok(())
}

/// A Score.
pub fn find(tx: &mut dyn Tx, id: ScoreId) -> Result<Option<ScoreRow>, StoreError> {
    let sql = "SELECT id, owner_id, ingest, title, version, created_at, updated_at, archived_at
               FROM scores WHERE id = $1";
    tx.first(sql, &[(&id).into()])?.map(score).transpose()
}

/// The same, while nobody else changes it: writes of one Score come one after the other.
pub fn find_to_change(tx: &mut dyn Tx, id: ScoreId) -> Result<Option<ScoreRow>, StoreError> {
    tx.lock(id.0)?;
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
    tx.first(sql, &[hash.into()])?.map(|mut row| Ok(ScoreId(row.uuid(0)?))).transpose()
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

/// How many Scores an account has.
pub fn count(tx: &mut dyn Tx, owner: AccountId) -> Result<i64, StoreError> {
    let sql = "SELECT COUNT(*) FROM scores WHERE owner_id = $1";
    tx.first(sql, &[(&owner).into()])?.map_or(Ok(0), |mut row| row.int(0))
}

/// What a version declares.
pub fn body(tx: &mut dyn Tx, id: ScoreId, version: i64) -> Result<Option<String>, StoreError> {
    let sql = "SELECT body FROM score_versions WHERE score_id = $1 AND version = $2";
    tx.first(sql, &[(&id).into(), version.into()])?.map(|mut row| row.text(0)).transpose()
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
    Ok(tx.execute(sql, &[(&id).into(), edit_hash.into(), (&owner).into()])? == 1)
}

/// How long a Score that nobody claims is kept after its last version.
pub const UNCLAIMED_MS: i64 = 30 * 24 * 60 * 60 * 1000;
/// How many of them one step removes; each has little beside it, because nobody answers for it.
const UNCLAIMED_STEP: i64 = 20;

/// A reconciler: removes Scores that are held by an edit link and were not changed for long, with all that belongs to them.
/// Their receipts stay: they are public, and in the log. Whether there may be more.
pub fn remove_unclaimed(tx: &mut dyn Tx, now: i64) -> Result<bool, StoreError> {
    let sql = "SELECT id FROM scores WHERE owner_id IS NULL AND updated_at < $1 ORDER BY updated_at LIMIT $2";
    let old = tx.query(sql, &[(now - UNCLAIMED_MS).into(), UNCLAIMED_STEP.into()])?;
    let more = old.len() as i64 == UNCLAIMED_STEP;
    for mut row in old {
        let id = row.uuid(0)?;
        tx.lock(id)?;
        // It may have been claimed, or written in, since it was found.
        let sql = "DELETE FROM scores WHERE id = $1 AND owner_id IS NULL AND updated_at < $2";
        if tx.execute(sql, &[(&id).into(), (now - UNCLAIMED_MS).into()])? == 0 {
            continue;
        }
        for sql in [
            "DELETE FROM score_versions WHERE score_id = $1",
            "DELETE FROM signing_secrets WHERE score_id = $1",
            "DELETE FROM evidence WHERE score_id = $1",
        ] {
            tx.execute(sql, &[(&id).into()])?;
        }
    }
    Ok(more)
}

/// A signing secret, without what makes it secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRow {
    /// What it is derived from, with the master key and the Score.
    pub id: Uuid,
    /// Its public beginning.
    pub prefix: String,
    /// When it was made.
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
    rows.map(|mut row| Ok(SecretRow { id: row.uuid(0)?, prefix: row.text(1)?, created_at: row.int(2)? }))
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

/// Evidence that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvidenceRow {
    /// Its id.
    pub id: EvidenceId,
    /// What is known of where it comes from.
    pub status: VerificationStatus,
    /// The hash of its canonical form.
    pub bundle_sha256: String,
    /// For which version of the Score.
    pub score_version: i64,
    /// How many events it has.
    pub events: i64,
    /// When it came in.
    pub received_at: i64,
}

fn evidence(mut row: Row) -> Result<EvidenceRow, StoreError> {
    let status = row.text(1)?;
    let status = VerificationStatus::parse(&status)
        .ok_or_else(|| StoreError::unexpected(format!("evidence is {status}")))?;
    Ok(EvidenceRow {
        id: EvidenceId(row.uuid(0)?),
        status,
        bundle_sha256: row.text(2)?,
        score_version: row.int(3)?,
        events: row.int(4)?,
        received_at: row.int(5)?,
    })
}

/// The evidence of this class with this hash.
pub fn evidence_by_bundle(
    tx: &mut dyn Tx,
    score: ScoreId,
    status: VerificationStatus,
    sha256: &str,
) -> Result<Option<EvidenceRow>, StoreError> {
    let sql = "SELECT id, status, bundle_sha256, score_version, events, received_at FROM evidence
               WHERE score_id = $1 AND status = $2 AND bundle_sha256 = $3";
    let params = [(&score).into(), status.as_str().into(), sha256.into()];
    tx.first(sql, &params)?.map(evidence).transpose()
}

/// Counts evidence for another version of its Score.
pub fn renew_evidence(tx: &mut dyn Tx, id: EvidenceId, version: i64) -> Result<(), StoreError> {
    tx.execute("UPDATE evidence SET score_version = $2 WHERE id = $1", &[(&id).into(), version.into()])?;
    Ok(())
}

/// Keeps evidence; the caller holds the Score and has looked whether it is there.
pub fn insert_evidence(
    tx: &mut dyn Tx,
    score: ScoreId,
    new: &EvidenceRow,
    body: &str,
    trace: TraceId,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO evidence (id, score_id, status, bundle_sha256, score_version, events, body, received_at, trace_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        &[
            (&new.id).into(),
            (&score).into(),
            new.status.as_str().into(),
            new.bundle_sha256.as_str().into(),
            new.score_version.into(),
            new.events.into(),
            body.into(),
            new.received_at.into(),
            (&trace).into(),
        ],
    )?;
    Ok(())
}

/// How many bundles a Score has.
pub fn count_evidence(tx: &mut dyn Tx, score: ScoreId) -> Result<i64, StoreError> {
    let sql = "SELECT COUNT(*) FROM evidence WHERE score_id = $1";
    tx.first(sql, &[(&score).into()])?.map_or(Ok(0), |mut row| row.int(0))
}

/// A Score's evidence, the newest first, before `before`. (An id is made when evidence comes in, and sorts by time.)
pub fn evidence_page(
    tx: &mut dyn Tx,
    score: ScoreId,
    before: Option<EvidenceId>,
    limit: i64,
) -> Result<Vec<EvidenceRow>, StoreError> {
    let before = before.map_or(Uuid::max(), |id| id.0);
    let sql = "SELECT id, status, bundle_sha256, score_version, events, received_at FROM evidence
               WHERE score_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3";
    tx.query(sql, &[(&score).into(), (&before).into(), limit.into()])?.into_iter().map(evidence).collect()
}

/// Hashes and bodies of all evidence of one class for one version, by hash.
pub fn bodies_of_version(
    tx: &mut dyn Tx,
    score: ScoreId,
    version: i64,
    status: VerificationStatus,
    limit: i64,
) -> Result<Vec<(String, String)>, StoreError> {
    let sql =
        "SELECT bundle_sha256, body FROM evidence WHERE score_id = $1 AND score_version = $2 AND status = $3
               ORDER BY bundle_sha256 LIMIT $4";
    let params = [(&score).into(), version.into(), status.as_str().into(), limit.into()];
    tx.query(sql, &params)?.into_iter().map(|mut row| Ok((row.text(0)?, row.text(1)?))).collect()
}

/// One piece of evidence of a Score, and its body.
pub fn evidence_body(
    tx: &mut dyn Tx,
    score: ScoreId,
    id: EvidenceId,
) -> Result<Option<(EvidenceRow, String)>, StoreError> {
    let sql = "SELECT id, status, bundle_sha256, score_version, events, received_at, body
               FROM evidence WHERE score_id = $1 AND id = $2";
    let found = tx.first(sql, &[(&score).into(), (&id).into()])?;
    found.map(|mut row| row.text(6).and_then(|body| Ok((evidence(row)?, body)))).transpose()
}

/// A receipt as it was issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptRow {
    /// Nobody can guess it.
    pub id: String,
    /// Of which Score.
    pub score: ScoreId,
    /// When.
    pub generated_at: i64,
    /// The hash of the payload.
    pub payload_hash: String,
    /// What was hashed.
    pub payload: String,
    /// What it claims to be.
    pub label: String,
    /// Its place in the log.
    pub log_index: i64,
}

/// Keeps a receipt.
pub fn insert_receipt(tx: &mut dyn Tx, new: &ReceiptRow, trace: TraceId) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO receipts (id, score_id, generated_at, payload_hash, payload, label, log_index, trace_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        &[
            new.id.as_str().into(),
            (&new.score).into(),
            new.generated_at.into(),
            new.payload_hash.as_str().into(),
            new.payload.as_str().into(),
            new.label.as_str().into(),
            new.log_index.into(),
            (&trace).into(),
        ],
    )?;
    Ok(())
}

/// A receipt.
pub fn receipt(tx: &mut dyn Tx, id: &str) -> Result<Option<ReceiptRow>, StoreError> {
    let sql = "SELECT id, score_id, generated_at, payload_hash, payload, label, log_index FROM receipts WHERE id = $1";
    tx.first(sql, &[id.into()])?.map(receipt_row).transpose()
}

fn receipt_row(mut row: Row) -> Result<ReceiptRow, StoreError> {
    Ok(ReceiptRow {
        id: row.text(0)?,
        score: ScoreId(row.uuid(1)?),
        generated_at: row.int(2)?,
        payload_hash: row.text(3)?,
        payload: row.text(4)?,
        label: row.text(5)?,
        log_index: row.int(6)?,
    })
}

/// A Score's receipts, the newest first, before the one at this place in the log.
pub fn receipts_page(
    tx: &mut dyn Tx,
    score: ScoreId,
    before: i64,
    limit: i64,
) -> Result<Vec<ReceiptRow>, StoreError> {
    let sql = "SELECT id, score_id, generated_at, payload_hash, payload, label, log_index FROM receipts
               WHERE score_id = $1 AND log_index < $2 ORDER BY log_index DESC LIMIT $3";
    tx.query(sql, &[(&score).into(), before.into(), limit.into()])?.into_iter().map(receipt_row).collect()
}

/// How many receipts a Score has.
pub fn count_receipts(tx: &mut dyn Tx, score: ScoreId) -> Result<i64, StoreError> {
    let sql = "SELECT COUNT(*) FROM receipts WHERE score_id = $1";
    tx.first(sql, &[(&score).into()])?.map_or(Ok(0), |mut row| row.int(0))
}

/// Keeps which two receipts are shown side by side.
pub fn insert_comparison(
    tx: &mut dyn Tx,
    slug: &str,
    before: &str,
    after: &str,
    now: i64,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO comparisons (slug, before_id, after_id, created_at) VALUES ($1, $2, $3, $4)",
        &[slug.into(), before.into(), after.into(), now.into()],
    )?;
    Ok(())
}

/// Which two receipts are shown side by side.
pub fn comparison(tx: &mut dyn Tx, slug: &str) -> Result<Option<(String, String)>, StoreError> {
    let sql = "SELECT before_id, after_id FROM comparisons WHERE slug = $1";
    tx.first(sql, &[slug.into()])?.map(|mut row| Ok((row.text(0)?, row.text(1)?))).transpose()
}
