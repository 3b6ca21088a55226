//! The bridges between the relay and the Channel Protocol: each translates into the other.

use crate::channel_fixture::ChannelFixture;
use crate::support::{HOST, SOON, envelope};
use chorus_testkit::receiver::FakeAgent;
use serde_json::{Value, json};

/// Every cell of the bridge table for relay and channel, over real sockets.
#[tokio::test]
async fn bridges_to_an_inbox() {
    let fixture = ChannelFixture::start().await;
    let made = fixture.agent(&json!({"name": "timber"})).await;
    fixture.join(&fixture.channel, "timber").await;
    let alice = fixture.hub.register("alice").await;
    let mut inbox = fixture.hub.inbox(made["api_key"].as_str().unwrap(), None).await;

    assert_eq!(fixture.hub.send(&alice, "alice", "timber", "hello").await.outcome(), (200, "delivered_sse"));
    let (_, message) = inbox.message().await;
    assert_eq!(message["envelope"], envelope("alice", "hello"));

    let event = fixture.say("@timber hello").await;
    let chat = inbox.event("chat").await;
    assert_eq!(
        (&chat["event"]["event_id"], &chat["event"]["content"]),
        (&json!(event), &json!("@timber hello"))
    );
    assert_eq!(
        (&chat["channel"]["id"], &chat["attention"]["reason"]),
        (&json!(fixture.channel), &json!("direct_mention"))
    );
    assert_eq!(
        fixture.call_back(&chat["callback"], &json!({"type": "message", "content": "hi"})).await.status,
        200
    );
    let delivery = fixture.delivery_is(&event, "delivered_sse").await;
    assert_eq!((&delivery["transport"], &delivery["disposition"]), (&json!("inbox"), &json!("responded")));

    let post = foreign("m1");
    let answer = fixture.call_back(&made["connection_string"], &post).await;
    assert_eq!((answer.status, &answer.body), (200, &json!({"ok": true})));
    let mut channel = inbox.event("channel").await;
    let trace = channel.as_object_mut().unwrap().remove("trace_id").unwrap();
    assert_eq!((channel, trace.as_str().unwrap().len()), (post, 32));
}

#[tokio::test]
async fn bridges_to_a_webhook() {
    let (fixture, hook) = (ChannelFixture::start().await, FakeAgent::start().await);
    let made = fixture.agent(&json!({"name": "timber", "endpoint": hook.url()})).await;
    fixture.join(&fixture.channel, "timber").await;
    let alice = fixture.hub.register("alice").await;

    assert_eq!(fixture.hub.send(&alice, "alice", "timber", "hello").await.outcome(), (200, "delivered"));
    let event = fixture.say("@timber hello").await;
    hook.wait_for(2, SOON).await;
    assert_eq!(fixture.call_back(&made["connection_string"], &foreign("m1")).await.status, 200);
    let requests = hook.wait_for(3, SOON).await;
    assert_eq!(requests[0].body, json!({"envelope": envelope("alice", "hello")}));
    let chat = &requests[1].body;
    assert_eq!(
        (&chat["event"]["event_id"], &chat["attention"]["reason"]),
        (&json!(event), &json!("direct_mention"))
    );
    assert_eq!(
        fixture.call_back(&chat["callback"], &json!({"type": "message", "content": "hi"})).await.status,
        200
    );
    assert_eq!(fixture.log().await.last().unwrap()["content"], "hi");
    assert_eq!(requests[2].body, foreign("m1"), "as it was received, and nothing besides");
}

#[tokio::test]
async fn bridges_to_a_connection_string() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    let made = fixture.connected("timber", &timber).await;
    let alice = fixture.hub.register("alice").await;

    let sent = fixture.hub.send(&alice, "alice", "timber", "hello").await;
    assert_eq!(sent.outcome(), (200, "delivered"));
    let event = fixture.say("@timber hello").await;
    timber.wait_for(2, SOON).await;
    assert_eq!(fixture.call_back(&made["connection_string"], &foreign("m1")).await.status, 200);
    let requests = timber.wait_for(3, SOON).await;
    let dm = &requests[0].body;
    let address = format!("alice@{HOST}");
    assert_eq!((&dm["message"]["sender"], &dm["message"]["content"]), (&json!(address), &json!("hello")));
    assert!(dm["channel"]["context"].as_str().unwrap().contains("culture en"), "{dm}");
    assert_eq!(requests[1].body["message"]["id"], event);
    assert_eq!(requests[2].body, foreign("m1"));
    assert!(requests.iter().all(|request| request.path == "/inbox/sk_secret"));

    // The callback's message is returned as an envelope.
    let mut inbox = fixture.hub.inbox(&alice, None).await;
    let answer = fixture.call_back(&dm["callback"], &json!({"type": "message", "content": "hi"})).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let (_, message) = inbox.message().await;
    assert_eq!(message["sender_id"], format!("timber@{HOST}"));
    assert_eq!(message["trace_id"], sent.data()["trace_id"]);
    let mut answer = envelope(&format!("timber@{HOST}"), "hi");
    answer["reply_depth"] = json!(1);
    assert_eq!(message["envelope"], answer);
}

fn foreign(id: &str) -> Value {
    json!({
        "channel": {"id": "C04ABCDEF", "name": "general", "service": "Slack"},
        "message": {"id": id, "sender": "alice", "content": "hello"},
        "callback": "https://slack-adapter.example.com/cb/C04ABCDEF/tok_abc123",
        "novelty": {"large": 12_345_678_901_234_567_890_u64}
    })
}
