//! Capabilities that a harness endpoint did not agree on when it was set are not used either.

use super::endpoint::{Endpoint, Says, set};
use super::harness::text;
use super::time::acked;
use crate::channel_fixture::{BEGIN, ChannelFixture, MINUTE};
use crate::support::Setup;
use chorus_testkit::clock::ManualClock;
use serde_json::{Value, json};
use std::time::Duration;

/// Adds an agent of anna whose harness lacks these capabilities.
async fn without(fixture: &ChannelFixture, name: &str, cannot: &[(&str, &str)], more: &Value) -> Endpoint {
    let made = fixture.agent(&json!({"name": name})).await;
    let mut newcomer = more.clone();
    newcomer["agent"] = json!(name);
    let path = format!("/api/v1/channels/{}/members", fixture.channel);
    let joined = fixture.hub.post(&path, Some(&fixture.anna), &newcomer).await;
    assert_eq!(joined.status, 201, "{}", joined.text);
    let key = made["api_key"].as_str().unwrap();
    let endpoint = Endpoint::start().await;
    for (group, one) in cannot {
        endpoint.can.lock().unwrap()[group][one] = json!(false);
    }
    let set = set(&fixture.hub, name, key, &endpoint.url).await;
    assert_eq!(set.status, 200, "{}", set.text);
    endpoint
}

/// A harness without acknowledgements gets notifications, and any successful response counts as received.
#[tokio::test]
async fn an_endpoint_that_does_not_acknowledge_is_told() {
    let fixture = ChannelFixture::start().await;
    let endpoint = without(&fixture, "timber", &[("delivery", "ack")], &json!({})).await;
    endpoint.say(Says::Anything(json!("thank you")));
    let event = fixture.say("@timber hello").await;
    let delivery = fixture.delivery_is(&event, "delivered").await;
    assert_eq!(delivery["attempts"].as_array().unwrap().len(), 1, "{delivery}");
    let told = endpoint.requests("chat/deliver", 1).await;
    assert_eq!((told[0].body.get("id"), &told[0].body["params"]["eventId"]), (None, &json!(event)));
    // The same for an envelope.
    let alice = fixture.hub.register("alice").await;
    let sent = fixture.hub.send(&alice, "alice", "timber", "Coffee?").await;
    assert_eq!(sent.outcome(), (200, "delivered"), "{}", sent.text);
    let told = endpoint.requests("chat/deliver", 2).await;
    assert_eq!((told[1].body.get("id"), text(&told[1].body["params"])), (None, "Coffee?"));
}

/// A delivery that may have arrived is not repeated to a harness without deduplication: it becomes a dead
/// letter, and its owner decides.
#[tokio::test]
async fn an_endpoint_that_takes_nothing_twice_gets_nothing_twice() {
    let clock = ManualClock::new(BEGIN);
    let setup = Setup::new().clock(&clock).config(|config| {
        config.webhook_timeout = Duration::from_millis(300);
    });
    let fixture = ChannelFixture::on(&setup).await;
    for (name, capability) in [("timber", "redelivery"), ("oak", "idempotency")] {
        let endpoint = without(&fixture, name, &[("delivery", capability)], &json!({})).await;
        // A delivery that the harness refused is sent again.
        endpoint.say(Says::Status(503));
        let event = fixture.say(&format!("@{name} one")).await;
        endpoint.delivered(1).await;
        fixture.recorded(&clock).await;
        endpoint.say(Says::Accepted);
        clock.advance(10 * MINUTE);
        fixture.delivery_is(&event, "delivered").await;
        endpoint.delivered(2).await;
        // It may or may not have arrived.
        endpoint.say(Says::Anything(json!({"status": "ok"})));
        let event = fixture.say(&format!("@{name} two")).await;
        let dead = fixture.delivery_is(&event, "dead").await;
        assert_eq!(dead["attempts"].as_array().unwrap().len(), 1, "{dead}");
        endpoint.say(Says::Nothing);
        let event = fixture.say(&format!("@{name} three")).await;
        let dead = fixture.delivery_is(&event, "dead").await;
        assert!(dead["attempts"][0]["error"].as_str().unwrap().contains("did not respond"), "{dead}");
        endpoint.delivered(4).await;
    }
}

/// It is not reminded at the deadline either.
#[tokio::test]
async fn an_endpoint_that_takes_nothing_twice_is_not_reminded() {
    let (fixture, clock) = ChannelFixture::with_clock().await;
    let endpoint = without(&fixture, "timber", &[("delivery", "redelivery")], &json!({})).await;
    let event = fixture.say("@timber hello").await;
    acked(&fixture, &event).await;
    clock.set(clock.now() + 5 * MINUTE);
    let marker = fixture.say("@timber and another thing").await;
    acked(&fixture, &marker).await;
    let all = endpoint.delivered(2).await;
    assert_eq!([&all[0]["eventId"], &all[1]["eventId"]], [&json!(event), &json!(marker)]);
}

/// Deliveries use the injection mode of the harness, and the pulls and signals it supports.
#[tokio::test]
async fn an_endpoint_is_shown_things_as_it_can() {
    let ops = json!({"roles": ["ops"]});
    for (cannot, direct, role) in [
        (vec![], "buffered", "notify"),
        (vec![("injection", "buffered")], "immediate", "notify"),
        (vec![("injection", "notify")], "buffered", "buffered"),
        (vec![("chatTools", "readThread")], "buffered", "buffered"),
    ] {
        let fixture = ChannelFixture::start().await;
        let endpoint = without(&fixture, "timber", &cannot, &ops).await;
        fixture.say("@timber please look at the rollback").await;
        endpoint.delivered(1).await;
        fixture.say("@ops is the cache up?").await;
        let all = endpoint.delivered(2).await;
        let modes = [&all[0]["injection"]["mode"], &all[1]["injection"]["mode"]];
        assert_eq!(modes, [&json!(direct), &json!(role)], "{cannot:?}");
        assert_eq!(all[1].get("content").is_none(), role == "notify");
    }
}

#[tokio::test]
async fn an_endpoint_that_knows_no_cancellations_is_told_none() {
    let fixture = ChannelFixture::start().await;
    for (name, knows) in [("told", true), ("untold", false)] {
        let cannot: &[_] = if knows { &[] } else { &[("utilities", "cancellation")] };
        let endpoint = without(&fixture, name, cannot, &json!({})).await;
        for n in 1..=2 {
            let event = fixture.say(&format!("@{name} number {n}")).await;
            endpoint.delivered(n).await;
            let path = format!("/api/v1/channels/{}/messages/{event}", fixture.channel);
            assert_eq!(fixture.hub.delete(&path, Some(&fixture.anna)).await.status, 204);
        }
        // A notification sent before the second delivery would have arrived by now.
        fixture.say(&format!("@{name} number 3")).await;
        endpoint.delivered(3).await;
        let told = endpoint.requests("notifications/cancelled", if knows { 2 } else { 0 }).await;
        assert_eq!(told.len(), if knows { 2 } else { 0 }, "{told:?}");
    }
}
