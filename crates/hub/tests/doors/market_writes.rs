//! Data is validated before the write transaction begins: writers do not wait for a check, and an outdated
//! check is repeated.

use crate::market::{assert_balanced, balance, registration, trader};
use crate::market_jobs::job;
use crate::support::{Answer, OPERATOR, Setup, TestHub, eventually, on_both};
use chorus_protocol::code::Code;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

on_both![
    a_registration_that_comes_again_gives_the_same_keys,
    offers_are_asked_for_once_under_one_key,
    a_job_is_asked_for_once_under_one_key,
    credits_move_once_under_one_key,
];

const KEY: &str = "0b5a5a9c-5d3a-4f6e-9d4e-2f1f4c7f3a10";

async fn again(hub: &TestHub, path: &str, key: Option<&str>, idempotency: &str, body: &Value) -> Answer {
    let request = hub.request(Method::POST, path, key).header("idempotency-key", idempotency);
    Answer::of(request.json(body)).await
}

/// Both keys are shown once, so a retry of the registration returns the same keys.
async fn a_registration_that_comes_again_gives_the_same_keys(setup: Setup) {
    let hub = setup.start();
    let new = registration("lost", "lost-owner", "0.10");
    let first = again(&hub, "/market/register", None, KEY, &new).await;
    let second = again(&hub, "/market/register", None, KEY, &new).await;
    assert_eq!((first.status, second.status), (201, 201), "{} {}", first.text, second.text);
    assert!(first.body["api_key"].is_string() && first.body["owner_key"].is_string(), "{}", first.text);
    assert_eq!((&second.body, second.header("idempotent-replayed")), (&first.body, "true"));
    again(&hub, "/market/register", None, KEY, &registration("lost", "lost-owner", "0.20"))
        .await
        .own_failure(Code::IdempotencyConflict);
    // A guessable idempotency key returns no secret to anybody.
    let new = registration("other", "other-owner", "0.10");
    assert_eq!(again(&hub, "/market/register", None, "1", &new).await.status, 201);
    again(&hub, "/market/register", None, "1", &new).await.own_failure(Code::Unauthorized);
}

async fn offers_are_asked_for_once_under_one_key(setup: Setup) {
    let hub = setup.start();
    let (boss, _worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let ask = json!({"skill_name": "analyze_text", "input_data": {"text": "x"}});
    let first = again(&hub, "/market/quotes", Some(&boss.key), "k", &ask).await;
    let second = again(&hub, "/market/quotes", Some(&boss.key), "k", &ask).await;
    assert_eq!((first.status, second.status), (201, 201), "{} {}", first.text, second.text);
    assert_eq!(second.body["quote_id"], first.body["quote_id"]);
    let other = again(&hub, "/market/quotes", Some(&boss.key), "l", &ask).await;
    assert_ne!(other.body["quote_id"], first.body["quote_id"]);
}

/// A job is created once per idempotency key, with or without a `job_id`, whatever happened to its agent
/// since.
async fn a_job_is_asked_for_once_under_one_key(setup: Setup) {
    let hub = setup.start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let named = job(1, &worker.id);
    let mut unnamed = named.clone();
    unnamed.as_object_mut().unwrap().remove("job_id");
    for (key, body) in [("k", &unnamed), ("l", &named)] {
        let first = again(&hub, "/market/jobs", Some(&boss.key), key, body).await;
        let second = again(&hub, "/market/jobs", Some(&boss.key), key, body).await;
        assert_eq!((first.status, second.status), (202, 202), "{} {}", first.text, second.text);
        assert_eq!((&second.body, second.header("idempotent-replayed")), (&first.body, "true"));
        let mut other = body.clone();
        other["budget"] = json!(0.2);
        let refused = again(&hub, "/market/jobs", Some(&boss.key), key, &other).await;
        refused.own_failure(Code::IdempotencyConflict);
    }
    assert_eq!(balance(&hub, &boss.owner).await, (json!(0.7), json!(0.3)));
    // The same key of another caller is another key.
    let third = trader(&hub, "third", 1).await;
    let hired = again(&hub, "/market/jobs", Some(&third.key), "k", &unnamed).await;
    assert_eq!((hired.status, hired.header("idempotent-replayed")), (202, ""));
    // The result is repeated, although nobody could be hired now.
    let path = format!("/market/agents/{}", worker.id);
    assert_eq!(hub.delete(&path, Some(&worker.key)).await.status, 200);
    let late = again(&hub, "/market/jobs", Some(&boss.key), "k", &unnamed).await;
    assert_eq!((late.status, late.header("idempotent-replayed")), (202, "true"), "{}", late.text);
    assert_balanced(&hub).await;
}

/// The other writes of the market happen once per idempotency key as well.
async fn credits_move_once_under_one_key(setup: Setup) {
    let hub = setup.start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let pay = |n: u32| {
        json!({
            "transfer_id": format!("f81d4fae-7dec-11d0-a765-1{n:011}"), "from_owner": boss.owner,
            "to_owner": worker.owner, "amount": 0.1
        })
    };
    let transfer = async |n: u32| again(&hub, "/market/transfer", Some(&boss.owner_key), "k", &pay(n)).await;
    let (first, second) = (transfer(1).await, transfer(1).await);
    assert_eq!(
        (first.status, &second.body, second.header("idempotent-replayed")),
        (200, &first.body, "true")
    );
    transfer(2).await.own_failure(Code::IdempotencyConflict);
    assert_eq!(balance(&hub, &worker.owner).await.0, 0.1);

    let ask = json!({"skill_name": "analyze_text", "input_data": {"text": "x"}, "answer_ms": 0});
    let quote = hub.post("/market/quotes", Some(&boss.key), &ask).await.body;
    let path = format!("/market/quotes/{}/accept", quote["quote_id"].as_str().unwrap());
    let accept = json!({"agent_id": worker.id});
    let taken = again(&hub, &path, Some(&boss.key), "k", &accept).await;
    let twice = again(&hub, &path, Some(&boss.key), "k", &accept).await;
    assert_eq!((taken.status, &twice.body, twice.header("idempotent-replayed")), (202, &taken.body, "true"));

    let path = format!("/market/jobs/{}/cancel", taken.body["job_id"].as_str().unwrap());
    let ended = again(&hub, &path, Some(&boss.key), "k", &json!({})).await;
    let twice = again(&hub, &path, Some(&boss.key), "k", &json!({})).await;
    assert_eq!((ended.status, &twice.body, twice.header("idempotent-replayed")), (200, &ended.body, "true"));

    let path = format!("/market/wallets/{}/key/reset", boss.owner);
    let new = again(&hub, &path, Some(OPERATOR), "k", &json!({})).await;
    let twice = again(&hub, &path, Some(OPERATOR), "k", &json!({})).await;
    assert_eq!((new.status, &twice.body, twice.header("idempotent-replayed")), (200, &new.body, "true"));
    assert_balanced(&hub).await;
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
    // The same without a named agent.
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
            // The request is validated before the change and written after it.
            tokio::time::sleep(Duration::from_millis(300)).await;
            hub.post("/market/jobs", Some(&boss.key), &wanted).await
        };
        let ends = async {
            eventually(async || hub.store().queued(), |queued| *queued >= 2).await;
            drop(held);
        };
        let (changed, hired, ()) = tokio::join!(changes, hires, ends);
        assert_eq!((changed.status, hired.status), (200, *status), "{} {}", changed.text, hired.text);
        // The schema is changed back.
        other["skills"][0]["input_schema"] = json!({"text": "string"});
        assert_eq!(hub.post("/market/register", Some(&worker.key), &other).await.status, 200);
    }
    assert_balanced(&hub).await;
}
