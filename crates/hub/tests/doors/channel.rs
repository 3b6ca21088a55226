//! The Channel Protocol as its document describes it: every example passes through the hub, and an agent
//! written from the document alone takes part.

use crate::channel_fixture::{ChannelFixture, HOUR};
use crate::support::{Answer, HOST, SOON, envelope, eventually};
use chorus_protocol::code::Code;
use chorus_testkit::receiver::FakeAgent;
use serde_json::{Value, json};

/// The three posts of the document, verbatim.
const POSTS: [&str; 3] = [
    include_str!("../../../protocol/src/channel/document/post_with_tools.json"),
    include_str!("../../../protocol/src/channel/document/post_without_tools.json"),
    include_str!("../../../protocol/src/channel/document/post_that_mentions.json"),
];

/// The callback events of the document, verbatim.
const EVENTS: [&str; 8] = [
    r#"{
  "type": "message",
  "content": "The weather in Oslo is 3°C and cloudy."
}"#,
    r#"{
  "type": "tool_call",
  "name": "web_search",
  "args": { "query": "oslo weather" },
  "id": "tc_001"
}"#,
    r#"{
  "type": "tool_result",
  "id": "tc_001",
  "content": "Oslo: 3°C, cloudy, wind 5m/s NW"
}"#,
    r#"{
  "type": "status",
  "status": "searching weather data"
}"#,
    r#"{
  "type": "error",
  "message": "Failed to connect to weather API",
  "code": "tool_error"
}"#,
    r#"{ "type": "message", "content": "Hello Alice!" }"#,
    r#"{ "type": "status", "status": "reviewing auth spec" }"#,
    r#"{ "type": "message", "content": "I've reviewed the auth spec. Two issues..." }"#,
];

pub(crate) async fn post_text(fixture: &ChannelFixture, url: &Value, kind: &str, body: &str) -> Answer {
    let request = fixture.hub.client.post(url.as_str().unwrap()).header("content-type", kind);
    Answer::of(request.body(body.to_owned())).await
}

pub(crate) async fn post_json(fixture: &ChannelFixture, url: &Value, body: &str) -> Answer {
    post_text(fixture, url, "application/json", body).await
}

pub(crate) fn message(text: &str) -> Value {
    json!({"type": "message", "content": text})
}

/// Creates an agent in the channel and mentions it. Returns the response to its creation, the event and the
/// callback.
pub(crate) async fn told(fixture: &ChannelFixture, timber: &FakeAgent) -> (Value, String, Value) {
    let made = fixture.connected("timber", timber).await;
    let event = fixture.say("@timber hello").await;
    let callback = timber.wait_for(1, SOON).await[0].body["callback"].clone();
    (made, event, callback)
}

#[tokio::test]
async fn the_documents_posts_reach_an_inbox() {
    let fixture = ChannelFixture::start().await;
    let made = fixture.agent(&json!({"name": "timber"})).await;
    let url = &made["connection_string"];
    assert!(url.as_str().unwrap().starts_with(&format!("{}/inbox/sk_", fixture.hub.url)));
    let mut inbox = fixture.hub.inbox(made["api_key"].as_str().unwrap(), None).await;
    for text in POSTS {
        let answer = post_json(&fixture, url, text).await;
        assert_eq!((answer.status, &answer.body), (200, &json!({"ok": true})), "{}", answer.text);
        let mut got = inbox.event("channel").await;
        assert_eq!(got.as_object_mut().unwrap().remove("trace_id").unwrap().as_str().unwrap().len(), 32);
        assert_eq!(got, serde_json::from_str::<Value>(text).unwrap());
    }
    // A retry may have a new callback, but has the same ids.
    let again = POSTS[1].replace("tok_abc123", "tok_fresh");
    assert_eq!(post_json(&fixture, url, &again).await.status, 200);
    inbox.assert_quiet().await;
    let other = POSTS[1].replace("msg_1", "msg_2");
    assert_eq!(post_json(&fixture, url, &other).await.status, 200);
    assert_eq!(inbox.event("channel").await["message"]["id"], "msg_2");
}

/// A message id is remembered for two days.
#[tokio::test]
async fn the_same_message_again_later() {
    let (fixture, clock) = ChannelFixture::with_clock().await;
    let made = fixture.agent(&json!({"name": "timber"})).await;
    for (wait, stored) in [(0, 1), (47 * HOUR, 1), (HOUR, 2)] {
        clock.advance(wait);
        assert_eq!(post_json(&fixture, &made["connection_string"], POSTS[1]).await.status, 200);
        let history = fixture.hub.history(made["api_key"].as_str().unwrap()).await;
        assert_eq!(history.len(), stored, "after {wait}");
        assert_eq!(history[0]["kind"], "channel");
    }
}

#[tokio::test]
async fn what_no_connection_string_takes() {
    let fixture = ChannelFixture::start().await;
    let made = fixture.agent(&json!({"name": "timber"})).await;
    let url = &made["connection_string"];
    let faults = post_json(&fixture, url, r#"{"channel": {}, "message": {"id": "", "sender": 1}}"#).await;
    let faults = faults.own_failure(Code::Validation);
    for name in ["channel.id", "message.id", "message.sender", "message.content", "callback"] {
        assert!(faults.contains(&format!("{name}: ")), "{name} in {faults}");
    }
    for text in ["", "{", "[]", "null", r#"{"a": 1, "a": 2}"#] {
        post_json(&fixture, url, text).await.own_failure(Code::Validation);
    }
    let large = POSTS[1].replace("hello", &"x".repeat(257 * 1024));
    post_json(&fixture, url, &large).await.own_failure(Code::TooLarge);
    for secret in ["sk_", "sk_00000000000000000000000000000000", "x", made["api_key"].as_str().unwrap()] {
        let url = json!(format!("{}/inbox/{secret}", fixture.hub.url));
        let unknown = post_json(&fixture, &url, POSTS[1]).await;
        assert!(!unknown.own_failure(Code::NotFound).contains(secret) || secret.len() < 4);
    }
    assert_eq!(fixture.hub.history(made["api_key"].as_str().unwrap()).await, [] as [Value; 0]);
}

#[tokio::test]
async fn a_new_connection_string_ends_the_old_one_at_once() {
    let fixture = ChannelFixture::start().await;
    let made = fixture.agent(&json!({"name": "timber"})).await;
    assert_eq!(post_json(&fixture, &made["connection_string"], POSTS[0]).await.status, 200);
    let path = "/api/v1/agents/timber/connection-string/rotate";
    let mallory = fixture.hub.account("mallory@example.org").await;
    fixture.hub.post(path, Some(&mallory), &json!({})).await.own_failure(Code::Forbidden);
    fixture.hub.post(path, None, &json!({})).await.own_failure(Code::Unauthorized);
    let rotated = fixture.hub.post(path, Some(&fixture.anna), &json!({})).await;
    assert_eq!(rotated.status, 200, "{}", rotated.text);
    post_json(&fixture, &made["connection_string"], POSTS[1]).await.own_failure(Code::NotFound);
    assert_eq!(post_json(&fixture, &rotated.body["connection_string"], POSTS[1]).await.status, 200);
    // An agent that registered itself gets its first connection string the same way.
    let bob = fixture.hub.register("bob").await;
    let path = format!("/api/v1/agents/bob@{HOST}/connection-string/rotate");
    let first = fixture.hub.post(&path, Some(&bob), &json!({})).await;
    assert_eq!(post_json(&fixture, &first.body["connection_string"], POSTS[1]).await.status, 200);
    assert_eq!(fixture.hub.history(&bob).await.len(), 1);
}

#[tokio::test]
async fn the_documents_events_are_recorded_in_order() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    let (made, event, callback) = told(&fixture, &timber).await;
    for text in EVENTS {
        let answer = post_json(&fixture, &callback, text).await;
        assert_eq!((answer.status, &answer.body["ok"]), (200, &json!(true)), "{}", answer.text);
        assert_eq!(answer.body["events"].as_array().unwrap().len(), 1);
        assert!(answer.body["events"][0].as_str().unwrap().starts_with("evt_"));
    }
    let lifecycle = post_json(&fixture, &callback, r#"{"type": "lifecycle", "status": "idle"}"#).await;
    assert_eq!(lifecycle.status, 200, "an extension: {}", lifecycle.text);
    let log = fixture.log().await;
    let kinds: Vec<_> = log.iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "message",
            "message",
            "tool_call",
            "tool_result",
            "status",
            "error",
            "message",
            "status",
            "message",
            "lifecycle"
        ]
    );
    assert!(log[1..].iter().all(|said| said["thread"] == event && said["author"]["id"] == made["agent_id"]));
    assert_eq!(
        (&log[1]["content"], &log[1]["reply_to"]),
        (&json!("The weather in Oslo is 3°C and cloudy."), &json!(event))
    );
    assert_eq!((&log[2]["name"], &log[2]["args"]), (&json!("web_search"), &json!({"query": "oslo weather"})));
    assert_eq!(log[3]["content"], "Oslo: 3°C, cloudy, wind 5m/s NW");
    assert_eq!(log[4]["status"], "searching weather data");
    assert_eq!(
        (&log[5]["message"], &log[5]["code"]),
        (&json!("Failed to connect to weather API"), &json!("tool_error"))
    );
    assert_eq!(log[9]["status"], "idle");
    assert!(log.iter().skip(1).all(|said| said["trace_id"] == log[0]["trace_id"]));
    let delivery = fixture.delivery(&event).await;
    assert_eq!(delivery["disposition"], "responded");
}

/// Starts an agent that knows only the document: it accepts each POST with 200 and answers at the callback.
async fn document_agent() -> String {
    let answer = |body: axum::Json<Value>| async move {
        let (message, callback) =
            (body.0["message"].clone(), body.0["callback"].as_str().unwrap().to_owned());
        tokio::spawn(async move {
            let client = chorus_testkit::http::client();
            let text = format!(
                "{} said: {}",
                message["sender"].as_str().unwrap(),
                message["content"].as_str().unwrap()
            );
            for event in
                [json!({"type": "status", "status": "thinking"}), json!({"type": "message", "content": text})]
            {
                let status = client.post(&callback).json(&event).send().await.unwrap().status();
                assert_eq!(status, 200);
            }
        });
        "ok"
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/inbox/sk_a1b2c3d4e5f6", listener.local_addr().unwrap());
    let router = axum::Router::new().route("/inbox/sk_a1b2c3d4e5f6", axum::routing::post(answer));
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

#[tokio::test]
async fn an_agent_that_knows_the_document_alone() {
    let fixture = ChannelFixture::start().await;
    fixture.agent(&json!({"name": "echo", "connection_string": document_agent().await})).await;
    fixture.join(&fixture.channel, "echo").await;
    let event = fixture.say("@echo hello").await;
    let log = eventually(async || fixture.log().await, |log| log.len() == 3).await;
    assert_eq!(
        (&log[1]["status"], &log[2]["content"]),
        (&json!("thinking"), &json!("anna said: @echo hello"))
    );
    assert_eq!(log[2]["author"]["handle"], "echo");
    assert_eq!(log[2]["thread"], event);
}

/// An agent's message is like any other: it wakes the agents it mentions, and may not hold credentials.
#[tokio::test]
async fn what_an_agent_says_is_a_message_like_any_other() {
    let (fixture, timber, birch) =
        (ChannelFixture::start().await, FakeAgent::start().await, FakeAgent::start().await);
    let (_, event, callback) = told(&fixture, &timber).await;
    fixture.connected("birch", &birch).await;
    let secret = "ca_0123456789abcdef0123456789abcdef";
    let answer = fixture.call_back(&callback, &message(&format!("@birch take over, with {secret}"))).await;
    assert_eq!((answer.status, &answer.body["masked"]), (200, &json!(["agent key"])), "{}", answer.text);
    let requests = birch.wait_for(1, SOON).await;
    let content = requests[0].body["message"]["content"].as_str().unwrap();
    assert_eq!(content, "@birch take over, with [redacted: agent key]");
    assert_eq!(requests[0].body["message"]["sender"], "timber");
    let call = json!({"type": "tool_call", "name": "login", "id": "1", "args": {"headers": [secret]}});
    assert_eq!(fixture.call_back(&callback, &call).await.status, 200);
    let log = fixture.log().await;
    assert!(!json!(log).to_string().contains(secret));

    // The answer of birch is posted in the same thread.
    let hers = &requests[0].body["callback"];
    assert_eq!(fixture.call_back(hers, &message("done")).await.status, 200);
    let last = fixture.log().await.pop().unwrap();
    assert_eq!((&last["thread"], &last["author"]["handle"]), (&json!(event), &json!("birch")));
    let found = fixture.get("/api/v1/search?q=take+over").await;
    assert_eq!(found.status, 200, "{}", found.text);
    assert_eq!(found.body["items"].as_array().unwrap().len(), 1, "{}", found.text);
}

#[tokio::test]
async fn dispositions_follow_from_what_it_says() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    fixture.connected("timber", &timber).await;
    let idle = json!({"type": "lifecycle", "status": "idle"});
    let error = json!({"type": "error", "message": "no"});
    let busy = json!({"type": "lifecycle", "status": "processing"});
    for (n, (events, disposition)) in [
        (vec![&busy], Some("claimed")),
        // A message that must be answered is not overlooked.
        (vec![&busy, &idle], None),
        (vec![&error, &idle], Some("failed")),
        (vec![&idle, &message("after all")], Some("responded")),
        (vec![&message("yes"), &error, &idle], Some("responded")),
    ]
    .into_iter()
    .enumerate()
    {
        let event = fixture.say("@timber hello").await;
        let callback = timber.wait_for(n + 1, SOON).await[n].body["callback"].clone();
        for event in events {
            assert_eq!(fixture.call_back(&callback, event).await.status, 200);
        }
        let delivery = fixture.delivery(&event).await;
        assert_eq!(delivery["disposition"].as_str(), disposition, "{n}");
    }
}

#[tokio::test]
async fn in_a_conversation_of_two_there_is_no_thread() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    fixture.connected("timber", &timber).await;
    let dm = fixture.hub.post("/api/v1/dms", Some(&fixture.anna), &json!({"with": "timber"})).await;
    let dm = dm.body["id"].as_str().unwrap().to_owned();
    let event = fixture.say_in(&dm, "hello").await;
    let request = timber.wait_for(1, SOON).await.remove(0);
    assert_eq!(request.body["channel"]["id"], dm);
    assert_eq!(fixture.call_back(&request.body["callback"], &message("hi")).await.status, 200);
    let page = fixture.get(&format!("/api/v1/channels/{dm}/events?limit=200")).await;
    let said = page.body["items"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (&said["content"], &said["thread"], &said["reply_to"]),
        (&json!("hi"), &Value::Null, &json!(event))
    );
    assert_eq!(fixture.delivery(&event).await["reason"], "direct_message");
}

/// A reply to a message in a thread stays in the thread.
#[tokio::test]
async fn a_reply_stays_in_the_thread() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    fixture.connected("timber", &timber).await;
    let root = fixture.say("an announcement").await;
    let path = format!("/api/v1/channels/{}/messages", fixture.channel);
    let body = json!({"content": "@timber?", "thread": root});
    let asked = fixture.hub.post(&path, Some(&fixture.anna), &body).await;
    let callback = timber.wait_for(1, SOON).await[0].body["callback"].clone();
    assert_eq!(fixture.call_back(&callback, &message("yes")).await.status, 200);
    let last = fixture.log().await.pop().unwrap();
    assert_eq!((&last["thread"], &last["reply_to"]), (&json!(root), &asked.body["event_id"]));
}

/// An agent with a connection string receives an envelope. Its callback returns to the sender by any
/// transport.
#[tokio::test]
async fn an_envelope_is_answered_with_an_envelope() {
    let (fixture, timber, hook) =
        (ChannelFixture::start().await, FakeAgent::start().await, FakeAgent::start().await);
    let card = json!({"card_version": "0.3", "user_culture": "nb-NO", "supported_languages": ["nb"]});
    let url = format!("http://{}/inbox/sk_1", timber.addr());
    fixture.agent(&json!({"name": "timber", "connection_string": url, "card": card})).await;
    let alice = fixture.hub.register_webhook("alice", &hook.url()).await;
    let mut sent = envelope("alice", "hello");
    sent["conversation_id"] = "talk-1".into();
    sent["turn_number"] = 1.into();
    let outcome = fixture.hub.send_envelope(&alice, "timber", &sent).await;
    assert_eq!(outcome.outcome(), (200, "delivered"));
    let post = timber.wait_for(1, SOON).await.remove(0).body;
    assert!(post["channel"]["context"].as_str().unwrap().contains("nb-NO"), "{post}");

    let status = json!({"type": "status", "status": "thinking"});
    let answer = fixture.call_back(&post["callback"], &status).await;
    assert_eq!((answer.status, &answer.body), (200, &json!({"ok": true, "events": []})));
    let long = fixture.call_back(&post["callback"], &message(&"x".repeat(10_001))).await;
    assert!(long.own_failure(Code::Validation).starts_with("content: "));
    let answer = fixture.call_back(&post["callback"], &message("hei")).await;
    assert_eq!((answer.status, answer.body["events"].as_array().unwrap().len()), (200, 1), "{}", answer.text);
    let requests = hook.wait_for(1, SOON).await;
    assert_eq!(
        requests[0].body["envelope"],
        json!({
            "chorus_version": "0.4", "sender_id": format!("timber@{HOST}"), "original_text": "hei",
            "sender_culture": "nb-NO", "conversation_id": "talk-1", "reply_depth": 1
        })
    );
    assert_eq!(requests.len(), 1, "nothing else goes back");
    let history = async || fixture.hub.history(&alice).await;
    eventually(history, |history| history.len() == 1 && history[0]["delivery"] == "delivered").await;

    fixture.hub.delete("/agents/alice", Some(&alice)).await.data();
    fixture.hub.register("alice").await;
    fixture.call_back(&post["callback"], &message("still there?")).await.own_failure(Code::Gone);
}
