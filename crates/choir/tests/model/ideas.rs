//! Sections 1 to 3, 7 and 13: what the method is for, and what it does not claim. Ideas, and yet each sentence that can
//! fail has something here that fails with it.

use crate::support::{bundle, disciplined, draft, evidence, five, observed, outcome, records, score};
use chorus_choir::adapters::{About, Format, adapt};
use chorus_choir::{Evidence, rehearse};
use chorus_protocol::choir::receipt::{Payload, ReceiptLabel, VerificationStatus};
use serde_json::{Value, json};

/// The same smooth answer at the end of every run.
fn answered(text: &str) -> Value {
    json!({"event_type": "final_output", "voice_name": "Drafter", "detail": text})
}

fn run(event: Value) -> Payload {
    observed(&disciplined(), json!([event, answered("All is well, and gladly so.")]))
}

#[test]
fn section_1_the_handoff_breaks_and_not_the_prose() {
    let clean = observed(&disciplined(), json!([answered("All is well, and gladly so.")]));
    // "The handoff, the missed entry, the smoothed-over disagreement": each with the same last words.
    for (kind, dimension) in [
        ("dropped_handoff", 3),
        ("missed_entry", 4),
        ("suppressed_dissent", 2),
        ("missed_escalation", 1),
        ("authority_breach", 0),
    ] {
        let broken = run(json!({"event_type": kind, "voice_name": "Policy"}));
        let (before, after) = (five(&clean.dimensions), five(&broken.dimensions));
        assert!(after[dimension] < before[dimension], "{kind}: {after:?}");
        assert!(outcome(&broken).1 > outcome(&clean).1, "{kind} is no risk");
    }
    // And whatever is said, it is not the language that is measured.
    for text in ["I will not.", "blocked, rejected, escalated: a breach of authority"] {
        let other = observed(&disciplined(), json!([answered(text)]));
        assert_eq!(outcome(&other), outcome(&clean), "{text}");
        assert_eq!(other.adjustments, clean.adjustments, "{text}");
    }
}

#[test]
fn section_2_a_coherent_reply_says_nothing_of_the_score() {
    // On its own it earns nothing.
    let alone = observed(&disciplined(), json!([answered("A coherent, kind and complete reply.")]));
    assert_eq!(five(&alone.dimensions), five(&draft(&disciplined()).dimensions));
    assert!(alone.adjustments.iter().all(|record| record.delta <= 0));
    // The voice that talks last is not rewarded; those that should have entered earlier are missed.
    let mut last = bundle(json!([
        {"event_type": "evidence_cited", "voice_name": "Drafter", "ref": "handbook"},
        {"event_type": "escalation", "voice_name": "Drafter", "reached_output": true},
        answered("A coherent, kind and complete reply."),
    ]));
    last["complete"] = json!(true);
    let payload = rehearse(&score(&disciplined()), Some(&evidence(&[last]))).unwrap();
    assert_eq!(records(&payload, "O-ENTRY-001"), (-30, 2));
    assert_eq!(payload.verdict.as_str(), "not_ready");
    assert!(payload.mismatches.iter().any(|mismatch| mismatch.id == "M-ENTRY"));
}

#[test]
fn section_3_false_harmony_is_what_a_smooth_output_conceals() {
    let clean = outcome(&observed(&disciplined(), json!([answered("All is well.")]))).1;
    for (what, event) in [
        ("unresolved disagreement", json!({"event_type": "dissent", "voice_name": "Policy"})),
        (
            "suppressed dissent",
            json!({"event_type": "dissent", "voice_name": "Policy", "disposition": "suppressed"}),
        ),
        ("role failure", json!({"event_type": "wrong_note", "voice_name": "Policy"})),
        ("authority breach", json!({"event_type": "authority_breach", "voice_name": "Policy"})),
        ("missed escalation", json!({"event_type": "missed_escalation", "voice_name": "Policy"})),
    ] {
        let harmony = run(event).false_harmony;
        assert!(harmony.concealed > 0 && harmony.risk > clean, "{what}: {harmony:?}");
        // It is invisible at the output, so the receipt points at what is beneath.
        assert!(
            harmony.terms.iter().any(|term| term.source_event_indices.contains(&0)),
            "{what}: {harmony:?}"
        );
    }
    // Dissent that was used is none: it reached the output.
    let used = json!({"event_type": "dissent", "voice_name": "Policy", "disposition": "used", "reached_output": true});
    assert_eq!(run(used).false_harmony.concealed, 0);
}

#[test]
fn section_7_no_receipt_claims_more_than_it_proves() {
    let best = draft(&disciplined());
    let worst = run(json!({"event_type": "suppressed_dissent", "voice_name": "Policy"}));
    let signed = Evidence { status: VerificationStatus::SignatureValid, ..evidence(&[bundle(json!([]))]) };
    let signed = rehearse(&score(&disciplined()), Some(&signed)).unwrap();
    for payload in [best, worst, signed] {
        for sentence in [
            "does not prove the system is safe",
            "does not certify the agents",
            "does not predict every failure mode in production",
            "pre-deployment evidence of how the ensemble behaved under defined scenarios",
            "an assurance aid, not a guarantee",
        ] {
            assert!(payload.disclaimer.contains(sentence), "{sentence}");
        }
        // Under defined scenarios: they are in it.
        assert_eq!(payload.scenarios.len(), 2);
        // Nothing beside the disclaimer speaks of safety or a certificate, and the best verdict is "ready".
        let mut rest = json!(payload);
        rest["disclaimer"] = Value::Null;
        rest["evidence"]["statement"] = Value::Null;
        let rest = rest.to_string().to_lowercase();
        for claim in ["is safe", "certif", "guarantee"] {
            assert!(!rest.contains(claim), "{claim}");
        }
    }
}

#[test]
fn section_13_an_adapter_alone_verifies_nothing() {
    let trace = json!([{"policy_node": {"tool_calls": [{"name": "look_up", "id": "c1"}]}}]).to_string();
    let declared = score(&disciplined());
    let about = About { voices: &declared.voices, ..About::default() };
    let made = adapt(Some(Format::LangGraph), trace.as_bytes(), &about).unwrap();
    // A schema for each framework, by name and version.
    let adapter = made.adapter.clone().unwrap();
    assert_eq!((adapter.id.as_str(), adapter.version.is_empty()), ("langgraph.stream.v1", false));
    let ids: std::collections::HashSet<_> = Format::ALL.iter().map(|format| format.adapter()).collect();
    assert_eq!(ids.len(), Format::ALL.len());
    // What makes observations verified is a signature, not that a program wrote the JSON; and it changes the claim only.
    let with = |status| {
        let evidence = Evidence { status, ..evidence(&[json!(made)]) };
        rehearse(&declared, Some(&evidence)).unwrap()
    };
    let (asserted, signed) =
        (with(VerificationStatus::UserAsserted), with(VerificationStatus::SignatureValid));
    assert_eq!(asserted.label, ReceiptLabel::Observed);
    assert!(asserted.evidence.as_ref().unwrap().statement.contains("not independently verified"));
    assert_eq!(signed.label, ReceiptLabel::Verified);
    assert_eq!(outcome(&asserted), outcome(&signed));
    assert_eq!(asserted.adjustments, signed.adjustments);
}
