//! What host and harness did not agree on in `initialize` is not used, by neither.

use super::harness::{Harness, initialize, text};
use super::sessions::member;
use crate::channel_fixture::ChannelFixture;
use crate::support::{OPERATOR, Setup, eventually};
use serde_json::{Value, json};
use std::time::Duration;

/// `initialize` without one of the document's capabilities.
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
    let begin = without("delivery", "redelivery");
    let mut lead = Harness::with(&fixture.hub, &key, &begin).await;
    fixture.say("@lead are you there?").await;
    let first = lead.request().await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    lead.assert_quiet().await;
    drop(lead);
    eventually(async || fixture.hub.online("lead").await, |online| !online).await;
    let mut lead = Harness::with(&fixture.hub, &key, &begin).await;
    assert_eq!(lead.request().await["params"]["eventId"], first["params"]["eventId"]);
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
    // The owner of a channel sees what was called there, and no stranger can write into that.
    let mallory = hub.register("mallory").await;
    let mut mallory = Harness::connect(hub, &mallory).await;
    mallory.call("chat.claim", json!({"eventId": event})).await;
    mallory.call("chat.list_events", json!({"conversationId": channel})).await;
    eventually(async || of("actor=mallory".into(), OPERATOR).await, |calls| calls.len() == 2).await;
    let owner = of(format!("channel={channel}"), &fixture.anna).await;
    assert_eq!(owner, [call("chat.resolve", "done"), call("chat.list_events", "done")]);
    // Page by page it is the same.
    let first = hub.get("/api/v1/audit?kind=tool_call&actor=lead&limit=2", Some(OPERATOR)).await;
    let next = first.body["next"].as_str().unwrap();
    assert_eq!(first.body["items"].as_array().unwrap().len(), 2);
    assert_eq!(
        of(format!("actor=lead&limit=2&after={next}"), OPERATOR).await,
        [call("chat.claim", "not_found")]
    );
}
