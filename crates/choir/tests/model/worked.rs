//! Examples that were calculated by hand.

use crate::support::{bundle, clean_run, disciplined, draft, evidence, observed, outcome, run, score};
use chorus_choir::{Evidence, receipt, rehearse};
use chorus_protocol::canonical;
use chorus_protocol::choir::receipt::{ReceiptLabel, VerificationStatus};
use serde_json::{Value, json};

const ALL: [i64; 5] = [100; 5];

fn warned() -> Value {
    json!({"event_type": "ignored_warning", "voice_name": "Policy"})
}

#[test]
fn a_disciplined_draft_is_ready() {
    let payload = draft(&disciplined());
    assert_eq!(payload.structural.findings, vec![]);
    assert_eq!(outcome(&payload), (ALL, 0, "ready"));
    assert_eq!(payload.label, ReceiptLabel::Draft);
}

#[test]
fn a_clean_run_of_every_scenario_is_ready() {
    let payload = run(&disciplined(), &clean_run());
    assert_eq!(outcome(&payload), (ALL, 0, "ready"));
    assert_eq!(payload.label, ReceiptLabel::Observed);
    let voices = payload.evidence.unwrap().events.into_iter().filter_map(|event| event.event.voice_name);
    assert!(voices.collect::<Vec<_>>().contains(&"Policy".into()));
}

#[test]
fn the_same_not_complete_or_one_scenario_of_two_is_conditional() {
    let [mut high, low] = clean_run();
    assert_eq!(outcome(&run(&disciplined(), std::slice::from_ref(&high))), (ALL, 0, "conditional"));
    high["complete"] = json!(false);
    assert_eq!(outcome(&run(&disciplined(), &[high, low])), (ALL, 0, "conditional"));
}

#[test]
fn what_adapters_see_is_open() {
    let payload = observed(
        &disciplined(),
        json!([
            {"event_type": "warning", "voice_name": "Policy"},
            {"event_type": "dissent", "voice_name": "Policy"},
            {"event_type": "escalation", "voice_name": "Triage"},
        ]),
    );
    assert_eq!(outcome(&payload), (ALL, 5, "conditional"));
    assert_eq!(payload.open_items.len(), 2);
    assert_eq!(payload.dissonance.not_attested, [0, 1]);
}

#[test]
fn a_dissent_that_was_ignored() {
    let events = json!([{"event_type": "dissent", "voice_name": "Policy", "disposition": "ignored"}]);
    assert_eq!(outcome(&observed(&disciplined(), events)), ([100, 100, 90, 100, 100], 19, "conditional"));
}

#[test]
fn one_warning_that_was_ignored() {
    let payload = observed(&disciplined(), json!([warned()]));
    assert_eq!(outcome(&payload), ([100, 90, 92, 100, 100], 21, "not_ready"));
    let unseen = json!([{"event_type": "warning", "voice_name": "Policy", "reached_output": false}]);
    assert_eq!(outcome(&observed(&disciplined(), unseen)), outcome(&payload));
}

#[test]
fn with_a_forbidden_call_and_a_suppressed_dissent() {
    let events = json!([
        warned(),
        {"event_type": "tool_call", "voice_name": "Drafter", "action": "refund"},
        {"event_type": "suppressed_dissent", "voice_name": "Policy"},
    ]);
    let payload = observed(&disciplined(), events);
    assert_eq!(outcome(&payload), ([88, 90, 75, 100, 100], 65, "not_ready"));
    let ids: Vec<_> = payload.mismatches.iter().map(|one| &*one.id).collect();
    assert_eq!(ids, ["M-AUTH", "M-WARN", "M-DIS"]);
}

#[test]
fn forty_suppressed_dissents() {
    let events: Vec<_> = (0..40)
        .map(|number| json!({"event_type": "suppressed_dissent", "voice_name": "Policy", "ref": number.to_string()}))
        .collect();
    let payload = observed(&disciplined(), json!(events));
    assert_eq!(outcome(&payload), ([100, 100, 75, 100, 100], 60, "not_ready"));
}

#[test]
fn incomplete_and_hopeless_drafts() {
    let mut incomplete = disciplined();
    for voice in incomplete["voices"].as_array_mut().unwrap() {
        voice["authority"] = Value::Null;
        voice["escalation_triggers"] = json!([]);
        voice["evidence_requirement"] = Value::Null;
        voice["dissent_must_reach_output"] = json!(false);
    }
    assert_eq!(outcome(&draft(&incomplete)), ([60, 35, 75, 100, 80], 37, "retune"));

    let hopeless = json!({
        "title": "Hopeless",
        "voices": [{"name": "A"}, {"name": "B"}, {"name": "C"}],
        "scenarios": [{"id": "s", "severity": "critical", "expected_escalations": ["never"]}],
    });
    assert_eq!(outcome(&draft(&hopeless)), ([40, 35, 60, 60, 15], 51, "retune"));
}

/// The example of a live rehearsal: two bundles, one for each scenario.
#[test]
fn a_rehearsed_run() {
    let hub = |scenario: &str, events: Value| {
        json!({
            "schema": "choir.evidence.v1", "run_id": "rh_1/1", "adapter": {"id": "chorus.hub.v1", "version": "1"},
            "complete": true, "scenario_id": scenario, "events": events,
        })
    };
    let handoff = json!({"event_type": "handoff", "voice_name": "Triage", "target_voice": "Policy", "acknowledged": true, "basis": "seen"});
    let cited = |voice: &str| json!({"event_type": "evidence_cited", "voice_name": voice, "basis": "seen"});
    let called = json!({"event_type": "tool_call", "voice_name": "Policy", "action": "look_up"});
    let high = hub(
        "refund-over-limit",
        json!([
            handoff, called, cited("Policy"), handoff,
            {"event_type": "voice_entry", "voice_name": "Drafter"},
            {"event_type": "dissent", "voice_name": "Policy", "target_voice": "Drafter", "disposition": "ignored", "reached_output": false},
            cited("Drafter"),
            {"event_type": "final_output", "voice_name": "Drafter"},
            {"event_type": "wrong_note", "voice_name": "Drafter", "detail": "expect:no-early-yes", "refers_to": 7},
        ]),
    );
    let low = hub(
        "where-is-my-order",
        json!([handoff, {"event_type": "tool_call", "voice_name": "Drafter", "action": "look_up"}, cited("Drafter"), {"event_type": "final_output", "voice_name": "Drafter"}]),
    );
    let payload = run(&disciplined(), &[high.clone(), low.clone()]);
    assert_eq!(outcome(&payload), ([92, 90, 90, 100, 100], 46, "retune"));
    // The Score has the expectation: what it says must never happen, happened.
    let mut value = disciplined();
    value["scenarios"][0]["expects"] =
        json!([{"id": "no-early-yes", "title": "No promise before the desk decides", "never": {}}]);
    let payload = run(&value, &[high, low]);
    assert_eq!(outcome(&payload), ([92, 90, 90, 100, 100], 46, "not_ready"));
    let headline = &payload.mismatches[0];
    assert_eq!((&*headline.id, &*headline.declared), ("M-EXPECT", "No promise before the desk decides"));
    assert_eq!(headline.source_event_indices.len(), 1);
    let derived: Vec<_> =
        payload.evidence.as_ref().unwrap().events.iter().filter(|event| event.derived).collect();
    assert_eq!(derived.len(), 1);
    assert_eq!(derived[0].event.event_type.as_str(), "missed_escalation");
}

#[test]
fn section_8_the_same_input_has_the_same_hash_and_nothing_volatile_is_hashed() {
    let run = |bundles: &[Value]| rehearse(&score(&disciplined()), Some(&evidence(bundles))).unwrap();
    let (one, other) =
        (bundle(json!([warned()])), bundle(json!([{"event_type": "voice_entry", "voice_name": "Triage"}])));
    let first = receipt(&run(&[one.clone(), other.clone()]));
    let second = receipt(&run(&[other, one.clone(), one]));
    assert_eq!(first, second);
    assert_eq!(first.payload_hash, canonical::hash(&first.payload));
    let text = canonical::text(&first.payload);
    assert!(!text.contains("receipt_id") && !text.contains("generated_at") && !text.contains("payload_hash"));
    // Reading the written payload returns the same value.
    let read: chorus_protocol::choir::receipt::Payload =
        serde_json::from_value(first.payload.clone()).unwrap();
    assert_eq!(canonical::text(&serde_json::json!(read)), text);
}

#[test]
fn sections_6_and_15_labels_and_what_they_prove() {
    let label = |status: VerificationStatus| {
        let evidence = Evidence { status, ..evidence(&[bundle(json!([]))]) };
        rehearse(&score(&disciplined()), Some(&evidence)).unwrap()
    };
    let asserted = label(VerificationStatus::UserAsserted);
    assert_eq!(asserted.label.as_str(), "Observed Choir Receipt");
    assert!(asserted.evidence.unwrap().statement.contains("not independently verified"));
    let signed = label(VerificationStatus::SignatureValid);
    assert_eq!(signed.label.as_str(), "Verified Observed Choir Receipt");
    let statement = signed.evidence.unwrap().statement;
    assert!(statement.contains("payload integrity") && statement.contains("does not prove"));
    assert_eq!(label(VerificationStatus::HubAttested).label.as_str(), "Verified Observed Choir Receipt");
    assert!(signed.disclaimer.contains("does not prove the system is safe"));
    assert_eq!(signed.protocol_version, "0.1");
}
