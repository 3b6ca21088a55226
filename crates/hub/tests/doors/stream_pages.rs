//! The pages of work streams: their content, visibility and forms.

use crate::channel_fixture::ChannelFixture;
use crate::support::Answer;
use crate::web::send;
use serde_json::{Value, json};

async fn page(fixture: &ChannelFixture, path: &str, key: &str) -> Answer {
    fixture.hub.get(path, Some(key)).await
}

/// Returns the main part of one of Anna's pages.
async fn main(fixture: &ChannelFixture, path: &str) -> String {
    let page = page(fixture, path, &fixture.anna).await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"), "{path}");
    page.text.split("<main").nth(1).unwrap().to_owned()
}

async fn agent(fixture: &ChannelFixture, name: &str) -> String {
    let made = fixture.agent(&json!({"name": name})).await;
    fixture.join(&fixture.channel, name).await;
    made["api_key"].as_str().unwrap().to_owned()
}

/// Creates a work stream by its form and returns its path.
async fn begin(fixture: &ChannelFixture, fields: &[(&str, &str)]) -> String {
    let fields = [&[("conversations", &*fixture.channel)], fields].concat();
    let made = send(&fixture.hub, "/streams/new", Some(&fixture.anna), &fields).await;
    assert_eq!(made.status, 303, "{}", made.text);
    made.header("location").to_owned()
}

#[tokio::test]
async fn a_stream_is_begun_changed_and_closed_without_a_script() {
    let fixture = ChannelFixture::start().await;
    let (hub, anna) = (&fixture.hub, Some(&*fixture.anna));
    agent(&fixture, "ada").await;
    agent(&fixture, "bob").await;
    let empty = main(&fixture, "/streams").await;
    assert!(empty.contains("A work stream is a piece of work") && empty.contains("/streams/new"), "{empty}");
    assert!(main(&fixture, "/streams/new").await.contains(&format!("value=\"{}\"", fixture.channel)));

    let fields = [("name", "migration"), ("owners", "@ada"), ("participants", "bob"), ("lead", "ada")];
    let path = begin(&fixture, &fields).await;
    let list = main(&fixture, "/streams").await;
    assert!(list.contains(&format!("href=\"{path}\"")) && list.contains("migration"), "{list}");
    let shown = main(&fixture, &path).await;
    for what in
        ["ada", "bob", "No messages yet.", "No claims at the moment", "Take part</button>", "Close it"]
    {
        assert!(shown.contains(what), "{what}: {shown}");
    }

    // Fields that the form leaves out stay unchanged.
    let changed = send(hub, &path, anna, &[("name", "the move"), ("participants", "")]).await;
    assert_eq!((changed.status, changed.header("location")), (303, &*path), "{}", changed.text);
    let api = format!("/api/v1{path}");
    let stands = fixture.get(&api).await.body;
    assert_eq!(
        (&stands["name"], &stands["owners"][0]["handle"], &stands["participants"], &stands["lead"]["handle"]),
        (&json!("the move"), &json!("ada"), &json!([]), &json!("ada")),
        "{stands}"
    );
    assert_eq!(stands["conversations"], json!([fixture.channel]));
    for (what, part) in [("join", json!("anna")), ("leave", Value::Null)] {
        let done = send(hub, &format!("{path}/{what}"), anna, &[]).await;
        assert_eq!((done.status, done.header("location")), (303, &*path), "{}", done.text);
        assert_eq!(fixture.get(&api).await.body["participants"][0]["handle"], part);
    }
    assert_eq!(send(hub, &format!("{path}/burn"), anna, &[]).await.status, 404);
    assert_eq!(send(hub, &format!("{path}/close"), anna, &[]).await.status, 303);
    let closed = main(&fixture, &path).await;
    assert!(closed.contains("It was closed on") && !closed.contains("<form"), "{closed}");
    assert!(main(&fixture, "/streams").await.contains("There is no work stream"));
    // Errors are shown on the page.
    for (fields, status) in [
        (vec![("name", "x")], 400),
        (vec![("name", ""), ("conversations", &*fixture.channel)], 400),
        (vec![("name", "x"), ("conversations", &*fixture.channel), ("owners", "nobody")], 404),
        (vec![("name", "x"), ("conversations", "ch_00000000000000000000000000000000")], 404),
    ] {
        let refused = send(hub, "/streams/new", anna, &fields).await;
        assert_eq!(refused.status, status, "{fields:?}: {}", refused.text);
        assert_eq!(refused.header("content-type"), "text/html; charset=utf-8");
    }
}

#[tokio::test]
async fn what_goes_on_is_shown_as_far_as_somebody_may_read_it() {
    let fixture = ChannelFixture::start().await;
    let ada = agent(&fixture, "ada").await;
    let private = fixture.another_channel("private").await;
    let fields = [("name", "the move"), ("conversations", &*private), ("owners", "ada anna")];
    let path = begin(&fixture, &fields).await;
    let event = fixture.say("the disk is full again, who looks?").await;
    fixture.say_in(&private, "nobody else hears this").await;
    let claim = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "chat.claim", "arguments": {"eventId": event}}});
    let claimed = fixture.hub.post("/c2a", Some(&ada), &claim).await;
    assert_eq!(claimed.body["result"]["structuredContent"]["holder"], "agent:ada", "{}", claimed.text);
    let shown = main(&fixture, &path).await;
    assert!(shown.contains("<strong>ada</strong> until") && shown.contains(&event), "{shown}");
    assert!(shown.contains("nobody else hears this") && shown.contains("#private"), "{shown}");

    // A member of one of its channels sees the messages there, and only the forms they may use.
    let eve = fixture.hub.account("eve@example.org").await;
    assert_eq!(page(&fixture, &path, &eve).await.status, 404);
    assert!(!page(&fixture, "/streams", &eve).await.text.contains("the move"));
    let channel = format!("/api/v1/channels/{}/members", fixture.channel);
    let added = json!({"account": "eve@example.org"});
    assert_eq!(fixture.hub.post(&channel, Some(crate::support::OPERATOR), &added).await.status, 201);
    let seen = page(&fixture, &path, &eve).await.text;
    assert!(seen.contains("the disk is full again") && seen.contains("Take part</button>"), "{seen}");
    for what in ["nobody else hears this", "#private", "Close it", "Change it"] {
        assert!(!seen.contains(what), "{what}: {seen}");
    }
    assert_eq!(send(&fixture.hub, &path, Some(&eve), &[("name", "mine")]).await.status, 403);
    assert_eq!(send(&fixture.hub, &format!("{path}/close"), Some(&eve), &[]).await.status, 403);
    assert_eq!(page(&fixture, &path, &ada).await.status, 403, "agents have no pages");
    let stranger = fixture.hub.get(&path, None).await;
    assert_eq!((stranger.status, stranger.header("location")), (303, "/signin"));
}

#[tokio::test]
async fn nothing_that_anybody_calls_a_stream_is_markup() {
    const ATTACK: &str = "\"'><script>alert(1)</script><img src=x onerror=a><b style=x>";
    let fixture = ChannelFixture::start().await;
    let other = fixture.another_channel(ATTACK).await;
    let path = begin(&fixture, &[("name", ATTACK), ("conversations", &other)]).await;
    fixture.say_in(&other, ATTACK).await;
    for path in [&*path, "/streams", "/streams/new"] {
        let page = page(&fixture, path, &fixture.anna).await;
        assert!(page.text.contains("alert(1)"), "{path}: it is shown as the text it is");
        for markup in ["<script>", "<img", "<b ", "onerror=\""] {
            assert!(!page.text.contains(markup), "{path} shows {markup}: {}", page.text);
        }
    }
    let faulty = send(&fixture.hub, &path, Some(&fixture.anna), &[("name", "x"), ("lead", ATTACK)]).await;
    assert!(faulty.status >= 400 && !faulty.text.contains("<script>"), "{}", faulty.text);
}
