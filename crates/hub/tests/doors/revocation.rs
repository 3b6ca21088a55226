//! Revocation takes effect at once: everything opened with the credential ends, on every node.

use crate::channel_fixture::ChannelFixture;
use crate::support::{Answer, Inbox, OPERATOR, SOON, Setup, TestHub, envelope};
use chorus_protocol::code::Code;
use chorus_store::{StoreError, Tx};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// The longest time until another node reacts.
const ELSEWHERE: Duration = Duration::from_secs(1);

/// Asserts that a stream has ended without further events.
async fn assert_over(stream: &mut Inbox, what: &str) {
    let told = stream.rest().await;
    assert!(told.is_empty(), "{what}: {told:?}");
}

/// Creates a second token of an account. Returns its id and the token.
pub(crate) async fn token(hub: &TestHub, account: &str) -> (String, String) {
    let made = hub.post("/api/v1/tokens", Some(account), &json!({"label": "t"})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let text = |name: &str| made.body[name].as_str().unwrap().to_owned();
    (text("id"), text("token"))
}

/// Returns the first message of an MCP client.
fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}})
}

/// Returns the response to an MCP client with this bearer.
pub(crate) async fn mcp(hub: &TestHub, channel: &str, bearer: &str) -> Answer {
    hub.post(&format!("/mcp/{channel}"), Some(bearer), &initialize()).await
}

/// Returns the secret of the tools that came with a message.
pub(crate) fn mcp_token(chat: &Value) -> String {
    chat["mcp"]["headers"]["Authorization"].as_str().unwrap().strip_prefix("Bearer ").unwrap().to_owned()
}

/// Calls `wait_for_events` with a session, which takes a minute if nothing happens.
fn long_poll(hub: &TestHub, channel: &str, bearer: &str, session: &str) -> JoinHandle<Answer> {
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "wait_for_events", "arguments": {"wait_ms": 60_000}}});
    let request = hub.request(Method::POST, &format!("/mcp/{channel}"), Some(bearer)).json(&call);
    let request = request.header("accept", "application/json, text/event-stream");
    tokio::spawn(Answer::of(
        request.header("mcp-session-id", session).header("mcp-protocol-version", "2025-11-25"),
    ))
}

async fn publish_after_a_revoked_token(setup: Setup) {
    let fixture =
        ChannelFixture::on(&setup.config(|config| config.times.ping = Duration::from_mins(1))).await;
    let (hub, channel) = (&fixture.hub, format!("/api/v1/channels/{}", fixture.channel));
    let ((id, stolen), (_, kept)) = (token(hub, &fixture.anna).await, token(hub, &fixture.anna).await);
    let mut thief = hub.follow(&channel, &stolen, None).await;
    let mut other = hub.follow(&channel, &kept, None).await;
    fixture.say("before").await;
    assert_eq!(thief.event("message").await["content"], "before");

    assert_eq!(hub.delete(&format!("/api/v1/tokens/{id}"), Some(&fixture.anna)).await.status, 204);
    for n in 0..20 {
        fixture.say(&n.to_string()).await;
    }
    assert_over(&mut thief, "a revoked token").await;
    assert_eq!(other.event("message").await["content"], "before");
    for n in 0..20 {
        assert_eq!(other.event("message").await["content"], n.to_string(), "another token goes on");
    }
    hub.get("/api/v1/me", Some(&stolen)).await.own_failure(Code::Unauthorized);
}

#[tokio::test]
async fn a_revoked_tokens_stream_ends_before_the_next_message() {
    publish_after_a_revoked_token(Setup::new()).await;
}

#[tokio::test]
async fn a_revoked_tokens_stream_ends_before_the_next_message_on_postgres() {
    publish_after_a_revoked_token(Setup::postgres()).await;
}

/// Everything opened with an agent's key, or issued under it.
struct GivenOut {
    inbox: Inbox,
    stream: Inbox,
    poll: JoinHandle<Answer>,
    notices: reqwest::Response,
    mcp_token: String,
    callback: Value,
}

/// Opens and issues everything for the agent `timber`. `key` is its key.
async fn give_out(fixture: &ChannelFixture, reader: &TestHub, key: &str) -> GivenOut {
    let mut inbox = reader.inbox(key, None).await;
    fixture.say("@timber hello").await;
    let chat = inbox.event("chat").await;
    let stream = reader.follow(&format!("/api/v1/channels/{}", fixture.channel), key, None).await;
    let opened = mcp(reader, &fixture.channel, key).await;
    assert_eq!(opened.status, 200, "{}", opened.text);
    let session = opened.header("mcp-session-id").to_owned();
    let mcp_token = mcp_token(&chat);
    assert_eq!(mcp(reader, &fixture.channel, &mcp_token).await.status, 200);
    let notices = reader.request(Method::GET, &format!("/mcp/{}", fixture.channel), Some(key));
    let notices = notices.header("accept", "text/event-stream").header("mcp-session-id", &session);
    let notices = notices.send().await.unwrap();
    assert_eq!(notices.status(), 200);
    let poll = long_poll(reader, &fixture.channel, key, &session);
    // The call must have begun to wait, because the key is checked before.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!poll.is_finished());
    GivenOut { inbox, stream, poll, notices, mcp_token, callback: chat["callback"].clone() }
}

impl GivenOut {
    /// Asserts that everything ends within a time, and that the secrets are refused.
    async fn assert_over(mut self, fixture: &ChannelFixture, reader: &TestHub, within: Duration, what: &str) {
        let begun = Instant::now();
        assert_over(&mut self.inbox, what).await;
        assert_over(&mut self.stream, what).await;
        let polled = self.poll.await.unwrap();
        assert!(
            polled.body["error"].is_object() || polled.body["result"]["isError"] == true,
            "{what}: {polled:?}"
        );
        let rest = tokio::time::timeout(SOON, self.notices.text()).await.expect("the notices end").unwrap();
        assert!(!rest.contains("data:"), "{what}: {rest}");
        assert!(begun.elapsed() < within, "{what}: {:?}", begun.elapsed());
        let refused = mcp(reader, &fixture.channel, &self.mcp_token).await;
        assert!([401, 403].contains(&refused.status), "{what}: {}", refused.text);
        let said = json!({"type": "message", "content": "still here"});
        let refused = fixture.call_back(&self.callback, &said).await;
        assert!([403, 410].contains(&refused.status), "{what}: {}", refused.text);
    }
}

#[tokio::test]
async fn a_replaced_key_ends_everything_that_was_given_out_under_it() {
    let fixture =
        ChannelFixture::on(&Setup::new().config(|config| config.times.ping = Duration::from_mins(1))).await;
    let hub = &fixture.hub;
    let made = fixture.agent(&json!({"name": "timber"})).await;
    fixture.join(&fixture.channel, "timber").await;
    let key = made["api_key"].as_str().unwrap();

    let given = give_out(&fixture, hub, key).await;
    let rotated = hub.post("/register", Some(key), &json!({"agent_id": "timber"})).await;
    let second = rotated.data()["api_key"].as_str().unwrap().to_owned();
    given.assert_over(&fixture, hub, SOON, "rotated").await;

    let given = give_out(&fixture, hub, &second).await;
    let reset = hub.post("/api/v1/agents/timber/key/reset", Some(&fixture.anna), &json!({})).await;
    assert_eq!(reset.status, 200, "{}", reset.text);
    given.assert_over(&fixture, hub, SOON, "reset").await;
    for dead in [key, &second] {
        hub.get("/agent/messages", Some(dead)).await.failure(Code::Unauthorized);
    }

    let third = reset.body["api_key"].as_str().unwrap();
    let mut given = give_out(&fixture, hub, third).await;
    let rotate = "/api/v1/agents/timber/connection-string/rotate";
    assert_eq!(hub.post(rotate, Some(third), &json!({})).await.status, 200);
    let said = json!({"type": "message", "content": "still here"});
    assert_eq!(fixture.call_back(&given.callback, &said).await.status, 410);
    assert_eq!(mcp(hub, &fixture.channel, &given.mcp_token).await.status, 401);
    fixture.say("@timber the key is good").await;
    given.inbox.event("chat").await;
    given.stream.event("message").await;
    assert_eq!(given.poll.await.unwrap().status, 200, "its key is good, so it goes on");
}

/// A streamed reply ends with the receiver's key, and with the sender's.
#[tokio::test]
async fn a_reply_ends_with_its_receivers_key_and_with_its_senders() {
    let hub = TestHub::start();
    for loser in ["alice", "bob"] {
        let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
        let mut inbox = hub.inbox(&bob, None).await;
        let body = json!({"receiver_id": "bob", "envelope": envelope("alice", "hi"), "stream": true});
        let sent = hub.request(Method::POST, "/messages", Some(&alice)).json(&body).send();
        let mut sent = tokio::spawn(sent).await.unwrap().unwrap();
        let (_, message) = inbox.message().await;
        let (lines, body) = mpsc::channel::<Result<String, std::io::Error>>(1);
        let body = reqwest::Body::wrap_stream(futures_util::stream::unfold(body, |mut body| async {
            Some((body.recv().await?, body))
        }));
        let reply =
            tokio::spawn(hub.client.post(message["reply_stream"].as_str().unwrap()).body(body).send());
        let chunk = |n: u32| Ok(format!("{}\n", json!({"type": "chunk", "text": n.to_string()})));
        lines.send(chunk(1)).await.unwrap();
        assert!(String::from_utf8_lossy(&sent.chunk().await.unwrap().unwrap()).contains("chunk"));

        let reset = hub.post(&format!("/api/v1/agents/{loser}/key/reset"), Some(OPERATOR), &json!({})).await;
        assert_eq!(reset.status, 200, "{}", reset.text);
        // The reader may be gone already.
        lines.send(chunk(2)).await.ok();
        let rest = tokio::time::timeout(SOON, sent.text()).await.expect("the sender's stream ends").unwrap();
        assert!(!rest.contains("chunk"), "{loser}: {rest}");
        assert_eq!(rest.contains("event: error"), loser == "bob", "who lost its key is told nothing: {rest}");
        drop((inbox, lines));
        // The reply is refused, or its connection is closed while it is sent.
        let status = reply.await.unwrap().map(|answer| answer.status().as_u16());
        assert!(status.as_ref().is_ok_and(|status| *status >= 400) || status.is_err(), "{loser}: {status:?}");
        for name in ["alice", "bob"] {
            hub.delete(&format!("/agents/{name}"), Some(OPERATOR)).await.data();
        }
    }
}

/// A past revocation does not end connections opened since.
#[tokio::test]
async fn what_was_taken_back_before_ends_nothing() {
    let hub = TestHub::postgres();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let rotated = hub.post("/register", Some(&bob), &json!({"agent_id": "bob"})).await;
    let bob = rotated.data()["api_key"].as_str().unwrap().to_owned();
    let channel = hub.channel(&bob, &json!({"name": "c"})).await;
    let mut stream = hub.follow(&channel, &bob, None).await;
    let mut inbox = hub.inbox(&bob, None).await;
    let body = json!({"receiver_id": "bob", "envelope": envelope("alice", "hi"), "stream": true});
    let sent = hub.request(Method::POST, "/messages", Some(&alice)).json(&body).send().await.unwrap();
    let (_, message) = inbox.message().await;
    let (lines, body) = mpsc::channel::<Result<String, std::io::Error>>(1);
    let body = reqwest::Body::wrap_stream(futures_util::stream::unfold(body, |mut body| async {
        Some((body.recv().await?, body))
    }));
    let reply = tokio::spawn(hub.client.post(message["reply_stream"].as_str().unwrap()).body(body).send());
    lines.send(Ok(format!("{}\n", json!({"type": "chunk", "text": "1"})))).await.unwrap();
    // The node checks everything it follows.
    hub.background_round().await;
    lines.send(Ok(format!("{}\n", json!({"type": "done", "result": 1})))).await.unwrap();
    assert_eq!(reply.await.unwrap().unwrap().status(), 200);
    assert!(sent.text().await.unwrap().contains("event: done"));
    hub.say(&channel, &bob, &json!({"content": "still here"})).await;
    assert_eq!(stream.event("message").await["content"], "still here");
    assert_eq!(hub.send(&alice, "alice", "bob", "and here").await.outcome(), (200, "delivered_sse"));
    inbox.message().await;
}

/// A node that notices the closed session before the revoked key does not report a takeover.
#[tokio::test]
async fn a_key_that_is_taken_back_is_no_takeover() {
    let hub = TestHub::postgres();
    let bob = hub.register("bob").await;
    let mut inbox = hub.inbox(&bob, None).await;
    // Revokes the key as another node does, before its notification arrives.
    let take_back = |tx: &mut dyn Tx| {
        tx.execute("UPDATE agents SET disabled_at = 1", &[])?;
        tx.execute("UPDATE inboxes SET session = NULL, node = NULL, open_until = 0", &[]).map(drop)
    };
    hub.store().write::<_, StoreError, _>(take_back).await.unwrap();
    assert_over(&mut inbox, "before the notice").await;
}

/// The same between two nodes.
#[tokio::test]
async fn what_is_taken_back_on_one_node_ends_on_the_other() {
    let setup = Setup::postgres().config(|config| config.times.ping = Duration::from_mins(1));
    let (fixture, there) = (ChannelFixture::on(&setup).await, setup.start());
    let here = &fixture.hub;
    let made = fixture.agent(&json!({"name": "timber"})).await;
    fixture.join(&fixture.channel, "timber").await;
    let channel = format!("/api/v1/channels/{}", fixture.channel);

    let (id, stolen) = token(here, &fixture.anna).await;
    let mut thief = there.follow(&channel, &stolen, None).await;
    let begun = Instant::now();
    assert_eq!(here.delete(&format!("/api/v1/tokens/{id}"), Some(&fixture.anna)).await.status, 204);
    assert_over(&mut thief, "a token").await;
    assert!(begun.elapsed() < ELSEWHERE, "{:?}", begun.elapsed());
    there.get("/api/v1/me", Some(&stolen)).await.own_failure(Code::Unauthorized);

    let key = made["api_key"].as_str().unwrap();
    let given = give_out(&fixture, &there, key).await;
    let begun = Instant::now();
    let reset = here.post("/api/v1/agents/timber/key/reset", Some(&fixture.anna), &json!({})).await;
    assert_eq!(reset.status, 200, "{}", reset.text);
    given.assert_over(&fixture, &there, ELSEWHERE, "a key").await;
    there.get("/agent/messages", Some(key)).await.failure(Code::Unauthorized);
    assert!(begun.elapsed() < 2 * ELSEWHERE, "{:?}", begun.elapsed());

    let key = reset.body["api_key"].as_str().unwrap();
    let given = give_out(&fixture, &there, key).await;
    let disabled = here.post("/api/v1/operator/agents/timber/disable", Some(OPERATOR), &json!({})).await;
    assert_eq!(disabled.status, 200, "{}", disabled.text);
    given.assert_over(&fixture, &there, ELSEWHERE, "a disabled agent").await;
    there.get("/agent/messages", Some(key)).await.failure(Code::Forbidden);

    // A former member gets nothing either.
    let bob = here.register("bob").await;
    here.add(&channel, &fixture.anna, &json!({"agent": "bob", "handle": "bob"})).await;
    let mut stream = there.follow(&channel, &bob, None).await;
    let begun = Instant::now();
    assert_eq!(here.delete(&format!("{channel}/members/bob"), Some(&fixture.anna)).await.status, 204);
    for n in 0..20 {
        fixture.say(&n.to_string()).await;
    }
    let told = stream.rest().await;
    assert!(told.iter().all(|event| event.event != "message"), "{told:?}");
    assert!(begun.elapsed() < 2 * ELSEWHERE, "{:?}", begun.elapsed());
}
