//! The inbox: pending messages come first and in order, each message once, with one reader at a time.

use crate::support::{Answer, HOST, SOON, Setup, TestHub, envelope, eventually, members, text_of};
use chorus_protocol::code::Code;
use chorus_testkit::clock::ManualClock;
use chorus_testkit::receiver::FakeAgent;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Starts a hub with `alice`, who sends, and `bob`, who receives.
async fn pair(setup: Setup) -> (TestHub, String, String) {
    let hub = setup.start();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    (hub, alice, bob)
}

async fn send_all(hub: &TestHub, alice: &str, texts: &[&str]) {
    for text in texts {
        assert!(hub.send(alice, "alice", "bob", text).await.status < 300);
    }
}

#[tokio::test]
async fn what_waits_comes_first_then_what_comes() {
    let (hub, alice, bob) = pair(Setup::new()).await;
    send_all(&hub, &alice, &["1", "2", "3"]).await;
    let mut inbox = hub.inbox(&bob, None).await;
    send_all(&hub, &alice, &["4", "5"]).await;
    let mut ids = vec![];
    for n in 1..=5 {
        let (id, message) = inbox.message().await;
        assert_eq!(text_of(&message), n.to_string());
        assert_eq!(
            members(&message),
            ["created_at", "envelope", "receiver_id", "sender_id", "timestamp", "trace_id"]
        );
        ids.push(id);
    }
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    inbox.assert_quiet().await;
}

#[tokio::test]
async fn the_greeting() {
    let hub = TestHub::start();
    let key = hub.register("Bob").await;
    let sse = chorus_testkit::sse::SseClient::open(&format!("{}/agent/inbox", hub.url), &key, None).await;
    let event = sse.unwrap().next(SOON).await.unwrap();
    assert_eq!((event.event.as_str(), event.id), ("connected", None));
    let data: Value = serde_json::from_str(&event.data).unwrap();
    assert_eq!(data, json!({"agent_id": format!("Bob@{HOST}"), "after": 0}));
}

/// With the last id a stream resumes exactly after it, any number of times.
#[tokio::test]
async fn resuming_by_id() {
    let (hub, alice, bob) = pair(Setup::new()).await;
    send_all(&hub, &alice, &["1", "2", "3", "4"]).await;
    let mut inbox = hub.inbox(&bob, None).await;
    let mut ids = vec![];
    for _ in 0..4 {
        ids.push(inbox.message().await.0.to_string());
    }
    for (seen, rest) in [(0, &["2", "3", "4"][..]), (2, &["4"]), (1, &["3", "4"]), (3, &[])] {
        let mut inbox = hub.inbox(&bob, Some(&ids[seen])).await;
        assert_eq!(inbox.after.to_string(), ids[seen]);
        assert_eq!(inbox.texts(rest.len()).await, rest);
        inbox.assert_quiet().await;
    }
    let mut inbox = hub.inbox(&bob, Some("0")).await;
    assert_eq!(inbox.texts(4).await, ["1", "2", "3", "4"], "0 is before everything");
    let mut inbox = hub.inbox(&bob, Some("")).await;
    inbox.assert_quiet().await;
}

/// A reader with a limit leaves the rest for the next one.
#[tokio::test]
async fn a_limit_leaves_the_rest_for_the_next() {
    let (hub, alice, bob) = pair(Setup::new()).await;
    send_all(&hub, &alice, &["1", "2", "3", "4"]).await;
    for expected in [&["1", "2"][..], &["3", "4"]] {
        let url = format!("{}/agent/inbox?limit=2", hub.url);
        let mut stream = chorus_testkit::sse::SseClient::open(&url, &bob, None).await.unwrap();
        assert_eq!(stream.next(SOON).await.unwrap().event, "connected");
        for text in expected {
            let event = stream.next(SOON).await.unwrap();
            assert_eq!(text_of(&serde_json::from_str(&event.data).unwrap()), *text);
        }
        assert!(stream.next(SOON).await.is_none() && stream.ended(), "it ends");
        eventually(async || hub.online("bob").await, |online| !online).await;
    }
    let answer = Answer::of(hub.request(Method::GET, "/agent/inbox?limit=0", Some(&bob))).await;
    assert!(answer.failure(Code::Validation).starts_with("limit: "), "{}", answer.text);
}

/// Without an id the stream starts after the last delivered entry, also after a restart.
#[tokio::test]
async fn without_an_id_nothing_comes_twice() {
    let (hub, alice, bob) = pair(Setup::new()).await;
    send_all(&hub, &alice, &["1", "2"]).await;
    let mut inbox = hub.inbox(&bob, None).await;
    assert_eq!(inbox.texts(2).await, ["1", "2"]);
    let mut second = hub.inbox(&bob, None).await;
    second.assert_quiet().await;
    drop((inbox, second));
    eventually(async || hub.online("bob").await, |online| !online).await;
    send_all(&hub, &alice, &["3"]).await;
    let mut third = hub.inbox(&bob, None).await;
    assert_eq!(third.texts(1).await, ["3"]);
    let hub = hub.restart(|_| {}).await;
    send_all(&hub, &alice, &["4"]).await;
    assert_eq!(hub.inbox(&bob, None).await.texts(1).await, ["4"]);
}

#[tokio::test]
async fn the_second_connection_takes_over() {
    let (hub, alice, bob) = pair(Setup::new()).await;
    let mut first = hub.inbox(&bob, None).await;
    send_all(&hub, &alice, &["1"]).await;
    assert_eq!(first.texts(1).await, ["1"]);
    let mut second = hub.inbox(&bob, None).await;
    let told = first.event("takeover").await;
    assert!(told["reason"].as_str().unwrap().contains("another connection"), "{told}");
    assert_eq!(first.rest().await, []);
    assert!(hub.online("bob").await, "the old one's end does not close the new one");
    assert_eq!(hub.send(&alice, "alice", "bob", "2").await.outcome(), (200, "delivered_sse"));
    assert_eq!(second.texts(1).await, ["2"]);
}

/// A HEAD request takes nothing from the current reader.
#[tokio::test]
async fn head_opens_nothing() {
    let (hub, alice, bob) = pair(Setup::new()).await;
    let head = || Answer::of(hub.request(Method::HEAD, "/agent/inbox", Some(&bob)));
    let answer = head().await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "text/event-stream"));
    assert!(!hub.online("bob").await);
    let mut inbox = hub.inbox(&bob, None).await;
    assert_eq!(head().await.status, 200);
    send_all(&hub, &alice, &["1"]).await;
    assert_eq!(inbox.texts(1).await, ["1"]);
    inbox.assert_quiet().await;
}

#[tokio::test]
async fn a_quiet_stream_shows_that_it_lives() {
    let (hub, alice, bob) =
        pair(Setup::new().config(|config| config.times.ping = Duration::from_millis(50))).await;
    let mut inbox = hub.inbox(&bob, None).await;
    while inbox.sse.comments().len() < 3 {
        assert_eq!(inbox.sse.next(Duration::from_millis(100)).await, None);
        assert!(!inbox.sse.ended());
    }
    assert_eq!(inbox.sse.comments()[..3], ["ping", "ping", "ping"]);
    send_all(&hub, &alice, &["1"]).await;
    assert_eq!(inbox.texts(1).await, ["1"]);
}

/// Presence appears in the directory and decides the route of a message.
#[tokio::test]
async fn presence() {
    let (hub, _, bob) = pair(Setup::new()).await;
    assert!(!hub.online("bob").await);
    let inbox = hub.inbox(&bob, None).await;
    assert!(hub.online("bob").await);
    assert_eq!(hub.get("/health", None).await.data()["open_inboxes"], 1);
    drop(inbox);
    eventually(async || hub.online("bob").await, |online| !online).await;
    eventually(async || hub.get("/health", None).await, |health| health.data()["open_inboxes"] == 0).await;
}

/// The history by cursor equals the stream, with the same ids.
#[tokio::test]
async fn history_and_stream_are_the_same() {
    let (hub, alice, bob) = pair(Setup::new()).await;
    let mut inbox = hub.inbox(&bob, None).await;
    let mut streamed = vec![];
    for n in 0..7 {
        send_all(&hub, &alice, &[&n.to_string()]).await;
        let (id, mut message) = inbox.message().await;
        (message["id"], message["kind"]) = (json!(id.to_string()), json!("message"));
        (message["delivery"], message["delivered_via"]) = (json!("delivered_sse"), json!("sse"));
        streamed.push(message);
    }
    assert_eq!(hub.history(&bob).await, streamed);

    let page = hub.get("/agent/messages?limit=3", Some(&bob)).await;
    assert_eq!(page.data().as_array().unwrap()[..], streamed[..3]);
    assert_eq!(page.body["metadata"]["next"], streamed[2]["id"]);
    let after =
        hub.get(&format!("/agent/messages?after={}", streamed[4]["id"].as_str().unwrap()), Some(&bob)).await;
    assert_eq!(
        (after.data(), after.body["metadata"].get("next")),
        (&json!(streamed[5..]), None),
        "an SSE id is a cursor"
    );
    let end =
        hub.get(&format!("/agent/messages?after={}", streamed[6]["id"].as_str().unwrap()), Some(&bob)).await;
    assert_eq!((end.data(), end.body["metadata"].get("next")), (&json!([]), None));
    assert_eq!(hub.get("/agent/messages", Some(&alice)).await.data(), &json!([]));
    hub.get("/agent/messages?after=x", Some(&bob)).await.failure(Code::Validation);
}

/// Received messages are delivered; pending ones are queued.
#[tokio::test]
async fn history_knows_what_was_handed() {
    let (hub, alice, bob) = pair(Setup::new()).await;
    send_all(&hub, &alice, &["1"]).await;
    assert_eq!(hub.history(&bob).await[0]["delivery"], "queued");
    let mut inbox = hub.inbox(&bob, None).await;
    inbox.message().await;
    eventually(async || hub.history(&bob).await, |all| all[0]["delivery"] == "delivered_sse").await;
}

/// Only the sender and the receiver can read a message.
#[tokio::test]
async fn nobody_reads_anothers_messages() {
    let (hub, alice, bob) = pair(Setup::new()).await;
    let carol = hub.register("carol").await;
    send_all(&hub, &alice, &["for bob only"]).await;
    assert_eq!(hub.history(&carol).await, [] as [Value; 0]);
    assert_eq!(hub.history(&bob).await.len(), 1);
    hub.get("/agent/messages", Some(crate::support::OPERATOR)).await.failure(Code::Forbidden);
    let mut inbox = hub.inbox(&carol, Some("0")).await;
    inbox.assert_quiet().await;
}

/// Deleted history is reported as a gap; undelivered messages are kept.
#[tokio::test]
async fn retention_leaves_a_gap() {
    let clock = ManualClock::new(1_774_000_800_000);
    let setup = Setup::new().clock(&clock).config(|config| config.retention = Some(Duration::from_hours(24)));
    let (hub, alice, bob) = pair(setup).await;
    assert_eq!(hub.get("/health", None).await.data()["retention_days"], 1);
    send_all(&hub, &alice, &["1", "2", "3"]).await;
    let mut inbox = hub.inbox(&bob, None).await;
    assert_eq!(inbox.texts(3).await, ["1", "2", "3"]);
    drop(inbox);
    eventually(async || hub.online("bob").await, |online| !online).await;
    send_all(&hub, &alice, &["4"]).await;

    clock.advance(2 * DAY_MS);
    // The step runs when a hub starts, and every ten seconds.
    let hub = hub.restart(|_| {}).await;
    let left = eventually(async || hub.history(&bob).await, |all| all.len() < 4).await;
    assert_eq!(left.iter().map(text_of).collect::<Vec<_>>(), ["4"]);
    let mut inbox = hub.inbox(&bob, Some("1")).await;
    let gap = inbox.event("gap").await;
    assert_eq!(gap, json!({"after": 1, "oldest": 4}));
    assert_eq!(inbox.texts(1).await, ["4"]);
    let mut inbox = hub.inbox(&bob, Some("3")).await;
    assert_eq!(inbox.texts(1).await, ["4"], "after the last one that is gone there is no gap");
}

/// A stop ends the streams first. Acknowledged messages are there after the restart.
#[tokio::test]
async fn a_stop_and_a_start() {
    let (hub, alice, bob) = pair(Setup::new().config(|config| config.times.drain = SOON)).await;
    let receiver = FakeAgent::start().await;
    hub.register_webhook("hook", &receiver.url()).await;
    let mut inbox = hub.inbox(&bob, None).await;
    send_all(&hub, &alice, &["1", "2"]).await;
    assert_eq!(inbox.texts(2).await, ["1", "2"]);
    let carol = hub.register("carol").await;
    for n in 0..20 {
        hub.send(&alice, "alice", "carol", &n.to_string()).await;
    }
    let (client, url) = (hub.client.clone(), hub.url.clone());
    let setup = hub.setup();
    let took = hub.stop().await;
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(inbox.rest().await, []);
    client.get(format!("{url}/health")).send().await.unwrap_err();

    let hub = setup.start();
    let expected: Vec<_> = (0..20).map(|n| n.to_string()).collect();
    assert_eq!(hub.inbox(&carol, None).await.texts(20).await, expected);
    let mut inbox = hub.inbox(&bob, inbox.sse.last_id()).await;
    assert_eq!(hub.send(&alice, "alice", "bob", "3").await.outcome(), (200, "delivered_sse"));
    assert_eq!(inbox.texts(1).await, ["3"]);
    assert_eq!(hub.history(&bob).await.len(), 3);
    assert_eq!(hub.send(&alice, "alice", "hook", "hi").await.outcome(), (200, "delivered"));
}

/// Text that would end an event early if it were not escaped.
#[tokio::test]
async fn text_cannot_forge_events() {
    let (hub, alice, bob) = pair(Setup::new()).await;
    let evil = "x\n\nevent: takeover\ndata: {}\r\rid: 99\r\n\r\n\u{2028}\u{85}";
    let mut inbox = hub.inbox(&bob, None).await;
    hub.send_envelope(&alice, "bob", &envelope("alice", evil)).await;
    let (id, message) = inbox.message().await;
    assert_eq!((id, text_of(&message).as_str()), (1, evil));
    inbox.assert_quiet().await;
}
