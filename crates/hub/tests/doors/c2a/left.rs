//! A removed member gets nothing more of the channel at any door, and has no open obligation there.

use super::harness::Harness;
use super::missed_edits::leave;
use super::sessions::member;
use crate::channel_fixture::ChannelFixture;
use crate::support::{Setup, eventually};
use serde_json::{Value, json};

async fn take_out(fixture: &ChannelFixture, handle: &str) {
    let path = format!("/api/v1/channels/{}/members/{handle}", fixture.channel);
    let removed = fixture.hub.delete(&path, Some(&fixture.anna)).await;
    assert_eq!(removed.status, 204, "{}", removed.text);
}

async fn disposition(fixture: &ChannelFixture, event: &str) -> Value {
    fixture.delivery(event).await["disposition"].clone()
}

/// Returns an agent's whole history as text.
async fn history(fixture: &ChannelFixture, key: &str) -> String {
    let page = fixture.hub.get("/agent/messages?kind=all", Some(key)).await;
    assert_eq!(page.status, 200, "{}", page.text);
    page.text
}

async fn what_was_not_taken_yet(setup: &Setup) {
    let fixture = ChannelFixture::on(setup).await;
    let (gone, stays) =
        (member(&fixture, "gone", &json!({})).await, member(&fixture, "stays", &json!({})).await);
    let event = fixture.say("@gone @stays TOPSECRET, can you look?").await;
    assert!(history(&fixture, &gone).await.contains("TOPSECRET"), "as long as it is there");
    take_out(&fixture, "gone").await;
    let path = format!("/api/v1/channels/{}", fixture.channel);
    let renamed = fixture.hub.ask("PATCH", &path, Some(&fixture.anna), &json!({"name": "hidden-ops"})).await;
    assert_eq!(renamed.status, 200, "{}", renamed.text);

    Harness::connect(&fixture.hub, &gone).await.assert_quiet().await;
    fixture.hub.inbox(&gone, Some("0")).await.assert_quiet().await;
    let history_then = history(&fixture, &gone).await;
    for word in ["TOPSECRET", "hidden-ops", "running", "callback", "Bearer"] {
        assert!(!history_then.contains(word), "{word} in {history_then}");
    }
    // A remaining member still gets it.
    assert_eq!(Harness::connect(&fixture.hub, &stays).await.delivered().await["eventId"], json!(event));
    let ladder = fixture.get(&format!("/api/v1/events/{event}")).await;
    let of_gone: Vec<_> = ladder.body["deliveries"].as_array().unwrap().iter().collect();
    let ended = of_gone.iter().filter(|one| one["disposition"] == "ignored").count();
    assert_eq!(ended, 1, "{}", ladder.text);
}

#[tokio::test]
async fn who_was_taken_out_is_not_given_what_waited_for_it() {
    what_was_not_taken_yet(&Setup::new()).await;
}

#[tokio::test]
async fn who_was_taken_out_is_not_given_what_waited_for_it_on_postgres() {
    what_was_not_taken_yet(&Setup::postgres()).await;
}

#[tokio::test]
async fn who_is_connected_is_told_and_has_no_say_any_more() {
    let fixture = ChannelFixture::start().await;
    let key = member(&fixture, "gone", &json!({})).await;
    let mut gone = Harness::connect(&fixture.hub, &key).await;
    let event = fixture.say("@gone TOPSECRET, can you look?").await;
    // The harness has received it without acknowledging it, so it would be sent again.
    gone.request().await;
    take_out(&fixture, "gone").await;
    let told = gone.notified("notifications/cancelled").await;
    assert_eq!(told["eventId"], json!(event), "{told}");
    eventually(async || disposition(&fixture, &event).await, |known| *known == json!("ignored")).await;
    gone.notify("notifications/disposition", json!({"eventId": event, "disposition": "responded"})).await;
    // Notifications are handled in order: this request is answered after it.
    gone.ask("tools/list", json!({})).await;
    assert_eq!(disposition(&fixture, &event).await, "ignored");
    leave(&fixture, gone, "gone").await;
    Harness::connect(&fixture.hub, &key).await.assert_quiet().await;
}

/// Deliveries encoded for a slow harness and not sent yet are not sent either.
#[tokio::test]
async fn what_waits_behind_the_window_is_not_sent() {
    let fixture = ChannelFixture::start().await;
    let key = member(&fixture, "gone", &json!({})).await;
    for n in 0..40 {
        fixture.say(&format!("@gone question {n}?")).await;
    }
    let mut gone = Harness::connect(&fixture.hub, &key).await;
    let mut taken = vec![];
    for _ in 0..32 {
        taken.push(gone.request().await);
    }
    take_out(&fixture, "gone").await;
    for _ in 0..40 {
        gone.notified("notifications/cancelled").await;
    }
    for request in &taken {
        gone.ack(request).await;
    }
    gone.assert_quiet().await;
}
