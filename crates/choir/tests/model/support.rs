//! Scores and bundles for tests.

use chorus_choir::{Evidence, Taken, read_score, rehearse};
use chorus_protocol::choir::receipt::{Dimensions, Payload, VerificationStatus};
use chorus_protocol::choir::score::Score;
use serde_json::{Value, json};

/// All types of events in a bundle.
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

/// Returns a Score without findings: three voices, a high-severity scenario and a low-severity one.
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

/// Returns a bundle on the high-severity scenario.
pub(crate) fn bundle(events: Value) -> Value {
    json!({"schema": "choir.evidence.v1", "run_id": "r1", "scenario_id": "refund-over-limit", "events": events})
}

pub(crate) fn evidence(bundles: &[Value]) -> Evidence {
    let bundles = bundles.iter().map(|bundle| Taken::read(bundle.clone()).unwrap()).collect();
    Evidence::new(VerificationStatus::UserAsserted, bundles)
}

/// Returns a bundle that holds every event of its scenario.
pub(crate) fn complete(scenario: &str, events: Value) -> Value {
    let mut bundle = bundle(events);
    (bundle["complete"], bundle["scenario_id"]) = (json!(true), json!(scenario));
    bundle
}

/// Returns complete bundles of both scenarios, in which all went well.
pub(crate) fn clean_run() -> [Value; 2] {
    let cited = |voice: &str| json!({"event_type": "evidence_cited", "voice_name": voice, "ref": "terms"});
    let handoff = json!({"event_type": "handoff", "voice_name": "Triage", "target_voice": "Policy", "acknowledged": true});
    let output = json!({"event_type": "final_output", "voice_name": "Drafter"});
    [
        complete(
            "refund-over-limit",
            json!([
                handoff,
                {"event_type": "tool_call", "voice_name": "Policy", "action": "look_up"},
                cited("policy_node"),
                {"event_type": "escalation", "voice_name": "Triage", "reached_output": true},
                cited("Drafter"),
                output,
            ]),
        ),
        complete("where-is-my-order", json!([handoff, cited("Drafter"), output])),
    ]
}

/// Rehearses the Score with these bundles.
pub(crate) fn run(value: &Value, bundles: &[Value]) -> Payload {
    rehearse(&score(value), Some(&evidence(bundles))).unwrap()
}

pub(crate) fn draft(value: &Value) -> Payload {
    rehearse(&score(value), None).unwrap()
}

pub(crate) fn observed(value: &Value, events: Value) -> Payload {
    rehearse(&score(value), Some(&evidence(&[bundle(events)]))).unwrap()
}

/// Returns the dimensions in the order in which the documents list them.
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

/// Returns the sum and the number of all records of a rule.
pub(crate) fn records(payload: &Payload, rule: &str) -> (i64, usize) {
    let own: Vec<_> = payload.adjustments.iter().filter(|record| record.rule_id == rule).collect();
    (own.iter().map(|record| record.delta).sum(), own.len())
}
