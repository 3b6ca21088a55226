//! Reactions to an agent's messages, and the outcome of its approvals: the agent receives them, and answers or
//! disposes of them like other events.

use super::harness::Harness;
use super::sessions::member;
use crate::channel_fixture::ChannelFixture;
use crate::support::eventually;
use serde_json::{Value, json};

fn message(fixture: &ChannelFixture, key: &str, text: &str, more: &Value) -> Value {
    let mut message = json!({"target": {"conversationId": fixture.channel}, "idempotencyKey": key,
        "visibility": "channel", "directedness": "to_me", "text": text});
    for (name, value) in more.as_object().unwrap() {
        message[name] = value.clone();
    }
    message
}

async fn react(fixture: &ChannelFixture, token: &str, event: &Value, signal: &str) {
    let event = event.as_str().unwrap();
    let path = format!("/api/v1/channels/{}/messages/{event}/reactions", fixture.channel);
    let reacted = fixture.hub.post(&path, Some(token), &json!({"signal": signal})).await;
    assert_eq!(reacted.status, 201, "{}", reacted.text);
}

/// The agent asks anna for permission, and she agrees. Returns the question and the delivery.
async fn agreed(fixture: &ChannelFixture, asker: &mut Harness, key: &str) -> (Value, Value) {
    let ask = message(fixture, key, "@anna may I deploy it?", &json!({"intent": "approval_request"}));
    let asked = asker.done("chat.send_message", ask).await["eventId"].clone();
    react(fixture, &fixture.anna, &asked, "agree").await;
    let given = asker.delivered().await;
    assert_eq!((&given["inReplyTo"], &given["injection"]["mode"]), (&asked, &json!("immediate")), "{given}");
    (asked, given["eventId"].clone())
}

async fn becomes(fixture: &ChannelFixture, event: &Value, disposition: &str) {
    let path = format!("/api/v1/events/{}", event.as_str().unwrap());
    let known = async || fixture.get(&path).await.body["deliveries"][0]["disposition"].clone();
    eventually(known, |known| known == disposition).await;
}

#[tokio::test]
async fn an_approval_is_answered_in_the_thread_of_what_was_asked() {
    let fixture = ChannelFixture::start().await;
    let key = member(&fixture, "ada", &json!({})).await;
    let mut ada = Harness::connect(&fixture.hub, &key).await;
    for (n, visibility) in ["thread", "channel"].into_iter().enumerate() {
        let (asked, signal) = agreed(&fixture, &mut ada, &format!("ask-{n}")).await;
        let more = json!({"inReplyTo": signal, "visibility": visibility});
        let sent =
            ada.done("chat.send_message", message(&fixture, &format!("a-{n}"), "deployed", &more)).await;
        assert_eq!(sent["threadId"], asked, "{sent}");
        becomes(&fixture, &signal, "responded").await;
    }
    // The same by the hub's own API.
    let (asked, signal) = agreed(&fixture, &mut ada, "ask-api").await;
    let path = format!("/api/v1/channels/{}/messages", fixture.channel);
    let body = json!({"content": "deployed", "reply_to": signal});
    let said = fixture.hub.post(&path, Some(&key), &body).await;
    assert_eq!((said.status, &said.body["thread"]), (201, &asked), "{}", said.text);
    becomes(&fixture, &signal, "responded").await;
}

#[tokio::test]
async fn a_reaction_is_put_off_reacted_to_and_resolved_and_nobody_claims_it() {
    let fixture = ChannelFixture::start().await;
    let (key, other) = (member(&fixture, "ada", &json!({})).await, member(&fixture, "eve", &json!({})).await);
    let mut ada = Harness::connect(&fixture.hub, &key).await;
    let mut eve = Harness::connect(&fixture.hub, &other).await;
    let (_, signal) = agreed(&fixture, &mut ada, "ask").await;
    let event = json!({"eventId": signal});
    assert_eq!(ada.refused("chat.claim", event.clone()).await, "invalid_arguments");
    let put_off = ada.done("chat.defer", json!({"eventId": signal, "reason": "the build runs"})).await;
    assert_eq!(put_off["disposition"], "deferred");
    let seen = ada.done("chat.react", json!({"inReplyTo": signal, "signal": "seen"})).await;
    assert_eq!(seen["disposition"], "acknowledged");
    assert_eq!(ada.done("chat.resolve", event.clone()).await["disposition"], "responded");
    becomes(&fixture, &signal, "responded").await;
    // The delivery is for ada only.
    for (tool, arguments) in [
        ("chat.resolve", event.clone()),
        ("chat.defer", json!({"eventId": signal, "reason": "no"})),
        ("chat.react", json!({"inReplyTo": signal, "signal": "seen"})),
        ("chat.send_message", message(&fixture, "e", "and me?", &json!({"inReplyTo": signal}))),
    ] {
        assert_eq!(eve.refused(tool, arguments).await, "not_found", "{tool}");
    }
}

#[tokio::test]
async fn the_end_of_a_wait_is_the_hubs_to_tell_and_is_answered_where_it_waited() {
    let fixture = ChannelFixture::start().await;
    let key = member(&fixture, "ada", &json!({})).await;
    let mut ada = Harness::connect(&fixture.hub, &key).await;
    let began = fixture.say("@ada is the table in use?").await;
    ada.delivered().await;
    let more = json!({"inReplyTo": began, "visibility": "thread", "requiresApproval": true});
    for (key_of, word) in [("k1", "decline"), ("k2", "agree")] {
        let held = ada.done("chat.send_message", message(&fixture, key_of, "I drop it", &more)).await;
        let path = format!("/api/v1/approvals/{}/{word}", held["eventId"].as_str().unwrap());
        let decided = fixture.hub.post(&path, Some(&fixture.anna), &json!({})).await;
        assert_eq!(decided.status, 200, "{}", decided.text);
        let told = ada.delivered().await;
        assert_eq!(
            (&told["conversation"]["kind"], &told["author"]["kind"], &told["inReplyTo"]),
            (&json!("system"), &json!("system"), &held["eventId"]),
            "{told}"
        );
        let notice = &told["eventId"];
        let path = format!("/api/v1/events/{}", notice.as_str().unwrap());
        let ladder = fixture.hub.get(&path, Some(&key)).await;
        assert_eq!(ladder.status, 200, "{}", ladder.text);
        assert_eq!(ladder.body["event"]["approval"], held["eventId"], "{}", ladder.text);
        assert_eq!(fixture.get(&path).await.status, 404, "it is the agent's alone");
        let answer = json!({"inReplyTo": notice, "visibility": "thread"});
        let sent = ada
            .done("chat.send_message", message(&fixture, &format!("{key_of}-a"), "as you say", &answer))
            .await;
        assert_eq!(sent["threadId"], json!(began), "{sent}");
        let became = fixture.hub.get(&path, Some(&key)).await;
        assert_eq!(became.body["deliveries"][0]["disposition"], "responded", "{}", became.text);
    }
}

/// A request is answered by the people it names; reactions of others are ordinary.
#[tokio::test]
async fn a_request_is_answered_by_whom_it_names() {
    let fixture = ChannelFixture::start().await;
    let key = member(&fixture, "ada", &json!({})).await;
    let ben = fixture.hub.account("ben@example.org").await;
    let channel = format!("/api/v1/channels/{}", fixture.channel);
    let body = json!({"account": "ben@example.org", "handle": "ben"});
    assert_eq!(fixture.hub.add(&channel, &fixture.anna, &body).await, "ben");
    let mut ada = Harness::connect(&fixture.hub, &key).await;
    for (n, (text, by_ben)) in [
        ("@anna may I deploy it?", "notify"),
        ("@ben may I deploy it?", "immediate"),
        ("may I?", "immediate"),
    ]
    .into_iter()
    .enumerate()
    {
        let ask = message(&fixture, &format!("k{n}"), text, &json!({"intent": "approval_request"}));
        let asked = ada.done("chat.send_message", ask).await["eventId"].clone();
        react(&fixture, &ben, &asked, "agree").await;
        assert_eq!(ada.delivered().await["injection"]["mode"], by_ben, "{text}");
    }
}
