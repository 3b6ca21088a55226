//! Rate limits, connection limits, and the hub's health and metrics.

use crate::channel_fixture::ChannelFixture;
use crate::support::{Answer, OPERATOR, SOON, Setup, TestHub, eventually};
use chorus_protocol::code::Code;
use chorus_store::{StoreError, Tx, settings};
use chorus_testkit::clock::ManualClock;
use chorus_testkit::receiver::{FakeAgent, Reply};
use reqwest::Method;
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Starts a hub on a stopped clock, with these limits per minute.
fn limited(keyed: Option<u32>, anonymous: Option<u32>) -> (TestHub, ManualClock) {
    let clock = ManualClock::new(1_774_000_800_000);
    let set = |config: &mut chorus_hub::Config| {
        (config.rate_limit, config.rate_limit_anonymous) = (keyed, anonymous);
    };
    (Setup::new().clock(&clock).config(set).start(), clock)
}

/// Returns how many of `tries` requests pass.
async fn passing(hub: &TestHub, key: Option<&str>, tries: usize) -> usize {
    let mut passed = 0;
    for _ in 0..tries {
        passed += usize::from(hub.get("/agents", key).await.status == 200);
    }
    passed
}

#[tokio::test]
async fn the_rate_of_an_address() {
    let (hub, clock) = limited(None, Some(60));
    assert_eq!(passing(&hub, None, 15).await, 10, "ten seconds' worth at once");
    let refused = hub.get("/agents", None).await;
    refused.failure(Code::RateLimited);
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(hub.get("/health", None).await.status, 200, "monitors see a hub that is busy with others");
    assert_eq!(hub.get("/metrics", None).await.status, 200);
    assert_eq!(hub.get("/", None).await.status, 429);
    assert_eq!(hub.post("/register", None, &json!({"agent_id": "a"})).await.status, 429);
    assert_eq!(hub.get("/nothing", None).await.status, 429);
    clock.advance(3000);
    assert_eq!(passing(&hub, None, 15).await, 3);
    clock.advance(60_000);
    assert_eq!(passing(&hub, None, 15).await, 10, "an allowance does not grow past its burst");
}

#[tokio::test]
async fn the_rate_of_a_key() {
    let (hub, clock) = limited(Some(60), None);
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    assert_eq!(passing(&hub, Some(&alice), 15).await, 10);
    let refused = hub.send(&alice, "alice", "bob", "hi").await;
    refused.failure(Code::RateLimited);
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(passing(&hub, Some(&bob), 5).await, 5, "one's haste is not another's");
    assert_eq!(passing(&hub, None, 15).await, 15);
    assert_eq!(passing(&hub, Some(OPERATOR), 15).await, 10);
    clock.advance(2000);
    assert_eq!(passing(&hub, Some(&alice), 15).await, 2);
    assert_eq!(hub.history(&bob).await.len(), 0, "what was refused left nothing");
}

/// Guessing keys limits the guessing address; valid keys from the same address still work.
#[tokio::test]
async fn guessing_keys() {
    let (hub, _clock) = limited(Some(6000), Some(60));
    let alice = hub.register("alice").await;
    assert_eq!(hub.get("/agent/messages", Some(&alice)).await.status, 200);
    let mut statuses = vec![];
    for n in 0..20 {
        statuses.push(hub.get("/agent/messages", Some(&format!("ca_{n:032x}"))).await.status);
    }
    assert_eq!(statuses.iter().filter(|status| **status == 401).count(), 10, "{statuses:?}");
    assert_eq!(statuses.last(), Some(&429));
    let malformed = hub.request(Method::GET, "/agents", None).header("authorization", "Basic x");
    Answer::of(malformed).await.failure(Code::RateLimited);
    assert_eq!(hub.get("/agent/messages", Some(&alice)).await.status, 200);
    assert_eq!(passing(&hub, Some(OPERATOR), 15).await, 15);
}

/// Only wrong keys, and no other traffic, can delay a key that this node has not seen yet.
#[tokio::test]
async fn a_busy_address_keeps_no_key_out() {
    let (hub, _clock) = limited(Some(6000), Some(60));
    let alice = hub.register("alice").await;
    assert_eq!(passing(&hub, None, 15).await, 9, "one was registering");
    hub.get("/agents", None).await.failure(Code::RateLimited);
    assert_eq!(hub.get("/agent/messages", Some(&alice)).await.status, 200);
}

/// A trusted proxy reports the client address; the same header of anybody else is ignored.
#[tokio::test]
async fn behind_a_proxy() {
    let from = async |hub: &TestHub, client: &str| {
        let request = hub.request(Method::GET, "/agents", None).header("x-forwarded-for", client);
        Answer::of(request).await.status
    };
    for (trusted, second) in [("127.0.0.0/8", 200), ("192.0.2.1", 429)] {
        let clock = ManualClock::new(1_774_000_800_000);
        let set = |config: &mut chorus_hub::Config| {
            config.rate_limit_anonymous = Some(1);
            config.trusted_proxies = chorus_hub::TrustedProxies::parse(trusted).unwrap();
        };
        let hub = Setup::new().clock(&clock).config(set).start();
        assert_eq!(from(&hub, "198.51.100.1").await, 200);
        assert_eq!(from(&hub, "198.51.100.1").await, 429);
        assert_eq!(
            from(&hub, "203.0.113.9, 198.51.100.1").await,
            429,
            "what he adds himself counts for nothing"
        );
        assert_eq!(from(&hub, "198.51.100.2").await, second, "{trusted}");
    }
}

/// Callbacks and posts to connection strings count for the agent, because many share one address.
#[tokio::test]
async fn secret_addresses_pay_for_their_agent() {
    let (clock, timber, birch) =
        (ManualClock::new(1_774_000_800_000), FakeAgent::start().await, FakeAgent::start().await);
    let set = |config: &mut chorus_hub::Config| {
        (config.rate_limit, config.rate_limit_anonymous) = (Some(120), Some(60));
    };
    let fixture = ChannelFixture::on(&Setup::new().clock(&clock).config(set)).await;
    let made = fixture.connected("timber", &timber).await;
    fixture.connected("birch", &birch).await;
    fixture.say("@timber @birch hello").await;
    let callback = timber.wait_for(1, SOON).await[0].body["callback"].clone();
    let other = birch.wait_for(1, SOON).await[0].body["callback"].clone();
    while passing(&fixture.hub, None, 1).await == 1 {}

    let status = json!({"type": "status", "status": "at work"});
    for _ in 0..20 {
        assert_eq!(fixture.call_back(&callback, &status).await.status, 200);
    }
    fixture.call_back(&callback, &status).await.own_failure(Code::RateLimited);
    assert_eq!(fixture.call_back(&other, &status).await.status, 200, "one's haste is not another's");

    let foreign = &made["connection_string"];
    let post = json!({"channel": {"id": "c", "name": "c", "service": "s"},
                      "message": {"id": "m", "sender": "s", "content": "x"}, "callback": "https://s.example/cb"});
    for _ in 0..20 {
        let posted = fixture.call_back(foreign, &post).await;
        assert_eq!(posted.status, 200, "{}", posted.text);
    }
    fixture.call_back(foreign, &post).await.own_failure(Code::RateLimited);
    let mut wrong = vec![];
    for n in 0..12 {
        let url = json!(format!("{}/inbox/sk_{n:032x}", fixture.hub.url));
        wrong.push(fixture.call_back(&url, &post).await.status);
    }
    assert_eq!((wrong[9], wrong[10]), (404, 429), "{wrong:?}");
}

/// An agent may post 30 messages a minute in a conversation, by any transport; people are not limited.
#[tokio::test]
async fn what_an_agent_says_in_a_minute() {
    let (clock, timber) = (ManualClock::new(1_774_000_800_000), FakeAgent::start().await);
    let set = |config: &mut chorus_hub::Config| config.rate_limit = Some(6000);
    let fixture = ChannelFixture::on(&Setup::new().clock(&clock).config(set)).await;
    let made = fixture.connected("timber", &timber).await;
    let (key, path) = (made["api_key"].as_str(), format!("/api/v1/channels/{}/messages", fixture.channel));
    fixture.say("@timber hello").await;
    let callback = timber.wait_for(1, SOON).await[0].body["callback"].clone();
    let several = async |count: usize| {
        let lines = "{\"type\": \"message\", \"content\": \"x\"}\n".repeat(count);
        let request = fixture.hub.client.post(callback.as_str().unwrap());
        let request = request.header("content-type", "application/x-ndjson").header("idempotency-key", count);
        Answer::of(request.body(lines)).await
    };
    assert_eq!(several(29).await.status, 200);
    assert_eq!(several(29).await.status, 200, "what is only said again is not counted again");
    let refused = several(2).await;
    assert!(refused.own_failure(Code::RateLimited).starts_with("line 2: "), "{}", refused.text);
    let recorded = refused.body["error"]["details"]["recorded"].as_array().unwrap();
    assert_eq!(recorded.len(), 1, "what came before stays");
    let say = async |key| fixture.hub.post(&path, key, &json!({"content": "x"})).await;
    let refused = say(key).await;
    refused.own_failure(Code::RateLimited);
    assert_eq!(refused.header("retry-after"), "2");
    let dry = fixture.hub.post(&format!("{path}?dry_run=true"), key, &json!({"content": "x"})).await;
    assert_eq!(dry.status, 200, "{}", dry.text);
    let status = json!({"type": "status", "status": "at work"});
    assert_eq!(fixture.call_back(&callback, &status).await.status, 200, "what wakes nobody is not counted");
    let elsewhere = fixture.another_channel("elsewhere").await;
    fixture.join(&elsewhere, "timber").await;
    let there = format!("/api/v1/channels/{elsewhere}/messages");
    assert_eq!(fixture.hub.post(&there, key, &json!({"content": "x"})).await.status, 201);
    for _ in 0..40 {
        assert_eq!(say(Some(&fixture.anna)).await.status, 201);
    }
    clock.advance(2000);
    assert_eq!(say(key).await.status, 201);
}

/// Connections beyond the limit wait until a slot is free.
#[tokio::test]
async fn the_number_of_connections() {
    let hub = Setup::new().config(|config| config.max_connections = 3).start();
    let mut held = vec![];
    for _ in 0..3 {
        let mut stream = TcpStream::connect(hub.addr).await.unwrap();
        let begin = b"POST /register HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n";
        stream.write_all(begin).await.unwrap();
        assert_ne!(stream.read(&mut [0; 64]).await.unwrap(), 0, "it is waited for");
        held.push(stream);
    }
    let mut waiting = TcpStream::connect(hub.addr).await.unwrap();
    waiting.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = [0; 12];
    let early = tokio::time::timeout(Duration::from_millis(300), waiting.read_exact(&mut answer)).await;
    assert!(early.is_err(), "there was no room");
    held.pop();
    tokio::time::timeout(SOON, waiting.read_exact(&mut answer)).await.expect("there is room now").unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
}

/// Health is proved by a write, at most once a second.
#[tokio::test]
async fn health_is_proved() {
    let clock = ManualClock::new(1_000);
    let hub = Setup::new().clock(&clock).start();
    let written = async || {
        let get = |tx: &mut dyn Tx| settings::get(tx, "health");
        let value = hub.store().read::<_, StoreError, _>(get).await.unwrap();
        value.map(|value| value.trim().to_owned())
    };
    let report = hub.get("/health", None).await;
    let report = report.data();
    assert_eq!(
        (&report["status"], &report["chorus_version"], &report["host"]),
        (&json!("ok"), &json!("0.4"), &json!("chorus.example"))
    );
    assert_eq!(
        (&report["store"]["kind"], &report["store"]["durability"]),
        (&json!("sqlite"), &json!("full"))
    );
    assert_eq!((&report["retention_days"], &report["uptime_s"]), (&json!(null), &json!(0)));
    assert_eq!(written().await.as_deref(), Some("1000"));
    clock.advance(5000);
    for _ in 0..20 {
        assert_eq!(hub.get("/health", None).await.data()["uptime_s"], 5);
    }
    // The other value occurs if the machine slept for a second in between, which is fine.
    assert!(matches!(written().await.as_deref(), Some("1000" | "6000")));
    eventually(
        async || {
            hub.assert_healthy().await;
            written().await
        },
        |value| value.as_deref() == Some("6000"),
    )
    .await;
}

/// A store that cannot write makes the hub unhealthy, until it can.
#[tokio::test]
async fn health_that_cannot_be_proved() {
    let hub = Setup::new().queue(8).start();
    hub.assert_healthy().await;
    let release = hub.fill_queue().await;
    let sick = eventually(async || hub.get("/health", None).await, |health| health.status != 200).await;
    sick.failure(Code::Overloaded);
    assert_eq!(sick.header("retry-after"), "1");
    drop(release);
    eventually(async || hub.get("/health", None).await.status, |status| *status == 200).await;
}

#[tokio::test]
async fn metrics() {
    let (hub, receiver) = (TestHub::start(), FakeAgent::start().await);
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    hub.register_webhook("hook", &receiver.url()).await;
    hub.send(&alice, "alice", "bob", "secret text").await;
    let _inbox = hub.inbox(&bob, None).await;
    hub.send(&alice, "alice", "bob", "secret text").await;
    hub.send(&alice, "alice", "hook", "secret text").await;
    receiver.set(Reply::Json(500, json!({})));
    hub.send(&alice, "alice", "hook", "secret text").await;
    hub.get("/agents/bob", None).await;
    hub.get("/nothing/at/all", None).await;
    hub.get("/agent/messages", Some("ca_wrong")).await;

    let answer = eventually(
        async || hub.get("/metrics", Some(OPERATOR)).await,
        |metrics| metrics.text.contains("chorus_inboxes_open 1"),
    )
    .await;
    assert!(answer.header("content-type").starts_with("application/openmetrics-text"));
    for line in [
        r#"chorus_requests_total{method="POST",route="/register",status="201"} 3"#,
        r#"chorus_requests_total{method="POST",route="/messages",status="202"} 1"#,
        r#"chorus_requests_total{method="POST",route="/messages",status="200"} 3"#,
        r#"chorus_requests_total{method="GET",route="/agents/{id}",status="200"} 1"#,
        r#"chorus_requests_total{method="GET",route="none",status="404"} 1"#,
        r#"chorus_requests_total{method="GET",route="/agent/messages",status="401"} 1"#,
        r#"chorus_deliveries_total{outcome="queued"} 1"#,
        r#"chorus_deliveries_total{outcome="delivered_sse"} 1"#,
        r#"chorus_deliveries_total{outcome="delivered"} 1"#,
        r#"chorus_deliveries_total{outcome="failed"} 1"#,
        "chorus_rate_limited_total 0",
        r#"chorus_request_duration_seconds_count{route="/messages"} 4"#,
        "# EOF",
    ] {
        assert!(answer.text.lines().any(|found| found == line), "no {line} in\n{}", answer.text);
    }
    for secret in ["ca_", "co_", "whsec_", "alice", "bob", "hook", "secret", "127.0.0.1", "nothing/at"] {
        assert!(!answer.text.contains(secret), "{secret} in\n{}", answer.text);
    }
}

/// Words made up by clients create no metric series, because memory would grow with every one.
#[tokio::test]
async fn metrics_are_bounded() {
    let hub = TestHub::start();
    for n in 0..50 {
        let method = Method::from_bytes(format!("MADEUP{n}").as_bytes()).unwrap();
        assert_eq!(Answer::of(hub.request(method, &format!("/made-up-{n}"), None)).await.status, 404);
    }
    let metrics = hub.get("/metrics", Some(OPERATOR)).await.text;
    assert!(!metrics.to_lowercase().contains("made"), "{metrics}");
    assert!(metrics.contains(r#"route="none",status="404"} 50"#), "{metrics}");
}

#[tokio::test]
async fn refused_requests_are_counted() {
    let (hub, _clock) = limited(None, Some(1));
    passing(&hub, None, 4).await;
    assert!(hub.get("/metrics", Some(OPERATOR)).await.text.contains("chorus_rate_limited_total 3"));
}

#[tokio::test]
async fn request_ids() {
    let hub = TestHub::start();
    let ask = async |id: Option<&str>, path: &str| {
        let request = hub.request(Method::GET, path, None);
        let request = match id {
            Some(id) => request.header("x-request-id", id),
            None => request,
        };
        let answer = Answer::of(request).await;
        let id = |name: &str| answer.headers.get(name).map(|id| id.to_str().unwrap().to_owned());
        (id("x-request-id").unwrap(), id("x-client-request-id"))
    };
    for path in ["/agents", "/nothing", "/agent/inbox", "/"] {
        // The hub's own id is always new; the client's id is repeated beside it.
        let (one, given) = ask(Some("Trace_1.a-b"), path).await;
        assert_eq!(given.as_deref(), Some("Trace_1.a-b"), "{path}");
        let ((two, none), (three, _)) = (ask(None, path).await, ask(Some("Trace_1.a-b"), path).await);
        assert_eq!(none, None);
        assert!([&one, &two, &three].iter().all(|id| id.len() == 32), "{one} {two} {three}");
        assert!(one != two && two != three && one != three, "{one} {two} {three}");
    }
    let long = "x".repeat(65);
    for bad in ["", "a b", "a\"b", "<script>", &long] {
        assert_eq!(ask(Some(bad), "/agents").await.1, None, "{bad}");
    }
}

/// A client's id does not replace the hub's in the audit log.
#[tokio::test]
async fn a_clients_request_id_is_kept_beside_the_hubs_own() {
    let hub = TestHub::start();
    let register = async |name: &str, id: &str| {
        let request = hub.request(Method::POST, "/register", None).header("x-request-id", id);
        let answer = Answer::of(request.json(&json!({"agent_id": name}))).await;
        answer.header("x-request-id").to_owned()
    };
    let first = register("first", "mine-1").await;
    let second = register("second", &first).await;
    register("third", &"x".repeat(65)).await;
    let log = hub.get("/api/v1/audit?action=agent.registered", Some(OPERATOR)).await.body;
    let acts = log["items"].as_array().unwrap();
    let ids = |n: usize| (acts[n]["request_id"].as_str().unwrap(), acts[n]["client_request_id"].as_str());
    assert_eq!(ids(2), (first.as_str(), Some("mine-1")));
    assert_eq!(ids(1), (second.as_str(), Some(first.as_str())));
    assert!(ids(0).0.len() == 32 && ids(0).1.is_none(), "{log}");
}
