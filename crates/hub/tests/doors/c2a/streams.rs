//! Work streams: their owners, the messages that belong to them at every door, and claims of agents that
//! leave.

use super::harness::Harness;
use super::sessions::member;
use crate::channel_fixture::ChannelFixture;
use crate::support::{Answer, Setup, mcp_tool};
use reqwest::Method;
use serde_json::{Value, json};

async fn make(fixture: &ChannelFixture, body: Value) -> String {
    let made = fixture.hub.post("/api/v1/streams", Some(&fixture.anna), &body).await;
    assert_eq!(made.status, 201, "{}", made.text);
    made.body["id"].as_str().unwrap().to_owned()
}

async fn close(fixture: &ChannelFixture, stream: &str) {
    let path = format!("/api/v1/streams/{stream}");
    let closed = Answer::of(fixture.hub.request(Method::DELETE, &path, Some(&fixture.anna))).await;
    assert_eq!(closed.status, 200, "{}", closed.text);
    assert!(closed.body["closed_at"].is_string(), "{}", closed.text);
}

async fn knocks(setup: &Setup) {
    let fixture = ChannelFixture::on(setup).await;
    let ada = member(&fixture, "ada", &json!({})).await;
    let bob = member(&fixture, "bob", &json!({})).await;
    let mut ada = Harness::connect(&fixture.hub, &ada).await;
    let mut bob = Harness::connect(&fixture.hub, &bob).await;
    fixture.say("before there was a stream").await;
    let stream = json!({"name": "migration", "conversations": [fixture.channel], "owners": ["ada"],
        "participants": ["bob"], "lead": "ada"});
    let stream = make(&fixture, stream).await;

    let event = fixture.say("the second table is moved, what is next?").await;
    let knock = ada.delivered().await;
    assert_eq!(knock["eventId"], json!(event), "what was said before is not the stream's");
    assert_eq!(knock["attention"]["reason"], "stream_owner");
    assert_eq!(knock["target"]["directedness"], "to_my_role");
    assert_eq!(knock["injection"]["mode"], "notify");
    assert_eq!(knock["conversation"]["streamId"], json!(stream));
    bob.assert_quiet().await;
    let log = fixture.log().await;
    assert_eq!(log.last().unwrap()["stream"], json!(stream));
    assert!(log[0].get("stream").is_none(), "{}", log[0]);

    // A harness's message belongs to the only stream there, and its requests are offered to the participants.
    let said = json!({"target": {"conversationId": fixture.channel, "streamId": stream}, "idempotencyKey": "1",
        "visibility": "thread", "directedness": "to_other", "text": "the third", "inReplyTo": event});
    ada.done("chat.send_message", said).await;
    let page = bob.done("chat.list_events", json!({"streamId": stream})).await;
    let texts: Vec<_> =
        page["events"].as_array().unwrap().iter().map(|one| one["content"][0]["text"].clone()).collect();
    assert_eq!(texts, [json!("the second table is moved, what is next?"), json!("the third")], "{page}");
    assert!(
        page["events"].as_array().unwrap().iter().all(|one| one["conversation"]["streamId"] == json!(stream))
    );
    // The cursor reveals nothing about messages in channels where bob is not a member: it is not a counter.
    assert_eq!(page["next"], page["events"][1]["eventId"]);
    bob.refused("chat.list_events", json!({"streamId": stream, "after": "1"})).await;
    let rest = bob.done("chat.list_events", json!({"streamId": stream, "after": page["next"]})).await;
    assert_eq!(rest["events"], json!([]));

    // A closed stream has no owners to ask.
    close(&fixture, &stream).await;
    fixture.say("and the fourth?").await;
    ada.assert_quiet().await;
    assert!(fixture.log().await.last().unwrap().get("stream").is_none());
    let path = format!("/api/v1/channels/{}/messages", fixture.channel);
    let body = json!({"content": "into a closed one", "stream": stream});
    let refused = fixture.hub.post(&path, Some(&fixture.anna), &body).await;
    assert_eq!(
        (refused.status, &refused.body["error"]["code"]),
        (404, &json!("NOT_FOUND")),
        "{}",
        refused.text
    );
}

#[tokio::test]
async fn what_is_said_in_a_stream_knocks_at_its_owner() {
    knocks(&Setup::new()).await;
}

#[tokio::test]
async fn what_is_said_in_a_stream_knocks_at_its_owner_on_postgres() {
    knocks(&Setup::postgres()).await;
}

#[tokio::test]
async fn of_several_streams_a_message_names_one_and_its_thread_goes_on() {
    let fixture = ChannelFixture::start().await;
    let ada = member(&fixture, "ada", &json!({})).await;
    let one = make(&fixture, json!({"name": "one", "conversations": [fixture.channel]})).await;
    let two = make(&fixture, json!({"name": "two", "conversations": [fixture.channel]})).await;
    let path = format!("/api/v1/channels/{}/messages", fixture.channel);
    let say = async |key: &str, body: Value| {
        let said = fixture.hub.post(&path, Some(key), &body).await;
        assert_eq!(said.status, 201, "{}", said.text);
        said.body
    };
    assert!(say(&fixture.anna, json!({"content": "for neither"})).await.get("stream").is_none());
    let said = say(&fixture.anna, json!({"content": "for the second", "stream": two})).await;
    assert_eq!(said["stream"], json!(two));
    let answer = say(&ada, json!({"content": "a note", "thread": said["event_id"]})).await;
    assert_eq!(answer["stream"], json!(two), "a thread stays in its stream");
    let arguments = json!({"content": "by a tool", "stream": one});
    mcp_tool(&fixture.hub, &fixture.channel, &ada, "chat_send_message", arguments).await;
    assert_eq!(fixture.log().await.last().unwrap()["stream"], json!(one));
}

#[tokio::test]
async fn who_sees_changes_and_joins_a_stream() {
    let fixture = ChannelFixture::start().await;
    let ada = member(&fixture, "ada", &json!({})).await;
    let stranger = fixture.hub.register("stranger").await;
    let private = fixture.another_channel("private").await;
    let both = json!({"name": "work", "conversations": [fixture.channel, private]});
    let stream = make(&fixture, both).await;
    let path = format!("/api/v1/streams/{stream}");
    let seen = fixture.hub.get(&path, Some(&ada)).await;
    assert_eq!(seen.body["conversations"], json!([fixture.channel]), "the other is not its business");
    assert_eq!(seen.body["owners"][0]["handle"], "anna");
    for (key, count) in [(&ada, 1), (&stranger, 0)] {
        let list = fixture.hub.get("/api/v1/streams", Some(key)).await;
        assert_eq!(list.body["items"].as_array().unwrap().len(), count, "{}", list.text);
    }
    assert_eq!(fixture.hub.get(&path, Some(&stranger)).await.status, 404);

    let joined = fixture.hub.post(&format!("{path}/join"), Some(&ada), &json!({})).await;
    assert_eq!(joined.body["participants"][0]["handle"], "ada", "{}", joined.text);
    let change = async |key: &str, body: Value| {
        Answer::of(fixture.hub.request(Method::PATCH, &path, Some(key)).json(&body)).await
    };
    assert_eq!(change(&ada, json!({"name": "mine"})).await.status, 403);
    let changed = change(&fixture.anna, json!({"owners": ["ada"], "lead": "ada"})).await;
    assert_eq!(
        (&changed.body["owners"][0]["handle"], &changed.body["lead"]["handle"]),
        (&json!("ada"), &json!("ada")),
        "{}",
        changed.text
    );
    assert_eq!(changed.body["participants"], json!([]));
    assert_eq!(change(&ada, json!({"name": "mine"})).await.body["name"], "mine");
    // An owner cannot extend the stream to a channel where they may not.
    assert_eq!(change(&ada, json!({"conversations": [private]})).await.status, 404);
    for (body, status) in
        [(json!({}), 400), (json!({"owners": ["nobody"]}), 404), (json!({"lead": "anna"}), 400)]
    {
        assert_eq!(change(&fixture.anna, body.clone()).await.status, status, "{body}");
    }
    // An agent that leaves the channel loses its part in the stream.
    let out = format!("/api/v1/channels/{}/members/ada", fixture.channel);
    assert_eq!(Answer::of(fixture.hub.request(Method::DELETE, &out, Some(&ada))).await.status, 204);
    assert_eq!(change(&ada, json!({"name": "still mine"})).await.status, 404);
    close(&fixture, &stream).await;
    close(&fixture, &stream).await;
    assert_eq!(change(&fixture.anna, json!({"name": "again"})).await.status, 409);
}

/// Replacing owners or participants keeps those whom the caller cannot see.
#[tokio::test]
async fn who_is_not_seen_is_not_dropped() {
    for setup in [Setup::new(), Setup::postgres()] {
        let fixture = ChannelFixture::on(&setup).await;
        let ada = member(&fixture, "ada", &json!({})).await;
        member(&fixture, "cara", &json!({})).await;
        let private = fixture.another_channel("private").await;
        for name in ["bob", "dora", "gone"] {
            fixture.agent(&json!({"name": name})).await;
            fixture.join(&private, name).await;
        }
        let both = json!({"name": "work", "conversations": [fixture.channel, private], "owners": ["ada", "bob", "gone"],
            "participants": ["dora"], "lead": "bob"});
        let path = format!("/api/v1/streams/{}", make(&fixture, both).await);
        // An agent in none of its channels is removed from the stream.
        let out = format!("/api/v1/channels/{private}/members/gone");
        assert_eq!(fixture.hub.delete(&out, Some(&fixture.anna)).await.status, 204);
        let body = json!({"owners": ["ada", "cara"], "participants": []});
        let changed = fixture.hub.ask("PATCH", &path, Some(&ada), &body).await;
        assert_eq!(changed.status, 200, "{}", changed.text);
        let handles = |members: &Value| {
            let members = members.as_array().unwrap().iter();
            members.map(|one| one["handle"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(handles(&changed.body["owners"]), ["ada", "cara"], "the others are not its business");
        let seen = fixture.get(&path).await.body;
        assert_eq!(handles(&seen["owners"]), ["ada", "bob", "cara"], "{seen}");
        assert_eq!(
            (handles(&seen["participants"]), &seen["lead"]["handle"]),
            (vec!["dora".into()], &json!("bob"))
        );
        // A caller who sees all members replaces all of them.
        let body = json!({"owners": ["anna"], "participants": []});
        let changed = fixture.hub.ask("PATCH", &path, Some(&fixture.anna), &body).await.body;
        assert_eq!(
            (handles(&changed["owners"]), handles(&changed["participants"])),
            (vec!["anna".into()], vec![])
        );
        let rejoined = json!({"owners": ["anna"], "participants": []});
        fixture.join(&private, "gone").await;
        let changed = fixture.hub.ask("PATCH", &path, Some(&fixture.anna), &rejoined).await.body;
        assert_eq!(handles(&changed["owners"]), ["anna"], "who comes back has nothing of what it had");
    }
}

/// Returns two agents of a role, of which the first holds a claim.
async fn claimed(setup: &Setup) -> (ChannelFixture, String, Harness, Harness, String) {
    let fixture = ChannelFixture::on(setup).await;
    let key = member(&fixture, "ada", &json!({"roles": ["ops"]})).await;
    let bob = member(&fixture, "bob", &json!({"roles": ["ops"]})).await;
    let mut ada = Harness::connect(&fixture.hub, &key).await;
    let bob = Harness::connect(&fixture.hub, &bob).await;
    let event = fixture.say("@ops please restart the cache").await;
    assert_eq!(ada.delivered().await["eventId"], json!(event));
    ada.done("chat.claim", json!({"eventId": event, "ttlMs": 3_600_000})).await;
    (fixture, key, ada, bob, event)
}

/// Asserts that the other is asked at once and may claim it.
async fn offered(fixture: &ChannelFixture, bob: &mut Harness, event: &str) {
    let knock = bob.delivered().await;
    assert_eq!((&knock["eventId"], &knock["injection"]["mode"]), (&json!(event), &json!("notify")));
    assert_eq!(bob.done("chat.claim", json!({"eventId": event})).await["holder"], "agent:bob");
    let ladder = fixture.get(&format!("/api/v1/events/{event}")).await;
    let states: Vec<_> =
        ladder.body["claims"].as_array().unwrap().iter().map(|one| one["state"].clone()).collect();
    assert_eq!(states, [json!("expired"), json!("held")], "{}", ladder.text);
}

#[tokio::test]
async fn what_somebody_holds_who_is_taken_out_is_offered_to_others() {
    for setup in [Setup::new(), Setup::postgres()] {
        let (fixture, _, _ada, mut bob, event) = claimed(&setup).await;
        let path = format!("/api/v1/channels/{}/members/ada", fixture.channel);
        let out = Answer::of(fixture.hub.request(Method::DELETE, &path, Some(&fixture.anna))).await;
        assert_eq!(out.status, 204, "{}", out.text);
        offered(&fixture, &mut bob, &event).await;
    }
}

#[tokio::test]
async fn what_somebody_holds_who_unregisters_is_offered_to_others() {
    let (fixture, key, _ada, mut bob, event) = claimed(&Setup::new()).await;
    let gone = Answer::of(fixture.hub.request(Method::DELETE, "/agents/ada", Some(&key))).await;
    assert_eq!(gone.status, 200, "{}", gone.text);
    offered(&fixture, &mut bob, &event).await;
}

#[tokio::test]
async fn who_goes_without_taking_what_it_was_offered_leaves_it_to_others() {
    let fixture = ChannelFixture::start().await;
    let ada = member(&fixture, "ada", &json!({"roles": ["ops"]})).await;
    let bob = member(&fixture, "bob", &json!({"roles": ["ops"]})).await;
    let mut ada = Harness::connect(&fixture.hub, &ada).await;
    let mut bob = Harness::connect(&fixture.hub, &bob).await;
    let event = fixture.say("@ops please restart the cache").await;
    assert_eq!(ada.delivered().await["eventId"], json!(event));
    bob.assert_quiet().await;
    let path = format!("/api/v1/channels/{}/members/ada", fixture.channel);
    Answer::of(fixture.hub.request(Method::DELETE, &path, Some(&fixture.anna))).await;
    assert_eq!(bob.delivered().await["eventId"], json!(event));
}

#[tokio::test]
async fn what_is_held_of_a_stream_that_is_closed_is_free() {
    let fixture = ChannelFixture::start().await;
    let ada = member(&fixture, "ada", &json!({})).await;
    let bob = member(&fixture, "bob", &json!({})).await;
    let mut ada = Harness::connect(&fixture.hub, &ada).await;
    let mut bob = Harness::connect(&fixture.hub, &bob).await;
    let stream = json!({"name": "work", "conversations": [fixture.channel], "owners": ["ada"]});
    let stream = make(&fixture, stream).await;
    let event = fixture.say("the disk is full again, who looks?").await;
    ada.delivered().await;
    ada.done("chat.claim", json!({"eventId": event, "ttlMs": 3_600_000})).await;
    // The message belongs to the owners as long as the stream exists.
    assert_eq!(bob.refused("chat.claim", json!({"eventId": event})).await, "policy_forbidden");
    close(&fixture, &stream).await;
    assert_eq!(bob.done("chat.claim", json!({"eventId": event})).await["holder"], "agent:bob");
}

/// Of several owners one is asked first, and the others if it does not respond.
#[tokio::test]
async fn of_several_owners_one_is_knocked_first() {
    let (fixture, clock) = ChannelFixture::with_clock().await;
    let (ada, bob) = (member(&fixture, "ada", &json!({})).await, member(&fixture, "bob", &json!({})).await);
    let mut ada = Harness::connect(&fixture.hub, &ada).await;
    let mut bob = Harness::connect(&fixture.hub, &bob).await;
    let stream = json!({"name": "work", "conversations": [fixture.channel], "owners": ["ada", "bob"]});
    make(&fixture, stream).await;
    let event = fixture.say("the second table is moved, what is next?").await;
    let knock = ada.delivered().await;
    assert_eq!((&knock["eventId"], &knock["attention"]["reason"]), (&json!(event), &json!("stream_owner")));
    bob.assert_quiet().await;
    let refused = bob.refused("chat.claim", json!({"eventId": event})).await;
    assert_eq!(refused, "offered_to_other");
    clock.set(clock.now() + 31_000);
    let knock = bob.delivered().await;
    assert_eq!((&knock["eventId"], &knock["attention"]["reason"]), (&json!(event), &json!("stream_owner")));
    bob.done("chat.claim", json!({"eventId": event})).await;
}
