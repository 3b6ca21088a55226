//! A role message whose claim ends is offered again to somebody who may still answer.

use super::harness::Harness;
use super::missed_edits::leave;
use super::sessions::member;
use crate::channel_fixture::{ChannelFixture, MINUTE};
use crate::support::eventually;
use chorus_testkit::clock::ManualClock;
use serde_json::{Value, json};

/// Returns a channel with three connected agents of a role, and a clock. The first one is asked first.
async fn three() -> (ChannelFixture, ManualClock, [Harness; 3]) {
    let (fixture, clock) = ChannelFixture::with_clock().await;
    let mut harnesses = vec![];
    for name in ["ada", "bob", "cat"] {
        let key = member(&fixture, name, &json!({"roles": ["ops"]})).await;
        harnesses.push(Harness::connect(&fixture.hub, &key).await);
    }
    let harnesses = harnesses.try_into().unwrap_or_else(|_| panic!("three"));
    (fixture, clock, harnesses)
}

/// Waits until all acknowledgements are stored, so that the clock may advance.
async fn acked(fixture: &ChannelFixture, event: &str) {
    all_reached(fixture, event, "acked").await;
}

async fn all_reached(fixture: &ChannelFixture, event: &str, rung: &str) {
    let ladder = async || fixture.get(&format!("/api/v1/events/{event}")).await.body["deliveries"].clone();
    let has_all = |deliveries: &Value| {
        let rungs = |one: &Value| one["rungs"].as_array().unwrap().iter().any(|one| one["rung"] == rung);
        deliveries.as_array().unwrap().iter().all(rungs)
    };
    eventually(ladder, has_all).await;
}

fn attempt(params: &Value) -> (&Value, &Value) {
    (&params["eventId"], &params["reliability"]["attempt"])
}

#[tokio::test]
async fn what_a_later_one_gives_back_is_asked_of_the_others_again() {
    for release in [true, false] {
        let (fixture, clock, [mut ada, mut bob, mut cat]) = three().await;
        let event = fixture.say("@ops please restart the cache").await;
        ada.delivered().await;
        ada.done("chat.react", json!({"inReplyTo": event, "signal": "declined"})).await;
        for one in [&mut bob, &mut cat] {
            assert_eq!(attempt(&one.delivered().await), (&json!(event), &json!(1)));
        }
        acked(&fixture, &event).await;
        clock.set(clock.now() + 1);
        bob.done("chat.claim", json!({"eventId": event})).await;
        if release {
            bob.done("chat.claim", json!({"eventId": event, "release": true})).await;
        } else {
            bob.done("chat.react", json!({"inReplyTo": event, "signal": "declined"})).await;
        }
        let again = cat.delivered().await;
        assert_eq!(attempt(&again), (&json!(event), &json!(2)));
        assert_eq!(again["injection"]["mode"], "notify");
        // The agent that released it is not asked again.
        ada.assert_quiet().await;
        bob.assert_quiet().await;
        cat.done("chat.claim", json!({"eventId": event})).await;
    }
}

/// The time during which it was held does not count as a missed offer.
#[tokio::test]
async fn what_runs_out_of_a_later_one_is_offered_to_the_first_and_then_to_all() {
    let (fixture, clock, [mut ada, mut bob, mut cat]) = three().await;
    let event = fixture.say("@ops please restart the cache").await;
    ada.delivered().await;
    acked(&fixture, &event).await;
    clock.set(clock.now() + MINUTE / 2);
    bob.delivered().await;
    cat.delivered().await;
    acked(&fixture, &event).await;
    bob.done("chat.claim", json!({"eventId": event, "ttlMs": 20 * MINUTE})).await;
    clock.set(clock.now() + 10 * MINUTE);
    for one in [&mut ada, &mut bob, &mut cat] {
        one.assert_quiet().await;
    }
    clock.set(clock.now() + 10 * MINUTE);
    assert_eq!(attempt(&ada.delivered().await), (&json!(event), &json!(2)));
    acked(&fixture, &event).await;
    clock.set(clock.now() + MINUTE / 2);
    for one in [&mut bob, &mut cat] {
        assert_eq!(attempt(&one.delivered().await), (&json!(event), &json!(2)));
    }
    ada.assert_quiet().await;
    cat.done("chat.claim", json!({"eventId": event})).await;
    cat.done("chat.react", json!({"inReplyTo": event, "signal": "done"})).await;
    acked(&fixture, &event).await;
    // Once it is closed, the others have no open obligation.
    clock.set(clock.now() + 30 * MINUTE);
    let dispositions = async || {
        let ladder = fixture.get(&format!("/api/v1/events/{event}")).await;
        let last = |handle: &str| {
            let deliveries = ladder.body["deliveries"].as_array().unwrap().iter().rev();
            deliveries.clone().find(|one| one["recipient"]["handle"] == handle).unwrap()["disposition"]
                .clone()
        };
        ["ada", "bob", "cat"].map(last)
    };
    let done = [json!("ignored"), json!("ignored"), json!("responded")];
    eventually(dispositions, |found| *found == done).await;
    bob.assert_quiet().await;
}

/// Claiming and releasing repeatedly does not wake the others for ever.
#[tokio::test]
async fn nobody_is_asked_for_ever() {
    let (fixture, clock, [mut ada, mut bob, mut cat]) = three().await;
    let event = fixture.say("@ops please restart the cache").await;
    ada.delivered().await;
    ada.done("chat.react", json!({"inReplyTo": event, "signal": "declined"})).await;
    bob.delivered().await;
    cat.delivered().await;
    for round in 2..=5 {
        acked(&fixture, &event).await;
        clock.set(clock.now() + 1);
        bob.done("chat.claim", json!({"eventId": event})).await;
        bob.done("chat.claim", json!({"eventId": event, "release": true})).await;
        assert_eq!(attempt(&cat.delivered().await), (&json!(event), &json!(round)));
    }
    acked(&fixture, &event).await;
    clock.set(clock.now() + 1);
    bob.done("chat.claim", json!({"eventId": event})).await;
    bob.done("chat.claim", json!({"eventId": event, "release": true})).await;
    cat.assert_quiet().await;
}

/// Without knocks the hub claims the message for the agent that receives it: one after the other, repeatedly.
#[tokio::test]
async fn inboxes_take_their_turns_again() {
    let (fixture, clock) = ChannelFixture::with_clock().await;
    let mut inboxes = vec![];
    for name in ["ada", "bob"] {
        let key = member(&fixture, name, &json!({"roles": ["ops"]})).await;
        inboxes.push(fixture.hub.inbox(&key, None).await);
    }
    let event = fixture.say("@ops please restart the cache").await;
    let holders = async || {
        let ladder = fixture.get(&format!("/api/v1/events/{event}")).await;
        let claims = ladder.body["claims"].as_array().unwrap().iter();
        claims.map(|one| one["holder"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let mut expected = vec!["ada"];
    for next in ["bob", "ada", "bob"] {
        all_reached(&fixture, &event, "handed").await;
        clock.set(clock.now() + 5 * MINUTE);
        let offered = async || fixture.get(&format!("/api/v1/events/{event}")).await.body["claims"].clone();
        let has_ended = |claims: &Value| claims.as_array().unwrap().iter().all(|one| one["state"] != "held");
        eventually(offered, has_ended).await;
        all_reached(&fixture, &event, "handed").await;
        clock.set(clock.now() + MINUTE / 2);
        expected.push(next);
        eventually(holders, |found| *found == expected).await;
    }
}

/// An absent agent gets a knock when it returns, and nobody holds the message before it is claimed.
#[tokio::test]
async fn a_role_that_is_all_away_is_knocked_when_it_comes_back() {
    let (fixture, clock) = ChannelFixture::with_clock().await;
    let mut keys = vec![];
    for name in ["ada", "bob"] {
        let key = member(&fixture, name, &json!({"roles": ["ops"]})).await;
        leave(&fixture, Harness::connect(&fixture.hub, &key).await, name).await;
        keys.push(key);
    }
    let event = fixture.say("@ops please restart the cache").await;
    clock.set(clock.now() + MINUTE / 2);
    let mut ada = Harness::connect(&fixture.hub, &keys[0]).await;
    let mut bob = Harness::connect(&fixture.hub, &keys[1]).await;
    for one in [&mut ada, &mut bob] {
        let knock = one.delivered().await;
        assert_eq!((&knock["eventId"], &knock["injection"]["mode"]), (&json!(event), &json!("notify")));
        assert!(knock.get("content").is_none(), "{knock}");
    }
    bob.done("chat.claim", json!({"eventId": event})).await;
    assert_eq!(ada.refused("chat.claim", json!({"eventId": event})).await, "claimed_by_other");
}
