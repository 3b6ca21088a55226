//! Responses tell what was not done: refusals with reasons, masked text, omitted recipients, and existing
//! objects.

use crate::channel_fixture::{ChannelFixture, MINUTE};
use crate::support::{Answer, SOON, TestHub, eventually};
use chorus_protocol::code::Code;
use chorus_testkit::receiver::FakeAgent;
use reqwest::Method;
use serde_json::{Value, json};

const KEY: &str = "ca_0123456789abcdef0123456789abcdef";

/// A credential in a channel's name or context is masked, and the response says so.
#[tokio::test]
async fn credentials_in_a_channels_name() {
    let hub = TestHub::start();
    let anna = hub.account("anna@example.org").await;
    let body = json!({"name": format!("with {KEY}"), "context": format!("{KEY} and nothing")});
    let made = hub.post("/api/v1/channels", Some(&anna), &body).await;
    assert_eq!((made.status, &made.body["masked"]), (201, &json!(["agent key"])), "{}", made.text);
    assert!(!made.text.contains("0123456789abcdef"), "{}", made.text);
    let path = format!("/api/v1/channels/{}", made.body["id"].as_str().unwrap());
    for (change, masked) in
        [(json!({"context": KEY}), json!(["agent key"])), (json!({"context": "harmless"}), Value::Null)]
    {
        let changed = hub.ask("PATCH", &path, Some(&anna), &change).await;
        assert_eq!((changed.status, &changed.body["masked"]), (200, &masked), "{}", changed.text);
    }
}

/// Without a base version a document is changed unconditionally; an outdated version is still refused.
#[tokio::test]
async fn a_document_without_a_base_version() {
    let fixture = ChannelFixture::start().await;
    let path = format!("/api/v1/channels/{}/artifacts", fixture.channel);
    let made = fixture.hub.post(&path, Some(&fixture.anna), &json!({"slug": "notes", "content": "1"})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let put = async |body: Value| {
        fixture.hub.ask("PUT", &format!("{path}/notes"), Some(&fixture.anna), &body).await
    };
    for version in [2, 3] {
        let changed = put(json!({"content": "more"})).await;
        assert_eq!((changed.status, &changed.body["version"]), (200, &json!(version)), "{}", changed.text);
    }
    put(json!({"content": "mine", "base_version": 2})).await.own_failure(Code::Conflict);
}

/// Repeating a reaction adds nothing to the log and returns the existing one.
#[tokio::test]
async fn the_same_reaction_again() {
    let fixture = ChannelFixture::start().await;
    let said = fixture.say("who does it?").await;
    let path = format!("/api/v1/channels/{}/messages/{said}/reactions", fixture.channel);
    let react = async |body: Value| {
        let answer = fixture.hub.post(&path, Some(&fixture.anna), &body).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        answer.body
    };
    let first = react(json!({"signal": "seen"})).await;
    assert_eq!(react(json!({"signal": "seen"})).await, first);
    assert_eq!(fixture.log().await.len(), 2);
    let removed = react(json!({"signal": "seen", "removed": true})).await;
    assert_ne!(removed["event_id"], first["event_id"]);
    assert_ne!(react(json!({"signal": "seen"})).await["event_id"], first["event_id"]);
}

/// One message wakes at most 50 agents; the author is told who was left out.
#[tokio::test]
async fn more_agents_than_one_message_wakes() {
    let fixture = ChannelFixture::start().await;
    let names: Vec<_> = (0..52).map(|n| format!("a{n:02}")).collect();
    for name in &names {
        fixture.hub.register(name).await;
        fixture.join(&fixture.channel, name).await;
    }
    let path = format!("/api/v1/channels/{}/messages", fixture.channel);
    let mentions = format!("@{}", names[..50].join(" @"));
    let said =
        fixture.hub.post(&path, Some(&fixture.anna), &json!({"content": mentions, "to": &names[50..]})).await;
    let attention = &said.body["attention"];
    let woken = attention["woken"].as_array().unwrap();
    assert_eq!(woken.len(), 50);
    assert!(names[50..].iter().all(|name| woken.contains(&json!(name))), "{attention}");
    assert_eq!(attention["stored_for"], json!(["a48", "a49"]));
    assert_eq!(attention["stored_count"], 2);
}

/// This list does not support the skill filter and refuses it, because ignoring it would give a wrong result.
#[tokio::test]
async fn agents_by_skill() {
    let fixture = ChannelFixture::start().await;
    let asked = fixture.get("/api/v1/agents?skill=cooking").await;
    assert!(asked.own_failure(Code::Validation).starts_with("skill: "), "{}", asked.text);
}

/// An agent that just disconnected was seen then; one without an inbox was seen when it last used its key.
#[tokio::test]
async fn when_an_agent_was_last_seen() {
    let (fixture, clock) = ChannelFixture::with_clock().await;
    let made = fixture.agent(&json!({"name": "timber"})).await;
    let key = made["api_key"].as_str().unwrap();
    let agent = async || fixture.get("/api/v1/agents/timber").await.body;
    let seen = async || agent().await["last_seen"].as_str().and_then(chorus_protocol::time::parse_rfc3339);
    assert_eq!(seen().await, None);
    assert_eq!(fixture.hub.get("/api/v1/me", Some(key)).await.status, 200);
    let first = clock.now();
    eventually(seen, |seen| *seen == Some(first)).await;
    clock.advance(30_000);
    assert_eq!(fixture.hub.get("/api/v1/me", Some(key)).await.status, 200);
    clock.advance(MINUTE);
    let inbox = fixture.hub.inbox(key, None).await;
    eventually(async || agent().await["online"] == true, |online| *online).await;
    drop(inbox);
    let left = clock.now();
    eventually(async || agent().await["online"] == false, |offline| *offline).await;
    clock.advance(5000);
    assert_eq!(seen().await, Some(left));
}

/// Errors for browsers are in the hub's own format, not the relay's.
#[tokio::test]
async fn the_form_for_tokens() {
    let hub = TestHub::start();
    let foreign = hub.request(Method::POST, "/tokens", None);
    let foreign = foreign.header("cookie", "chorus_session=x").header("origin", "https://elsewhere.example");
    Answer::of(foreign).await.own_failure(Code::Forbidden);
}

/// An agent that leaves and returns cannot use its earlier callbacks.
#[tokio::test]
async fn a_callback_does_not_come_back_with_its_agent() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    fixture.connected("timber", &timber).await;
    fixture.say("@timber hello").await;
    let callback = timber.wait_for(1, SOON).await[0].body["callback"].clone();
    let path = format!("/api/v1/channels/{}/members/timber", fixture.channel);
    assert_eq!(fixture.hub.delete(&path, Some(&fixture.anna)).await.status, 204);
    fixture.join(&fixture.channel, "timber").await;
    let answer = json!({"type": "message", "content": "I was away"});
    fixture.call_back(&callback, &answer).await.own_failure(Code::Gone);
    fixture.say("@timber again").await;
    let callback = timber.wait_for(2, SOON).await[1].body["callback"].clone();
    assert_eq!(fixture.call_back(&callback, &answer).await.status, 200);
}
