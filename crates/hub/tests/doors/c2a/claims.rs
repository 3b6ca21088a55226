//! Claims: one holder at a time, at every door.

use super::harness::{Harness, text};
use super::sessions::member;
use crate::channel_fixture::{ChannelFixture, MINUTE};
use crate::support::{Setup, mcp_tool};
use chorus_protocol::code::Code;
use chorus_testkit::clock::ManualClock;
use chorus_testkit::receiver::FakeAgent;
use serde_json::{Value, json};
use std::time::Duration;

const RACERS: usize = 100;

async fn race(setup: &Setup, racers: usize) {
    let fixture = ChannelFixture::on(setup).await;
    let mut harnesses = vec![];
    for n in 0..racers {
        let key = member(&fixture, &format!("agent-{n}"), &json!({})).await;
        harnesses.push(Harness::connect(&fixture.hub, &key).await);
    }
    // The message names nobody: the agent that claims it may answer.
    let event = fixture.say("the build is red again").await;
    let claims = harnesses.into_iter().map(|mut harness| {
        let arguments = json!({"eventId": event});
        tokio::spawn(async move {
            let result = harness.call("chat.claim", arguments).await;
            (result["isError"] == json!(true), result["structuredContent"].clone(), harness)
        })
    });
    let claims: Vec<_> = claims.collect();
    let (mut holders, mut refused) = (vec![], vec![]);
    let mut connected = vec![];
    for claim in claims {
        let (is_error, said, harness) = claim.await.unwrap();
        if is_error {
            refused.push(said["code"].clone());
        } else {
            holders.push(said["holder"].clone());
        }
        connected.push(harness);
    }
    assert_eq!(holders.len(), 1, "{holders:?}");
    assert_eq!(refused, vec![json!("claimed_by_other"); racers - 1]);
    let ladder = fixture.get(&format!("/api/v1/events/{event}")).await;
    let claims = ladder.body["claims"].as_array().unwrap();
    assert_eq!(claims.len(), 1, "{}", ladder.text);
    let holder = holders[0].as_str().unwrap().strip_prefix("agent:").unwrap();
    assert_eq!((&claims[0]["holder"], &claims[0]["state"]), (&json!(holder), &json!("held")));
}

#[tokio::test]
async fn a_hundred_claim_at_once_and_one_holds() {
    race(&Setup::new(), RACERS).await;
}

#[tokio::test]
async fn the_same_on_postgres() {
    race(&Setup::postgres(), 20).await;
}

/// Returns a channel with ada and bob connected, and its clock.
async fn two() -> (ChannelFixture, ManualClock, Harness, Harness) {
    let (fixture, clock) = ChannelFixture::with_clock().await;
    let ada = member(&fixture, "ada", &json!({"roles": ["ops"]})).await;
    let bob = member(&fixture, "bob", &json!({"roles": ["ops"]})).await;
    let ada = Harness::connect(&fixture.hub, &ada).await;
    let bob = Harness::connect(&fixture.hub, &bob).await;
    (fixture, clock, ada, bob)
}

#[tokio::test]
async fn held_renewed_given_back_and_run_out() {
    let (fixture, clock, mut ada, mut bob) = two().await;
    let event = fixture.say("somebody should restart the cache").await;
    let claim = |more: Value| {
        let mut arguments = json!({"eventId": event});
        for (name, value) in more.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        arguments
    };
    let held = ada.done("chat.claim", claim(json!({"ttlMs": 60_000}))).await;
    assert_eq!((&held["state"], &held["holder"]), (&json!("held"), &json!("agent:ada")));
    assert_eq!(bob.refused("chat.claim", claim(json!({}))).await, "claimed_by_other");
    assert_eq!(bob.refused("chat.claim", claim(json!({"release": true}))).await, "claimed_by_other");
    // Only the holder may answer.
    let reply = |key: &str| {
        json!({"target": {"conversationId": fixture.channel}, "idempotencyKey": key, "visibility": "channel",
            "directedness": "to_me", "text": "on it", "inReplyTo": event})
    };
    assert_eq!(bob.refused("chat.send_message", reply("b")).await, "policy_forbidden");
    clock.set(clock.now() + MINUTE / 2);
    ada.done("chat.claim", claim(json!({"ttlMs": 60_000}))).await;
    clock.set(clock.now() + MINUTE - 1);
    assert_eq!(bob.refused("chat.claim", claim(json!({}))).await, "claimed_by_other");
    clock.set(clock.now() + 1);
    assert_eq!(bob.done("chat.claim", claim(json!({}))).await["holder"], "agent:bob");
    assert_eq!(bob.done("chat.claim", claim(json!({"release": true}))).await["state"], "released");
    assert_eq!(ada.refused("chat.claim", claim(json!({"release": true}))).await, "not_claimed");
    // Former holders are listed in chronological order.
    clock.set(clock.now() + 1);
    ada.done("chat.claim", claim(json!({}))).await;
    ada.done("chat.send_message", reply("a")).await;
    let ladder = fixture.get(&format!("/api/v1/events/{event}")).await;
    let states: Vec<_> =
        ladder.body["claims"].as_array().unwrap().iter().map(|one| one["state"].clone()).collect();
    assert_eq!(states, [json!("expired"), json!("released"), json!("resolved")], "{}", ladder.text);
}

#[tokio::test]
async fn a_role_is_offered_to_one_first_and_a_reply_claims() {
    let (fixture, clock, mut ada, mut bob) = two().await;
    let event = fixture.say("@ops please restart the cache").await;
    // Both are idle, so the address decides.
    let knock = ada.delivered().await;
    assert_eq!((&knock["eventId"], &knock["attention"]["reason"]), (&json!(event), &json!("role_mention")));
    bob.assert_quiet().await;
    let result = bob.call("chat.claim", json!({"eventId": event})).await;
    assert_eq!(result["structuredContent"]["code"], "offered_to_other");
    assert_eq!(result["structuredContent"]["retryAfterMs"], 30_000);
    let reply = |key: &str| {
        json!({"target": {"conversationId": fixture.channel}, "idempotencyKey": key, "visibility": "thread",
            "directedness": "to_me", "text": "done", "inReplyTo": event})
    };
    assert_eq!(bob.refused("chat.send_message", reply("b")).await, "offered_to_other");
    clock.set(clock.now() + MINUTE / 2);
    // A reply claims an unclaimed message.
    bob.done("chat.send_message", reply("b")).await;
    let ladder = fixture.get(&format!("/api/v1/events/{event}")).await;
    assert_eq!(ladder.body["claims"][0]["holder"], "bob", "{}", ladder.text);
    // A signal that declines gives the message to the others at once.
    let event = fixture.say("@ops please restart the queue").await;
    let knocked = bob.delivered().await;
    assert_eq!(knocked["eventId"], json!(event), "who waits longest for something");
    bob.done("chat.react", json!({"inReplyTo": event, "signal": "declined"})).await;
    ada.done("chat.react", json!({"inReplyTo": event, "signal": "working"})).await;
    assert_eq!(bob.refused("chat.claim", json!({"eventId": event})).await, "claimed_by_other");
    ada.done("chat.react", json!({"inReplyTo": event, "signal": "done"})).await;
    let ladder = fixture.get(&format!("/api/v1/events/{event}")).await;
    assert_eq!(ladder.body["claims"][0]["state"], "resolved", "{}", ladder.text);
}

/// A knock lost in transit or with a session is repeated. Claimed twice, it has one holder and one claim.
#[tokio::test]
async fn a_knock_that_was_lost_comes_again_and_is_claimed_once() {
    let setup = Setup::new().config(|config| config.times.redelivery = Duration::from_millis(100));
    let fixture = ChannelFixture::on(&setup).await;
    let ops = json!({"roles": ["ops"]});
    let (key, bob) = (member(&fixture, "ada", &ops).await, member(&fixture, "bob", &ops).await);
    let mut ada = Harness::connect(&fixture.hub, &key).await;
    let mut bob = Harness::connect(&fixture.hub, &bob).await;
    let event = fixture.say("@ops please restart the cache").await;
    let first = ada.request().await;
    let again = ada.request().await;
    assert_eq!((&again["id"], &again["params"]["knock"]), (&first["id"], &first["params"]["knock"]));
    drop(ada);
    let mut ada = Harness::connect(&fixture.hub, &key).await;
    let knock = ada.delivered().await;
    assert_eq!((&knock["eventId"], &knock["injection"]["mode"]), (&json!(event), &json!("notify")));
    // The number of earlier sends is recorded periodically: it is at least one more than the first.
    assert!(
        knock["reliability"]["attempt"].as_i64().unwrap() >= 2 && knock.get("content").is_none(),
        "{knock}"
    );
    assert_eq!(knock["reliability"]["idempotencyKey"], first["params"]["reliability"]["idempotencyKey"]);
    // The response to a claim may be lost too: repeated, it returns the same claim.
    for _ in 0..2 {
        let held = ada.done("chat.claim", json!({"eventId": event})).await;
        assert_eq!(
            (&held["holder"], text(&held["event"])),
            (&json!("agent:ada"), "@ops please restart the cache")
        );
    }
    assert_eq!(bob.refused("chat.claim", json!({"eventId": event})).await, "claimed_by_other");
    let ladder = fixture.get(&format!("/api/v1/events/{event}")).await;
    assert_eq!(ladder.body["claims"].as_array().unwrap().len(), 1, "{}", ladder.text);
    assert_eq!(ladder.body["deliveries"].as_array().unwrap().len(), 1, "{}", ladder.text);
}

#[tokio::test]
async fn of_ten_agents_one_is_woken_whatever_doors_they_use() {
    let fixture = ChannelFixture::start().await;
    let receivers = [FakeAgent::start().await, FakeAgent::start().await];
    for (n, receiver) in receivers.iter().enumerate() {
        let made = fixture
            .agent(&json!({"name": format!("posted-{n}"),
            "connection_string": crate::channel_fixture::inbox_of(receiver)}))
            .await;
        let path = format!("/api/v1/channels/{}/members", fixture.channel);
        let body = json!({"agent": made["agent_id"], "roles": ["ops"]});
        let added = fixture.hub.post(&path, Some(&fixture.anna), &body).await;
        assert_eq!(added.status, 201, "{}", added.text);
    }
    let (mut harnesses, mut inboxes) = (vec![], vec![]);
    for n in 0..4 {
        let key = member(&fixture, &format!("harness-{n}"), &json!({"roles": ["ops"]})).await;
        harnesses.push(Harness::connect(&fixture.hub, &key).await);
        let key = member(&fixture, &format!("inbox-{n}"), &json!({"roles": ["ops"]})).await;
        inboxes.push(fixture.hub.inbox(&key, None).await);
    }
    let mut asked = vec![];
    for n in 0..10 {
        let said = fixture
            .hub
            .say(
                &format!("/api/v1/channels/{}", fixture.channel),
                &fixture.anna,
                &json!({"content": format!("@ops please look at number {n}")}),
            )
            .await;
        let attention = &said["attention"];
        let (woken, knocked) =
            (attention["woken"].as_array().unwrap(), attention["knocked"].as_array().unwrap());
        assert_eq!(woken.len() + knocked.len(), 1, "{attention}");
        asked.extend(woken.iter().chain(knocked).map(|handle| handle.as_str().unwrap().to_owned()));
        // Without knocks, the agent that receives the message holds the claim.
        let ladder = fixture.get(&format!("/api/v1/events/{}", said["event_id"].as_str().unwrap())).await;
        assert_eq!(ladder.body["claims"].as_array().unwrap().len(), woken.len(), "{}", ladder.text);
    }
    asked.sort();
    asked.dedup();
    assert_eq!(asked.len(), 10, "each in its turn: {asked:?}");
}

#[tokio::test]
async fn the_same_by_mcp() {
    let fixture = ChannelFixture::start().await;
    let ada = member(&fixture, "ada", &json!({})).await;
    let bob = member(&fixture, "bob", &json!({})).await;
    let event = fixture.say("the build is red again").await;
    let call = async |key: &str, name: &str, arguments: Value| {
        mcp_tool(&fixture.hub, &fixture.channel, key, name, arguments).await
    };
    let claimed = call(&ada, "chat_claim", json!({"event_id": event})).await;
    assert_eq!(claimed["structuredContent"]["state"], "held", "{claimed}");
    let refused = call(&bob, "chat_claim", json!({"event_id": event})).await;
    assert_eq!(refused["isError"], true);
    assert!(refused["content"][0]["text"].as_str().unwrap().contains("ada"), "{refused}");
    let event = fixture.say("@bob please restart it").await;
    let deferred = call(&bob, "chat_defer", json!({"event_id": event, "reason": "after lunch"})).await;
    assert_eq!(deferred["structuredContent"]["disposition"], "deferred", "{deferred}");
    assert_eq!(fixture.delivery(&event).await["disposition_reason"], "after lunch");
    let resolved = call(&bob, "chat_resolve", json!({"event_id": event})).await;
    assert_eq!(resolved["structuredContent"]["disposition"], "responded", "{resolved}");
    let people = call(&fixture.anna, "chat_claim", json!({"event_id": event})).await;
    assert_eq!(people["isError"], true, "{people}");
}

/// Releasing a role mention offers it to the others at once, with the same urgency.
#[tokio::test]
async fn what_one_lets_go_is_offered_to_the_rest() {
    for release in [false, true] {
        let (fixture, _clock, mut ada, mut bob) = two().await;
        let path = format!("/api/v1/channels/{}", fixture.channel);
        let body =
            json!({"content": "@ops please restart the cache", "priority": "high", "deadline_ms": 120_000});
        let said = fixture.hub.say(&path, &fixture.anna, &body).await;
        let event = said["event_id"].as_str().unwrap();
        let first = ada.delivered().await;
        assert_eq!(first["eventId"], json!(event));
        if release {
            ada.done("chat.claim", json!({"eventId": event})).await;
            ada.done("chat.claim", json!({"eventId": event, "release": true})).await;
        } else {
            ada.done("chat.react", json!({"inReplyTo": event, "signal": "declined"})).await;
        }
        let knock = bob.delivered().await;
        assert_eq!(
            (&knock["eventId"], &knock["attention"]["reason"]),
            (&json!(event), &json!("role_mention"))
        );
        for word in ["priority", "deadlineMs"] {
            assert_eq!(knock["attention"][word], first["attention"][word], "{knock}");
        }
        assert_eq!(knock["attention"]["priority"], "high");
    }
}

#[tokio::test]
async fn a_role_mention_is_answered_once() {
    let (fixture, _clock, mut ada, mut bob) = two().await;
    let event = fixture.say("@ops please restart the cache").await;
    ada.delivered().await;
    let reply = |key: &str| {
        json!({"target": {"conversationId": fixture.channel}, "idempotencyKey": key, "visibility": "thread",
            "directedness": "to_me", "text": "done", "inReplyTo": event})
    };
    ada.done("chat.send_message", reply("a")).await;
    assert_eq!(bob.refused("chat.send_message", reply("b")).await, "policy_forbidden");
    ada.done("chat.send_message", reply("c")).await;
}

/// A reply without `inReplyTo` still counts as a reply.
#[tokio::test]
async fn in_the_thread_of_what_another_holds_only_those_who_take_part_speak() {
    let (fixture, _clock, mut ada, mut bob) = two().await;
    let event = fixture.say("@ops please restart the cache").await;
    ada.delivered().await;
    ada.done("chat.claim", json!({"eventId": event})).await;
    let send = |key: &str, thread: &str| {
        json!({"target": {"conversationId": fixture.channel, "threadId": thread}, "idempotencyKey": key,
            "visibility": "thread", "directedness": "ambient", "text": "I did it"})
    };
    assert_eq!(bob.refused("chat.send_message", send("b", &event)).await, "claimed_by_other");
    ada.done("chat.send_message", send("a", &event)).await;
    let path = format!("/api/v1/channels/{}", fixture.channel);
    let asked = json!({"content": "@bob can you help?", "thread": event});
    fixture.hub.say(&path, &fixture.anna, &asked).await;
    bob.delivered().await;
    bob.done("chat.send_message", send("c", &event)).await;
    // A message for another agent.
    let event = fixture.say("@ada how is it going?").await;
    ada.delivered().await;
    assert_eq!(bob.refused("chat.send_message", send("d", &event)).await, "policy_forbidden");
    fixture.hub.say(&path, &fixture.anna, &json!({"content": "well?", "thread": event})).await;
}

/// Over HTTP it is 403, with the holder or the time to retry.
#[tokio::test]
async fn who_answers_what_another_holds_is_refused_by_every_door() {
    let (fixture, clock, mut ada, mut bob) = two().await;
    let plain = member(&fixture, "plain", &json!({"roles": ["ops"]})).await;
    let event = fixture.say("@ops please restart the cache").await;
    ada.delivered().await;
    let path = format!("/api/v1/channels/{}/messages", fixture.channel);
    let answer = async || {
        let body = json!({"content": "done", "reply_to": event});
        let refused = fixture.hub.post(&path, Some(&plain), &body).await;
        assert_eq!(refused.status, 403, "{}", refused.text);
        refused.own_failure(Code::PolicyForbidden);
        (refused.body["error"]["details"].clone(), refused.headers.get("retry-after").cloned())
    };
    let (offered, retry_after) = answer().await;
    assert_eq!(offered["refusal"], "offered_to_other");
    assert_eq!(retry_after.unwrap(), "30");
    let claimed = ada.done("chat.claim", json!({"eventId": event})).await;
    // The response to the claim contains the full message and its mentions.
    assert_eq!(claimed["event"]["target"]["mentions"], json!(["role:ops"]), "{claimed}");
    assert_eq!(super::harness::text(&claimed["event"]), "@ops please restart the cache");
    let (held, _) = answer().await;
    assert_eq!((&held["refusal"], &held["holder"]), (&json!("claimed_by_other"), &json!("ada")));
    clock.set(clock.now() + MINUTE / 2);
    assert_eq!(bob.refused("chat.claim", json!({"eventId": event})).await, "claimed_by_other");
}

#[tokio::test]
async fn what_another_has_answered_is_not_taken_nor_put_off() {
    let (fixture, clock, mut ada, mut bob) = two().await;
    let reply = |event: &str| {
        json!({"target": {"conversationId": fixture.channel}, "idempotencyKey": format!("re-{event}"),
            "visibility": "thread", "directedness": "to_me", "text": "done", "inReplyTo": event})
    };
    for tool in ["chat.send_message", "chat.resolve"] {
        let event = fixture.say("@ops please restart the cache").await;
        clock.set(clock.now() + MINUTE);
        let settle = if tool == "chat.resolve" { json!({"eventId": event}) } else { reply(&event) };
        ada.done(tool, settle).await;
        let refused = bob.call("chat.claim", json!({"eventId": event})).await["structuredContent"].clone();
        assert_eq!(refused["code"], "claimed_by_other", "{tool}");
        assert!(refused["message"].as_str().unwrap().contains("has answered this already"), "{refused}");
        let working = json!({"inReplyTo": event, "signal": "working"});
        assert_eq!(bob.refused("chat.react", working.clone()).await, "claimed_by_other");
        let later = json!({"eventId": event, "reason": "later"});
        assert_eq!(bob.refused("chat.defer", later).await, "claimed_by_other");
        assert_eq!(bob.refused("chat.send_message", reply(&event)).await, "policy_forbidden");
        // An agent that has answered cannot claim it again by a signal.
        ada.done("chat.react", working).await;
        let ladder = fixture.get(&format!("/api/v1/events/{event}")).await;
        let claims = ladder.body["claims"].as_array().unwrap();
        assert!(claims.iter().all(|claim| claim["state"] == "resolved"), "{}", ladder.text);
    }
}

#[tokio::test]
async fn what_is_anothers_or_nobodys_is_not_put_off() {
    let (fixture, _clock, mut ada, mut bob) = two().await;
    let nobodys = fixture.say("the build is red again").await;
    let later = |event: &str| json!({"eventId": event, "reason": "later"});
    assert_eq!(bob.refused("chat.defer", later(&nobodys)).await, "policy_forbidden");
    let of_role = fixture.say("@ops please restart the cache").await;
    ada.done("chat.claim", json!({"eventId": of_role})).await;
    assert_eq!(bob.refused("chat.defer", later(&of_role)).await, "claimed_by_other");
    assert_eq!(ada.done("chat.defer", later(&of_role)).await["disposition"], "deferred");
}
