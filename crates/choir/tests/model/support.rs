//! Scores and bundles to test with.

use chorus_choir::{Evidence, Taken, read_score, rehearse};
use chorus_protocol::choir::receipt::{Dimensions, Payload, VerificationStatus};
use chorus_protocol::choir::score::Score;
use serde_json::{Value, json};

/// What an event of a bundle may say of itself.
pub(crate) const KINDS: [&str; 16] = [
    "tool_call",
    "evidence_cited",
    "warning",
    "dissent",
    "escalation",
    "handoff",
    "voice_entry",
    "final_output",
    "missed_entry",
    "wrong_note",
    "ignored_warning",
    "suppressed_dissent",
    "authority_breach",
    "unsupported_claim",
    "missed_escalation",
    "dropped_handoff",
];

/// A Score without any finding: three voices, a high-severity scenario and a low one.
pub(crate) fn disciplined() -> Value {
    let voice = |name: &str, more: Value| {
        let mut voice = json!({
            "name": name,
            "role": format!("does what {name} does"),
            "authority": {
                "limits": ["nothing above 100 EUR"],
                "allowed_actions": ["look_up", "draft"],
                "forbidden_actions": ["refund"],
            },
            "escalation_triggers": [{"id": format!("{name}-stuck"), "condition": "stuck", "to": "human:desk"}],
            "evidence_requirement": "required",
            "may_dissent": true,
            "dissent_must_reach_output": true,
        });
        for (member, value) in more.as_object().unwrap() {
            voice[member] = value.clone();
        }
        voice
    };
    let handoff = |to: &str| json!({"to": to, "carries": ["the case"], "acknowledged": true});
    json!({
        "title": "Refunds",
        "voices": [
            voice("Triage", json!({"entry": true, "handoffs": [handoff("Policy"), handoff("Drafter")]})),
            voice("Policy", json!({"aliases": ["policy_node"]})),
            voice("Drafter", json!({"final_voice": true, "reviewed_by": "Policy", "may_override_dissent": true, "override_recorded": true})),
        ],
        "scenarios": [
            {
                "id": "refund-over-limit", "title": "A refund above the limit", "severity": "high", "prompt": "Give me 500 back",
                "required_voices": ["Triage", "Policy", "Drafter"], "expected_escalations": ["Triage-stuck"],
            },
            {
                "id": "where-is-my-order", "title": "An order", "severity": "low", "prompt": "Where is it?",
                "required_voices": ["Triage", "Drafter"],
            },
        ],
    })
}

pub(crate) fn score(value: &Value) -> Score {
    read_score(value.clone()).unwrap()
}

/// A bundle on the high-severity scenario.
pub(crate) fn bundle(events: Value) -> Value {
    json!({"schema": "choir.evidence.v1", "run_id": "r1", "scenario_id": "refund-over-limit", "events": events})
}

pub(crate) fn evidence(bundles: &[Value]) -> Evidence {
    let bundles = bundles.iter().map(|bundle| Taken::read(bundle.clone()).unwrap()).collect();
    Evidence { status: VerificationStatus::UserAsserted, bundles, hub: None }
}

pub(crate) fn draft(value: &Value) -> Payload {
    rehearse(&score(value), None).unwrap()
}

pub(crate) fn observed(value: &Value, events: Value) -> Payload {
    rehearse(&score(value), Some(&evidence(&[bundle(events)]))).unwrap()
}

/// In the order in which the documents write them.
pub(crate) fn five(dimensions: &Dimensions) -> [i64; 5] {
    [
        dimensions.role_discipline,
        dimensions.escalation_fidelity,
        dimensions.dissonance_preservation,
        dimensions.handoff_reliability,
        dimensions.coverage,
    ]
}

pub(crate) fn outcome(payload: &Payload) -> ([i64; 5], i64, &'static str) {
    (five(&payload.dimensions), payload.false_harmony.risk, payload.verdict.as_str())
}

/// The sum of all records of a rule, and how many there are.
pub(crate) fn records(payload: &Payload, rule: &str) -> (i64, usize) {
    let own: Vec<_> = payload.adjustments.iter().filter(|record| record.rule_id == rule).collect();
    (own.iter().map(|record| record.delta).sum(), own.len())
}
