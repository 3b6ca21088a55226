//! Callbacks: accepted events, rate, authorization and expiry.

use crate::channel::{message, post_json, post_text, told};
use crate::channel_fixture::{ChannelFixture, HOUR};
use crate::support::{Answer, SOON, eventually};
use chorus_protocol::code::Code;
use chorus_testkit::receiver::FakeAgent;
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn of_several_events_what_came_before_a_broken_line_stays() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    let (_, event, callback) = told(&fixture, &timber).await;
    let lines = |events: &[Value]| events.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    for (kind, body) in [
        ("application/x-ndjson", ""),
        ("application/json", &*lines(&[message("one"), message("two")])),
        ("application/json", r#"{"type": "dance"}"#),
        ("application/json", r#"{"content": "no type"}"#),
        ("application/json", "[]"),
    ] {
        post_text(&fixture, &callback, kind, body).await.own_failure(Code::Validation);
    }
    assert_eq!(fixture.log().await.len(), 1, "nothing was recorded");
    assert_eq!(fixture.delivery(&event).await["disposition"], Value::Null);

    let wrong = lines(&[message("one"), json!({"type": "dance"}), message("three")]);
    let refused = post_text(&fixture, &callback, "application/x-ndjson", &wrong).await;
    assert!(refused.own_failure(Code::Validation).starts_with("line 2: type: "), "{}", refused.text);
    let log = fixture.log().await;
    assert_eq!((log.len(), &log[1]["content"]), (2, &json!("one")));
    assert_eq!(refused.body["error"]["details"]["recorded"], json!([log[1]["event_id"]]));

    let good =
        lines(&[json!({"type": "lifecycle", "status": "processing"}), message("two"), message("three")]);
    let answer = post_text(&fixture, &callback, "application/x-ndjson; charset=utf-8", &good).await;
    assert_eq!((answer.status, answer.body["events"].as_array().unwrap().len()), (200, 3), "{}", answer.text);
    let log = fixture.log().await;
    let said: Vec<_> = log[2..].iter().map(|event| (&event["event_id"], &event["content"])).collect();
    let ids = &answer.body["events"];
    assert_eq!(said, [(&ids[0], &Value::Null), (&ids[1], &json!("two")), (&ids[2], &json!("three"))]);
}

#[tokio::test]
async fn lines_are_recorded_as_they_arrive() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    let (_, _, callback) = told(&fixture, &timber).await;
    let (lines, body) = tokio::sync::mpsc::channel::<Result<String, std::io::Error>>(1);
    let body = futures_util::stream::unfold(body, async |mut body| Some((body.recv().await?, body)));
    let request = fixture.hub.client.post(callback.as_str().unwrap());
    let request =
        request.header("content-type", "application/x-ndjson").body(reqwest::Body::wrap_stream(body));
    let answering = tokio::spawn(request.send());
    for n in 1..=3 {
        lines.send(Ok(format!("{}\n", message(&n.to_string())))).await.unwrap();
        // Each event is recorded before the next one is sent.
        eventually(async || fixture.log().await.len(), |length| *length == 1 + n).await;
    }
    drop(lines);
    let answer: Value = answering.await.unwrap().unwrap().json().await.unwrap();
    assert_eq!(answer["events"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_retried_event_is_recorded_once() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    let (_, _, callback) = told(&fixture, &timber).await;
    let send = async |callback: &Value, key: &str, text: &str| {
        let request = fixture.hub.client.post(callback.as_str().unwrap()).header("idempotency-key", key);
        Answer::of(request.json(&message(text))).await
    };
    let first = send(&callback, "k", "once").await;
    let again = send(&callback, "k", "once").await;
    assert_eq!((again.status, &again.body, again.header("idempotent-replayed")), (200, &first.body, "true"));
    send(&callback, "k", "other").await.own_failure(Code::IdempotencyConflict);
    assert_eq!(send(&callback, "l", "once").await.status, 200);
    assert_eq!(fixture.log().await.len(), 3);
    // The callback of another message has its own idempotency keys.
    fixture.say("@timber again").await;
    let other = timber.wait_for(2, SOON).await[1].body["callback"].clone();
    assert_eq!(send(&other, "k", "other").await.status, 200);
    assert_eq!(fixture.log().await.len(), 5);
    // After losing access, an agent does not get its earlier results again.
    let rotate = "/api/v1/agents/timber/connection-string/rotate";
    assert_eq!(fixture.hub.post(rotate, Some(&fixture.anna), &json!({})).await.status, 200);
    send(&other, "k", "other").await.own_failure(Code::Gone);
}

#[tokio::test]
async fn a_callback_is_bound_to_its_agent_channel_and_delivery() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    let (_, _, callback) = told(&fixture, &timber).await;
    let text = callback.as_str().unwrap();
    let other = fixture.another_channel("other").await;
    fixture.join(&other, "timber").await;
    let (head, token) = text.rsplit_once('/').unwrap();
    let mut forged = token.to_owned();
    let last = if forged.ends_with('A') { "B" } else { "A" };
    forged.replace_range(10..11, if &forged[10..11] == "A" { "B" } else { "A" });
    for (what, url) in [
        ("another channel", text.replace(&fixture.channel, &other)),
        ("no channel", text.replace(&fixture.channel, "ops")),
        ("a forged token", format!("{head}/{forged}")),
        ("a longer token", format!("{text}{last}")),
        ("no token", format!("{head}/tok_")),
        ("another word", format!("{head}/hello")),
    ] {
        let answer = fixture.call_back(&json!(url), &message("hello")).await;
        assert_eq!(answer.status, 404, "{what}: {}", answer.text);
        answer.own_failure(Code::NotFound);
    }
    // An additional bearer key changes nothing.
    let request = fixture.hub.client.post(text).bearer_auth("ca_00000000000000000000000000000000");
    assert_eq!(Answer::of(request.json(&message("hello"))).await.status, 200);
    assert_eq!(fixture.log().await.len(), 2);
}

#[tokio::test]
async fn a_callback_ends_after_a_day() {
    let ((fixture, clock), timber) = (ChannelFixture::with_clock().await, FakeAgent::start().await);
    let (_, _, callback) = told(&fixture, &timber).await;
    clock.advance(24 * HOUR - 1);
    for n in 0..3 {
        assert_eq!(fixture.call_back(&callback, &message(&n.to_string())).await.status, 200, "any number");
    }
    clock.advance(1);
    fixture.call_back(&callback, &message("late")).await.own_failure(Code::Gone);
    assert_eq!(fixture.log().await.len(), 4);
}

#[tokio::test]
async fn a_callback_ends_with_what_it_stands_on() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    let (_, _, first) = told(&fixture, &timber).await;
    let say = async |n: usize| {
        fixture.say("@timber hello").await;
        timber.wait_for(n, SOON).await[n - 1].body["callback"].clone()
    };
    let path = format!("/api/v1/channels/{}/members/timber", fixture.channel);
    assert!(fixture.hub.delete(&path, Some(&fixture.anna)).await.status < 300);
    fixture.call_back(&first, &message("I left")).await.own_failure(Code::Gone);

    fixture.join(&fixture.channel, "timber").await;
    let second = say(2).await;
    assert_eq!(fixture.call_back(&second, &message("I am back")).await.status, 200);
    let rotate = "/api/v1/agents/timber/connection-string/rotate";
    assert_eq!(fixture.hub.post(rotate, Some(&fixture.anna), &json!({})).await.status, 200);
    fixture.call_back(&second, &message("rotated")).await.own_failure(Code::Gone);

    let third = say(3).await;
    let new = format!("http://{}/inbox/sk_new", timber.addr());
    assert_eq!(fixture.put_connection("timber", &fixture.anna, &new).await.status, 200);
    fixture.call_back(&third, &message("replaced")).await.own_failure(Code::Gone);

    let fourth = say(4).await;
    assert_eq!(fixture.hub.delete("/agents/timber", Some(&fixture.anna)).await.status, 200);
    fixture.call_back(&fourth, &message("unregistered")).await.own_failure(Code::Gone);
    let said = fixture.log().await.iter().filter(|event| event["author"]["kind"] == "agent").count();
    assert_eq!(said, 1);
}

/// A callback ends with the key, because a former holder of the key may have read it.
#[tokio::test]
async fn a_callback_ends_with_the_key() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    let (made, _, callback) = told(&fixture, &timber).await;
    let key = made["api_key"].as_str().unwrap();
    assert_eq!(fixture.hub.post("/register", Some(key), &json!({"agent_id": "timber"})).await.status, 200);
    fixture.call_back(&callback, &message("still here")).await.own_failure(Code::Gone);
}

/// A callback accepts only POST with JSON of limited size.
#[tokio::test]
async fn what_a_callback_does_not_take() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    let (_, _, callback) = told(&fixture, &timber).await;
    let large = json!({"type": "status", "status": "x".repeat(300_000)}).to_string();
    post_json(&fixture, &callback, &large).await.own_failure(Code::TooLarge);
    let path = callback.as_str().unwrap().strip_prefix(&fixture.hub.url).unwrap();
    let get = Answer::of(fixture.hub.request(Method::GET, path, None)).await;
    get.own_failure(Code::Method);
    assert_eq!(fixture.log().await.len(), 1);
}
