//! Long work: what an agent works on is claimed, progress moves its deadline, and its end is told.

use super::harness::Harness;
use super::sessions::member;
use super::time::{acked, disposition};
use crate::channel_fixture::{ChannelFixture, MINUTE};
use crate::support::{Answer, eventually};
use reqwest::Method;
use serde_json::{Value, json};

async fn escalations(fixture: &ChannelFixture) -> Vec<Value> {
    let log = fixture.get(&format!("/api/v1/channels/{}/events?kind=escalation", fixture.channel)).await;
    log.body["items"].as_array().unwrap().clone()
}

/// Reports that a turn with this event runs, and waits until the hub knows it.
async fn injected(fixture: &ChannelFixture, harness: &mut Harness, event: &str) {
    harness.notify("notifications/injected", json!({"eventIds": [event], "turnId": "turn-1"})).await;
    let known = async || fixture.get(&format!("/api/v1/events/{event}")).await.text;
    eventually(known, |text| text.contains("\"injected\"")).await;
}

fn answer(fixture: &ChannelFixture, event: &str) -> Value {
    json!({"target": {"conversationId": fixture.channel}, "inReplyTo": event, "idempotencyKey": event,
        "visibility": "channel", "directedness": "to_me", "text": "It is done."})
}

#[tokio::test]
async fn work_of_twenty_minutes_is_neither_repeated_nor_escalated() {
    let (fixture, clock) = ChannelFixture::with_clock().await;
    let ann = member(&fixture, "ann", &json!({})).await;
    let mut ann = Harness::connect(&fixture.hub, &ann).await;
    let event = fixture.say("@ann please write the report").await;
    ann.delivered().await;
    acked(&fixture, &event).await;
    injected(&fixture, &mut ann, &event).await;
    assert_eq!(disposition(&fixture, &event, "ann").await, "claimed");
    for step in 0..8 {
        clock.set(clock.now() + 5 * MINUTE / 2);
        let told = json!({"progressToken": event, "progress": step, "message": "writing"});
        ann.notify("notifications/progress", told).await;
        let status = async || fixture.log().await.iter().filter(|event| event["kind"] == "status").count();
        eventually(status, |count| *count == step + 1).await;
    }
    ann.assert_quiet().await;
    assert_eq!(disposition(&fixture, &event, "ann").await, "claimed");
    ann.done("chat.send_message", answer(&fixture, &event)).await;
    assert_eq!(disposition(&fixture, &event, "ann").await, "responded");
    assert!(escalations(&fixture).await.is_empty());
}

#[tokio::test]
async fn progress_moves_a_deadline_no_further_than_the_longest_task() {
    let (fixture, clock) = ChannelFixture::with_clock().await;
    let path = format!("/api/v1/channels/{}", fixture.channel);
    let request = fixture.hub.request(Method::PATCH, &path, Some(&fixture.anna));
    let changed = Answer::of(request.json(&json!({"longest_task_ms": 10 * MINUTE}))).await;
    assert_eq!(changed.body["longest_task_ms"], 10 * MINUTE, "{}", changed.text);
    let ann = member(&fixture, "ann", &json!({})).await;
    let mut ann = Harness::connect(&fixture.hub, &ann).await;
    let event = fixture.say("@ann please write the report").await;
    ann.delivered().await;
    acked(&fixture, &event).await;
    injected(&fixture, &mut ann, &event).await;
    for _ in 0..3 {
        clock.set(clock.now() + 3 * MINUTE);
        ann.done("chat.claim", json!({"eventId": event, "ttlMs": 300_000})).await;
    }
    clock.set(clock.now() + MINUTE);
    let again = ann.delivered().await;
    assert_eq!((&again["eventId"], &again["reliability"]["attempt"]), (&json!(event), &json!(2)));
}

/// Two agents of one role, and a program of twenty minutes: one execution, one answer.
#[tokio::test]
async fn a_role_does_long_work_once() {
    let (fixture, clock) = ChannelFixture::with_clock().await;
    let ops = json!({"roles": ["ops"]});
    let ann = member(&fixture, "ann", &ops).await;
    let ben = member(&fixture, "ben", &ops).await;
    let mut ann = Harness::connect(&fixture.hub, &ann).await;
    let mut ben = Harness::connect(&fixture.hub, &ben).await;
    let event = fixture.say("@ops please restart node 7").await;
    ann.delivered().await;
    acked(&fixture, &event).await;
    ann.done("chat.claim", json!({"eventId": event, "ttlMs": 300_000})).await;
    injected(&fixture, &mut ann, &event).await;
    for _ in 0..8 {
        clock.set(clock.now() + 5 * MINUTE / 2);
        ann.done("chat.claim", json!({"eventId": event, "ttlMs": 300_000})).await;
    }
    ben.assert_quiet().await;
    assert_eq!(ben.refused("chat.claim", json!({"eventId": event})).await, "claimed_by_other");
    ann.done("chat.send_message", answer(&fixture, &event)).await;
    let said = fixture.log().await.into_iter().filter(|event| event["content"] == "It is done.").count();
    assert_eq!(said, 1);
    clock.set(clock.now() + 20 * MINUTE);
    ben.assert_quiet().await;
    assert!(escalations(&fixture).await.is_empty());
}

/// A failure by C2A is shown in the thread, ends the status, and is told to the author.
#[tokio::test]
async fn a_failure_is_told_to_its_author() {
    let (fixture, _clock) = ChannelFixture::with_clock().await;
    let ann = member(&fixture, "ann", &json!({})).await;
    let asker = member(&fixture, "asker", &json!({})).await;
    let mut ann = Harness::connect(&fixture.hub, &ann).await;
    let event = fixture.say("@ann please write the report").await;
    ann.delivered().await;
    acked(&fixture, &event).await;
    injected(&fixture, &mut ann, &event).await;
    let told = json!({"progressToken": event, "progress": 1, "message": "trying again"});
    ann.notify("notifications/progress", told).await;
    let failed = json!({"eventId": event, "disposition": "failed", "reason": "model overloaded"});
    ann.notify("notifications/disposition", failed).await;
    eventually(async || escalations(&fixture).await.len(), |count| *count == 1).await;
    let log = fixture.log().await;
    let error = log.iter().find(|one| one["kind"] == "error").unwrap();
    assert_eq!((&error["message"], &error["thread"]), (&json!("model overloaded"), &json!(event)));
    let report = &escalations(&fixture).await[0];
    assert_eq!((&report["content"], &report["to"]), (&json!("ann has failed to answer"), &json!(["anna"])));
    let unread = fixture.get("/api/v1/unread").await;
    assert_eq!(unread.body["items"][0]["asked"], true, "{}", unread.text);
    let fleet = fixture.get("/api/v1/fleet").await;
    let shown = fleet.body["items"].as_array().unwrap().iter().find(|one| one["name"] == "ann").unwrap();
    assert_eq!(shown["doing"], Value::Null, "{shown}");

    // An agent is told in its inbox.
    let mut asker = Harness::connect(&fixture.hub, &asker).await;
    let asked = json!({"target": {"conversationId": fixture.channel}, "idempotencyKey": "k", "visibility": "channel",
        "directedness": "to_me", "text": "@ann please count the nodes"});
    let asked = asker.done("chat.send_message", asked).await["eventId"].clone();
    ann.delivered().await;
    ann.notify("notifications/disposition", json!({"eventId": asked, "disposition": "failed"})).await;
    let told = asker.delivered().await;
    assert_eq!((&told["author"]["kind"], &told["inReplyTo"]), (&json!("system"), &asked));
    assert_eq!(told["attention"]["policy"], "may_respond");
}

/// A request that ends unanswered is told to its author, also where nobody else could answer it.
#[tokio::test]
async fn silence_is_told_to_the_author() {
    let (fixture, clock) = ChannelFixture::with_clock().await;
    let ann = member(&fixture, "ann", &json!({})).await;
    let ben = member(&fixture, "ben", &json!({"roles": ["ops"]})).await;
    let mut ann = Harness::connect(&fixture.hub, &ann).await;
    let mut ben = Harness::connect(&fixture.hub, &ben).await;
    let events =
        [fixture.say("@ann is the deploy blocked?").await, fixture.say("@ops is the cache full?").await];
    ann.delivered().await;
    ben.delivered().await;
    for event in &events {
        acked(&fixture, event).await;
    }
    let told = async || {
        clock.set(clock.now() + MINUTE);
        let told = escalations(&fixture).await.into_iter().map(|one| one["content"].clone());
        told.collect::<Vec<_>>()
    };
    let expected = ["ann has not answered in time", "nobody has answered this in time"];
    let told = eventually(told, |told| expected.iter().all(|one| told.contains(&json!(one)))).await;
    assert_eq!(told.len(), 2, "{told:?}");
}

#[tokio::test]
async fn a_call_with_nul_is_answered_to_its_id() {
    let (fixture, _clock) = ChannelFixture::with_clock().await;
    let ann = member(&fixture, "ann", &json!({})).await;
    let mut ann = Harness::connect(&fixture.hub, &ann).await;
    ann.send_text(
        "{\"jsonrpc\": \"2.0\", \"id\": 77, \"method\": \"tools/call\", \"params\": {\"name\": \"chat.react\", \
         \"arguments\": {\"inReplyTo\": \"a\\u0000b\", \"signal\": \"seen\"}}}",
    )
    .await;
    let answer = ann.answer(&json!(77)).await;
    assert_eq!(answer["error"]["code"], -32700, "{answer}");
}
