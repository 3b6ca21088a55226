//! Deliveries with complications: queueing, choice of transport, failure, and replay.

use crate::channel_fixture::{BEGIN, ChannelFixture, HOUR, MINUTE, contents};
use crate::support::{Answer, SOON, Setup, eventually};
use chorus_app::attention;
use chorus_hub::Mail;
use chorus_hub::quotas::OFF;
use chorus_protocol::code::Code;
use chorus_protocol::ids::{DeliveryId, EventId};
use chorus_protocol::redact::Masked;
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::EntryKind;
use chorus_store::attention as store_attention;
use chorus_store::conversation::{self, Act, ConversationError, Post};
use chorus_store::deliveries::Bringing;
use chorus_store::{Tx, conversations};
use chorus_testkit::clock::ManualClock;
use chorus_testkit::receiver::{FakeAgent, Reply};
use reqwest::Method;
use serde_json::{Value, json};
use std::fs;

/// So many receivers hang that they could occupy all attempts of a node.
#[tokio::test]
async fn receivers_that_hang_hold_up_nobody() {
    // The limit per host is off, as if each receiver had its own host.
    let setup = Setup::new().config(|config| config.quotas.webhooks_host = OFF);
    let (fixture, hangs, timber) =
        (ChannelFixture::on(&setup).await, FakeAgent::start().await, FakeAgent::start().await);
    hangs.set(Reply::Hang);
    let mut channels = vec![fixture.channel.clone()];
    for n in 0..3 {
        channels.push(fixture.another_channel(&format!("room-{n}")).await);
    }
    let mut everybody = vec![];
    for n in 0..17 {
        let name = format!("hangs-{n}");
        fixture.agent(&json!({"name": name, "endpoint": hangs.url()})).await;
        for channel in &channels {
            fixture.join(channel, &name).await;
        }
        everybody.push(format!("@{name}"));
    }
    fixture.connected("timber", &timber).await;
    for channel in &channels {
        fixture.say_in(channel, &everybody.join(" ")).await;
    }
    hangs.wait_for(17 * 4, SOON).await;
    fixture.delivery_is(&fixture.say("@timber hello").await, "delivered").await;
}

/// A former member gets nothing more, neither waiting nor replayed deliveries.
#[tokio::test]
async fn a_member_that_left_gets_nothing_more() {
    let ((fixture, clock), timber) = (ChannelFixture::with_clock().await, FakeAgent::start().await);
    fixture.connected("timber", &timber).await;
    timber.set(Reply::Json(503, json!({})));
    let event = fixture.say("@timber hello").await;
    timber.wait_for(1, SOON).await;
    fixture.recorded(&clock).await;
    timber.set(Reply::Json(200, json!({})));
    let member = format!("/api/v1/channels/{}/members/timber", fixture.channel);
    assert!(fixture.hub.delete(&member, Some(&fixture.anna)).await.status < 300);
    clock.advance(MINUTE);
    let failed = fixture.delivery_is(&event, "dead").await;
    let why = "the agent is not a member of the conversation any more";
    assert_eq!((&failed["rungs"][1]["reason"], &failed["state"]), (&json!(why), &json!("dead")));
    // The id of a delivery does not reveal how many others its agent has.
    assert!(!failed["id"].as_str().unwrap().ends_with("_1"), "{failed}");
    let replay = format!("/api/v1/deliveries/{}/replay", failed["id"].as_str().unwrap());
    assert_eq!(fixture.hub.post(&replay, Some(&fixture.anna), &json!({})).await.status, 202);
    fixture.delivery_is(&event, "dead").await;
    assert_eq!(timber.requests().len(), 1);
}

/// A cancelled delivery does not arrive by another transport either.
#[tokio::test]
async fn an_inbox_gets_nothing_of_what_is_over() {
    let ((fixture, clock), timber) = (ChannelFixture::with_clock().await, FakeAgent::start().await);
    let key = fixture.connected("timber", &timber).await["api_key"].as_str().unwrap().to_owned();
    let other = fixture.another_channel("other").await;
    fixture.join(&other, "timber").await;
    timber.set(Reply::Json(503, json!({})));
    let first = fixture.say("@timber first").await;
    let (deleted, last) = (fixture.say("@timber oops").await, fixture.say("@timber last").await);
    let left = fixture.say_in(&other, "@timber elsewhere").await;
    timber.wait_for(2, SOON).await;
    fixture.recorded(&clock).await;
    let message = format!("/api/v1/channels/{}/messages/{deleted}", fixture.channel);
    assert!(fixture.hub.delete(&message, Some(&fixture.anna)).await.status < 300);
    let member = format!("/api/v1/channels/{other}/members/timber");
    assert!(fixture.hub.delete(&member, Some(&fixture.anna)).await.status < 300);
    let mut inbox = fixture.hub.inbox(&key, None).await;
    clock.advance(MINUTE);
    for event in [&first, &last] {
        assert_eq!(inbox.event("chat").await["event"]["event_id"], **event);
        fixture.delivery_is(event, "delivered_sse").await;
    }
    for event in [&deleted, &left] {
        fixture.delivery_is(event, "dead").await;
    }
    inbox.assert_quiet().await;
    assert_eq!(timber.requests().len(), 2);
}

#[tokio::test]
async fn a_message_that_was_deleted_is_not_posted() {
    let ((fixture, clock), timber) = (ChannelFixture::with_clock().await, FakeAgent::start().await);
    fixture.connected("timber", &timber).await;
    timber.set(Reply::Json(503, json!({})));
    let (event, next) = (fixture.say("@timber oops").await, fixture.say("@timber hello").await);
    timber.wait_for(1, SOON).await;
    fixture.recorded(&clock).await;
    timber.set(Reply::Json(200, json!({})));
    let message = format!("/api/v1/channels/{}/messages/{event}", fixture.channel);
    assert!(fixture.hub.delete(&message, Some(&fixture.anna)).await.status < 300);
    clock.advance(MINUTE);
    let failed = fixture.delivery_is(&event, "dead").await;
    assert_eq!(failed["rungs"][1]["reason"], "the message was deleted");
    fixture.delivery_is(&next, "delivered").await;
    assert_eq!(contents(&timber.requests()), ["@timber oops", "@timber hello"]);
}

/// Edits a message and records the delivery of the edit, as to a harness that has disconnected since.
async fn deliver_edit(fixture: &ChannelFixture, message: &str, content: &'static str, id: u128) -> String {
    let (message, event) = (EventId::parse(message).unwrap(), EventId(uuid::Uuid::from_u128(id)));
    let edit = move |tx: &mut dyn Tx| {
        let said = conversations::event_by_id(tx, message)?.unwrap();
        let (conversation, author, trace, now) =
            (said.conversation, said.author, said.trace, said.created_at);
        let act = Act { conversation, author, event, trace, now };
        let new = Post::new(Masked::new(serde_json::Map::from_iter([("content".into(), content.into())])));
        let draft = conversation::draft_edit(tx, &act, message, &new)?;
        let agent = draft.candidates.first().unwrap().agent;
        store_attention::post(tx, &draft, &[])?;
        let id = DeliveryId { agent, seq: tx.next_seq(agent.into())? };
        let bringing = Bringing { supersedes: Some(message), ..Bringing::FIRST };
        conversation::deliver(tx, &act, id, EntryKind::Chat, attention::FOREIGN, bringing)?;
        Ok(())
    };
    fixture.hub.store().write::<_, ConversationError, _>(edit).await.unwrap();
    event.to_string()
}

/// The Channel Protocol knows only messages; an inbox marks the entry as an edit.
#[tokio::test]
async fn a_change_is_no_new_message() {
    let ((fixture, _), timber) = (ChannelFixture::with_clock().await, FakeAgent::start().await);
    let key = fixture.connected("timber", &timber).await["api_key"].as_str().unwrap().to_owned();
    let first = fixture.say("@timber first").await;
    fixture.delivery_is(&first, "delivered").await;
    let edit = deliver_edit(&fixture, &first, "@timber changed", 1).await;
    let next = fixture.say("@timber next").await;
    let failed = fixture.delivery_is(&edit, "dead").await;
    assert_eq!(failed["rungs"][1]["reason"], "a connection string takes messages only");
    fixture.delivery_is(&next, "delivered").await;
    assert_eq!(contents(&timber.requests()), ["@timber first", "@timber next"]);

    let mut inbox = fixture.hub.inbox(&key, None).await;
    let edit = deliver_edit(&fixture, &next, "@timber again", 2).await;
    let chat = inbox.event("chat").await;
    assert_eq!((&chat["event"]["event_id"], &chat["event"]["kind"]), (&json!(edit), &json!("edit")));
    assert_eq!(
        (&chat["event"]["target"], &chat["event"]["content"]),
        (&json!(next), &json!("@timber again"))
    );
}

/// A delivery that died behind a broken connection gives that reason.
#[tokio::test]
async fn what_dies_untried_says_why() {
    let ((fixture, clock), timber) = (ChannelFixture::with_clock().await, FakeAgent::start().await);
    fixture.connected("timber", &timber).await;
    timber.set(Reply::Json(410, json!({})));
    let first = fixture.say("@timber 1").await;
    let seen = async || fixture.get("/api/v1/agents/timber").await.body["connection"]["state"].clone();
    eventually(seen, |state| state == "broken").await;
    clock.advance(MINUTE);
    let other = fixture.another_channel("other").await;
    fixture.join(&other, "timber").await;
    let second = fixture.say_in(&other, "@timber 2").await;
    clock.advance(25 * HOUR);
    let why = format!("the connection was broken since {}: receiver answered HTTP 410", rfc3339(BEGIN));
    for (event, tries) in [(first, 1), (second, 0)] {
        let dead = fixture.delivery_is(&event, "dead").await;
        assert_eq!(dead["rungs"][1]["reason"], why, "{dead}");
        assert_eq!(dead["attempts"].as_array().unwrap().len(), tries);
    }
}

/// A delivery that died without any transport gives that reason.
#[tokio::test]
async fn what_dies_without_a_way_says_so() {
    let ((fixture, clock), timber) = (ChannelFixture::with_clock().await, FakeAgent::start().await);
    fixture.connected("timber", &timber).await;
    timber.set(Reply::Json(503, json!({})));
    let (first, second) = (fixture.say("@timber 1").await, fixture.say("@timber 2").await);
    timber.wait_for(1, SOON).await;
    fixture.recorded(&clock).await;
    assert_eq!(fixture.hub.delete("/api/v1/agents/timber/connection", Some(&fixture.anna)).await.status, 200);
    clock.advance(25 * HOUR);
    let first = fixture.delivery_is(&first, "dead").await;
    assert_eq!(first["rungs"][1]["reason"], "receiver answered HTTP 503", "what it ran into");
    let second = fixture.delivery_is(&second, "dead").await;
    assert_eq!(
        second["rungs"][1]["reason"],
        "the agent has no harness, no endpoint and no connection string"
    );
}

/// The owner is told once for each break, without the secret.
#[tokio::test]
async fn an_owner_is_told_that_the_connection_broke() {
    let (clock, mails, timber) =
        (ManualClock::new(BEGIN), tempfile::tempdir().unwrap(), FakeAgent::start().await);
    let setup = Setup::new().clock(&clock).config(|config| config.mail = Mail::Folder(mails.path().into()));
    let fixture = ChannelFixture::on(&setup).await;
    fixture.connected("timber", &timber).await;
    let other = fixture.another_channel("other").await;
    fixture.join(&other, "timber").await;
    timber.set(Reply::Json(404, json!({})));
    let letters = || {
        let files = fs::read_dir(mails.path()).unwrap().map(|file| file.unwrap().path());
        let whole = files.filter(|path| path.extension().is_some_and(|extension| extension == "eml"));
        whole.map(|path| fs::read_to_string(path).unwrap()).collect::<Vec<_>>()
    };
    fixture.say("@timber 1").await;
    fixture.say_in(&other, "@timber 2").await;
    let told = eventually(async || letters(), |letters| !letters.is_empty()).await;
    let letter = told[0].replace("=\r\n", "");
    assert!(letter.contains("To: anna@example.org") && letter.contains("timber@"), "{letter}");
    assert!(letter.contains("receiver answered HTTP 404") && !letter.contains("sk_secret"), "{letter}");
    fixture.say("@timber 3").await;
    clock.advance(HOUR);
    fixture.hub.background_round().await;
    assert_eq!(letters().len(), 1, "once");
    let breaks_again = async || {
        // An attempt still in progress would break the connection before anything new is tried.
        fixture.recorded(&clock).await;
        let before = timber.requests().len();
        let mend = "/api/v1/agents/timber/connection/mend";
        assert_eq!(fixture.hub.post(mend, Some(&fixture.anna), &json!({})).await.status, 200);
        timber.wait_for(before + 1, SOON).await;
        let seen = async || fixture.get("/api/v1/agents/timber").await.body["connection"]["state"].clone();
        eventually(seen, |state| state == "broken").await;
    };
    breaks_again().await;
    eventually(async || letters().len(), |letters| *letters == 2).await;
    breaks_again().await;
    fixture.hub.background_round().await;
    assert_eq!(letters().len(), 2, "not again so soon");
}

/// The query selects the deliveries to replay; a body with content would replay too much and is refused.
#[tokio::test]
async fn replay_is_filtered_by_the_query() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    fixture.connected("timber", &timber).await;
    timber.set(Reply::Json(400, json!({})));
    let event = fixture.say("@timber hello").await;
    fixture.delivery_is(&event, "dead").await;
    timber.set(Reply::Json(200, json!({})));
    let replay = async |query: &str, body: Option<&Value>| {
        let path = format!("/api/v1/deliveries/replay?{query}");
        match body {
            Some(body) => fixture.hub.post(&path, Some(&fixture.anna), body).await,
            None => Answer::of(fixture.hub.request(Method::POST, &path, Some(&fixture.anna))).await,
        }
    };
    assert_eq!(replay("state=failed", None).await.body["replayed"], 0);
    assert_eq!(replay("state=failed", Some(&json!({}))).await.body["replayed"], 0);
    replay("", Some(&json!({"state": "dead"}))).await.own_failure(Code::Validation);
    replay("state=waiting", None).await.own_failure(Code::Validation);
    replay("since=yesterday", None).await.own_failure(Code::Validation);
    assert_eq!(fixture.delivery(&event).await["state"], "dead");
    let done = replay("agent=timber&state=dead", None).await;
    assert_eq!((done.status, &done.body), (202, &json!({"replayed": 1, "more": false})));
    fixture.delivery_is(&event, "delivered").await;
    assert_eq!(replay("", None).await.body["replayed"], 0, "nothing is left");
}

/// The ladder agrees with the dry run.
#[tokio::test]
async fn what_was_decided_is_shown_on_the_ladder() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    fixture.connected("timber", &timber).await;
    let path = format!("/api/v1/channels/{}/messages?dry_run=true", fixture.channel);
    let preview = fixture.hub.post(&path, Some(&fixture.anna), &json!({"content": "@timber hello"})).await;
    let preview = &preview.body["attention"][0];
    let delivery = fixture.delivery(&fixture.say("@timber hello").await).await;
    for name in ["directedness", "policy", "mode", "reason"] {
        assert!(preview[name].is_string(), "{preview}");
        assert_eq!(delivery[name], preview[name], "{name}");
    }
}

/// A delivery whose transport was removed uses another one.
#[tokio::test]
async fn what_waits_takes_the_way_there_is() {
    let ((fixture, clock), timber) = (ChannelFixture::with_clock().await, FakeAgent::start().await);
    let key = fixture.connected("timber", &timber).await["api_key"].as_str().unwrap().to_owned();
    timber.set(Reply::Json(503, json!({})));
    let event = fixture.say("@timber hello").await;
    timber.wait_for(1, SOON).await;
    fixture.recorded(&clock).await;
    assert_eq!(fixture.hub.delete("/api/v1/agents/timber/connection", Some(&fixture.anna)).await.status, 200);
    clock.advance(MINUTE);
    fixture.hub.background_round().await;
    assert_eq!(fixture.delivery(&event).await["state"], "waiting", "there is none");
    let mut inbox = fixture.hub.inbox(&key, None).await;
    fixture.say("@timber are you there?").await;
    let chat = inbox.event("chat").await;
    assert_eq!(chat["event"]["event_id"], event);
    assert_eq!(inbox.event("chat").await["event"]["content"], "@timber are you there?");
    assert_eq!(fixture.delivery_is(&event, "delivered_sse").await["transport"], "inbox");
    let answer = json!({"type": "message", "content": "hi"});
    assert_eq!(fixture.call_back(&chat["callback"], &answer).await.status, 200);
    assert_eq!(timber.requests().len(), 1);
}

/// An endpoint set while the connection string is broken gets the waiting deliveries.
#[tokio::test]
async fn another_way_is_found_without_a_hint() {
    let (fixture, timber, hook) =
        (ChannelFixture::start().await, FakeAgent::start().await, FakeAgent::start().await);
    let key = fixture.connected("timber", &timber).await["api_key"].as_str().unwrap().to_owned();
    timber.set(Reply::Json(404, json!({})));
    let event = fixture.say("@timber hello").await;
    let seen = async || fixture.get("/api/v1/agents/timber").await.body["connection"]["state"].clone();
    eventually(seen, |state| state == "broken").await;
    let body = json!({"agent_id": "timber", "endpoint": hook.url()});
    let registered = fixture.hub.post("/register", Some(&key), &body).await;
    assert_eq!(registered.status, 200, "{}", registered.text);
    let ChannelFixture { hub, anna, channel } = fixture;
    let fixture = ChannelFixture { hub: hub.restart(|_| {}).await, anna, channel };
    let got = hook.wait_for(1, SOON).await;
    assert_eq!(got[0].body["event"]["event_id"], event);
    assert_eq!(fixture.delivery_is(&event, "delivered").await["transport"], "webhook");
}
