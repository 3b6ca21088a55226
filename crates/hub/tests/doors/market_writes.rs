//! What data must look like is found out before anything is written: whoever writes does not wait for a check, and a check that
//! is out of date is made again.

use crate::market::{assert_balanced, registration, trader};
use crate::market_jobs::job;
use crate::support::TestHub;
use chorus_protocol::code::Code;
use serde_json::json;
use std::time::Duration;

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
            tokio::time::sleep(Duration::from_millis(1000)).await;
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
