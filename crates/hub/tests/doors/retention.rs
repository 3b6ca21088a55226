//! Messages are kept as long as the hub and the channel say; deleted history leaves a mark.

use crate::market::{trader, trader_at};
use crate::market_jobs::{hire, job, success, text};
use crate::support::{SOON, Setup, TestHub, eventually};
use chorus_store::TxExt as _;
use chorus_testkit::clock::ManualClock;
use chorus_testkit::receiver::{FakeAgent, Reply};
use serde_json::{Value, json};
use std::time::Duration;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

async fn contents(hub: &TestHub, channel: &str, key: &str) -> Vec<String> {
    let log = hub.log(channel, key, "kind=message").await;
    log.iter().map(|event| event["content"].as_str().unwrap().to_owned()).collect()
}

async fn old_words_go(setup: Setup, clock: ManualClock, keep: Value) {
    let hub = setup.clock(&clock).start();
    let anna = hub.account("anna@example.org").await;
    let channel = hub.channel(&anna, &json!({"name": "c"})).await;
    if !keep.is_null() {
        let changed = hub.ask("PATCH", &channel, Some(&anna), &json!({"keep_days": keep})).await;
        assert_eq!(changed.body["keep_days"], keep, "{}", changed.text);
    }
    hub.post(&format!("{channel}/artifacts"), Some(&anna), &json!({"slug": "notes", "content": "kept"}))
        .await;
    hub.say(&channel, &anna, &json!({"content": "old words"})).await;
    let last = hub.say(&channel, &anna, &json!({"content": "more old words"})).await;
    clock.advance(DAY_MS / 2);
    hub.say(&channel, &anna, &json!({"content": "new words"})).await;
    clock.advance(DAY_MS / 2 + 1000);
    let left = eventually(async || contents(&hub, &channel, &anna).await, |left| left.len() == 1).await;
    assert_eq!(left, ["new words"]);

    // A reader that resumes from an earlier position learns of the gap.
    let oldest = last["sequence"].as_i64().unwrap() + 1;
    assert_eq!(hub.get(&channel, Some(&anna)).await.body["oldest"], oldest);
    let mut stream = hub.follow(&channel, &anna, Some("1")).await;
    assert_eq!(stream.event("gap").await, json!({"after": 1, "oldest": oldest}));
    assert_eq!(stream.event("message").await["content"], "new words");
    // Deleted messages are not found any more, and a document stays.
    let found = hub.get("/api/v1/search?q=words", Some(&anna)).await;
    assert_eq!(found.body["items"].as_array().unwrap().len(), 1, "{}", found.text);
    let document = hub.get(&format!("{channel}/artifacts/notes"), Some(&anna)).await;
    assert_eq!(document.body["content"], "kept");
    // The channel continues.
    hub.say(&channel, &anna, &json!({"content": "newer words"})).await;
    assert_eq!(contents(&hub, &channel, &anna).await.len(), 2);
}

fn clock() -> ManualClock {
    ManualClock::new(1_774_000_800_000)
}

#[tokio::test]
async fn as_the_hub_says() {
    let setup = Setup::new().config(|config| config.retention = Some(Duration::from_hours(24)));
    old_words_go(setup, clock(), Value::Null).await;
}

#[tokio::test]
async fn as_the_channel_says() {
    old_words_go(Setup::new(), clock(), json!(1)).await;
}

#[tokio::test]
async fn as_the_channel_says_on_postgres() {
    old_words_go(Setup::postgres(), clock(), json!(1)).await;
}

/// An open job outlives the retention time, until its client knows the result.
#[tokio::test]
async fn an_open_job_is_kept() {
    let clock = clock();
    let setup = Setup::new().config(|config| config.retention = Some(Duration::from_hours(24)));
    let hub = setup.clock(&clock).start();
    let (agent, listener) = (FakeAgent::start().await, FakeAgent::start().await);
    agent.set(Reply::Json(202, json!({})));
    let boss = trader(&hub, "boss", 1).await;
    let worker = trader_at(&hub, "worker", 0, Some(&format!("http://{}/jobs", agent.addr()))).await;
    let mut one = job(1, &worker.id);
    one["deadline_ms"] = json!(5 * DAY_MS);
    one["callback_url"] = json!(format!("http://{}/results", listener.addr()));
    hire(&hub, &boss.key, &one).await;
    let given = agent.wait_for(1, SOON).await.remove(0).body;
    let events = async || {
        let count = |tx: &mut dyn chorus_store::Tx| {
            let mut row = tx.first("SELECT COUNT(*) AS count FROM events", &[])?.unwrap();
            row.int("count")
        };
        hub.store().read::<_, chorus_store::StoreError, _>(count).await.unwrap()
    };
    // Other old data is deleted.
    let (anna, bob) = (hub.register("anna").await, hub.register("bob").await);
    hub.send(&anna, "anna", "bob", "hi").await;
    assert_eq!(events().await, 2);
    hub.inbox(&bob, None).await.message().await;
    clock.advance(2 * DAY_MS);
    eventually(events, |left| *left == 1).await;

    let callback = text(&given["callback_url"]).strip_prefix(&hub.url).unwrap().to_owned();
    let reported = hub.post(&callback, None, &success(&one)).await;
    assert_eq!(reported.status, 200, "{}", reported.text);
    let told = listener.wait_for(1, SOON).await.remove(0).body;
    assert_eq!((&told["status"], &told["job_id"]), (&json!("SUCCESS"), &one["job_id"]));
    // Afterwards it is deleted like everything else.
    clock.advance(2 * DAY_MS);
    eventually(events, |left| *left == 0).await;
}
