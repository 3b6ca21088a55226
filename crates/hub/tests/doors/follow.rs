//! Following a conversation: the stream starts at the requested position, loses nothing, and ends for former
//! members.

use crate::support::{Answer, Inbox, SOON, Setup, TestHub, eventually};
use chorus_protocol::code::Code;
use chorus_testkit::sse::SseClient;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

async fn pair(setup: Setup) -> (TestHub, String, String, String) {
    let hub = setup.start();
    let (anna, bob) = (hub.account("anna@example.org").await, hub.register("bob").await);
    let channel = hub.channel(&anna, &json!({"name": "c"})).await;
    hub.add(&channel, &anna, &json!({"agent": "bob"})).await;
    (hub, channel, anna, bob)
}

async fn say(hub: &TestHub, channel: &str, key: &str, texts: &[&str]) {
    for text in texts {
        hub.say(channel, key, &json!({"content": text})).await;
    }
}

/// Returns the texts of the next messages.
async fn texts(stream: &mut Inbox, count: usize) -> Vec<String> {
    let mut texts = vec![];
    for _ in 0..count {
        texts.push(stream.event("message").await["content"].as_str().unwrap().to_owned());
    }
    texts
}

#[tokio::test]
async fn the_stream_is_the_log() {
    let (hub, channel, anna, bob) = pair(Setup::new()).await;
    say(&hub, &channel, &anna, &["before"]).await;
    let mut stream = hub.follow(&channel, &bob, None).await;
    let first = hub.say(&channel, &anna, &json!({"content": "@bob one", "intent": "question"})).await;
    let one = format!("{channel}/messages/{}", first["event_id"].as_str().unwrap());
    hub.post(&format!("{one}/reactions"), Some(&bob), &json!({"signal": "seen"})).await;
    hub.say(
        &channel,
        &bob,
        &json!({"content": "two", "thread": first["event_id"], "reply_to": first["event_id"]}),
    )
    .await;
    hub.register("carol").await;
    hub.add(&channel, &anna, &json!({"agent": "carol"})).await;
    hub.post(&format!("{channel}/artifacts"), Some(&anna), &json!({"slug": "s", "content": "x"})).await;
    hub.ask("PATCH", &channel, Some(&anna), &json!({"name": "d"})).await;
    let (mut streamed, mut ids) = (vec![], vec![]);
    for kind in ["message", "reaction", "message", "join", "artifact", "change"] {
        streamed.push(stream.event(kind).await);
        ids.push(stream.sse.last_id().unwrap().parse::<i64>().unwrap());
    }
    stream.assert_quiet().await;
    assert_eq!(ids, [4, 5, 6, 7, 8, 9], "it began at the end, and an id is a sequence number");
    let mut log = hub.log(&channel, &bob, "after=3").await;
    // Later reactions and replies are not known when the message is sent.
    for name in ["reactions", "replies"] {
        log[0].as_object_mut().unwrap().remove(name);
        streamed[0].as_object_mut().unwrap().remove(name);
    }
    assert_eq!(streamed, log);
}

#[tokio::test]
async fn resuming_by_id() {
    let (hub, channel, anna, bob) = pair(Setup::new()).await;
    say(&hub, &channel, &anna, &["1", "2", "3", "4"]).await;
    // The log begins with two joins.
    for (last, rest) in [("3", &["2", "3", "4"][..]), ("5", &["4"]), ("6", &[]), ("999", &[])] {
        let mut stream = hub.follow(&channel, &bob, Some(last)).await;
        assert_eq!(texts(&mut stream, rest.len()).await, rest, "{last}");
        stream.assert_quiet().await;
    }
    let mut stream = hub.follow(&channel, &bob, Some("0")).await;
    stream.event("join").await;
    stream.event("join").await;
    assert_eq!(texts(&mut stream, 4).await, ["1", "2", "3", "4"]);
    let after = SseClient::open(&format!("{}{channel}/stream?after=4", hub.url), &bob, None).await.unwrap();
    let mut after = Inbox { sse: after, after: 0, revoked: false };
    assert_eq!(after.event("connected").await["after"], 4);
    assert_eq!(texts(&mut after, 2).await, ["3", "4"], "a browser cannot send the header at first");
    let both =
        SseClient::open(&format!("{}{channel}/stream?after=1", hub.url), &bob, Some("5")).await.unwrap();
    let mut both = Inbox { sse: both, after: 0, revoked: false };
    assert_eq!(both.event("connected").await["after"], 5);
    assert_eq!(texts(&mut both, 1).await, ["4"], "the header is newer than the query");
    let wrong = SseClient::open(&format!("{}{channel}/stream", hub.url), &bob, Some("x")).await.unwrap_err();
    assert_eq!((wrong.0.as_u16(), &wrong.1["error"]["code"]), (400, &json!("VALIDATION")));
}

/// A follower far behind catches up while others post and the hub restarts.
#[tokio::test]
async fn nothing_is_lost_on_the_way() {
    let (hub, channel, anna, bob) = pair(Setup::new()).await;
    for n in 0..150 {
        say(&hub, &channel, &anna, &[&n.to_string()]).await;
    }
    let mut stream = hub.follow(&channel, &bob, Some("2")).await;
    let mut seen = texts(&mut stream, 80).await;
    let last = stream.sse.last_id().unwrap().to_owned();
    drop(stream);
    let hub = hub.restart(|_| {}).await;
    let mut stream = hub.follow(&channel, &bob, Some(&last)).await;
    for n in 150..200 {
        say(&hub, &channel, &anna, &[&n.to_string()]).await;
    }
    seen.extend(texts(&mut stream, 120).await);
    assert_eq!(seen, (0..200).map(|n| n.to_string()).collect::<Vec<_>>());
    stream.assert_quiet().await;
    let took = hub.stop().await;
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(stream.rest().await, []);
}

/// A deleted message is not shown to a later follower, although it was just sent to others.
#[tokio::test]
async fn who_resumes_sees_messages_as_they_stand() {
    let (hub, channel, anna, bob) = pair(Setup::new()).await;
    let mut live = hub.follow(&channel, &bob, None).await;
    let said = hub.say(&channel, &anna, &json!({"content": "a slip"})).await;
    assert_eq!(texts(&mut live, 1).await, ["a slip"]);
    hub.delete(&format!("{channel}/messages/{}", said["event_id"].as_str().unwrap()), Some(&anna)).await;
    assert_eq!(live.event("delete").await["target"], said["event_id"]);
    let mut later = hub.follow(&channel, &bob, Some("2")).await;
    let shown = later.event("message").await;
    assert_eq!((&shown["deleted"], &shown["content"]), (&json!(true), &json!(null)));
}

#[tokio::test]
async fn a_member_that_is_removed_hears_nothing_more() {
    for history in ["all", "joined"] {
        let hub = TestHub::start();
        let (anna, bob) = (hub.account("anna@example.org").await, hub.register("bob").await);
        let channel = hub.channel(&anna, &json!({"name": "c", "history": history})).await;
        hub.add(&channel, &anna, &json!({"agent": "bob"})).await;
        let mut stream = hub.follow(&channel, &bob, None).await;
        let mut hers = hub.follow(&channel, &anna, None).await;
        say(&hub, &channel, &anna, &["with him"]).await;
        assert_eq!(texts(&mut stream, 1).await, ["with him"]);
        hub.delete(&format!("{channel}/members/bob"), Some(&anna)).await;
        say(&hub, &channel, &anna, &["without him"]).await;
        hub.post(&format!("{channel}/typing"), Some(&anna), &json!({})).await;
        assert_eq!(stream.rest().await, [], "{history}");
        assert_eq!(texts(&mut hers, 1).await, ["with him"]);
        hers.event("leave").await;
        assert_eq!(texts(&mut hers, 1).await, ["without him"], "others go on");
        let refused =
            SseClient::open(&format!("{}{channel}/stream", hub.url), &bob, Some("1")).await.unwrap_err();
        assert_eq!(refused.0.as_u16(), 404);
    }
}

/// Replacing a key ends the streams opened with it, even during heavy traffic.
#[tokio::test]
async fn a_revoked_key_hears_nothing_more() {
    let (hub, channel, anna, bob) =
        pair(Setup::new().config(|config| config.times.ping = Duration::from_millis(300))).await;
    let mut stream = hub.follow(&channel, &bob, None).await;
    let again = hub.post("/register", Some(&bob), &json!({"agent_id": "bob"})).await;
    assert_eq!(again.status, 200, "{}", again.text);
    let busy = async {
        for n in 0.. {
            say(&hub, &channel, &anna, &[&n.to_string()]).await;
        }
    };
    let ended = async { while stream.sse.next(SOON).await.is_some() {} };
    tokio::select! {
        () = busy => {}
        ended = tokio::time::timeout(SOON, ended) => ended.expect("it ends"),
    }
    assert!(stream.sse.ended());
    let new = again.data()["api_key"].as_str().unwrap();
    hub.follow(&channel, new, None).await;
}

#[tokio::test]
async fn signs_of_life_and_of_typing() {
    let (hub, channel, anna, bob) =
        pair(Setup::new().config(|config| config.times.ping = Duration::from_millis(50))).await;
    let mut stream = hub.follow(&channel, &bob, None).await;
    eventually_pinged(&mut stream).await;
    let typing = hub.post(&format!("{channel}/typing"), Some(&anna), &json!({})).await;
    assert_eq!((typing.status, &*typing.text), (204, ""));
    let event = stream.sse.next(SOON).await.unwrap();
    assert_eq!((&*event.event, &*event.data, event.id), ("typing", r#"{"handle":"anna"}"#, None));
    assert_eq!(hub.log(&channel, &bob, "").await.len(), 2, "it is kept nowhere");
    hub.get("/api/v1/channels/ch_1/stream", Some(&bob)).await.own_failure(Code::NotFound);
}

async fn eventually_pinged(stream: &mut Inbox) {
    while stream.sse.comments().len() < 3 {
        assert_eq!(stream.sse.next(Duration::from_millis(100)).await, None);
        assert!(!stream.sse.ended());
    }
}

#[tokio::test]
async fn head_opens_nothing() {
    let (hub, channel, _, bob) = pair(Setup::new()).await;
    let answer = Answer::of(hub.request(Method::HEAD, &format!("{channel}/stream"), Some(&bob))).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "text/event-stream"));
    assert_eq!((answer.header("cache-control"), &*answer.text), ("no-store", ""));
}

/// An event committed on one node is streamed by another.
#[tokio::test]
async fn nodes_share_conversations() {
    let setup = Setup::postgres();
    let (hub, channel, anna, bob) = pair(setup.clone()).await;
    let other = setup.start();
    let mut stream = other.follow(&channel, &bob, None).await;
    say(&hub, &channel, &anna, &["from there"]).await;
    assert_eq!(texts(&mut stream, 1).await, ["from there"]);
    say(&other, &channel, &anna, &["from here"]).await;
    assert_eq!(texts(&mut stream, 1).await, ["from here"]);
    // Events that are not stored are streamed too.
    for node in [&hub, &other] {
        assert_eq!(node.post(&format!("{channel}/typing"), Some(&anna), &json!({})).await.status, 204);
        assert_eq!(stream.event("typing").await, json!({"handle": "anna"}));
    }
    hub.delete(&format!("{channel}/members/bob"), Some(&anna)).await;
    assert_eq!(stream.rest().await, []);
}

/// Text that would end an event early if it were not escaped.
#[tokio::test]
async fn text_cannot_forge_events() {
    let (hub, channel, anna, bob) = pair(Setup::new()).await;
    let mut stream = hub.follow(&channel, &bob, None).await;
    let evil = "x\n\nevent: leave\ndata: {}\r\rid: 99\r\n\r\n\u{2028}\u{85}";
    say(&hub, &channel, &anna, &[evil]).await;
    assert_eq!(stream.event("message").await["content"], evil);
    assert_eq!(stream.sse.last_id(), Some("3"));
    stream.assert_quiet().await;
}

/// Fifty followers each get everything in order.
#[tokio::test]
async fn many_follow() {
    let (hub, channel, anna, bob) = pair(Setup::new()).await;
    let mut streams = vec![];
    for _ in 0..50 {
        streams.push(hub.follow(&channel, &bob, None).await);
    }
    let expected: Vec<_> = (0..20).map(|n| n.to_string()).collect();
    for text in &expected {
        say(&hub, &channel, &anna, &[text]).await;
    }
    for stream in &mut streams {
        assert_eq!(texts(stream, 20).await, expected);
    }
    drop(streams);
    let followed = || async { hub.get("/health", None).await.data()["status"].clone() };
    eventually(followed, |status: &Value| status == "ok").await;
}
