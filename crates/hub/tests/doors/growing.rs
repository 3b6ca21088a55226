//! Answers in progress: a growing message in a channel, and a stream to a waiting sender.

use crate::channel::message;
use crate::channel_fixture::ChannelFixture;
use crate::support::{SOON, Setup, TestHub, envelope, eventually};
use chorus_protocol::code::Code;
use chorus_protocol::sse::Event;
use chorus_testkit::receiver::FakeAgent;
use chorus_testkit::sse::SseClient;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

/// Follows the channel from now on.
async fn follow(hub: &TestHub, fixture: &ChannelFixture) -> SseClient {
    let url = format!("{}/api/v1/channels/{}/stream", hub.url, fixture.channel);
    let mut stream = SseClient::open(&url, &fixture.anna, None).await.unwrap();
    assert_eq!(next(&mut stream).await.0, "connected");
    stream
}

async fn next(stream: &mut SseClient) -> (String, Value) {
    let Event { event, data, .. } = stream.next(SOON).await.expect("something comes");
    (event, serde_json::from_str(&data).unwrap())
}

/// Waits until the growing message has this content.
async fn grown(stream: &mut SseClient, content: &str) -> Value {
    loop {
        let (event, data) = next(stream).await;
        assert_eq!(event, "growing", "{data}");
        if data["content"] == content {
            return data;
        }
    }
}

fn chunk(text: &str) -> Value {
    json!({"type": "chunk", "text": text})
}

/// Mentions `timber` and returns its callback.
async fn asked(fixture: &ChannelFixture, timber: &FakeAgent) -> Value {
    fixture.connected("timber", timber).await;
    fixture.say("@timber tell a story").await;
    timber.wait_for(1, SOON).await[0].body["callback"].clone()
}

#[tokio::test]
async fn a_message_grows_and_only_the_whole_one_is_kept() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    let callback = asked(&fixture, &timber).await;
    let mut anna = follow(&fixture.hub, &fixture).await;
    let first = fixture.call_back(&callback, &chunk("Once upon ")).await;
    assert_eq!(first.status, 200, "{}", first.text);
    let data = grown(&mut anna, "Once upon ").await;
    assert_eq!(data["handle"], "timber");
    // The last word is shown once it is complete, because half a key is not recognised as a key.
    fixture.call_back(&callback, &chunk("a time ca_00112233445566778899")).await;
    grown(&mut anna, "Once upon a time ").await;
    // A later follower sees the current content.
    let mut late = follow(&fixture.hub, &fixture).await;
    assert_eq!(grown(&mut late, "Once upon a time ").await["event_id"], data["event_id"]);
    fixture.call_back(&callback, &chunk("aabbccddeeff and ")).await;
    let (_, shown) = next(&mut anna).await;
    assert!(!shown["content"].as_str().unwrap().contains("0011223344"), "{shown}");
    assert_eq!(fixture.log().await.len(), 1, "nothing of it is in the log");

    let said = fixture.call_back(&callback, &message("Once upon a time.")).await;
    assert_eq!(said.body["events"], json!([data["event_id"]]), "it was seen under this id");
    let (event, whole) = next(&mut anna).await;
    assert_eq!((event.as_str(), &whole["event_id"]), ("message", &data["event_id"]));
    let log = fixture.log().await;
    assert_eq!((log.len(), &log[1]["content"]), (2, &json!("Once upon a time.")));
    let more = fixture.call_back(&callback, &message("The end.")).await;
    assert_ne!(more.body["events"], said.body["events"], "another message is another");
}

#[tokio::test]
async fn what_comes_to_nothing_is_taken_back() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    let callback = asked(&fixture, &timber).await;
    let mut anna = follow(&fixture.hub, &fixture).await;
    fixture.call_back(&callback, &chunk("Once ")).await;
    let data = grown(&mut anna, "Once ").await;
    let failed = json!({"type": "error", "message": "no model", "code": "model_error"});
    assert_eq!(fixture.call_back(&callback, &failed).await.status, 200);
    let mut seen = [next(&mut anna).await, next(&mut anna).await];
    seen.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(seen[0].0, "error");
    assert_eq!((seen[1].0.as_str(), &seen[1].1["content"]), ("growing", &json!("")));
    assert_eq!(seen[1].1["event_id"], data["event_id"]);
}

#[tokio::test]
async fn how_long_a_message_may_grow() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    let callback = asked(&fixture, &timber).await;
    let half = format!("{} ", "x".repeat(60_000));
    assert_eq!(fixture.call_back(&callback, &chunk(&half)).await.status, 200);
    let refused = fixture.call_back(&callback, &chunk(&half)).await;
    assert!(refused.own_failure(Code::Validation).starts_with("text: "), "{}", refused.text);
    fixture.call_back(&callback, &chunk("")).await.own_failure(Code::Validation);
}

/// The growing message is visible on every node, whichever received the chunk.
#[tokio::test]
async fn it_grows_on_every_node() {
    let setup = Setup::postgres();
    let (fixture, timber) = (ChannelFixture::on(&setup).await, FakeAgent::start().await);
    let other = setup.start();
    let callback = asked(&fixture, &timber).await;
    let mut anna = follow(&other, &fixture).await;
    fixture.call_back(&callback, &chunk("Once upon ")).await;
    grown(&mut anna, "Once upon ").await;
    let elsewhere = json!(callback.as_str().unwrap().replace(&fixture.hub.url, &other.url));
    fixture.call_back(&elsewhere, &chunk("a time ")).await;
    grown(&mut anna, "Once upon a time ").await;
}

/// Sends an envelope that streams its answer, to an agent with a connection string. Returns the stream, the
/// callback and the path.
async fn streamed(fixture: &ChannelFixture, timber: &FakeAgent) -> (reqwest::Response, Value, String) {
    fixture.connected("timber", timber).await;
    let alice = fixture.hub.register("alice").await;
    let body = json!({"receiver_id": "timber", "envelope": envelope("alice", "go on"), "stream": true});
    let request = fixture.hub.request(Method::POST, "/messages", Some(&alice)).json(&body);
    let sending = tokio::spawn(request.send());
    let callback = timber.wait_for(1, SOON).await[0].body["callback"].clone();
    let response = sending.await.unwrap().unwrap();
    assert_eq!(response.status(), 200);
    (response, callback, alice)
}

#[tokio::test]
async fn a_streamed_answer_of_an_agent_behind_a_connection_string_is_what_it_says() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    let (response, callback, alice) = streamed(&fixture, &timber).await;
    for said in
        [json!({"type": "lifecycle", "status": "processing"}), chunk("Hel"), chunk("lo"), message("Hello")]
    {
        assert_eq!(fixture.call_back(&callback, &said).await.status, 200);
    }
    let heard = tokio::time::timeout(SOON, response.text()).await.unwrap().unwrap();
    let place = |what: &str| heard.find(what).unwrap_or_else(|| panic!("{what} in {heard}"));
    let (first, second) = (place(r#"{"text":"Hel"}"#), place(r#"{"text":"lo"}"#));
    assert!(first < second && second < place("event: done"), "{heard}");
    assert!(heard.contains(r#"{"result":"Hello"}"#), "{heard}");
    assert!(fixture.hub.history(&alice).await.is_empty(), "it is not said twice");
    // Nobody waits any more, so a late message becomes an envelope.
    let late = async || fixture.call_back(&callback, &message("And one more thing")).await.status;
    assert_eq!(late().await, 200);
    eventually(async || fixture.hub.history(&alice).await.len(), |length| *length == 1).await;
}

#[tokio::test]
async fn an_agent_that_fails_ends_the_stream_of_its_sender() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    let (response, callback, _) = streamed(&fixture, &timber).await;
    let failed = json!({"type": "error", "message": "no model", "code": "model_error"});
    assert_eq!(fixture.call_back(&callback, &failed).await.status, 200);
    let heard = tokio::time::timeout(SOON, response.text()).await.unwrap().unwrap();
    assert!(heard.contains("event: error") && heard.contains("model_error"), "{heard}");
}

/// A callback and an inbox reply reach a sender that waits on another node.
#[tokio::test]
async fn a_sender_is_answered_from_any_node() {
    let setup = Setup::postgres();
    let (fixture, timber) = (ChannelFixture::on(&setup).await, FakeAgent::start().await);
    let other = setup.start();
    let (response, callback, alice) = streamed(&fixture, &timber).await;
    let elsewhere = json!(callback.as_str().unwrap().replace(&fixture.hub.url, &other.url));
    for said in [chunk("Hel"), message("Hello")] {
        assert_eq!(fixture.call_back(&elsewhere, &said).await.status, 200);
    }
    let heard = tokio::time::timeout(SOON, response.text()).await.unwrap().unwrap();
    assert!(heard.contains(r#"{"text":"Hel"}"#) && heard.contains(r#"{"result":"Hello"}"#), "{heard}");

    let bob = fixture.hub.register("bob").await;
    let mut inbox = other.inbox(&bob, None).await;
    let body = json!({"receiver_id": "bob", "envelope": envelope("alice", "go on"), "stream": true});
    let request = fixture.hub.request(Method::POST, "/messages", Some(&alice)).json(&body);
    let response = request.send().await.unwrap();
    let (_, asked) = inbox.message().await;
    let url = asked["reply_stream"].as_str().unwrap().replace(&fixture.hub.url, &other.url);
    let lines = "{\"type\":\"chunk\",\"text\":\"Hi\"}\n{\"type\":\"done\",\"result\":\"Hi!\"}\n";
    let replied = other.client.post(&url).body(lines).send().await.unwrap();
    assert_eq!(replied.status(), 200, "{}", replied.text().await.unwrap());
    let heard = tokio::time::timeout(SOON, response.text()).await.unwrap().unwrap();
    assert!(heard.contains(r#"{"text":"Hi"}"#) && heard.contains(r#"{"result":"Hi!"}"#), "{heard}");
    let again = other.client.post(&url).body(lines).send().await.unwrap();
    assert_eq!(again.status(), 404, "used once");
}

/// A receiver that keeps answering one sender does not extend the wait of another.
#[tokio::test]
async fn the_answer_to_another_is_no_sign_of_this_one() {
    let setup = Setup::postgres().config(|config| config.times.reply = Duration::from_secs(2));
    let (hub, other) = (setup.start(), setup.start());
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let mut inbox = other.inbox(&bob, None).await;
    let body = json!({"receiver_id": "bob", "envelope": envelope("alice", "go on"), "stream": true});
    let ask = async || hub.request(Method::POST, "/messages", Some(&alice)).json(&body).send().await.unwrap();
    let answered = ask().await;
    let url = inbox.message().await.1["reply_stream"].as_str().unwrap().replace(&hub.url, &other.url);
    // One line is sent every 50 ms, on another node than the sender's, until the other sender has stopped
    // waiting.
    let (told, waits) = tokio::sync::watch::channel(true);
    let lines = futures_util::stream::unfold(false, move |is_over| {
        let waits = waits.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let goes_on = *waits.borrow();
            let line = if goes_on { chunk("…") } else { json!({"type": "done", "result": "all"}) };
            (!is_over).then(|| (Ok::<_, std::io::Error>(format!("{line}\n")), !goes_on))
        }
    });
    let reply = tokio::spawn(other.client.post(&url).body(reqwest::Body::wrap_stream(lines)).send());
    let silent = tokio::time::timeout(SOON, ask().await.text()).await.unwrap().unwrap();
    assert!(silent.contains("ERR_TIMEOUT"), "{silent}");
    told.send_replace(false);
    let heard = tokio::time::timeout(SOON, answered.text()).await.unwrap().unwrap();
    assert!(heard.contains(r#"{"result":"all"}"#), "{heard}");
    assert_eq!(reply.await.unwrap().unwrap().status(), 200);
}
