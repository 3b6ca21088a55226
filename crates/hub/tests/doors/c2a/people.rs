//! Claims of people: agents respect them, and they end with an answer or by time.

use super::harness::Harness;
use super::sessions::member;
use super::time::acked;
use crate::channel_fixture::{BEGIN, ChannelFixture, MINUTE};
use crate::support::{Setup, eventually};
use chorus_testkit::clock::ManualClock;
use serde_json::{Value, json};

/// Returns a channel of anna with ada and bob on duty, both connected.
async fn on_duty(setup: &Setup) -> (ChannelFixture, Harness, Harness) {
    let fixture = ChannelFixture::on(setup).await;
    let ada = member(&fixture, "ada", &json!({"roles": ["ops"]})).await;
    let bob = member(&fixture, "bob", &json!({"roles": ["ops"]})).await;
    let ada = Harness::connect(&fixture.hub, &ada).await;
    let bob = Harness::connect(&fixture.hub, &bob).await;
    (fixture, ada, bob)
}

/// Sends a signal of Anna about a message. Returns the status and the body.
async fn signal(fixture: &ChannelFixture, event: &str, reaction: &Value) -> (u16, Value) {
    let path = format!("/api/v1/channels/{}/messages/{event}/reactions", fixture.channel);
    let answer = fixture.hub.post(&path, Some(&fixture.anna), reaction).await;
    (answer.status, answer.body)
}

async fn takes_on(fixture: &ChannelFixture, event: &str) {
    let (status, body) = signal(fixture, event, &json!({"signal": "claimed"})).await;
    assert!(status < 300, "{body}");
}

/// Returns the holders and the outcomes of their claims.
async fn claims(fixture: &ChannelFixture, event: &str) -> Vec<(String, String)> {
    let ladder = fixture.get(&format!("/api/v1/events/{event}")).await;
    let text = |one: &Value, name: &str| one[name].as_str().unwrap().to_owned();
    let claims = ladder.body["claims"].as_array().unwrap();
    claims.iter().map(|one| (text(one, "holder"), text(one, "state"))).collect()
}

fn pair(holder: &str, state: &str) -> (String, String) {
    (holder.to_owned(), state.to_owned())
}

async fn no_agent_is_asked_meanwhile(setup: Setup) {
    let clock = ManualClock::new(BEGIN);
    let (fixture, mut ada, mut bob) = on_duty(&setup.clock(&clock)).await;
    let event = fixture.say("@ops please restart the cache").await;
    assert_eq!(ada.delivered().await["eventId"], json!(event));
    takes_on(&fixture, &event).await;
    assert_eq!(ada.refused("chat.claim", json!({"eventId": event})).await, "claimed_by_other");
    let page = fixture.get(&format!("/c/{}", fixture.channel)).await.text;
    assert!(page.contains("anna holds this") && page.contains("data-held"), "{page}");
    assert!(page.contains("Knocked <strong>ada</strong>") && page.contains("No text was shown"), "{page}");
    // The offer to ada has ended, and bob is not asked.
    clock.set(clock.now() + MINUTE);
    bob.assert_quiet().await;
    // Her answer ends it: nobody is asked any more.
    let path = format!("/api/v1/channels/{}/messages", fixture.channel);
    let reply = json!({"content": "restarted it myself", "thread": event});
    assert_eq!(fixture.hub.post(&path, Some(&fixture.anna), &reply).await.status, 201);
    assert_eq!(claims(&fixture, &event).await, [pair("anna", "resolved")]);
    let page = fixture.get(&format!("/c/{}", fixture.channel)).await.text;
    assert!(!page.contains("anna holds this"), "{page}");
    bob.assert_quiet().await;
}

#[tokio::test]
async fn no_agent_is_asked_while_a_person_has_it() {
    no_agent_is_asked_meanwhile(Setup::new()).await;
}

#[tokio::test]
async fn the_same_on_postgres() {
    no_agent_is_asked_meanwhile(Setup::postgres()).await;
}

#[tokio::test]
async fn what_a_person_gives_back_or_lets_run_out_is_offered_again() {
    let clock = ManualClock::new(BEGIN);
    let (fixture, mut ada, _bob) = on_duty(&Setup::new().clock(&clock)).await;
    let event = fixture.say("@ops please restart the cache").await;
    ada.delivered().await;
    acked(&fixture, &event).await;
    takes_on(&fixture, &event).await;
    let (status, body) = signal(&fixture, &event, &json!({"signal": "claimed", "removed": true})).await;
    assert!(status < 300, "{body}");
    assert_eq!(claims(&fixture, &event).await, [pair("anna", "released")]);
    assert_eq!(ada.delivered().await["eventId"], json!(event), "it is ada's turn again");
    acked(&fixture, &event).await;
    clock.set(clock.now() + 1);
    takes_on(&fixture, &event).await;
    clock.set(clock.now() + 5 * MINUTE);
    let is_over = |claims: &Vec<(String, String)>| claims.last() == Some(&pair("anna", "expired"));
    eventually(async || claims(&fixture, &event).await, is_over).await;
    // After an expiry the same signal claims it again.
    takes_on(&fixture, &event).await;
    assert_eq!(claims(&fixture, &event).await.last(), Some(&pair("anna", "held")));
    // A person cannot take a claim from an agent.
    let other = fixture.say("somebody should look at the queue").await;
    ada.done("chat.claim", json!({"eventId": other})).await;
    let (status, body) = signal(&fixture, &other, &json!({"signal": "claimed"})).await;
    assert_eq!((status, &body["error"]["details"]["holder"]), (403, &json!("ada")), "{body}");
}

#[tokio::test]
async fn who_was_asked_is_not_reminded_while_a_person_has_it() {
    let clock = ManualClock::new(BEGIN);
    let (fixture, mut ada, _bob) = on_duty(&Setup::new().clock(&clock)).await;
    let event = fixture.say("@ada is the deploy blocked?").await;
    ada.delivered().await;
    acked(&fixture, &event).await;
    clock.set(clock.now() + 4 * MINUTE);
    takes_on(&fixture, &event).await;
    clock.set(clock.now() + MINUTE);
    ada.assert_quiet().await;
    // The claim has expired, so ada is reminded.
    clock.set(clock.now() + 5 * MINUTE);
    let again = ada.delivered().await;
    assert_eq!((&again["eventId"], &again["reliability"]["attempt"]), (&json!(event), &json!(2)));
}
