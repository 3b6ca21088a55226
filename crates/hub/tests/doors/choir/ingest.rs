//! Section 15: signed evidence, and every reason to refuse it.

use super::{bundle, issued, made, secret, warned};
use crate::support::{Answer, Setup, TestHub};
use chorus_hub::Environment;
use chorus_protocol::canonical;
use chorus_protocol::code::Code;
use chorus_testkit::clock::ManualClock;
use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::Method;
use serde_json::{Value, json};

/// Computes a signature as a client would, independently of the tested code.
pub(crate) fn signature(secret: &str, timestamp: i64, body: &str) -> String {
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("{timestamp}.{body}").as_bytes());
    canonical::hex(&mac.finalize().into_bytes())
}

pub(crate) fn now() -> i64 {
    Environment::system().now() / 1000
}

pub(crate) fn headers(secret: &str, timestamp: i64, bundle: &Value) -> [(&'static str, String); 3] {
    [
        ("X-Agentic-Choir-Signature", signature(secret, timestamp, &canonical::text(bundle))),
        ("X-Agentic-Choir-Timestamp", timestamp.to_string()),
        ("X-Agentic-Choir-Secret-Prefix", secret[..12].to_owned()),
    ]
}

pub(super) async fn send(hub: &TestHub, path: &str, headers: &[(&str, String)], body: String) -> Answer {
    let mut request = hub.request(Method::POST, path, None).header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    Answer::of(request.body(body)).await
}

#[tokio::test]
async fn section_15_a_signed_bundle_is_taken_once_and_makes_a_verified_receipt() {
    for hub in [TestHub::start(), TestHub::postgres()] {
        let ann = hub.account("ann@example.org").await;
        let at = made(&hub, &ann).await;
        let (secret, path) = secret(&hub, &at, &ann).await;
        let (bundle, time) = (warned(), now());
        // The spelling of the JSON does not matter, even with U+0000 in it.
        let spelled = serde_json::to_string_pretty(&bundle).unwrap();
        let taken = send(&hub, &path, &headers(&secret, time, &bundle), spelled.clone()).await;
        assert_eq!(
            (taken.status, &taken.body["verification_status"]),
            (202, &json!("signature_valid")),
            "{}",
            taken.text
        );
        assert_eq!(taken.body["bundle_sha256"], canonical::hash(&bundle));
        let again = send(&hub, &path, &headers(&secret, time + 1, &bundle), spelled).await;
        assert_eq!((again.status, &again.body["duplicate"]), (200, &json!(true)));
        assert_eq!(again.body["evidence_id"], taken.body["evidence_id"]);
        let nul =
            super::bundle(&json!({"event_type": "voice_entry", "voice_name": "Policy", "detail": "a\u{0}b"}));
        let with_prefix = headers(&secret, time, &nul).map(|(name, value)| match name {
            "X-Agentic-Choir-Signature" => (name, format!("sha256={value}")),
            _ => (name, value),
        });
        assert_eq!(send(&hub, &path, &with_prefix, nul.to_string()).await.status, 202);

        // Asserted evidence does not weaken it: a receipt uses only the strongest class.
        let asserted = bundle_of("Drafter");
        assert_eq!(hub.post(&format!("{at}/evidence"), Some(&ann), &asserted).await.status, 201);
        let receipt = issued(&hub, &at, &ann).await;
        assert_eq!(receipt["payload"]["label"], "Verified Observed Choir Receipt");
        let evidence = &receipt["payload"]["evidence"];
        assert_eq!(evidence["bundles"].as_array().unwrap().len(), 2);
        assert!(evidence["statement"].as_str().unwrap().contains("payload integrity at submission time"));
        assert_eq!(receipt["payload"]["verdict"], "not_ready");
        assert_eq!(receipt["payload"]["left_out"]["bundles"][0]["why"], "weaker_class");
    }
}

fn bundle_of(voice: &str) -> Value {
    bundle(&json!({"event_type": "voice_entry", "voice_name": voice}))
}

#[tokio::test]
async fn every_refusal_of_signed_evidence() {
    let hub = TestHub::start();
    let ann = hub.account("ann@example.org").await;
    let at = made(&hub, &ann).await;
    let (secret, path) = secret(&hub, &at, &ann).await;
    let (bundle, time) = (warned(), now());
    let (good, text) = (headers(&secret, time, &bundle), bundle.to_string());

    let large = send(&hub, &path, &good, format!("\"{}\"", "x".repeat(256 * 1024))).await;
    large.own_failure(Code::TooLarge);
    send(&hub, "/api/public/evidence/nowhere", &good, text.clone()).await.own_failure(Code::NotFound);
    for broken in ["{", r#"{"a":1,"a":2}"#, r#"{"n":9007199254740993}"#, r#"{"n":1e21}"#] {
        send(&hub, &path, &good, broken.into()).await.own_failure(Code::Validation);
    }
    for left_out in 0..3 {
        let some: Vec<_> =
            good.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, one)| one.clone()).collect();
        let refused = send(&hub, &path, &some, text.clone()).await;
        assert!(refused.own_failure(Code::Unauthorized).contains(good[left_out].0));
    }
    for stale in [time - 302, time + 310] {
        let refused = send(&hub, &path, &headers(&secret, stale, &bundle), text.clone()).await;
        assert!(refused.own_failure(Code::Unauthorized).contains("300 s from now"));
    }
    let mut odd = good.clone();
    odd[1].1 = format!("+{time}");
    send(&hub, &path, &odd, text.clone()).await.own_failure(Code::Unauthorized);

    // A wrong signature and an unknown prefix get the same response.
    let mut forged = good.clone();
    forged[0].1 = "0".repeat(64);
    let mut unknown = good.clone();
    unknown[2].1 = "acs_AAAAAAAA".into();
    let (bad, none) =
        (send(&hub, &path, &forged, text.clone()).await, send(&hub, &path, &unknown, text.clone()).await);
    assert_eq!((bad.status, &bad.text), (none.status, &none.text));
    bad.own_failure(Code::Unauthorized);
    assert_eq!(bad.body["error"].get("details"), None);

    // A client that signed the raw bytes holds the secret, so the error explains the mistake.
    let pretty = serde_json::to_string_pretty(&bundle).unwrap();
    let mut raw = good.clone();
    raw[0].1 = signature(&secret, time, &pretty);
    let helped = send(&hub, &path, &raw, pretty).await;
    helped.own_failure(Code::Unauthorized);
    assert!(helped.body["error"]["details"]["hint"].as_str().unwrap().contains("sign the canonical form"));

    // A signed body must still be a bundle.
    let wrong = json!({"schema": "choir.evidence.v2"});
    send(&hub, &path, &headers(&secret, time, &wrong), wrong.to_string()).await.own_failure(Code::Validation);

    // A revoked secret is refused like an unknown one.
    let revoke = format!("{at}/signing-secrets/{}", &secret[..12]);
    assert_eq!(hub.delete(&revoke, Some(&ann)).await.status, 204);
    let revoked = send(&hub, &path, &good, text).await;
    assert_eq!((revoked.status, revoked.text), (none.status, none.text));
}

#[tokio::test]
async fn secrets_of_an_account_that_is_kept_out_or_gone_sign_nothing() {
    let operator = Some(crate::support::OPERATOR);
    for hub in [TestHub::start(), TestHub::postgres()] {
        let (ann, ben) = (hub.account("ann@example.org").await, hub.account("ben@example.org").await);
        let at = made(&hub, &ann).await;
        let (signing, path) = secret(&hub, &at, &ann).await;
        let (other, others) = secret(&hub, &made(&hub, &ben).await, &ben).await;
        let bundle = bundle_of("Policy");
        let send = async |secret: &str, path: &str| {
            send(&hub, path, &headers(secret, now(), &bundle), bundle.to_string()).await
        };
        let unknown = send(&format!("acs_AAAAAAAA{}", &signing[12..]), &path).await;
        let change = async |what: &str| {
            let path = format!("/api/v1/operator/accounts/ann@example.org/{what}");
            assert_eq!(hub.post(&path, operator, &json!({})).await.status, 200);
        };
        change("disable").await;
        let refused = send(&signing, &path).await;
        assert_eq!((refused.status, &refused.text), (unknown.status, &unknown.text), "as if there were none");
        change("enable").await;
        assert_eq!(send(&signing, &path).await.status, 202, "nothing of it is lost");
        let gone = hub.delete("/api/v1/me?confirm=ann@example.org", Some(&ann)).await;
        assert_eq!(gone.status, 204, "{}", gone.text);
        send(&signing, &path).await.own_failure(Code::Unauthorized);
        assert_eq!(send(&other, &others).await.status, 202, "another account's are its own");
    }
}

#[tokio::test]
async fn a_secret_is_shown_once_and_kept_nowhere() {
    let hub = TestHub::start();
    let ann = hub.account("ann@example.org").await;
    let at = made(&hub, &ann).await;
    let (first, path) = secret(&hub, &at, &ann).await;
    let (second, same) = secret(&hub, &at, &ann).await;
    assert_ne!(first, second);
    assert_eq!(path, same, "all secrets of a Score share its address");
    let shown = hub.get(&at, Some(&ann)).await;
    assert!(!shown.text.contains(&first) && shown.text.contains(&first[..12]));
    // Both secrets are valid, so that one can replace the other without an interruption.
    for (secret, voice) in [(&first, "Policy"), (&second, "Drafter")] {
        let bundle = bundle_of(voice);
        assert_eq!(send(&hub, &path, &headers(secret, now(), &bundle), bundle.to_string()).await.status, 202);
    }
    let disk = hub.bytes_on_disk();
    assert!(!disk.windows(first.len()).any(|window| window == first.as_bytes()));
}

#[tokio::test]
async fn an_address_takes_twenty_at_once_and_sixty_a_minute() {
    let clock = ManualClock::new(1_800_000_000_000);
    let hub = Setup::new().clock(&clock).config(|config| config.rate_limit = Some(6000)).start();
    let ann = hub.account("ann@example.org").await;
    let at = made(&hub, &ann).await;
    let (secret, path) = secret(&hub, &at, &ann).await;
    let bundle = bundle_of("Policy");
    let good = headers(&secret, 1_800_000_000, &bundle);
    for _ in 0..20 {
        let status = send(&hub, &path, &good, bundle.to_string()).await.status;
        assert!(status == 202 || status == 200);
    }
    let refused = send(&hub, &path, &good, bundle.to_string()).await;
    refused.own_failure(Code::RateLimited);
    assert_eq!(refused.header("retry-after"), "1");
    clock.advance(1_000);
    assert_eq!(send(&hub, &path, &good, bundle.to_string()).await.status, 200);
    send(&hub, &path, &good, bundle.to_string()).await.own_failure(Code::RateLimited);
}

/// Invalid requests of strangers limit only the strangers, not the holders of a secret.
#[tokio::test]
async fn a_stranger_keeps_nobody_else_out() {
    let clock = ManualClock::new(1_800_000_000_000);
    let set = |config: &mut chorus_hub::Config| {
        config.rate_limit = Some(6000);
        config.trusted_proxies = chorus_hub::TrustedProxies::parse("127.0.0.0/8").unwrap();
    };
    let hub = Setup::new().clock(&clock).config(set).start();
    let ann = hub.account("ann@example.org").await;
    let at = made(&hub, &ann).await;
    let (secret, path) = secret(&hub, &at, &ann).await;
    let bundle = bundle_of("Policy");
    let good = headers(&secret, 1_800_000_000, &bundle);
    let from = |client: &str| [("x-forwarded-for", client.to_owned())];
    let mut last = 0;
    for n in 0..30 {
        // A network of 64 bits counts as one stranger; neither a broken body nor a forged signature gets
        // further.
        let (mut stranger, body) = (from(&format!("2001:db8::{n}")).to_vec(), ["x", "{}"][n % 2]);
        stranger.extend(good.iter().filter(|_| n % 3 == 0).cloned());
        last = send(&hub, &path, &stranger, body.into()).await.status;
    }
    assert_eq!(last, 429);
    let owners = [from("192.0.2.1").to_vec(), good.to_vec()].concat();
    for _ in 0..20 {
        let taken = send(&hub, &path, &owners, bundle.to_string()).await;
        assert!(taken.status == 202 || taken.status == 200, "{}", taken.text);
    }
    // Signed requests count for the Score, wherever they come from.
    let moved = [from("192.0.2.2").to_vec(), good.to_vec()].concat();
    send(&hub, &path, &moved, bundle.to_string()).await.own_failure(Code::RateLimited);
}

/// Receipts publish evidence, so text that looks like a provider's key is masked. The hash covers the signed
/// form.
#[tokio::test]
async fn credentials_in_evidence_and_scores_are_masked() {
    let hub = TestHub::start();
    let ann = hub.account("ann@example.org").await;
    let key = format!("sk-ant-api03-{}", "Ab3".repeat(31));
    let mut score = super::score();
    score["scenarios"][0]["prompt"] = json!(format!("pay with {key}"));
    let answer = hub.post(super::SCORES, Some(&ann), &score).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    let kinds = answer.body["masked"].clone();
    assert_eq!(kinds.as_array().map(Vec::len), Some(1), "{}", answer.text);
    let at = format!("{}/{}", super::SCORES, answer.body["score_id"].as_str().unwrap());
    let changed = hub.ask("PUT", &at, Some(&ann), &score).await;
    assert_eq!((changed.status, &changed.body["masked"]), (200, &kinds));

    let (secret, path) = secret(&hub, &at, &ann).await;
    let leaking = bundle(
        &json!({"event_type": "voice_entry", "voice_name": "Policy", "detail": format!("used {key}")}),
    );
    for status in [202, 200] {
        let taken = send(&hub, &path, &headers(&secret, now(), &leaking), leaking.to_string()).await;
        assert_eq!((taken.status, &taken.body["masked"]), (status, &kinds), "{}", taken.text);
        assert_eq!(taken.body["bundle_sha256"], canonical::hash(&leaking));
    }
    let receipt = issued(&hub, &at, &ann).await;
    let evidence = &receipt["payload"]["evidence"];
    assert_eq!(evidence["bundles"][0]["bundle_sha256"], canonical::hash(&leaking), "{evidence}");
    let masked = format!("[redacted: {}]", kinds[0].as_str().unwrap());
    let id = receipt["receipt_id"].as_str().unwrap();
    let public = hub.get(&format!("/api/public/verify/{id}"), None).await;
    assert_eq!(public.body["match"], true);
    for text in [receipt.to_string(), public.text, hub.get(&at, Some(&ann)).await.text] {
        assert!(!text.contains(&key) && text.contains(&masked), "{text}");
    }
    let disk = hub.bytes_on_disk();
    assert!(!disk.windows(key.len()).any(|window| window == key.as_bytes()));
}

/// An unknown scenario counts for none: the response says so at once, signed or not, also when repeated.
#[tokio::test]
async fn evidence_that_names_what_the_score_does_not_have_says_so() {
    let hub = TestHub::start();
    let ann = hub.account("ann@example.org").await;
    let at = made(&hub, &ann).await;
    let (secret, path) = secret(&hub, &at, &ann).await;
    assert!(hub.post(&format!("{at}/evidence"), Some(&ann), &warned()).await.body.get("warnings").is_none());
    let key = format!("sk-ant-api03-{}", "Ab3".repeat(31));
    let mut lost = bundle(&json!({"event_type": "voice_entry", "voice_name": key}));
    lost["scenario_id"] = json!("elsewhere");
    for status in [201, 201, 202, 200] {
        let taken = if status == 201 {
            hub.post(&format!("{at}/evidence"), Some(&ann), &lost).await
        } else {
            send(&hub, &path, &headers(&secret, now(), &lost), lost.to_string()).await
        };
        let codes: Vec<_> = taken.body["warnings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["code"].as_str().unwrap())
            .collect();
        assert_eq!(
            (taken.status, codes),
            (status, vec!["unknown_scenario", "unknown_voice"]),
            "{}",
            taken.text
        );
        assert_eq!(taken.body["warnings"][0]["path"], "scenario_id");
        assert!(!taken.text.contains(&key), "{}", taken.text);
    }
}
