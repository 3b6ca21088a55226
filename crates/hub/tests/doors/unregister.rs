//! Unregistering: who may do it, what ends with it, and that a later agent of the same name inherits nothing.

use crate::support::{HOST, OPERATOR, TestHub, envelope, eventually};
use chorus_protocol::code::Code;
use chorus_testkit::receiver::FakeAgent;
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn oneself() {
    let hub = TestHub::start();
    let key = hub.register("alice").await;
    let mut inbox = hub.inbox(&key, None).await;
    let answer = hub.delete("/agents/ALICE@chorus", Some(&key)).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.data(), &json!({"agent_id": format!("alice@{HOST}"), "removed": true}));
    assert_eq!(inbox.rest().await, []);
    hub.get("/agent/messages", Some(&key)).await.failure(Code::Unauthorized);
    hub.get("/agents/alice", None).await.failure(Code::AgentNotFound);
    assert_eq!(hub.get("/agents", None).await.data(), &json!([]));
}

#[tokio::test]
async fn somebody_else() {
    let hub = TestHub::start();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    hub.delete("/agents/bob", Some(&alice)).await.failure(Code::Forbidden);
    hub.delete("/agents/bob", None).await.failure(Code::Unauthorized);
    hub.delete("/agents/bob", Some("ca_wrong")).await.failure(Code::Unauthorized);
    assert_eq!(hub.get("/agent/messages", Some(&bob)).await.status, 200);
    assert_eq!(hub.delete("/agents/bob", Some(OPERATOR)).await.data()["removed"], true);
    hub.get("/agent/messages", Some(&bob)).await.failure(Code::Unauthorized);
}

#[tokio::test]
async fn nobody() {
    let hub = TestHub::start();
    let alice = hub.register("alice").await;
    let absent = "00000000-0000-4000-8000-000000000000";
    for key in [&*alice, OPERATOR] {
        for name in ["nobody", "nobody@chorus", "alice@elsewhere.example", absent] {
            let answer = hub.delete(&format!("/agents/{name}"), Some(key)).await;
            assert_eq!((answer.status, &answer.data()["removed"]), (200, &json!(false)), "{name}");
        }
        hub.delete("/agents/a%20b", Some(key)).await.failure(Code::Validation);
    }
    assert_eq!(hub.get("/agents/alice", None).await.status, 200);
}

#[tokio::test]
async fn by_id() {
    let hub = TestHub::start();
    let alice = hub.post("/register", None, &json!({"agent_id": "alice"})).await;
    let id = alice.data()["registration"]["id"].as_str().unwrap();
    let path = format!("/agents/{id}");
    assert_eq!(hub.delete(&path, Some(OPERATOR)).await.data()["removed"], true);
    assert_eq!(hub.delete(&path, Some(OPERATOR)).await.data()["removed"], false);
}

/// A later agent of the same name inherits no messages, read positions, keys, idempotency keys or turns.
#[tokio::test]
async fn whoever_takes_the_name_next_inherits_nothing() {
    let hub = TestHub::start();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let mut turn = envelope("alice", "turn");
    (turn["conversation_id"], turn["turn_number"]) = (json!("c"), json!(1));
    for text in ["one", "two"] {
        hub.send(&alice, "alice", "bob", text).await;
    }
    let mut inbox = hub.inbox(&bob, None).await;
    assert_eq!(inbox.texts(2).await, ["one", "two"]);
    drop(inbox);
    eventually(async || hub.online("bob").await, |online| !online).await;
    assert_eq!(hub.send_envelope(&alice, "bob", &turn).await.outcome(), (202, "queued"));

    let id = hub.get("/agents/bob", None).await.data()["id"].clone();
    hub.delete("/agents/bob", Some(&bob)).await;
    hub.send(&alice, "alice", "bob", "to nobody").await.failure(Code::AgentNotFound);
    let heir = hub.register("BOB").await;
    assert_ne!(hub.get("/agents/bob", None).await.data()["id"], id);
    assert_ne!(heir, bob);
    hub.get("/agent/messages", Some(&bob)).await.failure(Code::Unauthorized);
    assert_eq!(hub.history(&heir).await, [] as [Value; 0]);

    let mut inbox = hub.inbox(&heir, None).await;
    inbox.assert_quiet().await;
    assert_eq!(
        hub.send(&alice, "alice", "bob", "first of the new life").await.outcome(),
        (200, "delivered_sse")
    );
    assert_eq!(inbox.texts(1).await, ["first of the new life"]);
    let again = hub.send_envelope(&alice, "bob", &turn).await;
    assert_eq!(again.outcome(), (200, "delivered_sse"), "the turn went to another agent");
    assert_eq!(inbox.texts(1).await, ["turn"]);
}

/// A client that kept its cursor across the deletion misses nothing of the new agent's messages.
#[tokio::test]
async fn a_place_of_a_former_life_passes_over_nothing() {
    let hub = TestHub::start();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    for text in ["one", "two"] {
        hub.send(&alice, "alice", "bob", text).await;
    }
    let mut inbox = hub.inbox(&bob, None).await;
    let (first, _) = inbox.message().await;
    let (last, _) = inbox.message().await;
    hub.delete("/agents/bob", Some(&bob)).await;
    let heir = hub.register("bob").await;
    for text in ["three", "four", "five"] {
        hub.send(&alice, "alice", "bob", text).await;
    }
    let mut inbox = hub.inbox(&heir, Some(&last.to_string())).await;
    assert_eq!(inbox.texts(3).await, ["three", "four", "five"]);
    let mut inbox = hub.inbox(&heir, Some(&first.to_string())).await;
    inbox.event("gap").await;
    assert_eq!(inbox.texts(3).await, ["three", "four", "five"]);
    let page = hub.get(&format!("/agent/messages?after={last}"), Some(&heir)).await;
    assert_eq!(page.data().as_array().unwrap().len(), 3);
}

/// Messages of a deleted agent stay readable for their receivers.
#[tokio::test]
async fn what_was_said_stays_said() {
    let hub = TestHub::start();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    hub.send(&alice, "alice", "bob", "before I go").await;
    hub.delete("/agents/alice", Some(&alice)).await;
    hub.send(&bob, "bob", "alice", "are you there?").await.failure(Code::AgentNotFound);
    let mut inbox = hub.inbox(&bob, None).await;
    let (_, message) = inbox.message().await;
    assert_eq!(message["sender_id"], format!("alice@{HOST}"));
    assert_eq!(hub.history(&bob).await.len(), 1);
}

/// Deleting ends the inbox even if the caller disconnected before the response.
#[tokio::test]
async fn a_request_given_up_still_takes_full_effect() {
    let hub = TestHub::start();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let (mut deleted, mut rotated) = (hub.inbox(&alice, None).await, hub.inbox(&bob, None).await);
    let release = hub.block_writes().await;
    let delete = tokio::spawn(hub.request(Method::DELETE, "/agents/alice", Some(&alice)).send());
    let register = hub.request(Method::POST, "/register", Some(&bob)).json(&json!({"agent_id": "bob"}));
    let register = tokio::spawn(register.send());
    eventually(async || hub.store().queued(), |queued| *queued >= 2).await;
    delete.abort();
    register.abort();
    // The hub sees both connections closed before the store continues.
    let connections = async || {
        let metrics = hub.get("/metrics", Some(OPERATOR)).await.text;
        let line = metrics.lines().find(|line| line.starts_with("chorus_connections ")).unwrap().to_owned();
        line.rsplit(' ').next().unwrap().parse::<u32>().unwrap()
    };
    eventually(connections, |open| *open <= 3).await;
    drop(release);
    assert_eq!(deleted.rest().await, []);
    assert_eq!(rotated.rest().await, []);
    for key in [&alice, &bob] {
        hub.get("/agent/messages", Some(key)).await.failure(Code::Unauthorized);
    }
}

/// A deleted agent's webhook gets no more POSTs.
#[tokio::test]
async fn a_webhook_goes_with_its_agent() {
    let (hub, receiver) = (TestHub::start(), FakeAgent::start().await);
    let alice = hub.register("alice").await;
    let bob = hub.register_webhook("bob", &receiver.url()).await;
    hub.delete("/agents/bob", Some(&bob)).await;
    hub.register("bob").await;
    assert_eq!(hub.send(&alice, "alice", "bob", "hi").await.outcome(), (202, "queued"));
    assert_eq!(receiver.requests().len(), 0);
}
