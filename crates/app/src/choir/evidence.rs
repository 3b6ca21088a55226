//! Evidence asserted by a Score's owner, and storing evidence of any class.

use super::{MOST_EVIDENCE, check_unowned, declared, own, own_to_change, score_id};
use chorus_choir::Taken;
use chorus_choir::evidence::unknown_names;
use chorus_node::Error;
use chorus_node::caller::Caller;
use chorus_node::idempotency::{Done, Once};
use chorus_node::page::page;
use chorus_node::tasks::blocking::block_in_place_if_large;
use chorus_node::{App, AppState};
use chorus_protocol::api::scores::EvidenceView;
use chorus_protocol::api::{Items, Page};
use chorus_protocol::canonical;
use chorus_protocol::choir::evidence::{AdapterWarning, Bundle};
use chorus_protocol::choir::receipt::VerificationStatus;
use chorus_protocol::choir::score::Score;
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{EvidenceId, TraceId};
use chorus_protocol::redact;
use chorus_protocol::time::rfc3339;
use chorus_store::Tx;
use chorus_store::choir::{self, EvidenceRow, ScoreRow};
use serde_json::Value;
use uuid::Uuid;

/// A bundle to be stored.
pub(super) struct Arriving {
    status: VerificationStatus,
    sha256: String,
    /// The canonical JSON with credentials masked, because receipts publish it. `sha256` is the hash of the
    /// bundle as it was signed.
    body: String,
    bundle: Bundle,
    /// The names in the bundle that the Score does not declare.
    warnings: Vec<AdapterWarning>,
    masked: Vec<&'static str>,
    id: EvidenceId,
    trace: TraceId,
    now: i64,
    /// The secret that signed it.
    secret: Option<Uuid>,
}

impl Arriving {
    /// Parses a bundle. The error names every fault.
    pub(super) fn read(app: &App, status: VerificationStatus, value: Value) -> Result<Self, Error> {
        let size = canonical::text(&value).len();
        let taken = block_in_place_if_large(size, || Taken::read(value.clone()))?;
        // Only the hub itself may submit evidence of its own adapter.
        let by_hub =
            taken.bundle.adapter.as_ref().is_some_and(|one| one.id == chorus_choir::measures::HUB_ADAPTER);
        if by_hub && status != VerificationStatus::HubAttested {
            return Err(Error::validation(
                "adapter.id: chorus.hub.v1 is for what the hub itself saw; it cannot be sent in",
            ));
        }
        let (kept, masked) = block_in_place_if_large(size, || redact::masked(value));
        let body = canonical::text(&kept);
        // A mask may be longer than the credential, so the stored form is parsed again.
        let bundle = if masked.is_empty() { taken.bundle } else { Taken::read(kept)?.bundle };
        Ok(Self {
            status,
            sha256: taken.sha256,
            body,
            bundle,
            warnings: vec![],
            masked,
            id: EvidenceId(app.environment.uuid_v7()),
            trace: TraceId(app.environment.uuid_v7()),
            now: app.now(),
            secret: None,
        })
    }

    /// Notes the secret that signed the bundle.
    pub(super) fn signed_with(self, secret: Uuid) -> Self {
        Self { secret: Some(secret), ..self }
    }

    /// Finds the names in the bundle that the Score does not declare.
    pub(super) fn compare(&mut self, score: &Score) {
        self.warnings = block_in_place_if_large(self.body.len(), || unknown_names(score, &self.bundle));
    }

    /// Stores the bundle, unless it is stored already. The caller must hold the lock of the Score.
    pub(super) fn keep(&self, tx: &mut dyn Tx, score: &ScoreRow) -> Result<EvidenceView, Error> {
        if let Some(mut found) = choir::evidence_by_bundle(tx, score.id, self.status, &self.sha256)? {
            // A bundle that is sent again for a newer version counts for that version. Otherwise `latest`
            // would miss it.
            if found.score_version != score.version {
                choir::renew_evidence(tx, found.id, score.version)?;
                found.score_version = score.version;
            }
            return Ok(self.told(found, true));
        }
        let held = choir::count_evidence(tx, score.id)?;
        if held >= MOST_EVIDENCE {
            let what =
                format_args!("this Score holds {MOST_EVIDENCE} bundles, which is all that one may hold");
            return Err(Error::new(Code::QuotaExceeded, what));
        }
        check_unowned(score, held)?;
        let replaced = match &self.bundle.supersedes {
            Some(sha256) => supersedable(tx, score, (self.status, self.secret), sha256)?,
            None => vec![],
        };
        for row in &replaced {
            choir::supersede_evidence(tx, row.id, &self.sha256)?;
        }
        let new = EvidenceRow {
            id: self.id,
            status: self.status,
            bundle_sha256: self.sha256.clone(),
            score_version: score.version,
            events: self.bundle.events.len() as i64,
            received_at: self.now,
            secret: self.secret,
            supersedes: self.bundle.supersedes.clone(),
            superseded_by: None,
        };
        choir::insert_evidence(tx, score.id, &new, &self.body, self.trace)?;
        Ok(self.told(new, false))
    }

    fn told(&self, row: EvidenceRow, duplicate: bool) -> EvidenceView {
        let masked = self.masked.iter().copied().map(str::to_owned).collect();
        EvidenceView { duplicate, masked, warnings: self.warnings.clone(), ..shown(row) }
    }
}

/// Returns the stored bundles with this hash that evidence of this class and secret may replace or answer:
/// those of the same class or a weaker one, and signed ones only with the same secret, or with any after that one
/// was revoked.
pub(super) fn supersedable(
    tx: &mut dyn Tx,
    score: &ScoreRow,
    (status, secret): (VerificationStatus, Option<Uuid>),
    sha256: &str,
) -> Result<Vec<EvidenceRow>, Error> {
    let fault = |what: String| Error::from(Faults::one("supersedes", what));
    let rows = choir::evidence_of_version(tx, score.id, score.version, sha256)?;
    if rows.is_empty() {
        return Err(fault(format!("this version of the Score has no bundle {sha256}")));
    }
    let in_use: Vec<_> = choir::secrets(tx, score.id)?.into_iter().map(|row| row.id).collect();
    let may = |row: &EvidenceRow| match row.status {
        VerificationStatus::HubAttested => false,
        VerificationStatus::UserAsserted => status >= row.status,
        VerificationStatus::SignatureValid => {
            let held = row.secret.filter(|held| in_use.contains(held));
            status == row.status && held.is_none_or(|held| Some(held) == secret)
        }
    };
    let rows: Vec<_> = rows.into_iter().filter(may).collect();
    if rows.is_empty() {
        let what =
            "that bundle is of a stronger class, or signed with another secret; sign with the same one";
        return Err(fault(what.into()));
    }
    let rows: Vec<_> = rows.into_iter().filter(|row| row.superseded_by.is_none()).collect();
    if rows.is_empty() {
        return Err(fault("that bundle is superseded already; name the bundle that supersedes it".into()));
    }
    Ok(rows)
}

pub(super) fn shown(row: EvidenceRow) -> EvidenceView {
    EvidenceView {
        evidence_id: row.id,
        verification_status: row.status,
        bundle_sha256: row.bundle_sha256,
        answers_sha256: None,
        supersedes: row.supersedes,
        superseded_by: row.superseded_by,
        score_version: row.score_version,
        events: row.events,
        received_at: rfc3339(row.received_at),
        duplicate: false,
        masked: vec![],
        warnings: vec![],
    }
}

/// Returns a page of a Score's evidence, the newest first.
pub async fn list(app: &App, caller: Caller, id: &str, asked: Page) -> Result<Items<EvidenceView>, Error> {
    super::may_have(&caller)?;
    let before = asked.after.as_deref().map(|text| {
        EvidenceId::parse(text).ok_or_else(|| Faults::one("after", "must be `next` of the page before"))
    });
    let (id, before, limit) = (score_id(id)?, before.transpose()?, asked.limit);
    let find = move |tx: &mut dyn Tx| {
        own(tx, &caller, id)?;
        Ok(choir::evidence_page(tx, id, before, limit + 1)?)
    };
    let rows = app.store.read::<_, Error, _>(find).await?.into_iter().map(shown);
    Ok(page(app, rows.collect(), limit, |last: &EvidenceView| last.evidence_id.to_string()))
}

/// Stores a bundle that the owner of a Score asserts.
pub(super) async fn assert(
    app: &AppState,
    caller: Caller,
    id: &str,
    bundle: Value,
    once: Once,
) -> Result<Done<EvidenceView>, Error> {
    let id = score_id(id)?;
    let mut arriving = Arriving::read(app, VerificationStatus::UserAsserted, bundle)?;
    let (by, reader) = (caller.clone(), caller.clone());
    let find = move |tx: &mut dyn Tx| {
        let row = own(tx, &reader, id)?;
        declared(tx, &row)
    };
    arriving.compare(&app.store.read::<_, Error, _>(find).await?);
    let work = move |tx: &mut dyn Tx| {
        let score = own_to_change(tx, &caller, id)?;
        arriving.keep(tx, &score)
    };
    app.once(once, move |tx| own(tx, &by, id).map(drop), work).await
}
