//! Existing clients of the relay document run unchanged: they exchange their key for a session, refuse events
//! without a `timestamp`, and read the history as an array, by time.

use crate::support::{Answer, Setup, TestHub, text_of};
use chorus_protocol::code::Code;
use chorus_protocol::time::{parse_rfc3339, rfc3339};
use chorus_testkit::clock::ManualClock;
use chorus_testkit::receiver::FakeAgent;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

/// Checks a message as strictly as existing clients do.
fn check(message: &Value, names: &[&str]) {
    for name in names {
        assert!(message[*name].as_str().is_some_and(|text| !text.is_empty()), "{name}: {message}");
    }
    assert!(message["envelope"].is_object(), "{message}");
    assert!(parse_rfc3339(message["timestamp"].as_str().unwrap()).is_some(), "{message}");
}

async fn session(hub: &TestHub, key: &str) -> String {
    let answer = hub.request(Method::POST, "/agent/session", Some(key)).send().await.unwrap();
    let answer = Answer::read(answer).await;
    assert_eq!(answer.data()["expires_in_seconds"], 300);
    answer.data()["session_token"].as_str().unwrap().to_owned()
}

/// Opens a stream by its address alone, as a browser does.
async fn open(hub: &TestHub, query: &str) -> reqwest::Response {
    hub.client.get(format!("{}/agent/inbox?{query}", hub.url)).send().await.unwrap()
}

/// Reads until the text contains `part`.
async fn read_until(stream: &mut reqwest::Response, part: &str) -> String {
    let mut text = String::new();
    while !text.contains(part) {
        let piece = tokio::time::timeout(Duration::from_secs(30), stream.chunk()).await.unwrap().unwrap();
        text += std::str::from_utf8(&piece.unwrap_or_else(|| panic!("no {part}: {text}"))).unwrap();
    }
    text
}

#[tokio::test]
async fn by_session_stream_and_history() {
    let hub = TestHub::start();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let token = session(&hub, &bob).await;
    assert!(token.starts_with("si_"));
    let mut stream = open(&hub, &format!("session={token}")).await;
    assert_eq!(stream.status(), 200);
    read_until(&mut stream, "event: connected\n").await;
    assert_eq!(hub.send(&alice, "alice", "bob", "one").await.outcome(), (200, "delivered_sse"));
    let text = read_until(&mut stream, "\n\n").await;
    let data = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    check(&serde_json::from_str(data).unwrap(), &["trace_id", "sender_id"]);

    hub.send(&alice, "alice", "bob", "two").await;
    let history = hub.get("/agent/messages", Some(&bob)).await;
    let messages = history.data().as_array().unwrap();
    assert_eq!(messages.len(), 2);
    for message in messages {
        check(message, &["trace_id", "sender_id", "receiver_id", "delivered_via"]);
    }
    // A browser that lost its connection reconnects to the same address, and takes over.
    let mut again = open(&hub, &format!("session={token}")).await;
    read_until(&mut again, "event: connected\n").await;
    read_until(&mut stream, "event: takeover\n").await;
}

#[tokio::test]
async fn a_session_opens_this_inbox_for_a_while_and_nothing_else() {
    let clock = ManualClock::new(1_774_000_800_000);
    let hub = Setup::new().clock(&clock).start();
    let (_alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let token = session(&hub, &bob).await;
    for (method, path) in
        [(Method::GET, "/agent/messages"), (Method::POST, "/agent/session"), (Method::GET, "/api/v1/me")]
    {
        assert_eq!(Answer::of(hub.request(method, path, Some(&token))).await.status, 401, "{path}");
    }
    let refused = async |query: String| Answer::read(open(&hub, &query).await).await;
    for bad in ["session=", "session=si_x", "session=x", &format!("session={}", &token[..token.len() - 1])] {
        let answer = refused(bad.to_owned()).await;
        assert!(answer.failure(Code::Unauthorized).contains("POST /agent/session"), "{}", answer.text);
    }
    let answer = refused(format!("token={bob}")).await;
    assert!(
        answer.failure(Code::Unauthorized).contains("does not belong into an address"),
        "{}",
        answer.text
    );

    let mut stream = open(&hub, &format!("session={token}")).await;
    clock.advance(300_000);
    refused(format!("session={token}")).await.failure(Code::Unauthorized);
    // The open stream continues until the key is replaced.
    read_until(&mut stream, "event: connected\n").await;
    let token = session(&hub, &bob).await;
    hub.post("/register", Some(&bob), &json!({"agent_id": "bob"})).await;
    read_until(&mut stream, "event: revoked\ndata: {\"reason\":").await;
    refused(format!("session={token}")).await.failure(Code::Unauthorized);
}

#[tokio::test]
async fn history_by_time() {
    let clock = ManualClock::new(1_774_000_800_000);
    let hub = Setup::new().clock(&clock).start();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let mut times = vec![];
    for n in 0..70 {
        times.push(rfc3339(clock.now()));
        hub.send(&alice, "alice", "bob", &n.to_string()).await;
        clock.advance(10_000);
    }
    let since = async |time: &str, more: &str| {
        let time: String = url::form_urlencoded::byte_serialize(time.as_bytes()).collect();
        let page = hub.get(&format!("/agent/messages?since={time}{more}"), Some(&bob)).await;
        page.data().as_array().unwrap().iter().map(text_of).collect::<Vec<_>>()
    };
    for from in [0, 1, 33, 69] {
        let expected: Vec<_> = (from..70).map(|n: usize| n.to_string()).collect();
        assert_eq!(since(&times[from], "").await, expected, "inclusive, and all of it");
    }
    assert_eq!(since(&times[68], "&limit=1").await, ["68"]);
    assert_eq!(since(&rfc3339(clock.now()), "").await, [""; 0]);
    assert_eq!(since("1970-01-01T00:00:00Z", "&limit=2").await, ["0", "1"]);
    hub.get("/agent/messages?since=yesterday", Some(&bob)).await.failure(Code::Validation);
    hub.get("/agent/messages?kind=chat", Some(&bob)).await.failure(Code::Validation);
}

/// Entries other than envelopes are returned only if requested, and a page of envelopes skips them.
#[tokio::test]
async fn envelopes_unless_all_is_asked_for() {
    let hub = TestHub::start();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let channel = hub.channel(&alice, &json!({"name": "c"})).await;
    hub.add(&channel, &alice, &json!({"agent": "bob"})).await;
    hub.say(&channel, &alice, &json!({"content": "@bob in the channel"})).await;
    hub.send(&alice, "alice", "bob", "an envelope").await;
    let kinds = async |query: &str| {
        let page = hub.get(&format!("/agent/messages{query}"), Some(&bob)).await;
        let kind = |message: &Value| message["kind"].as_str().unwrap().to_owned();
        page.data().as_array().unwrap().iter().map(kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds("").await, ["message"]);
    assert_eq!(kinds("?kind=message&limit=1").await, ["message"]);
    assert_eq!(kinds("?kind=all").await, ["chat", "message"]);
}

/// Registering again replaces the key and keeps everything that the body does not name.
#[tokio::test]
async fn registering_again_keeps_what_it_does_not_name() {
    let hub = TestHub::start();
    let agent = FakeAgent::start().await;
    let card = json!({"card_version": "0.3", "user_culture": "en", "supported_languages": ["en"]});
    let body = json!({"agent_id": "bob", "endpoint": agent.url(), "agent_card": card});
    let made = hub.post("/register", None, &body).await;
    let key = made.data()["api_key"].as_str().unwrap().to_owned();
    let again = hub.post("/register", Some(&key), &json!({"agent_id": "bob"})).await;
    let record = &again.data()["registration"];
    assert_eq!(
        (&record["agent_card"], &record["endpoint"]),
        (&card, &made.data()["registration"]["endpoint"])
    );
    assert!(again.data()["webhook_secret"].is_string());
    let key = again.data()["api_key"].as_str().unwrap().to_owned();
    // A field that is `null` is removed.
    let none = json!({"agent_id": "bob", "endpoint": null, "agent_card": null});
    let record = hub.post("/register", Some(&key), &none).await.data()["registration"].clone();
    assert_eq!((record.get("agent_card"), record.get("endpoint")), (None, None));
}
