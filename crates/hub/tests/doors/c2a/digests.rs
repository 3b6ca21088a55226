//! Digests: who leads is told how much happened that it was not given, and not what.

use super::harness::{Harness, initialize, text};
use super::sessions::member;
use crate::channel_fixture::{ChannelFixture, MINUTE};
use crate::support::Setup;
use chorus_testkit::clock::ManualClock;
use serde_json::{Value, json};

const EVERY: i64 = 15 * MINUTE;

async fn with_lead(setup: &Setup) -> (ChannelFixture, String) {
    let fixture = ChannelFixture::on(setup).await;
    let lead = member(&fixture, "lead", &json!({"lead": true})).await;
    (fixture, lead)
}

async fn is_told(clock: &ManualClock, setup: &Setup) {
    let (fixture, key) = with_lead(setup).await;
    let bob = member(&fixture, "bob", &json!({})).await;
    let mut lead = Harness::connect(&fixture.hub, &key).await;
    let asked = fixture.say("@lead is the deploy blocked?").await;
    assert_eq!(lead.delivered().await["eventId"], json!(asked));
    lead.done("chat.react", json!({"inReplyTo": asked, "signal": "done"})).await;
    let first = fixture.say("the first table is moved").await;
    let path = format!("/api/v1/channels/{}/messages", fixture.channel);
    let said =
        fixture.hub.post(&path, Some(&bob), &json!({"content": "12 of 40", "intent": "progress"})).await;
    let second = said.body["event_id"].clone();
    lead.assert_quiet().await;

    clock.set(clock.now() + EVERY);
    let digest = lead.delivered().await;
    assert_eq!(
        (&digest["injection"]["mode"], &digest["attention"]["policy"], &digest["attention"]["reason"]),
        (&json!("digest"), &json!("must_not_respond"), &json!("digest")),
        "{digest}"
    );
    assert_eq!(
        (&digest["conversation"]["kind"], &digest["conversation"]["id"], &digest["author"]["kind"]),
        (&json!("system"), &json!(fixture.channel), &json!("system"))
    );
    let told = text(&digest);
    // Bob came, and two things were said; what it was asked itself it was given.
    assert!(told.starts_with("2 messages, 1 join in this channel (1 by agents, 2 by people)"), "{told}");
    assert!(
        told.contains(&first) && told.contains(second.as_str().unwrap()) && !told.contains(&asked),
        "{told}"
    );
    assert!(!told.contains("table") && !told.contains("12 of 40"), "nothing that was said: {told}");
    let after = told.lines().find_map(|line| line.split_once("after: ")).unwrap().1;
    let read = json!({"conversationId": fixture.channel, "after": after});
    let page = lead.done("chat.list_events", read).await;
    assert!(page["events"].as_array().unwrap().iter().any(|one| one["eventId"] == json!(first)), "{page}");

    // Nothing happens, and nothing is told.
    clock.set(clock.now() + EVERY);
    lead.assert_quiet().await;
}

#[tokio::test]
async fn who_leads_is_told_how_much_happened_and_not_what() {
    let clock = ManualClock::new(crate::channel_fixture::BEGIN);
    is_told(&clock, &Setup::new().clock(&clock)).await;
}

#[tokio::test]
async fn who_leads_is_told_how_much_happened_on_postgres() {
    let clock = ManualClock::new(crate::channel_fixture::BEGIN);
    is_told(&clock, &Setup::postgres().clock(&clock)).await;
}

#[tokio::test]
async fn what_happens_while_it_is_away_is_told_when_it_comes_back() {
    let clock = ManualClock::new(crate::channel_fixture::BEGIN);
    let (fixture, key) = with_lead(&Setup::new().clock(&clock)).await;
    for n in 0..3 {
        fixture.say(&format!("number {n}")).await;
        clock.set(clock.now() + EVERY);
    }
    // A harness that shows no digests is sent none, and they are not lost by it.
    let mut without = initialize();
    without["params"]["capabilities"]["injection"]["digest"] = Value::Bool(false);
    let mut lead = Harness::with(&fixture.hub, &key, &without).await;
    clock.set(clock.now() + MINUTE);
    lead.assert_quiet().await;
    let mut lead = Harness::connect(&fixture.hub, &key).await;
    clock.set(clock.now() + MINUTE);
    let digest = lead.delivered().await;
    assert!(text(&digest).starts_with("3 messages in this channel (3 by people)"), "{digest}");
}

#[tokio::test]
async fn a_work_stream_is_told_of_to_its_lead_and_not_once_more_with_its_channel() {
    let clock = ManualClock::new(crate::channel_fixture::BEGIN);
    let (fixture, key) = with_lead(&Setup::new().clock(&clock)).await;
    let other = fixture.another_channel("other").await;
    fixture.join(&other, "lead").await;
    let stream = json!({"name": "work", "conversations": [fixture.channel, other], "owners": ["anna"],
        "participants": ["lead"], "lead": "lead"});
    let made = fixture.hub.post("/api/v1/streams", Some(&fixture.anna), &stream).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let mut lead = Harness::connect(&fixture.hub, &key).await;
    fixture.say("here").await;
    fixture.say_in(&other, "and there").await;
    clock.set(clock.now() + EVERY);
    let digest = lead.delivered().await;
    assert_eq!(digest["conversation"]["streamId"], made.body["id"], "{digest}");
    assert!(text(&digest).starts_with("2 messages in this work stream (2 by people)"), "{digest}");
    lead.assert_quiet().await;
}
