//! Effects of time and edits on deliveries: reminders, downgrades, escalations, offers, edits and deletions.

use super::harness::{Harness, text};
use super::sessions::member;
use crate::channel_fixture::{ChannelFixture, MINUTE};
use crate::support::{Setup, eventually};
use serde_json::{Value, json};

pub(super) async fn disposition(fixture: &ChannelFixture, event: &str, handle: &str) -> Value {
    let ladder = fixture.get(&format!("/api/v1/events/{event}")).await;
    let deliveries = ladder.body["deliveries"].as_array().unwrap();
    let found = deliveries.iter().rev().find(|one| one["recipient"]["handle"] == handle);
    found.map_or(Value::Null, |one| one["disposition"].clone())
}

/// Waits until the acknowledgement is stored, so that the clock may advance.
pub(super) async fn acked(fixture: &ChannelFixture, event: &str) {
    let ladder = async || fixture.get(&format!("/api/v1/events/{event}")).await.body["deliveries"].clone();
    let has_all = |deliveries: &Value| {
        let rungs = |one: &Value| one["rungs"].as_array().unwrap().iter().any(|rung| rung["rung"] == "acked");
        deliveries.as_array().unwrap().iter().all(rungs)
    };
    eventually(ladder, has_all).await;
}

#[tokio::test]
async fn what_is_not_answered_is_sent_again_then_downgraded_and_escalated_to_one() {
    let (fixture, clock) = ChannelFixture::with_clock().await;
    let silent = member(&fixture, "silent", &json!({})).await;
    let lead = member(&fixture, "lead", &json!({"lead": true})).await;
    let other = member(&fixture, "other", &json!({})).await;
    let mut silent = Harness::connect(&fixture.hub, &silent).await;
    let mut lead = Harness::connect(&fixture.hub, &lead).await;
    let mut other = Harness::connect(&fixture.hub, &other).await;
    let event = fixture.say("@silent is the deploy blocked?").await;
    silent.delivered().await;
    acked(&fixture, &event).await;

    clock.set(clock.now() + 5 * MINUTE);
    let again = silent.delivered().await;
    assert_eq!((&again["eventId"], &again["reliability"]["attempt"]), (&json!(event), &json!(2)));
    assert_eq!(again["attention"]["policy"], "must_respond");
    acked(&fixture, &event).await;

    clock.set(clock.now() + 5 * MINUTE);
    let stale = silent.delivered().await;
    assert_eq!((&stale["eventId"], &stale["reliability"]["attempt"]), (&json!(event), &json!(3)));
    assert_eq!(
        (&stale["attention"]["policy"], &stale["attention"]["reason"]),
        (&json!("may_respond"), &json!("stale"))
    );
    assert_eq!(stale["injection"]["mode"], "notify");
    let escalated = lead.delivered().await;
    assert_eq!(
        (&escalated["conversation"]["kind"], &escalated["author"]["kind"]),
        (&json!("system"), &json!("system"))
    );
    assert_eq!(
        (&escalated["attention"]["reason"], &escalated["inReplyTo"]),
        (&json!("escalation"), &json!(event))
    );
    assert!(!text(&escalated).contains("deploy"), "it names the original, and does not quote it");
    let log = fixture.get(&format!("/api/v1/channels/{}/events?kind=escalation", fixture.channel)).await;
    let told = &log.body["items"][0];
    assert_eq!(
        (&told["author"]["kind"], &told["author"]["handle"]),
        (&json!("system"), &Value::Null),
        "{told}"
    );
    other.assert_quiet().await;
    acked(&fixture, &event).await;

    // It ends without any help.
    clock.set(clock.now() + 5 * MINUTE);
    let ended = async || disposition(&fixture, &event, "silent").await;
    eventually(ended, |disposition| disposition == "ignored").await;
}

#[tokio::test]
async fn what_is_answered_or_put_off_is_left_alone_until_then() {
    let (fixture, clock) = ChannelFixture::with_clock().await;
    let key = member(&fixture, "lead", &json!({})).await;
    let mut lead = Harness::connect(&fixture.hub, &key).await;
    let answered = fixture.say("@lead number one").await;
    let deferred = fixture.say("@lead number two").await;
    lead.delivered().await;
    lead.delivered().await;
    lead.done("chat.react", json!({"inReplyTo": answered, "signal": "done"})).await;
    lead.done("chat.defer", json!({"eventId": deferred, "reason": "later"})).await;
    for event in [&answered, &deferred] {
        acked(&fixture, event).await;
    }
    clock.set(clock.now() + 30 * MINUTE);
    lead.assert_quiet().await;
    clock.set(clock.now() + 30 * MINUTE);
    let again = lead.delivered().await;
    assert_eq!((&again["eventId"], &again["reliability"]["attempt"]), (&json!(deferred), &json!(2)));
}

#[tokio::test]
async fn what_nobody_of_a_role_takes_is_open_to_the_rest() {
    let (fixture, clock) = ChannelFixture::with_clock().await;
    let ops = json!({"roles": ["ops"]});
    let ada = member(&fixture, "ada", &ops).await;
    let bob = member(&fixture, "bob", &ops).await;
    let mut ada = Harness::connect(&fixture.hub, &ada).await;
    let mut bob = Harness::connect(&fixture.hub, &bob).await;
    let event = fixture.say("@ops please restart the cache").await;
    ada.delivered().await;
    acked(&fixture, &event).await;
    clock.set(clock.now() + MINUTE / 2);
    let knock = bob.delivered().await;
    assert_eq!((&knock["eventId"], &knock["injection"]["mode"]), (&json!(event), &json!("notify")));
    bob.done("chat.claim", json!({"eventId": event, "ttlMs": 60_000})).await;
    assert_eq!(disposition(&fixture, &event, "bob").await, "claimed");
    // An expired claim is offered again, to the first agent first.
    clock.set(clock.now() + MINUTE);
    let again = ada.delivered().await;
    assert_eq!((&again["eventId"], &again["reliability"]["attempt"]), (&json!(event), &json!(2)));
    assert_eq!(bob.refused("chat.claim", json!({"eventId": event})).await, "offered_to_other");
    assert_eq!(disposition(&fixture, &event, "bob").await, Value::Null);
}

/// A person's decision on an agent's request ends its wait; signals of others are only news.
#[tokio::test]
async fn signals_on_ones_own_messages_come_in() {
    let fixture = ChannelFixture::start().await;
    let key = member(&fixture, "lead", &json!({})).await;
    let mut lead = Harness::connect(&fixture.hub, &key).await;
    let ask = |key: &str, intent: &str| {
        json!({"target": {"conversationId": fixture.channel}, "idempotencyKey": key, "visibility": "channel",
            "directedness": "to_me", "text": "@anna shall I deploy it?", "intent": intent})
    };
    for (n, (intent, signal, mode)) in [
        ("approval_request", "agree", Some("immediate")),
        ("approval_request", "declined", Some("immediate")),
        ("status", "agree", Some("notify")),
        ("status", "seen", None),
    ]
    .into_iter()
    .enumerate()
    {
        let sent = lead.done("chat.send_message", ask(&format!("k{n}"), intent)).await;
        let event = sent["eventId"].as_str().unwrap();
        let path = format!("/api/v1/channels/{}/messages/{event}/reactions", fixture.channel);
        let reacted = fixture.hub.post(&path, Some(&fixture.anna), &json!({"signal": signal})).await;
        assert_eq!(reacted.status, 201, "{}", reacted.text);
        let Some(mode) = mode else {
            lead.assert_quiet().await;
            continue;
        };
        let params = lead.delivered().await;
        assert_eq!(
            (&params["inReplyTo"], &params["attention"]["reason"]),
            (&json!(event), &json!("inbound_reaction"))
        );
        assert_eq!(
            (&params["injection"]["mode"], &params["author"]["displayName"]),
            (&json!(mode), &json!("anna"))
        );
        assert!(params.to_string().contains(signal), "{params}");
    }
}

/// The cancellation reaches a harness on another node.
#[tokio::test]
async fn a_deletion_cancels_on_another_node() {
    let setup = Setup::postgres();
    let fixture = ChannelFixture::on(&setup).await;
    let other = setup.start();
    let key = member(&fixture, "lead", &json!({})).await;
    let mut lead = Harness::connect(&other, &key).await;
    let event = fixture.say("@lead restart the cache").await;
    lead.delivered().await;
    let path = format!("/api/v1/channels/{}/messages/{event}", fixture.channel);
    assert_eq!(fixture.hub.delete(&path, Some(&fixture.anna)).await.status, 204);
    assert_eq!(lead.notified("notifications/cancelled").await["eventId"], json!(event));
}

#[tokio::test]
async fn an_edit_takes_the_place_of_what_is_open_and_a_deletion_cancels_it() {
    let fixture = ChannelFixture::start().await;
    let key = member(&fixture, "lead", &json!({})).await;
    let mut lead = Harness::connect(&fixture.hub, &key).await;
    let event = fixture.say("@lead restart the cash").await;
    lead.delivered().await;
    let path = |event: &str| format!("/api/v1/channels/{}/messages/{event}", fixture.channel);
    let edit = json!({"content": "@lead restart the cache"});
    let edited = fixture.hub.ask("PATCH", &path(&event), Some(&fixture.anna), &edit).await;
    assert_eq!(edited.status, 200, "{}", edited.text);
    let request = lead.request().await;
    let params = &request["params"];
    assert_eq!((&params["supersedes"], text(params)), (&json!(event), "@lead restart the cache"));
    assert_eq!(params["eventId"], edited.body["event_id"]);
    assert_eq!(params["attention"]["policy"], "must_respond");
    lead.ack(&request).await;
    assert_eq!(disposition(&fixture, &event, "lead").await, "superseded");

    let deleted = fixture.hub.delete(&path(&event), Some(&fixture.anna)).await;
    assert_eq!(deleted.status, 204, "{}", deleted.text);
    let cancelled = lead.notified("notifications/cancelled").await;
    assert_eq!((&cancelled["requestId"], &cancelled["eventId"]), (&request["id"], &edited.body["event_id"]));
    // An answered message is not cancelled for the agent that answered.
    let event = fixture.say("@lead and the queue").await;
    lead.delivered().await;
    lead.done("chat.react", json!({"inReplyTo": event, "signal": "done"})).await;
    fixture.hub.delete(&path(&event), Some(&fixture.anna)).await;
    lead.assert_quiet().await;
    assert_eq!(disposition(&fixture, &event, "lead").await, "responded");
}

/// "ack_only events SHOULD become acknowledged or ignored": without a response, they become ignored when they
/// expire.
#[tokio::test]
async fn thanks_that_nobody_answers_are_over_at_their_time() {
    let (fixture, clock) = ChannelFixture::with_clock().await;
    let key = member(&fixture, "lead", &json!({})).await;
    let mut lead = Harness::connect(&fixture.hub, &key).await;
    let event = fixture.say("@lead thanks!").await;
    let knock = lead.delivered().await;
    assert_eq!((&knock["eventId"], &knock["attention"]["policy"]), (&json!(event), &json!("ack_only")));
    acked(&fixture, &event).await;
    clock.set(clock.now() + 5 * MINUTE - 1);
    // A later message is delivered later, so the earlier one has been processed by then.
    fixture.say("@lead are you there?").await;
    lead.delivered().await;
    assert_eq!(disposition(&fixture, &event, "lead").await, Value::Null);
    clock.set(clock.now() + 1);
    let ended = async || disposition(&fixture, &event, "lead").await;
    eventually(ended, |disposition| disposition == "ignored").await;
    lead.assert_quiet().await;
}
