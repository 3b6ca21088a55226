//! Sections 6 and 8: receipts can be forwarded, and anybody can verify them.

use super::{bundle, issued, made, warned};
use crate::support::TestHub;
use chorus_choir::merkle::verify_consistency;
use chorus_choir::verify::{Keys, verify};
use chorus_protocol::canonical;
use chorus_protocol::code::Code;
use serde_json::{Value, json};

#[tokio::test]
async fn section_8_a_receipt_is_public_and_verifies() {
    for hub in [TestHub::start(), TestHub::postgres()] {
        let ann = hub.account("ann@example.org").await;
        let at = made(&hub, &ann).await;
        let draft = issued(&hub, &at, &ann).await;
        assert_eq!(draft["payload"]["label"], "Draft Choir Receipt (declared only)");
        let id = draft["receipt_id"].as_str().unwrap();
        assert_eq!(draft["verify_url"], format!("{}/verify/{id}", hub.url));

        let public = hub.get(&format!("/api/public/verify/{id}"), None).await;
        assert_eq!((public.status, &public.body["match"]), (200, &json!(true)));
        assert_eq!(public.header("access-control-allow-origin"), "*");
        let bytes = public.body["canonical_payload"].as_str().unwrap();
        assert_eq!(public.body["payload_hash"], canonical::sha256(bytes.as_bytes()));
        assert_eq!(public.body["recomputed_hash"], public.body["payload_hash"]);
        assert_eq!(public.body["label"], "Draft Choir Receipt (declared only)");

        // With the hub's keys, its signature and its position in the log.
        for _ in 0..4 {
            issued(&hub, &at, &ann).await;
        }
        let keys = hub.get("/.well-known/chorus-keys.json", None).await;
        let keys = Keys::read(&keys.body).unwrap();
        let receipt = hub.get(&format!("/api/v1/receipts/{id}"), None).await.body;
        assert_eq!(
            verify(&receipt, Some(&keys)).unwrap().checks,
            ["hash", "verdict", "signature", "inclusion"]
        );
        // The issuer's response and the public one, saved as files.
        assert_eq!(
            verify(&draft, Some(&keys)).unwrap().checks,
            ["hash", "verdict", "signature", "inclusion"]
        );
        assert_eq!(verify(&public.body, Some(&keys)).unwrap().checks, ["hash", "verdict", "inclusion"]);
        let mut dated_back = receipt.clone();
        dated_back["generated_at"] = json!("2020-01-01T00:00:00.000Z");
        assert!(verify(&dated_back, Some(&keys)).unwrap_err().to_string().starts_with("inclusion"));

        // Nothing was tested on paper. With evidence each scenario is listed by its own outcome.
        let test_result = |id: &str| format!("/api/v1/receipts/{id}/attestation?predicate=test_result");
        hub.get(&test_result(id), None).await.own_failure(Code::NotFound);
        assert_eq!(hub.post(&format!("{at}/evidence"), Some(&ann), &warned()).await.status, 201);
        let observed = issued(&hub, &at, &ann).await;
        let attestation = hub.get(&test_result(observed["receipt_id"].as_str().unwrap()), None).await;
        let statement = chorus_choir::attest::open(&attestation.body, &keys.public).unwrap();
        assert_eq!(statement["predicate"]["result"], "FAILED");
        assert_eq!(statement["predicate"]["failedTests"], json!(["over-limit"]));
        for missing in
            ["/api/public/verify/x", "/api/v1/receipts/x", "/api/v1/log/inclusion/x", "/api/public/compare/x"]
        {
            hub.get(missing, None).await.own_failure(Code::NotFound);
        }
        hub.get(&format!("/api/v1/receipts/{id}/attestation?predicate=x"), None)
            .await
            .own_failure(Code::Validation);
    }
}

#[tokio::test]
async fn section_6_the_same_input_gives_the_same_hash_and_the_owner_is_not_in_it() {
    let hub = TestHub::start();
    let (ann, ben) = (hub.account("ann@example.org").await, hub.account("ben@example.org").await);
    let (one, other) = (made(&hub, &ann).await, made(&hub, &ben).await);
    for (at, key) in [(&one, &ann), (&other, &ben)] {
        assert_eq!(hub.post(&format!("{at}/evidence"), Some(key), &warned()).await.status, 201);
    }
    let (first, second) = (issued(&hub, &one, &ann).await, issued(&hub, &other, &ben).await);
    assert_eq!(first["payload_hash"], second["payload_hash"]);
    assert_ne!(first["receipt_id"], second["receipt_id"]);
    let text = first.to_string();
    assert!(
        !text.contains("ann@") && !text.contains("acc_") && !text.contains(one.rsplit('/').next().unwrap())
    );
    assert_eq!(first["payload"]["score"]["voices"][0]["name"], "Policy");
    // The result is the same without a hub.
    let score = chorus_choir::read_score(super::score()).unwrap();
    let bundles = vec![chorus_choir::Taken::read(warned()).unwrap()];
    let status = chorus_protocol::choir::receipt::VerificationStatus::UserAsserted;
    let evidence = chorus_choir::Evidence::new(status, bundles);
    let offline = chorus_choir::receipt(&chorus_choir::rehearse(&score, Some(&evidence)).unwrap());
    assert_eq!(first["payload_hash"], offline.payload_hash);
}

#[tokio::test]
async fn which_evidence_a_receipt_takes() {
    let hub = TestHub::start();
    let ann = hub.account("ann@example.org").await;
    let at = made(&hub, &ann).await;
    let assert = async |bundle: &Value| {
        let answer = hub.post(&format!("{at}/evidence"), Some(&ann), bundle).await;
        answer.body["evidence_id"].as_str().unwrap().to_owned()
    };
    let (bad, good) = (
        assert(&warned()).await,
        assert(&bundle(&json!({"event_type": "voice_entry", "voice_name": "Policy"}))).await,
    );
    let issue = async |evidence: Value| {
        hub.post(&format!("{at}/receipts"), Some(&ann), &json!({"evidence": evidence})).await
    };
    assert_eq!(issue(json!("none")).await.body["payload"]["evidence"], Value::Null);
    let chosen = issue(json!([good])).await;
    assert_eq!(chosen.body["payload"]["verdict"], "conditional", "{}", chosen.text);
    // A receipt says which evidence it does not rest on.
    let left_out = &chosen.body["payload"]["left_out"];
    assert_eq!((&left_out["count"], &left_out["bundles"][0]["why"]), (&json!(1), &json!("not_chosen")));
    assert_eq!(issue(json!("none")).await.body["payload"]["left_out"]["count"], 2);
    let latest = issue(json!("latest")).await.body;
    let hashes: Vec<_> = latest["payload"]["evidence"]["bundles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["bundle_sha256"].as_str().unwrap())
        .collect();
    assert!(hashes.is_sorted() && hashes.len() == 2);
    assert_eq!(latest["payload"]["mismatches"][0]["id"], "M-WARN");
    issue(json!(["ev_00000000000000000000000000000000"])).await.own_failure(Code::NotFound);
    for wrong in [json!("newest"), json!(7), json!([]), json!(["x"])] {
        issue(wrong).await.own_failure(Code::Validation);
    }
    // A new version starts without evidence.
    assert_eq!(hub.ask("PUT", &at, Some(&ann), &super::score()).await.status, 200);
    assert_eq!(issue(json!("latest")).await.body["payload"]["label"], "Draft Choir Receipt (declared only)");
    assert_eq!(issue(json!([bad])).await.body["payload"]["score"]["version"], 2);
    // Submitting the same bundle again counts for the new version.
    let again = hub.post(&format!("{at}/evidence"), Some(&ann), &warned()).await;
    assert_eq!(
        (&again.body["duplicate"], &again.body["score_version"], &again.body["evidence_id"]),
        (&json!(true), &json!(2), &json!(bad))
    );
    assert_eq!(issue(json!("latest")).await.body["payload"]["verdict"], "not_ready");
    // Unknown fields are refused, because a receipt is permanent.
    let misspelt = hub.post(&format!("{at}/receipts"), Some(&ann), &json!({"evidnce": "none"})).await;
    assert!(misspelt.own_failure(Code::Validation).contains("evidnce"));
}

#[tokio::test]
async fn a_scores_evidence_and_receipts_are_listed_the_newest_first_for_its_owner() {
    let hub = TestHub::start();
    let (ann, bob) = (hub.account("ann@example.org").await, hub.account("bob@example.org").await);
    let at = made(&hub, &ann).await;
    let (mut bundles, mut receipts) = (Vec::new(), Vec::new());
    for count in 0..3 {
        let seen = bundle(
            &json!({"event_type": "voice_entry", "voice_name": "Policy", "summary": count.to_string()}),
        );
        let kept = hub.post(&format!("{at}/evidence"), Some(&ann), &seen).await.body;
        bundles.insert(0, kept["evidence_id"].as_str().unwrap().to_owned());
        let issued = hub.post(&format!("{at}/receipts"), Some(&ann), &json!({})).await.body;
        receipts.insert(0, issued["receipt_id"].as_str().unwrap().to_owned());
    }
    for (list, name, expected) in [("evidence", "evidence_id", bundles), ("receipts", "receipt_id", receipts)]
    {
        let first = hub.get(&format!("{at}/{list}?limit=2"), Some(&ann)).await.body;
        let next = first["next"].as_str().unwrap();
        let second = hub.get(&format!("{at}/{list}?limit=2&after={next}"), Some(&ann)).await.body;
        assert_eq!(second["next"], Value::Null);
        let pages = [&first, &second].into_iter().flat_map(|page| page["items"].as_array().unwrap());
        let listed: Vec<_> = pages.map(|item| item[name].as_str().unwrap()).collect();
        assert_eq!(listed, expected);
        hub.get(&format!("{at}/{list}?after=nothing"), Some(&ann)).await.own_failure(Code::Validation);
        hub.get(&format!("{at}/{list}"), Some(&bob)).await.own_failure(Code::NotFound);
    }
}

#[tokio::test]
async fn an_issue_that_comes_twice_is_one_receipt() {
    let hub = TestHub::start();
    let ann = hub.account("ann@example.org").await;
    let at = made(&hub, &ann).await;
    let issue = async || {
        let request = hub.request(reqwest::Method::POST, &format!("{at}/receipts"), Some(&ann));
        crate::support::Answer::of(request.header("idempotency-key", "k").json(&json!({}))).await
    };
    let (first, second) = (issue().await, issue().await);
    assert_eq!(first.body["receipt_id"], second.body["receipt_id"]);
    assert_eq!(second.header("idempotent-replayed"), "true");
}

#[tokio::test]
async fn comparisons_are_made_by_the_owner_of_both_and_read_by_all() {
    let hub = TestHub::start();
    let (ann, eve) = (hub.account("ann@example.org").await, hub.account("eve@example.org").await);
    let at = made(&hub, &ann).await;
    let before = issued(&hub, &at, &ann).await;
    assert_eq!(hub.post(&format!("{at}/evidence"), Some(&ann), &warned()).await.status, 201);
    let after = issued(&hub, &at, &ann).await;
    let both = json!({"receipts": [before["receipt_id"], after["receipt_id"]]});
    hub.post("/api/v1/compare", Some(&eve), &both).await.own_failure(Code::Forbidden);
    hub.post("/api/v1/compare", Some(&ann), &json!({"receipts": ["x", "y"]}))
        .await
        .own_failure(Code::NotFound);
    let link = hub.post("/api/v1/compare", Some(&ann), &both).await;
    assert_eq!(link.status, 201);
    let slug = link.body["slug"].as_str().unwrap();
    assert_eq!(link.body["url"], format!("{}/compare/{slug}", hub.url));
    let shown = hub.get(&format!("/api/public/compare/{slug}"), None).await;
    assert_eq!(shown.body["receipts"], both["receipts"]);
    assert_eq!(shown.body["comparison"]["worse"], true);
    assert_eq!(shown.body["comparison"]["mismatches"]["added"], json!(["M-WARN"]));
}

#[tokio::test]
async fn the_log_only_grows_and_says_so() {
    for hub in [TestHub::start(), TestHub::postgres()] {
        let ann = hub.account("ann@example.org").await;
        let at = made(&hub, &ann).await;
        for _ in 0..7 {
            issued(&hub, &at, &ann).await;
        }
        let hash = |value: &Value| {
            data_encoding::HEXLOWER.decode(value.as_str().unwrap().as_bytes()).unwrap().try_into().unwrap()
        };
        for from in 1..=7 {
            let proof = hub.get(&format!("/api/v1/log/consistency?from={from}"), None).await.body;
            let path: Vec<_> = proof["proof"].as_array().unwrap().iter().map(hash).collect();
            let (before, after) = (hash(&proof["from_root"]), hash(&proof["to_root"]));
            assert!(verify_consistency((from, &before), (7, &after), &path));
        }
        for wrong in ["from=8", "from=0", "from=3&to=2", "from=1&to=9", ""] {
            hub.get(&format!("/api/v1/log/consistency?{wrong}"), None).await.own_failure(Code::Validation);
        }
        let refused = hub.get("/api/v1/log/consistency?from=0", None).await;
        let told = refused.own_failure(Code::Validation);
        assert!(!told.contains("is required"), "what is wrong is not missing: {told}");
        let note = hub.get("/api/v1/log/checkpoint", None).await.text;
        assert!(note.starts_with(&format!("{}\n7\n", hub.url)), "{note}");
    }
}
