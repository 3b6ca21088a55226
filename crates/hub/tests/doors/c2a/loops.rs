//! Loops between agents end in the same way whether the agents find messages or receive them.

use super::harness::Harness;
use super::sessions::member;
use crate::channel_fixture::ChannelFixture;
use crate::support::Setup;
use serde_json::{Value, json};

#[tokio::test]
async fn two_that_answer_each_others_envelopes_come_to_an_end() {
    let hub = Setup::new().start();
    let (ada, bob) = (hub.register("ada").await, hub.register("bob").await);
    let mut both = [Harness::connect(&hub, &bob).await, Harness::connect(&hub, &ada).await];
    hub.send(&ada, "ada", "bob", "Who goes first, number 0?").await;
    for depth in 0..=8 {
        let harness = &mut both[depth % 2];
        let envelope = harness.delivered().await;
        assert_eq!(envelope["envelope"]["reply_depth"].as_u64().unwrap_or(0), depth as u64, "{envelope}");
        let answer = json!({"target": {"conversationId": envelope["conversation"]["id"]},
            "inReplyTo": envelope["eventId"], "idempotencyKey": format!("answer-{depth}"), "visibility": "dm",
            "directedness": "to_me", "text": format!("And who goes next, number {}?", depth + 1)});
        if depth < 8 {
            assert_eq!(envelope["attention"]["policy"], "must_respond", "{envelope}");
            harness.done("chat.send_message", answer).await;
            continue;
        }
        assert_eq!(
            (&envelope["attention"]["policy"], &envelope["attention"]["reason"]),
            (&json!("must_not_respond"), &json!("loop_guard"))
        );
        assert_eq!(harness.refused("chat.send_message", answer).await, "policy_forbidden");
    }
}

/// Two agents that claim, defer or react `working` before each answer have no more turns than others.
#[tokio::test]
async fn well_behaved_agents_come_to_an_end_too() {
    for manner in ["claim", "defer", "working"] {
        let fixture = ChannelFixture::start().await;
        let keys = [member(&fixture, "ada", &json!({})).await, member(&fixture, "bob", &json!({})).await];
        let mut both =
            [Harness::connect(&fixture.hub, &keys[0]).await, Harness::connect(&fixture.hub, &keys[1]).await];
        fixture.say("@ada please discuss the plan with bob").await;
        let mut turns = 0;
        for n in 0..60 {
            let harness = &mut both[n % 2];
            let event = harness.delivered().await["eventId"].clone();
            match manner {
                "claim" => harness.done("chat.claim", json!({"eventId": event})).await,
                "defer" => harness.done("chat.defer", json!({"eventId": event, "reason": "later"})).await,
                _ => harness.done("chat.react", json!({"inReplyTo": event, "signal": "working"})).await,
            };
            let other = ["bob", "ada"][n % 2];
            let text = format!("@{other} have you considered way number {n}?");
            let answer = json!({"target": {"conversationId": fixture.channel}, "inReplyTo": event, "text": text,
                "idempotencyKey": format!("answer-{n}"), "visibility": "thread", "directedness": "to_me"});
            harness.done("chat.send_message", answer).await;
            let log = fixture.get(&format!("/api/v1/channels/{}/events?kind=message", fixture.channel)).await;
            let last = log.body["items"].as_array().unwrap().last().unwrap().clone();
            if last.get("loop_guard").is_some() {
                break;
            }
            turns += 1;
        }
        assert_eq!(turns, 8, "{manner}");
    }
}

/// A message stopped by the guard is marked in the mailbox, and cannot be answered until a person posts.
#[tokio::test]
async fn what_was_stopped_is_not_answered_by_who_finds_it() {
    let fixture = ChannelFixture::start().await;
    let (ada, bob) = (member(&fixture, "ada", &json!({})).await, member(&fixture, "bob", &json!({})).await);
    let mut bob = Harness::connect(&fixture.hub, &bob).await;
    let path = format!("/api/v1/channels/{}/messages", fixture.channel);
    let mut last = Value::Null;
    for n in 0..9 {
        let said = json!({"content": format!("@bob what about table number {n}?")});
        let said = fixture.hub.post(&path, Some(&ada), &said).await;
        assert_eq!(said.status, 201, "{}", said.text);
        last = said.body["event_id"].clone();
        if n < 8 {
            bob.delivered().await;
        }
    }
    let page = bob.done("chat.list_events", json!({})).await;
    let found = page["events"].as_array().unwrap().iter().find(|event| event["eventId"] == last).unwrap();
    assert_eq!(
        (&found["attention"]["policy"], &found["attention"]["reason"]),
        (&json!("must_not_respond"), &json!("loop_guard"))
    );
    let answer = json!({"target": {"conversationId": fixture.channel}, "inReplyTo": last, "text": "Nothing.",
        "idempotencyKey": "one", "visibility": "channel", "directedness": "to_me"});
    assert_eq!(bob.refused("chat.send_message", answer.clone()).await, "policy_forbidden");
    fixture.say("go on, you two").await;
    bob.done("chat.send_message", answer).await;
}

/// A channel owner can loosen the guard for their own agents only.
#[tokio::test]
async fn the_guard_is_loosened_for_agents_of_the_owner_alone() {
    for owned in [true, false] {
        let fixture = ChannelFixture::start().await;
        let mut keys = vec![];
        for name in ["ada", "bob"] {
            let key = member(&fixture, name, &json!({})).await;
            if owned {
                let claim = json!({"api_key": key});
                fixture.hub.post("/api/v1/agents/claim", Some(&fixture.anna), &claim).await;
            }
            keys.push(key);
        }
        let path = format!("/api/v1/channels/{}", fixture.channel);
        let off = fixture.hub.ask("PATCH", &path, Some(&fixture.anna), &json!({"loop_guard": 0})).await;
        assert_eq!(off.status, 200, "{}", off.text);
        let mut woken = 0;
        for n in 0..12 {
            let said = json!({"content": format!("@bob what about table number {n}?")});
            let said = fixture.hub.post(&format!("{path}/messages"), Some(&keys[0]), &said).await;
            assert_eq!(said.status, 201, "{}", said.text);
            woken += said.body["attention"]["woken"].as_array().unwrap().len();
        }
        assert_eq!(woken, if owned { 12 } else { 8 });
    }
}
