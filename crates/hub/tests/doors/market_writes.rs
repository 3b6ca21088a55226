//! What data must look like is found out before anything is written: whoever writes does not wait for a check, and a check that
//! is out of date is made again.

use crate::market::{assert_balanced, registration, trader};
use crate::market_jobs::job;
use crate::support::{Answer, TestHub};
use chorus_protocol::code::Code;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

const KEY: &str = "0b5a5a9c-5d3a-4f6e-9d4e-2f1f4c7f3a10";

async fn again(hub: &TestHub, path: &str, key: Option<&str>, idempotency: &str, body: &Value) -> Answer {
    let request = hub.request(Method::POST, path, key).header("idempotency-key", idempotency);
    Answer::of(request.json(body)).await
}

/// Both keys are shown once: whoever did not hear the answer would never reach its money.
#[tokio::test]
async fn a_registration_that_comes_again_gives_the_same_keys() {
    let hub = TestHub::start();
    let new = registration("lost", "lost-owner", "0.10");
    let first = again(&hub, "/market/register", None, KEY, &new).await;
    let second = again(&hub, "/market/register", None, KEY, &new).await;
    assert_eq!((first.status, second.status), (201, 201), "{} {}", first.text, second.text);
    assert!(first.body["api_key"].is_string() && first.body["owner_key"].is_string(), "{}", first.text);
    assert_eq!((&second.body, second.header("idempotent-replayed")), (&first.body, "true"));
    again(&hub, "/market/register", None, KEY, &registration("lost", "lost-owner", "0.20"))
        .await
        .own_failure(Code::IdempotencyConflict);
    // What somebody else might guess gives nobody a key.
    let new = registration("other", "other-owner", "0.10");
    assert_eq!(again(&hub, "/market/register", None, "1", &new).await.status, 201);
    again(&hub, "/market/register", None, "1", &new).await.own_failure(Code::Unauthorized);
}

#[tokio::test]
async fn offers_are_asked_for_once_under_one_key() {
    let hub = TestHub::start();
    let (boss, _worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let ask = json!({"skill_name": "analyze_text", "input_data": {"text": "x"}});
    let first = again(&hub, "/market/quotes", Some(&boss.key), "k", &ask).await;
    let second = again(&hub, "/market/quotes", Some(&boss.key), "k", &ask).await;
    assert_eq!((first.status, second.status), (201, 201), "{} {}", first.text, second.text);
    assert_eq!(second.body["quote_id"], first.body["quote_id"]);
    let other = again(&hub, "/market/quotes", Some(&boss.key), "l", &ask).await;
    assert_ne!(other.body["quote_id"], first.body["quote_id"]);
}

#[tokio::test]
async fn input_is_checked_while_nothing_can_be_written() {
    let hub = TestHub::start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let mut wrong = job(1, &worker.id);
    wrong["input_data"] = json!({"text": 7});
    let held = hub.block_writes().await;
    let refused = hub.post("/market/jobs", Some(&boss.key), &wrong).await;
    assert!(refused.own_failure(Code::Validation).contains("input_data.text"), "{}", refused.text);
    drop(held);
    // The same for one who is not named.
    wrong.as_object_mut().unwrap().remove("agent_id");
    hub.post("/market/jobs", Some(&boss.key), &wrong).await.own_failure(Code::Validation);
    assert_balanced(&hub).await;
}

#[tokio::test]
async fn an_offer_that_changed_meanwhile_is_looked_at_again() {
    let hub = TestHub::start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let mut other = registration("worker", &worker.owner, "0.10");
    other["agent_id"] = json!(worker.id);
    for (n, (schema, status)) in
        [(json!({"text": "integer"}), 400), (json!({"text": "any"}), 202)].iter().enumerate()
    {
        other["skills"][0]["input_schema"] = schema.clone();
        let held = hub.block_writes().await;
        let changes = hub.post("/market/register", Some(&worker.key), &other);
        let wanted = job(n as u32, &worker.id);
        let hires = async {
            // Looked at before the change, and written after it.
            tokio::time::sleep(Duration::from_millis(300)).await;
            hub.post("/market/jobs", Some(&boss.key), &wanted).await
        };
        let ends = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(held);
        };
        let (changed, hired, ()) = tokio::join!(changes, hires, ends);
        assert_eq!((changed.status, hired.status), (200, *status), "{} {}", changed.text, hired.text);
        // Back to what it was.
        other["skills"][0]["input_schema"] = json!({"text": "string"});
        assert_eq!(hub.post("/market/register", Some(&worker.key), &other).await.status, 200);
    }
    assert_balanced(&hub).await;
}
