//! Rehearsals: from a Score and its evidence to the payload of a receipt.
//!
//! The same Score, scenarios and evidence give the same payload, byte for byte, because it holds no id, no
//! time and no owner.

use crate::answers::{AnswersError, fill_all};
use crate::coverage::coverage_gaps;
use crate::evidence::{MAX_BUNDLES, MAX_EVENTS, Normalised, Taken, normalise, standing};
use crate::evidence_set::Evidence;
use crate::judge::{self, Grounds};
use crate::observe::{facts, is_cap};
use crate::open_items::open_items;
use crate::rules;
use crate::structure::structure;
use crate::{derive, measures, names};
use chorus_protocol::canonical;
use chorus_protocol::choir::receipt::{
    Adjustment, AnswersReference, BundleReference, Dimensions, EvidenceSection, ExpectationReport, LeftOut,
    LeftOutBundle, LeftOutReason, Payload, Receipt, ReceiptLabel, ScenarioSnapshot, ScoreSnapshot,
    VerificationStatus,
};
use chorus_protocol::choir::score::{Scenario, Score};
use chorus_protocol::faults::Faults;
use serde_json::Value;

/// The statement of what a receipt does not prove.
pub const DISCLAIMER: &str = "A Choir Receipt does not prove the system is safe. It does not certify the agents. It does not \
    predict every failure mode in production. It is pre-deployment evidence of how the ensemble behaved under defined scenarios: \
    an assurance aid, not a guarantee.";

/// The most bundles that a receipt lists as left out.
pub const MAX_LEFT_OUT: usize = 20;

/// Reads a Score, or returns all faults.
pub fn read_score(value: Value) -> Result<Score, Faults> {
    let score = Score::read(value)?;
    names::check(&score)?;
    Ok(score)
}

/// The reasons why there is no receipt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RehearsalError {
    /// The evidence has too many bundles.
    #[error("a receipt takes at most {MAX_BUNDLES} bundles, not {0}")]
    TooManyBundles(usize),
    /// The evidence has too many events.
    #[error("a receipt takes at most {MAX_EVENTS} events, not {0}")]
    TooManyEvents(usize),
    /// Answers do not fit their bundle.
    #[error(transparent)]
    Answers(#[from] AnswersError),
}

/// Returns the statement of what evidence of a class proves.
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

pub(crate) fn label(status: Option<VerificationStatus>) -> ReceiptLabel {
    match status {
        None => ReceiptLabel::Draft,
        Some(VerificationStatus::UserAsserted) => ReceiptLabel::Observed,
        Some(VerificationStatus::SignatureValid | VerificationStatus::HubAttested) => ReceiptLabel::Verified,
    }
}

/// The evidence of a rehearsal after superseding and answers.
#[derive(Default)]
struct Prepared {
    bundles: Vec<Taken>,
    superseded: Vec<String>,
    /// For each record of answers: its hash, its bundle, and the events in the bundle that it filled in.
    filled: Vec<(String, usize, Vec<usize>)>,
    left_out: LeftOut,
}

fn prepare(evidence: &Evidence) -> Result<Prepared, RehearsalError> {
    let (mut bundles, mut superseded) = standing(&evidence.bundles);
    if bundles.len() > MAX_BUNDLES {
        return Err(RehearsalError::TooManyBundles(bundles.len()));
    }
    let events: usize = bundles.iter().map(|taken| taken.bundle.events.len()).sum();
    if events > MAX_EVENTS {
        return Err(RehearsalError::TooManyEvents(events));
    }
    let filled = fill_all(&mut bundles, &evidence.answers)?;
    let gone = superseded.iter().map(|sha256| LeftOutBundle {
        bundle_sha256: sha256.clone(),
        verification_status: evidence.status,
        why: LeftOutReason::Superseded,
    });
    let left_out =
        LeftOut { count: superseded.len(), bundles: gone.take(MAX_LEFT_OUT).collect(), rehearsals: 0 };
    superseded.extend(evidence.superseded.iter().cloned());
    superseded.sort();
    superseded.dedup();
    Ok(Prepared { bundles, superseded, filled, left_out })
}

/// Rehearses a Score that [`read_score`] returned. Evidence without a bundle counts as absent. Bundles that
/// another one supersedes do not count and are listed as left out.
pub fn rehearse(score: &Score, evidence: Option<&Evidence>) -> Result<Payload, RehearsalError> {
    let evidence = evidence.filter(|evidence| !evidence.bundles.is_empty());
    let prepared = evidence.map(prepare).transpose()?.unwrap_or_default();
    let (bundles, status) = (&prepared.bundles, evidence.map(|evidence| evidence.status));

    let structural = structure(score);
    let mut all = normalise(score, bundles);
    mark_answered(&mut all, &prepared.filled);
    derive::derive(score, status.unwrap_or(VerificationStatus::UserAsserted), bundles, &mut all);
    let facts = facts(score, &all.events);
    let adjustments = facts.adjustments();
    let dimensions = moved(&structural.base_dimensions, &adjustments);
    let dissonance = measures::dissonance(score, &facts, &all.bundle_of);
    let mismatches = judge::mismatches(&facts);
    let false_harmony = judge::false_harmony(&dimensions, &facts);
    let open_items = open_items(score, &facts, bundles, &all);
    let coverage_gaps = coverage_gaps(score, &all, bundles);
    let grounds = Grounds {
        dimensions: &dimensions,
        risk: false_harmony.risk,
        findings: &structural.findings,
        adjustments: &adjustments,
        mismatches: &mismatches,
        open_items: &open_items,
        coverage_gaps: &coverage_gaps,
        is_draft: evidence.is_none(),
    };
    let ((verdict, verdict_reasons), retune) = (judge::verdict(&grounds), judge::retune(&grounds));
    let ids: Vec<_> = score.scenarios.iter().map(|scenario| scenario.id.0.clone()).collect();
    let results = judge::results(&ids, &all.events, &grounds);
    let costs = adjustments.iter().filter(|record| record.delta < 0 && !is_cap(record));
    let observed = costs.map(|record| (&*record.rule_id, &*record.source_event_indices));
    let headlines = mismatches.iter().map(|one| (&*one.id, &*one.source_event_indices));
    let observed: Vec<_> = observed.chain(headlines).collect();
    Ok(Payload {
        protocol_version: score.protocol_version.as_str().into(),
        engine_version: rules::ENGINE_VERSION.into(),
        rules_digest: rules::digest().into(),
        label: label(status),
        score: snapshot(score),
        scenarios: score.scenarios.iter().map(scenario_snapshot).collect(),
        voices: measures::voices(score, &all.events, &structural.findings, &dissonance.masking, &observed),
        dominant_voice_warnings: measures::dominant(score, &all.events),
        evidence: evidence.map(|evidence| section(score, evidence, &prepared, &all)),
        left_out: Some(prepared.left_out.clone()),
        results,
        coverage_gaps,
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

/// Returns the dimensions after all adjustments.
pub(crate) fn moved(base: &Dimensions, adjustments: &[Adjustment]) -> Dimensions {
    Dimensions::each(|dimension| {
        let own = adjustments.iter().filter(|record| record.dimension == dimension);
        let moved: i64 = own.map(|record| record.delta).sum();
        base.get(dimension).saturating_add(moved).clamp(0, 100)
    })
}

/// Marks the events that answers filled in.
fn mark_answered(all: &mut Normalised, filled: &[(String, usize, Vec<usize>)]) {
    for (_, bundle, events) in filled {
        let first = all.bundle_of.iter().position(|of| of == bundle).unwrap_or_default();
        for event in events {
            all.events[first + event].answered = true;
        }
    }
}

fn section(score: &Score, evidence: &Evidence, prepared: &Prepared, all: &Normalised) -> EvidenceSection {
    let origin = evidence.hub.as_ref().and_then(|hub| hub["origin"].as_str());
    let reference = |taken: &Taken| BundleReference {
        bundle_sha256: taken.sha256.clone(),
        adapter: taken.bundle.adapter.clone(),
        run_id: taken.bundle.run_id.clone(),
        complete: taken.bundle.complete,
        scenario_id: taken.bundle.scenario_id.clone(),
        absent: taken.bundle.absent.clone().unwrap_or_default(),
        present: taken.bundle.present.clone().unwrap_or_default(),
        supersedes: taken.bundle.supersedes.clone(),
        trace_url: taken.bundle.trace_url.clone(),
    };
    let answers = prepared.filled.iter().map(|(sha256, bundle, events)| {
        let first = all.bundle_of.iter().position(|of| of == bundle).unwrap_or_default();
        AnswersReference {
            answers_sha256: sha256.clone(),
            bundle_sha256: prepared.bundles[*bundle].sha256.clone(),
            events: events.iter().map(|event| first + event).collect(),
        }
    });
    EvidenceSection {
        verification_status: evidence.status,
        bundles: prepared.bundles.iter().map(reference).collect(),
        superseded: prepared.superseded.clone(),
        answers: answers.collect(),
        events: all.events.clone(),
        expectations: expectations(score, &prepared.bundles),
        adapter_warnings: all.warnings.clone(),
        statement: statement(evidence.status, origin),
        hub: evidence.hub.clone(),
    }
}

/// Returns the outcome of every expectation of the scenarios that the bundles name. If bundles differ, a
/// broken one counts before a kept one.
fn expectations(score: &Score, bundles: &[Taken]) -> Vec<ExpectationReport> {
    let mut found = vec![];
    for scenario in &score.scenarios {
        let about = |taken: &&Taken| {
            let bundle = &taken.bundle;
            let named = bundle.scenario_id.iter().chain(bundle.events.iter().flat_map(|e| &e.scenario_id));
            named.into_iter().any(|id| names::same(id, &scenario.id))
        };
        let about: Vec<_> = bundles.iter().filter(about).collect();
        for expected in scenario.expects.iter().flatten().filter(|_| !about.is_empty()) {
            let Some(id) = expected["id"].as_str() else { continue };
            let said = about.iter().flat_map(|taken| taken.bundle.expectations.iter().flatten());
            let held: Vec<_> = said.filter(|one| one.id == id).filter_map(|one| one.held).collect();
            found.push(ExpectationReport {
                scenario_id: scenario.id.0.clone(),
                id: id.to_owned(),
                title: expected["title"].as_str().map(str::to_owned),
                held: held.iter().min().copied(),
            });
        }
    }
    found
}

fn snapshot(score: &Score) -> ScoreSnapshot {
    let pairs = score.conflicting_mandates.iter();
    ScoreSnapshot {
        title: score.title.0.clone(),
        version: score.version,
        voices: score.voices.clone(),
        conflicting_mandates: pairs.map(|pair| pair.iter().map(|name| name.0.clone()).collect()).collect(),
        arbitration: score.arbitration.clone(),
        waivers: score.waivers.clone(),
    }
}

fn scenario_snapshot(scenario: &Scenario) -> ScenarioSnapshot {
    ScenarioSnapshot {
        scenario: Scenario { stage: None, expects: None, ..scenario.clone() },
        stage_sha256: scenario.stage.as_ref().map(canonical::hash),
        expects_sha256: scenario.expects.as_ref().map(|expects| canonical::hash(&serde_json::json!(expects))),
    }
}

/// Builds a receipt that is not issued yet: without id and time.
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
