//! Receipts after they were made: verified, compared, attested.

use crate::support::{disciplined, draft, observed};
use chorus_choir::compare::compare;
use chorus_choir::verify::{Keys, VerifyError, leaf, verify};
use chorus_choir::{attest, merkle, receipt};
use chorus_protocol::canonical::hex;
use serde_json::{Value, json};

/// A receipt as a hub issues it, first in its log.
fn issued() -> (Value, Keys) {
    let key = attest::SigningKey::of(&[7; 32]).unwrap();
    let mut receipt = receipt(&draft(&disciplined()));
    receipt.receipt_id = Some("r1".into());
    receipt.generated_at = Some("2026-11-15T00:00:00.000Z".into());
    receipt.attestation = Some(attest::envelope(&attest::statement(&receipt), &key));
    let mut value = json!(receipt);
    let (own, other) = (merkle::leaf_hash(leaf(&value).as_bytes()), merkle::leaf_hash(b"other"));
    let note = attest::checkpoint("https://hub.example", 2, &merkle::node_hash(&own, &other), &key);
    value["log"] = json!({"index": 0, "inclusion_proof": [hex(&other)], "checkpoint": note});
    let keys = Keys { origin: "https://hub.example".into(), public: vec![key.public().to_vec()] };
    (value, keys)
}

/// What `/api/public/verify` says of a receipt.
fn answer(receipt: &Value) -> Value {
    let mut answer = receipt.clone();
    let members = answer.as_object_mut().unwrap();
    members.remove("attestation");
    let payload = members.remove("payload").unwrap();
    let (text, hash) = (chorus_protocol::canonical::text(&payload), members["payload_hash"].clone());
    members.extend([
        ("canonical_payload".into(), json!(text)),
        ("recomputed_hash".into(), hash),
        ("match".into(), json!(true)),
        ("label".into(), payload["label"].clone()),
    ]);
    answer
}

#[test]
fn a_text_beside_the_payload_speaks_for_nothing() {
    let (receipt, keys) = issued();
    let public = answer(&receipt);
    assert_eq!(verify(&public, None).unwrap().checks, ["hash"]);
    assert_eq!(verify(&public, Some(&keys)).unwrap().checks, ["hash", "inclusion"]);
    // A payload that was altered, with the true text, which is public, beside it.
    let mut forged = receipt.clone();
    forged["payload"]["verdict"] = json!("conditional");
    forged["canonical_payload"] = public["canonical_payload"].clone();
    for keys in [None, Some(&keys)] {
        assert!(matches!(verify(&forged, keys), Err(VerifyError::Hash { .. })));
    }
    for (name, other) in
        [("label", json!("Verified")), ("match", json!(false)), ("recomputed_hash", json!("0"))]
    {
        let mut odd = public.clone();
        odd[name] = other;
        assert!(matches!(verify(&odd, None), Err(VerifyError::NotAReceipt(_))), "{name}");
    }
    let mut padded = public;
    padded["approved_by"] = json!("everybody");
    assert!(matches!(verify(&padded, Some(&keys)), Err(VerifyError::Unsigned(_))));
}

#[test]
fn a_hub_that_moved_still_speaks_for_what_it_signed() {
    let (receipt, keys) = issued();
    let moved = Keys { origin: "https://moved.example".into(), ..keys };
    let verified = verify(&receipt, Some(&moved)).unwrap();
    assert_eq!(verified.origin.as_deref(), Some("https://hub.example"));
}

#[test]
fn section_8_anyone_can_verify_and_what_fails_is_named() {
    let (receipt, keys) = issued();
    assert_eq!(verify(&receipt, None).unwrap().checks, ["hash"]);
    let verified = verify(&receipt, Some(&keys)).unwrap();
    assert_eq!(verified.checks, ["hash", "signature", "inclusion"]);
    assert_eq!((verified.label.as_str(), verified.verdict.as_str()), ("Draft Choir Receipt", "ready"));

    let fails = |change: &dyn Fn(&mut Value)| {
        let mut altered = receipt.clone();
        change(&mut altered);
        let error = verify(&altered, Some(&keys)).unwrap_err().to_string();
        error.split(':').next().unwrap().to_owned()
    };
    assert_eq!(fails(&|one| one["payload"]["verdict"] = json!("conditional")), "hash");
    assert_eq!(fails(&|one| one["payload_hash"] = json!("0".repeat(64))), "hash");
    assert_eq!(fails(&|one| one["attestation"]["signatures"][0]["sig"] = json!("AAAA")), "signature");
    // Neither id nor time is hashed; the log covers them.
    assert_eq!(fails(&|one| one["receipt_id"] = json!("r2")), "inclusion");
    assert_eq!(fails(&|one| one["generated_at"] = json!("2025-01-01T00:00:00.000Z")), "inclusion");
    assert_eq!(fails(&|one| one["log"]["index"] = json!(1)), "inclusion");
    // Without what the hub signed it may be anybody's: keys that were given must find something to check.
    for left in [json!(null), json!({}), json!("x"), json!([])] {
        assert_eq!(fails(&|one| one["attestation"] = left.clone()), "signature", "{left}");
        assert_eq!(fails(&|one| one["log"] = left.clone()), "inclusion", "{left}");
    }
    assert_eq!(fails(&|one| drop(one.as_object_mut().unwrap().remove("attestation"))), "signature");
    assert_eq!(fails(&|one| drop(one.as_object_mut().unwrap().remove("log"))), "inclusion");
    // What was put in beside what is signed is nobody's word, whatever it says.
    assert_eq!(fails(&|one| one["approved_by"] = json!("everybody")), "unsigned");
    // What an issuer is told of its address follows from what is signed; another address does not.
    let mut told = receipt.clone();
    told["verify_url"] = json!("https://hub.example/verify/r1");
    assert_eq!(verify(&told, Some(&keys)).unwrap().checks, ["hash", "signature", "inclusion"]);
    assert_eq!(fails(&|one| one["verify_url"] = json!("https://elsewhere.example/verify/r1")), "unsigned");
    assert!(matches!(verify(&json!({"a": 1}), None), Err(VerifyError::NotAReceipt(_))));
    let stranger = Keys { public: vec![vec![1; 32]], ..keys };
    assert!(matches!(verify(&receipt, Some(&stranger)), Err(VerifyError::Signature(_))));
}

#[test]
fn statements_gate_a_deploy() {
    let worse = receipt(&observed(
        &disciplined(),
        json!([{"event_type": "suppressed_dissent", "voice_name": "Policy"}]),
    ));
    let statement = attest::test_result(&worse);
    assert_eq!(statement["predicate"]["result"], "FAILED");
    assert_eq!(statement["predicate"]["failedTests"], json!(["refund-over-limit", "where-is-my-order"]));
    assert_eq!(statement["subject"][0]["digest"]["sha256"], worse.payload_hash);
    let better = attest::test_result(&receipt(&draft(&disciplined())));
    assert_eq!(better["predicate"]["result"], "PASSED");
    let own = attest::statement(&worse);
    assert_eq!(own["predicate"]["verdict"], "not_ready");
}

#[test]
fn a_comparison_says_in_what_it_is_worse() {
    let before = draft(&disciplined());
    let after =
        observed(&disciplined(), json!([{"event_type": "suppressed_dissent", "voice_name": "Policy"}]));
    let comparison = compare(&before, &after);
    assert!(comparison.worse && comparison.same_score);
    assert_eq!(comparison.mismatches.added, ["M-DIS"]);
    assert_eq!(
        comparison.regressions,
        [
            "the verdict fell from ready to not_ready",
            "M-DIS is new",
            "dissonance_preservation went from 100 to 80",
            "false_harmony_risk went from 0 to 33",
        ]
    );
    let back = compare(&after, &before);
    assert_eq!(
        back.regressions,
        ["there is less evidence: Observed Choir Receipt before, Draft Choir Receipt now"],
        "what nobody looked at any more is not mended"
    );
    assert_eq!(back.mismatches.removed, ["M-DIS"]);
    assert!(!compare(&before, &before).worse);
}

#[test]
fn less_evidence_is_worse() {
    let entry = |voice: &str| json!({"event_type": "voice_entry", "voice_name": voice});
    let (all, some) = (
        observed(&disciplined(), json!([entry("Triage"), entry("Policy"), entry("Drafter")])),
        observed(&disciplined(), json!([entry("Triage"), entry("Drafter")])),
    );
    let said = |before, after| compare(before, after).regressions.join("; ");
    assert_eq!(said(&all, &some), "Policy was not observed in refund-over-limit, and was before");
    assert_eq!(said(&some, &all), "");
    let nothing = draft(&disciplined());
    assert_eq!(
        said(&some, &nothing),
        "there is less evidence: Observed Choir Receipt before, Draft Choir Receipt now"
    );
    assert_eq!(said(&nothing, &some), "");
}
