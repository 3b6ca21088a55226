//! Authorization: one agent's session, token or channel is useless to another.

use super::{Client, McpFixture};
use crate::channel_fixture::{ChannelFixture, HOUR};
use crate::support::{Answer, OPERATOR};
use chorus_testkit::receiver::FakeAgent;
use reqwest::Method;
use serde_json::{Value, json};

/// Every method of either revision, and an unknown one.
const METHODS: [&str; 14] = [
    "initialize",
    "ping",
    "server/discover",
    "subscriptions/listen",
    "tools/list",
    "tools/call",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "no/such",
];

fn params() -> Value {
    json!({"name": "get_roster", "uri": "chorus://x", "protocolVersion": "2025-11-25", "notifications": {}})
}

/// Returns a call of every tool, and calls that are invalid for everybody.
fn calls() -> [Value; 14] {
    let event = "evt_00000000000000000000000000000000";
    [
        json!({"name": "chat_list_events", "arguments": {}}),
        json!({"name": "chat_read_thread", "arguments": {"thread": event}}),
        json!({"name": "chat_send_message", "arguments": {"content": "let me in", "idempotency_key": "said"}}),
        json!({"name": "chat_react", "arguments": {"event_id": event, "action": "ack"}}),
        json!({"name": "wait_for_events", "arguments": {"after": 0, "wait_ms": 0}}),
        json!({"name": "get_roster", "arguments": {}}),
        json!({"name": "set_status", "arguments": {"status": "here"}}),
        json!({"name": "search", "arguments": {"query": "secret"}}),
        json!({"name": "artifact_list", "arguments": {}}),
        json!({"name": "artifact_read", "arguments": {"slug": "plan"}}),
        json!({"name": "artifact_create", "arguments": {"slug": "plan", "content": "x"}}),
        json!({"name": "artifact_edit", "arguments": {"slug": "plan", "content": "x", "base_version": 1}}),
        json!({"name": "get_roster", "arguments": {"limit": "many"}}),
        json!({"name": "no_such_tool"}),
    ]
}

/// Asserts that this client gets the same status for every request.
async fn always(client: &Client<'_>, status: u16, what: &str) {
    for method in METHODS {
        let answer = client.rpc(method, params()).await;
        assert_eq!(answer.status, status, "{what}, {method}: {}", answer.text);
    }
    for call in calls() {
        let answer = client.rpc("tools/call", call.clone()).await;
        assert_eq!(answer.status, status, "{what}, {call}: {}", answer.text);
    }
    let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(client.send(&told).await.status, status, "{what}");
    for method in [Method::GET, Method::DELETE] {
        assert_eq!(Answer::of(client.request(method.clone())).await.status, status, "{what}, {method}");
    }
}

#[tokio::test]
async fn a_session_is_its_owners_in_its_channel() {
    let fixture = McpFixture::start().await;
    let ben = fixture.ben().with_session().await;
    let elsewhere = fixture.base.another_channel("elsewhere").await;
    fixture.base.join(&elsewhere, "ben").await;
    let cora = Client { key: fixture.cora.clone(), ..ben.clone() };
    let there = Client { channel: elsewhere, ..ben.clone() };
    let anna = Client { key: fixture.base.anna.clone(), ..ben.clone() };
    let made_up = Client { session: Some("0123456789abcdef".into()), ..ben.clone() };
    for (client, what) in
        [(cora, "another member"), (there, "another channel"), (anna, "a person"), (made_up, "no session")]
    {
        for method in METHODS.into_iter().filter(|method| *method != "initialize") {
            // Discovery needs no session, so its owner does not matter.
            if method == "server/discover" {
                continue;
            }
            let answer = client.rpc(method, params()).await;
            assert_eq!(answer.status, 404, "{what}, {method}: {}", answer.text);
        }
        for method in [Method::GET, Method::DELETE] {
            assert_eq!(Answer::of(client.request(method)).await.status, 404, "{what}");
        }
    }
    assert_eq!(ben.rpc("ping", json!({})).await.status, 200, "it was not ended by others");
}

#[tokio::test]
async fn strangers_find_nothing() {
    let fixture = McpFixture::start().await;
    let hub = &fixture.base.hub;
    let outsider = hub.register("dora").await;
    let account = hub.account("eve@example.org").await;
    let (ben, session) = (fixture.ben(), fixture.ben().with_session().await.session);
    for key in [&outsider, &account] {
        let stranger = Client { key: key.clone(), ..ben.clone() };
        always(&stranger, 404, "a stranger").await;
        always(&Client { session: session.clone(), ..stranger }, 404, "a stranger with a session").await;
    }
    let nowhere = Client { channel: "ch_00000000000000000000000000000000".into(), ..ben.clone() };
    always(&nowhere, 404, "no channel").await;
    always(&Client { channel: "x".into(), ..ben.clone() }, 404, "no id").await;
    for key in ["ca_00000000000000000000000000000000", "mt_AAAA", "ct_00000000000000000000000000000000", "x"]
    {
        always(&Client { key: key.into(), ..ben.clone() }, 401, key).await;
    }
    always(&Client { key: OPERATOR.into(), ..ben.clone() }, 403, "the operator").await;

    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let path = format!("/mcp/{}", fixture.base.channel);
    let nobody = hub.post(&path, None, &list).await;
    assert_eq!(nobody.status, 401);
    assert!(nobody.header("www-authenticate").starts_with("Bearer"), "{:?}", nobody.headers);
}

#[tokio::test]
async fn members_come_and_go() {
    let fixture = McpFixture::start().await;
    let (ben, old) = (fixture.ben(), fixture.ben().with_session().await);
    // A stored response is not repeated to a former member.
    let said = json!({"content": "let me in", "idempotency_key": "said"});
    ben.tool("chat_send_message", said).await;
    let mut stream = old.stream(None).await;
    let path = format!("/api/v1/channels/{}/members/ben", fixture.base.channel);
    assert_eq!(fixture.base.hub.delete(&path, Some(&fixture.base.anna)).await.status, 204);
    stream.end().await;
    always(&ben, 404, "who has left").await;
    always(&old, 404, "who has left, with a session").await;
}

#[tokio::test]
async fn a_key_that_was_replaced_is_told_nothing_more() {
    let fixture = McpFixture::start().await;
    let old = fixture.ben().with_session().await;
    let mut stream = old.stream(None).await;
    let rotated = fixture.base.hub.post("/register", Some(&fixture.ben), &json!({"agent_id": "ben"})).await;
    assert_eq!(rotated.status, 200, "{}", rotated.text);
    fixture.cora().tool("artifact_create", json!({"slug": "secret", "content": "x"})).await;
    stream.end().await;
    always(&old, 401, "the old key").await;
    let key = rotated.data()["api_key"].as_str().unwrap().to_owned();
    assert_eq!(
        Client { key, ..old.clone() }.rpc("ping", json!({})).await.status,
        200,
        "it is still ben's session"
    );
}

#[tokio::test]
async fn people_use_it_too() {
    let fixture = McpFixture::start().await;
    let anna = Client { key: fixture.base.anna.clone(), ..fixture.ben() };
    assert_eq!(anna.tool("get_roster", json!({})).await["you"], "anna");
    let said = anna.with_session().await.say("@ben look").await;
    assert_eq!(said["woken"], json!(["ben"]));
}

#[tokio::test]
async fn other_sites_and_other_names_are_refused() {
    let fixture = McpFixture::start().await;
    let (ben, hub) = (fixture.ben(), &fixture.base.hub);
    let asked = async |host: &str, origin: Option<&str>| -> u16 {
        let mut request = ben.ask("tools/list", json!({})).header("host", host);
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        Answer::of(request).await.status
    };
    let (own, port) = (hub.addr.to_string(), hub.addr.port());
    assert_eq!(asked(&own, None).await, 200);
    assert_eq!(asked(&own, Some(&hub.url)).await, 200);
    assert_eq!(asked(&format!("localhost:{port}"), Some(&format!("http://localhost:{port}"))).await, 200);
    assert_eq!(asked("evil.example", None).await, 403);
    assert_eq!(asked("evil.example", Some("http://evil.example")).await, 403);
    for origin in ["https://evil.example", "null", "http://localhost:1", "http://127.0.0.1"] {
        assert_eq!(asked(&own, Some(origin)).await, 403, "{origin}");
    }
}

/// Returns the `mcp` part of the next message that wakes this agent by its inbox.
async fn ticket(base: &ChannelFixture, name: &str, key: &str) -> Value {
    let mut inbox = base.hub.inbox(key, None).await;
    base.say(&format!("@{name} hello")).await;
    let chat = inbox.event("chat").await;
    assert_eq!(chat["mcp"]["url"], format!("{}/mcp/{}", base.hub.url, base.channel));
    chat["mcp"].clone()
}

fn token(mcp: &Value) -> String {
    let bearer = mcp["headers"]["Authorization"].as_str().unwrap();
    bearer.strip_prefix("Bearer ").filter(|token| token.starts_with("mt_")).unwrap().to_owned()
}

#[tokio::test]
async fn a_token_comes_with_each_message_and_is_good_for_its_channel() {
    let fixture = McpFixture::start().await;
    let base = &fixture.base;
    let elsewhere = base.another_channel("elsewhere").await;
    base.join(&elsewhere, "ben").await;
    let token = token(&ticket(base, "ben", &fixture.ben).await);
    let ben = Client { key: token.clone(), ..fixture.ben() };
    assert_eq!(ben.tool("get_roster", json!({})).await["you"], "ben");
    assert_eq!(ben.with_session().await.tool("get_roster", json!({})).await["you"], "ben");
    always(&Client { channel: elsewhere, ..ben.clone() }, 404, "another channel").await;

    for path in ["/api/v1/me", "/api/v1/channels", "/agent/messages"] {
        assert_eq!(base.hub.get(path, Some(&token)).await.status, 401, "{path}");
    }
    let forged = token.replacen("mt_", "mt_A", 1);
    always(&Client { key: forged, ..ben.clone() }, 401, "forged").await;
    let said = ben.say(&format!("my token is {token}")).await;
    assert_eq!(said["masked"], json!(["MCP token"]));
}

#[tokio::test]
async fn tokens_count_for_their_agent() {
    let fixture = McpFixture::start().await;
    let first = token(&ticket(&fixture.base, "ben", &fixture.ben).await);
    let second = token(&ticket(&fixture.base, "ben", &fixture.ben).await);
    let (channel, cora) = (fixture.base.channel, fixture.cora);
    let hub = fixture.base.hub.restart(|config| config.rate_limit = Some(60)).await;
    let mut statuses = vec![];
    for n in 0..80 {
        let key = if n % 2 == 0 { &first } else { &second };
        statuses.push(Client::new(&hub, &channel, key).rpc("tools/list", json!({})).await.status);
    }
    assert!(statuses.contains(&200) && statuses.ends_with(&[429, 429]), "{statuses:?}");
    assert_eq!(Client::new(&hub, &channel, &cora).rpc("tools/list", json!({})).await.status, 200);
}

#[tokio::test]
async fn a_connection_string_is_sent_a_token_that_ends() {
    let (base, clock) = ChannelFixture::with_clock().await;
    let receiver = FakeAgent::start().await;
    let made = base.connected("finn", &receiver).await;
    base.say("@finn hello").await;
    receiver.wait_for(1, crate::support::SOON).await;
    let post = receiver.requests()[0].body.clone();
    assert_eq!(post["mcp"]["url"], format!("{}/mcp/{}", base.hub.url, base.channel));
    let finn = Client::new(&base.hub, &base.channel, &token(&post["mcp"]));
    assert_eq!(finn.tool("get_roster", json!({})).await["you"], "finn");
    clock.set(clock.now() + 24 * HOUR - 1);
    assert_eq!(finn.rpc("tools/list", json!({})).await.status, 200);
    clock.set(clock.now() + 1);
    always(&finn, 401, "a token of yesterday").await;

    base.say("@finn again").await;
    receiver.wait_for(2, crate::support::SOON).await;
    let finn = Client { key: token(&receiver.requests()[1].body["mcp"]), ..finn };
    assert_eq!(finn.rpc("tools/list", json!({})).await.status, 200);
    let key = made["api_key"].as_str().unwrap();
    let put = base.put_connection("finn", key, &crate::channel_fixture::inbox_of(&receiver)).await;
    assert_eq!(put.status, 200, "{}", put.text);
    always(&finn, 401, "a token of before the connection was replaced").await;
}
