//! Every example of the transport document, in its order, sent and compared as printed.
//!
//! `...` in an example stands for any text. Members that the document does not print are extensions and may be
//! present.

use crate::support::{HOST, OPERATOR, SOON, TestHub, members};
use chorus_protocol::code::Code;
use chorus_testkit::receiver::{FakeAgent, Reply};
use reqwest::Method;
use serde_json::{Value, json};

/// Asserts that `found` contains everything printed.
fn assert_as_printed(printed: &Value, found: &Value) {
    match printed {
        Value::Object(printed) => {
            for (name, value) in printed {
                assert!(found.get(name).is_some(), "no {name} in {found}");
                assert_as_printed(value, &found[name]);
            }
        }
        Value::String(text) if text == "..." => assert_ne!(found.as_str().unwrap_or_default(), "", "{found}"),
        Value::String(text) if text.ends_with("...") => {
            let begin = text.trim_end_matches('.');
            assert!(found.as_str().is_some_and(|found| found.starts_with(begin)), "{found} is not {text}");
        }
        printed => assert_eq!(printed, found),
    }
}

/// POSTs the text as printed.
async fn post(hub: &TestHub, path: &str, key: Option<&str>, printed: &'static str) -> crate::support::Answer {
    let request = hub.request(Method::POST, path, key).header("content-type", "application/json");
    crate::support::Answer::of(request.body(printed)).await
}

const STEP_1: &str = r#"{
"agent_id": "my-agent@chorus",
"agent_card": {
"card_version": "0.3",
"user_culture": "en",
"supported_languages": ["en"]
}
}"#;

const STEP_3: &str = r#"{
"receiver_id": "other-agent@chorus",
"envelope": {
"chorus_version": "0.4",
"sender_id": "my-agent@chorus",
"original_text": "Hello, let's collaborate on this project.",
"sender_culture": "en"
}
}"#;

#[tokio::test]
async fn the_quick_start() {
    let hub = TestHub::start();
    let registered = post(&hub, "/register", None, STEP_1).await;
    assert_eq!(registered.status, 201);
    assert_as_printed(
        &json!({"success": true, "data": {"agent_id": "...", "api_key": "ca_...", "registration": {}}}),
        &registered.body,
    );
    let data = registered.data();
    let key = data["api_key"].as_str().unwrap();
    let (prefix, digits) = key.split_at(3);
    assert!(prefix == "ca_" && digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_hexdigit()), "{key}");
    assert_eq!(data["agent_id"], format!("my-agent@{HOST}"));
    let card = &serde_json::from_str::<Value>(STEP_1).unwrap()["agent_card"];
    assert_eq!(&data["registration"]["agent_card"], card);

    let other = hub.register("other-agent@chorus").await;
    let mut inbox = hub.inbox(&other, None).await;

    let sent = post(&hub, "/messages", Some(key), STEP_3).await;
    assert_eq!(sent.status, 200);
    assert_as_printed(
        &json!({"success": true, "data": {"delivery": "delivered_sse", "trace_id": "..."}}),
        &sent.body,
    );
    let (_, message) = inbox.message().await;
    let printed = &serde_json::from_str::<Value>(STEP_3).unwrap()["envelope"];
    assert_eq!(&message["envelope"], printed);
    assert_eq!(message["trace_id"], sent.data()["trace_id"]);
    assert_eq!(message["sender_id"], format!("my-agent@{HOST}"));
}

#[tokio::test]
async fn the_inbox_answers_as_an_event_stream() {
    let hub = TestHub::start();
    let key = hub.register("a").await;
    let response = hub.request(Method::GET, "/agent/inbox", Some(&key)).send().await.unwrap();
    assert_eq!(response.status().as_u16(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["cache-control"], "no-store");
}

/// An envelope is never the body itself.
#[tokio::test]
async fn envelopes_are_nested() {
    let hub = TestHub::start();
    let (key, _) = (hub.register("my-agent").await, hub.register("other-agent").await);
    let flat = json!({
        "receiver_id": "other-agent@chorus", "chorus_version": "0.4", "sender_id": "my-agent@chorus",
        "original_text": "Hello", "sender_culture": "en"
    });
    let answer = hub.post("/messages", Some(&key), &flat).await;
    assert_eq!(answer.failure(Code::Validation), "envelope: is required");
}

/// Section 6.1: methods, paths, authorization, and the status of success.
#[tokio::test]
async fn the_table_of_endpoints() {
    let hub = TestHub::start();
    let body = json!({"agent_id": "a", "endpoint": "https://alice.example/receive"});
    let registered = hub.post("/register", None, &json!({"agent_id": "self"})).await;
    assert_eq!(registered.status, 201);
    let key = registered.data()["api_key"].as_str().unwrap().to_owned();
    assert_eq!(hub.post("/agents", Some(OPERATOR), &body).await.status, 201);
    assert_eq!(hub.post("/agents", Some(OPERATOR), &body).await.status, 200);
    assert_eq!(hub.get("/agents", None).await.status, 200);
    assert_eq!(hub.get("/agents/a", None).await.status, 200);
    assert_eq!(hub.get("/health", None).await.status, 200);
    let _inbox = hub.inbox(&key, None).await;
    for key in [&*key, OPERATOR] {
        assert_eq!(hub.send(key, "self", "self", "hi").await.status, 200);
    }
    assert_eq!(hub.delete("/agents/a", Some(OPERATOR)).await.status, 200);
    assert_eq!(hub.delete("/agents/self", Some(&key)).await.status, 200);
}

/// Section 6.2.
#[tokio::test]
async fn the_common_format() {
    let hub = TestHub::start();
    let success = hub.get("/agents", None).await;
    assert_as_printed(&json!({"success": true, "metadata": {"timestamp": "..."}}), &success.body);
    assert!(success.body.get("data").is_some());
    assert_eq!(success.header("content-type"), "application/json");
    let failure = hub.post("/register", None, &json!({})).await;
    assert_as_printed(
        &json!({
            "success": false,
            "error": {"code": "ERR_VALIDATION", "message": "..."},
            "metadata": {"timestamp": "..."}
        }),
        &failure.body,
    );
    assert_eq!(failure.failure(Code::Validation), "agent_id: is required");
}

const REGISTER: &str = r#"{
"agent_id": "alice@chorus.example",
"endpoint": "https://alice.example/receive",
"agent_card": {
"card_version": "0.3",
"user_culture": "zh-CN",
"supported_languages": ["zh-CN", "en"]
}
}"#;

/// Section 6.3, and 4.1: registering again updates the record.
#[tokio::test]
async fn registering_by_the_operator() {
    let hub = TestHub::start();
    let created = post(&hub, "/agents", Some(OPERATOR), REGISTER).await;
    assert_eq!(created.status, 201);
    let printed: Value = serde_json::from_str(REGISTER).unwrap();
    assert_as_printed(&printed, &created.data()["registration"]);
    assert_as_printed(&json!({"registered_at": "..."}), &created.data()["registration"]);
    assert_as_printed(&json!({"api_key": "ca_..."}), created.data());

    let updated = post(&hub, "/agents", Some(OPERATOR), REGISTER).await;
    assert_eq!(updated.status, 200);
    assert_as_printed(&printed, &updated.data()["registration"]);
    assert_eq!(updated.data()["registration"]["id"], created.data()["registration"]["id"]);
    assert_as_printed(&printed, hub.get("/agents/alice@chorus.example", Some(OPERATOR)).await.data());
}

const SEND: &str = r#"{
"receiver_id": "bob@chorus.example",
"envelope": {
"chorus_version": "0.4",
"sender_id": "alice@chorus.example",
"original_text": "下午一起喝杯咖啡?",
"sender_culture": "zh-CN",
"cultural_context": "中国同事之间用「喝咖啡」作为非正式交流的邀请,表达善意和亲近,不一定真的要喝咖啡"
}
}"#;

/// Sections 6.4 and 6.5: delivered, failed, and what the receiver sees.
#[tokio::test]
async fn sending_to_an_endpoint() {
    let (hub, bob) = (TestHub::start(), FakeAgent::start().await);
    let alice = hub.register("alice@chorus.example").await;
    hub.register_webhook("bob@chorus.example", &bob.url()).await;

    let delivered = post(&hub, "/messages", Some(&alice), SEND).await;
    assert_eq!(delivered.status, 200);
    assert_as_printed(
        &json!({
            "success": true,
            "data": {"delivery": "delivered", "receiver_response": {"status": "ok"}},
            "metadata": {"timestamp": "..."}
        }),
        &delivered.body,
    );
    let received = &bob.wait_for(1, SOON).await[0];
    let sent: Value = serde_json::from_str(SEND).unwrap();
    assert_eq!(received.body, json!({"envelope": sent["envelope"]}));
    assert_eq!(received.headers["content-type"], "application/json");
    assert_eq!(received.path, "/receive");

    let refusal =
        json!({"status": "error", "error_code": "INVALID_ENVELOPE", "detail": "missing sender_culture"});
    bob.set(Reply::Json(200, refusal.clone()));
    let refused = post(&hub, "/messages", Some(&alice), SEND).await;
    assert_eq!(refused.data()["receiver_response"], refusal);

    drop(bob);
    let failed = post(&hub, "/messages", Some(&alice), SEND).await;
    assert_eq!(failed.status, 200);
    assert_as_printed(
        &json!({
            "success": true,
            "data": {"delivery": "failed", "error_code": "ERR_AGENT_UNREACHABLE", "detail": "..."},
            "metadata": {"timestamp": "..."}
        }),
        &failed.body,
    );
}

/// Section 7: the six codes, and their HTTP statuses.
#[tokio::test]
async fn the_table_of_codes() {
    let hub = TestHub::start();
    let key = hub.register("a").await;
    let answer = hub.post("/messages", Some(&key), &json!({})).await;
    assert_eq!((answer.status, &answer.body["error"]["code"]), (400, &json!("ERR_VALIDATION")));
    let answer = hub.send(&key, "a", "nobody", "hi").await;
    assert_eq!((answer.status, &answer.body["error"]["code"]), (404, &json!("ERR_AGENT_NOT_FOUND")));
    let answer = hub.send("ca_wrong", "a", "a", "hi").await;
    assert_eq!((answer.status, &answer.body["error"]["code"]), (401, &json!("ERR_UNAUTHORIZED")));
    let answer = hub.send(OPERATOR, "nobody", "a", "hi").await;
    assert_eq!((answer.status, &answer.body["error"]["code"]), (400, &json!("ERR_SENDER_NOT_REGISTERED")));
    for (code, status, retryable) in [
        ("ERR_VALIDATION", 400, false),
        ("ERR_AGENT_NOT_FOUND", 404, false),
        ("ERR_AGENT_UNREACHABLE", 502, true),
        ("ERR_TIMEOUT", 504, true),
        ("ERR_UNAUTHORIZED", 401, false),
        ("ERR_SENDER_NOT_REGISTERED", 400, false),
    ] {
        let code = Code::parse(code).unwrap();
        assert_eq!((code.status(), code.retryable()), (status, retryable), "{code}");
    }
}

/// Section 8: the only response outside the common format.
#[tokio::test]
async fn the_discovery_document_is_bare() {
    let hub = TestHub::start();
    let answer = hub.get("/.well-known/chorus.json", None).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
    assert_eq!(members(&answer.body), ["chorus_version", "endpoints", "server_name"]);
    assert_as_printed(
        &json!({
            "chorus_version": "0.4",
            "server_name": "...",
            "endpoints": {"register": "/agents", "discover": "/agents", "send": "/messages", "health": "/health"}
        }),
        &answer.body,
    );
    for path in answer.body["endpoints"].as_object().unwrap().values() {
        let answer = hub.request(Method::OPTIONS, path.as_str().unwrap(), None).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 405, "{path} is there");
    }
}
