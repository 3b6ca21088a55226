//! Evidence of Scores, and the answers to its open items.

use super::charge;
use crate::usage::row_bytes;
use crate::{Row, StoreError, Tx, TxExt};
use chorus_protocol::choir::receipt::VerificationStatus;
use chorus_protocol::ids::{EvidenceId, ScoreId, TraceId};
use uuid::Uuid;

/// Evidence that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvidenceRow {
    pub id: EvidenceId,
    /// The verification status of the bundle's origin.
    pub status: VerificationStatus,
    /// The hash of its canonical form.
    pub bundle_sha256: String,
    /// For which version of the Score.
    pub score_version: i64,
    /// The number of events in the bundle.
    pub events: i64,
    pub received_at: i64,
    /// The secret that signed it; `None` if it is asserted, or was signed before secrets were noted.
    pub secret: Option<Uuid>,
    /// The hash of the bundle that it replaces.
    pub supersedes: Option<String>,
    /// The hash of the bundle that replaces it.
    pub superseded_by: Option<String>,
}

fn evidence(mut row: Row) -> Result<EvidenceRow, StoreError> {
    let status = row.text("status")?;
    let status = VerificationStatus::parse(&status)
        .ok_or_else(|| StoreError::unexpected(format!("evidence is {status}")))?;
    Ok(EvidenceRow {
        id: EvidenceId(row.uuid("id")?),
        status,
        bundle_sha256: row.text("bundle_sha256")?,
        score_version: row.int("score_version")?,
        events: row.int("events")?,
        received_at: row.int("received_at")?,
        secret: row.opt_bytes("secret_id")?.and_then(|bytes| Uuid::from_slice(&bytes).ok()),
        supersedes: row.opt_text("supersedes")?,
        superseded_by: row.opt_text("superseded_by")?,
    })
}

/// The evidence of this class with this hash.
pub fn evidence_by_bundle(
    tx: &mut dyn Tx,
    score: ScoreId,
    status: VerificationStatus,
    sha256: &str,
) -> Result<Option<EvidenceRow>, StoreError> {
    let sql = "SELECT id, status, bundle_sha256, score_version, events, received_at, secret_id, supersedes, superseded_by FROM evidence
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
    charge(tx, score, row_bytes([body.len()]))?;
    tx.execute(
        "INSERT INTO evidence (id, score_id, status, bundle_sha256, score_version, events, body, received_at, secret_id, supersedes, trace_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        &[
            (&new.id).into(),
            (&score).into(),
            new.status.as_str().into(),
            new.bundle_sha256.as_str().into(),
            new.score_version.into(),
            new.events.into(),
            body.into(),
            new.received_at.into(),
            new.secret.as_ref().into(),
            new.supersedes.as_deref().into(),
            (&trace).into(),
        ],
    )?;
    Ok(())
}

/// Counts the bundles of a Score.
pub fn count_evidence(tx: &mut dyn Tx, score: ScoreId) -> Result<i64, StoreError> {
    let sql = "SELECT COUNT(*) AS count FROM evidence WHERE score_id = $1";
    tx.first(sql, &[(&score).into()])?.map_or(Ok(0), |mut row| row.int("count"))
}

/// A Score's evidence, the newest first, before `before`. (An id is made when evidence comes in, and sorts by time.)
pub fn evidence_page(
    tx: &mut dyn Tx,
    score: ScoreId,
    before: Option<EvidenceId>,
    limit: i64,
) -> Result<Vec<EvidenceRow>, StoreError> {
    let before = before.map_or(Uuid::max(), |id| id.0);
    let sql = "SELECT id, status, bundle_sha256, score_version, events, received_at, secret_id, supersedes, superseded_by FROM evidence
               WHERE score_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3";
    tx.query(sql, &[(&score).into(), (&before).into(), limit.into()])?.into_iter().map(evidence).collect()
}

/// Hashes and bodies of all evidence of one class for one version that nothing replaces, by hash.
pub fn bodies_of_version(
    tx: &mut dyn Tx,
    score: ScoreId,
    version: i64,
    status: VerificationStatus,
    limit: i64,
) -> Result<Vec<(String, String)>, StoreError> {
    let sql = "SELECT bundle_sha256, body FROM evidence
               WHERE score_id = $1 AND score_version = $2 AND status = $3 AND superseded_by IS NULL
               ORDER BY bundle_sha256 LIMIT $4";
    let params = [(&score).into(), version.into(), status.as_str().into(), limit.into()];
    tx.query(sql, &params)?
        .into_iter()
        .map(|mut row| Ok((row.text("bundle_sha256")?, row.text("body")?)))
        .collect()
}

/// All evidence of one version with this hash; at most one of each class.
pub fn evidence_of_version(
    tx: &mut dyn Tx,
    score: ScoreId,
    version: i64,
    sha256: &str,
) -> Result<Vec<EvidenceRow>, StoreError> {
    let sql = "SELECT id, status, bundle_sha256, score_version, events, received_at, secret_id, supersedes, superseded_by FROM evidence
               WHERE score_id = $1 AND score_version = $2 AND bundle_sha256 = $3 ORDER BY status LIMIT 10";
    let params = [(&score).into(), version.into(), sha256.into()];
    tx.query(sql, &params)?.into_iter().map(evidence).collect()
}

/// All evidence of one version, by hash, up to a limit.
pub fn all_of_version(
    tx: &mut dyn Tx,
    score: ScoreId,
    version: i64,
    limit: i64,
) -> Result<Vec<EvidenceRow>, StoreError> {
    let sql = "SELECT id, status, bundle_sha256, score_version, events, received_at, secret_id, supersedes, superseded_by FROM evidence
               WHERE score_id = $1 AND score_version = $2 ORDER BY bundle_sha256, status LIMIT $3";
    let params = [(&score).into(), version.into(), limit.into()];
    tx.query(sql, &params)?.into_iter().map(evidence).collect()
}

/// Notes that a bundle is replaced by another; the caller holds the Score.
pub fn supersede_evidence(tx: &mut dyn Tx, id: EvidenceId, by: &str) -> Result<(), StoreError> {
    tx.execute("UPDATE evidence SET superseded_by = $2 WHERE id = $1", &[(&id).into(), by.into()])?;
    Ok(())
}

/// One piece of evidence of a Score, and its body.
pub fn evidence_body(
    tx: &mut dyn Tx,
    score: ScoreId,
    id: EvidenceId,
) -> Result<Option<(EvidenceRow, String)>, StoreError> {
    let sql = "SELECT id, status, bundle_sha256, score_version, events, received_at, secret_id, supersedes, superseded_by, body
               FROM evidence WHERE score_id = $1 AND id = $2";
    let found = tx.first(sql, &[(&score).into(), (&id).into()])?;
    found.map(|mut row| row.text("body").and_then(|body| Ok((evidence(row)?, body)))).transpose()
}

/// A record of answers to the open items of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswersRow {
    /// The id of the record, which sorts by time.
    pub id: EvidenceId,
    pub status: VerificationStatus,
    /// The hash of its canonical form, as received.
    pub answers_sha256: String,
    pub bundle_sha256: String,
    pub received_at: i64,
    /// Canonical JSON.
    pub body: String,
}

/// Keeps a record of answers; the caller holds the Score and has looked whether it is there.
pub fn insert_answers(
    tx: &mut dyn Tx,
    score: ScoreId,
    new: &AnswersRow,
    trace: TraceId,
) -> Result<(), StoreError> {
    charge(tx, score, row_bytes([new.body.len()]))?;
    tx.execute(
        "INSERT INTO evidence_answers (id, score_id, status, answers_sha256, bundle_sha256, body, received_at, trace_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        &[
            (&new.id).into(),
            (&score).into(),
            new.status.as_str().into(),
            new.answers_sha256.as_str().into(),
            new.bundle_sha256.as_str().into(),
            new.body.as_str().into(),
            new.received_at.into(),
            (&trace).into(),
        ],
    )?;
    Ok(())
}

/// The records of answers about a bundle of one class, in the order in which they came.
pub fn answers_of_bundle(
    tx: &mut dyn Tx,
    score: ScoreId,
    status: VerificationStatus,
    bundle: &str,
) -> Result<Vec<AnswersRow>, StoreError> {
    let sql = "SELECT id, status, answers_sha256, bundle_sha256, received_at, body FROM evidence_answers
               WHERE score_id = $1 AND status = $2 AND bundle_sha256 = $3 ORDER BY id LIMIT 500";
    let params = [(&score).into(), status.as_str().into(), bundle.into()];
    let answers = |mut row: Row| {
        let status = row.text("status")?;
        let status = VerificationStatus::parse(&status)
            .ok_or_else(|| StoreError::unexpected(format!("an answer is {status}")))?;
        Ok(AnswersRow {
            id: EvidenceId(row.uuid("id")?),
            status,
            answers_sha256: row.text("answers_sha256")?,
            bundle_sha256: row.text("bundle_sha256")?,
            received_at: row.int("received_at")?,
            body: row.text("body")?,
        })
    };
    tx.query(sql, &params)?.into_iter().map(answers).collect()
}

/// Counts the records of answers of a Score.
pub fn count_answers(tx: &mut dyn Tx, score: ScoreId) -> Result<i64, StoreError> {
    let sql = "SELECT COUNT(*) AS count FROM evidence_answers WHERE score_id = $1";
    tx.first(sql, &[(&score).into()])?.map_or(Ok(0), |mut row| row.int("count"))
}
