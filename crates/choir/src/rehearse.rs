//! A rehearsal: from a Score and what was observed to the payload of a receipt.
//!
//! The same Score, scenarios and evidence give the same payload, byte for byte: no id, no time and no owner is in it.

use crate::evidence::{Evidence, MAX_BUNDLES, MAX_EVENTS, Normalised, Taken, normalise};
use crate::judge::{self, Grounds};
use crate::observe::facts;
use crate::rules;
use crate::structure::structure;
use crate::{derive, measures, names};
use chorus_protocol::canonical;
use chorus_protocol::choir::receipt::{
    BundleReference, Dimensions, EvidenceSection, Payload, Receipt, ReceiptLabel, ScenarioSnapshot,
    ScoreSnapshot, VerificationStatus,
};
use chorus_protocol::choir::score::{Scenario, Score};
use chorus_protocol::faults::Faults;
use serde_json::Value;

/// What a receipt does not prove.
pub const DISCLAIMER: &str = "A Choir Receipt does not prove the system is safe. It does not certify the agents. It does not \
    predict every failure mode in production. It is pre-deployment evidence of how the ensemble behaved under defined scenarios: \
    an assurance aid, not a guarantee.";

/// Reads a Score, or says everything that is wrong with it.
pub fn read_score(value: Value) -> Result<Score, Faults> {
    let score = Score::read(value)?;
    names::check(&score)?;
    Ok(score)
}

/// Why there is no receipt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RehearsalError {
    /// More bundles than one receipt takes.
    #[error("a receipt takes at most {MAX_BUNDLES} bundles, not {0}")]
    TooManyBundles(usize),
    /// More events than one receipt takes.
    #[error("a receipt takes at most {MAX_EVENTS} events, not {0}")]
    TooManyEvents(usize),
}

/// What is known of where evidence comes from, in words.
pub fn statement(status: VerificationStatus, origin: Option<&str>) -> String {
    match status {
        VerificationStatus::UserAsserted => "User-asserted: the owner of the Score says that this happened. It was validated and \
            normalised, and not independently verified."
            .into(),
        VerificationStatus::SignatureValid => "Signature valid. What this proves: payload integrity at submission time and \
            possession of the Score's signing secret. What it does not prove: that the underlying agent run occurred as \
            described, that the agents are safe, or anything about the model weights."
            .into(),
        VerificationStatus::HubAttested => format!(
            "The run was carried by a hub and is attested by {}. What this proves: what this hub saw and when it was \
            committed. What it does not prove: that its operator is honest, that the agents are safe, or anything about the model weights.",
            origin.unwrap_or("that hub")
        ),
    }
}

fn label(evidence: Option<&Evidence>) -> ReceiptLabel {
    match evidence.map(|evidence| evidence.status) {
        None => ReceiptLabel::Draft,
        Some(VerificationStatus::UserAsserted) => ReceiptLabel::Observed,
        Some(VerificationStatus::SignatureValid | VerificationStatus::HubAttested) => ReceiptLabel::Verified,
    }
}

/// Rehearses a Score that [`read_score`] gave. Evidence without a bundle is none.
pub fn rehearse(score: &Score, evidence: Option<&Evidence>) -> Result<Payload, RehearsalError> {
    let evidence = evidence.filter(|evidence| !evidence.bundles.is_empty());
    let mut bundles: Vec<Taken> = evidence.map(|evidence| evidence.bundles.clone()).unwrap_or_default();
    bundles.sort_by(|one, other| one.sha256.cmp(&other.sha256));
    bundles.dedup_by(|one, other| one.sha256 == other.sha256);
    if bundles.len() > MAX_BUNDLES {
        return Err(RehearsalError::TooManyBundles(bundles.len()));
    }
    let events: usize = bundles.iter().map(|taken| taken.bundle.events.len()).sum();
    if events > MAX_EVENTS {
        return Err(RehearsalError::TooManyEvents(events));
    }

    let structural = structure(score);
    let mut all = normalise(score, &bundles);
    derive::derive(score, &bundles, &mut all);
    let facts = facts(score, &all.events);
    let adjustments = facts.adjustments();
    let dimensions = Dimensions::each(|dimension| {
        let own = adjustments.iter().filter(|record| record.dimension == dimension);
        let moved: i64 = own.map(|record| record.delta).sum();
        (structural.base_dimensions.get(dimension) + moved).clamp(0, 100)
    });
    let dissonance = measures::dissonance(score, &facts, &all.bundle_of);
    let mismatches = judge::mismatches(&facts);
    let false_harmony = judge::false_harmony(&dimensions, &facts);
    let open_items = measures::open_items(score, &facts, &bundles);
    let grounds = Grounds {
        dimensions: &dimensions,
        risk: false_harmony.risk,
        findings: &structural.findings,
        adjustments: &adjustments,
        mismatches: &mismatches,
        open_items: &open_items,
    };
    let ((verdict, verdict_reasons), retune) = (judge::verdict(&grounds), judge::retune(&grounds));
    Ok(Payload {
        protocol_version: score.protocol_version.as_str().into(),
        engine_version: rules::ENGINE_VERSION.into(),
        rules_digest: rules::digest().into(),
        label: label(evidence),
        score: snapshot(score),
        scenarios: score.scenarios.iter().map(scenario_snapshot).collect(),
        voices: measures::voices(score, &all.events, &structural.findings, &dissonance.masking),
        dominant_voice_warnings: measures::dominant(score, &all.events),
        coverage_gaps: measures::coverage_gaps(score, &all.events, &bundles),
        evidence: evidence.map(|evidence| section(evidence, &bundles, all.clone_events())),
        structural,
        dissonance,
        adjustments,
        dimensions,
        mismatches,
        open_items,
        false_harmony,
        verdict,
        verdict_reasons,
        retune,
        disclaimer: DISCLAIMER.into(),
    })
}

impl Normalised {
    fn clone_events(&self) -> Self {
        Self { events: self.events.clone(), bundle_of: vec![], warnings: self.warnings.clone() }
    }
}

fn section(evidence: &Evidence, bundles: &[Taken], all: Normalised) -> EvidenceSection {
    let origin = evidence.hub.as_ref().and_then(|hub| hub["origin"].as_str());
    EvidenceSection {
        verification_status: evidence.status,
        bundles: bundles
            .iter()
            .map(|taken| BundleReference {
                bundle_sha256: taken.sha256.clone(),
                adapter: taken.bundle.adapter.clone(),
                run_id: taken.bundle.run_id.clone(),
                complete: taken.bundle.complete,
            })
            .collect(),
        events: all.events,
        adapter_warnings: all.warnings,
        statement: statement(evidence.status, origin),
        hub: evidence.hub.clone(),
    }
}

fn snapshot(score: &Score) -> ScoreSnapshot {
    let pairs = score.conflicting_mandates.iter();
    ScoreSnapshot {
        title: score.title.0.clone(),
        version: score.version,
        voices: score.voices.clone(),
        conflicting_mandates: pairs.map(|pair| pair.iter().map(|name| name.0.clone()).collect()).collect(),
        arbitration: score.arbitration.clone(),
    }
}

fn scenario_snapshot(scenario: &Scenario) -> ScenarioSnapshot {
    ScenarioSnapshot {
        scenario: Scenario { stage: None, expects: None, ..scenario.clone() },
        stage_sha256: scenario.stage.as_ref().map(canonical::hash),
        expects_sha256: scenario.expects.as_ref().map(|expects| canonical::hash(&serde_json::json!(expects))),
    }
}

/// A receipt that nobody has issued yet: without id and time.
pub fn receipt(payload: &Payload) -> Receipt {
    let payload = serde_json::json!(payload);
    Receipt {
        receipt_id: None,
        generated_at: None,
        payload_hash: canonical::hash(&payload),
        payload,
        log: None,
        attestation: None,
    }
}
