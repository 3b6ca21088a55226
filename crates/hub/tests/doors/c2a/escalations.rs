//! Escalations: the lead who is told of an unanswered message may act on it like on its own.

use super::harness::Harness;
use super::sessions::member;
use super::time::acked;
use crate::channel_fixture::{ChannelFixture, MINUTE};
use crate::consent::block;
use crate::support::{SOON, eventually};
use chorus_testkit::receiver::FakeAgent;
use serde_json::{Value, json};

struct Escalated {
    fixture: ChannelFixture,
    lead: Harness,
    lead_key: String,
    /// The unanswered message, and the escalation.
    original: String,
    told: Value,
}

/// Asks an agent that does not answer, until its lead is told.
async fn escalated(text: &str) -> Escalated {
    let (fixture, clock) = ChannelFixture::with_clock().await;
    let silent = member(&fixture, "silent", &json!({})).await;
    let lead_key = member(&fixture, "lead", &json!({"lead": true})).await;
    let mut silent = Harness::connect(&fixture.hub, &silent).await;
    let mut lead = Harness::connect(&fixture.hub, &lead_key).await;
    let original = fixture.say(text).await;
    silent.delivered().await;
    acked(&fixture, &original).await;
    clock.set(clock.now() + 5 * MINUTE);
    silent.delivered().await;
    acked(&fixture, &original).await;
    clock.set(clock.now() + 5 * MINUTE);
    let told = lead.delivered().await;
    Escalated { fixture, lead, lead_key, original, told }
}

impl Escalated {
    fn id(&self) -> &Value {
        &self.told["eventId"]
    }

    /// Waits for the lead's disposition.
    async fn becomes(&self, disposition: &str) {
        let path = format!("/api/v1/events/{}", self.id().as_str().unwrap());
        let ladder = async || self.fixture.get(&path).await.body["deliveries"][0]["disposition"].clone();
        eventually(ladder, |known| known == disposition).await;
    }

    fn answer(&self, in_reply_to: &Value, key: &str) -> Value {
        json!({"target": {"conversationId": self.told["conversation"]["id"]}, "inReplyTo": in_reply_to,
            "idempotencyKey": key, "visibility": "channel", "directedness": "to_me", "text": "It is not."})
    }

    /// Asserts that the last message of the channel answers the original in its thread.
    async fn assert_answered(&self) {
        let log = self.fixture.log().await;
        let last = log.iter().rev().find(|event| event["content"] == "It is not.").unwrap();
        assert_eq!((&last["reply_to"], &last["thread"]), (&json!(self.original), &json!(self.original)));
    }
}

#[tokio::test]
async fn an_escalation_says_what_was_asked_and_is_answered_as_the_original() {
    let mut it = escalated("@silent is the deploy blocked?").await;
    let quoted = it.told["content"][1]["text"].as_str().unwrap();
    assert!(quoted.contains("is the deploy blocked?") && quoted.contains(&it.original), "{quoted}");
    assert_eq!((&it.told["supersedes"], &it.told["inReplyTo"]), (&Value::Null, &json!(it.original)));
    let answer = it.answer(it.id(), "one");
    let sent = it.lead.done("chat.send_message", answer).await;
    assert_eq!(sent["threadId"], json!(it.original));
    it.assert_answered().await;
    it.becomes("responded").await;
}

/// At every door the lead gets the original message and can answer it.
#[tokio::test]
async fn an_escalation_comes_by_every_door_with_what_was_asked() {
    for by_inbox in [true, false] {
        let (fixture, clock) = ChannelFixture::with_clock().await;
        let (silent, receiver) = (member(&fixture, "silent", &json!({})).await, FakeAgent::start().await);
        let lead = fixture.connected("lead", &receiver).await;
        let path = format!("/api/v1/channels/{}/members/lead", fixture.channel);
        let made = fixture.hub.ask("PATCH", &path, Some(&fixture.anna), &json!({"lead": true})).await;
        assert_eq!(made.status, 200, "{}", made.text);
        let mut inbox = if by_inbox {
            Some(fixture.hub.inbox(lead["api_key"].as_str().unwrap(), None).await)
        } else {
            None
        };
        let mut silent = Harness::connect(&fixture.hub, &silent).await;
        let original = fixture.say("@silent is the deploy blocked?").await;
        for _ in 0..2 {
            silent.delivered().await;
            acked(&fixture, &original).await;
            clock.set(clock.now() + 5 * MINUTE);
        }
        let callback = if let Some(inbox) = &mut inbox {
            let chat = inbox.event("chat").await;
            assert_eq!(chat["event"]["kind"], "escalation", "{chat}");
            assert_eq!(chat["about"]["event_id"], json!(original), "{chat}");
            assert_eq!(chat["about"]["content"], "@silent is the deploy blocked?");
            chat["callback"].clone()
        } else {
            let post = receiver.wait_for(1, SOON).await.remove(0).body;
            let text = post["message"]["content"].as_str().unwrap();
            assert!(text.contains("has not answered") && text.contains("is the deploy blocked?"), "{text}");
            post["callback"].clone()
        };
        let answer = json!({"type": "message", "content": "It is not."});
        assert_eq!(fixture.call_back(&callback, &answer).await.status, 200);
        let log = fixture.log().await;
        let last = log.iter().rev().find(|event| event["content"] == "It is not.").unwrap();
        assert_eq!(last["thread"], json!(original), "{last}");
    }
}

#[tokio::test]
async fn to_answer_the_original_answers_the_escalation() {
    let mut it = escalated("@silent is the deploy blocked?").await;
    let answer = it.answer(&json!(it.original), "one");
    it.lead.done("chat.send_message", answer).await;
    it.assert_answered().await;
    it.becomes("responded").await;
}

#[tokio::test]
async fn an_escalation_is_answered_by_the_api() {
    let it = escalated("@silent is the deploy blocked?").await;
    let path = format!("/api/v1/channels/{}/messages", it.fixture.channel);
    let body = json!({"content": "It is not.", "reply_to": it.id()});
    let answered = it.fixture.hub.post(&path, Some(&it.lead_key), &body).await;
    assert_eq!(answered.status, 201, "{}", answered.text);
    it.assert_answered().await;
    it.becomes("responded").await;
}

#[tokio::test]
async fn an_escalation_is_claimed_put_off_reacted_to_and_resolved() {
    let mut it = escalated("@silent is the deploy blocked?").await;
    let id = it.id().clone();
    let claimed = it.lead.done("chat.claim", json!({"eventId": id})).await;
    assert_eq!((&claimed["state"], &claimed["eventId"]), (&json!("held"), &id));
    it.becomes("claimed").await;
    let put_off = it.lead.done("chat.defer", json!({"eventId": id, "reason": "I am in the train"})).await;
    assert_eq!(put_off["disposition"], "deferred");
    let seen = it.lead.done("chat.react", json!({"inReplyTo": id, "signal": "seen"})).await;
    assert_eq!(seen["disposition"], "acknowledged");
    let resolved = it.lead.done("chat.resolve", json!({"eventId": id})).await;
    assert_eq!(resolved["disposition"], "responded");
    it.becomes("responded").await;
}

#[tokio::test]
async fn what_is_taken_back_is_asked_of_nobody() {
    let it = escalated("@silent is the deploy blocked?").await;
    let path = format!("/api/v1/channels/{}/messages/{}", it.fixture.channel, it.original);
    let deleted = it.fixture.hub.delete(&path, Some(&it.fixture.anna)).await;
    assert_eq!(deleted.status, 204, "{}", deleted.text);
    it.becomes("superseded").await;
}

/// A lead who has blocked the author gets neither the escalation nor a reminder: the owner is asked instead.
#[tokio::test]
async fn a_blocked_strangers_words_are_not_escalated_to_who_keeps_it_out() {
    let (fixture, clock) = ChannelFixture::with_clock().await;
    let (silent_key, lead_key, eve) = (
        member(&fixture, "silent", &json!({})).await,
        member(&fixture, "lead", &json!({"lead": true})).await,
        member(&fixture, "eve", &json!({})).await,
    );
    let mut silent = Harness::connect(&fixture.hub, &silent_key).await;
    let _lead = Harness::connect(&fixture.hub, &lead_key).await;
    block(&fixture.hub, &lead_key, "eve").await;
    let path = format!("/api/v1/channels/{}/messages", fixture.channel);
    let said =
        fixture.hub.post(&path, Some(&eve), &json!({"content": "@silent is the deploy blocked?"})).await;
    let original = said.body["event_id"].as_str().unwrap().to_owned();
    silent.delivered().await;
    acked(&fixture, &original).await;
    block(&fixture.hub, &silent_key, "eve").await;
    // A reminder would be due and is not sent; its time is visible to nobody.
    let log = async || {
        clock.set(clock.now() + MINUTE);
        fixture.log().await
    };
    let is_told = |log: &Vec<Value>| log.iter().any(|event| event["kind"] == "escalation");
    let log = eventually(log, is_told).await;
    let told = log.iter().find(|event| event["kind"] == "escalation").unwrap();
    assert_eq!(told["to"], json!(["anna", "eve"]), "{told}");
    let ladder = fixture.get(&format!("/api/v1/events/{}", told["event_id"].as_str().unwrap())).await;
    let deliveries = ladder.body["deliveries"].as_array().unwrap();
    let handles: Vec<_> = deliveries.iter().map(|one| &one["recipient"]["handle"]).collect();
    assert_eq!(handles, ["eve"], "of the agents only the author is told: {}", ladder.text);
    silent.assert_quiet().await;
    let ladder = fixture.get(&format!("/api/v1/events/{original}")).await;
    assert_eq!(ladder.body["deliveries"].as_array().unwrap().len(), 1, "it was sent once: {}", ladder.text);
}
