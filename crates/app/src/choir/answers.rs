//! Answers to the open items of stored evidence, through the same doors as evidence.
//!
//! An answer needs the class and the secret that replacing the bundle would need, so that no receipt mixes
//! classes.

use super::evidence::supersedable;
use super::{check_unowned, declared, own, own_to_change};
use chorus_choir::answers::{AnswersError, TakenAnswers, fill};
use chorus_choir::evidence::unknown_names;
use chorus_node::caller::Caller;
use chorus_node::idempotency::{Done, Once};
use chorus_node::{App, AppState, Error};
use chorus_protocol::api::scores::EvidenceView;
use chorus_protocol::canonical;
use chorus_protocol::choir::evidence::Bundle;
use chorus_protocol::choir::receipt::VerificationStatus;
use chorus_protocol::choir::score::Score;
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{EvidenceId, ScoreId, TraceId};
use chorus_protocol::redact;
use chorus_protocol::time::rfc3339;
use chorus_store::Tx;
use chorus_store::choir::{self, AnswersRow, EvidenceRow, ScoreRow};
use serde_json::Value;
use uuid::Uuid;

/// The most records of answers about one bundle.
const MOST_RECORDS: usize = 20;

/// A record of answers to be stored.
pub(super) struct ArrivingAnswers {
    status: VerificationStatus,
    secret: Option<Uuid>,
    taken: TakenAnswers,
    /// The canonical JSON with credentials masked.
    body: String,
    masked: Vec<&'static str>,
    id: EvidenceId,
    trace: TraceId,
    now: i64,
}

impl ArrivingAnswers {
    /// Parses a record. The error names every fault.
    pub(super) fn read(
        app: &App,
        (status, secret): (VerificationStatus, Option<Uuid>),
        value: Value,
    ) -> Result<Self, Error> {
        let sha256 = canonical::hash(&value);
        let (kept, masked) = redact::masked(value);
        let (body, read) = (canonical::text(&kept), TakenAnswers::read(kept)?);
        let taken = TakenAnswers { sha256, ..read };
        let (id, trace) = (EvidenceId(app.environment.uuid_v7()), TraceId(app.environment.uuid_v7()));
        Ok(Self { status, secret, taken, body, masked, id, trace, now: app.now() })
    }

    /// Stores the record, unless it is stored already. The caller must hold the lock of the Score.
    pub(super) fn keep(
        &self,
        tx: &mut dyn Tx,
        score: &ScoreRow,
        declared: &Score,
    ) -> Result<EvidenceView, Error> {
        let bundle = &self.taken.record.bundle_sha256;
        let rows = supersedable(tx, score, (self.status, self.secret), bundle);
        let rows = rows.map_err(|error| {
            let what = error.message.replace("supersedes:", "bundle_sha256:");
            Error::new(error.code, what)
        })?;
        let (mut duplicate, mut warnings) = (true, vec![]);
        for row in &rows {
            let known = choir::answers_of_bundle(tx, score.id, row.status, bundle)?;
            if known.iter().any(|known| known.answers_sha256 == self.taken.sha256) {
                continue;
            }
            if known.len() >= MOST_RECORDS {
                let what = format_args!("a bundle takes {MOST_RECORDS} records of answers; supersede it");
                return Err(Error::new(Code::QuotaExceeded, what));
            }
            check_unowned(score, choir::count_answers(tx, score.id)?)?;
            let filled = self.filled(tx, score.id, row, &known)?;
            warnings = unknown_names(declared, &filled);
            let new = AnswersRow {
                id: self.id,
                status: row.status,
                answers_sha256: self.taken.sha256.clone(),
                bundle_sha256: bundle.clone(),
                received_at: self.now,
                body: self.body.clone(),
            };
            // The record has one id for each class that it counts in.
            let id = if duplicate { self.id } else { EvidenceId(Uuid::from_u128(self.id.0.as_u128() ^ 1)) };
            choir::insert_answers(tx, score.id, &AnswersRow { id, ..new }, self.trace)?;
            duplicate = false;
        }
        Ok(EvidenceView {
            evidence_id: self.id,
            verification_status: self.status,
            bundle_sha256: bundle.clone(),
            answers_sha256: Some(self.taken.sha256.clone()),
            supersedes: None,
            superseded_by: None,
            score_version: score.version,
            events: self.taken.record.answers.len() as i64,
            received_at: rfc3339(self.now),
            duplicate,
            masked: self.masked.iter().copied().map(str::to_owned).collect(),
            warnings,
        })
    }

    /// Returns the bundle with the answers that it has and these.
    fn filled(
        &self,
        tx: &mut dyn Tx,
        score: ScoreId,
        row: &EvidenceRow,
        known: &[AnswersRow],
    ) -> Result<Bundle, Error> {
        let (_, body) = choir::evidence_body(tx, score, row.id)?
            .ok_or_else(|| Error::internal("evidence without its body"))?;
        let mut bundle = Bundle::read(serde_json::from_str(&body).map_err(Error::internal)?)?;
        let known: Vec<_> = known.iter().map(stored).collect::<Result<_, _>>()?;
        let records = known.iter().map(|taken| &taken.record).chain([&self.taken.record]);
        fill(&mut bundle, records).map_err(|error| match error {
            AnswersError::Faults(faults) => faults.into(),
            error @ AnswersError::Contradiction(..) => Error::new(Code::Conflict, error),
        })?;
        Ok(bundle)
    }
}

/// Parses a stored record.
pub(super) fn stored(row: &AnswersRow) -> Result<TakenAnswers, Error> {
    let read = TakenAnswers::read(serde_json::from_str(&row.body).map_err(Error::internal)?)?;
    // The hash is that of the received record; the stored one has credentials masked.
    Ok(TakenAnswers { sha256: row.answers_sha256.clone(), ..read })
}

/// Stores answers that the owner of a Score asserts.
pub(super) async fn assert(
    app: &AppState,
    caller: Caller,
    id: ScoreId,
    value: Value,
    once: Once,
) -> Result<Done<EvidenceView>, Error> {
    let arriving = ArrivingAnswers::read(app, (VerificationStatus::UserAsserted, None), value)?;
    let by = caller.clone();
    let work = move |tx: &mut dyn Tx| {
        let row = own_to_change(tx, &caller, id)?;
        let score = declared(tx, &row)?;
        arriving.keep(tx, &row, &score)
    };
    app.once(once, move |tx| own(tx, &by, id).map(drop), work).await
}

/// Returns the stored open items of a bundle that the owner can answer, and the bundle with all answers.
pub async fn open_bundle(
    app: &App,
    caller: Caller,
    id: &str,
    evidence: &str,
) -> Result<(EvidenceView, Bundle), Error> {
    super::may_have(&caller)?;
    let missing = || Error::not_found("evidence of this Score");
    let (id, evidence) = (super::score_id(id)?, EvidenceId::parse(evidence).ok_or_else(missing)?);
    let find = move |tx: &mut dyn Tx| {
        own(tx, &caller, id)?;
        let (row, body) = choir::evidence_body(tx, id, evidence)?.ok_or_else(missing)?;
        let known = choir::answers_of_bundle(tx, id, row.status, &row.bundle_sha256)?;
        Ok((row, body, known))
    };
    let (row, body, known) = app.store.read::<_, Error, _>(find).await?;
    let mut bundle = Bundle::read(serde_json::from_str(&body).map_err(Error::internal)?)?;
    let known: Vec<_> = known.iter().map(stored).collect::<Result<_, _>>()?;
    fill(&mut bundle, known.iter().map(|taken| &taken.record))
        .map_err(|error| Error::from(Faults::one("answers", error)))?;
    Ok((super::evidence::shown(row), bundle))
}
