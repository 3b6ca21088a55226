//! The hub cannot be used to flood others: limits per sender, receiver and hub.

use crate::channel_fixture::ChannelFixture;
use crate::support::{Answer, SOON, Setup, TestHub, envelope, eventually};
use chorus_protocol::code::Code;
use chorus_testkit::receiver::{FakeAgent, Reply};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// Sets timeouts so long that hanging requests outlast a test.
fn patient() -> Setup {
    Setup::new().config(|config| config.webhook_timeout = Duration::from_mins(1))
}

async fn hanging() -> FakeAgent {
    let receiver = FakeAgent::start().await;
    receiver.set(Reply::Hang);
    receiver
}

/// Starts a send without waiting for its outcome.
async fn begin_send(hub: &TestHub, key: &str, from: &str, to: &str) -> TcpStream {
    let body = json!({"receiver_id": to, "envelope": envelope(from, "hello")}).to_string();
    let head = format!(
        "POST /messages HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {key}\r\ncontent-length: {}\r\n\r\n",
        hub.addr,
        body.len()
    );
    let mut stream = TcpStream::connect(hub.addr).await.unwrap();
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await.unwrap();
    stream
}

/// Waits until every accepted send has finished or hangs at a receiver. Returns how many hang.
async fn quiet(hub: &TestHub, receivers: &[&FakeAgent]) -> usize {
    let open = || receivers.iter().map(|receiver| receiver.requests().len()).sum::<usize>();
    loop {
        let before = open();
        tokio::time::sleep(Duration::from_millis(300)).await;
        hub.assert_healthy().await;
        if open() == before {
            return before;
        }
    }
}

/// Starts a send as a task that waits for its outcome.
fn sending(hub: &TestHub, key: &str, from: &str, to: &str) -> tokio::task::JoinHandle<Answer> {
    let body = json!({"receiver_id": to, "envelope": envelope(from, "hello")});
    tokio::spawn(Answer::of(hub.request(Method::POST, "/messages", Some(key)).json(&body)))
}

/// Returns the reason of a send that the hub did not attempt.
async fn failed_at_once(hub: &TestHub, key: &str, from: &str, to: &str) -> String {
    let begun = Instant::now();
    let answer = hub.send(key, from, to, "hello").await;
    assert!(begun.elapsed() < SOON / 2);
    assert_eq!(answer.outcome(), (200, "failed"), "{}", answer.text);
    assert_eq!(answer.data()["error_code"], Code::AgentUnreachable.as_str());
    answer.data()["detail"].as_str().unwrap().to_owned()
}

/// An observed attack: one key, 367 sends to a hanging receiver, by a sender that hangs too.
#[tokio::test]
async fn one_key_does_not_open_hundreds_of_requests() {
    for setup in
        [patient(), Setup::postgres().config(|config| config.webhook_timeout = Duration::from_mins(1))]
    {
        let (hub, victim, other) = (setup.start(), hanging().await, FakeAgent::start().await);
        let key = hub.register("mallory").await;
        hub.register_webhook("victim", &victim.url()).await;
        hub.register_webhook("bob", &other.url()).await;
        let alice = hub.register("alice").await;
        let mut streams = vec![];
        for _ in 0..367 {
            streams.push(begin_send(&hub, &key, "mallory", "victim").await);
        }
        victim.wait_for(8, SOON).await;
        drop(streams);
        hub.assert_healthy().await;
        assert_eq!(hub.send(&alice, "alice", "bob", "hello").await.outcome(), (200, "delivered"));
        assert_eq!(quiet(&hub, &[&victim]).await, 8, "half of what one receiver gets at a time");
        // The slots of one address are held by requests whose senders have gone.
        let why = failed_at_once(&hub, &alice, "alice", "victim").await;
        assert!(why.starts_with("too many requests to this receiver are open: at most 16 are"), "{why}");
        let sending = tokio::spawn(Answer::of(from_elsewhere(&hub, &alice, "alice", "victim")));
        victim.wait_for(9, SOON).await;
        sending.abort();
    }
}

/// Builds a send from another address than everybody else's.
fn from_elsewhere(hub: &TestHub, key: &str, from: &str, to: &str) -> RequestBuilder {
    let client = reqwest::Client::builder().local_address(IpAddr::from([127, 0, 0, 9])).build().unwrap();
    let body = json!({"receiver_id": to, "envelope": envelope(from, "hello")});
    client.post(format!("{}/messages", hub.url)).bearer_auth(key).json(&body)
}

#[tokio::test]
async fn a_host_is_spared_whoever_receives_there() {
    let (hub, host, mut streams) = (patient().start(), hanging().await, vec![]);
    for sender in ["ann", "ben"] {
        let key = hub.register(sender).await;
        for n in 0..4 {
            let name = format!("{sender}-{n}");
            hub.register_webhook(&name, &format!("http://{}/{name}", host.addr())).await;
            for _ in 0..7 {
                streams.push(begin_send(&hub, &key, sender, &name).await);
            }
        }
    }
    assert_eq!(quiet(&hub, &[&host]).await, 10, "half of what a host gets at a time");
    let key = hub.register("carl").await;
    let why = failed_at_once(&hub, &key, "carl", "ann-0").await;
    assert!(why.starts_with("too many requests to the receiver's host are open: at most 20 are"), "{why}");
}

#[tokio::test]
async fn a_host_gets_so_many_a_minute() {
    let (hub, bob) =
        (Setup::new().config(|config| config.quotas.webhooks_host_minute = 10), FakeAgent::start().await);
    let hub = hub.start();
    let key = hub.register("alice").await;
    hub.register_webhook("bob", &bob.url()).await;
    for _ in 0..5 {
        assert_eq!(hub.send(&key, "alice", "bob", "hello").await.outcome(), (200, "delivered"));
    }
    let why = failed_at_once(&hub, &key, "alice", "bob").await;
    assert!(why.starts_with("the receiver's host got too many requests: at most 10 a minute"), "{why}");
    assert_eq!(bob.requests().len(), 5);
    // Undelivered messages are not reported as delivered.
    let page = hub.get("/api/v1/deliveries?state=failed", Some(&key)).await;
    assert_eq!(page.status, 200, "{}", page.text);
}

/// A sender at its own limit is told that it sends too fast; nothing is stored, and the same key works later.
#[tokio::test]
async fn a_sender_waits_for_so_many_at_a_time() {
    let setup = patient().config(|config| config.quotas.webhooks_sender = 2);
    let (hub, slow, other) = (setup.start(), hanging().await, FakeAgent::start().await);
    let (alice, carl) = (hub.register("alice").await, hub.register("carl").await);
    hub.register_webhook("slow", &slow.url()).await;
    hub.register_webhook("bob", &other.url()).await;
    hub.register("dora").await;
    let waiting = [sending(&hub, &alice, "alice", "slow"), sending(&hub, &alice, "alice", "slow")];
    slow.wait_for(2, SOON).await;
    let body = json!({"receiver_id": "bob", "envelope": envelope("alice", "hello")});
    let again = || {
        Answer::of(
            hub.request(Method::POST, "/messages", Some(&alice)).header("idempotency-key", "k1").json(&body),
        )
    };
    let refused = again().await;
    let why = refused.failure(Code::RateLimited);
    assert!(why.starts_with("2 of this sender's requests to endpoints are open"), "{why}");
    assert_eq!(refused.header("retry-after"), "1");
    assert!(other.requests().is_empty());
    // Inboxes and other senders are not affected.
    assert_eq!(hub.send(&alice, "alice", "dora", "hello").await.outcome(), (202, "queued"));
    assert_eq!(hub.send(&carl, "carl", "bob", "hello").await.outcome(), (200, "delivered"));
    drop(slow);
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap().outcome(), (200, "failed"));
    }
    assert_eq!(again().await.outcome(), (200, "delivered"));
    assert_eq!(other.requests().len(), 2);
}

#[tokio::test]
async fn no_address_uses_up_the_whole() {
    let (hub, hangs) = (patient().config(|config| config.quotas.webhooks = 8).start(), hanging().await);
    let other = FakeAgent::start().await;
    hub.register_webhook("hangs", &hangs.url()).await;
    hub.register_webhook("bob", &other.url()).await;
    // Many names do not avoid the limit.
    let (mut keys, mut streams) = (vec![], vec![]);
    for n in 0..6 {
        let (name, key) = (format!("m{n}"), hub.register(&format!("m{n}")).await);
        for _ in 0..3 {
            streams.push(begin_send(&hub, &key, &name, "hangs").await);
        }
        keys.push((name, key));
    }
    assert_eq!(quiet(&hub, &[&hangs]).await, 4, "half of them");
    let refused = hub.send(&keys[0].1, &keys[0].0, "bob", "hello").await;
    assert!(refused.failure(Code::RateLimited).contains("one address"), "{}", refused.text);
    let key = hub.register("alice").await;
    let sent = from_elsewhere(&hub, &key, "alice", "bob");
    assert_eq!(Answer::of(sent).await.outcome(), (200, "delivered"));
}

#[tokio::test]
async fn what_fails_ten_times_rests_and_recovers() {
    let setup = Setup::new().config(|config| config.times.rest = Duration::from_secs(2));
    let (hub, bob) = (setup.start(), FakeAgent::start().await);
    let (alice, carl) = (hub.register("alice").await, hub.register("carl").await);
    hub.register_webhook("bob", &bob.url()).await;
    bob.set(Reply::DropConnection);
    for _ in 0..10 {
        assert_eq!(hub.send(&alice, "alice", "bob", "hello").await.outcome(), (200, "failed"));
    }
    bob.set(Reply::Json(200, json!({})));
    for (key, from) in [(&alice, "alice"), (&carl, "carl")] {
        let why = failed_at_once(&hub, key, from, "bob").await;
        assert!(
            why.starts_with("the receiver's endpoint failed 10 times in a row and is left alone"),
            "{why}"
        );
    }
    assert_eq!(bob.requests().len(), 10, "it is left alone");
    let answer = eventually(
        async || hub.send(&alice, "alice", "bob", "hello").await.outcome().1.to_owned(),
        |delivery| delivery == "delivered",
    );
    assert_eq!(answer.await, "delivered");
    assert_eq!(hub.send(&carl, "carl", "bob", "hello").await.outcome(), (200, "delivered"));
}

/// A receiver may refuse a stranger all day; others still reach it.
#[tokio::test]
async fn a_stranger_who_is_refused_keeps_nobody_else_out() {
    let (hub, bob) = (TestHub::start(), FakeAgent::start().await);
    let (alice, mallory) = (hub.register("alice").await, hub.register("mallory").await);
    hub.register_webhook("bob", &bob.url()).await;
    bob.set(Reply::Json(403, json!({})));
    for _ in 0..10 {
        assert_eq!(hub.send(&mallory, "mallory", "bob", "hello").await.outcome(), (200, "failed"));
    }
    bob.set(Reply::Json(200, json!({})));
    let why = failed_at_once(&hub, &mallory, "mallory", "bob").await;
    assert!(why.contains("is left alone; try again in 30 s"), "{why}");
    assert_eq!(hub.send(&alice, "alice", "bob", "hello").await.outcome(), (200, "delivered"));
}

/// Pushes do not fail at a limit: they wait, and no attempt is counted.
#[tokio::test]
async fn pushes_wait_for_their_turn() {
    let setup = Setup::new().config(|config| config.quotas.webhooks_receiver = 1);
    let (fixture, timber) = (ChannelFixture::on(&setup).await, FakeAgent::start().await);
    timber.set(Reply::Slow(Duration::from_millis(500), Box::new(Reply::Json(200, json!({})))));
    fixture.connected("timber", &timber).await;
    let other = fixture.another_channel("other").await;
    fixture.join(&other, "timber").await;
    let events = [fixture.say("@timber one").await, fixture.say_in(&other, "@timber two").await];
    timber.wait_for(1, SOON).await;
    let first = Instant::now();
    timber.wait_for(2, SOON).await;
    assert!(first.elapsed() > Duration::from_millis(300), "one after the other: {:?}", first.elapsed());
    for event in events {
        let delivery = fixture.delivery_is(&event, "delivered").await;
        assert_eq!(delivery["attempts"].as_array().map(Vec::len), Some(1), "{delivery}");
    }
}

#[tokio::test]
async fn pushes_wait_until_a_rest_is_over() {
    let setup = Setup::new().config(|config| config.times.rest = Duration::from_secs(2));
    let (fixture, timber) = (ChannelFixture::on(&setup).await, FakeAgent::start().await);
    fixture.connected("timber", &timber).await;
    let alice = fixture.hub.register("alice").await;
    timber.set(Reply::DropConnection);
    for _ in 0..10 {
        assert_eq!(fixture.hub.send(&alice, "alice", "timber", "hello").await.outcome(), (200, "failed"));
    }
    timber.set(Reply::Json(200, json!({})));
    let begun = Instant::now();
    let event = fixture.say("@timber are you well?").await;
    timber.wait_for(11, SOON).await;
    assert!(begun.elapsed() > Duration::from_secs(1), "it was left alone: {:?}", begun.elapsed());
    let delivery = fixture.delivery_is(&event, "delivered").await;
    assert_eq!(delivery["attempts"].as_array().map(Vec::len), Some(1), "{delivery}");
    assert_eq!(timber.requests().len(), 11);
}

/// Addresses from outside must not name hosts that only this network reaches. Names are resolved only for
/// callers who may set them; to others every name looks the same.
#[tokio::test]
async fn who_may_not_set_an_address_learns_nothing_of_names() {
    let fixture = ChannelFixture::on(&Setup::new().config(|config| config.outbound.allow = vec![])).await;
    let (hub, eve) = (&fixture.hub, fixture.hub.register("eve").await);
    let made = fixture.agent(&json!({"name": "timber"})).await;
    let key = made["api_key"].as_str().unwrap_or_else(|| panic!("{made}"));
    for (method, path, field) in [
        ("PUT", "/api/v1/agents/timber/connection", "connection_string"),
        ("PUT", "/api/v1/agents/timber/harness", "endpoint"),
        ("PATCH", "/api/v1/agents/timber", "endpoint"),
    ] {
        let body = json!({field: "http://localhost:1/"});
        hub.ask(method, path, Some(&eve), &body).await.own_failure(Code::Forbidden);
        let own = hub.ask(method, path, Some(key), &body).await;
        let why = own.own_failure(Code::EndpointBlocked);
        assert!(why.contains("localhost is no name of a public address"), "{why}");
    }
}

#[tokio::test]
async fn a_foreign_post_with_a_private_address_is_refused() {
    let fixture = ChannelFixture::on(&Setup::new().config(|config| config.outbound.allow = vec![])).await;
    let made = fixture.agent(&json!({"name": "timber"})).await;
    let inbox = made["connection_string"].as_str().unwrap_or_else(|| panic!("{made}"));
    let post = |callback: &str, mcp: &str| {
        json!({"channel": {"id": "C1"}, "message": {"id": "m1", "sender": "s", "content": "c"},
            "callback": callback, "mcp": {"url": mcp}})
    };
    let public = "https://192.0.1.1/cb";
    for (callback, mcp, place) in [
        ("http://127.0.0.1:1/cb", public, "callback: 127.0.0.1 is a loopback address"),
        ("http://localhost:1/cb", public, "callback: localhost is no name of a public address"),
        (public, "http://169.254.169.254/", "mcp.url: 169.254.169.254 is a link-local address"),
    ] {
        let answer = Answer::of(fixture.hub.client.post(inbox).json(&post(callback, mcp))).await;
        let why = answer.own_failure(Code::EndpointBlocked);
        assert!(why.starts_with(place), "{why}");
    }
    // The hub's own addresses are private here, but belong to the hub.
    let own: Value =
        post(&format!("{}/channels/x/inbox/tok_1", fixture.hub.url), &format!("{}/mcp/x", fixture.hub.url));
    assert_eq!(Answer::of(fixture.hub.client.post(inbox).json(&own)).await.status, 200);
}
