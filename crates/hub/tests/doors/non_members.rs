//! Every route of a conversation, for callers who are not members.

use crate::support::{Answer, OPERATOR, TestHub};
use chorus_protocol::code::Code;
use serde_json::{Value, json};

/// Every route of a conversation with a member's body. `EVENT` is a message there.
const ROUTES: &[(&str, &str, &str)] = &[
    ("GET", "", ""),
    ("PATCH", "", r#"{"name": "x"}"#),
    ("DELETE", "", ""),
    ("GET", "/members", ""),
    ("POST", "/members", r#"{"agent": "bob"}"#),
    ("POST", "/members", r#"{"agent": "nobody-at-all"}"#),
    ("DELETE", "/members/anna", ""),
    ("DELETE", "/members/nobody", ""),
    ("POST", "/messages", r#"{"content": "x", "to": ["anna"], "thread": "EVENT", "reply_to": "EVENT"}"#),
    ("POST", "/messages?dry_run=true", r#"{"content": "@anna"}"#),
    ("PATCH", "/messages/EVENT", r#"{"content": "x"}"#),
    ("DELETE", "/messages/EVENT", ""),
    ("POST", "/messages/EVENT/reactions", r#"{"signal": "seen"}"#),
    ("GET", "/events", ""),
    ("GET", "/events?before=end&thread=EVENT&kind=message", ""),
    ("GET", "/stream", ""),
    ("HEAD", "/stream", ""),
    ("GET", "/artifacts", ""),
    ("GET", "/artifacts/notes", ""),
    ("GET", "/artifacts/notes/raw", ""),
    ("POST", "/artifacts", r#"{"slug": "new", "content": "x"}"#),
    ("PUT", "/artifacts/notes", r#"{"content": "x", "base_version": 1}"#),
    ("POST", "/typing", ""),
];

async fn ask(
    hub: &TestHub,
    channel: &str,
    event: &str,
    route: &(&str, &str, &str),
    key: Option<&str>,
) -> Answer {
    let (method, path, body) = route;
    let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
    let path = format!("{channel}{}", path.replace("EVENT", event));
    let request = hub.request(method, &path, key).body(body.replace("EVENT", event));
    Answer::of(request).await
}

#[tokio::test]
async fn nobody_else_reads_or_writes_anything() {
    let hub = TestHub::start();
    let anna = hub.account("anna@example.org").await;
    let (person, agent) = (hub.account("mallory@example.org").await, hub.register("mallory").await);
    let (left, removed) = (hub.account("left@example.org").await, hub.register("bob").await);
    let channel = hub.channel(&anna, &json!({"name": "hush"})).await;
    hub.add(&channel, &anna, &json!({"account": "left@example.org"})).await;
    hub.add(&channel, &anna, &json!({"agent": "bob"})).await;
    let said = hub.say(&channel, &left, &json!({"content": "our secret plan"})).await;
    let event = said["event_id"].as_str().unwrap();
    hub.post(&format!("{channel}/artifacts"), Some(&anna), &json!({"slug": "notes", "content": "x"})).await;
    assert_eq!(hub.delete(&format!("{channel}/members/left"), Some(&left)).await.status, 204);
    assert_eq!(hub.delete(&format!("{channel}/members/bob"), Some(&anna)).await.status, 204);
    let before = hub.log(&channel, &anna, "").await;

    let absent = "/api/v1/channels/ch_00000000000000000000000000000000";
    for key in [&person, &agent, &left, &removed] {
        for route in ROUTES {
            let refused = ask(&hub, &channel, event, route, Some(key)).await;
            let nowhere = ask(&hub, absent, event, route, Some(key)).await;
            if route.0 == "HEAD" {
                assert_eq!(refused.status, 404);
            } else {
                refused.own_failure(Code::NotFound);
            }
            assert_eq!((refused.status, &refused.text), (nowhere.status, &nowhere.text), "{route:?} tells");
        }
        assert_eq!(hub.get("/api/v1/channels", Some(key)).await.body["items"], json!([]));
        assert_eq!(hub.get("/api/v1/search?q=secret", Some(key)).await.body["items"], json!([]));
    }
    for (key, code) in
        [(Some(OPERATOR), Code::Forbidden), (None, Code::Unauthorized), (Some("ct_x"), Code::Unauthorized)]
    {
        // The operator may add members anywhere.
        let adds =
            |route: &&(&str, &str, &str)| key == Some(OPERATOR) && (route.0, route.1) == ("POST", "/members");
        for route in ROUTES.iter().filter(|route| route.0 != "HEAD" && !adds(route)) {
            ask(&hub, &channel, event, route, key).await.own_failure(code);
        }
        for path in ["/api/v1/channels", "/api/v1/search?q=secret"] {
            hub.get(path, key).await.own_failure(code);
        }
        hub.post("/api/v1/channels", key, &json!({"name": "x"})).await.own_failure(code);
        hub.post("/api/v1/dms", key, &json!({"with": "bob"})).await.own_failure(code);
    }
    assert_eq!(hub.log(&channel, &anna, "").await, before, "nothing was done");
    assert_eq!(
        hub.get("/api/v1/search?q=secret", Some(&anna)).await.body["items"].as_array().unwrap().len(),
        1
    );
}

/// Ids of one conversation do not work through another.
#[tokio::test]
async fn ids_of_another_conversation_are_no_ids_here() {
    let hub = TestHub::start();
    let (anna, bob) = (hub.account("anna@example.org").await, hub.register("bob").await);
    let (hers, his) =
        (hub.channel(&anna, &json!({"name": "a"})).await, hub.channel(&bob, &json!({"name": "b"})).await);
    let first = hub.say(&hers, &anna, &json!({"content": "hers"})).await["event_id"].clone();
    hub.say(&hers, &anna, &json!({"content": "hers too", "thread": first})).await;
    let id = first.as_str().unwrap();
    assert_eq!(hub.log(&hers, &anna, &format!("thread={id}")).await.len(), 2);
    assert_eq!(hub.log(&his, &bob, &format!("thread={id}")).await, [] as [Value; 0]);
    for body in [json!({"content": "x", "thread": first}), json!({"content": "x", "reply_to": first})] {
        hub.post(&format!("{his}/messages"), Some(&bob), &body).await.own_failure(Code::NotFound);
    }
    hub.ask("PATCH", &format!("{his}/messages/{id}"), Some(&bob), &json!({"content": "x"}))
        .await
        .own_failure(Code::NotFound);
    hub.delete(&format!("{his}/messages/{id}"), Some(&bob)).await.own_failure(Code::NotFound);
    let reaction = json!({"signal": "seen"});
    hub.post(&format!("{his}/messages/{id}/reactions"), Some(&bob), &reaction)
        .await
        .own_failure(Code::NotFound);
    assert_eq!(hub.log(&hers, &anna, "kind=message").await[0]["content"], "hers");
}
