//! Digests: a lead learns how much happened that it did not receive, without the content.

use super::endpoint::{Endpoint, Says, set};
use super::harness::{Harness, initialize, text};
use super::sessions::member;
use crate::channel_fixture::{ChannelFixture, MINUTE};
use crate::support::{OPERATOR, Setup, eventually};
use chorus_protocol::ids::EventId;
use chorus_protocol::words::Disposition;
use chorus_store::{StoreError, Tx, directory, obligations};
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
    // Bob joined, and there were two messages; those addressed to the lead are not counted.
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

    // Without events there is no digest.
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
    // A harness that shows no digests gets none, and none is lost.
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

/// Adds a lead of Anna, who sees its deliveries, with a harness endpoint.
async fn with_called_lead(setup: &Setup) -> (ChannelFixture, String, Endpoint) {
    let (fixture, endpoint) = (ChannelFixture::on(setup).await, Endpoint::start().await);
    let made = fixture.agent(&json!({"name": "lead"})).await;
    let path = format!("/api/v1/channels/{}/members", fixture.channel);
    let new = json!({"agent": "lead", "handle": "lead", "lead": true});
    assert_eq!(fixture.hub.post(&path, Some(&fixture.anna), &new).await.status, 201);
    let key = made["api_key"].as_str().unwrap().to_owned();
    assert_eq!(set(&fixture.hub, "lead", &key, &endpoint.url).await.status, 200);
    (fixture, key, endpoint)
}

/// Returns the delivery of a digest.
async fn on_its_way(fixture: &ChannelFixture, digest: &str) -> Value {
    let list = fixture.get("/api/v1/deliveries?agent=lead").await;
    let found = list.body["items"].as_array().unwrap().iter().find(|one| one["event_id"] == digest);
    found.unwrap_or_else(|| panic!("{digest}: {}", list.text)).clone()
}

/// Returns the lead's disposition of a digest.
async fn disposition(fixture: &ChannelFixture, digest: &str) -> Option<Disposition> {
    let event = EventId::parse(digest).unwrap();
    let find = move |tx: &mut dyn Tx| {
        let lead = directory::by_name(tx, "lead")?.unwrap();
        obligations::disposition(tx, event, lead.id)
    };
    fixture.hub.store().read::<_, StoreError, _>(find).await.unwrap()
}

/// The pusher retries a failed digest, and there is no second one while it waits.
async fn is_posted(clock: &ManualClock, setup: &Setup) {
    let (fixture, _, endpoint) = with_called_lead(setup).await;
    endpoint.say(Says::Status(503));
    let said = fixture.say("the first table is moved").await;
    clock.advance(EVERY);
    let first = endpoint.delivered(1).await.remove(0);
    assert_eq!(
        (&first["injection"]["mode"], &first["conversation"]["kind"], &first["reliability"]["attempt"]),
        (&json!("digest"), &json!("system"), &json!(1)),
        "{first}"
    );
    assert!(text(&first).starts_with("1 message in this channel (1 by people)"), "{first}");
    assert!(text(&first).contains(&said) && !text(&first).contains("table"), "{first}");
    let digest = first["eventId"].as_str().unwrap();
    fixture.say("the second too").await;
    fixture.recorded(clock).await;
    endpoint.say(Says::Accepted);
    // It is retried, and later events are reported only after it has arrived.
    clock.advance(EVERY);
    let all = endpoint.delivered(3).await;
    assert_eq!((&all[1]["eventId"], &all[1]["reliability"]["attempt"]), (&json!(digest), &json!(2)));
    assert_eq!(all[1]["reliability"]["idempotencyKey"], first["reliability"]["idempotencyKey"]);
    assert_ne!(all[2]["eventId"], json!(digest));
    assert!(text(&all[2]).starts_with("1 message in this channel (1 by people)"), "{}", all[2]);
    assert!(!text(&all[2]).contains(&said), "nothing is told twice: {}", all[2]);
    for digest in [&all[1], &all[2]].map(|one| one["eventId"].as_str().unwrap()) {
        let ended = async || on_its_way(&fixture, digest).await;
        let ended = eventually(ended, |one| one["state"] == "delivered").await;
        assert_eq!((&ended["kind"], &ended["transport"]), (&json!("digest"), &json!("harness")), "{ended}");
        let made = async || disposition(&fixture, digest).await;
        eventually(made, |made| *made == Some(Disposition::Ignored)).await;
    }
    // Without events there is no digest.
    clock.advance(EVERY);
    fixture.hub.background_round().await;
    endpoint.delivered(3).await;
}

#[tokio::test]
async fn a_harness_of_its_own_is_posted_digests() {
    let clock = ManualClock::new(crate::channel_fixture::BEGIN);
    is_posted(&clock, &Setup::new().clock(&clock)).await;
}

#[tokio::test]
async fn a_harness_of_its_own_is_posted_digests_on_postgres() {
    let clock = ManualClock::new(crate::channel_fixture::BEGIN);
    is_posted(&clock, &Setup::postgres().clock(&clock)).await;
}

/// A former lead does not get a waiting digest. An open session takes precedence over the harness.
#[tokio::test]
async fn a_digest_that_waits_is_not_told_to_who_leads_no_more() {
    let clock = ManualClock::new(crate::channel_fixture::BEGIN);
    let (fixture, key, endpoint) = with_called_lead(&Setup::new().clock(&clock)).await;
    endpoint.say(Says::Status(503));
    fixture.say("one").await;
    clock.advance(EVERY);
    let digest = endpoint.delivered(1).await.remove(0)["eventId"].as_str().unwrap().to_owned();
    fixture.recorded(&clock).await;
    endpoint.say(Says::Accepted);
    let member = format!("/api/v1/channels/{}/members/lead", fixture.channel);
    let changed = fixture.hub.ask("PATCH", &member, Some(&fixture.anna), &json!({"lead": false})).await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    clock.advance(EVERY);
    let shown = async || on_its_way(&fixture, &digest).await;
    eventually(shown, |one| one["state"] == "dead").await;
    endpoint.delivered(1).await;

    let changed = fixture.hub.ask("PATCH", &member, Some(&fixture.anna), &json!({"lead": true})).await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    let mut lead = Harness::connect(&fixture.hub, &key).await;
    fixture.say("two").await;
    clock.set(clock.now() + EVERY);
    assert!(text(&lead.delivered().await).starts_with("1 message in this channel"), "by the session");
    endpoint.delivered(1).await;
}

/// The operator's metrics count digests and saved turns.
#[tokio::test]
async fn digests_and_turns_saved_are_counted() {
    let clock = ManualClock::new(crate::channel_fixture::BEGIN);
    let (fixture, key) = with_lead(&Setup::new().clock(&clock)).await;
    member(&fixture, "bob", &json!({})).await;
    let figures = async || {
        let text = fixture.hub.get("/metrics", Some(OPERATOR)).await.text;
        ["chorus_model_turns_saved_total ", "chorus_digested_total "].map(|name| {
            text.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse::<u64>().unwrap()
        })
    };
    assert_eq!(figures().await, [0, 0]);
    // One of the two is woken; thanks are addressed to it and wake nobody.
    let asked = fixture.say("@bob is the second table moved?").await;
    let path = format!("/api/v1/channels/{}/messages", fixture.channel);
    let thanks = json!({"content": "thanks", "reply_to": asked, "to": ["bob"]});
    let said = fixture.hub.post(&path, Some(&fixture.anna), &thanks).await;
    assert_eq!((said.status, &said.body["attention"]["woken"]), (201, &json!([])), "{}", said.text);
    // The lead, who sees both channels, got neither.
    eventually(figures, |figures| *figures == [3, 0]).await;
    let mut lead = Harness::connect(&fixture.hub, &key).await;
    clock.set(clock.now() + EVERY);
    lead.delivered().await;
    // Bob joined, and there were two messages.
    eventually(figures, |figures| *figures == [3, 3]).await;
    clock.set(clock.now() + EVERY);
    lead.assert_quiet().await;
    assert_eq!(figures().await, [3, 3]);
}
