//! A stranger learns nothing from responses, cursors or errors. Each probe is possible with a free key.

use crate::support::{Setup, TestHub, mcp_tool};
use chorus_protocol::code::Code;
use serde_json::{Value, json};

/// Turns each probe, an `async fn(TestHub)`, into a test on SQLite and one on PostgreSQL.
macro_rules! on_both {
    ($($probe:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $probe() {
                super::$probe(crate::support::TestHub::start()).await;
            })+
        }
        mod postgres {
            $(#[tokio::test]
            async fn $probe() {
                super::$probe(crate::support::TestHub::postgres()).await;
            })+
        }
    };
}

on_both![
    a_pin_cannot_be_guessed_by_searching,
    a_cursor_of_others_is_like_one_that_never_was,
    documents_from_before_are_closed,
];

/// Creates a conversation between two agents with a message.
async fn secret(hub: &TestHub, text: &str) -> String {
    let anna = hub.register("anna").await;
    hub.register("bob").await;
    let dm = hub.post("/api/v1/dms", Some(&anna), &json!({"with": "bob"})).await;
    let dm = format!("/api/v1/channels/{}", dm.body["id"].as_str().unwrap());
    let said = hub.say(&dm, &anna, &json!({"content": text})).await;
    said["event_id"].as_str().unwrap().to_owned()
}

async fn a_pin_cannot_be_guessed_by_searching(hub: TestHub) {
    secret(&hub, "the pin is 4711").await;
    let eve = hub.register("eve").await;
    let own = hub.channel(&eve, &json!({"name": "bait"})).await;
    hub.say(&own, &eve, &json!({"content": "pin 4711 4712"})).await;
    let search = async |pin: &str| hub.get(&format!("/api/v1/search?q=pin+{pin}&limit=1"), Some(&eve)).await;
    let (right, wrong) = (search("4711").await, search("4712").await);
    assert_eq!(right.body["items"].as_array().unwrap().len(), 1, "the bait: {}", right.text);
    assert_eq!(right.body["next"], Value::Null, "{}", right.text);
    assert_eq!(right.text, wrong.text);
    let by_tool = async |pin: &str| {
        mcp_tool(&hub, &own, &eve, "search", json!({"query": format!("pin {pin}"), "limit": 1})).await
    };
    let (right, wrong) = (by_tool("4711").await, by_tool("4712").await);
    assert_eq!(right["structuredContent"]["next"], Value::Null, "{right}");
    assert_eq!(right["structuredContent"]["events"].as_array().unwrap().len(), 1, "{right}");
    assert_eq!(right, wrong);
    // Without a message of one's own nothing is found, and there is no next page.
    let nothing = hub.get("/api/v1/search?q=the", Some(&eve)).await;
    assert_eq!(nothing.body, json!({"items": [], "next": null}));
}

async fn a_cursor_of_others_is_like_one_that_never_was(hub: TestHub) {
    let eve = hub.register("eve").await;
    let own = hub.channel(&eve, &json!({"name": "bait"})).await;
    hub.say(&own, &eve, &json!({"content": "apple"})).await;
    let theirs = secret(&hub, "apple").await;
    hub.say(&own, &eve, &json!({"content": "apple"})).await;
    let last = if theirs.ends_with('0') { "1" } else { "0" };
    let never = format!("{}{last}", &theirs[..theirs.len() - 1]);
    let page =
        async |cursor: &str| hub.get(&format!("/api/v1/search?q=apple&after={cursor}"), Some(&eve)).await;
    let (others, nobodys) = (page(&theirs).await, page(&never).await);
    assert_eq!(others.body["items"].as_array().unwrap().len(), 1, "{}", others.text);
    assert_eq!(others.text, nobodys.text);
    let by_tool = async |cursor: &str| {
        mcp_tool(&hub, &own, &eve, "search", json!({"query": "apple", "before": cursor})).await
    };
    assert_eq!(by_tool(&theirs).await, by_tool(&never).await);
    for path in ["/api/v1/events/ID".to_owned(), format!("{own}/events?thread=ID")] {
        let ask = async |id: &str| hub.get(&path.replace("ID", id), Some(&eve)).await;
        let (others, nobodys) = (ask(&theirs).await, ask(&never).await);
        assert_eq!((others.status, others.text), (nobodys.status, nobodys.text), "{path}");
    }
}

async fn documents_from_before_are_closed(hub: TestHub) {
    let (anna, bob) = (hub.register("anna").await, hub.register("bob").await);
    let channel = hub.channel(&anna, &json!({"name": "c", "history": "joined"})).await;
    let (list, document) = (format!("{channel}/artifacts"), format!("{channel}/artifacts/plan"));
    let made = hub.post(&list, Some(&anna), &json!({"slug": "plan", "content": "one"})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let change = async |text: &str| {
        let changed = hub.ask("PUT", &document, Some(&anna), &json!({"content": text})).await;
        assert_eq!(changed.status, 200, "{}", changed.text);
    };
    let come = async || hub.add(&channel, &anna, &json!({"agent": "bob"})).await;
    let go = async || {
        assert_eq!(hub.delete(&format!("{channel}/members/bob"), Some(&anna)).await.status, 204);
    };
    change("two").await;
    come().await;
    change("three").await;
    change("four").await;
    go().await;
    change("five").await;
    change("six").await;
    come().await;

    let read = async |key: &str, version: i64| {
        let answer = hub.get(&format!("{document}?version={version}"), Some(key)).await;
        let shown =
            mcp_tool(&hub, &channel, key, "artifact_read", json!({"slug": "plan", "version": version})).await;
        assert_eq!(shown["structuredContent"]["content"], answer.body["content"], "{shown}");
        if answer.status == 404 {
            let never = hub.get(&format!("{document}?version=99"), Some(key)).await;
            assert_eq!(answer.own_failure(Code::NotFound), never.own_failure(Code::NotFound));
            let none =
                mcp_tool(&hub, &channel, key, "artifact_read", json!({"slug": "plan", "version": 99})).await;
            assert_eq!(shown, none, "no tool tells");
        }
        answer.body["content"].as_str().map(str::to_owned)
    };
    let seen = ["one", "two", "three", "four", "five", "six"];
    for (version, (text, bobs)) in (1..).zip(seen.into_iter().zip([false, true, true, true, false, true])) {
        assert_eq!(read(&anna, version).await.as_deref(), Some(text));
        assert_eq!(read(&bob, version).await.as_deref(), bobs.then_some(text), "version {version}");
    }
    assert_eq!(hub.get(&document, Some(&bob)).await.body["content"], "six");
    assert_eq!(hub.get(&list, Some(&bob)).await.body["items"][0]["version"], 6);
    let uri = format!("chorus://{}/artifacts/plan", channel.rsplit('/').next().unwrap());
    assert!(mcp_tool(&hub, &channel, &bob, "artifact_list", json!({})).await.to_string().contains(&uri));
}

/// Deleting another's object and a missing one get the same response, and delete nothing.
#[tokio::test]
async fn others_tokens_are_like_tokens_that_never_were() {
    let hub = Setup::new().start();
    let (anna, eve) = (hub.account("anna@example.org").await, hub.account("eve@example.org").await);
    let hers = hub.post("/api/v1/tokens", Some(&anna), &json!({"label": "hers"})).await;
    let (id, token) = (hers.body["id"].as_str().unwrap(), hers.body["token"].as_str().unwrap());
    let take = async |id: &str| hub.delete(&format!("/api/v1/tokens/{id}"), Some(&eve)).await;
    let (others, nobodys) = (take(id).await, take("crd_00000000000000000000000000000000").await);
    assert_eq!((others.status, others.text), (nobodys.status, nobodys.text));
    assert_eq!(hub.get("/api/v1/me", Some(token)).await.status, 200);
}
