//! Messages of an agent that need approval, over a real WebSocket.

use super::harness::Harness;
use super::sessions::member;
use crate::channel_fixture::{ChannelFixture, HOUR};
use crate::support::Setup;
use serde_json::{Value, json};

fn held(fixture: &ChannelFixture, key: &str, text: &str) -> Value {
    json!({"target": {"conversationId": fixture.channel}, "idempotencyKey": key, "visibility": "channel",
        "directedness": "to_me", "text": text, "requiresApproval": true})
}

async fn decide(fixture: &ChannelFixture, id: &str, word: &str, body: Value) -> Value {
    let path = format!("/api/v1/approvals/{id}/{word}");
    let decided = fixture.hub.post(&path, Some(&fixture.anna), &body).await;
    assert_eq!(decided.status, 200, "{}", decided.text);
    decided.body
}

/// The whole path: held, invisible, approved, posted, and both agents notified.
async fn a_person_agrees(setup: &Setup) {
    let fixture = ChannelFixture::on(setup).await;
    let (lead, bob) = (member(&fixture, "lead", &json!({})).await, member(&fixture, "bob", &json!({})).await);
    let mut lead = Harness::connect(&fixture.hub, &lead).await;
    let mut bob = Harness::connect(&fixture.hub, &bob).await;
    let ask = held(&fixture, "k1", "@bob drop the old table, key ca_00112233445566778899aabbccddeeff");
    let sent = lead.done("chat.send_message", ask.clone()).await;
    assert_eq!((&sent["awaitsApproval"], sent.get("sequence")), (&json!(true), None), "{sent}");
    assert_eq!(sent["masked"], json!(["agent key"]), "{sent}");
    assert_eq!(lead.done("chat.send_message", ask).await, sent, "the same again is the same");
    let id = sent["eventId"].as_str().unwrap().to_owned();
    bob.assert_quiet().await;
    assert_eq!(fixture.log().await.len(), 0, "nothing is said yet");
    let seen = bob.done("chat.list_events", json!({"conversationId": fixture.channel})).await;
    assert!(!seen.to_string().contains("old table"), "{seen}");

    let agreed = decide(&fixture, &id, "agree", json!({})).await;
    assert_eq!((&agreed["state"], &agreed["decided_by"]), (&json!("agreed"), &json!("anna")));
    let given = bob.delivered().await;
    assert_eq!(
        (&given["eventId"], &given["attention"]["policy"]),
        (&agreed["event_id"], &json!("must_respond"))
    );
    assert_eq!(given["author"]["displayName"], "lead");
    let told = lead.delivered().await;
    assert_eq!((&told["inReplyTo"], &told["attention"]["reason"]), (&json!(id), &json!("inbound_reaction")));
    assert_eq!(
        (&told["injection"]["mode"], &told["author"]["kind"]),
        (&json!("immediate"), &json!("system"))
    );
    assert!(told.to_string().contains("anna agreed"), "{told}");

    let log = fixture.log().await;
    assert_eq!(log.len(), 1, "{log:?}");
    assert_eq!(
        (&log[0]["author"]["handle"], &log[0]["approved_by"]["handle"]),
        (&json!("lead"), &json!("anna"))
    );
    assert_eq!(log[0]["masked"], json!(["agent key"]), "{}", log[0]);
    assert!(!log[0].to_string().contains("00112233"), "{}", log[0]);
    // Approving again returns the same; declining is too late.
    assert_eq!(decide(&fixture, &id, "agree", json!({})).await["event_id"], agreed["event_id"]);
    let late =
        fixture.hub.post(&format!("/api/v1/approvals/{id}/decline"), Some(&fixture.anna), &json!({})).await;
    assert_eq!(
        (late.status, &late.body["error"]["details"]["state"]),
        (409, &json!("agreed")),
        "{}",
        late.text
    );
    assert_eq!(fixture.log().await.len(), 1);
    lead.assert_quiet().await;
}

#[tokio::test]
async fn a_person_agrees_and_it_is_said_then() {
    a_person_agrees(&Setup::new()).await;
}

#[tokio::test]
async fn a_person_agrees_and_it_is_said_then_on_postgres() {
    a_person_agrees(&Setup::postgres()).await;
}

#[tokio::test]
async fn what_is_declined_or_comes_to_nothing_is_told_to_its_author_alone() {
    let (fixture, clock) = ChannelFixture::with_clock().await;
    let (lead, bob) = (member(&fixture, "lead", &json!({})).await, member(&fixture, "bob", &json!({})).await);
    let mut lead = Harness::connect(&fixture.hub, &lead).await;
    let mut bob = Harness::connect(&fixture.hub, &bob).await;
    let id = lead.done("chat.send_message", held(&fixture, "k1", "@bob go")).await["eventId"].clone();
    decide(&fixture, id.as_str().unwrap(), "decline", json!({"reason": "not on a Friday"})).await;
    let told = lead.delivered().await;
    assert_eq!((&told["inReplyTo"], &told["injection"]["mode"]), (&id, &json!("immediate")), "{told}");
    assert!(told.to_string().contains("anna declined your message: not on a Friday"), "{told}");

    let id = lead.done("chat.send_message", held(&fixture, "k2", "@bob go on")).await["eventId"].clone();
    clock.set(clock.now() + 24 * HOUR);
    let told = lead.delivered().await;
    assert_eq!((&told["inReplyTo"], &told["author"]["kind"]), (&id, &json!("system")), "{told}");
    assert!(told.to_string().contains("nobody agreed"), "{told}");
    let late = format!("/api/v1/approvals/{}/agree", id.as_str().unwrap());
    let late = fixture.hub.post(&late, Some(&fixture.anna), &json!({})).await;
    assert_eq!(
        (late.status, &late.body["error"]["details"]["state"]),
        (409, &json!("expired")),
        "{}",
        late.text
    );
    bob.assert_quiet().await;
    assert_eq!(fixture.log().await.len(), 0);
}

#[tokio::test]
async fn what_is_only_for_who_looks_wakes_no_agent() {
    let fixture = ChannelFixture::start().await;
    let (lead, bob) = (member(&fixture, "lead", &json!({})).await, member(&fixture, "bob", &json!({})).await);
    let mut lead = Harness::connect(&fixture.hub, &lead).await;
    let mut bob = Harness::connect(&fixture.hub, &bob).await;
    let passing = json!({"target": {"conversationId": fixture.channel}, "idempotencyKey": "e1",
        "visibility": "ephemeral", "directedness": "to_me", "text": "@bob please look, now"});
    let sent = lead.done("chat.send_message", passing.clone()).await;
    assert_eq!((&sent["ephemeral"], sent.get("sequence")), (&json!(true), None), "{sent}");
    bob.assert_quiet().await;
    assert_eq!(fixture.log().await.len(), 0);
    // A message cannot be both ephemeral and held for approval.
    let mut both = passing;
    (both["requiresApproval"], both["idempotencyKey"]) = (json!(true), json!("e2"));
    assert_eq!(lead.refused("chat.send_message", both).await, "invalid_arguments");
}
