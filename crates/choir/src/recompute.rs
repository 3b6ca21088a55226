//! Recomputation of a receipt from its own content.
//!
//! A receipt of this engine's rules is computed again from its Score and events, and must come out the same. Of
//! a receipt of other rules only the arithmetic can be checked: dimensions from base and adjustments, the risk
//! from its terms, and the label from the class of the evidence.

use crate::evidence::Taken;
use crate::evidence_set::Evidence;
use crate::rehearse::{label, moved};
use crate::{names, read_score, rehearse, rules};
use chorus_protocol::choir::evidence::{Bundle, Held};
use chorus_protocol::choir::receipt::{EvidenceSection, Payload, Verdict};
use serde_json::{Value, json};

/// The depth to which a verdict could be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerdictCheck {
    /// The engine computed the receipt again from its Score and events.
    Recomputed,
    /// The receipt was made by other rules: only its sums were checked.
    OtherRules,
}

/// Checks that the numbers and the verdict of a payload follow from its content. The error names the member that
/// does not.
pub(crate) fn check(value: &Value) -> Result<VerdictCheck, String> {
    let payload: Payload = serde_json::from_value(value.clone())
        .map_err(|error| format!("the payload cannot be read: {error}"))?;
    sums(&payload)?;
    if payload.rules_digest != rules::digest() {
        return Ok(VerdictCheck::OtherRules);
    }
    let again = again(value, &payload)?;
    let differs = |name: &&&str| again[**name] != value[**name];
    match MEMBERS.iter().find(differs) {
        None => Ok(VerdictCheck::Recomputed),
        Some(name) => Err(format!("{name} does not follow from the receipt's own Score and events")),
    }
}

/// The members that follow from the Score and the events.
const MEMBERS: [&str; 16] = [
    "label",
    "structural",
    "evidence",
    "results",
    "voices",
    "dissonance",
    "adjustments",
    "dimensions",
    "mismatches",
    "dominant_voice_warnings",
    "coverage_gaps",
    "open_items",
    "false_harmony",
    "verdict",
    "verdict_reasons",
    "retune",
];

/// Checks what holds under any rules.
fn sums(payload: &Payload) -> Result<(), String> {
    let wrong = |name: &str| Err(format!("{name} does not follow from the rest of the receipt"));
    let status = payload.evidence.as_ref().map(|evidence| evidence.verification_status);
    if payload.label != label(status) {
        return wrong("label");
    }
    if moved(&payload.structural.base_dimensions, &payload.adjustments) != payload.dimensions {
        return wrong("dimensions");
    }
    let harmony = &payload.false_harmony;
    let terms = harmony.terms.iter().try_fold(0_i64, |sum, term| sum.checked_add(term.points));
    let risk = harmony.base.checked_add(harmony.concealed).map(|risk| risk.min(rules::MAX_RISK));
    if terms != Some(harmony.concealed) || risk != Some(harmony.risk) {
        return wrong("false_harmony");
    }
    if payload.mismatches.is_empty() == (payload.verdict == Verdict::NotReady) {
        return wrong("verdict");
    }
    Ok(())
}

/// Rehearses the Score and events of a receipt again. The parts that the events alone do not give (warnings of
/// adapters, titles of expectations, references of answers) are taken from the receipt.
fn again(value: &Value, payload: &Payload) -> Result<Value, String> {
    let mut score = value["score"].clone();
    score["protocol_version"] = value["protocol_version"].clone();
    score["scenarios"] = value["scenarios"].clone();
    for scenario in score["scenarios"].as_array_mut().into_iter().flatten() {
        let expects = payload.evidence.iter().flat_map(|evidence| &evidence.expectations);
        let own = expects.filter(|one| scenario["id"] == one.scenario_id);
        let own: Vec<_> = own.map(|one| json!({"id": one.id, "title": one.title})).collect();
        scenario["expects"] = if own.is_empty() { Value::Null } else { json!(own) };
    }
    let score = read_score(score).map_err(|faults| format!("its Score is not valid: {faults}"))?;
    let evidence = payload.evidence.as_ref().map(evidence).transpose()?;
    let again = rehearse(&score, evidence.as_ref()).map_err(|error| error.to_string())?;
    let mut again = json!(again);
    if let (Some(own), Some(section)) = (again["evidence"].as_object_mut(), value["evidence"].as_object()) {
        for name in ["adapter_warnings", "answers", "expectations", "superseded"] {
            own.insert(name.into(), section.get(name).cloned().unwrap_or_default());
        }
        let given = section.get("events").and_then(Value::as_array);
        let events = own.get_mut("events").and_then(Value::as_array_mut);
        for (event, given) in events.into_iter().flatten().zip(given.into_iter().flatten()) {
            if let (Some(answered), Some(event)) = (given.get("answered"), event.as_object_mut()) {
                event.insert("answered".into(), answered.clone());
            }
        }
    }
    Ok(again)
}

/// Builds the bundles of a receipt from its events.
fn evidence(section: &EvidenceSection) -> Result<Evidence, String> {
    let mut first = 0;
    let mut bundles = vec![];
    for (number, reference) in section.bundles.iter().enumerate() {
        let own = section.events.iter().filter(|event| !event.derived && event.bundle == Some(number));
        let mut events: Vec<_> = own.map(|event| event.event.clone()).collect();
        for event in &mut events {
            event.refers_to = event.refers_to.and_then(|target| target.checked_sub(first));
        }
        let warnings = section.adapter_warnings.iter().filter(|one| one.bundle == Some(number));
        let own_expectations = section.expectations.iter().filter(|one| {
            reference.scenario_id.as_deref().is_some_and(|id| names::same(id, &one.scenario_id))
        });
        let held = own_expectations.map(|one| Held { id: one.id.clone(), held: one.held });
        first += events.len() as i64;
        let bundle = Bundle {
            run_id: reference.run_id.clone(),
            complete: reference.complete,
            scenario_id: reference.scenario_id.clone(),
            events,
            adapter_warnings: warnings.map(|one| one.warning.clone()).collect(),
            expectations: Some(held.collect()),
            absent: Some(reference.absent.clone()),
            present: Some(reference.present.clone()),
            supersedes: reference.supersedes.clone(),
            trace_url: reference.trace_url.clone(),
            ..Bundle::new(reference.adapter.clone())
        };
        bundles.push(Taken { sha256: reference.bundle_sha256.clone(), bundle });
    }
    let placed = section.events.iter().filter(|event| !event.derived).count();
    if placed as i64 != first {
        return Err("some of its events belong to no bundle".into());
    }
    Ok(Evidence { hub: section.hub.clone(), ..Evidence::new(section.verification_status, bundles) })
}
