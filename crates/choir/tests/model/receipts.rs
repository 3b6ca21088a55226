//! Verification, comparison and attestation of receipts.

use crate::support::{clean_run, disciplined, draft, observed, run};
use chorus_choir::compare::compare;
use chorus_choir::verify::{Keys, VerdictCheck, VerifyError, leaf, verify};
use chorus_choir::{attest, merkle, receipt};
use chorus_protocol::canonical::hex;
use chorus_protocol::choir::receipt::Payload;
use serde_json::{Value, json};

/// Returns a receipt as issued by a hub, the first in its log.
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

/// Returns the response of `/api/public/verify` for a receipt.
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
    assert_eq!(verify(&public, None).unwrap().checks, ["hash", "verdict"]);
    assert_eq!(verify(&public, Some(&keys)).unwrap().checks, ["hash", "verdict", "inclusion"]);
    // The payload was altered, and the true text, which is public, was put beside it.
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
    assert_eq!(verify(&receipt, None).unwrap().checks, ["hash", "verdict"]);
    let verified = verify(&receipt, Some(&keys)).unwrap();
    assert_eq!(verified.checks, ["hash", "verdict", "signature", "inclusion"]);
    assert_eq!(
        (verified.label.as_str(), verified.verdict.as_str()),
        ("Draft Choir Receipt (declared only)", "ready")
    );

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
    // Without the hub's signatures the receipt may be anyone's: if keys are given, there must be something to
    // check with them.
    for left in [json!(null), json!({}), json!("x"), json!([])] {
        assert_eq!(fails(&|one| one["attestation"] = left.clone()), "signature", "{left}");
        assert_eq!(fails(&|one| one["log"] = left.clone()), "inclusion", "{left}");
    }
    assert_eq!(fails(&|one| drop(one.as_object_mut().unwrap().remove("attestation"))), "signature");
    assert_eq!(fails(&|one| drop(one.as_object_mut().unwrap().remove("log"))), "inclusion");
    // No signature covers an added member.
    assert_eq!(fails(&|one| one["approved_by"] = json!("everybody")), "unsigned");
    // The URL that an issuer receives follows from signed members; another URL does not.
    let mut told = receipt.clone();
    told["verify_url"] = json!("https://hub.example/verify/r1");
    assert_eq!(verify(&told, Some(&keys)).unwrap().checks, ["hash", "verdict", "signature", "inclusion"]);
    assert_eq!(fails(&|one| one["verify_url"] = json!("https://elsewhere.example/verify/r1")), "unsigned");
    assert!(matches!(verify(&json!({"a": 1}), None), Err(VerifyError::NotAReceipt(_))));
    let stranger = Keys { public: vec![vec![1; 32]], ..keys };
    assert!(matches!(verify(&receipt, Some(&stranger)), Err(VerifyError::Signature(_))));
}

#[test]
fn statements_gate_a_deploy_by_each_scenarios_own_outcome() {
    let predicate = |bundles: &[Value]| {
        let receipt = receipt(&run(&disciplined(), bundles));
        let statement = attest::test_result(&receipt).unwrap();
        assert_eq!(statement["subject"][0]["digest"]["sha256"], receipt.payload_hash);
        let predicate = &statement["predicate"];
        ["result", "passedTests", "warnedTests", "failedTests"].map(|name| predicate[name].clone())
    };
    let [high, low] = clean_run();
    let both = json!(["refund-over-limit", "where-is-my-order"]);
    assert_eq!(predicate(&[high.clone(), low.clone()]), [json!("PASSED"), both, json!([]), json!([])]);
    // A scenario that was not observed is in no list.
    assert_eq!(
        predicate(std::slice::from_ref(&low)),
        [json!("WARNED"), json!(["where-is-my-order"]), json!([]), json!([])]
    );
    let mut seen = high.clone();
    seen["complete"] = json!(false);
    assert_eq!(
        predicate(&[seen, low.clone()]),
        [json!("WARNED"), json!(["where-is-my-order"]), json!(["refund-over-limit"]), json!([])]
    );
    // One bad scenario does not make the other fail.
    let mut bad = high;
    bad["events"]
        .as_array_mut()
        .unwrap()
        .push(json!({"event_type": "suppressed_dissent", "voice_name": "Policy"}));
    assert_eq!(
        predicate(&[bad, low]),
        [json!("FAILED"), json!(["where-is-my-order"]), json!([]), json!(["refund-over-limit"])]
    );
    // Nothing was tested on paper, and an older receipt does not say what was.
    let mut paper = receipt(&draft(&disciplined()));
    assert_eq!(attest::test_result(&paper), None);
    paper.payload["evidence"] = json!({});
    paper.payload.as_object_mut().unwrap().remove("results");
    assert_eq!(attest::test_result(&paper), None);
    let own = attest::statement(&paper);
    assert_eq!(own["predicate"]["verdict"], "ready");
}

#[test]
fn the_statement_of_a_hubs_run_also_has_its_verdict() {
    let mut paper = receipt(&draft(&disciplined()));
    paper.payload["evidence"] = json!({"hub": {"origin": "https://hub.example"}});
    let predicate = attest::statement(&paper)["predicate"].clone();
    assert_eq!(
        (&predicate["verdict"], &predicate["hub"]["origin"]),
        (&json!("ready"), &json!("https://hub.example"))
    );
}

/// Returns a receipt with a changed payload and the hash that belongs to it.
fn rehashed(payload: &Value, change: &dyn Fn(&mut Value)) -> Value {
    let mut payload = payload.clone();
    change(&mut payload);
    json!({"payload_hash": chorus_protocol::canonical::hash(&payload), "payload": payload})
}

#[test]
fn the_verdict_is_recomputed_from_the_receipts_own_evidence() {
    let [high, low] = clean_run();
    let mut bad = high.clone();
    bad["events"].as_array_mut().unwrap().extend([
        json!({"event_type": "tool_call", "voice_name": "Drafter", "action": "refund", "ref": "call_2"}),
        json!({"event_type": "dissent", "voice_name": "Policy", "refers_to": 1}),
    ]);
    let mut away = low.clone();
    away["absent"] = json!(["Drafter"]);
    for bundles in [vec![], vec![high.clone(), low.clone()], vec![bad.clone(), low], vec![away, bad]] {
        let payload = json!(run(&disciplined(), &bundles));
        let verified = verify(&rehashed(&payload, &|_| {}), None).unwrap();
        assert_eq!(verified.verdict_check, VerdictCheck::Recomputed);
        if bundles.is_empty() {
            continue;
        }
        let changes: [&dyn Fn(&mut Value); 9] = [
            &|one| one["label"] = json!("Verified Observed Choir Receipt"),
            &|one| one["verdict"] = json!("retune"),
            &|one| one["dimensions"]["coverage"] = json!(7),
            &|one| one["false_harmony"]["risk"] = json!(3),
            &|one| one["results"][0]["result"] = json!("not_observed"),
            &|one| one["mismatches"] = json!([{"id": "M-DIS", "declared": "", "observed": "", "source_event_indices": [0], "retune": ""}]),
            &|one| one["evidence"]["events"][0]["event_type"] = json!("suppressed_dissent"),
            &|one| one["evidence"]["bundles"][0]["complete"] = json!(false),
            &|one| one["evidence"]["verification_status"] = json!("signature_valid"),
        ];
        for (place, change) in changes.iter().enumerate() {
            let forged = rehashed(&payload, change);
            let error = verify(&forged, None).unwrap_err();
            assert!(matches!(error, VerifyError::Verdict(_)), "{place}: {error}");
        }
    }
    // Of other rules only the sums are checked.
    let payload = json!(run(&disciplined(), &clean_run()));
    let other = rehashed(&payload, &|one| one["rules_digest"] = json!("0".repeat(64)));
    assert_eq!(verify(&other, None).unwrap().verdict_check, VerdictCheck::OtherRules);
    let forged = rehashed(&other["payload"], &|one| one["dimensions"]["coverage"] = json!(7));
    assert!(matches!(verify(&forged, None), Err(VerifyError::Verdict(_))));
}

/// A receipt of engine 1.0 is readable, verifies by its hash, and compares with one of today.
#[test]
fn receipts_of_the_first_engine_stay_valid() {
    let old: Value = serde_json::from_str(include_str!("../receipt-1.0.json")).unwrap();
    assert_eq!(old["payload"]["engine_version"], "1.0.0");
    let verified = verify(&old, None).unwrap();
    assert_eq!(verified.verdict_check, VerdictCheck::OtherRules);
    let payload: Payload = serde_json::from_value(old["payload"].clone()).unwrap();
    assert!(compare(&payload, &run(&disciplined(), &clean_run())).mismatches.added.is_empty());
    let mut paper = receipt(&draft(&disciplined())).payload;
    paper["label"] = json!("Draft Choir Receipt");
    assert!(serde_json::from_value::<Payload>(paper).is_ok());
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
        ["there is less evidence: Observed Choir Receipt before, Draft Choir Receipt (declared only) now"],
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
        "there is less evidence: Observed Choir Receipt before, Draft Choir Receipt (declared only) now"
    );
    assert_eq!(said(&nothing, &some), "");
}
