//! A connection string: access, accepted messages and duplicates.

use crate::service::{Service, deliver, deliver_with};
use chorus_agent::{
    Callback, ConnectionOptions, ConnectionSecret, ConnectionServer, Delivered, Environment, Reach,
    WebhookSecret,
};
use chorus_protocol::channel::{CallbackEvent, Lifecycle, MAX_BODY};
use chorus_testkit::{http, raw};
use data_encoding::BASE64;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use std::time::Duration;
use tokio::time::timeout;

const NOW_MS: i64 = 1_774_000_800_000;
const SECRET: &str = "sk_a1b2c3d4e5f6a7b8";
const KEY: [u8; 32] = [7; 32];
const SOON: Duration = Duration::from_secs(20);

fn options() -> ConnectionOptions {
    let secret = ConnectionSecret::parse(SECRET).unwrap();
    ConnectionOptions {
        reach: reach(),
        ..ConnectionOptions::new(secret, Environment::with_clocks(|| NOW_MS, || 0))
    }
}

/// The services of the tests run on this machine.
fn reach() -> Reach {
    Reach::new(None, vec!["127.0.0.0/8".parse().unwrap()])
}

async fn server(options: ConnectionOptions) -> ConnectionServer {
    // The provider may have been installed before; it is the same one.
    rustls::crypto::ring::default_provider().install_default().ok();
    ConnectionServer::bind("127.0.0.1:0", options).await.unwrap()
}

/// Returns the connection string as seen from this machine.
fn string(server: &ConnectionServer) -> String {
    server.connection_string(&format!("http://{}/", server.address()))
}

async fn next(server: &mut ConnectionServer) -> Delivered {
    timeout(SOON, server.next()).await.expect("something is delivered").unwrap()
}

async fn nothing(server: &mut ConnectionServer) {
    assert!(timeout(Duration::from_millis(100), server.next()).await.is_err(), "nothing is delivered");
}

fn code(answer: &(u16, Value)) -> (u16, &str) {
    (answer.0, answer.1["error"]["code"].as_str().unwrap_or_default())
}

#[tokio::test]
async fn the_whole_cycle() {
    let (service, mut server) = (Service::start().await, server(options()).await);
    assert!(string(&server).ends_with(&format!("/inbox/{SECRET}")) && !string(&server).contains("//inbox"));
    let body = service.message("m1", "What's the weather in Oslo?");
    let delivering = tokio::spawn(deliver(string(&server), body.to_string()));
    let delivered = next(&mut server).await;
    let post = delivered.post.clone();
    assert_eq!((delivered.received_at, delivered.webhook_id.as_deref()), (NOW_MS, None));
    assert_eq!(serde_json::to_value(&post).unwrap(), body);
    assert!(!delivering.is_finished(), "the service is not told before the program took it");
    delivered.accept();
    assert_eq!(delivering.await.unwrap().0, 200);

    let callback = Callback::open(&post.callback, &reach()).unwrap();
    let events = [
        CallbackEvent::Lifecycle { status: Lifecycle::Processing },
        CallbackEvent::Status { status: "searching".into() },
        CallbackEvent::Message { content: "3°C and cloudy.\nTake a coat.".into() },
    ];
    for event in &events {
        callback.send(event).await.unwrap();
    }
    let outputs = service.outputs(3).await;
    assert!(outputs.iter().all(|output| output.token == "tok_m1" && !output.authorization));
    let expected = [
        json!({"type": "lifecycle", "status": "processing"}),
        json!({"type": "status", "status": "searching"}),
        json!({"type": "message", "content": "3°C and cloudy.\nTake a coat."}),
    ];
    for (output, event) in outputs.iter().zip(&expected) {
        assert_eq!(
            (output.content_type.as_str(), &output.events()[..]),
            ("application/json", &[event.clone()][..])
        );
    }
}

#[tokio::test]
async fn a_message_is_handed_on_once() {
    let (service, mut server) = (Service::start().await, server(options()).await);
    let url = string(&server);
    let first = service.message("m1", "one").to_string();
    let delivering = tokio::spawn(deliver(url.clone(), first.clone()));
    let delivered = next(&mut server).await;
    // While the program is processing it, the message is neither handed over again nor reported as accepted.
    assert_eq!(code(&deliver(url.clone(), first.clone()).await), (503, "busy"));
    delivered.accept();
    assert_eq!(delivering.await.unwrap().0, 200);
    // The message comes again, once with a new callback.
    let mut again = service.message("m1", "one");
    again["callback"] = service.callback("tok_fresh").into();
    for body in [first, again.to_string()] {
        assert_eq!(deliver(url.clone(), body).await.0, 200);
    }
    nothing(&mut server).await;

    // A message id is unique within its channel, for any split between the two ids and any length.
    let mut elsewhere = service.message("m1", "elsewhere");
    elsewhere["channel"]["id"] = "c1m".into();
    let mut cut = service.message("mm1", "cut");
    cut["channel"]["id"] = "c1".into();
    let mut long = service.message(&"🎵".repeat(256), "long");
    long["channel"]["id"] = "🎵".repeat(256).into();
    long["callback"] = service.callback("tok_long").into();
    for other in [elsewhere, cut, long] {
        let delivering = tokio::spawn(deliver(url.clone(), other.to_string()));
        let delivered = next(&mut server).await;
        assert_eq!(delivered.post.message.content, other["message"]["content"]);
        delivered.accept();
        assert_eq!(delivering.await.unwrap().0, 200);
        assert_eq!(deliver(url.clone(), other.to_string()).await.0, 200);
    }
    nothing(&mut server).await;
}

#[tokio::test]
async fn what_was_not_taken_may_come_again() {
    let (service, mut server) = (Service::start().await, server(options()).await);
    let (url, body) = (string(&server), service.message("m1", "one").to_string());
    let send = || tokio::spawn(deliver(url.clone(), body.clone()));
    let dropped = send();
    drop(next(&mut server).await);
    assert_eq!(code(&dropped.await.unwrap()), (503, "busy"));
    for (status, seen) in [(422, 422), (503, 503), (200, 500), (0, 500)] {
        let refused = send();
        next(&mut server).await.refuse(status);
        assert_eq!(code(&refused.await.unwrap()), (seen, "refused"));
    }
    // A program with its own journal decides itself whether a message may come again.
    for _ in 0..2 {
        let taken = send();
        next(&mut server).await.accept_without_remembering();
        assert_eq!(taken.await.unwrap().0, 200);
    }
    let taken = send();
    next(&mut server).await.accept();
    assert_eq!(taken.await.unwrap().0, 200);
}

#[tokio::test]
async fn without_the_secret_there_is_nothing() {
    let (service, mut server) = (Service::start().await, server(options()).await);
    let base = format!("http://{}", server.address());
    let good = service.message("m1", "one").to_string();
    for path in [
        "",
        "/",
        "/inbox",
        "/inbox/",
        "/inbox/sk_",
        "/inbox/sk_a1b2c3d4e5f6a7b9",
        "/inbox/sk_a1b2c3d4e5f6a7b",
        "/inbox/sk_a1b2c3d4e5f6a7b8/",
        "/inbox//sk_a1b2c3d4e5f6a7b8",
        "/sk_a1b2c3d4e5f6a7b8",
        "/Inbox/sk_a1b2c3d4e5f6a7b8",
    ] {
        for body in [good.clone(), "{".into()] {
            assert_eq!(code(&deliver(format!("{base}{path}"), body).await), (404, "not_found"), "{path}");
        }
        let answer = http::client().get(format!("{base}{path}")).send().await.unwrap();
        assert_eq!(answer.status(), 404, "{path}");
    }
    let large = deliver(format!("{base}/inbox/sk_x"), " ".repeat(MAX_BODY + 1)).await;
    assert_eq!(code(&large), (404, "not_found"));
    nothing(&mut server).await;
}

#[tokio::test]
async fn what_is_wrong_is_said_at_once() {
    let (service, mut server) = (Service::start().await, server(options()).await);
    let url = string(&server);
    for (body, message) in [
        (String::new(), "body: is not acceptable JSON"),
        ("[]".into(), "body: must be an object"),
        ("{}".into(), "channel: is required; message: is required; callback: is required"),
        (
            json!({"channel": {}, "message": {"id": 1}, "callback": "x"}).to_string(),
            "channel.id: is required; message.id: must be a string, not a number; message.sender: is required; \
             message.content: is required; callback: must be an absolute http or https URL",
        ),
    ] {
        let answer = deliver(url.clone(), body).await;
        assert_eq!(code(&answer), (400, "invalid"));
        assert!(answer.1["error"]["message"].as_str().unwrap().starts_with(message), "{answer:?}");
    }
    for method in ["GET", "PUT", "OPTIONS", "DELETE"] {
        let answer = http::client().request(method.parse().unwrap(), &url).send().await.unwrap();
        assert_eq!((answer.status().as_u16(), &answer.headers()["allow"]), (405, &"POST".parse().unwrap()));
    }
    let page = vec![("origin", "https://evil.example".to_owned())];
    let good = service.message("m1", "one").to_string();
    assert_eq!(code(&deliver_with(url.clone(), good, page).await), (403, "forbidden"));
    for size in [MAX_BODY + 1, 3 << 20] {
        assert_eq!(code(&deliver(url.clone(), " ".repeat(size)).await), (413, "too_large"));
    }
    assert_eq!(deliver(url, " ".repeat(MAX_BODY)).await.0, 400);
    nothing(&mut server).await;
}

#[tokio::test]
async fn slow_services_are_cut_off() {
    let short = Duration::from_millis(300);
    let server = server(ConnectionOptions { head_limit: short, body_limit: short, ..options() }).await;
    let head = format!("POST /inbox/{SECRET} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{{");
    let slow = raw::raw_exchange(server.address(), head.as_bytes(), SOON).await;
    assert_eq!(raw::status_of(&slow), Some(408));
    let begun = std::time::Instant::now();
    raw::raw_exchange(server.address(), b"POST /inbox HTTP/1.1\r\nHost", SOON).await;
    assert!(begun.elapsed() < SOON);
}

#[tokio::test]
async fn a_slow_program() {
    let service = Service::start().await;
    let answer_limit = Duration::from_millis(300);
    let mut server = server(ConnectionOptions { answer_limit, ..options() }).await;
    let (url, body) = (string(&server), service.message("m1", "one").to_string());
    let request = http::client().post(&url).body(body.clone());
    let answer = request.send().await.unwrap();
    assert_eq!((answer.status().as_u16(), &answer.headers()["retry-after"]), (503, &"1".parse().unwrap()));
    // The service no longer waits for it.
    nothing(&mut server).await;

    // A program that accepts too late has accepted nevertheless: the next try is a duplicate.
    let late = tokio::spawn(deliver(url.clone(), body.clone()));
    let delivered = next(&mut server).await;
    assert_eq!(late.await.unwrap().0, 503);
    delivered.accept();
    assert_eq!(deliver(url.clone(), body).await.0, 200);
    nothing(&mut server).await;

    // Beyond the limit of the queue, senders are refused at once.
    let sends: Vec<_> = (0..80)
        .map(|n| tokio::spawn(deliver(url.clone(), service.message(&format!("x{n}"), "x").to_string())))
        .collect();
    let mut full = 0;
    for send in sends {
        let (status, answer) = send.await.unwrap();
        assert_eq!(status, 503);
        full += usize::from(answer["error"]["message"].as_str().unwrap().starts_with("too many"));
    }
    assert_eq!(full, 80 - 64);
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

#[tokio::test]
async fn a_signature_can_be_required() {
    let service = Service::start().await;
    let signature = WebhookSecret::parse(&format!("whsec_{}", BASE64.encode(&KEY))).unwrap();
    let mut server = server(ConnectionOptions { signature: Some(signature), ..options() }).await;
    let (url, now) = (string(&server), NOW_MS / 1000);
    let body = service.message("m1", "one").to_string();
    for (headers, message) in [
        (vec![], "webhook-id is missing"),
        (sign(&[8; 32], "msg_1", now, &body), "does not match"),
        (sign(&KEY, "msg_1", now, "{}"), "does not match"),
        (sign(&KEY, "msg_1", now - 301, &body), "more than 5 minutes"),
    ] {
        let answer = deliver_with(url.clone(), body.clone(), headers).await;
        assert_eq!(code(&answer), (401, "unauthorized"));
        assert!(answer.1["error"]["message"].as_str().unwrap().contains(message), "{answer:?}");
    }
    nothing(&mut server).await;
    let delivering = tokio::spawn(deliver_with(url, body.clone(), sign(&KEY, "msg_1", now, &body)));
    let delivered = next(&mut server).await;
    assert_eq!(delivered.webhook_id.as_deref(), Some("msg_1"));
    delivered.accept();
    assert_eq!(delivering.await.unwrap().0, 200);
}

#[tokio::test]
async fn sources_can_be_restricted() {
    let service = Service::start().await;
    let body = service.message("m1", "one").to_string();
    let sources = vec!["192.0.2.0/24".parse().unwrap(), "::1".parse().unwrap()];
    let mut other = server(ConnectionOptions { sources, ..options() }).await;
    assert_eq!(code(&deliver(string(&other), body.clone()).await), (403, "forbidden"));
    nothing(&mut other).await;
    let sources = vec!["192.0.2.0/24".parse().unwrap(), "127.0.0.0/8".parse().unwrap()];
    let mut own = server(ConnectionOptions { sources, ..options() }).await;
    let delivering = tokio::spawn(deliver(string(&own), body));
    next(&mut own).await.accept();
    assert_eq!(delivering.await.unwrap().0, 200);
}

#[tokio::test]
async fn closing_lets_the_last_answer_out() {
    let (service, mut server) = (Service::start().await, server(options()).await);
    let url = string(&server);
    let taken = tokio::spawn(deliver(url.clone(), service.message("m1", "one").to_string()));
    let delivered = next(&mut server).await;
    let waiting = tokio::spawn(deliver(url.clone(), service.message("m2", "two").to_string()));
    tokio::time::sleep(Duration::from_millis(200)).await;
    delivered.accept();
    server.close().await;
    assert_eq!(taken.await.unwrap().0, 200);
    assert_eq!(waiting.await.unwrap().0, 503);
    assert!(http::client().post(url).send().await.unwrap_err().is_connect());
}
