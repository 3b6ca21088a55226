//! Evidence that a Score's owner asserts, and keeping evidence of any class.

use super::{MOST_EVIDENCE, count, declared, own, own_to_change, score_id};
use crate::app::{App, AppState};
use crate::caller::Caller;
use crate::error::Error;
use crate::long_work;
use crate::once::{Done, Once};
use crate::page::page;
use chorus_choir::Taken;
use chorus_choir::evidence::unknown_names;
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
use std::sync::Arc;

/// A bundle on its way into the store.
pub(super) struct Arriving {
    status: VerificationStatus,
    sha256: String,
    /// Canonical, without credentials: receipts publish it. What was signed is what was hashed.
    body: String,
    bundle: Bundle,
    /// What it names that the Score does not have.
    warnings: Vec<AdapterWarning>,
    masked: Vec<&'static str>,
    id: EvidenceId,
    trace: TraceId,
    now: i64,
}

impl Arriving {
    /// Reads a bundle, or says everything that is wrong with it.
    pub(super) fn read(app: &App, status: VerificationStatus, value: Value) -> Result<Self, Error> {
        let size = canonical::text(&value).len();
        let taken = long_work(size, || Taken::read(value.clone()))?;
        // What only the hub can have seen, nobody else can say it saw.
        let by_hub =
            taken.bundle.adapter.as_ref().is_some_and(|one| one.id == chorus_choir::measures::HUB_ADAPTER);
        if by_hub && status != VerificationStatus::HubAttested {
            return Err(Error::validation(
                "adapter.id: chorus.hub.v1 is for what the hub itself saw; it cannot be sent in",
            ));
        }
        let (kept, masked) = long_work(size, || redact::masked(value));
        let body = canonical::text(&kept);
        // A mask may be longer than what it hides, and what is kept must be read again.
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
        })
    }

    /// Looks for what it names that the Score does not have.
    pub(super) fn compare(&mut self, score: &Score) {
        self.warnings = long_work(self.body.len(), || unknown_names(score, &self.bundle));
    }

    /// Keeps it, once for the same bundle. The caller holds the Score.
    pub(super) fn keep(&self, app: &App, tx: &mut dyn Tx, score: &ScoreRow) -> Result<EvidenceView, Error> {
        if let Some(mut found) = choir::evidence_by_bundle(tx, score.id, self.status, &self.sha256)? {
            // What is said again of a newer version counts for that one, too: `latest` would pass it over.
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
        count(app, tx, score, self.body.len(), held)?;
        let new = EvidenceRow {
            id: self.id,
            status: self.status,
            bundle_sha256: self.sha256.clone(),
            score_version: score.version,
            events: self.bundle.events.len() as i64,
            received_at: self.now,
        };
        choir::insert_evidence(tx, score.id, &new, &self.body, self.trace)?;
        Ok(self.told(new, false))
    }

    fn told(&self, row: EvidenceRow, duplicate: bool) -> EvidenceView {
        let masked = self.masked.iter().copied().map(str::to_owned).collect();
        EvidenceView { duplicate, masked, warnings: self.warnings.clone(), ..shown(row) }
    }
}

fn shown(row: EvidenceRow) -> EvidenceView {
    EvidenceView {
        evidence_id: row.id,
        verification_status: row.status,
        bundle_sha256: row.bundle_sha256,
        score_version: row.score_version,
        events: row.events,
        received_at: rfc3339(row.received_at),
        duplicate: false,
        masked: vec![],
        warnings: vec![],
    }
}

/// A Score's evidence, the newest first.
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

/// Takes what an owner says happened.
pub async fn assert(
    app: &AppState,
    caller: Caller,
    id: &str,
    bundle: Value,
    once: Once,
) -> Result<Done<EvidenceView>, Error> {
    super::may_have(&caller)?;
    let id = score_id(id)?;
    let mut arriving = Arriving::read(app, VerificationStatus::UserAsserted, bundle)?;
    let (hub, by, reader) = (Arc::clone(app), caller.clone(), caller.clone());
    let find = move |tx: &mut dyn Tx| {
        let row = own(tx, &reader, id)?;
        declared(tx, &row)
    };
    arriving.compare(&app.store.read::<_, Error, _>(find).await?);
    let work = move |tx: &mut dyn Tx| {
        let score = own_to_change(tx, &caller, id)?;
        arriving.keep(&hub, tx, &score)
    };
    app.once(once, move |tx| own(tx, &by, id).map(drop), work).await
}
