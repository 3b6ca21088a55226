//! Edits of messages for an agent that was away, has answered, or has reacted already.

use super::harness::{Harness, text};
use super::sessions::member;
use crate::channel_fixture::ChannelFixture;
use crate::support::{Setup, eventually};
use serde_json::{Value, json};

/// A message of anna that can be edited.
struct Message<'a> {
    fixture: &'a ChannelFixture,
    path: String,
    event: String,
}

impl<'a> Message<'a> {
    async fn say(fixture: &'a ChannelFixture, content: &str) -> Self {
        let event = fixture.say(content).await;
        let path = format!("/api/v1/channels/{}/messages/{event}", fixture.channel);
        Self { fixture, path, event }
    }

    /// Edits the message and returns the id of the edit.
    async fn change(&self, content: &str) -> String {
        let anna = Some(self.fixture.anna.as_str());
        let edited = self.fixture.hub.ask("PATCH", &self.path, anna, &json!({"content": content})).await;
        assert_eq!(edited.status, 200, "{}", edited.text);
        edited.body["event_id"].as_str().unwrap().to_owned()
    }

    async fn delete(&self) {
        assert_eq!(self.fixture.hub.delete(&self.path, Some(&self.fixture.anna)).await.status, 204);
    }
}

async fn disposition(fixture: &ChannelFixture, event: &str) -> Value {
    let ladder = fixture.get(&format!("/api/v1/events/{event}")).await;
    ladder.body["deliveries"][0]["disposition"].clone()
}

/// Ends a session and waits until the hub has noticed.
pub(super) async fn leave(fixture: &ChannelFixture, harness: Harness, name: &str) {
    drop(harness);
    let online = async || {
        let agent = fixture.hub.get(&format!("/agents/{name}"), Some(&fixture.anna)).await;
        agent.body["data"]["online"].clone()
    };
    eventually(online, |online| *online == json!(false)).await;
}

async fn who_comes_back(setup: &Setup) {
    let fixture = ChannelFixture::on(setup).await;
    let key = member(&fixture, "ada", &json!({})).await;
    let mut ada = Harness::connect(&fixture.hub, &key).await;
    // The agent has received one message, and another arrives while it is away.
    let taken = Message::say(&fixture, "@ada is the build red?").await;
    ada.delivered().await;
    leave(&fixture, ada, "ada").await;
    let missed = Message::say(&fixture, "@ada are you there?").await;
    for (message, content) in [(&taken, "@ada is the build green?"), (&missed, "@ada are you here?")] {
        message.change("@ada hm?").await;
        message.change(content).await;
    }
    let mut ada = Harness::connect(&fixture.hub, &key).await;
    for (message, content) in [(&taken, "@ada is the build green?"), (&missed, "@ada are you here?")] {
        let params = ada.delivered().await;
        assert_eq!((&params["supersedes"], text(&params)), (&json!(message.event), content));
        assert_eq!(params["attention"]["policy"], "must_respond");
    }
    ada.assert_quiet().await;
    assert_eq!(disposition(&fixture, &taken.event).await, "superseded");
}

#[tokio::test]
async fn who_comes_back_is_given_the_newest_version_alone() {
    who_comes_back(&Setup::new()).await;
}

#[tokio::test]
async fn who_comes_back_is_given_the_newest_version_alone_on_postgres() {
    who_comes_back(&Setup::postgres()).await;
}

/// Edits are classified again for an absent agent too, whatever transport it returns by.
#[tokio::test]
async fn who_is_away_is_not_asked_what_is_for_another_by_now() {
    let fixture = ChannelFixture::start().await;
    let (ada, bob) = (member(&fixture, "ada", &json!({})).await, member(&fixture, "bob", &json!({})).await);
    let message = Message::say(&fixture, "@ada check the build please?").await;
    let still = Message::say(&fixture, "@ada and the tests?").await;
    message.change("@bob check the build please?").await;
    still.change("@ada please run the tests, urgently").await;
    let mut inbox = fixture.hub.inbox(&ada, None).await;
    let chat = inbox.event("chat").await;
    assert_eq!(chat["event"]["content"], "@ada please run the tests, urgently");
    assert_eq!((&chat["handle"], &chat["attention"]["policy"]), (&json!("ada"), &json!("must_respond")));
    inbox.assert_quiet().await;
    let mut bob = Harness::connect(&fixture.hub, &bob).await;
    assert_eq!(bob.delivered().await["eventId"], json!(message.event));
}

#[tokio::test]
async fn what_was_changed_and_then_deleted_is_not_shown() {
    let fixture = ChannelFixture::start().await;
    let key = member(&fixture, "ada", &json!({})).await;
    let mut ada = Harness::connect(&fixture.hub, &key).await;
    fixture.say("@ada hello?").await;
    ada.delivered().await;
    leave(&fixture, ada, "ada").await;
    let message = Message::say(&fixture, "@ada the key is wrong?").await;
    message.change("@ada the key is still wrong?").await;
    message.delete().await;
    let (_, stands) = (message, Message::say(&fixture, "@ada are you there?").await);
    let mut ada = Harness::connect(&fixture.hub, &key).await;
    assert_eq!(ada.delivered().await["eventId"], json!(stands.event));
    ada.assert_quiet().await;
}

async fn taken_back_meanwhile(setup: &Setup) {
    let fixture = ChannelFixture::on(setup).await;
    let key = member(&fixture, "ada", &json!({})).await;
    let mut ada = Harness::connect(&fixture.hub, &key).await;
    let (first, second) = (
        Message::say(&fixture, "@ada drop the table?").await,
        Message::say(&fixture, "@ada and the other?").await,
    );
    let (told, answered) =
        (Message::say(&fixture, "@ada still there?").await, Message::say(&fixture, "@ada hello?").await);
    for _ in 0..4 {
        ada.delivered().await;
    }
    ada.done("chat.resolve", json!({"eventId": answered.event})).await;
    told.delete().await;
    assert_eq!(ada.notified("notifications/cancelled").await["eventId"], json!(told.event));
    leave(&fixture, ada, "ada").await;
    second.change("@ada and the second?").await;
    for message in [&first, &second, &answered] {
        message.delete().await;
    }
    let mut ada = Harness::connect(&fixture.hub, &key).await;
    // It never received the edit of the second.
    for message in [&first, &second] {
        let cancelled = ada.notified("notifications/cancelled").await;
        assert_eq!(cancelled["eventId"], json!(message.event), "{cancelled}");
    }
    ada.assert_quiet().await;
    // The agent was notified once: another session is not.
    leave(&fixture, ada, "ada").await;
    Harness::connect(&fixture.hub, &key).await.assert_quiet().await;
}

#[tokio::test]
async fn who_comes_back_is_told_what_was_taken_back_meanwhile() {
    taken_back_meanwhile(&Setup::new()).await;
}

#[tokio::test]
async fn who_comes_back_is_told_what_was_taken_back_meanwhile_on_postgres() {
    taken_back_meanwhile(&Setup::postgres()).await;
}

/// An edit of an answered message knocks, and the agent may ignore it.
#[tokio::test]
async fn what_was_answered_knocks_when_it_is_changed() {
    let fixture = ChannelFixture::start().await;
    let key = member(&fixture, "ada", &json!({})).await;
    let mut ada = Harness::connect(&fixture.hub, &key).await;
    let message = Message::say(&fixture, "@ada deploy to staging?").await;
    ada.delivered().await;
    let sent = json!({"target": {"conversationId": fixture.channel}, "idempotencyKey": "a", "text": "done",
        "visibility": "thread", "directedness": "to_me", "inReplyTo": message.event});
    ada.done("chat.send_message", sent).await;
    let change = message.change("@ada deploy to production?").await;
    let knock = ada.delivered().await;
    assert_eq!(
        (&knock["eventId"], &knock["supersedes"], &knock["injection"]["mode"]),
        (&json!(change), &json!(message.event), &json!("notify"))
    );
    assert_eq!(
        (&knock["attention"]["policy"], &knock["attention"]["reason"]),
        (&json!("may_respond"), &json!("edited_after_response"))
    );
    assert_eq!(disposition(&fixture, &message.event).await, "responded");
    // If nothing is asked any more, the agent is left alone.
    message.change("never mind").await;
    assert_eq!(ada.notified("notifications/cancelled").await["eventId"], json!(change));
    ada.assert_quiet().await;
}

/// An agent that is named, removed and named again is asked again.
#[tokio::test]
async fn a_mention_that_comes_back_wakes() {
    let fixture = ChannelFixture::start().await;
    let (ada, bob) = (member(&fixture, "ada", &json!({})).await, member(&fixture, "bob", &json!({})).await);
    let mut ada = Harness::connect(&fixture.hub, &ada).await;
    let mut inbox = fixture.hub.inbox(&bob, None).await;
    let message = Message::say(&fixture, "@ada @bob look at the build?").await;
    ada.delivered().await;
    inbox.event("chat").await;
    message.change("the build is fine").await;
    ada.notified("notifications/cancelled").await;
    let change = message.change("@ada @bob it is not, look at it?").await;
    let params = ada.delivered().await;
    assert_eq!((&params["eventId"], &params["supersedes"]), (&json!(change), &json!(message.event)));
    assert_eq!(inbox.event("chat").await["event"]["content"], "@ada @bob it is not, look at it?");
}

/// Repeating a reaction counts for the edit, if there is no other reaction to it.
#[tokio::test]
async fn a_reaction_that_stands_counts_for_the_change() {
    let fixture = ChannelFixture::start().await;
    let key = member(&fixture, "ada", &json!({})).await;
    let mut ada = Harness::connect(&fixture.hub, &key).await;
    let message = Message::say(&fixture, "@ada run the tests?").await;
    ada.delivered().await;
    let queued = |event: &str| json!({"inReplyTo": event, "signal": "queued"});
    ada.done("chat.react", queued(&message.event)).await;
    assert_eq!(disposition(&fixture, &message.event).await, "deferred");
    let change = message.change("@ada run all of the tests?").await;
    assert_eq!(ada.delivered().await["supersedes"], json!(message.event));
    assert_eq!(disposition(&fixture, &change).await, Value::Null);
    ada.done("chat.react", queued(&change)).await;
    assert_eq!(disposition(&fixture, &change).await, "deferred");
    let log = fixture.get(&format!("/api/v1/channels/{}/events?kind=reaction", fixture.channel)).await;
    assert_eq!(
        log.body["items"].as_array().unwrap().len(),
        1,
        "it is the reaction that stands: {}",
        log.text
    );
}

/// A person's addition to a thread knocks at the agents addressed there. Others only learn that the thread
/// continues.
#[tokio::test]
async fn what_is_added_to_a_thread_knocks_by_priority() {
    let fixture = ChannelFixture::start().await;
    let (ada, bob) = (member(&fixture, "ada", &json!({})).await, member(&fixture, "bob", &json!({})).await);
    let mut ada = Harness::connect(&fixture.hub, &ada).await;
    let mut bob = Harness::connect(&fixture.hub, &bob).await;
    let began = fixture.say("@ada is the build red?").await;
    ada.delivered().await;
    let path = format!("/api/v1/channels/{}/messages", fixture.channel);
    let in_thread = async |content: &str| {
        let body = json!({"content": content, "thread": began});
        let said = fixture.hub.post(&path, Some(&fixture.anna), &body).await;
        assert_eq!(said.status, 201, "{}", said.text);
    };
    let answer = |text: &str, event: &Value| {
        json!({"target": {"conversationId": fixture.channel}, "idempotencyKey": "a", "text": text,
            "visibility": "thread", "directedness": "to_other", "inReplyTo": event})
    };
    ada.done("chat.send_message", answer("it is", &json!(began))).await;
    in_thread("@bob and the tests?").await;
    let asked = bob.delivered().await;
    bob.done("chat.send_message", answer("they are", &asked["eventId"])).await;
    in_thread("I meant those of the parser").await;
    for (harness, priority) in [(&mut bob, "normal"), (&mut ada, "low")] {
        let knock = harness.delivered().await;
        assert_eq!(
            (&knock["attention"]["reason"], &knock["attention"]["policy"], &knock["injection"]["mode"]),
            (&json!("thread_participation"), &json!("may_respond"), &json!("notify")),
            "{knock}"
        );
        assert_eq!(knock["knock"]["priority"], priority, "{knock}");
    }
}
