//! PostgreSQL: the same doors, and two hubs on one database that act as one.

use crate::channel_fixture::ChannelFixture;
use crate::held_receiver::HeldReceiver;
use crate::support::{Answer, OPERATOR, Setup, TestHub, envelope, eventually, text_of};
use chorus_protocol::code::Code;
use chorus_protocol::ids::AgentId;
use chorus_store::{StoreError, Tx, TxExt};
use chorus_testkit::clock::ManualClock;
use chorus_testkit::receiver::{FakeAgent, Reply};
use chorus_testkit::sse::SseClient;
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// The longest time until another node reacts to a notification.
const PROMPTLY: Duration = Duration::from_secs(2);

#[tokio::test]
async fn the_same_on_postgres() {
    let (hub, receiver) = (TestHub::postgres(), FakeAgent::start().await);
    assert_eq!(hub.get("/health", None).await.data()["store"]["kind"], "postgres");
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    hub.register_webhook("hook", &receiver.url()).await;
    hub.post("/register", None, &json!({"agent_id": "ALICE"})).await.failure(Code::AgentIdTaken);
    assert_eq!(hub.send(&alice, "alice", "bob", "1").await.outcome(), (202, "queued"));
    let mut inbox = hub.inbox(&bob, None).await;
    assert_eq!(hub.send(&alice, "alice", "bob", "2").await.outcome(), (200, "delivered_sse"));
    assert_eq!(inbox.texts(2).await, ["1", "2"]);
    assert_eq!(hub.send(&alice, "alice", "hook", "3").await.outcome(), (200, "delivered"));
    receiver.set(Reply::Json(500, json!({})));
    assert_eq!(hub.send(&alice, "alice", "hook", "4").await.outcome(), (200, "failed"));
    let body = json!({"receiver_id": "bob", "envelope": envelope("alice", "keyed")});
    let keyed =
        || hub.request(Method::POST, "/messages", Some(&alice)).header("idempotency-key", "k").json(&body);
    let first = Answer::of(keyed()).await;
    let again = Answer::of(keyed()).await;
    assert_eq!((again.data(), again.header("idempotent-replayed")), (first.data(), "true"));
    assert_eq!(hub.history(&bob).await.iter().map(text_of).collect::<Vec<_>>(), ["1", "2", "keyed"]);
    assert_eq!(hub.get("/agents?limit=2", None).await.body["metadata"]["next"], "bob");
    assert_eq!(hub.delete("/agents/bob", Some(OPERATOR)).await.data()["removed"], true);
    assert_eq!(inbox.texts(1).await, ["keyed"]);
    assert_eq!(inbox.rest().await, []);
    let hub = hub.restart(|_| {}).await;
    assert_eq!(hub.get("/agents", None).await.data().as_array().unwrap().len(), 2);
}

/// Sequence numbers, duplicates and unique names hold under concurrency.
#[tokio::test]
async fn many_at_once_on_postgres() {
    let hub = TestHub::postgres();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let body = json!({"agent_id": "wanted"});
    let names = join_all((0..10).map(|_| hub.post("/register", None, &body))).await;
    assert_eq!(names.iter().filter(|answer| answer.status == 201).count(), 1);
    assert_eq!(names.iter().filter(|answer| answer.status == 409).count(), 9);
    let mut inbox = hub.inbox(&bob, None).await;
    let sends =
        join_all((0..100).map(async |n| hub.send(&alice, "alice", "bob", &n.to_string()).await)).await;
    assert!(sends.iter().all(|answer| answer.outcome() == (200, "delivered_sse")));
    let mut texts = vec![];
    for expected in 1..=100 {
        let (id, message) = inbox.message().await;
        assert_eq!(id, expected, "no gap and no repetition");
        texts.push(text_of(&message).parse::<u32>().unwrap());
    }
    texts.sort_unstable();
    assert_eq!(texts, (0..100).collect::<Vec<_>>());
}

fn two_nodes() -> (TestHub, TestHub) {
    let setup = Setup::postgres();
    (setup.start(), setup.start())
}

#[tokio::test]
async fn a_message_crosses_nodes() {
    let (a, b) = two_nodes();
    let (alice, bob) = (a.register("alice").await, a.register("bob").await);
    let mut inbox = b.inbox(&bob, None).await;
    for n in 0..5 {
        let begun = Instant::now();
        assert_eq!(a.send(&alice, "alice", "bob", &n.to_string()).await.outcome(), (200, "delivered_sse"));
        assert_eq!(inbox.texts(1).await, [n.to_string()]);
        assert!(begun.elapsed() < PROMPTLY, "{:?}", begun.elapsed());
    }
    assert!(a.online("bob").await);
    assert_eq!(a.history(&bob).await.len(), 5);
    drop(inbox);
    eventually(async || a.online("bob").await, |online| !online).await;
    assert_eq!(a.send(&alice, "alice", "bob", "later").await.outcome(), (202, "queued"));
}

#[tokio::test]
async fn a_takeover_crosses_nodes() {
    let (a, b) = two_nodes();
    let (alice, bob) = (a.register("alice").await, a.register("bob").await);
    let mut old = b.inbox(&bob, None).await;
    a.send(&alice, "alice", "bob", "1").await;
    assert_eq!(old.texts(1).await, ["1"]);
    let mut new = a.inbox(&bob, old.sse.last_id()).await;
    let begun = Instant::now();
    old.event("takeover").await;
    assert!(begun.elapsed() < PROMPTLY, "{:?}", begun.elapsed());
    assert_eq!(old.rest().await, []);
    assert_eq!(b.send(&alice, "alice", "bob", "2").await.outcome(), (200, "delivered_sse"));
    assert_eq!(new.texts(1).await, ["2"]);
    assert!(b.online("bob").await, "the old one's end does not close the new one");
}

#[tokio::test]
async fn a_dead_key_is_dead_everywhere() {
    let (a, b) = two_nodes();
    let (alice, bob) = (a.register("alice").await, a.register("bob").await);
    let mut inbox = b.inbox(&bob, None).await;
    assert_eq!(b.get("/agent/messages", Some(&bob)).await.status, 200, "known at B");
    let rotated = a.post("/register", Some(&bob), &json!({"agent_id": "bob"})).await;
    let begun = Instant::now();
    a.get("/agent/messages", Some(&bob)).await.failure(Code::Unauthorized);
    eventually(async || b.get("/agent/messages", Some(&bob)).await.status, |status| *status == 401).await;
    inbox.rest().await;
    assert!(begun.elapsed() < PROMPTLY, "{:?}", begun.elapsed());
    assert_eq!(b.send(&alice, "alice", "bob", "for the new key").await.outcome(), (202, "queued"));
    let new = rotated.data()["api_key"].as_str().unwrap();
    assert_eq!(b.inbox(new, None).await.texts(1).await, ["for the new key"]);
}

/// A node that still caches a key replaced elsewhere opens no inbox for it.
#[tokio::test]
async fn a_dead_key_opens_no_inbox() {
    // On a stopped clock the cache never expires.
    let setup = Setup::postgres().clock(&ManualClock::new(1_774_000_800_000));
    let (a, b) = (setup.start(), setup.start());
    let bob = a.register("bob").await;
    assert_eq!(b.get("/agent/messages", Some(&bob)).await.status, 200, "known at B");
    a.post("/register", Some(&bob), &json!({"agent_id": "bob"})).await.data();
    let refused = SseClient::open(&format!("{}/agent/inbox", b.url), &bob, None).await;
    assert_eq!(refused.expect_err("the key is dead").0.as_u16(), 401);
    assert!(!a.online("bob").await);
}

/// Deleting an agent on one node ends its connections on the other.
#[tokio::test]
async fn a_deletion_crosses_nodes() {
    let (a, b) = two_nodes();
    let bob = a.register("bob").await;
    let mut inbox = b.inbox(&bob, None).await;
    a.delete("/agents/bob", Some(&bob)).await.data();
    inbox.rest().await;
    eventually(async || b.get("/agent/messages", Some(&bob)).await.status, |status| *status == 401).await;
    b.get("/agents/bob", None).await.failure(Code::AgentNotFound);
}

/// The first response is known on every node, and so is a request in progress.
#[tokio::test]
async fn idempotency_crosses_nodes() {
    let ((a, b), receiver) = (two_nodes(), HeldReceiver::start().await);
    let alice = a.register("alice").await;
    a.register_webhook("bob", receiver.url()).await;
    let body = json!({"receiver_id": "bob", "envelope": envelope("alice", "once")});
    let send = |hub: &TestHub| {
        let request = hub.request(Method::POST, "/messages", Some(&alice));
        Answer::of(request.header("idempotency-key", "k").json(&body))
    };
    let first = tokio::spawn(send(&a));
    receiver.wait_for_message().await;
    send(&b).await.failure(Code::IdempotencyInProgress);
    receiver.release();
    let first = first.await.unwrap();
    let again = send(&b).await;
    assert_eq!((again.data(), again.header("idempotent-replayed")), (first.data(), "true"));
    assert_eq!(receiver.count(), 1);
}

/// Locks an agent's stream, so that deliveries wait, until the returned value is dropped.
async fn hold_stream(hub: &TestHub, agent: Uuid) -> mpsc::Sender<()> {
    let (held, holds) = mpsc::channel();
    let (release, released) = mpsc::channel();
    let released = Mutex::new(released);
    let hold = move |tx: &mut dyn Tx| {
        tx.lock(AgentId(agent).into())?;
        held.send(()).ok();
        // The lock ends with the sender.
        released.lock().unwrap().recv().ok();
        Ok::<_, StoreError>(())
    };
    let store = hub.store().clone();
    tokio::spawn(async move { store.write(hold).await });
    tokio::task::spawn_blocking(move || holds.recv().unwrap()).await.unwrap();
    release
}

/// Returns the number of transactions that wait for another one.
async fn waiting(hub: &TestHub) -> i64 {
    let sql = "SELECT COUNT(*) AS count FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let count = move |tx: &mut dyn Tx| tx.first(sql, &[])?.unwrap().int("count");
    hub.store().read::<_, StoreError, _>(count).await.unwrap()
}

/// An agent deleted between look-up and delivery counts as missing, not as an error of the hub.
#[tokio::test]
async fn an_agent_that_is_deleted_while_it_is_delivered_to() {
    let fixture = ChannelFixture::on(&Setup::postgres()).await;
    let hub = &fixture.hub;
    let id = |agent: &Value| agent["agent_id"].as_str().unwrap().parse().unwrap();
    let unregister =
        |name: &str| Answer::of(hub.request(Method::DELETE, &format!("/agents/{name}"), Some(OPERATOR)));

    // A member that is deleted leaves after the message in progress.
    let bob = fixture.agent(&json!({"name": "bob"})).await;
    fixture.join(&fixture.channel, "bob").await;
    let path = format!("/api/v1/channels/{}", fixture.channel);
    let mention = hub.request(Method::POST, &format!("{path}/messages"), Some(&fixture.anna));
    let release = hold_stream(hub, id(&bob)).await;
    let saying = tokio::spawn(Answer::of(mention.json(&json!({"content": "@bob hello"}))));
    eventually(async || waiting(hub).await, |waiting| *waiting == 1).await;
    let deleting = tokio::spawn(unregister("bob"));
    eventually(async || waiting(hub).await, |waiting| *waiting == 2).await;
    drop(release);
    let said = saying.await.unwrap();
    assert_eq!((said.status, &said.body["attention"]["woken"]), (201, &json!(["bob"])), "{}", said.text);
    assert_eq!(deleting.await.unwrap().data()["removed"], true);
    let log = hub.log(&path, &fixture.anna, "after=2").await;
    assert_eq!(log.iter().map(|event| &event["kind"]).collect::<Vec<_>>(), ["message", "leave"]);

    let carl = fixture.agent(&json!({"name": "carl"})).await;
    let foreign = json!({"channel": {"id": "c"}, "message": {"id": "m", "sender": "s", "content": "x"},
        "callback": "https://elsewhere.example/callback"});
    let post = hub.client.post(carl["connection_string"].as_str().unwrap()).json(&foreign);
    let release = hold_stream(hub, id(&carl)).await;
    let delivering = tokio::spawn(Answer::of(post));
    eventually(async || waiting(hub).await, |waiting| *waiting == 1).await;
    assert_eq!(unregister("carl").await.data()["removed"], true);
    drop(release);
    delivering.await.unwrap().own_failure(Code::NotFound);
}
