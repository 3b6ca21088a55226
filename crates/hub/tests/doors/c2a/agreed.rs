//! Capabilities that host and harness did not agree on in `initialize` are used by neither.

use super::harness::{Harness, initialize, text};
use super::sessions::member;
use super::time::acked;
use crate::channel_fixture::{ChannelFixture, MINUTE};
use crate::support::{OPERATOR, Setup, eventually};
use serde_json::{Value, json};
use std::time::Duration;

/// Returns `initialize` without one of the document's capabilities.
fn without(group: &str, one: &str) -> Value {
    let mut begin = initialize();
    begin["params"]["capabilities"][group][one] = json!(false);
    begin
}

#[tokio::test]
async fn tools_that_were_not_agreed_on_are_neither_listed_nor_called() {
    let fixture = ChannelFixture::start().await;
    let key = member(&fixture, "lead", &json!({})).await;
    for (capability, tools) in [
        ("readThread", vec!["chat.list_events", "chat.read_thread"]),
        ("sendMessage", vec!["chat.send_message"]),
        ("react", vec!["chat.react"]),
        ("reactionSignals", vec!["chat.react"]),
        ("claim", vec!["chat.claim"]),
        ("defer", vec!["chat.defer"]),
        ("resolve", vec!["chat.resolve"]),
    ] {
        let mut lead = Harness::with(&fixture.hub, &key, &without("chatTools", capability)).await;
        let listed = lead.ask("tools/list", json!({})).await;
        let listed: Vec<_> =
            listed["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        assert_eq!(listed.len(), 7 - tools.len(), "{capability}");
        for tool in tools {
            assert!(!listed.contains(&&json!(tool)));
            let arguments = match tool {
                "chat.list_events" => json!({}),
                "chat.read_thread" => json!({"conversationId": fixture.channel}),
                "chat.send_message" => {
                    json!({"target": {"conversationId": fixture.channel}, "idempotencyKey": "k",
                    "visibility": "channel", "directedness": "ambient", "text": "x"})
                }
                "chat.react" => json!({"inReplyTo": "evt_1", "signal": "seen"}),
                _ => json!({"eventId": "evt_1", "reason": "later"}),
            };
            let answer = lead.ask("tools/call", json!({"name": tool, "arguments": arguments})).await;
            assert_eq!(answer["error"]["code"], -32602, "{answer}");
            assert!(answer["error"]["message"].as_str().unwrap().contains("was not agreed on"), "{answer}");
        }
    }
}

#[tokio::test]
async fn who_does_not_acknowledge_is_told_and_not_asked() {
    let fixture = ChannelFixture::start().await;
    let key = member(&fixture, "lead", &json!({})).await;
    let begin = without("delivery", "ack");
    let mut lead = Harness::with(&fixture.hub, &key, &begin).await;
    let mut events = vec![];
    for n in 0..40 {
        events.push(fixture.say(&format!("@lead number {n}")).await);
    }
    for event in &events {
        assert_eq!(lead.notified("chat/deliver").await["eventId"], json!(event), "no window holds it up");
    }
    drop(lead);
    eventually(async || fixture.hub.online("lead").await, |online| !online).await;
    let mut lead = Harness::with(&fixture.hub, &key, &begin).await;
    assert_eq!(lead.begun["resume"]["lastAckedEventId"], json!(events[39]), "it has what it was sent");
    lead.assert_quiet().await;
}

#[tokio::test]
async fn what_does_not_come_again_comes_to_the_next_session() {
    let setup = Setup::new().config(|config| config.times.redelivery = Duration::from_millis(100));
    let fixture = ChannelFixture::on(&setup).await;
    let key = member(&fixture, "lead", &json!({})).await;
    // A harness that cannot recognise duplicates is not sent anything twice.
    for capability in ["redelivery", "idempotency"] {
        let begin = without("delivery", capability);
        let mut lead = Harness::with(&fixture.hub, &key, &begin).await;
        fixture.say("@lead are you there?").await;
        let first = lead.request().await;
        tokio::time::sleep(Duration::from_millis(400)).await;
        lead.assert_quiet().await;
        drop(lead);
        eventually(async || fixture.hub.online("lead").await, |online| !online).await;
        let mut lead = Harness::with(&fixture.hub, &key, &begin).await;
        assert_eq!(lead.delivered().await["eventId"], first["params"]["eventId"], "{capability}");
    }
}

/// At the deadline there is no reminder either; the lead is told nevertheless.
#[tokio::test]
async fn who_takes_nothing_twice_is_not_reminded() {
    let (fixture, clock) = ChannelFixture::with_clock().await;
    let silent = member(&fixture, "silent", &json!({})).await;
    let lead = member(&fixture, "lead", &json!({"lead": true})).await;
    let mut silent = Harness::with(&fixture.hub, &silent, &without("delivery", "redelivery")).await;
    let mut lead = Harness::connect(&fixture.hub, &lead).await;
    let event = fixture.say("@silent is the deploy blocked?").await;
    silent.delivered().await;
    acked(&fixture, &event).await;
    let path = format!("/api/v1/channels/{}/events?kind=escalation", fixture.channel);
    let escalations = async || {
        clock.set(clock.now() + MINUTE);
        fixture.get(&path).await.body["items"].as_array().unwrap().len()
    };
    eventually(escalations, |found| *found > 0).await;
    // Minutes have passed, so a digest may have arrived too.
    let mut escalated = lead.delivered().await;
    while escalated["attention"]["reason"] == "digest" {
        escalated = lead.delivered().await;
    }
    assert_eq!(
        (&escalated["attention"]["reason"], &escalated["inReplyTo"]),
        (&json!("escalation"), &json!(event))
    );
    silent.assert_quiet().await;
}

/// Reactions go to harnesses that distinguish them from messages, and knocks to those that can pull the
/// message.
#[tokio::test]
async fn signals_and_knocks_are_for_who_can_do_something_with_them() {
    let fixture = ChannelFixture::start().await;
    let key = member(&fixture, "lead", &json!({"roles": ["ops"]})).await;
    let mut lead = Harness::with(&fixture.hub, &key, &without("chatTools", "reactionSignals")).await;
    let send = json!({"target": {"conversationId": fixture.channel}, "idempotencyKey": "k", "visibility": "channel",
        "directedness": "to_me", "text": "@anna shall I deploy it?", "intent": "approval_request"});
    let sent = lead.done("chat.send_message", send).await;
    let path = format!(
        "/api/v1/channels/{}/messages/{}/reactions",
        fixture.channel,
        sent["eventId"].as_str().unwrap()
    );
    let reacted = fixture.hub.post(&path, Some(&fixture.anna), &json!({"signal": "agree"})).await;
    assert_eq!(reacted.status, 201, "{}", reacted.text);
    lead.assert_quiet().await;
    drop(lead);

    let mut lead = Harness::with(&fixture.hub, &key, &without("chatTools", "readThread")).await;
    fixture.say("@ops is the queue up?").await;
    let shown = lead.delivered().await;
    assert_eq!((&shown["injection"]["mode"], text(&shown)), (&json!("buffered"), "@ops is the queue up?"));
}

#[tokio::test]
async fn cancellations_are_told_to_who_asked_for_them() {
    let fixture = ChannelFixture::start().await;
    let key = member(&fixture, "lead", &json!({})).await;
    for told in [true, false] {
        let begin = if told { initialize() } else { without("utilities", "cancellation") };
        let mut lead = Harness::with(&fixture.hub, &key, &begin).await;
        let event = fixture.say("@lead look at this").await;
        assert_eq!(text(&lead.delivered().await), "@lead look at this");
        let path = format!("/api/v1/channels/{}/messages/{event}", fixture.channel);
        let deleted = fixture.hub.delete(&path, Some(&fixture.anna)).await;
        assert!((200..300).contains(&deleted.status), "{}", deleted.text);
        if told {
            assert_eq!(lead.notified("notifications/cancelled").await["eventId"], json!(event));
        } else {
            lead.assert_quiet().await;
        }
    }
}

#[tokio::test]
async fn calls_of_tools_are_in_the_audit_log() {
    let fixture = ChannelFixture::start().await;
    let key = member(&fixture, "lead", &json!({})).await;
    let mut lead = Harness::connect(&fixture.hub, &key).await;
    let event = fixture.say("@lead is the deploy blocked?").await;
    lead.delivered().await;
    lead.done("chat.resolve", json!({"eventId": event})).await;
    lead.done("chat.list_events", json!({"conversationId": fixture.channel})).await;
    lead.refused("chat.claim", json!({"eventId": "evt_00000000000000000000000000000000"})).await;
    let (hub, channel) = (&fixture.hub, &fixture.channel);
    let of = async |query: String, key: &str| {
        let found = hub.get(&format!("/api/v1/audit?kind=tool_call&{query}"), Some(key)).await;
        assert_eq!(found.status, 200, "{}", found.text);
        let items = found.body["items"].as_array().unwrap().clone();
        let one = |item: &Value| (item["action"].clone(), item["detail"]["outcome"].clone());
        items.iter().map(one).collect::<Vec<_>>()
    };
    let calls = async || of("actor=lead".into(), OPERATOR).await;
    let all = eventually(calls, |calls| calls.len() == 3).await;
    let call = |tool: &str, outcome: &str| (json!(tool), json!(outcome));
    assert_eq!(
        all,
        [call("chat.resolve", "done"), call("chat.list_events", "done"), call("chat.claim", "not_found")]
    );
    // A channel owner sees the tool calls there, and no stranger can add to them.
    let mallory = hub.register("mallory").await;
    let mut mallory = Harness::connect(hub, &mallory).await;
    mallory.call("chat.claim", json!({"eventId": event})).await;
    mallory.call("chat.list_events", json!({"conversationId": channel})).await;
    eventually(async || of("actor=mallory".into(), OPERATOR).await, |calls| calls.len() == 2).await;
    let owner = of(format!("channel={channel}"), &fixture.anna).await;
    assert_eq!(owner, [call("chat.resolve", "done"), call("chat.list_events", "done")]);
    // The same for one event: the operator sees every call about it.
    let about = of(format!("channel={channel}&event={event}"), &fixture.anna).await;
    assert_eq!(about, [call("chat.resolve", "done")]);
    let about = of(format!("event={event}"), OPERATOR).await;
    assert_eq!(about, [call("chat.resolve", "done"), call("chat.claim", "not_found")]);
    assert_eq!(of(format!("event={event}&actor=lead"), OPERATOR).await, [call("chat.resolve", "done")]);
    // Page by page the result is the same.
    let first = hub.get("/api/v1/audit?kind=tool_call&actor=lead&limit=2", Some(OPERATOR)).await;
    let next = first.body["next"].as_str().unwrap();
    assert_eq!(first.body["items"].as_array().unwrap().len(), 2);
    assert_eq!(
        of(format!("actor=lead&limit=2&after={next}"), OPERATOR).await,
        [call("chat.claim", "not_found")]
    );
}

/// The glyphs of a channel are sent at the beginning and with each delivery from there.
#[tokio::test]
async fn glyphs_of_a_channel_reach_a_harness() {
    let fixture = ChannelFixture::start().await;
    let key = member(&fixture, "lead", &json!({})).await;
    let mut lead = Harness::connect(&fixture.hub, &key).await;
    assert_eq!(lead.begun.get("conversationGlyphs"), None, "as usual");
    fixture.say("@lead are you there?").await;
    assert_eq!(lead.delivered().await["conversation"].get("glyphs"), None);
    let path = format!("/api/v1/channels/{}", fixture.channel);
    let body = json!({"glyphs": {"done": "🎉"}});
    let changed = fixture.hub.ask("PATCH", &path, Some(&fixture.anna), &body).await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    fixture.say("@lead and now?").await;
    let glyphs = lead.delivered().await["conversation"]["glyphs"].clone();
    assert_eq!((&glyphs["done"], &glyphs["seen"]), (&json!("🎉"), &json!("👀")));
    let again = Harness::connect(&fixture.hub, &key).await;
    assert_eq!(again.begun["glyphs"]["done"], "✅", "the workspace's own");
    assert_eq!(again.begun["conversationGlyphs"][&fixture.channel]["done"], "🎉", "{}", again.begun);
    // A harness learns nothing about channels of others.
    let stranger = fixture.hub.register("stranger").await;
    let stranger = Harness::connect(&fixture.hub, &stranger).await;
    assert_eq!(stranger.begun.get("conversationGlyphs"), None);
}

/// Returns the log of a harness.
async fn logged(fixture: &ChannelFixture, key: &str) -> crate::support::Answer {
    fixture.hub.get("/api/v1/audit?kind=log&actor=lead", Some(key)).await
}

/// The log of a harness is visible to the managers of its agent, and to nobody else.
#[tokio::test]
async fn what_a_harness_logs_is_kept_for_its_owner() {
    let fixture = ChannelFixture::start().await;
    let made = fixture.agent(&json!({"name": "lead"})).await;
    let key = made["api_key"].as_str().unwrap();
    let mut lead = Harness::connect(&fixture.hub, key).await;
    let secret = format!("ca_{}", "0".repeat(32));
    let said = json!({"level": "warning", "logger": "model", "data": format!("the model is slow, {secret}")});
    lead.notify("notifications/message", said).await;
    lead.notify("notifications/message", json!({"level": "info", "data": {"turn": 7}})).await;
    for who in [&*fixture.anna, OPERATOR, key] {
        let lines = async || logged(&fixture, who).await.body["items"].clone();
        let lines = eventually(lines, |lines| lines.as_array().is_some_and(|lines| lines.len() == 2)).await;
        assert_eq!(
            (&lines[0]["action"], &lines[0]["detail"]["logger"]),
            (&json!("warning"), &json!("model")),
            "{lines}"
        );
        let text = lines[0]["detail"]["text"].as_str().unwrap();
        assert!(text.starts_with("the model is slow") && !text.contains(&secret), "{text}");
        assert_eq!(lines[1]["detail"]["text"], r#"{"turn":7}"#);
    }
    let first = fixture.hub.get("/api/v1/audit?kind=log&actor=lead&limit=1", Some(key)).await;
    let next = format!("/api/v1/audit?kind=log&actor=lead&after={}", first.body["next"].as_str().unwrap());
    assert_eq!(fixture.hub.get(&next, Some(key)).await.body["items"][0]["action"], "info");
    let stranger = fixture.hub.register("stranger").await;
    assert_eq!(logged(&fixture, &stranger).await.status, 403);
    // Only the newest entries are kept.
    for n in 0..300 {
        lead.notify("notifications/message", json!({"level": "debug", "data": n})).await;
    }
    let count = async || {
        let page = fixture.hub.get("/api/v1/audit?kind=log&actor=lead&limit=200", Some(key)).await;
        page.body["items"].as_array().unwrap().len()
    };
    eventually(count, |count| *count > 2).await;
    assert!(count().await <= 200);
}

/// Progress and logs that were not agreed on are neither stored nor shown.
#[tokio::test]
async fn progress_and_logging_that_were_not_agreed_on_change_nothing() {
    let fixture = ChannelFixture::start().await;
    let key = member(&fixture, "lead", &json!({})).await;
    let statuses = async || {
        let path = format!("/api/v1/channels/{}/events?kind=status", fixture.channel);
        fixture.get(&path).await.body["items"].as_array().unwrap().len()
    };
    for (utility, expected) in [("progress", 0), ("logging", 1)] {
        let mut lead = Harness::with(&fixture.hub, &key, &without("utilities", utility)).await;
        let event = fixture.say("@lead check the deploy").await;
        lead.delivered().await;
        let progress = json!({"progressToken": event, "progress": 2, "total": 5, "message": "halfway"});
        lead.notify("notifications/progress", progress).await;
        lead.notify("notifications/message", json!({"level": "info", "data": utility})).await;
        // Requests are answered in order, so the notification was handled before.
        lead.ask("tools/list", json!({})).await;
        eventually(statuses, |found| *found == expected).await;
    }
    let lines = async || logged(&fixture, OPERATOR).await.body["items"].clone();
    let lines = eventually(lines, |lines| lines.as_array().is_some_and(|lines| !lines.is_empty())).await;
    assert_eq!(lines.as_array().unwrap().len(), 1, "{lines}");
    assert_eq!(lines[0]["detail"]["text"], "progress", "the session that had agreed on logging");
}
