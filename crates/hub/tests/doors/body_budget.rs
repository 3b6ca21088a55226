//! The memory of request bodies and WebSocket messages is shared between sources, and reserved before reading.

use crate::support::{Answer, SOON, Setup, TestHub, eventually};
use chorus_hub::{Config, Mail, TrustedProxies};
use chorus_protocol::code::Code;
use chorus_testkit::raw::status_of;
use reqwest::Method;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const MANY: &str = "192.0.2.1";
const OTHER: &str = "192.0.2.2";
const MIB: usize = 1 << 20;

/// Starts a hub with limits, behind a proxy that reports the client addresses.
fn proxied(change: impl FnOnce(&mut Config)) -> TestHub {
    let set = |config: &mut Config| {
        (config.rate_limit, config.rate_limit_anonymous) = (Some(60_000), Some(60_000));
        config.trusted_proxies = TrustedProxies::parse("127.0.0.0/8").unwrap();
        config.times.body = Duration::from_mins(2);
        config.times.head = Duration::from_mins(2);
        change(config);
    };
    Setup::new().config(set).start()
}

/// Registers an agent with its own channel.
async fn agent_with_channel(hub: &TestHub, name: &str) -> (String, String) {
    let key = hub.register(name).await;
    let channel = hub.channel(&key, &json!({"name": name})).await;
    (key, channel.rsplit('/').next().unwrap().to_owned())
}

async fn connect(hub: &TestHub) -> TcpStream {
    let address = hub.url.strip_prefix("http://").unwrap();
    TcpStream::connect(address).await.unwrap()
}

/// Returns the head of a request with a body, as it comes from a client.
fn head(hub: &TestHub, client: &str, path: &str, key: &str, framing: &str) -> String {
    let host = hub.url.strip_prefix("http://").unwrap();
    format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key}\r\nx-forwarded-for: {client}\r\n\
         accept: application/json, text/event-stream\r\ncontent-type: application/json\r\n{framing}\r\n\r\n"
    )
}

/// Returns the first bytes of the response.
async fn answer(stream: &mut TcpStream) -> String {
    let mut read = vec![0; 4096];
    let length = stream.read(&mut read).await.unwrap_or_default();
    String::from_utf8_lossy(&read[..length]).into_owned()
}

/// Requests that are started at once and never finished, with the responses to them.
struct Unfinished {
    refused: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Unfinished {
    async fn begin(hub: &TestHub, count: usize, request: &[u8]) -> Self {
        let (refused, mut tasks) = (Arc::new(AtomicUsize::new(0)), JoinSet::new());
        for _ in 0..count {
            let (mut stream, request, refused) = (connect(hub).await, request.to_vec(), Arc::clone(&refused));
            tasks.spawn(async move {
                stream.write_all(&request).await.ok();
                let answer = answer(&mut stream).await;
                if status_of(answer.as_bytes()) == Some(429) && answer.contains("retry-after: 1") {
                    refused.fetch_add(1, Ordering::AcqRel);
                }
                // The connection stays open, like that of a slow client.
                std::future::pending::<()>().await;
            });
        }
        Self { refused, _tasks: tasks }
    }

    async fn wait_for_refusals(&self, count: usize) {
        eventually(async || self.refused.load(Ordering::Acquire), |refused| *refused >= count).await;
    }
}

async fn tool_list(hub: &TestHub, client: &str, channel: &str, key: &str, padding: usize) -> Answer {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
        "padding": "x".repeat(padding),
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}});
    let request = hub.request(Method::POST, &format!("/mcp/{channel}"), Some(key));
    let request = request.header("x-forwarded-for", client).header("mcp-protocol-version", "2026-07-28");
    let request =
        request.header("accept", "application/json, text/event-stream").header("mcp-method", "tools/list");
    Answer::of(request.json(&body)).await
}

/// One source can have its share of unfinished bodies; other sources have theirs.
#[tokio::test]
async fn unfinished_bodies_are_refused_past_the_share_of_their_source() {
    let hub = proxied(|_| {});
    let (key, channel) = agent_with_channel(&hub, "anna").await;
    let path = format!("/mcp/{channel}");
    let large = async |client: &str| tool_list(&hub, client, &channel, &key, MIB).await;
    assert_eq!(large(MANY).await.status, 200);

    let mut request = head(&hub, MANY, &path, &key, &format!("content-length: {MIB}")).into_bytes();
    request.resize(request.len() + MIB - 1, b'x');
    let unfinished = Unfinished::begin(&hub, 60, &request).await;
    unfinished.wait_for_refusals(48).await;
    let refused = large(MANY).await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, "1"), "{}", refused.text);
    assert_eq!(
        refused.own_failure(Code::RateLimited),
        "Your address sends too many large bodies at once. Wait until some are done."
    );
    assert_eq!(tool_list(&hub, MANY, &channel, &key, 0).await.status, 200, "small bodies are not counted");
    assert_eq!(large(OTHER).await.status, 200, "another source has its own share");
    assert_eq!(unfinished.refused.load(Ordering::Acquire), 48, "twelve are still read");

    drop(unfinished);
    eventually(async || large(MANY).await.status, |status| *status == 200).await;
}

/// Bodies without a declared length are counted as they arrive.
#[tokio::test]
async fn chunked_bodies_are_counted_too() {
    let hub = proxied(|_| {});
    let (key, channel) = agent_with_channel(&hub, "anna").await;
    let mut request =
        head(&hub, MANY, &format!("/mcp/{channel}"), &key, "transfer-encoding: chunked").into_bytes();
    request.extend_from_slice(b"200000\r\n");
    request.resize(request.len() + MIB, b'x');
    let unfinished = Unfinished::begin(&hub, 30, &request).await;
    unfinished.wait_for_refusals(18).await;
    assert_eq!(tool_list(&hub, OTHER, &channel, &key, MIB).await.status, 200);
}

/// The hub as a whole has a budget too, and each source gets a part of it.
#[tokio::test]
async fn many_sources_share_the_budget_of_the_hub() {
    let hub = proxied(|config| config.quotas.body_bytes_hub = 20 * MIB as u64);
    let (key, channel) = agent_with_channel(&hub, "anna").await;
    let refused = tool_list(&hub, MANY, &channel, &key, 2 * MIB - 4096).await;
    assert_eq!(refused.status, 200, "a tenth: {}", refused.text);
    let mut held = vec![];
    for n in 1..=20 {
        let mut request = head(
            &hub,
            &format!("192.0.2.{n}"),
            &format!("/mcp/{channel}"),
            &key,
            &format!("content-length: {MIB}"),
        )
        .into_bytes();
        request.push(b'x');
        held.push(Unfinished::begin(&hub, 1, &request).await);
    }
    let full = async || tool_list(&hub, "198.51.100.1", &channel, &key, MIB).await;
    let full = eventually(full, |answer| answer.status == 503).await;
    assert_eq!(full.header("retry-after"), "1");
    assert_eq!(
        tool_list(&hub, "198.51.100.1", &channel, &key, 64 * 1024).await.status,
        200,
        "a newcomer's part"
    );
}

/// Membership is checked before a large body is sent.
#[tokio::test]
async fn mcp_refuses_strangers_before_their_body() {
    let hub = proxied(|_| {});
    let (_, channel) = agent_with_channel(&hub, "anna").await;
    let stranger = hub.register("stranger").await;
    for path in [format!("/mcp/{channel}"), format!("/mcp/jobs/job_{}", "0".repeat(32))] {
        let mut stream = connect(&hub).await;
        let head = head(&hub, MANY, &path, &stranger, "content-length: 200000");
        stream.write_all(head.as_bytes()).await.unwrap();
        let answer = tokio::time::timeout(SOON, answer(&mut stream)).await.expect("no body is waited for");
        assert_eq!(status_of(answer.as_bytes()), Some(404), "{path}: {answer}");
    }
}

/// A conversion slot is taken before the trace is read, and a slow trace delays nobody else.
#[tokio::test]
async fn conversions_are_admitted_before_their_trace() {
    let hub = proxied(|_| {});
    let mut unfinished = vec![];
    for n in 0..16 {
        let key = hub.register(&format!("agent-{n}")).await;
        let mut stream = connect(&hub).await;
        let head = head(&hub, MANY, "/api/v1/adapt/openai", &key, "content-length: 100000");
        stream.write_all(head.as_bytes()).await.unwrap();
        unfinished.push((key, stream));
    }
    let key = hub.register("late").await;
    let convert = async |client: &str, key: &str| {
        let request = hub.request(Method::POST, "/api/v1/adapt/openai", Some(key));
        Answer::of(request.header("x-forwarded-for", client).json(&json!({"output": []}))).await
    };
    let refused = eventually(async || convert(MANY, &key).await, |answer| answer.status == 429).await;
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(convert(OTHER, &key).await.status, 200, "another source does not wait");
    assert_eq!(convert(OTHER, &unfinished[0].0).await.status, 429, "one at a time of each caller");
    // The request is refused at once; its trace was not sent.
    let mut stream = connect(&hub).await;
    let head = head(&hub, MANY, "/api/v1/adapt/openai", &key, "content-length: 100000");
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = tokio::time::timeout(SOON, answer(&mut stream)).await.expect("no body is waited for");
    assert_eq!(status_of(answer.as_bytes()), Some(429), "{answer}");
}

/// Opens a WebSocket and sends part of a message.
async fn half_message(hub: &TestHub, client: &str, key: &str, declared: u64, sent: usize) -> TcpStream {
    let host = hub.url.strip_prefix("http://").unwrap();
    let handshake = format!(
        "GET /c2a HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key}\r\nx-forwarded-for: {client}\r\n\
         connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    let mut stream = connect(hub).await;
    stream.write_all(handshake.as_bytes()).await.unwrap();
    let answer = answer(&mut stream).await;
    assert_eq!(status_of(answer.as_bytes()), Some(101), "{answer}");
    // A masked text frame whose mask is zero.
    let mut frame = vec![0x81, 0xff];
    frame.extend_from_slice(&declared.to_be_bytes());
    frame.extend_from_slice(&[0; 4]);
    frame.resize(frame.len() + sent, b'x');
    stream.write_all(&frame).await.ok();
    stream
}

/// Returns the code with which the hub closes a WebSocket; 1006 if the connection just ended.
async fn close_code(stream: &mut TcpStream) -> u16 {
    let mut frame = [0; 4];
    let read = tokio::time::timeout(SOON, stream.read_exact(&mut frame)).await.expect("it is closed");
    match (read, frame) {
        (Ok(_), [0x88, _, high, low]) => u16::from_be_bytes([high, low]),
        (Ok(_), other) => panic!("no close frame: {other:?}"),
        (Err(_), _) => 1006,
    }
}

/// Before `initialize` a socket accepts only small messages, and partial messages count for their source.
#[tokio::test]
async fn sockets_hold_little_before_they_are_initialized() {
    let hub = proxied(|config| config.quotas.body_bytes = 100 * 1024);
    let key = hub.register("anna").await;
    let mut large = half_message(&hub, MANY, &key, MIB as u64, 70 * 1024).await;
    assert!([1009, 1006].contains(&close_code(&mut large).await));

    // Two partial messages of 60 KiB fit; the third does not.
    let mut held = vec![];
    for _ in 0..3 {
        held.push(half_message(&hub, MANY, &key, 61 * 1024, 60 * 1024).await);
    }
    let (first, rest) = held.split_at_mut(1);
    let (second, third) = rest.split_at_mut(1);
    let closed = tokio::select! {
        code = close_code(&mut first[0]) => code,
        code = close_code(&mut second[0]) => code,
        code = close_code(&mut third[0]) => code,
    };
    assert!([1013, 1006].contains(&closed), "{closed}");
    let mut other = half_message(&hub, OTHER, &key, 20, 19).await;
    other.write_all(b"x").await.unwrap();
    let mut told = [0; 2];
    tokio::time::timeout(SOON, other.read_exact(&mut told)).await.unwrap().unwrap();
    assert_eq!(told[0], 0x81, "another source is answered");
}

/// Hanging mails of one source leave slots for everybody else.
#[tokio::test]
async fn hanging_mails_of_one_source_keep_nobody_else_from_signing_in() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mail = Mail::parse(&format!("smtp://{}", listener.local_addr().unwrap())).unwrap();
    let hub = proxied(|config| config.mail = mail);
    let ask = async |client: &str, n: usize| {
        let request = hub.request(Method::POST, "/api/v1/signin", None).header("x-forwarded-for", client);
        Answer::of(request.json(&json!({"email": format!("a@d{n}.example")}))).await
    };
    let mut refused = 0;
    for n in 0..70 {
        refused += usize::from(ask(MANY, n).await.status == 503);
    }
    assert_eq!(refused, 63, "a tenth of 64 slots");
    for n in 0..20 {
        assert_eq!(ask(&format!("198.51.100.{n}"), 100 + n).await.status, 202, "{n}");
    }
}
