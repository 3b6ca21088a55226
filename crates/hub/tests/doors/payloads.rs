//! Payloads of the hub match its OpenAPI document: real entries and bodies of every kind, checked against
//! their schemas.

use crate::channel_fixture::ChannelFixture;
use crate::market::trader;
use crate::support::{SOON, TestHub};
use chorus_protocol::words::EntryKind;
use chorus_testkit::receiver::{FakeAgent, Received};
use serde_json::{Value, json};

/// Returns the schema of this kind of payload.
fn schema<'d>(document: &'d Value, kind: &str) -> &'d Value {
    let body = &document["webhooks"][kind]["post"]["requestBody"];
    assert_eq!(body["required"], true, "{kind}");
    &body["content"]["application/json"]["schema"]
}

/// Returns everything wrong with a value, and its undocumented members.
fn faults(document: &Value, schema: &Value, value: &Value, path: &str) -> Vec<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        return faults(document, document.pointer(&reference[1..]).unwrap(), value, path);
    }
    let mut found = vec![];
    let inner = |name: &str| schema[name].as_array().into_iter().flatten();
    for part in inner("allOf") {
        // Each part describes some of the members.
        let wrong = faults(document, part, value, path);
        found.extend(wrong.into_iter().filter(|fault| !fault.ends_with("not described")));
    }
    for name in ["oneOf", "anyOf"] {
        let ways: Vec<_> = inner(name).map(|way| faults(document, way, value, path)).collect();
        if !ways.is_empty() && ways.iter().all(|way| !way.is_empty()) {
            found.push(format!("{path}: none of {name}: {ways:?}"));
        }
    }
    let is = |kind: &str| match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other} is no type"),
    };
    let allowed = match &schema["type"] {
        Value::String(kind) => is(kind),
        Value::Array(kinds) => kinds.iter().any(|kind| is(kind.as_str().unwrap())),
        _ => true,
    };
    if !allowed {
        found.push(format!("{path}: {value} is no {}", schema["type"]));
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
        && !value.is_null()
    {
        found.push(format!("{path}: {value} is none of {words:?}"));
    }
    if let (Some(items), Some(schema)) = (value.as_array(), schema.get("items")) {
        found.extend(items.iter().flat_map(|item| faults(document, schema, item, &format!("{path}[]"))));
    }
    if let (Some(members), Some(described)) = (value.as_object(), schema["properties"].as_object()) {
        for name in schema["required"].as_array().into_iter().flatten() {
            if !members.contains_key(name.as_str().unwrap()) {
                found.push(format!("{path}.{name}: missing"));
            }
        }
        for (name, member) in members {
            let path = format!("{path}.{name}");
            match described.get(name) {
                Some(schema) => found.extend(faults(document, schema, member, &path)),
                None => found.push(format!("{path}: not described")),
            }
        }
    }
    found
}

#[track_caller]
fn assert_described(document: &Value, kind: &str, sent: &Value) {
    let wrong = faults(document, schema(document, kind), sent, kind);
    assert!(wrong.is_empty(), "{wrong:#?} in {sent:#}");
    // The schema is strict: without any one of its members the payload is invalid.
    for name in sent.as_object().unwrap().keys() {
        let mut less = sent.clone();
        less[name] = json!(["something else"]);
        let still = faults(document, schema(document, kind), &less, kind);
        assert!(!still.is_empty() || name == "mcp", "{kind}.{name} may be anything");
    }
}

async fn document(hub: &TestHub) -> Value {
    hub.get("/api/openapi.json", None).await.body
}

fn at(requests: &[Received], path: &str) -> Value {
    requests.iter().find(|request| request.path == path).unwrap().body.clone()
}

#[tokio::test]
async fn every_kind_is_described() {
    let document = document(&TestHub::start()).await;
    let mut kinds: Vec<_> = EntryKind::ALL.iter().map(|kind| kind.as_str()).collect();
    kinds.sort_unstable();
    let described: Vec<_> = document["webhooks"].as_object().unwrap().keys().collect();
    assert_eq!(described, kinds);
}

#[tokio::test]
async fn what_is_said_is_sent_as_described() {
    let fixture = ChannelFixture::start().await;
    let (hub, endpoint) = (&fixture.hub, FakeAgent::start().await);
    let document = document(hub).await;
    let timber = fixture.agent(&json!({"name": "timber"})).await;
    let key = timber["api_key"].as_str().unwrap();
    fixture.join(&fixture.channel, "timber").await;
    let mut inbox = hub.inbox(key, None).await;
    fixture.say("@timber how is it?").await;
    assert_described(&document, "chat", &inbox.event("chat").await);

    let post = json!({"channel": {"id": "c", "name": "ops", "service": "s", "context": "x"},
        "message": {"id": "m", "sender": "eve", "content": "hi"}, "callback": "https://service.example.com:8443/cb",
        "mcp": {"url": "https://service.example.com/mcp", "headers": {"authorization": "Bearer x"}}});
    let string = timber["connection_string"].as_str().unwrap().strip_prefix(&hub.url).unwrap();
    assert_eq!(hub.post(string, None, &post).await.status, 200);
    assert_described(&document, "channel", &inbox.event("channel").await);

    let alice = hub.register("alice").await;
    hub.send(&alice, "alice", "timber", "hello").await;
    assert_described(&document, "message", &inbox.message().await.1);

    // The same at the agent's own endpoint.
    let hook = fixture.agent(&json!({"name": "hook", "endpoint": endpoint.url()})).await;
    assert!(hook["agent_id"].is_string(), "{hook}");
    fixture.join(&fixture.channel, "hook").await;
    fixture.say("@hook and you?").await;
    let body = endpoint.wait_for(1, SOON).await[0].body.clone();
    assert_described(&document, "chat", &body);
}

#[tokio::test]
async fn work_is_sent_as_described() {
    let (hub, listener) = (TestHub::start(), FakeAgent::start().await);
    let document = document(&hub).await;
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let mut inbox = hub.inbox(&worker.key, None).await;
    let ask = json!({"skill_name": "analyze_text", "input_data": {"text": "x"}, "budget": 0.5});
    assert!(hub.post("/market/quotes", Some(&boss.key), &ask).await.status < 300);
    assert_described(&document, "quote", &inbox.event("quote").await);

    let id = "f81d4fae-7dec-11d0-a765-000000000001";
    let job = json!({"job_id": id, "agent_id": worker.id, "skill_name": "analyze_text", "input_data": {"text": "x"},
        "budget": 0.5, "callback_url": format!("http://{}/results", listener.addr())});
    assert_eq!(hub.post("/market/jobs", Some(&boss.key), &job).await.status, 202);
    assert_described(&document, "job", &inbox.event("job").await);
    let done =
        json!({"job_id": id, "status": "SUCCESS", "output_data": {"entities": []}, "execution_cost": 0.1});
    let taken = hub.post(&format!("/market/jobs/{id}/result"), Some(&worker.key), &done).await;
    assert_eq!(taken.status, 200, "{}", taken.text);
    let told = listener.wait_for(1, SOON).await;
    assert_described(&document, "result", &at(&told, "/results"));
}
