//! The cost of a heartbeat, counted in writes.

use crate::market::trader;
use crate::support::{OPERATOR, TestHub};
use serde_json::json;

/// Returns the number of write transactions that the hub has begun.
async fn writes(hub: &TestHub) -> u64 {
    let figures = hub.get("/metrics", Some(OPERATOR)).await.text;
    let line = figures.lines().find_map(|line| line.strip_prefix("chorus_store_writes_total "));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{figures}"))
}

/// Heartbeats are written in batches; a message is written by itself.
#[tokio::test]
async fn a_heartbeat_is_no_write_of_its_own() {
    let hub = TestHub::start();
    let trader = trader(&hub, "worker", 0).await;
    let beat = json!({"agent_id": trader.id});
    let before = writes(&hub).await;
    for key in [&trader.key, &trader.owner_key] {
        for _ in 0..100 {
            assert_eq!(hub.post("/market/heartbeat", Some(key), &beat).await.status, 204);
        }
    }
    // The hub's own housekeeping may add writes on a slow machine.
    let written = writes(&hub).await - before;
    assert!(written < 100, "{written} writes for 200 signs of life");
    let before = writes(&hub).await;
    for _ in 0..100 {
        hub.post("/market/mint", Some(OPERATOR), &json!({"owner": trader.owner, "amount": 1})).await;
    }
    assert!(writes(&hub).await - before >= 100, "what must be written is counted");
}
