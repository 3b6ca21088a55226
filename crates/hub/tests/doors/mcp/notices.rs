//! Notifications of changed documents, and the long poll.

use super::{Client, McpFixture, Stream};
use crate::channel_fixture::{ChannelFixture, HOUR};
use crate::support::{SOON, eventually};
use chorus_store::{StoreError, Tx, TxExt as _};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn uri(fixture: &McpFixture, slug: &str) -> String {
    format!("chorus://{}/artifacts/{slug}", fixture.base.channel)
}

async fn make(client: &Client<'_>, slug: &str) {
    client.tool("artifact_create", json!({"slug": slug, "content": "one"})).await;
}

async fn change(client: &Client<'_>, slug: &str, version: i64) {
    client.tool("artifact_edit", json!({"slug": slug, "base_version": version, "content": "more"})).await;
}

#[tokio::test]
async fn a_session_is_told_of_what_it_subscribed_to() {
    let fixture = McpFixture::start().await;
    let (ben, cora) = (fixture.ben().with_session().await, fixture.cora());
    let mut stream = ben.stream(None).await;
    make(&cora, "plan").await;
    assert_eq!(
        stream.next().await,
        json!({"jsonrpc": "2.0", "method": "notifications/resources/list_changed", "params": {}})
    );
    change(&cora, "plan", 1).await;
    cora.say("not a document").await;
    stream.assert_quiet().await;
    assert_eq!(ben.result("resources/subscribe", json!({"uri": uri(&fixture, "plan")})).await, json!({}));
    change(&cora, "plan", 2).await;
    let updated = stream.next().await;
    assert_eq!(updated["method"], "notifications/resources/updated");
    assert_eq!(updated["params"], json!({"uri": uri(&fixture, "plan")}));
    ben.result("resources/unsubscribe", json!({"uri": uri(&fixture, "plan")})).await;
    change(&cora, "plan", 3).await;
    stream.assert_quiet().await;
    let foreign = ben.rpc("resources/subscribe", json!({"uri": "file:///x"})).await;
    assert_eq!(foreign.body["error"]["code"], -32002);
}

#[tokio::test]
async fn a_stream_goes_on_after_a_restart() {
    let fixture = McpFixture::start().await;
    let (ben, cora) = (fixture.ben().with_session().await, fixture.cora());
    ben.result("resources/subscribe", json!({"uri": uri(&fixture, "plan")})).await;
    let mut stream = ben.stream(None).await;
    make(&cora, "plan").await;
    let mut last = None;
    for method in ["notifications/resources/list_changed", "notifications/resources/updated"] {
        let (id, message) = stream.next_within(SOON).await.unwrap();
        assert_eq!(message["method"], method);
        last = id;
    }
    change(&cora, "plan", 1).await;
    stream.next().await;
    let session = ben.session.clone();
    let McpFixture { base, ben, cora } = fixture;
    let (channel, hub) = (base.channel, base.hub.restart(|_| {}).await);
    change(&Client::new(&hub, &channel, &cora), "plan", 2).await;
    let again = Client { session, ..Client::new(&hub, &channel, &ben) };
    let mut stream = again.stream(last.as_deref()).await;
    for _ in 0..2 {
        assert_eq!(stream.next().await["method"], "notifications/resources/updated");
    }
    stream.assert_quiet().await;
}

#[tokio::test]
async fn one_stream_a_session() {
    let fixture = McpFixture::start().await;
    let ben = fixture.ben().with_session().await;
    let mut first = ben.stream(None).await;
    let mut second = ben.stream(None).await;
    first.end().await;
    make(&fixture.cora(), "plan").await;
    assert_eq!(second.next().await["method"], "notifications/resources/list_changed");
    assert_eq!(crate::support::Answer::of(ben.request(reqwest::Method::DELETE)).await.status, 204);
    second.end().await;
}

async fn listen(client: &Client<'_>, filter: Value) -> Stream {
    Stream::open(client.ask("subscriptions/listen", json!({"notifications": filter}))).await
}

#[tokio::test]
async fn listeners_are_told_what_they_asked_for() {
    let fixture = McpFixture::start().await;
    let (ben, cora) = (fixture.ben(), fixture.cora());
    let (plan, other) = (uri(&fixture, "plan"), "file:///x");
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": [plan, other]});
    let mut documents = listen(&ben, filter).await;
    let mut lists = listen(&ben, json!({"resourcesListChanged": true})).await;
    let meta = json!({"io.modelcontextprotocol/subscriptionId": 7});
    let acknowledged = documents.next().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(
        acknowledged["params"],
        json!({"_meta": meta, "notifications": {"resourceSubscriptions": [plan]}})
    );
    assert_eq!(lists.next().await["params"]["notifications"], json!({"resourcesListChanged": true}));

    make(&cora, "plan").await;
    let updated = documents.next().await;
    assert_eq!(updated["params"], json!({"_meta": meta, "uri": plan}));
    assert_eq!(lists.next().await["method"], "notifications/resources/list_changed");
    change(&cora, "plan", 1).await;
    assert_eq!(documents.next().await["method"], "notifications/resources/updated");
    lists.assert_quiet().await;
    make(&cora, "other").await;
    documents.assert_quiet().await;

    let stopped = fixture.base.hub.stop().await;
    assert!(stopped < Duration::from_secs(3), "{stopped:?}");
    assert_eq!(
        documents.next().await,
        json!({"jsonrpc": "2.0", "id": 7, "result": {"resultType": "complete", "_meta": meta}})
    );
    documents.end().await;
}

#[tokio::test]
async fn a_wait_ends_with_what_others_do() {
    let fixture = McpFixture::start().await;
    let (ben, cora) = (fixture.ben(), fixture.cora());
    let now = ben.tool("wait_for_events", json!({"wait_ms": 0})).await;
    assert_eq!((&now["events"], &now["more"]), (&json!([]), &json!(false)));
    let next = now["next"].clone();

    let begun = Instant::now();
    let waiting = async { ben.tool("wait_for_events", json!({"after": next, "wait_ms": 60_000})).await };
    let speaking = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        ben.say("my own").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        cora.say("hello").await
    };
    let (woken, said) = tokio::join!(waiting, speaking);
    assert!(begun.elapsed() < SOON);
    assert_eq!(woken["events"].as_array().unwrap().len(), 1, "one's own is left out: {woken}");
    assert_eq!(woken["events"][0]["event_id"], said["event_id"]);
    assert_eq!(woken["next"], said["sequence"]);

    let all = ben.tool("wait_for_events", json!({"after": next, "include_own": true, "limit": 1})).await;
    assert_eq!((all["events"][0]["content"].clone(), &all["more"]), (json!("my own"), &json!(true)));
    let rest = ben.tool("wait_for_events", json!({"after": all["next"]})).await;
    assert_eq!(rest["events"][0]["content"], "hello");
    let kinds = json!({"after": next, "kind": "reaction", "wait_ms": 0});
    assert_eq!(ben.tool("wait_for_events", kinds).await["events"], json!([]));
}

#[tokio::test]
async fn a_wait_ends_in_time() {
    let fixture = McpFixture::start().await;
    let begun = Instant::now();
    let none = fixture.ben().tool("wait_for_events", json!({"wait_ms": 300})).await;
    assert_eq!(none["events"], json!([]));
    assert!((300..SOON.as_millis()).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    let far = json!({"after": 9_007_199_254_740_991_i64, "wait_ms": 0});
    assert_eq!(fixture.ben().tool("wait_for_events", far).await["next"], none["next"]);
    let long = fixture.ben().fault("wait_for_events", json!({"wait_ms": 60_001})).await;
    assert!(long.contains("wait_ms"), "{long}");
}

#[tokio::test]
async fn a_wait_ends_when_the_hub_stops() {
    let (base, clock) = ChannelFixture::with_clock().await;
    let McpFixture { base, ben, .. } = McpFixture::with(base).await;
    let client = Client::new(&base.hub, &base.channel, &ben).with_session().await;
    clock.advance(HOUR);
    let waiting =
        client.ask("tools/call", json!({"name": "wait_for_events", "arguments": {"wait_ms": 60_000}}));
    let waiting = tokio::spawn(crate::support::Answer::of(waiting));
    // The call has arrived once the use of its session is recorded.
    let last_use = async || {
        let sql = "SELECT last_used_at FROM mcp_sessions";
        let read =
            move |tx: &mut dyn Tx| tx.first(sql, &[])?.map_or(Ok(0), |mut row| row.int("last_used_at"));
        base.hub.store().read::<_, StoreError, _>(read).await.unwrap()
    };
    eventually(last_use, |at| *at == clock.now()).await;
    let stopped = base.hub.stop().await;
    assert!(stopped < Duration::from_secs(3), "{stopped:?}");
    let answer = waiting.await.unwrap();
    assert_eq!(answer.body["result"]["structuredContent"]["events"], json!([]), "{}", answer.text);
}
