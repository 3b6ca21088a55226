//! Edits: agents that the new text names are woken as by a new message, and no more often.

use super::harness::{Harness, text};
use super::sessions::member;
use crate::channel_fixture::{BEGIN, ChannelFixture};
use crate::support::{SOON, Setup};
use chorus_protocol::code::Code;
use chorus_testkit::clock::ManualClock;
use chorus_testkit::receiver::FakeAgent;
use serde_json::{Value, json};

/// Posts a message. Returns its path and its event.
async fn said(fixture: &ChannelFixture, key: &str, content: &str) -> (String, String) {
    let messages = format!("/api/v1/channels/{}/messages", fixture.channel);
    let said = fixture.hub.post(&messages, Some(key), &json!({"content": content})).await;
    assert_eq!(said.status, 201, "{}", said.text);
    let event = said.body["event_id"].as_str().unwrap().to_owned();
    (format!("{messages}/{event}"), event)
}

/// Returns the recipients of an event.
async fn went_to(fixture: &ChannelFixture, event: &str) -> Vec<Value> {
    let ladder = fixture.get(&format!("/api/v1/events/{event}")).await;
    let deliveries = ladder.body["deliveries"].as_array().unwrap();
    deliveries.iter().map(|one| one["recipient"]["handle"].clone()).collect()
}

#[tokio::test]
async fn a_mention_that_is_added_wakes_by_every_door() {
    for setup in [Setup::new(), Setup::postgres()] {
        let fixture = ChannelFixture::on(&setup).await;
        let posted = FakeAgent::start().await;
        fixture.connected("posted", &posted).await;
        let inbox = member(&fixture, "streamed", &json!({})).await;
        let key = member(&fixture, "lead", &json!({})).await;
        let bystander = member(&fixture, "bystander", &json!({})).await;
        let mut inbox = fixture.hub.inbox(&inbox, None).await;
        let mut lead = Harness::connect(&fixture.hub, &key).await;
        let mut bystander = Harness::connect(&fixture.hub, &bystander).await;
        let (path, event) = said(&fixture, &fixture.anna, "hello").await;
        assert_eq!(went_to(&fixture, &event).await, [] as [Value; 0]);

        let content = "@lead @streamed @posted please answer?";
        let edit = async |content: &str| {
            let edited =
                fixture.hub.ask("PATCH", &path, Some(&fixture.anna), &json!({"content": content})).await;
            assert_eq!(edited.status, 200, "{}", edited.text);
            edited.body["event_id"].clone()
        };
        edit(content).await;
        let params = lead.delivered().await;
        assert_eq!((&params["eventId"], text(&params)), (&json!(event), content));
        assert_eq!(
            (&params["attention"]["policy"], &params["attention"]["reason"]),
            (&json!("must_respond"), &json!("direct_mention"))
        );
        assert_eq!(params.get("supersedes"), None);
        assert_eq!(inbox.event("chat").await["event"]["content"], content);
        assert_eq!(posted.wait_for(1, SOON).await[0].body["message"]["content"], content);
        assert_eq!(went_to(&fixture, &event).await.len(), 3);
        let listed = lead.done("chat.list_events", json!({"conversationId": fixture.channel})).await;
        let found = listed["events"].as_array().unwrap().iter().find(|one| one["eventId"] == event.as_str());
        assert_eq!(found.unwrap()["attention"]["policy"], "must_respond", "{listed}");

        // An agent that has the message gets the next edit in its place, and nobody gets it twice.
        let again = edit("@lead @streamed @posted please answer soon?").await;
        let params = lead.delivered().await;
        assert_eq!((&params["eventId"], &params["supersedes"]), (&again, &json!(event)));
        inbox.assert_quiet().await;
        assert_eq!(posted.requests().len(), 1);
        bystander.assert_quiet().await;
    }
}

#[tokio::test]
async fn of_a_role_that_is_added_one_is_asked_once() {
    let fixture = ChannelFixture::start().await;
    let role = json!({"roles": ["ops"]});
    let (ada, bob) = (member(&fixture, "ada", &role).await, member(&fixture, "bob", &role).await);
    let mut ada = Harness::connect(&fixture.hub, &ada).await;
    let mut bob = Harness::connect(&fixture.hub, &bob).await;
    let (path, event) = said(&fixture, &fixture.anna, "the cache is cold").await;
    let edit = async |content: &str| {
        fixture.hub.ask("PATCH", &path, Some(&fixture.anna), &json!({"content": content})).await;
    };
    edit("@ops the cache is cold, please restart it").await;
    let knock = ada.delivered().await;
    assert_eq!((&knock["eventId"], &knock["injection"]["mode"]), (&json!(event), &json!("notify")));
    edit("@ops the cache is cold, please restart it now").await;
    assert_eq!(ada.delivered().await["supersedes"], json!(event));
    bob.assert_quiet().await;
}

/// An edit is delivered to nobody who would not get a message.
#[tokio::test]
async fn who_left_or_keeps_the_author_out_is_not_told() {
    let fixture = ChannelFixture::start().await;
    let left = member(&fixture, "left", &json!({})).await;
    let blocks = member(&fixture, "blocks", &json!({})).await;
    let mut gone = Harness::connect(&fixture.hub, &left).await;
    let mut closed = Harness::connect(&fixture.hub, &blocks).await;
    let (path, _) = said(&fixture, &fixture.anna, "@left @blocks please look").await;
    gone.delivered().await;
    closed.delivered().await;
    let who = json!({"who": "anna@example.org"});
    let blocked = fixture.hub.post("/api/v1/me/blocks", Some(&blocks), &who).await;
    assert_eq!(blocked.status, 201, "{}", blocked.text);
    let member_path = format!("/api/v1/channels/{}/members/left", fixture.channel);
    assert_eq!(fixture.hub.delete(&member_path, Some(&left)).await.status, 204);
    // The cancellation is the last event it gets.
    gone.notified("notifications/cancelled").await;

    let edit = json!({"content": "@left @blocks please look again"});
    assert_eq!(fixture.hub.ask("PATCH", &path, Some(&fixture.anna), &edit).await.status, 200);
    gone.assert_quiet().await;
    closed.assert_quiet().await;
}

/// Repeated edits wake no more often than as many messages.
#[tokio::test]
async fn changes_go_through_the_loop_guard() {
    let fixture = ChannelFixture::start().await;
    let (bob, key) = (member(&fixture, "bob", &json!({})).await, member(&fixture, "ada", &json!({})).await);
    let mut ada = Harness::connect(&fixture.hub, &key).await;
    let (path, event) = said(&fixture, &bob, "@ada please do number 0?").await;
    ada.delivered().await;
    let mut has = json!(event);
    let edit = async |n: u32| {
        let content = format!("@ada please do number {n}?");
        let edited = fixture.hub.ask("PATCH", &path, Some(&bob), &json!({"content": content})).await;
        assert_eq!(edited.status, 200, "{}", edited.text);
    };
    // Eight turns without a person, including the first message. They are sent one by one, because a pending
    // version is dropped for a newer one.
    for n in 1..8 {
        edit(n).await;
        let params = ada.delivered().await;
        assert_eq!(text(&params), format!("@ada please do number {n}?"));
        assert_eq!(params["supersedes"], has);
        has = params["eventId"].clone();
    }
    for n in 8..=40 {
        edit(n).await;
    }
    ada.assert_quiet().await;
    // A person's message resets the count.
    fixture.say("go on").await;
    edit(41).await;
    assert_eq!(text(&ada.delivered().await), "@ada please do number 41?");
}

/// Thirty sends per minute is the limit for posts and edits together; an edit without recipients is free.
#[tokio::test]
async fn changes_count_as_sends() {
    let clock = ManualClock::new(BEGIN);
    let limit = |config: &mut chorus_hub::Config| config.rate_limit = Some(60_000);
    let fixture = ChannelFixture::on(&Setup::new().clock(&clock).config(limit)).await;
    let (bob, key) = (member(&fixture, "bob", &json!({})).await, member(&fixture, "ada", &json!({})).await);
    let mut ada = Harness::connect(&fixture.hub, &key).await;
    let (notes, _) = said(&fixture, &bob, "notes").await;
    let (path, _) = said(&fixture, &bob, "@ada please do number 0?").await;
    ada.delivered().await;
    let edit = async |path: &str, n: u32, name: &str| {
        let content = format!("{name} please do number {n}?");
        fixture.hub.ask("PATCH", path, Some(&bob), &json!({"content": content})).await
    };
    for n in 0..40 {
        assert_eq!(edit(&notes, n, "").await.status, 200);
    }
    for n in 1..=28 {
        // A person's message keeps the loop guard out of this test.
        fixture.say("go on").await;
        assert_eq!(edit(&path, n, "@ada").await.status, 200);
        ada.delivered().await;
    }
    fixture.say("go on").await;
    let refused = edit(&path, 29, "@ada").await;
    refused.own_failure(Code::RateLimited);
    assert!(!refused.header("retry-after").is_empty());
    ada.assert_quiet().await;
    let log = fixture.log().await;
    let shown = log.iter().find(|event| event["content"] == "@ada please do number 28?");
    assert!(shown.is_some(), "what was refused changed nothing: {log:?}");
    // People are not limited.
    let (path, _) = said(&fixture, &fixture.anna, "@ada hello?").await;
    ada.delivered().await;
    for n in 0..40 {
        let content = json!({"content": format!("@ada hello {n}?")});
        assert_eq!(fixture.hub.ask("PATCH", &path, Some(&fixture.anna), &content).await.status, 200);
    }
}

/// An agent may answer an edit by the edit's own id, which answers the message.
#[tokio::test]
async fn what_was_changed_is_answered_by_the_id_of_the_change() {
    let fixture = ChannelFixture::start().await;
    let key = member(&fixture, "ada", &json!({})).await;
    let mut ada = Harness::connect(&fixture.hub, &key).await;
    for (tool, end) in [
        ("send", "responded"),
        ("react", "responded"),
        ("claim", "claimed"),
        ("defer", "deferred"),
        ("resolve", "responded"),
    ] {
        let (path, event) = said(&fixture, &fixture.anna, "@ada tihs?").await;
        ada.delivered().await;
        let edit = json!({"content": "@ada this?"});
        assert_eq!(fixture.hub.ask("PATCH", &path, Some(&fixture.anna), &edit).await.status, 200);
        let params = ada.delivered().await;
        let change = params["eventId"].as_str().unwrap().to_owned();
        assert_eq!(params["supersedes"], json!(event));
        match tool {
            "send" => {
                let sent = json!({"target": {"conversationId": fixture.channel}, "idempotencyKey": "a",
                    "visibility": "thread", "directedness": "to_me", "text": "yes", "inReplyTo": change});
                let sent = ada.done("chat.send_message", sent).await;
                assert_eq!(sent["threadId"], json!(event), "{sent}");
            }
            "react" => drop(ada.done("chat.react", json!({"inReplyTo": change, "signal": "done"})).await),
            _ => drop(ada.done(&format!("chat.{tool}"), json!({"eventId": change, "reason": "later"})).await),
        }
        let ladder = fixture.get(&format!("/api/v1/events/{change}")).await;
        assert_eq!(ladder.body["deliveries"][0]["disposition"], end, "{tool}: {}", ladder.text);
    }
    // An edit cannot be edited itself.
    let (path, _) = said(&fixture, &fixture.anna, "hello").await;
    let edit = json!({"content": "hello again"});
    let edited = fixture.hub.ask("PATCH", &path, Some(&fixture.anna), &edit).await;
    let change = edited.body["event_id"].as_str().unwrap();
    let path = format!("/api/v1/channels/{}/messages/{change}", fixture.channel);
    assert_eq!(fixture.hub.ask("PATCH", &path, Some(&fixture.anna), &edit).await.status, 404);
}

/// An edit is classified again, also for agents that already have the message.
#[tokio::test]
async fn a_change_that_asks_another_asks_the_first_no_more() {
    let fixture = ChannelFixture::start().await;
    let (ada, bob) = (member(&fixture, "ada", &json!({})).await, member(&fixture, "bob", &json!({})).await);
    let mut ada = Harness::connect(&fixture.hub, &ada).await;
    let mut bob = Harness::connect(&fixture.hub, &bob).await;
    for changed in ["@bob check the build please?", "never mind, solved"] {
        let (path, event) = said(&fixture, &fixture.anna, "@ada check the build please?").await;
        ada.delivered().await;
        let edit = json!({"content": changed});
        assert_eq!(fixture.hub.ask("PATCH", &path, Some(&fixture.anna), &edit).await.status, 200);
        assert_eq!(ada.notified("notifications/cancelled").await["eventId"], json!(event));
        ada.assert_quiet().await;
        let ladder = fixture.get(&format!("/api/v1/events/{event}")).await;
        let deliveries = ladder.body["deliveries"].as_array().unwrap();
        let of_ada = deliveries.iter().find(|one| one["recipient"]["handle"] == "ada").unwrap();
        assert_eq!(of_ada["disposition"], "superseded", "{}", ladder.text);
        if changed.starts_with("@bob") {
            let params = bob.delivered().await;
            assert_eq!(
                (&params["eventId"], &params["target"]["mentions"]),
                (&json!(event), &json!(["agent:bob"]))
            );
        }
    }
    // The agent is still named, and another one is added.
    let (path, _) = said(&fixture, &fixture.anna, "@ada check the build please?").await;
    ada.delivered().await;
    let edit = json!({"content": "@ada @bob check the build please?"});
    fixture.hub.ask("PATCH", &path, Some(&fixture.anna), &edit).await;
    let params = ada.delivered().await;
    assert_eq!(params["attention"]["policy"], "must_respond");
    assert_eq!(params["target"]["mentions"], json!(["agent:ada", "agent:bob"]));
}

/// A message deleted before delivery is not delivered.
#[tokio::test]
async fn what_was_deleted_before_it_came_is_not_delivered() {
    let fixture = ChannelFixture::start().await;
    let key = member(&fixture, "ada", &json!({})).await;
    let (path, _) = said(&fixture, &fixture.anna, "@ada are you there?").await;
    let (_, stands) = said(&fixture, &fixture.anna, "@ada and now?").await;
    assert_eq!(fixture.hub.delete(&path, Some(&fixture.anna)).await.status, 204);
    let mut ada = Harness::connect(&fixture.hub, &key).await;
    assert_eq!(ada.delivered().await["eventId"], json!(stands));
    ada.assert_quiet().await;
}

/// An agent answers the latest version it was given; people and agents that only saw the message answer the
/// message.
#[tokio::test]
async fn a_version_that_another_took_the_place_of_is_not_answered() {
    let fixture = ChannelFixture::start().await;
    let key = member(&fixture, "lead", &json!({})).await;
    let plain = member(&fixture, "plain", &json!({})).await;
    let mut lead = Harness::connect(&fixture.hub, &key).await;
    let (path, event) = said(&fixture, &fixture.anna, "@lead @plain restart the cash").await;
    lead.delivered().await;
    let edit = async |content: &str| {
        let edited = fixture.hub.ask("PATCH", &path, Some(&fixture.anna), &json!({"content": content})).await;
        assert_eq!(edited.status, 200, "{}", edited.text);
        edited.body["event_id"].as_str().unwrap().to_owned()
    };
    let first = edit("@lead @plain restart the cache").await;
    lead.delivered().await;
    let second = edit("@lead @plain restart the cache, please").await;
    // It knows the message by its first edit.
    assert_eq!(lead.delivered().await["supersedes"], json!(first));
    let reply = |key: &str, event: &str| {
        json!({"target": {"conversationId": fixture.channel}, "idempotencyKey": key, "visibility": "thread",
            "directedness": "to_me", "text": "done", "inReplyTo": event})
    };
    for (key, old) in [("a", &event), ("b", &first)] {
        let refused = lead.call("chat.send_message", reply(key, old)).await;
        assert_eq!(refused["isError"], true, "{refused}");
        let why = &refused["structuredContent"];
        assert_eq!((&why["code"], &why["newestEventId"]), (&json!("superseded"), &json!(second)), "{why}");
    }
    let messages = format!("/api/v1/channels/{}/messages", fixture.channel);
    let body = json!({"content": "done", "reply_to": event});
    let refused = fixture.hub.post(&messages, Some(&key), &body).await;
    refused.own_failure(Code::PolicyForbidden);
    assert_eq!(refused.body["error"]["details"]["newest"], json!(second), "{}", refused.text);
    // Reading the thread shows the id by which the message is answered.
    let read = lead.done("chat.read_thread", json!({"conversationId": fixture.channel})).await;
    let found = &read["events"][0];
    assert_eq!((&found["eventId"], &found["supersedes"]), (&json!(second), &json!(event)), "{read}");
    assert_eq!(text(found), "@lead @plain restart the cache, please");
    lead.done("chat.send_message", reply("c", &second)).await;
    for (who, status) in [(&plain, 201), (&fixture.anna, 201)] {
        let answered = fixture.hub.post(&messages, Some(who), &body).await;
        assert_eq!(answered.status, status, "{}", answered.text);
    }
}
