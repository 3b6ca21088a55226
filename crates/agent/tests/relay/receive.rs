//! Receiving from peers and from a hub's webhooks, over real sockets.

use chorus_agent::{
    BindError, Environment, ReceiveOptions, Received, Receiver, Retry, SendBody, WebhookSecret, send_direct,
};
use chorus_protocol::relay::{MAX_BODY, ReceiverReply, ReceiverStatus};
use chorus_protocol::words::EntryKind;
use chorus_testkit::{http, raw};
use data_encoding::BASE64;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use std::time::Duration;
use tokio::time::timeout;

const NOW_MS: i64 = 1_774_000_800_000;
const SECRET: [u8; 32] = [7; 32];
const SOON: Duration = Duration::from_secs(20);

fn options() -> ReceiveOptions {
    ReceiveOptions::new(Environment::with_clocks(|| NOW_MS, || 0))
}

fn signed() -> ReceiveOptions {
    let secret = WebhookSecret::parse(&format!("whsec_{}", BASE64.encode(&SECRET))).unwrap();
    ReceiveOptions { secret: Some(secret), ..options() }
}

async fn receiver(options: ReceiveOptions) -> Receiver {
    // The provider may have been installed before; it is the same one.
    rustls::crypto::ring::default_provider().install_default().ok();
    Receiver::bind("127.0.0.1:0", options).await.unwrap()
}

fn envelope(text: &str) -> Value {
    json!({"chorus_version": "0.4", "sender_id": "alice@x", "original_text": text, "sender_culture": "en"})
}

fn turn(text: &str, number: i64) -> Value {
    let mut envelope = envelope(text);
    envelope["conversation_id"] = "talk".into();
    envelope["turn_number"] = number.into();
    envelope
}

fn body(envelope: &Value) -> String {
    json!({"envelope": envelope}).to_string()
}

/// POSTs a body and returns the status and the reply, without a time limit.
async fn post(url: String, body: String, headers: Vec<(&'static str, String)>) -> (u16, ReceiverReply) {
    let mut request = http::client().post(url).body(body);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let answer = request.send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "application/json");
    (answer.status().as_u16(), answer.json().await.unwrap())
}

async fn next(receiver: &mut Receiver) -> Received {
    timeout(SOON, receiver.next()).await.expect("something is received").unwrap()
}

async fn nothing(receiver: &mut Receiver) {
    assert!(timeout(Duration::from_millis(100), receiver.next()).await.is_err(), "nothing is received");
}

fn text(received: &Received) -> String {
    let envelope: Value = serde_json::from_str(received.envelope.get()).unwrap();
    envelope["original_text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_envelope_comes_as_it_was_sent_and_ok_means_taken() {
    let mut receiver = receiver(options()).await;
    let raw = r#"{ "envelope": {"chorus_version":"0.4", "x": 1.50, "sender_id":"alice@x",
        "original_text":"h\u0069","sender_culture":"en"}, "receiver_id": "ignored" }"#;
    let sending = tokio::spawn(post(receiver.url(), raw.into(), vec![]));
    let received = next(&mut receiver).await;
    assert!(received.envelope.get().contains("\"x\": 1.50") && received.envelope.get().contains("h\\u0069"));
    assert_eq!((received.sender_id.as_str(), received.received_at), ("alice@x", NOW_MS));
    assert_eq!(received.webhook_id, None);
    assert!(!sending.is_finished(), "the sender is not told before the program took it");
    received.accept();
    let (status, reply) = sending.await.unwrap();
    assert_eq!((status, reply.status), (200, ReceiverStatus::Ok));
}

#[tokio::test]
async fn our_own_client_is_understood() {
    let mut receiver = receiver(options()).await;
    let url = receiver.url();
    let sending = tokio::spawn(async move {
        send_direct(
            &url,
            &SendBody::direct("alice@x", "de", "Grüß dich"),
            Retry::default(),
            &Environment::system(),
        )
        .await
    });
    let received = next(&mut receiver).await;
    assert_eq!(text(&received), "Grüß dich");
    received.refuse("no equivalent");
    let reply = sending.await.unwrap().unwrap();
    assert_eq!(reply.status, ReceiverStatus::Error);
    assert_eq!(reply.error_code.as_deref(), Some("ADAPTATION_FAILED"));
    assert_eq!(reply.detail.as_deref(), Some("no equivalent"));
}

#[tokio::test]
async fn wrong_envelopes_are_refused_with_every_fault() {
    let mut receiver = receiver(options()).await;
    let (invalid, version) = ("INVALID_ENVELOPE", "UNSUPPORTED_VERSION");
    let newer = json!({"chorus_version": "0.5", "sender_id": "alice@x"});
    for (body, code, detail) in [
        (String::new(), invalid, "not acceptable JSON"),
        ("[]".into(), invalid, "body: must be an object"),
        ("{}".into(), invalid, "envelope: is required"),
        (envelope("not wrapped").to_string(), invalid, "envelope: is required"),
        (
            body(&json!({"chorus_version": "0.4"})),
            invalid,
            "envelope.sender_id: is required; envelope.original",
        ),
        (body(&json!("x")), invalid, "envelope: must be an object"),
        (body(&newer), version, "envelope.chorus_version: must be \"0.4\""),
        (body(&envelope(&"x".repeat(10_001))), invalid, "must be 1 to 10000 characters"),
        (
            body(&envelope("x")).replace("\"sender_id\"", "\"sender_id\":\"b\",\"sender_id\""),
            invalid,
            "duplicate",
        ),
    ] {
        let (status, reply) = post(receiver.url(), body.clone(), vec![]).await;
        assert_eq!((status, reply.status), (400, ReceiverStatus::Error), "{body}");
        assert_eq!(reply.error_code.as_deref(), Some(code), "{body}");
        assert!(reply.detail.as_ref().unwrap().contains(detail), "{reply:?}");
    }
    nothing(&mut receiver).await;
}

#[tokio::test]
async fn a_turn_is_handed_on_once() {
    let mut receiver = receiver(options()).await;
    let send = |envelope: Value| tokio::spawn(post(receiver.url(), body(&envelope), vec![]));
    let first = send(turn("one", 1));
    let mut respelled = turn("one again", 1);
    respelled["sender_id"] = "Alice@X".into();
    let (again, other_turn) = (respelled.clone(), turn("two", 2));
    let mut other_sender = turn("three", 1);
    other_sender["sender_id"] = "carol@x".into();

    let url = receiver.url();
    let received = next(&mut receiver).await;
    // While the program is processing it, the turn is neither handed over again nor reported as accepted.
    let (status, reply) = post(url.clone(), body(&again), vec![]).await;
    assert_eq!((status, reply.error_code), (503, None));
    received.accept();
    assert_eq!(first.await.unwrap().0, 200);
    assert_eq!(post(url.clone(), body(&again), vec![]).await.0, 200);
    for other in [other_turn, other_sender] {
        let sending = tokio::spawn(post(url.clone(), body(&other), vec![]));
        let received = next(&mut receiver).await;
        assert_eq!(text(&received), other["original_text"]);
        received.accept();
        assert_eq!(sending.await.unwrap().0, 200);
    }
    nothing(&mut receiver).await;
}

#[tokio::test]
async fn a_turn_that_was_not_taken_may_come_again() {
    let mut receiver = receiver(options()).await;
    let url = receiver.url();
    let send = || tokio::spawn(post(url.clone(), body(&turn("one", 1)), vec![]));
    let dropped = send();
    drop(next(&mut receiver).await);
    assert_eq!(dropped.await.unwrap().0, 503);
    let refused = send();
    next(&mut receiver).await.refuse("no");
    assert_eq!(refused.await.unwrap().0, 200);
    // The envelope of a sender that has disconnected is not handed over.
    let gone = send();
    tokio::time::sleep(Duration::from_millis(200)).await;
    gone.abort();
    tokio::time::sleep(Duration::from_millis(200)).await;
    nothing(&mut receiver).await;
    let taken = send();
    next(&mut receiver).await.accept();
    assert_eq!(taken.await.unwrap().0, 200);
}

#[tokio::test]
async fn nobody_takes_them() {
    let answer_limit = Duration::from_millis(300);
    let mut receiver = receiver(ReceiveOptions { answer_limit, ..options() }).await;
    let answer = http::client().post(receiver.url()).body(body(&envelope("x"))).send().await.unwrap();
    assert_eq!(answer.status(), 503);
    assert_eq!(answer.headers()["retry-after"], "1");
    nothing(&mut receiver).await;

    // Beyond the limit of the queue, senders are refused at once.
    let sends: Vec<_> = (0..100)
        .map(|n| tokio::spawn(post(receiver.url(), body(&envelope(&n.to_string())), vec![])))
        .collect();
    let mut said = vec![];
    for send in sends {
        let (status, reply) = send.await.unwrap();
        assert_eq!(status, 503);
        said.push(reply.detail.unwrap());
    }
    assert_eq!(said.iter().filter(|detail| detail.starts_with("too many")).count(), 100 - 64, "{said:?}");
}

#[tokio::test]
async fn other_paths_methods_and_web_pages() {
    let mut receiver = receiver(ReceiveOptions { path: "/in/box".into(), ..options() }).await;
    let base = receiver.url();
    assert!(base.ends_with("/in/box"));
    let good = body(&envelope("x"));
    for path in ["", "/", "/in", "/in/box/", "/receive"] {
        let url = format!("http://{}{path}", receiver.address());
        assert_eq!(post(url, good.clone(), vec![]).await.0, 404, "{path}");
    }
    for method in ["GET", "PUT", "OPTIONS", "DELETE"] {
        let answer = http::client().request(method.parse().unwrap(), &base).send().await.unwrap();
        assert_eq!((answer.status().as_u16(), &answer.headers()["allow"]), (405, &"POST".parse().unwrap()));
    }
    let page = vec![("origin", "https://evil.example".to_owned())];
    assert_eq!(post(base, good, page).await.0, 403);
    nothing(&mut receiver).await;
}

#[tokio::test]
async fn large_slow_and_broken_requests() {
    let limits = ReceiveOptions {
        head_limit: Duration::from_millis(300),
        body_limit: Duration::from_millis(300),
        ..options()
    };
    let receiver = receiver(limits).await;
    for size in [MAX_BODY + 1, 3 << 20] {
        let (status, reply) = post(receiver.url(), " ".repeat(size), vec![]).await;
        assert_eq!((status, reply.error_code.as_deref()), (413, Some("INVALID_ENVELOPE")));
    }
    assert_eq!(post(receiver.url(), " ".repeat(MAX_BODY), vec![]).await.0, 400);

    let exchange = |bytes: &'static [u8]| raw::raw_exchange(receiver.address(), bytes, SOON);
    let slow = exchange(b"POST /receive HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{").await;
    assert_eq!(raw::status_of(&slow), Some(408));
    let chunked = exchange(
        b"POST /receive HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    );
    assert_eq!(raw::status_of(&chunked.await), Some(400));
    // Headers that never end are cut off.
    let begun = std::time::Instant::now();
    exchange(b"POST /receive HTTP/1.1\r\nHost").await;
    assert!(begun.elapsed() < SOON);
}

/// Returns the headers of Standard Webhooks for a body.
fn sign(key: &[u8], id: &str, time_s: i64, body: &str) -> Vec<(&'static str, String)> {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).unwrap();
    mac.update(format!("{id}.{time_s}.{body}").as_bytes());
    let signature = format!("v1,{}", BASE64.encode(&mac.finalize().into_bytes()));
    vec![
        ("webhook-id", id.into()),
        ("webhook-timestamp", time_s.to_string()),
        ("webhook-signature", signature),
    ]
}

/// A hub may check that this is an endpoint. With a secret only a signed challenge is answered.
#[tokio::test]
async fn a_challenge_is_echoed() {
    let challenge = json!({"type": "challenge", "challenge": "challenge_1"}).to_string();
    let ask = async |receiver: &Receiver, headers: Vec<(&'static str, String)>| {
        let mut request = http::client().post(receiver.url()).body(challenge.clone());
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    let mut open = receiver(options()).await;
    assert_eq!(ask(&open, vec![]).await, (200, json!({"challenge": "challenge_1"})));
    nothing(&mut open).await;
    let mut signed = receiver(signed()).await;
    assert_eq!(ask(&signed, vec![]).await.0, 401);
    let headers = sign(&SECRET, "msg_1", NOW_MS / 1000, &challenge);
    assert_eq!(ask(&signed, headers).await, (200, json!({"challenge": "challenge_1"})));
    nothing(&mut signed).await;
}

#[tokio::test]
async fn with_a_secret_only_what_is_signed_is_taken() {
    let mut receiver = receiver(signed()).await;
    let (body, now) = (body(&envelope("x")), NOW_MS / 1000);
    let good = sign(&SECRET, "msg_1", now, &body);
    for (headers, detail) in [
        (vec![], "webhook-id is missing"),
        (good[..2].to_vec(), "webhook-signature is missing"),
        (sign(&[8; 32], "msg_1", now, &body), "does not match"),
        (sign(&SECRET, "msg_1", now, "{}"), "does not match"),
        (sign(&SECRET, "msg_1", now - 301, &body), "more than 5 minutes"),
        (sign(&SECRET, "msg_1", now + 301, &body), "more than 5 minutes"),
    ] {
        let (status, reply) = post(receiver.url(), body.clone(), headers).await;
        assert_eq!((status, reply.error_code), (401, None));
        assert!(reply.detail.as_ref().unwrap().contains(detail), "{:?}", reply.detail);
    }
    nothing(&mut receiver).await;

    let sending = tokio::spawn(post(receiver.url(), body.clone(), good.clone()));
    let received = next(&mut receiver).await;
    assert_eq!(received.webhook_id.as_deref(), Some("msg_1"));
    received.accept();
    assert_eq!(sending.await.unwrap().0, 200);
    // A replayed request is a duplicate.
    assert_eq!(post(receiver.url(), body, good).await.0, 200);
    nothing(&mut receiver).await;
}

#[tokio::test]
async fn closing_lets_the_last_answer_out() {
    let mut receiver = receiver(options()).await;
    let url = receiver.url();
    let taken = tokio::spawn(post(url.clone(), body(&envelope("taken")), vec![]));
    let received = next(&mut receiver).await;
    let waiting = tokio::spawn(post(url.clone(), body(&envelope("waiting")), vec![]));
    tokio::time::sleep(Duration::from_millis(200)).await;
    received.accept();
    receiver.close().await;
    assert_eq!(taken.await.unwrap().0, 200);
    assert_eq!(waiting.await.unwrap().0, 503);
    assert!(http::client().post(url).send().await.unwrap_err().is_connect());
}

#[tokio::test]
async fn what_cannot_be_listened_on() {
    let receiver = receiver(options()).await;
    let taken = receiver.address().to_string();
    let error = Receiver::bind(&taken, options()).await.unwrap_err();
    assert_eq!(error.to_string(), format!("cannot listen on {taken}"));
    for path in ["", "receive", "/a b", "/a?b", "/a#b", "/ä"] {
        let wrong = ReceiveOptions { path: path.into(), ..options() };
        assert!(matches!(Receiver::bind("127.0.0.1:0", wrong).await, Err(BindError::Path)), "{path}");
    }
}

#[tokio::test]
async fn an_envelope_inside_an_a2a_message_is_taken_out() {
    let mut receiver = receiver(options()).await;
    for part in [
        json!({"data": envelope("wrapped"), "mediaType": "application/vnd.chorus.envelope+json"}),
        json!({"kind": "data", "data": envelope("wrapped"),
            "metadata": {"mediaType": "application/vnd.chorus.envelope+json"}}),
    ] {
        let message =
            json!({"envelope": {"messageId": "m1", "role": "user", "parts": [{"text": "hi"}, part]}});
        let sending = tokio::spawn(post(receiver.url(), message.to_string(), vec![]));
        let received = next(&mut receiver).await;
        assert_eq!((text(&received).as_str(), received.sender_id.as_str()), ("wrapped", "alice@x"));
        received.accept();
        assert_eq!(sending.await.unwrap().0, 200);
    }
    let empty = json!({"envelope": {"parts": [{"text": "hi"}]}}).to_string();
    let (status, reply) = post(receiver.url(), empty, vec![]).await;
    assert_eq!((status, reply.error_code.as_deref()), (400, Some("INVALID_ENVELOPE")));
}

#[tokio::test]
async fn what_a_hub_tells_of_a_channel_is_taken_once() {
    let mut receiver = receiver(options()).await;
    let chat = json!({"channel": {"id": "ch_1", "name": "ops"}, "callback": "http://hub/cb",
        "attention": {"reason": "direct_mention"},
        "event": {"event_id": "evt_1", "kind": "message", "content": "@bob hi", "author": {"id": "a", "handle": "anna"}}});
    let sending = tokio::spawn(post(receiver.url(), chat.to_string(), vec![]));
    let received = next(&mut receiver).await;
    assert_eq!((received.kind, received.sender_id.as_str()), (EntryKind::Chat, "anna"));
    let whole: Value = serde_json::from_str(received.envelope.get()).unwrap();
    assert_eq!(whole, chat);
    received.accept();
    assert_eq!(sending.await.unwrap().0, 200);
    let (status, reply) = post(receiver.url(), chat.to_string(), vec![]).await;
    assert_eq!((status, reply.status), (200, ReceiverStatus::Ok));
    nothing(&mut receiver).await;
}
