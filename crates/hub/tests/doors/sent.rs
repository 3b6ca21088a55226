//! The outcomes of envelopes, as their senders see them.

use crate::support::{OPERATOR, Setup, TestHub, eventually, members};
use chorus_protocol::code::Code;
use chorus_testkit::clock::ManualClock;
use chorus_testkit::receiver::{FakeAgent, Reply};
use serde_json::Value;

/// Returns the rungs of a sent envelope.
fn rungs(sent: &Value) -> Vec<&str> {
    sent["rungs"].as_array().unwrap().iter().map(|rung| rung["rung"].as_str().unwrap()).collect()
}

async fn one(hub: &TestHub, key: &str, trace: &str) -> Value {
    hub.get(&format!("/agent/sent/{trace}"), Some(key)).await.data().clone()
}

async fn send(hub: &TestHub, key: &str, to: &str) -> String {
    let sent = hub.send(key, "alice", to, "a secret").await;
    sent.data()["trace_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn queued_then_handed_with_its_time() {
    let clock = ManualClock::new(1_774_000_800_000);
    let hub = Setup::new().clock(&clock).start();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let trace = send(&hub, &alice, "bob").await;
    let sent = one(&hub, &alice, &trace).await;
    assert_eq!(members(&sent), ["delivery", "receiver_id", "rungs", "sender_id", "timestamp", "trace_id"]);
    assert_eq!((rungs(&sent), &sent["delivery"]), (vec!["stored"], &"queued".into()));
    assert_eq!(sent["rungs"][0]["at"], sent["timestamp"]);

    clock.advance(60_000);
    let mut inbox = hub.inbox(&bob, None).await;
    inbox.texts(1).await;
    let later = send(&hub, &alice, "bob").await;
    inbox.texts(1).await;
    // The read position of an inbox is written a moment later.
    let handed = |sent: &Value| rungs(sent) == ["stored", "handed"];
    let sent = eventually(async || one(&hub, &alice, &trace).await, handed).await;
    assert_eq!(sent["delivery"], "delivered_sse");
    assert!(sent["rungs"][1]["at"].as_str() > sent["rungs"][0]["at"].as_str(), "{sent}");
    eventually(async || one(&hub, &alice, &later).await, handed).await;
}

#[tokio::test]
async fn delivered_and_failed() {
    let hub = TestHub::start();
    let (good, bad) = (FakeAgent::start().await, FakeAgent::start().await);
    bad.set(Reply::Text(500, "no".into()));
    let alice = hub.register("alice").await;
    hub.register_webhook("good", &good.url()).await;
    hub.register_webhook("bad", &bad.url()).await;
    let (took, refused) = (send(&hub, &alice, "good").await, send(&hub, &alice, "bad").await);
    assert_eq!(rungs(&one(&hub, &alice, &took).await), ["stored", "delivered"]);
    let failed = one(&hub, &alice, &refused).await;
    assert_eq!(rungs(&failed), ["stored", "failed"]);
    assert!(failed["rungs"][1]["reason"].as_str().unwrap().contains("500"), "{failed}");
}

#[tokio::test]
async fn pages_from_the_newest_back() {
    let hub = TestHub::start();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let mut traces = vec![];
    for _ in 0..5 {
        traces.push(send(&hub, &alice, "bob").await);
    }
    traces.reverse();
    let (mut found, mut path) = (vec![], "/agent/sent?limit=2".to_owned());
    loop {
        let page = hub.get(&path, Some(&alice)).await;
        found.extend(
            page.data().as_array().unwrap().iter().map(|sent| sent["trace_id"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page.body["metadata"]["next"].as_str() else { break };
        path = format!("/agent/sent?limit=2&after={next}");
    }
    assert_eq!(found, traces);
    hub.get("/agent/sent?after=x", Some(&alice)).await.failure(Code::Validation);

    // Outcomes are visible to the sender, and as metadata to the operator, but not to the receiver or anybody
    // else.
    assert_eq!(hub.get("/agent/sent", Some(&bob)).await.data(), &Value::Array(vec![]));
    hub.get(&format!("/agent/sent/{}", traces[0]), Some(&bob)).await.failure(Code::NotFound);
    hub.get("/agent/sent/x", Some(&alice)).await.failure(Code::NotFound);
    let seen = hub.get("/agent/sent?sender=alice", Some(OPERATOR)).await;
    assert_eq!(seen.data().as_array().unwrap().len(), 5);
    assert!(!seen.text.contains("a secret"));
    hub.get("/agent/sent", Some(OPERATOR)).await.failure(Code::Validation);
    hub.get("/agent/sent?sender=nobody", Some(OPERATOR)).await.failure(Code::AgentNotFound);
}
