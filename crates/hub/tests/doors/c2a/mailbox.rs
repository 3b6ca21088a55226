//! `chat.list_events` without a conversation: everything addressed to an agent, page by page.

use super::harness::{Harness, text};
use super::sessions::member;
use crate::channel_fixture::ChannelFixture;
use serde_json::{Value, json};

fn texts(page: &Value) -> Vec<&str> {
    page["events"].as_array().unwrap().iter().map(text).collect()
}

#[tokio::test]
async fn the_mailbox_has_what_was_delivered_and_what_was_only_said() {
    let fixture = ChannelFixture::start().await;
    let lead = member(&fixture, "lead", &json!({})).await;
    let mut lead = Harness::connect(&fixture.hub, &lead).await;
    let other = fixture.hub.post("/api/v1/channels", Some(&fixture.anna), &json!({"name": "other"})).await;
    let other = other.body["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/channels/{other}");
    let added =
        fixture.hub.post(&format!("{path}/members"), Some(&fixture.anna), &json!({"agent": "lead"})).await;
    assert_eq!(added.status, 201, "{}", added.text);
    let ada = fixture.hub.register("ada").await;
    // One message after the other, in three conversations.
    fixture.say("@lead is the deploy blocked?").await;
    fixture
        .hub
        .post(&format!("{path}/messages"), Some(&fixture.anna), &json!({"content": "lunch is at noon"}))
        .await;
    fixture.hub.send(&ada, "ada", "lead", "Coffee?").await;
    fixture.say("the build is green").await;
    let all = ["@lead is the deploy blocked?", "lunch is at noon", "Coffee?", "the build is green"];
    let page = lead.done("chat.list_events", json!({})).await;
    assert_eq!(texts(&page), all);
    let envelope = &page["events"][2];
    assert_eq!(
        (&envelope["envelope"]["original_text"], &envelope["conversation"]["kind"]),
        (&json!("Coffee?"), &json!("dm"))
    );
    // A cursor stays valid, page by page and later.
    let mut after = Value::Null;
    let mut read = vec![];
    loop {
        let mut asked = json!({"limit": 1});
        if after.is_string() {
            asked["after"] = after.clone();
        }
        let page = lead.done("chat.list_events", asked).await;
        read.extend(texts(&page).into_iter().map(str::to_owned));
        after = page["next"].clone();
        if page["more"] != json!(true) {
            break;
        }
    }
    assert_eq!(read, all);
    assert_eq!(texts(&lead.done("chat.list_events", json!({"after": after})).await), [""; 0]);
    fixture.say("and one more thing").await;
    let news = lead.done("chat.list_events", json!({"after": after})).await;
    assert_eq!(texts(&news), ["and one more thing"]);
    let again = lead.done("chat.list_events", json!({"after": news["next"]})).await;
    assert_eq!(texts(&again), [""; 0]);
    // Filtered by response policy.
    let forbidden = lead.done("chat.list_events", json!({"policy": "must_not_respond"})).await;
    assert_eq!(texts(&forbidden), ["lunch is at noon", "the build is green", "and one more thing"]);
    let asked = lead.done("chat.list_events", json!({"policy": "must_respond"})).await;
    assert_eq!(texts(&asked), ["@lead is the deploy blocked?", "Coffee?"]);
    // Messages from before the agent joined are not listed.
    let late = member(&fixture, "late", &json!({})).await;
    let mut late = Harness::connect(&fixture.hub, &late).await;
    let seen = late.done("chat.list_events", json!({})).await;
    assert!(!texts(&seen).contains(&"Coffee?") && !texts(&seen).contains(&"lunch is at noon"), "{seen}");
    let left = fixture.hub.delete(&format!("{path}/members/lead"), Some(&fixture.anna)).await;
    assert!((200..300).contains(&left.status), "{}", left.text);
    let page = lead.done("chat.list_events", json!({})).await;
    assert!(!texts(&page).contains(&"lunch is at noon"), "{page}");
}

/// More events within one moment than a cursor names individually.
#[tokio::test]
async fn a_crowd_is_listed_once() {
    let fixture = ChannelFixture::start().await;
    let lead = member(&fixture, "lead", &json!({})).await;
    let mut lead = Harness::connect(&fixture.hub, &lead).await;
    let (mut said, mut read, mut asked) = (vec![], vec![], json!({}));
    for n in 0..45 {
        let text = format!("the build {n} is green");
        fixture.say(&text).await;
        said.push(text);
        if n % 9 == 8 {
            let page = lead.done("chat.list_events", asked).await;
            read.extend(texts(&page).into_iter().map(str::to_owned));
            asked = json!({"after": page["next"]});
        }
    }
    assert_eq!(read, said);
    assert_eq!(texts(&lead.done("chat.list_events", asked).await), [""; 0]);
}

#[tokio::test]
async fn what_nobody_knows_is_refused() {
    let fixture = ChannelFixture::start().await;
    let lead = member(&fixture, "lead", &json!({})).await;
    let mut lead = Harness::connect(&fixture.hub, &lead).await;
    for (tool, arguments) in [
        ("chat.list_events", json!({"polcy": "must_respond"})),
        ("chat.list_events", json!({"conversation_id": fixture.channel})),
        ("chat.list_events", json!({"after": "12"})),
        ("chat.list_events", json!({"after": "evt_1"})),
        ("chat.read_thread", json!({"conversationId": fixture.channel, "before": "1"})),
    ] {
        let result = lead.call(tool, arguments.clone()).await;
        assert_eq!(result["structuredContent"]["code"], "invalid_arguments", "{arguments} {result}");
    }
    let result = lead.call("chat.list_events", json!({"polcy": "must_respond"})).await;
    assert_eq!(result["structuredContent"]["message"], "polcy: there is no such argument");
}
