//! Requests and retries, against a scripted hub.

use crate::support::{FakeHub, Reply, failure, json_reply, plain, success};
use chorus_agent::{Backoff, Change, Client, ClientError, ExitClass, RegisterBody, Retry, SendBody};
use chorus_protocol::relay::HealthReport;
use chorus_protocol::words::DeliveryState;
use serde_json::{Value, json};
use std::time::Duration;

const TRACE: &str = "0123456789abcdef0123456789abcdef";

fn client(hub: &FakeHub) -> Client {
    let backoff = Backoff { base_ms: 2, max_ms: 10 };
    let client = Client::connect(&hub.url, Some("ca_secret".into())).unwrap();
    client.with_retry(Retry { tries: 4, failed_deliveries: true, backoff })
}

fn hello() -> SendBody {
    SendBody::new("alice@x", "bob@x", "en", "hello")
}

fn delivered() -> Reply {
    success(200, json!({"delivery": "delivered_sse", "trace_id": TRACE}))
}

fn failed(code: &str) -> Reply {
    success(200, json!({"delivery": "failed", "error_code": code, "detail": "no", "trace_id": TRACE}))
}

fn record(name: &str) -> Value {
    json!({"id": "a3b8d1b6-0b3b-4b1a-9c1a-1a2b3c4d5e6f", "agent_id": name, "online": true,
        "registered_at": "2026-03-20T10:00:00.000Z", "updated_at": "2026-03-20T10:00:00.000Z"})
}

#[tokio::test]
async fn paths_come_from_the_discovery_document_which_is_asked_once_and_without_the_key() {
    let discovery = json!({"chorus_version": "0.4", "server_name": "x", "endpoints": {
        "register": "/r", "discover": "/who", "send": "/post/here", "health": "/h", "self_register": "/join"}});
    let registered = json!({"agent_id": "alice@x", "api_key": "ca_new", "registration": record("alice@x")});
    let hub = FakeHub::scripted([
        json_reply(200, &discovery),
        delivered(),
        success(200, json!([record("alice@x")])),
        success(200, record("bob@x")),
        success(201, registered.clone()),
        success(200, registered),
        success(200, json!({"messages": [], "next": null})),
        success(200, json!({"ok": true})),
        success(200, json!({})),
    ])
    .await;
    let client = client(&hub);
    client.send(&hello(), None).await.unwrap();
    let (agents, next) = client.agents(Some("a b"), 10).await.unwrap();
    assert_eq!((agents.len(), next.as_deref()), (1, Some("7")));
    assert_eq!(client.agent("bob@x:80").await.unwrap().agent_id, "bob@x");
    let body =
        RegisterBody { agent_id: "alice@x".into(), endpoint: None, agent_card: None, invitation: None };
    assert_eq!(client.register(&body).await.unwrap().1, Change::Created);
    let (registered, change) = client.register(&body).await.unwrap();
    assert_eq!((registered.api_key.as_deref(), change), (Some("ca_new"), Change::Updated));
    assert!(client.messages(None, 5).await.unwrap().messages.is_empty());
    assert_eq!(client.health().await.unwrap(), HealthReport::default());
    client.unregister("alice@x").await.unwrap();
    assert_eq!(
        hub.lines(),
        [
            "GET /.well-known/chorus.json",
            "POST /post/here",
            "GET /who?limit=10&after=a+b",
            "GET /who/bob@x:80",
            "POST /join",
            "POST /join",
            "GET /agent/messages?limit=5&kind=all",
            "GET /h",
            "DELETE /r/alice@x",
        ]
    );
    assert!(hub.seen().iter().all(|seen| seen.header("authorization") == Some("Bearer ca_secret")));
    let sent: Value = serde_json::from_str(&hub.seen()[0].body).unwrap();
    assert_eq!(sent["envelope"]["original_text"], "hello");
}

#[tokio::test]
async fn a_discovery_document_that_fails_is_not_guessed_around() {
    let hub = FakeHub::scripted([failure(401, "ERR_UNAUTHORIZED")]).await;
    let error = client(&hub).health().await.unwrap_err();
    assert!(matches!(error, ClientError::Refused { status: 401, .. }), "{error}");
    assert_eq!(hub.lines().len(), 1);

    let hub = FakeHub::scripted([plain(200, "<html>")]).await;
    let error = client(&hub).health().await.unwrap_err().to_string();
    assert!(error.contains("is this a Chorus hub?"), "{error}");
}

#[tokio::test]
async fn a_discovery_document_cannot_send_the_key_elsewhere() {
    for path in ["https://evil.example/", "evil.example/x", ".evil.example/", "@evil.example/", ""] {
        let endpoints = json!({"register": "/a", "discover": "/a", "send": path, "health": "/h"});
        let discovery = json!({"chorus_version": "0.4", "server_name": "x", "endpoints": endpoints});
        let hub = FakeHub::scripted([json_reply(200, &discovery)]).await;
        let error = client(&hub).send(&hello(), None).await.unwrap_err().to_string();
        assert!(error.contains("which is not a path"), "{error}");
    }
}

#[tokio::test]
async fn transient_failures_are_tried_again_with_one_key() {
    let hub = FakeHub::start([
        failure(503, "ERR_OVERLOADED"),
        plain(502, "<html>bad gateway"),
        failed("ERR_TIMEOUT"),
        delivered(),
    ])
    .await;
    let outcome = client(&hub).send(&hello(), None).await.unwrap();
    assert_eq!(outcome.delivery, DeliveryState::DeliveredSse);
    let keys: Vec<_> =
        hub.seen().iter().map(|seen| seen.header("idempotency-key").unwrap().to_owned()).collect();
    assert_eq!(keys.len(), 4);
    assert_eq!(keys[0].len(), 32);
    assert!(keys.iter().all(|key| *key == keys[0]));
}

#[tokio::test]
async fn two_sends_have_two_keys_and_a_given_key_is_kept() {
    let hub = FakeHub::start([delivered(), delivered(), delivered()]).await;
    let client = client(&hub);
    client.send(&hello(), None).await.unwrap();
    client.send(&hello(), None).await.unwrap();
    client.send(&hello(), Some("mine")).await.unwrap();
    let seen = hub.seen();
    assert_ne!(seen[0].header("idempotency-key"), seen[1].header("idempotency-key"));
    assert_eq!(seen[2].header("idempotency-key"), Some("mine"));
    assert!(client.send(&hello(), Some("my\nkey")).await.is_err());
}

#[tokio::test]
async fn permanent_failures_are_not_tried_again() {
    for (status, code) in [
        (400, "ERR_VALIDATION"),
        (401, "ERR_UNAUTHORIZED"),
        (404, "ERR_AGENT_NOT_FOUND"),
        (409, "ERR_IDEMPOTENCY_CONFLICT"),
    ] {
        let hub = FakeHub::start([failure(status, code)]).await;
        let error = client(&hub).send(&hello(), None).await.unwrap_err();
        assert_eq!(error.exit_class(), ExitClass::Refused);
        assert_eq!(error.to_string(), format!("the hub refused: because ({code})"));
        assert_eq!(hub.seen().len(), 1, "{code}");
    }
    let hub = FakeHub::start([failed("ERR_VALIDATION")]).await;
    assert_eq!(client(&hub).send(&hello(), None).await.unwrap().delivery, DeliveryState::Failed);
    assert_eq!(hub.seen().len(), 1);
}

#[tokio::test]
async fn failed_deliveries_are_tried_again_only_when_asked() {
    let hub = FakeHub::start([failed("ERR_TIMEOUT")]).await;
    let client = client(&hub).with_retry(Retry::default());
    assert_eq!(client.send(&hello(), None).await.unwrap().delivery, DeliveryState::Failed);
    assert_eq!(hub.seen().len(), 1);
}

#[tokio::test]
async fn tries_are_bounded() {
    let hub = FakeHub::start((0..9).map(|_| failure(503, "ERR_OVERLOADED"))).await;
    assert!(client(&hub).send(&hello(), None).await.is_err());
    assert_eq!(hub.seen().len(), 4);
}

#[tokio::test]
async fn the_hubs_pause_is_honoured_but_not_for_ever() {
    let hub =
        FakeHub::start([failure(429, "ERR_RATE_LIMITED").header("retry-after", "1"), delivered()]).await;
    let start = std::time::Instant::now();
    client(&hub).send(&hello(), None).await.unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1));

    let hub = FakeHub::start([failure(429, "ERR_RATE_LIMITED").header("retry-after", "86400")]).await;
    let error = client(&hub).send(&hello(), None).await.unwrap_err();
    assert_eq!(error.transient(), Some(Duration::from_hours(24)));
    assert_eq!(hub.seen().len(), 1);
}

#[tokio::test]
async fn malformed_answers_give_clear_errors() {
    let health = |reply| async {
        let hub = FakeHub::start([reply]).await;
        client(&hub).health().await.unwrap_err()
    };
    let error = health(plain(200, "hello")).await;
    assert!(error.to_string().contains("/health did not answer as a hub does"), "{error}");
    assert_eq!(error.exit_class(), ExitClass::Failed);
    let error = health(plain(500, "oops")).await.to_string();
    assert!(error.contains("answered HTTP 500 and no reason"), "{error}");
    let error = health(plain(301, "").header("location", "https://elsewhere/")).await.to_string();
    assert!(error.contains("redirects to https://elsewhere/; use that address instead"), "{error}");
    let error = health(plain(200, &" ".repeat(33 << 20))).await.to_string();
    assert!(error.contains("more than 32 MiB"), "{error}");

    let hub = FakeHub::start([success(200, json!({"delivery": "eaten", "trace_id": TRACE}))]).await;
    let error = client(&hub).send(&hello(), None).await.unwrap_err().to_string();
    assert!(error.contains("unknown variant `eaten`"), "{error}");
}

#[tokio::test]
async fn nobody_there() {
    let nobody = FakeHub::nobody().await;
    let error = client(&nobody).send(&hello(), None).await.unwrap_err();
    assert_eq!(error.exit_class(), ExitClass::Unreachable);
    assert_eq!(error.to_string(), format!("cannot reach the hub at {}", nobody.url));
}

#[tokio::test]
async fn nothing_wrong_is_sent() {
    let hub = FakeHub::start([]).await;
    let client = client(&hub);
    let error =
        client.send(&SendBody::new("alice@x", "bob@x", "no such culture", ""), None).await.unwrap_err();
    assert_eq!(error.exit_class(), ExitClass::Usage);
    for agent in ["../admin", "", "a/b", ".."] {
        assert!(matches!(client.agent(agent).await, Err(ClientError::Invalid(_))), "{agent}");
    }
    assert!(hub.lines().is_empty());
}

#[tokio::test]
async fn the_key_is_never_shown() {
    let hub = FakeHub::start([]).await;
    assert!(!format!("{:?}", client(&hub)).contains("ca_secret"));
    let error = Client::connect(&hub.url, Some("ca_secret\n".into())).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("ca_secret"));
    assert!(Client::connect(&hub.url, Some(String::new())).is_err());
}

#[tokio::test]
async fn what_a_hub_teaches() {
    let markdown = |text: &str| plain(200, text).header("content-type", "text/markdown; charset=utf-8");
    let ask = |reply, language| async move {
        let hub = FakeHub::scripted([reply]).await;
        (client(&hub).skill(language).await, hub.seen()[0].clone())
    };
    let (skill, seen) = ask(markdown("# 加入").header("content-language", "zh-CN"), Some("zh-CN")).await;
    let skill = skill.unwrap();
    assert_eq!((skill.language.as_deref(), skill.text.as_str()), (Some("zh-CN"), "# 加入"));
    assert_eq!((seen.line.as_str(), seen.header("authorization")), ("GET /skill?lang=zh-CN", None));
    assert_eq!(ask(markdown("# Join"), None).await.1.line, "GET /skill");

    let fault = |reply| async { ask(reply, None).await.0.unwrap_err().to_string() };
    assert!(fault(markdown(&" ".repeat(257 << 10))).await.contains("more than 256 KiB"));
    assert!(
        fault(plain(200, "x").header("content-type", "text/html")).await.contains("is this a Chorus hub?")
    );
    assert!(fault(failure(404, "ERR_NOT_FOUND")).await.contains("ERR_NOT_FOUND"));
}
