//! Open items and their answers, bundles that supersede, and receipts that are signed once.

use super::ingest::{headers, now, send};
use super::{bundle, issued, made, secret, warned};
use crate::support::TestHub;
use chorus_choir::merkle::leaf_hash;
use chorus_protocol::canonical::{self, hex};
use chorus_protocol::code::Code;
use chorus_store::{StoreError, Tx};
use serde_json::{Value, json};

/// Returns a bundle with a warning of unknown reach, as adapters write it.
fn open() -> Value {
    bundle(&json!({"event_type": "warning", "voice_name": "Policy"}))
}

fn superseding(bundle: &Value) -> Value {
    let mut newer = open();
    newer["events"][0]["reached_output"] = json!(true);
    newer["supersedes"] = json!(canonical::hash(bundle));
    newer
}

#[tokio::test]
async fn a_bundle_that_supersedes_replaces_the_earlier_one() {
    for hub in [TestHub::start(), TestHub::postgres()] {
        let ann = hub.account("ann@example.org").await;
        let at = made(&hub, &ann).await;
        let evidence = format!("{at}/evidence");
        let first = hub.post(&evidence, Some(&ann), &open()).await.body;
        assert_eq!(issued(&hub, &at, &ann).await["payload"]["open_items"][0]["kind"], "warning_not_attested");
        let taken = hub.post(&evidence, Some(&ann), &superseding(&open())).await;
        assert_eq!(taken.status, 201, "{}", taken.text);
        let receipt = issued(&hub, &at, &ann).await;
        assert_eq!(receipt["payload"]["open_items"], json!([]));
        let section = &receipt["payload"]["evidence"];
        assert_eq!(section["superseded"], json!([canonical::hash(&open())]));
        assert_eq!(receipt["payload"]["left_out"]["bundles"][0]["why"], "superseded");
        // It cannot be chosen, nor superseded twice.
        let chosen = json!({"evidence": [first["evidence_id"]]});
        let refused = hub.post(&format!("{at}/receipts"), Some(&ann), &chosen).await;
        assert!(refused.own_failure(Code::Validation).contains("is superseded by"));
        let mut third = superseding(&open());
        third["run_id"] = json!("r3");
        let refused = hub.post(&evidence, Some(&ann), &third).await;
        assert!(
            refused.own_failure(Code::Validation).contains("supersedes: that bundle is superseded already")
        );
        let refused = hub.post(&evidence, Some(&ann), &superseding(&json!({"a": 1}))).await;
        assert!(
            refused
                .own_failure(Code::Validation)
                .contains("supersedes: this version of the Score has no bundle")
        );
    }
}

#[tokio::test]
async fn a_signed_bundle_is_superseded_with_its_own_secret_only() {
    let hub = TestHub::start();
    let ann = hub.account("ann@example.org").await;
    let at = made(&hub, &ann).await;
    let ((one, path), (other, _)) = (secret(&hub, &at, &ann).await, secret(&hub, &at, &ann).await);
    let signed = async |secret: &str, body: &Value| {
        send(&hub, &path, &headers(secret, now(), body), body.to_string()).await
    };
    assert_eq!(signed(&one, &open()).await.status, 202);
    let newer = superseding(&open());
    hub.post(&format!("{at}/evidence"), Some(&ann), &newer).await.own_failure(Code::Validation);
    signed(&other, &newer).await.own_failure(Code::Validation);
    // After the secret was revoked, any other will do.
    let revoked =
        hub.ask("DELETE", &format!("{at}/signing-secrets/{}", &one[..12]), Some(&ann), &json!({})).await;
    assert_eq!(revoked.status, 204);
    assert_eq!(signed(&other, &newer).await.status, 202);
    assert_eq!(issued(&hub, &at, &ann).await["payload"]["evidence"]["bundles"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn open_items_are_answered_by_a_record() {
    for hub in [TestHub::start(), TestHub::postgres()] {
        let ann = hub.account("ann@example.org").await;
        let at = made(&hub, &ann).await;
        let evidence = format!("{at}/evidence");
        hub.post(&evidence, Some(&ann), &open()).await;
        let record = |answer: Value| json!({"schema": "choir.answers.v1", "bundle_sha256": canonical::hash(&open()), "answers": [answer]});
        let answered = record(json!({"event": 0, "reached_output": true}));
        let taken = hub.post(&evidence, Some(&ann), &answered).await;
        assert_eq!((taken.status, &taken.body["duplicate"]), (201, &json!(false)), "{}", taken.text);
        let again = hub.post(&evidence, Some(&ann), &answered).await;
        assert_eq!(again.body["duplicate"], true);
        let receipt = issued(&hub, &at, &ann).await;
        let section = &receipt["payload"]["evidence"];
        assert_eq!(receipt["payload"]["open_items"], json!([]));
        assert_eq!(section["events"][0]["answered"], true);
        assert_eq!(section["answers"][0]["answers_sha256"], canonical::hash(&answered));
        assert!(chorus_choir::verify::verify(&receipt, None).is_ok());
        let other = record(json!({"event": 0, "reached_output": false}));
        hub.post(&evidence, Some(&ann), &other).await.own_failure(Code::Conflict);
        for wrong in [
            record(json!({"event": 3, "reached_output": false})),
            record(json!({"event": 0, "voice_name": "Drafter"})),
            json!({"schema": "choir.answers.v1", "bundle_sha256": "0".repeat(64), "answers": [{"event": 0, "reached_output": true}]}),
        ] {
            hub.post(&evidence, Some(&ann), &wrong).await.own_failure(Code::Validation);
        }
    }
}

/// The signatures over a receipt are made when it is issued. A row that somebody changed gets none.
#[tokio::test]
async fn a_receipt_is_signed_once_and_read_against_the_log() {
    let hub = TestHub::start();
    let ann = hub.account("ann@example.org").await;
    let at = made(&hub, &ann).await;
    hub.post(&format!("{at}/evidence"), Some(&ann), &warned()).await;
    let issued = issued(&hub, &at, &ann).await;
    let id = issued["receipt_id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/receipts/{id}");
    let change = async |sql: &'static str, text: String| {
        let id = id.clone();
        let work = move |tx: &mut dyn Tx| tx.execute(sql, &[id.as_str().into(), text.as_str().into()]);
        hub.store().write::<_, StoreError, _>(work).await.unwrap();
    };
    assert_eq!(hub.get(&path, None).await.body["attestation"], issued["attestation"]);
    // A receipt from before envelopes were kept is signed at its first reading.
    change("UPDATE receipts SET attestation = NULL WHERE id = $1 AND label <> $2", "x".into()).await;
    assert_eq!(hub.get(&path, None).await.body["attestation"], issued["attestation"]);

    let leaves = hub.get("/api/v1/log/leaves", None).await.body;
    let leaf = chorus_choir::verify::leaf(&issued);
    assert_eq!(leaves["leaves"], json!([hex(&leaf_hash(leaf.as_bytes()))]));
    assert_eq!((&leaves["size"], &leaves["from"]), (&json!(1), &json!(0)));

    let mut payload = issued["payload"].clone();
    payload["verdict"] = json!("ready");
    change("UPDATE receipts SET payload = $2 WHERE id = $1", canonical::text(&payload)).await;
    change("UPDATE receipts SET payload_hash = $2 WHERE id = $1", canonical::hash(&payload)).await;
    let public = hub.get(&format!("/api/public/verify/{id}"), None).await.body;
    assert_eq!((&public["match"], &public["payload_hash"]), (&json!(false), &public["recomputed_hash"]));
    assert!(hub.get(&path, None).await.body["attestation"].is_null());
    hub.get(&format!("{path}/attestation"), None).await.own_failure(Code::Conflict);
    hub.get(&format!("{path}/attestation?predicate=test_result"), None).await.own_failure(Code::Conflict);
    for page in [format!("/verify/{id}"), format!("/receipts/{id}")] {
        let page = hub.get(&page, None).await.text;
        assert!(
            page.contains("This is not what was issued") && !page.contains("This is the original"),
            "{page}"
        );
    }
}
