//! Streaming: the receiver's output reaches the sender as it is made, from an endpoint and from an inbox.

use crate::support::{Answer, SOON, Setup, TestHub, envelope, eventually};
use chorus_protocol::code::Code;
use chorus_protocol::sse::{Event, Item, Parser};
use chorus_testkit::receiver::{FakeAgent, Reply};
use reqwest::{Method, Response};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The response to a send that asks for a stream.
struct Stream {
    response: Response,
    parser: Parser,
    ready: std::collections::VecDeque<Event>,
}

impl Stream {
    async fn open(hub: &TestHub, key: &str, to: &str) -> Self {
        let body = json!({"receiver_id": to, "envelope": envelope("alice", "go on"), "stream": true});
        let response = hub.request(Method::POST, "/messages", Some(key)).json(&body).send().await.unwrap();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["content-type"]),
            (200, &"text/event-stream".parse().unwrap())
        );
        assert_eq!(response.headers()["x-chorus-trace-id"].len(), 32);
        Self { response, parser: Parser::new(), ready: std::collections::VecDeque::new() }
    }

    /// Returns the kind and the data of the next event.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some((
                    event.event,
                    serde_json::from_str(&event.data).unwrap_or(Value::String(event.data)),
                ));
            }
            let piece =
                tokio::time::timeout(SOON, self.response.chunk()).await.expect("something comes").unwrap()?;
            let items = self.parser.push(&piece).unwrap();
            self.ready.extend(items.into_iter().filter_map(|item| match item {
                Item::Event(event) => Some(event),
                _ => None,
            }));
        }
    }

    async fn rest(mut self) -> Vec<(String, Value)> {
        let mut events = vec![];
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

fn line(value: &Value) -> String {
    format!("{value}\n")
}

async fn delivery(hub: &TestHub, key: &str) -> Value {
    hub.history(key).await.pop().expect("something was sent")["delivery"].clone()
}

#[tokio::test]
async fn an_endpoint_that_streams() {
    let (hub, agent) = (TestHub::start(), FakeAgent::start().await);
    let alice = hub.register("alice").await;
    let bob = hub.register_webhook("bob", &agent.url()).await;
    agent.set(Reply::Events(
        "event: chunk\ndata: {\"text\":\"Hel\"}\n\n: thinking\n\nevent: other\ndata: x\n\nevent: chunk\ndata: lo\n\nevent: done\ndata: {\"result\":\"Hello\"}\n\n".into(),
    ));
    let events = Stream::open(&hub, &alice, "bob").await.rest().await;
    let expected =
        [("chunk", json!({"text": "Hel"})), ("chunk", json!("lo")), ("done", json!({"result": "Hello"}))];
    assert_eq!(events, expected.map(|(kind, data)| (kind.to_owned(), data)));
    assert_eq!(agent.requests()[0].headers["accept"], "text/event-stream, application/json");
    assert_eq!(delivery(&hub, &bob).await, "delivered");
}

#[tokio::test]
async fn the_last_event_decides() {
    let (hub, agent) = (TestHub::start(), FakeAgent::start().await);
    let alice = hub.register("alice").await;
    let bob = hub.register_webhook("bob", &agent.url()).await;
    for (reply, last, code, state) in [
        (
            Reply::Events("event: error\ndata: {\"code\":\"BUSY\"}\n\n".into()),
            "error",
            json!("BUSY"),
            "failed",
        ),
        (
            Reply::Events("event: chunk\ndata: 1\n\n".into()),
            "error",
            json!("ERR_AGENT_UNREACHABLE"),
            "failed",
        ),
        (Reply::Json(200, json!({"status": "ok"})), "done", Value::Null, "delivered"),
        (Reply::Json(500, json!({})), "error", json!("ERR_AGENT_UNREACHABLE"), "failed"),
        (Reply::DropConnection, "error", json!("ERR_AGENT_UNREACHABLE"), "failed"),
    ] {
        agent.set(reply);
        let events = Stream::open(&hub, &alice, "bob").await.rest().await;
        let (kind, data) = events.last().unwrap();
        assert_eq!((kind.as_str(), &data["code"]), (last, &code), "{events:?}");
        assert_eq!(delivery(&hub, &bob).await, state);
    }
}

#[tokio::test]
async fn a_receiver_on_an_inbox_streams_without_a_public_address() {
    let hub = TestHub::start();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let mut inbox = hub.inbox(&bob, None).await;
    let mut stream = Stream::open(&hub, &alice, "bob").await;
    let reply_stream = inbox.message().await.1["reply_stream"].as_str().unwrap().to_owned();
    assert!(reply_stream.starts_with(&hub.url), "{reply_stream}");

    // Each piece is received before the next one is sent.
    let (pieces, body) = tokio::sync::mpsc::channel::<Result<String, std::io::Error>>(1);
    let body = reqwest::Body::wrap_stream(futures_util::stream::unfold(body, |mut body| async {
        Some((body.recv().await?, body))
    }));
    let posting = tokio::spawn(hub.client.post(&reply_stream).body(body).send());
    for text in ["Guten", " Tag"] {
        pieces.send(Ok(line(&json!({"type": "chunk", "text": text})))).await.unwrap();
        assert_eq!(stream.next().await, Some(("chunk".into(), json!({"text": text}))));
    }
    pieces.send(Ok(line(&json!({"type": "done", "result": {"n": 2}})))).await.unwrap();
    drop(pieces);
    assert_eq!(stream.next().await, Some(("done".into(), json!({"result": {"n": 2}}))));
    assert_eq!(stream.next().await, None);
    assert_eq!(posting.await.unwrap().unwrap().status(), 200);
    assert_eq!(delivery(&hub, &bob).await, "delivered");

    // The address works once.
    let again = Answer::of(hub.client.post(&reply_stream).body("{}")).await;
    again.failure(Code::NotFound);
}

#[tokio::test]
async fn a_reply_that_is_wrong_is_told_to_both() {
    let hub = TestHub::start();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let mut inbox = hub.inbox(&bob, None).await;
    for (body, fault) in [
        ("{\"type\":\"chunk\"}\n", "line 1: text: must be a string"),
        ("\n{\"type\":\"chunk\",\"text\":\"a\"}\nnonsense\n", "line 3: the body is not acceptable JSON"),
        ("{\"type\":\"shout\"}\n", "line 1: type: must be chunk, done or error"),
        ("{\"type\":\"chunk\",\"text\":\"a\"}", "the last line must be of type done or error"),
        ("", "the last line must be of type done or error"),
    ] {
        let stream = Stream::open(&hub, &alice, "bob").await;
        let reply_stream = inbox.message().await.1["reply_stream"].as_str().unwrap().to_owned();
        let answer = Answer::of(hub.client.post(reply_stream).body(body)).await;
        assert!(answer.failure(Code::Validation).starts_with(fault), "{}", answer.text);
        let events = stream.rest().await;
        let (kind, data) = events.last().unwrap();
        assert_eq!((kind.as_str(), &data["code"]), ("error", &json!("ERR_AGENT_UNREACHABLE")), "{events:?}");
        assert_eq!(delivery(&hub, &bob).await, "failed");
    }
}

#[tokio::test]
async fn a_receiver_that_says_nothing() {
    let hub = Setup::new().config(|config| config.times.reply = Duration::from_millis(200)).start();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let mut inbox = hub.inbox(&bob, None).await;
    let events = Stream::open(&hub, &alice, "bob").await.rest().await;
    assert_eq!((events[0].0.as_str(), &events[0].1["code"]), ("error", &json!("ERR_TIMEOUT")));
    let reply_stream = inbox.message().await.1["reply_stream"].as_str().unwrap().to_owned();
    let late = Answer::of(hub.client.post(reply_stream).body("{\"type\":\"done\"}")).await;
    late.failure(Code::NotFound);
}

#[tokio::test]
async fn what_waits_for_its_receiver_is_answered_as_always() {
    let hub = TestHub::start();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let body = json!({"receiver_id": "bob", "envelope": envelope("alice", "later"), "stream": true});
    assert_eq!(hub.post("/messages", Some(&alice), &body).await.outcome(), (202, "queued"));
    let mut inbox = hub.inbox(&bob, None).await;
    assert_eq!(inbox.message().await.1.get("reply_stream"), None);
}

#[tokio::test]
async fn a_sender_that_reads_nothing_holds_the_receiver_back() {
    let (hub, agent) = (TestHub::start(), FakeAgent::start().await);
    let alice = hub.register("alice").await;
    let bob = hub.register_webhook("bob", &agent.url()).await;
    let made = Arc::new(AtomicUsize::new(0));
    agent.set(Reply::EndlessEvents(Arc::clone(&made)));
    let stream = Stream::open(&hub, &alice, "bob").await;
    // The count grows until every buffer on the way is full, and then stops.
    let before = AtomicUsize::new(0);
    let grown = || async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let now = made.load(Ordering::Relaxed);
        (now, now - before.swap(now, Ordering::Relaxed))
    };
    eventually(grown, |(now, grown)| *now > 0 && *grown == 0).await;
    assert!(made.load(Ordering::Relaxed) < 16 * 1024, "more than the buffers of two sockets were filled");
    // The sender disconnects: the stream ends and its outcome is recorded.
    drop(stream);
    eventually(|| delivery(&hub, &bob), |state| state == "failed").await;
}

#[tokio::test]
async fn the_outcome_of_a_stream_is_kept_for_who_asks_again() {
    let (hub, agent) = (TestHub::start(), FakeAgent::start().await);
    let alice = hub.register("alice").await;
    hub.register_webhook("bob", &agent.url()).await;
    agent.set(Reply::Events("event: done\ndata: {\"result\":7}\n\n".into()));
    let body = json!({"receiver_id": "bob", "envelope": envelope("alice", "once"), "stream": true});
    let send =
        || hub.request(Method::POST, "/messages", Some(&alice)).header("Idempotency-Key", "k").json(&body);
    assert!(Answer::of(send()).await.text.contains("event: done"));
    let again = Answer::of(send()).await;
    assert_eq!(again.outcome(), (200, "delivered"));
    assert_eq!(again.data()["receiver_response"], json!({"result": 7}));
    assert_eq!(agent.requests().len(), 1);
}
