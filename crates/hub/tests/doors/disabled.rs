//! A disabled account or agent is refused at every door, and loses nothing.

use crate::channel_fixture::{ChannelFixture, inbox_of};
use crate::revocation::{mcp, mcp_token, token};
use crate::support::{Answer, OPERATOR, SOON, Setup, TestHub, members};
use chorus_protocol::code::Code;
use chorus_testkit::receiver::FakeAgent;
use chorus_testkit::sse::SseClient;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;

async fn operate(hub: &TestHub, what: &str) -> Value {
    let done = hub.post(&format!("/api/v1/operator/{what}"), Some(OPERATOR), &json!({})).await;
    assert_eq!(done.status, 200, "{}", done.text);
    done.body
}

/// Returns every documented route that takes a key.
fn routes_with_a_key() -> Vec<(Method, String)> {
    let document = serde_json::to_value(chorus_hub::openapi()).unwrap();
    let mut routes = vec![];
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            if operation.get("security").is_some() {
                let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
                routes.push((method, path.clone()));
            }
        }
    }
    assert!(routes.len() > 40, "{routes:?}");
    routes
}

/// Calls each route with this key. Parameters are not filled in, because a disabled caller is refused before.
async fn at_every_route(hub: &TestHub, key: &str) -> BTreeMap<String, Answer> {
    let mut answers = BTreeMap::new();
    for (method, path) in routes_with_a_key() {
        let filled = path.replace(['{', '}'], "");
        let answer = Answer::of(hub.request(method.clone(), &filled, Some(key)).json(&json!({}))).await;
        answers.insert(format!("{method} {path}"), answer);
    }
    answers
}

async fn assert_out_everywhere(hub: &TestHub, key: &str, what: &str) {
    for (route, answer) in at_every_route(hub, key).await {
        assert_eq!(answer.status, 403, "{route}: {}", answer.text);
        assert!(answer.text.contains(&format!("this {what} is disabled")), "{route}: {}", answer.text);
    }
}

async fn agents_are_kept_out(setup: Setup) {
    let (fixture, hook) = (ChannelFixture::on(&setup).await, FakeAgent::start().await);
    let (hub, alice) = (&fixture.hub, fixture.hub.register("alice").await);
    let made = fixture.agent(&json!({"name": "timber"})).await;
    let key = made["api_key"].as_str().unwrap();
    let hooked = fixture.agent(&json!({"name": "pine", "endpoint": hook.url()})).await;
    let strung = fixture.agent(&json!({"name": "oak", "connection_string": inbox_of(&hook)})).await;
    for name in ["timber", "pine", "oak"] {
        fixture.join(&fixture.channel, name).await;
    }
    let mut inbox = hub.inbox(key, None).await;
    fixture.say("@timber before").await;
    let chat = inbox.event("chat").await;

    for name in ["timber", "pine", "oak"] {
        let view = operate(hub, &format!("agents/{name}/disable")).await;
        assert!(view["disabled_since"].is_string(), "{view}");
        assert_eq!(
            operate(hub, &format!("agents/{name}/disable")).await["disabled_since"],
            view["disabled_since"]
        );
    }
    assert_eq!(inbox.rest().await, []);
    assert!(!hub.online("timber").await);
    assert_out_everywhere(hub, key, "agent").await;
    assert!(SseClient::open(&format!("{}/agent/inbox", hub.url), key, None).await.is_err());
    hub.post("/register", Some(key), &json!({"agent_id": "timber"})).await.failure(Code::Forbidden);
    hub.post("/register", None, &json!({"agent_id": "timber"})).await.failure(Code::AgentIdTaken);
    hub.post("/register", Some("ca_wrong"), &json!({"agent_id": "timber"})).await.failure(Code::AgentIdTaken);
    hub.get("/agent/messages", Some("ca_wrong")).await.failure(Code::Unauthorized);
    let out = mcp(hub, &fixture.channel, &mcp_token(&chat)).await;
    assert!(out.own_failure(Code::Forbidden).contains("disabled"), "{}", out.text);
    let said = json!({"type": "message", "content": "x"});
    let out = fixture.call_back(&chat["callback"], &said).await;
    assert!(out.own_failure(Code::Forbidden).contains("disabled"), "{}", out.text);
    let foreign = json!({"channel": {"id": "C1"}, "callback": "https://s.example/cb",
        "message": {"id": "m1", "sender": "eve", "content": "hi"}});
    let out = fixture.call_back(&made["connection_string"], &foreign).await;
    assert!(out.own_failure(Code::Forbidden).contains("disabled"), "{}", out.text);

    // The owner sees that the agent is disabled; strangers see what they saw before.
    let shown = fixture.get("/api/v1/agents/timber").await.body;
    assert!(shown["disabled_since"].is_string(), "{shown}");
    let shown = hub.get("/api/v1/agents/timber", Some(&alice)).await.body;
    assert!(!members(&shown).contains(&"disabled_since"), "{shown}");

    // The agent is not called, and everything waits.
    let mut events = vec![];
    for name in ["timber", "pine", "oak"] {
        assert_eq!(hub.send(&alice, "alice", name, "meanwhile").await.outcome(), (202, "queued"));
        events.push(fixture.say(&format!("@{name} meanwhile")).await);
    }
    for event in &events[1..] {
        fixture.delivery_is(event, "waiting").await;
    }
    // The pusher has examined the delivery and postpones it.
    let put_off = async || fixture.get("/api/v1/deliveries?state=waiting").await.body["items"].clone();
    crate::support::eventually(put_off, |items| {
        items.as_array().unwrap().iter().all(|item| item["attempts"] == 0 && item["next_try"].is_string())
    })
    .await;
    assert_eq!(hook.requests().len(), 0, "who is kept out is not called");

    for name in ["timber", "pine", "oak"] {
        let view = operate(hub, &format!("agents/{name}/enable")).await;
        assert!(!members(&view).contains(&"disabled_since"), "{view}");
    }
    let mut inbox = hub.inbox(key, None).await;
    assert_eq!(inbox.message().await.1["envelope"]["original_text"], "meanwhile");
    assert_eq!(inbox.event("chat").await["event"]["content"], "@timber meanwhile");
    hook.wait_for(2, SOON).await;
    for event in &events[1..] {
        fixture.delivery_is(event, "delivered").await;
    }
    for made in [&hooked, &strung] {
        let history = hub.history(made["api_key"].as_str().unwrap()).await;
        assert!(history.iter().any(|entry| entry["envelope"]["original_text"] == "meanwhile"), "{history:?}");
    }
    assert_eq!(fixture.call_back(&chat["callback"], &said).await.status, 200, "nothing was lost");
    assert_eq!(mcp(hub, &fixture.channel, &mcp_token(&chat)).await.status, 200);
    assert_eq!(fixture.call_back(&made["connection_string"], &foreign).await.status, 200);
}

#[tokio::test]
async fn a_disabled_agent_is_out_everywhere() {
    agents_are_kept_out(Setup::new()).await;
}

#[tokio::test]
async fn a_disabled_agent_is_out_everywhere_on_postgres() {
    agents_are_kept_out(Setup::postgres()).await;
}

async fn accounts_are_kept_out(setup: Setup) {
    let fixture = ChannelFixture::on(&setup).await;
    let (hub, channel) = (&fixture.hub, format!("/api/v1/channels/{}", fixture.channel));
    let made = fixture.agent(&json!({"name": "timber"})).await;
    let other = fixture.agent(&json!({"name": "pine"})).await;
    let (key, others) = (made["api_key"].as_str().unwrap(), other["api_key"].as_str().unwrap());
    operate(hub, "agents/pine/disable").await;
    let eve = hub.register("eve").await;
    let (_, second) = token(hub, &fixture.anna).await;
    let (mut inbox, mut stream) = (hub.inbox(key, None).await, hub.follow(&channel, &second, None).await);

    let view = operate(hub, "accounts/anna@example.org/disable").await;
    assert_eq!(members(&view), ["account_id", "created_at", "deleted_at", "disabled_since", "email", "name"]);
    let id = view["account_id"].as_str().unwrap().to_owned();
    assert_eq!(operate(hub, &format!("accounts/{id}/disable")).await, view, "once more is no news");
    assert_eq!((inbox.rest().await, stream.rest().await), (vec![], vec![]));
    for token in [&fixture.anna, &second] {
        assert_out_everywhere(hub, token, "account").await;
    }
    assert_out_everywhere(hub, key, "agent").await;
    assert_eq!(hub.send(&eve, "eve", "timber", "meanwhile").await.outcome(), (202, "queued"));
    hub.get("/api/v1/me", Some("ct_wrong")).await.own_failure(Code::Unauthorized);
    hub.post("/api/v1/operator/accounts/nobody@example.org/disable", Some(OPERATOR), &json!({}))
        .await
        .own_failure(Code::NotFound);
    hub.post("/api/v1/operator/agents/nobody/disable", Some(OPERATOR), &json!({}))
        .await
        .own_failure(Code::NotFound);

    assert_eq!(operate(hub, &format!("accounts/{id}/enable")).await["disabled_since"], Value::Null);
    for token in [&fixture.anna, &second] {
        assert_eq!(hub.get("/api/v1/me", Some(token)).await.status, 200);
    }
    let mut inbox = hub.inbox(key, None).await;
    assert_eq!(inbox.message().await.1["envelope"]["original_text"], "meanwhile");
    hub.get("/agent/messages", Some(others)).await.failure(Code::Forbidden);
    fixture.say("still a member").await;
}

#[tokio::test]
async fn a_disabled_account_is_out_with_its_agents() {
    accounts_are_kept_out(Setup::new()).await;
}

#[tokio::test]
async fn a_disabled_account_is_out_with_its_agents_on_postgres() {
    accounts_are_kept_out(Setup::postgres()).await;
}

/// A valid key of a disabled caller does not count as a guess, but is rate limited.
#[tokio::test]
async fn who_is_kept_out_is_limited_like_everybody() {
    let hub = Setup::new().config(|config| config.rate_limit = Some(60)).start();
    let key = hub.register("timber").await;
    operate(&hub, "agents/timber/disable").await;
    let mut statuses = vec![];
    for _ in 0..200 {
        statuses.push(hub.get("/agent/messages", Some(&key)).await.status);
    }
    assert!(statuses.starts_with(&[403]) && statuses.contains(&429), "{statuses:?}");
}
