//! Section 14: accounts and ownership.

use super::ingest::{headers, now};
use super::{SCORES, bundle, made, score, secret, trace, warned};
use crate::support::{OPERATOR, Setup, TestHub};
use chorus_protocol::code::Code;
use serde_json::{Value, json};

#[tokio::test]
async fn section_14_a_score_is_its_accounts_and_nobody_elses() {
    for hub in [TestHub::start(), TestHub::postgres()] {
        let (ann, eve, agent) = (
            hub.account("ann@example.org").await,
            hub.account("eve@example.org").await,
            hub.register("a").await,
        );
        let at = made(&hub, &ann).await;
        let shown = hub.get(&at, Some(&ann)).await;
        assert_eq!(
            (shown.status, &shown.body["title"], &shown.body["version"]),
            (200, &json!("Refunds"), &json!(1))
        );
        assert!(shown.body["notice"].as_str().unwrap().contains("publishes a snapshot"));
        // To others it looks like a missing Score.
        let never = format!("{SCORES}/sc_00000000000000000000000000000000");
        let (foreign, missing) = (hub.get(&at, Some(&eve)).await, hub.get(&never, Some(&eve)).await);
        assert_eq!((foreign.status, foreign.text), (missing.status, missing.text));
        for (key, status) in [(Some(&*agent), 403), (Some(OPERATOR), 403), (None, 401)] {
            assert_eq!(hub.get(&at, key).await.status, status);
        }
        assert_eq!(hub.ask("PUT", &at, Some(&eve), &score()).await.status, 404);
        assert_eq!(hub.get(SCORES, Some(&eve)).await.body["items"], json!([]));
        assert_eq!(hub.get(SCORES, Some(&ann)).await.body["items"][0]["title"], "Refunds");
    }
}

#[tokio::test]
async fn versions_faults_and_the_archive() {
    let hub = TestHub::start();
    let ann = hub.account("ann@example.org").await;
    let at = made(&hub, &ann).await;
    let mut next = score();
    next["title"] = json!("Refunds, again");
    let changed = hub.ask("PUT", &at, Some(&ann), &next).await;
    assert_eq!((changed.status, &changed.body["version"]), (200, &json!(2)));
    assert_eq!(hub.get(&at, Some(&ann)).await.body["title"], "Refunds, again");

    next["voices"] = json!([]);
    next["scenarios"][0]["severity"] = json!("huge");
    let faults = hub.post(SCORES, Some(&ann), &next).await;
    let told = faults.own_failure(Code::Validation);
    assert!(told.contains("voices: must be") && told.contains("scenarios[0].severity"), "{told}");
    let inexact = hub
        .request(reqwest::Method::POST, SCORES, Some(&ann))
        .body(r#"{"title": "x", "version": 9007199254740993}"#);
    let inexact = crate::support::Answer::of(inexact).await;
    assert!(inexact.own_failure(Code::Validation).contains("2^53-1"));

    let paper = hub.post(&format!("{at}/rehearse"), Some(&ann), &json!({})).await;
    assert_eq!((paper.status, &paper.body["dimensions"]["role_discipline"]), (200, &json!(100)));

    assert_eq!(hub.delete(&at, Some(&ann)).await.status, 204);
    assert_eq!(hub.delete(&at, Some(&ann)).await.status, 204);
    assert_eq!(hub.get(&at, Some(&ann)).await.body["archived"], true);
    for (method, path, body) in [
        ("PUT", at.clone(), score()),
        ("POST", format!("{at}/evidence"), warned()),
        ("POST", format!("{at}/receipts"), json!({})),
    ] {
        hub.ask(method, &path, Some(&ann), &body).await.own_failure(Code::Conflict);
    }
}

#[tokio::test]
async fn section_14_an_edit_link_writes_until_it_is_claimed() {
    let hub = Setup::new().config(|config| config.anonymous_scores = true).start();
    let answer = hub.post(SCORES, None, &score()).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    let link = answer.body["edit_link"].as_str().unwrap().to_owned();
    let (front, secret) = link.rsplit_once('/').unwrap();
    let id = answer.body["score_id"].as_str().unwrap();
    assert!(front.ends_with(&format!("/scores/{id}/edit")) && secret.starts_with("es_"));
    let at = format!("{SCORES}/{id}");

    assert_eq!(hub.get(&at, Some(secret)).await.status, 200);
    assert_eq!(hub.ask("PUT", &at, Some(secret), &score()).await.body["version"], 2);
    assert_eq!(hub.post(&format!("{at}/evidence"), Some(secret), &warned()).await.status, 201);
    let receipt = hub.post(&format!("{at}/receipts"), Some(secret), &json!({})).await;
    assert_eq!(receipt.body["payload"]["verdict"], "not_ready");
    // The link opens only this Score.
    let other = hub.post(SCORES, None, &score()).await;
    assert_eq!(
        hub.get(&format!("{SCORES}/{}", other.body["score_id"].as_str().unwrap()), Some(secret)).await.status,
        404
    );
    for path in ["/api/v1/me", "/api/v1/channels", "/api/v1/agents", SCORES] {
        assert_eq!(hub.get(path, Some(secret)).await.status, 403, "{path}");
    }
    // A caller who may add evidence may also convert a trace.
    let adapted = hub.post(&format!("/api/v1/adapt/langgraph?score={id}"), Some(secret), &trace()).await;
    assert_eq!((adapted.status, &adapted.body["events"][0]["voice_name"]), (200, &json!("Policy")));
    // Unknown fields are reported, not ignored.
    let mut misspelt = score();
    misspelt["voices"][0]["authority"]["forbiden_actions"] = json!(["pay"]);
    let told = hub.ask("PUT", &at, Some(secret), &misspelt).await;
    assert_eq!(told.body["unknown"], json!(["voices[0].authority.forbiden_actions"]), "{}", told.text);

    let (ann, eve) = (hub.account("ann@example.org").await, hub.account("eve@example.org").await);
    let claim = format!("{at}/claim");
    assert_eq!(hub.post(&claim, Some(&eve), &json!({"edit_link": "es_wrong"})).await.status, 404);
    assert_eq!(hub.post(&claim, Some(&ann), &json!({"edit_link": link})).await.status, 200);
    // The link stops working at once, and cannot be claimed again.
    let dead = hub.ask("PUT", &at, Some(secret), &score()).await;
    assert!(dead.status == 401 || dead.status == 404, "{}", dead.text);
    assert_eq!(hub.post(&claim, Some(&eve), &json!({"edit_link": link})).await.status, 404);
    assert_eq!(hub.get(&at, Some(&ann)).await.body["claimed"], true);
    let id = receipt.body["receipt_id"].as_str().unwrap();
    assert_eq!(hub.get(&format!("/api/v1/receipts/{id}"), None).await.status, 200);
}

/// A former holder of the link may still have secrets made with it.
#[tokio::test]
async fn signing_secrets_end_when_a_score_is_claimed() {
    let set = |config: &mut chorus_hub::Config| config.anonymous_scores = true;
    for hub in [Setup::new().config(set).start(), Setup::postgres().config(set).start()] {
        let answer = hub.post(SCORES, None, &score()).await;
        let link = answer.body["edit_link"].as_str().unwrap();
        let at = format!("{SCORES}/{}", answer.body["score_id"].as_str().unwrap());
        let (old, path) = secret(&hub, &at, link.rsplit('/').next().unwrap()).await;
        let submit = async |secret: &str, bundle: &Value| {
            let mut request = hub.request(reqwest::Method::POST, &path, None);
            for (name, value) in headers(secret, now(), bundle) {
                request = request.header(name, value);
            }
            crate::support::Answer::of(request.body(bundle.to_string())).await
        };
        assert_eq!(submit(&old, &warned()).await.status, 202);
        let ann = hub.account("ann@example.org").await;
        let claimed = hub.post(&format!("{at}/claim"), Some(&ann), &json!({"edit_link": link})).await;
        assert_eq!(claimed.status, 200, "{}", claimed.text);
        submit(&old, &warned()).await.own_failure(Code::Unauthorized);
        assert_eq!(hub.get(&at, Some(&ann)).await.body["signing_secrets"], json!([]));
        let (new, _) = secret(&hub, &at, &ann).await;
        assert_eq!(submit(&new, &warned()).await.status, 200);
    }
}

#[tokio::test]
async fn without_the_setting_a_score_needs_an_account() {
    let hub = TestHub::start();
    hub.post(SCORES, None, &score()).await.own_failure(Code::Unauthorized);
    let agent = hub.register("a").await;
    hub.post(SCORES, Some(&agent), &score()).await.own_failure(Code::Forbidden);
}

/// Anonymous callers have no namespace for idempotency keys, so nobody gets a stranger's link.
#[tokio::test]
async fn a_strangers_key_shows_no_link() {
    let hub = Setup::new().config(|config| config.anonymous_scores = true).start();
    let ask = async || {
        let request =
            hub.request(reqwest::Method::POST, SCORES, None).header("idempotency-key", "1").json(&score());
        crate::support::Answer::of(request).await.body["edit_link"].clone()
    };
    assert_ne!(ask().await, ask().await);
}

#[tokio::test]
async fn section_12_asserted_evidence_says_so() {
    let hub = TestHub::start();
    let ann = hub.account("ann@example.org").await;
    let at = format!("{}/evidence", made(&hub, &ann).await);
    let taken = hub.post(&at, Some(&ann), &warned()).await;
    assert_eq!((taken.status, &taken.body["verification_status"]), (201, &json!("user_asserted")));
    assert_eq!(taken.body["bundle_sha256"], chorus_protocol::canonical::hash(&warned()));
    let again = hub.post(&at, Some(&ann), &warned()).await;
    assert_eq!(
        (&again.body["duplicate"], &again.body["evidence_id"]),
        (&json!(true), &taken.body["evidence_id"])
    );
    let wrong = bundle(&json!({"event_type": "harmony", "detail": "x".repeat(501)}));
    let told = hub.post(&at, Some(&ann), &wrong).await;
    let told = told.own_failure(Code::Validation);
    assert!(told.contains("events[0].event_type") && told.contains("events[0].detail"), "{told}");
    // Evidence classes that only the hub can establish are refused from clients.
    let mut forged = warned();
    forged["adapter"] = json!({"id": "chorus.hub.v1", "version": "1"});
    hub.post(&at, Some(&ann), &forged).await.own_failure(Code::Validation);
}

#[tokio::test]
async fn a_trace_is_converted_and_nothing_of_it_is_kept() {
    let hub = TestHub::start();
    let ann = hub.account("ann@example.org").await;
    let at = made(&hub, &ann).await;
    let score = at.rsplit('/').next().unwrap();
    let path = format!("/api/v1/adapt/langgraph?run_id=r7&score={score}");
    let converted = hub.post(&path, Some(&ann), &trace()).await;
    assert_eq!(converted.status, 200, "{}", converted.text);
    assert_eq!(converted.body["adapter"]["id"], "langgraph.stream.v1");
    assert_eq!(converted.body["events"][0]["event_type"], "tool_call");
    assert_eq!(converted.body["events"][0]["voice_name"], "Policy");
    assert_eq!(converted.body["run_id"], "r7");
    assert!(!converted.text.contains("hunter2-secret"));
    // The converted bundle is valid evidence.
    assert_eq!(hub.post(&format!("{at}/evidence"), Some(&ann), &converted.body).await.status, 201);
    let disk = hub.bytes_on_disk();
    assert!(!disk.windows(14).any(|window| window == b"hunter2-secret"));
    // Parameters add what a trace lacks: the scenario, and the voice of unnamed events.
    let said = format!("/api/v1/adapt/openai?score={score}&scenario=over-limit&voice=policy");
    let call = json!([{"type": "function_call", "name": "look_up", "call_id": "c"}]);
    let converted = hub.post(&said, Some(&ann), &call).await;
    assert_eq!(converted.body["scenario_id"], "over-limit", "{}", converted.text);
    assert_eq!(converted.body["events"][0]["voice_name"], "Policy");
    for unknown in ["scenario=elsewhere", "voice=Nobody"] {
        let path = format!("/api/v1/adapt/openai?score={score}&{unknown}");
        hub.post(&path, Some(&ann), &call).await.own_failure(Code::Validation);
    }
    hub.post("/api/v1/adapt/abacus", Some(&ann), &trace()).await.own_failure(Code::Validation);
    hub.post("/api/v1/adapt/auto", Some(&ann), &json!(7)).await.own_failure(Code::Validation);
    let eve = hub.account("eve@example.org").await;
    let foreign = format!("/api/v1/adapt/auto?score={score}");
    hub.post(&foreign, Some(&eve), &trace()).await.own_failure(Code::NotFound);
}

#[tokio::test]
async fn scenarios_and_rules_are_for_everybody() {
    let hub = TestHub::start();
    let scenarios = hub.get("/api/v1/scenarios", None).await;
    assert!(scenarios.body["items"].as_array().unwrap().len() >= 20);
    let rules = hub.get("/api/public/rules", None).await;
    assert_eq!(rules.header("access-control-allow-origin"), "*");
    let digest = chorus_protocol::canonical::hash(&rules.body);
    let ann = hub.account("ann@example.org").await;
    let at = made(&hub, &ann).await;
    let paper: Value = hub.post(&format!("{at}/rehearse"), Some(&ann), &json!({})).await.body;
    assert_eq!(paper["payload"]["rules_digest"], digest);
}

/// Scores that nobody owns count for no account, so their bytes count for the address they come from.
#[tokio::test]
async fn bytes_of_unowned_scores_count_for_their_address() {
    let set = |config: &mut chorus_hub::Config| {
        config.anonymous_scores = true;
        config.rate_limit = Some(60_000);
        config.quotas.registration_bytes = 10_000;
    };
    for setup in [Setup::new(), Setup::postgres()] {
        let hub = setup.config(set).start();
        let made = hub.post(SCORES, None, &score()).await;
        assert_eq!(made.status, 201, "{}", made.text);
        let at = format!("{SCORES}/{}", made.body["score_id"].as_str().unwrap());
        let link = made.body["edit_link"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        let (signing, ingest) = secret(&hub, &at, &link).await;
        let large = |n: u32| {
            let event =
                json!({"event_type": "ignored_warning", "voice_name": "Policy", "detail": "x".repeat(500)});
            let mut evidence = bundle(&event);
            evidence["run_id"] = json!(format!("run-{n}"));
            evidence
        };
        let mut taken = 0;
        let refused = loop {
            let evidence = large(taken);
            let answer = hub.post(&format!("{at}/evidence"), Some(&link), &evidence).await;
            if answer.status != 201 {
                break answer;
            }
            taken += 1;
            assert!(taken < 100, "the number of bundles is not what ends it");
        };
        let why = refused.own_failure(Code::RateLimited);
        assert!(why.contains("CHORUS_QUOTA_REGISTRATION_BYTES"), "{why}");
        assert_eq!(hub.ask("PUT", &at, Some(&link), &score()).await.status, 429);
        let signed = headers(&signing, now(), &large(taken));
        let signed = signed
            .into_iter()
            .fold(hub.request(reqwest::Method::POST, &ingest, None), |request, (name, value)| {
                request.header(name, value)
            });
        assert_eq!(crate::support::Answer::of(signed.json(&large(taken))).await.status, 429);
        // Scores of accounts count for the account.
        let ann = hub.account("ann@example.org").await;
        assert_eq!(hub.post(SCORES, Some(&ann), &score()).await.status, 201);
    }
}
