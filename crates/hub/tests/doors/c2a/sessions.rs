//! Sessions: initialization, delivery, acknowledgement, redelivery, and their end.

use super::harness::{Harness, initialize, text};
use crate::channel_fixture::{BEGIN, ChannelFixture};
use crate::support::{Answer, OPERATOR, SOON, Setup, TestHub, eventually};
use chorus_testkit::clock::ManualClock;
use chorus_testkit::websocket::{Heard, WebSocket};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

/// Returns a channel with the agent lead, and its key.
async fn with_lead() -> (ChannelFixture, String) {
    on(&Setup::new()).await
}

async fn on(setup: &Setup) -> (ChannelFixture, String) {
    let fixture = ChannelFixture::on(setup).await;
    let key = member(&fixture, "lead", &json!({})).await;
    (fixture, key)
}

/// Adds an agent to the channel and returns its key.
pub(super) async fn member(fixture: &ChannelFixture, name: &str, more: &Value) -> String {
    let key = fixture.hub.register(name).await;
    let mut body = json!({"agent": name});
    for (member, value) in more.as_object().unwrap() {
        body[member] = value.clone();
    }
    let path = format!("/api/v1/channels/{}/members", fixture.channel);
    let added = fixture.hub.post(&path, Some(&fixture.anna), &body).await;
    assert_eq!(added.status, 201, "{}", added.text);
    key
}

#[tokio::test]
async fn the_documents_initialize_is_answered() {
    let (fixture, key) = with_lead().await;
    let lead = Harness::connect(&fixture.hub, &key).await;
    assert_eq!(lead.begun["protocolVersion"], "2026-06-02");
    assert_eq!(lead.begun["capabilities"]["injection"]["notify"], true);
    assert_eq!(lead.begun["capabilities"]["injection"]["interrupt"], false, "what both can do");
    assert_eq!(lead.begun["glyphs"]["queued"], "🕐");
    assert_eq!(lead.begun["resume"], json!({"lastAckedEventId": null}));

    let mut newer = initialize();
    newer["params"]["protocolVersion"] = json!("2031-01-01");
    let lead = Harness::with(&fixture.hub, &key, &newer).await;
    assert_eq!(lead.begun["protocolVersion"], "2026-06-02", "the one that is spoken");
}

#[tokio::test]
async fn nothing_is_answered_before_it_and_what_is_no_message_is_told_so() {
    let (fixture, key) = with_lead().await;
    let mut socket = WebSocket::open(&format!("{}/c2a", fixture.hub.url), &key).await.unwrap();
    let mut ask = async |text: &str| {
        socket.send_text(text).await;
        match socket.next(SOON).await {
            Some(Heard::Json(answer)) => {
                // A JSON-RPC response always has an id, `null` if none could be read.
                assert_eq!(
                    answer.get("id").is_some_and(Value::is_null),
                    !text.contains("\"id\""),
                    "{answer}"
                );
                answer["error"]["code"].as_i64().unwrap()
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ask(r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}"#).await, -32002);
    assert_eq!(ask("{").await, -32700);
    assert_eq!(ask("[]").await, -32600);
    assert_eq!(ask(r#"{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}"#).await, -32602);

    let mut lead = Harness::connect(&fixture.hub, &key).await;
    let error =
        async |lead: &mut Harness, method: &str| lead.ask(method, json!({})).await["error"]["code"].clone();
    assert_eq!(error(&mut lead, "chat/unheard").await, -32601);
    assert_eq!(error(&mut lead, "initialize").await, -32600);
    assert_eq!(error(&mut lead, "tools/call").await, -32602);
    lead.send_text("nothing").await;
    let unread = lead.answer(&Value::Null).await;
    assert_eq!((unread.get("id"), &unread["error"]["code"]), (Some(&Value::Null), &json!(-32700)));
    // An error response without an id is not answered, because two peers that did so would never stop.
    lead.send(&unread).await;
    // Unknown notifications are not an error.
    lead.notify("notifications/unheard", json!({})).await;
    assert!(lead.ask("tools/list", json!({})).await["result"]["tools"].is_array());
    lead.assert_quiet().await;
}

#[tokio::test]
async fn a_mention_is_delivered_as_the_document_says() {
    let (fixture, key) = with_lead().await;
    let mut lead = Harness::connect(&fixture.hub, &key).await;
    let event = fixture.say("@lead can you check whether the deploy is blocked?").await;
    let request = lead.request().await;
    let params = &request["params"];
    assert_eq!(params["eventId"], json!(event));
    assert_eq!(params["source"]["platform"], "chorus");
    assert_eq!(
        (&params["conversation"]["kind"], &params["conversation"]["id"]),
        (&json!("channel"), &json!(fixture.channel))
    );
    assert_eq!(
        (&params["author"]["kind"], &params["author"]["displayName"]),
        (&json!("human"), &json!("anna"))
    );
    assert_eq!(
        params["target"],
        json!({"mentions": ["agent:lead"], "recipient": "agent:lead", "directedness": "to_me"})
    );
    assert_eq!(text(params), "@lead can you check whether the deploy is blocked?");
    assert_eq!(params["timing"]["sequence"], 3);
    let attention = &params["attention"];
    assert_eq!(
        (&attention["policy"], &attention["reason"], &attention["deadlineMs"]),
        (&json!("must_respond"), &json!("direct_mention"), &json!(300_000))
    );
    assert_eq!(params["injection"]["mode"], "buffered");
    assert_eq!(params["reliability"]["attempt"], 1);
    let key = params["reliability"]["idempotencyKey"].as_str().unwrap();
    assert!(key.starts_with(&event), "{key}");
    assert!(params.get("knock").is_none());
    // Ambient messages are not sent unrequested.
    lead.ack(&request).await;
    fixture.say("lunch is at noon").await;
    lead.assert_quiet().await;
}

#[tokio::test]
async fn an_envelope_comes_with_its_text_and_itself() {
    let (fixture, key) = with_lead().await;
    let ada = fixture.hub.register("ada").await;
    fixture.hub.send(&ada, "ada", "lead", "waited for you").await;
    let mut lead = Harness::connect(&fixture.hub, &key).await;
    assert_eq!(fixture.hub.send(&ada, "ada", "lead", "hello").await.outcome(), (200, "delivered_sse"));
    for expected in ["waited for you", "hello"] {
        let params = lead.delivered().await;
        assert_eq!((text(&params), &params["conversation"]["kind"]), (expected, &json!("dm")));
        assert_eq!(params["envelope"]["original_text"], expected);
        assert_eq!(params["attention"]["policy"], "must_respond");
        assert!(params["author"]["displayName"].as_str().unwrap().starts_with("ada@"));
    }
}

#[tokio::test]
async fn what_was_not_acknowledged_comes_to_the_next_session() {
    let (fixture, key) = with_lead().await;
    let mut lead = Harness::connect(&fixture.hub, &key).await;
    let mut events = vec![];
    for n in 1..=3 {
        events.push(fixture.say(&format!("@lead number {n}")).await);
    }
    let requests = [lead.request().await, lead.request().await, lead.request().await];
    // The second acknowledgement is missing.
    lead.ack(&requests[0]).await;
    lead.ack(&requests[2]).await;
    lead.ask("tools/list", json!({})).await;
    drop(lead);
    let offline = async || fixture.hub.online("lead").await;
    eventually(offline, |online| !online).await;
    let mut lead = Harness::connect(&fixture.hub, &key).await;
    assert_eq!(lead.begun["resume"]["lastAckedEventId"], json!(events[0]));
    for (event, n) in events[1..].iter().zip([2, 3]) {
        let params = lead.delivered().await;
        assert_eq!((&params["eventId"], text(&params)), (&json!(event), &*format!("@lead number {n}")));
        assert_eq!(params["reliability"]["attempt"], 2, "and it says so");
    }
    lead.assert_quiet().await;
}

#[tokio::test]
async fn what_is_not_acknowledged_comes_again_in_the_same_session() {
    let setup = Setup::new().config(|config| config.times.redelivery = Duration::from_millis(300));
    let (fixture, key) = on(&setup).await;
    let mut lead = Harness::connect(&fixture.hub, &key).await;
    let event = fixture.say("@lead are you there?").await;
    let first = lead.request().await;
    let second = lead.request().await;
    assert_eq!((&first["id"], &first["params"]["eventId"]), (&second["id"], &json!(event)));
    assert_eq!(
        first["params"]["reliability"]["idempotencyKey"],
        second["params"]["reliability"]["idempotencyKey"]
    );
    assert_eq!(second["params"]["reliability"]["attempt"], 2);
    // An error is not an acknowledgement.
    let error =
        json!({"jsonrpc": "2.0", "id": first["id"], "error": {"code": -32000, "message": "disk full"}});
    lead.send(&error).await;
    let third = lead.request().await;
    assert_eq!(third["params"]["reliability"]["attempt"], 3);
    lead.ack(&third).await;
    assert_eq!(lead.ask("tools/list", json!({})).await["error"], Value::Null);
}

#[tokio::test]
async fn at_most_32_are_unacknowledged() {
    let (fixture, key) = with_lead().await;
    let mut lead = Harness::connect(&fixture.hub, &key).await;
    for n in 1..=40 {
        fixture.say(&format!("@lead number {n}")).await;
    }
    let mut requests = vec![];
    for _ in 0..32 {
        requests.push(lead.request().await);
    }
    lead.assert_quiet().await;
    // A session with a full window can still be taken over.
    lead.ack(&requests[0]).await;
    assert_eq!(text(&lead.request().await["params"]), "@lead number 33");
    lead.assert_quiet().await;
    let _other = Harness::connect(&fixture.hub, &key).await;
    assert_eq!(lead.closed().await, 4001);
}

#[tokio::test]
async fn one_session_in_whichever_dialect() {
    let (fixture, key) = with_lead().await;
    let hub = &fixture.hub;
    let mut inbox = hub.inbox(&key, None).await;
    let mut lead = Harness::connect(hub, &key).await;
    inbox.event("takeover").await;
    fixture.say("@lead by C2A").await;
    assert_eq!(text(&lead.delivered().await), "@lead by C2A");
    lead.ask("tools/list", json!({})).await;
    let mut inbox = hub.inbox(&key, None).await;
    assert_eq!(lead.closed().await, 4001);
    fixture.say("@lead by server-sent events").await;
    let chat = inbox.event("chat").await;
    assert_eq!(chat["event"]["content"], "@lead by server-sent events", "and not what was acknowledged");
}

#[tokio::test]
async fn a_key_that_is_replaced_ends_the_session() {
    let (fixture, key) = with_lead().await;
    let mut lead = Harness::connect(&fixture.hub, &key).await;
    let body = json!({"agent_id": "lead"});
    let rotated = fixture.hub.post("/register", Some(&key), &body).await;
    assert_eq!(rotated.status, 200, "{}", rotated.text);
    assert_eq!(lead.closed().await, 4003);
    assert!(matches!(WebSocket::open(&format!("{}/c2a", fixture.hub.url), &key).await, Err(401)));
}

#[tokio::test]
async fn what_is_too_large_or_no_text_ends_the_session() {
    let (fixture, key) = with_lead().await;
    let url = format!("{}/c2a", fixture.hub.url);
    let mut lead = Harness::connect(&fixture.hub, &key).await;
    lead.send_text(&"x".repeat(1024 * 1024 + 1)).await;
    assert!([1006, 1009].contains(&lead.closed().await));
    let mut socket = WebSocket::open(&url, &key).await.unwrap();
    socket.send(&initialize()).await;
    assert!(matches!(socket.next(SOON).await, Some(Heard::Json(_))));
    socket.send_bytes(vec![1, 2, 3]).await;
    assert_eq!(socket.next(SOON).await, Some(Heard::Closed(1003)));
    fixture.hub.assert_healthy().await;
}

#[tokio::test]
async fn a_hub_that_stops_says_so() {
    let (fixture, key) = with_lead().await;
    let mut lead = Harness::connect(&fixture.hub, &key).await;
    let closed = tokio::spawn(async move { lead.closed().await });
    fixture.hub.stop().await;
    assert_eq!(closed.await.unwrap(), 1001);
}

#[tokio::test]
async fn what_is_no_websocket_is_refused() {
    let (fixture, key) = with_lead().await;
    let plain = fixture.hub.get("/c2a", Some(&key)).await;
    assert_eq!(plain.status, 400, "{}", plain.text);
    let odd = fixture
        .hub
        .request(Method::GET, "/c2a", Some(&key))
        .header("connection", "upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "short");
    assert_eq!(Answer::of(odd).await.status, 400);
}

#[tokio::test]
async fn single_calls_need_no_session() {
    let hub = TestHub::start();
    let key = hub.register("lead").await;
    let call = |method: &str| json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": {}});
    let listed = hub.post("/c2a", Some(&key), &call("tools/list")).await;
    assert_eq!((listed.status, &listed.body["id"]), (200, &json!(7)), "{}", listed.text);
    let tools = listed.body["result"]["tools"].as_array().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "chat.list_events",
            "chat.read_thread",
            "chat.send_message",
            "chat.react",
            "chat.claim",
            "chat.defer",
            "chat.resolve"
        ]
    );
    assert!(tools.iter().all(|tool| tool["inputSchema"]["type"] == "object"));
    assert_eq!(tools[0]["annotations"]["readOnlyHint"], true);
    let refused = hub.post("/c2a", Some(&key), &call("initialize")).await;
    assert_eq!((refused.status, &refused.body["error"]["code"]), (200, &json!(-32600)));
    let unread = Answer::of(hub.request(Method::POST, "/c2a", Some(&key)).body("{")).await;
    assert_eq!((unread.status, &unread.body["error"]["code"]), (400, &json!(-32700)), "{}", unread.text);
    assert_eq!(unread.body.get("id"), Some(&Value::Null), "{}", unread.text);
    let told =
        json!({"jsonrpc": "2.0", "method": "notifications/typing", "params": {"conversationId": "ch_1"}});
    assert_eq!(hub.post("/c2a", Some(&key), &told).await.status, 202);
    assert_eq!(hub.post("/c2a", Some(OPERATOR), &call("tools/list")).await.status, 403);
}

/// Every message of a harness is charged, except for expected responses.
#[tokio::test]
async fn what_nobody_waits_for_is_limited() {
    let clock = ManualClock::new(BEGIN);
    let setup = Setup::new().clock(&clock).config(|config| config.rate_limit = Some(600));
    let fixture = ChannelFixture::on(&setup).await;
    for (name, frame) in [("one", "nonsense"), ("two", r#"{"jsonrpc": "2.0", "id": "d-999", "result": {}}"#)]
    {
        let key = member(&fixture, name, &json!({})).await;
        let mut harness = Harness::connect(&fixture.hub, &key).await;
        for _ in 0..700 {
            harness.send_text(frame).await;
        }
        assert_eq!(harness.closed().await, 1008, "{frame}");
    }
}

/// A message deleted before the harness responded was never acknowledged.
#[tokio::test]
async fn nobody_acknowledges_for_a_harness() {
    let (fixture, clock) = ChannelFixture::with_clock().await;
    let key = member(&fixture, "lead", &json!({})).await;
    let mut lead = Harness::connect(&fixture.hub, &key).await;
    let event = fixture.say("@lead is it done?").await;
    lead.request().await;
    let path = format!("/api/v1/channels/{}/messages/{event}", fixture.channel);
    assert_eq!(fixture.hub.delete(&path, Some(&fixture.anna)).await.status, 204);
    lead.notified("notifications/cancelled").await;
    // At redelivery it is found to be gone; later deliveries still arrive.
    clock.advance(60_000);
    let other = fixture.say("@lead is the other done?").await;
    let later = lead.request().await;
    assert_eq!(later["params"]["eventId"], json!(other));
    lead.ack(&later).await;
    let rungs = async |event: &str| {
        let ladder = fixture.get(&format!("/api/v1/events/{event}")).await.body;
        ladder["deliveries"][0]["rungs"].to_string()
    };
    eventually(async || rungs(&other).await, |rungs| rungs.contains("acked")).await;
    assert!(!rungs(&event).await.contains("acked"), "{}", rungs(&event).await);
}

/// A key identifies the agent in a session and in a single call.
#[tokio::test]
async fn a_key_is_known_again_by_whatever_way_it_comes() {
    let (fixture, key) = with_lead().await;
    let mut lead = Harness::connect(&fixture.hub, &key).await;
    let send = |text: &str| {
        json!({"target": {"conversationId": fixture.channel}, "idempotencyKey": "k", "visibility": "channel",
            "directedness": "ambient", "text": text})
    };
    let sent = lead.done("chat.send_message", send("The build is green.")).await;
    let call = async |text: &str| {
        let params = json!({"name": "chat.send_message", "arguments": send(text)});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        fixture.hub.post("/c2a", Some(&key), &call).await.body["result"]["structuredContent"].clone()
    };
    assert_eq!(call("The build is green.").await, sent);
    assert_eq!(call("The build is red.").await["code"], "idempotency_conflict");
    assert_eq!(fixture.log().await.iter().filter(|one| one["kind"] == "message").count(), 1);
}
