//! Ephemeral messages: shown on every node at that moment, and afterwards only in the audit log.

use crate::channel_fixture::ChannelFixture;
use crate::recovery::acts;
use crate::support::{Answer, Setup};
use chorus_protocol::code::Code;
use serde_json::{Value, json};

async fn show(fixture: &ChannelFixture, key: &str, body: &Value) -> Answer {
    let path = format!("/api/v1/channels/{}/messages", fixture.channel);
    fixture.hub.post(&path, Some(key), body).await
}

async fn seen_and_gone(setup: &Setup, second_node: bool) {
    let fixture = ChannelFixture::on(setup).await;
    let other = second_node.then(|| setup.start());
    let there = other.as_ref().unwrap_or(&fixture.hub);
    let bot = fixture.hub.register("bot").await;
    let watcher = fixture.hub.register("watcher").await;
    for name in ["bot", "watcher"] {
        fixture.join(&fixture.channel, name).await;
    }
    let path = format!("/api/v1/channels/{}", fixture.channel);
    let mut here = fixture.hub.follow(&path, &fixture.anna, None).await;
    let mut there_too = there.follow(&path, &watcher, None).await;
    let mut inbox = there.inbox(&watcher, None).await;
    let text = "@watcher a passing fox, ca_00112233445566778899aabbccddeeff";
    let shown = show(&fixture, &bot, &json!({"content": text, "ephemeral": true})).await;
    assert_eq!((shown.status, &shown.body["status"]), (202, &json!("ephemeral")), "{}", shown.text);
    assert_eq!(shown.body["masked"], json!(["agent key"]));
    for stream in [&mut here, &mut there_too] {
        let event = stream.event("ephemeral").await;
        assert_eq!(
            (&event["author"]["handle"], &event["event_id"]),
            (&json!("bot"), &shown.body["event_id"])
        );
        let content = event["content"].as_str().unwrap();
        assert!(content.contains("a passing fox") && !content.contains("00112233"), "{event}");
    }
    // The message wakes nobody, and later readers find nothing.
    inbox.assert_quiet().await;
    let mut late = fixture.hub.follow(&path, &fixture.anna, Some("0")).await;
    while let Some(event) = late.sse.next(std::time::Duration::from_millis(200)).await {
        assert!(!event.data.contains("fox"), "{event:?}");
    }
    assert_eq!(fixture.log().await.len(), 0);
    for empty in ["/api/v1/search?q=fox", "/api/v1/unread", "/api/v1/deliveries"] {
        assert_eq!(fixture.get(empty).await.body["items"], json!([]), "{empty}");
    }
    let written = acts(&fixture.hub, "action=", "message.shown").await;
    assert_eq!(written.len(), 1, "{written:?}");
    let detail = &written[0]["detail"];
    assert!(detail["content"].as_str().unwrap().contains("a passing fox"), "{detail}");
    assert!(!detail.to_string().contains("00112233"), "{detail}");
    // The channel owner, who may not have been watching, sees that there was a message but not its text.
    let owner = fixture.get(&format!("/api/v1/audit?channel={}", fixture.channel)).await;
    assert!(owner.text.contains("message.shown") && !owner.text.contains("fox"), "{}", owner.text);
}

#[tokio::test]
async fn seen_by_who_looks_and_then_gone() {
    seen_and_gone(&Setup::new(), false).await;
}

#[tokio::test]
async fn seen_by_who_looks_on_two_nodes_and_then_gone() {
    seen_and_gone(&Setup::postgres(), true).await;
}

#[tokio::test]
async fn what_passes_by_is_limited_like_what_stays() {
    let fixture = ChannelFixture::on(&Setup::new().config(|config| config.rate_limit = Some(6000))).await;
    let bot = fixture.hub.register("bot").await;
    fixture.join(&fixture.channel, "bot").await;
    let passing = json!({"content": "psst", "ephemeral": true});
    let eve = fixture.hub.account("eve@example.org").await;
    assert_eq!(show(&fixture, &eve, &passing).await.status, 404, "only members");
    let long = json!({"content": "x".repeat(6_000), "ephemeral": true});
    show(&fixture, &bot, &long).await.own_failure(Code::Validation);
    let asked = fixture.say("@bot?").await;
    let answer = json!({"content": "psst", "ephemeral": true, "reply_to": asked});
    show(&fixture, &bot, &answer).await.own_failure(Code::Validation);
    let both = json!({"content": "psst", "ephemeral": true, "requires_approval": true});
    show(&fixture, &bot, &both).await.own_failure(Code::Validation);
    let mut last = 202;
    for _ in 0..40 {
        last = show(&fixture, &bot, &passing).await.status;
        if last != 202 {
            break;
        }
    }
    assert_eq!(last, 429);
}

/// An agent outside a thread that addresses another cannot post there, ephemeral or not; a dry run reports it.
#[tokio::test]
async fn what_passes_by_answers_nothing_that_may_not_be_answered() {
    let fixture = ChannelFixture::start().await;
    let bot = fixture.hub.register("bot").await;
    let other = fixture.hub.register("other").await;
    for name in ["bot", "other"] {
        fixture.join(&fixture.channel, name).await;
    }
    let asked = fixture.say("@bot please restart the cache").await;
    let in_thread =
        |ephemeral: bool| json!({"content": "I could do that", "thread": asked, "ephemeral": ephemeral});
    let dry = format!("/api/v1/channels/{}/messages?dry_run=true", fixture.channel);
    let passing = in_thread(true);
    show(&fixture, &other, &in_thread(false)).await.own_failure(Code::PolicyForbidden);
    show(&fixture, &other, &passing).await.own_failure(Code::PolicyForbidden);
    for body in [&passing, &in_thread(false)] {
        fixture.hub.post(&dry, Some(&other), body).await.own_failure(Code::PolicyForbidden);
        assert_eq!(fixture.hub.post(&dry, Some(&bot), body).await.status, 200);
    }
    assert_eq!(show(&fixture, &bot, &passing).await.status, 202);
}
