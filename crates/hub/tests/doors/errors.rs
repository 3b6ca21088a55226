//! Every error code, provoked over HTTP, and the common format of errors.

use crate::market::trader;
use crate::support::{Answer, OPERATOR, SOON, Setup, TestHub, envelope, eventually, failure};
use chorus_protocol::code::Code;
use chorus_protocol::relay::MAX_BODY;
use chorus_testkit::clock::ManualClock;
use chorus_testkit::raw::{body_of, raw_exchange, status_of};
use chorus_testkit::receiver::{FakeAgent, Reply};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

/// The place where a code appears.
#[derive(Debug)]
enum Shown {
    /// As an HTTP error in the common format.
    Error(Answer),
    /// As an HTTP error in the hub's own format.
    Own(Answer),
    /// As the outcome of a send, with a successful HTTP status.
    Outcome(Answer),
    /// As the reason of a failed job.
    Job(Answer),
    /// Nowhere, for this reason.
    Never(&'static str),
}

/// Provokes a code. A code without a case does not compile.
async fn provoke(code: Code) -> Shown {
    let hub = TestHub::start();
    let key = hub.register("a").await;
    Shown::Error(match code {
        Code::Validation => hub.post("/register", None, &json!({})).await,
        Code::SenderNotRegistered => hub.send(OPERATOR, "nobody", "a", "hi").await,
        Code::EndpointBlocked => {
            hub.post("/register", None, &json!({"agent_id": "b", "endpoint": "http://10.0.0.1/"})).await
        }
        Code::Unauthorized => hub.send("ca_wrong", "a", "a", "hi").await,
        Code::Forbidden => hub.post("/agents", Some(&key), &json!({})).await,
        Code::SenderMismatch => {
            hub.register("b").await;
            hub.send(&key, "b", "a", "hi").await
        }
        Code::PolicyForbidden => {
            let anna = hub.account("anna@example.org").await;
            let channel = hub.channel(&anna, &json!({"name": "ops"})).await;
            hub.add(&channel, &anna, &json!({"agent": "a"})).await;
            let said = hub.say(&channel, &anna, &json!({"content": "lunch is at noon"})).await;
            let body = json!({"content": "enjoy", "reply_to": said["event_id"]});
            return Shown::Own(hub.post(&format!("{channel}/messages"), Some(&key), &body).await);
        }
        Code::QuotaExceeded => {
            let hub = Setup::new().config(|config| config.quotas.agent_bytes = 3000).start();
            let key = hub.register("a").await;
            hub.send(&key, "a", "a", &"hi".repeat(2000)).await
        }
        Code::AgentNotFound => hub.get("/agents/nobody", None).await,
        Code::NotFound => hub.get("/nothing/here", None).await,
        Code::Method => hub.delete("/agents", Some(&key)).await,
        Code::RequestTimeout => slow_body().await,
        Code::AgentIdTaken => hub.post("/register", None, &json!({"agent_id": "a"})).await,
        Code::IdempotencyConflict => {
            let turn = |text: &str| {
                let mut turn = envelope("a", text);
                (turn["conversation_id"], turn["turn_number"]) = (json!("c"), json!(1));
                turn
            };
            hub.send_envelope(&key, "a", &turn("one")).await;
            hub.send_envelope(&key, "a", &turn("other")).await
        }
        Code::IdempotencyInProgress => in_progress(&hub, &key).await,
        Code::Conflict => {
            let channel = channel(&hub, &key).await;
            let again = json!({"agent": "a"});
            return Shown::Own(hub.post(&format!("{channel}/members"), Some(&key), &again).await);
        }
        Code::Gone => return Shown::Own(gone(&hub, &key).await),
        Code::TooLarge => {
            let request = hub.request(Method::POST, "/messages", Some(&key));
            Answer::of(request.body(vec![b' '; MAX_BODY + 1])).await
        }
        Code::HeadTooLarge => {
            let request = hub.request(Method::GET, "/agents", None).header("x-large", "x".repeat(200_000));
            Answer::of(request).await
        }
        Code::RateLimited => {
            let hub = Setup::new().config(|config| config.rate_limit_anonymous = Some(1)).start();
            hub.get("/agents", None).await;
            hub.get("/agents", None).await
        }
        Code::SkillMismatch | Code::BudgetInsufficient | Code::TransferFailed | Code::AgentOffline => {
            return Shown::Own(no_job(code).await);
        }
        Code::ExecutionError => return Shown::Job(failed_job(&hub).await),
        Code::Internal => return Shown::Never("it means a fault of the hub, and no request may cause one"),
        Code::Overloaded => overloaded().await,
        Code::AgentUnreachable | Code::Timeout => {
            let receiver = FakeAgent::start().await;
            let hub =
                Setup::new().config(|config| config.webhook_timeout = Duration::from_millis(200)).start();
            let key = hub.register("a").await;
            hub.register_webhook("b", &receiver.url()).await;
            receiver.set(if code == Code::Timeout { Reply::Hang } else { Reply::DropConnection });
            return Shown::Outcome(hub.send(&key, "a", "b", "hi").await);
        }
    })
}

/// Creates a channel of this agent and returns its path.
async fn channel(hub: &TestHub, key: &str) -> String {
    let made = hub.post("/api/v1/channels", Some(key), &json!({"name": "c"})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    format!("/api/v1/channels/{}", made.body["id"].as_str().unwrap())
}

/// Calls the callback of an agent that has left the channel.
async fn gone(hub: &TestHub, key: &str) -> Answer {
    let other = hub.register("b").await;
    let channel = channel(hub, key).await;
    hub.post(&format!("{channel}/members"), Some(key), &json!({"agent": "b"})).await;
    hub.post(&format!("{channel}/messages"), Some(key), &json!({"content": "@b hello"})).await;
    let page = hub.get("/agent/messages?kind=all", Some(&other)).await;
    let callback = page.body["data"][0]["data"]["callback"].as_str().unwrap();
    let callback = callback.strip_prefix(&hub.url).unwrap();
    let status = json!({"type": "status", "status": "thinking"});
    assert_eq!(hub.post(callback, None, &status).await.status, 200);
    hub.delete(&format!("{channel}/members/b"), Some(key)).await;
    hub.post(callback, None, &status).await
}

/// Requests a job that is refused.
async fn no_job(code: Code) -> Answer {
    let clock = ManualClock::new(1_800_000_000_000);
    let hub = Setup::new().clock(&clock).start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let (skill, budget) = match code {
        Code::SkillMismatch => ("fly", 0.1),
        Code::BudgetInsufficient => ("analyze_text", 0.01),
        Code::TransferFailed => ("analyze_text", 2.0),
        _ => ("analyze_text", 0.1),
    };
    if code == Code::AgentOffline {
        clock.advance(91_000);
    }
    let job =
        json!({"agent_id": worker.id, "skill_name": skill, "input_data": {"text": ""}, "budget": budget});
    hub.post("/market/jobs", Some(&boss.key), &job).await
}

/// Returns a failed job.
async fn failed_job(hub: &TestHub) -> Answer {
    let (boss, worker) = (trader(hub, "boss", 1).await, trader(hub, "worker", 0).await);
    let job = json!({"agent_id": worker.id, "skill_name": "analyze_text", "input_data": {"text": ""}, "budget": 0.1});
    let id = hub.post("/market/jobs", Some(&boss.key), &job).await.body["job_id"].clone();
    let path = format!("/market/jobs/{}", id.as_str().unwrap());
    hub.post(&format!("{path}/result"), Some(&worker.key), &json!({"job_id": id, "status": "FAILURE"})).await;
    hub.get(&path, Some(&boss.key)).await
}

/// Sends a body that never ends.
async fn slow_body() -> Answer {
    let hub = Setup::new().config(|config| config.times.body = Duration::from_millis(200)).start();
    let body = futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>();
    Answer::of(hub.request(Method::POST, "/register", None).body(reqwest::Body::wrap_stream(body))).await
}

/// Repeats a send while the receiver of the first one hangs.
async fn in_progress(hub: &TestHub, key: &str) -> Answer {
    let receiver = FakeAgent::start().await;
    receiver.set(Reply::Hang);
    hub.register_webhook("b", &receiver.url()).await;
    let body = json!({"receiver_id": "b", "envelope": envelope("a", "hi")});
    let send =
        || hub.request(Method::POST, "/messages", Some(key)).header("idempotency-key", "k").json(&body);
    let first = tokio::spawn(send().send());
    receiver.wait_for(1, SOON).await;
    let second = Answer::of(send()).await;
    first.abort();
    second
}

/// Overloads a store with a full queue.
async fn overloaded() -> Answer {
    let hub = Setup::new().queue(8).start();
    let release = hub.fill_queue().await;
    let body = json!({"agent_id": "a"});
    let refused = hub.post("/register", None, &body).await;
    drop(release);
    // The store recovers, and the name is free.
    eventually(async || hub.post("/register", None, &body).await.status, |status| *status == 201).await;
    refused
}

#[tokio::test]
async fn every_code_is_provoked() {
    for code in Code::ALL {
        match provoke(*code).await {
            Shown::Error(answer) => drop(answer.failure(*code).to_owned()),
            Shown::Outcome(answer) => {
                assert_eq!(answer.outcome(), (200, "failed"));
                assert_eq!(answer.data()["error_code"], code.as_str());
                assert_ne!(answer.data()["detail"].as_str().unwrap(), "");
            }
            Shown::Own(answer) => {
                assert_eq!(answer.status, code.status(), "{}", answer.text);
                assert_eq!(answer.body["error"]["code"], code.short(), "{}", answer.text);
                assert!(!answer.body["error"]["message"].as_str().unwrap().is_empty());
            }
            Shown::Job(answer) => {
                assert_eq!(answer.body["error"]["code"], code.as_str(), "{}", answer.text);
                assert!(!answer.body["error"]["message"].as_str().unwrap().is_empty());
            }
            Shown::Never(reason) => assert_eq!(*code, Code::Internal, "{reason}"),
        }
    }
}

#[tokio::test]
async fn a_path_that_is_none() {
    let hub = TestHub::start();
    for path in ["/nothing", "/agents/a/b", "/agents/", "/agent", "/API", "/assets/nothing.css", "/..%2f"] {
        for method in [Method::GET, Method::POST, Method::DELETE] {
            let answer = Answer::of(hub.request(method, path, None)).await;
            answer.failure(if path == "/assets/nothing.css" && answer.status == 405 {
                Code::Method
            } else {
                Code::NotFound
            });
        }
    }
}

#[tokio::test]
async fn a_method_that_is_none_names_those_that_are() {
    let hub = TestHub::start();
    for (path, allowed) in [
        ("/register", "POST"),
        ("/agents", "GET,HEAD,POST"),
        ("/agents/a", "DELETE,GET,HEAD"),
        ("/messages", "POST"),
        ("/agent/inbox", "GET,HEAD"),
        ("/agent/messages", "GET,HEAD"),
        ("/health", "GET,HEAD"),
        ("/metrics", "GET,HEAD"),
        ("/.well-known/chorus.json", "GET,HEAD"),
        ("/", "GET,HEAD"),
        ("/api", "GET,HEAD"),
        ("/api/openapi.json", "GET,HEAD"),
    ] {
        for method in [Method::PATCH, Method::PUT, Method::OPTIONS] {
            let answer = Answer::of(hub.request(method, path, None)).await;
            answer.failure(Code::Method);
            let mut found: Vec<_> = answer.header("allow").split(',').map(str::trim).collect();
            found.sort_unstable();
            assert_eq!(found.join(","), allowed, "{path}");
        }
    }
}

#[tokio::test]
async fn the_answer_to_head_has_no_body() {
    let hub = TestHub::start();
    for path in ["/nothing", "/agents/nobody", "/agent/inbox", "/register"] {
        let answer = Answer::of(hub.request(Method::HEAD, path, None)).await;
        assert!((400..500).contains(&answer.status) && answer.text.is_empty(), "{path}: {answer:?}");
    }
    let request = b"HEAD /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let answer = raw_exchange(hub.addr, request, SOON).await;
    assert_eq!((status_of(&answer), body_of(&answer)), (Some(404), &b""[..]));
}

#[tokio::test]
async fn what_may_pass_says_when() {
    let clock = ManualClock::new(1_774_000_800_000);
    let hub = Setup::new().clock(&clock).config(|config| config.rate_limit_anonymous = Some(4)).start();
    assert_eq!(hub.get("/agents", None).await.status, 200);
    let refused = hub.get("/agents", None).await;
    refused.failure(Code::RateLimited);
    assert_eq!(refused.header("retry-after"), "15", "four a minute");
    assert_eq!(refused.body["metadata"]["timestamp"], "2026-03-20T10:00:00.000Z");
    assert_eq!(overloaded().await.header("retry-after"), "1");
    let hub = TestHub::start();
    let key = hub.register("a").await;
    assert_eq!(in_progress(&hub, &key).await.header("retry-after"), "1");
}

#[tokio::test]
async fn who_has_no_key_learns_how_to_show_one() {
    let hub = TestHub::start();
    let answer = hub.get("/agent/messages", None).await;
    answer.failure(Code::Unauthorized);
    assert_eq!(answer.header("www-authenticate"), "Bearer realm=\"chorus\"");
}

#[tokio::test]
async fn headers_that_take_too_long() {
    let hub = Setup::new().config(|config| config.times.head = Duration::from_millis(200)).start();
    let answer = raw_exchange(hub.addr, b"GET /agents HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", SOON).await;
    assert_eq!(status_of(&answer), Some(408));
    let body: Value = serde_json::from_slice(body_of(&answer)).unwrap();
    assert_eq!(failure(&body, Code::RequestTimeout), "the request's headers did not arrive in time");
    let silent = raw_exchange(hub.addr, b"", SOON).await;
    assert_eq!(silent, b"", "a connection that never asked is closed without an answer");
}

/// All faults are in one response, as `path: fault`, joined by `; `.
#[tokio::test]
async fn all_faults_at_once() {
    let hub = TestHub::start();
    let key = hub.register("a").await;
    let answer = hub
        .post(
            "/messages",
            Some(&key),
            &json!({"receiver_id": 5, "stream": 1, "envelope": {
                "chorus_version": "0.3", "sender_id": "a b", "original_text": "", "sender_culture": "en_US",
                "cultural_context": "short", "conversation_id": 7, "turn_number": 0
            }}),
        )
        .await;
    let paths = [
        "receiver_id",
        "stream",
        "envelope.chorus_version",
        "envelope.sender_id",
        "envelope.original_text",
        "envelope.sender_culture",
        "envelope.cultural_context",
        "envelope.conversation_id",
        "envelope.turn_number",
    ];
    assert_eq!(fault_paths(answer.failure(Code::Validation)), paths);

    let register = json!({"agent_id": "", "endpoint": "ftp://x/", "agent_card": {
        "card_version": "0.2", "user_culture": 1, "supported_languages": ["en", "e_n", 3]
    }});
    let paths = [
        "agent_id",
        "endpoint",
        "agent_card.card_version",
        "agent_card.user_culture",
        "agent_card.supported_languages[1]",
        "agent_card.supported_languages[2]",
    ];
    for (path, key) in [("/register", None), ("/agents", Some(OPERATOR))] {
        let answer = hub.post(path, key, &register).await;
        assert_eq!(fault_paths(answer.failure(Code::Validation)), paths);
    }
    let nothing = hub.post("/agents", Some(OPERATOR), &json!({})).await;
    assert_eq!(nothing.failure(Code::Validation), "agent_id: is required; endpoint: is required");
}

fn fault_paths(message: &str) -> Vec<&str> {
    let faults = message.split("; ").filter_map(|fault| fault.split_once(": "));
    // A fault's text may hold a semicolon, so only paths are counted.
    faults.map(|(path, _)| path).filter(|path| !path.contains(' ')).collect()
}

/// Unknown paths answer in the format of their door, whatever credential is sent.
#[tokio::test]
async fn paths_that_are_none_answer_in_the_format_of_their_door() {
    let hub = TestHub::start();
    for (path, own) in [
        ("/nothing", false),
        ("/mcp/a/b/c/d", true),
        ("/c2a/x", true),
        ("/api/v2/x", true),
        ("/api/v1/x", true),
        ("/market/x", true),
    ] {
        for shown in [None, Some("Bearer "), Some("Bearer ca_wrong"), Some("Basic eA==")] {
            let mut request = hub.request(Method::POST, path, None);
            if let Some(shown) = shown {
                request = request.header("Authorization", shown);
            }
            let answer = request.send().await.unwrap();
            assert_eq!(answer.status(), 404, "{path} {shown:?}");
            let body: Value = answer.json().await.unwrap();
            let (code, format) = if own { ("NOT_FOUND", true) } else { ("ERR_NOT_FOUND", false) };
            assert_eq!(
                (&body["error"]["code"], body.get("success").is_none()),
                (&json!(code), format),
                "{path}"
            );
        }
    }
}
