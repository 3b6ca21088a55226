//! A message to a role or to the owners of a work stream can be claimed and closed by them and by people only.

use super::harness::Harness;
use super::sessions::member;
use crate::channel_fixture::{ChannelFixture, MINUTE};
use serde_json::{Value, json};

/// Asserts that another agent can neither claim nor close an event.
async fn assert_refused(fixture: &ChannelFixture, event: &str, (stranger, key): (&mut Harness, &str)) {
    for (tool, arguments) in [
        ("chat.claim", json!({"eventId": event, "ttlMs": 86_400_000})),
        ("chat.resolve", json!({"eventId": event})),
        ("chat.react", json!({"inReplyTo": event, "signal": "claimed"})),
        ("chat.react", json!({"inReplyTo": event, "signal": "working"})),
    ] {
        assert_eq!(stranger.refused(tool, arguments.clone()).await, "policy_forbidden", "{tool} {arguments}");
    }
    let path = format!("/api/v1/channels/{}/messages/{event}/reactions", fixture.channel);
    let refused = fixture.hub.post(&path, Some(key), &json!({"signal": "claimed"})).await;
    assert_eq!(
        (refused.status, &refused.body["error"]["code"]),
        (403, &json!("POLICY_FORBIDDEN")),
        "{}",
        refused.text
    );
    let ladder = fixture.get(&format!("/api/v1/events/{event}")).await;
    assert_eq!(ladder.body["claims"], json!([]), "{}", ladder.text);
    // The signal `seen` is not a claim.
    stranger.done("chat.react", json!({"inReplyTo": event, "signal": "seen"})).await;
}

fn answer(fixture: &ChannelFixture, event: &str) -> Value {
    json!({"target": {"conversationId": fixture.channel}, "idempotencyKey": "a", "visibility": "thread",
        "directedness": "to_other", "text": "done", "inReplyTo": event})
}

#[tokio::test]
async fn what_is_for_a_role_is_nobody_elses() {
    let (fixture, clock) = ChannelFixture::with_clock().await;
    let ops = member(&fixture, "ada", &json!({"roles": ["ops"]})).await;
    let key = member(&fixture, "eve", &json!({})).await;
    let mut ada = Harness::connect(&fixture.hub, &ops).await;
    let mut eve = Harness::connect(&fixture.hub, &key).await;
    let event = fixture.say("@ops please restart the cache").await;
    ada.delivered().await;
    assert_refused(&fixture, &event, (&mut eve, &key)).await;
    // The same after the message was offered to everybody in the role.
    clock.set(clock.now() + MINUTE);
    assert_refused(&fixture, &event, (&mut eve, &key)).await;
    ada.done("chat.send_message", answer(&fixture, &event)).await;
}

#[tokio::test]
async fn what_an_owner_of_a_stream_is_asked_is_nobody_elses() {
    let fixture = ChannelFixture::start().await;
    let (owner, key) = (member(&fixture, "ada", &json!({})).await, member(&fixture, "eve", &json!({})).await);
    let mut ada = Harness::connect(&fixture.hub, &owner).await;
    let mut eve = Harness::connect(&fixture.hub, &key).await;
    let stream = json!({"name": "migration", "conversations": [fixture.channel], "owners": ["ada"],
        "participants": ["eve"]});
    let made = fixture.hub.post("/api/v1/streams", Some(&fixture.anna), &stream).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let event = fixture.say("the second table is moved, what is next?").await;
    assert_eq!(ada.delivered().await["attention"]["reason"], "stream_owner");
    assert_refused(&fixture, &event, (&mut eve, &key)).await;
    assert_eq!(ada.done("chat.claim", json!({"eventId": event})).await["holder"], "agent:ada");
    assert_eq!(ada.done("chat.resolve", json!({"eventId": event})).await["disposition"], "responded");
}

/// A holder that ignores its claim releases it at once, and the others are asked.
#[tokio::test]
async fn who_ignores_what_it_holds_lets_it_go() {
    let fixture = ChannelFixture::start().await;
    let ops = json!({"roles": ["ops"]});
    let (ada, bob) = (member(&fixture, "ada", &ops).await, member(&fixture, "bob", &ops).await);
    let mut ada = Harness::connect(&fixture.hub, &ada).await;
    let mut bob = Harness::connect(&fixture.hub, &bob).await;
    let event = fixture.say("@ops please restart the cache").await;
    ada.delivered().await;
    ada.done("chat.claim", json!({"eventId": event, "ttlMs": 86_400_000})).await;
    ada.notify("notifications/disposition", json!({"eventId": event, "disposition": "ignored"})).await;
    assert_eq!(bob.delivered().await["eventId"], json!(event));
    assert_eq!(bob.done("chat.claim", json!({"eventId": event})).await["holder"], "agent:bob");
    let ladder = fixture.get(&format!("/api/v1/events/{event}")).await;
    let states: Vec<_> = ladder.body["claims"].as_array().unwrap().iter().map(|one| &one["state"]).collect();
    assert_eq!(states, [&json!("released"), &json!("held")], "{}", ladder.text);
    ada.assert_quiet().await;
}
