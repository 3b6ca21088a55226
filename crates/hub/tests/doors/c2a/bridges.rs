//! A message from outside this hub's conversations is answered at its origin by `chat.send_message`.

use super::harness::{Harness, text};
use crate::channel_fixture::{ChannelFixture, MINUTE};
use crate::support::{HOST, SOON, eventually};
use chorus_testkit::receiver::{FakeAgent, Reply};
use serde_json::{Value, json};

fn reply(params: &Value, key: &str, text: &str) -> Value {
    json!({"target": {"conversationId": params["conversation"]["id"]}, "inReplyTo": params["eventId"],
        "idempotencyKey": key, "visibility": "dm", "directedness": "to_me", "text": text})
}

#[tokio::test]
async fn an_envelope_is_answered_by_an_envelope() {
    let fixture = ChannelFixture::start().await;
    let (alice, bob) = (fixture.hub.register("alice").await, fixture.hub.register("bob").await);
    let mallory = fixture.hub.register("mallory").await;
    let mut inbox = fixture.hub.inbox(&alice, None).await;
    let mut bob = Harness::connect(&fixture.hub, &bob).await;
    fixture.hub.send(&alice, "alice", "bob", "Coffee?").await;
    let params = bob.delivered().await;
    assert_eq!((text(&params), &params["conversation"]["kind"]), ("Coffee?", &json!("dm")));
    let answer = reply(&params, "k1", "Gladly.");
    let sent = bob.done("chat.send_message", answer.clone()).await;
    assert_eq!(sent["delivery"], "delivered_sse", "{sent}");
    assert_eq!(bob.done("chat.send_message", answer.clone()).await, sent, "once for the same key");
    let mut other = answer.clone();
    other["text"] = json!("No.");
    assert_eq!(bob.refused("chat.send_message", other).await, "idempotency_conflict");
    let (_, message) = inbox.message().await;
    assert_eq!(message["envelope"]["original_text"], "Gladly.");
    assert_eq!(message["envelope"]["sender_id"], json!(format!("bob@{HOST}")));
    // Another reply, with nothing in between.
    bob.done("chat.send_message", reply(&params, "k2", "When?")).await;
    assert_eq!(inbox.message().await.1["envelope"]["original_text"], "When?");
    // Another agent can neither answer the envelope nor learn that it exists, and it cannot be answered
    // elsewhere.
    let mut mallory = Harness::connect(&fixture.hub, &mallory).await;
    let guessed = mallory.refused("chat.send_message", reply(&params, "k1", "Me too!")).await;
    let mut nowhere = reply(&params, "k1", "Me too!");
    nowhere["inReplyTo"] = json!("evt_00000000000000000000000000000000");
    assert_eq!(guessed, mallory.refused("chat.send_message", nowhere).await);
    let mut astray = reply(&params, "k3", "Here?");
    astray["target"]["conversationId"] = json!(fixture.channel);
    assert_eq!(bob.refused("chat.send_message", astray).await, "invalid_arguments");
    let long = reply(&params, "k4", &"x".repeat(10_001));
    assert_eq!(bob.refused("chat.send_message", long).await, "invalid_arguments");
    // A sender that blocked the agent, or has gone, is not reached.
    let blocked = fixture.hub.post("/api/v1/me/blocks", Some(&alice), &json!({"who": "bob"})).await;
    assert!((200..300).contains(&blocked.status), "{}", blocked.text);
    assert_eq!(bob.refused("chat.send_message", reply(&params, "k5", "Still?")).await, "blocked");
}

#[tokio::test]
async fn a_foreign_post_is_answered_at_its_callback() {
    let (fixture, service) = (ChannelFixture::start().await, FakeAgent::start().await);
    let made = fixture.agent(&json!({"name": "timber"})).await;
    let mut timber = Harness::connect(&fixture.hub, made["api_key"].as_str().unwrap()).await;
    let post = json!({"channel": {"id": "C04ABCDEF", "name": "general", "service": "Slack"},
        "message": {"id": "m1", "sender": "alice", "content": "hello"},
        "callback": format!("http://{}/cb/C04ABCDEF/tok_abc123", service.addr())});
    assert_eq!(fixture.call_back(&made["connection_string"], &post).await.status, 200);
    let params = timber.delivered().await;
    assert_eq!(text(&params), "hello");
    assert!(!params.to_string().contains("tok_abc123"), "a callback is the hub's to keep");
    let answer = reply(&params, "k1", "hi, alice");
    // A reply that the service cannot accept now is retried under the same key.
    service.set(Reply::Json(503, json!({})));
    assert_eq!(timber.refused("chat.send_message", answer.clone()).await, "unavailable");
    service.set(Reply::Json(200, json!({"ok": true})));
    let sent = timber.done("chat.send_message", answer.clone()).await;
    assert_eq!(sent["delivery"], "delivered", "{sent}");
    assert_eq!(timber.done("chat.send_message", answer.clone()).await, sent);
    let mut other = answer;
    other["text"] = json!("bye");
    assert_eq!(timber.refused("chat.send_message", other).await, "idempotency_conflict");
    let requests = service.wait_for(2, SOON).await;
    assert_eq!(requests.len(), 2);
    for request in &requests {
        assert_eq!(request.path, "/cb/C04ABCDEF/tok_abc123");
        assert_eq!(request.body, json!({"type": "message", "content": "hi, alice"}));
        assert!(request.headers.contains_key("webhook-signature"));
    }
    let key = |n: usize| requests[n].headers["idempotency-key"].clone();
    assert_eq!(key(0), key(1), "the service knows it again");
    service.set(Reply::Json(410, json!({})));
    assert_eq!(timber.refused("chat.send_message", reply(&params, "k2", "late")).await, "not_found");
}

/// The post is for this agent alone, and its text is classified like any other message.
#[tokio::test]
async fn a_foreign_post_is_decided_on_like_a_direct_message() {
    let (fixture, clock) = ChannelFixture::with_clock().await;
    let service = FakeAgent::start().await;
    let made = fixture.agent(&json!({"name": "timber"})).await;
    let mut timber = Harness::connect(&fixture.hub, made["api_key"].as_str().unwrap()).await;
    let mut given = vec![];
    for (id, content, expected) in [
        ("m1", "is the deploy blocked?", json!(["must_respond", "direct_message", "buffered"])),
        ("m2", "thanks!", json!(["ack_only", "thanks", "buffered"])),
    ] {
        let post = json!({"channel": {"id": "C04ABCDEF"}, "callback": format!("http://{}/cb", service.addr()),
            "message": {"id": id, "sender": "alice", "content": content}});
        assert_eq!(fixture.call_back(&made["connection_string"], &post).await.status, 200);
        let params = timber.delivered().await;
        let attention = &params["attention"];
        let found = json!([attention["policy"], attention["reason"], params["injection"]["mode"]]);
        assert_eq!(found, expected, "{params}");
        assert_eq!(attention["deadlineMs"], 300_000);
        given.push(params);
    }
    let essay = "a".repeat(201);
    assert_eq!(timber.refused("chat.send_message", reply(&given[1], "k1", &essay)).await, "policy_forbidden");
    // It is for nobody else: it expires without an escalation.
    let event = given[0]["eventId"].as_str().unwrap().to_owned();
    let stands = async || {
        clock.set(clock.now() + MINUTE);
        let listed = events_of(&fixture, made["api_key"].as_str().unwrap()).await;
        let found = listed.as_array().unwrap().iter().find(|one| one["eventId"] == event.as_str());
        found.cloned().unwrap_or_default()
    };
    eventually(stands, |found| found["attention"]["policy"] == "may_respond").await;
    eventually(stands, |found| found["disposition"] == "ignored").await;
    timber.assert_quiet().await;
}

async fn events_of(fixture: &ChannelFixture, key: &str) -> Value {
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "chat.list_events", "arguments": {}}});
    let listed = fixture.hub.post("/c2a", Some(key), &call).await;
    listed.body["result"]["structuredContent"]["events"].clone()
}
