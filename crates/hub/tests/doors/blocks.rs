//! Blocks: a blocked party reaches nobody, and is not notified.

use crate::channel_fixture::{ChannelFixture, inbox_of};
use crate::consent::{BLOCKS, DMS, block, invitations, shape};
use crate::support::{SOON, TestHub, members};
use chorus_protocol::code::Code;
use chorus_testkit::receiver::FakeAgent;
use serde_json::{Value, json};

async fn blocks_keep_a_sender_out(hub: TestHub) {
    let (anna, eve) = (hub.account("anna@example.org").await, hub.account("eve@example.org").await);
    let (hers, evil) = (hub.register("hers").await, hub.register("evil").await);
    hub.post("/api/v1/agents/claim", Some(&anna), &json!({"api_key": hers})).await;
    hub.post("/api/v1/agents/claim", Some(&eve), &json!({"api_key": evil})).await;
    let common = hub.channel(&anna, &json!({"name": "common"})).await;
    hub.add(&common, &anna, &json!({"account": "eve@example.org"})).await;
    hub.add(&common, &anna, &json!({"agent": "evil"})).await;
    let with_hers = hub.post(DMS, Some(&eve), &json!({"with": "hers"})).await.body["id"].clone();
    let with_anna = hub.post(DMS, Some(&eve), &json!({"with": "anna@example.org"})).await.body["id"].clone();
    assert_eq!(hub.send(&evil, "evil", "hers", "one").await.status, 202);

    // The owner blocks a person by address, which covers everything that belongs to either.
    let id = block(&hub, &anna, "EVE@example.org").await;
    let refused = hub.send(&evil, "evil", "hers", "two").await;
    refused.failure(Code::Forbidden);
    for dm in [&with_hers, &with_anna] {
        let path = format!("/api/v1/channels/{}", dm.as_str().unwrap());
        let say = hub.post(&format!("{path}/messages"), Some(&eve), &json!({"content": "x"})).await;
        say.own_failure(Code::Forbidden);
        assert_eq!(hub.get(&format!("{path}/events"), Some(&eve)).await.status, 200, "it stays hers to read");
    }
    hub.post(DMS, Some(&evil), &json!({"with": "hers"})).await.own_failure(Code::Forbidden);
    let trap = hub.channel(&eve, &json!({"name": "trap"})).await;
    let path = format!("{trap}/members");
    hub.post(&path, Some(&eve), &json!({"agent": "hers"})).await.own_failure(Code::Forbidden);
    let asked = hub.post(&path, Some(&eve), &json!({"account": "anna@example.org"})).await;
    assert_eq!(asked.body, json!({"status": "invited"}), "though they share a channel");
    assert_eq!(invitations(&hub, &anna).await, [] as [Value; 0]);
    // The blocker can still write, and so can others.
    assert_eq!(hub.send(&hers, "hers", "evil", "leave me").await.status, 202);
    let other = hub.register("other").await;
    assert_eq!(hub.send(&other, "other", "hers", "hi").await.status, 202);

    // Nobody else can remove the block. After its removal everything is as before.
    let path = format!("{BLOCKS}/{id}");
    assert_eq!(hub.delete(&path, Some(&eve)).await.status, 204);
    hub.send(&evil, "evil", "hers", "three").await.failure(Code::Forbidden);
    assert_eq!(hub.delete(&path, Some(&anna)).await.status, 204);
    assert_eq!(hub.send(&evil, "evil", "hers", "four").await.status, 202);
    assert_eq!(hub.history(&hers).await.len(), 3, "nothing of what was refused");
    // An agent can block too.
    block(&hub, &hers, "evil").await;
    hub.send(&evil, "evil", "hers", "five").await.failure(Code::Forbidden);
    assert_eq!(hub.post(DMS, Some(&evil), &json!({"with": "anna@example.org"})).await.status, 201);
}

#[tokio::test]
async fn blocks_keep_a_sender_out_on_sqlite() {
    blocks_keep_a_sender_out(TestHub::start()).await;
}

#[tokio::test]
async fn blocks_keep_a_sender_out_on_postgres() {
    blocks_keep_a_sender_out(TestHub::postgres()).await;
}

#[tokio::test]
async fn blocks_tell_nothing_and_are_bounded() {
    let hub = TestHub::start();
    let (anna, bob) = (hub.account("anna@example.org").await, hub.register("bob").await);
    hub.account("eve@example.org").await;
    for key in [&anna, &bob] {
        let mut shapes = vec![];
        for who in ["eve@example.org", "nobody@example.org", "acc_00000000000000000000000000000000"] {
            let made = hub.post(BLOCKS, Some(key), &json!({"who": who})).await;
            assert_eq!((made.status, &made.body["who"]), (201, &json!(who)), "{}", made.text);
            assert_eq!(members(&made.body), ["created_at", "id", "who"]);
            shapes.push(shape(&made).2);
        }
        assert!(shapes.windows(2).all(|two| two[0] == two[1]));
        let again = hub.post(BLOCKS, Some(key), &json!({"who": "EVE@example.org"})).await;
        let first = hub.get(&format!("{BLOCKS}?limit=1"), Some(key)).await;
        assert_eq!(again.body, first.body["items"][0], "one block");
        let next = first.body["next"].as_str().unwrap();
        let rest = hub.get(&format!("{BLOCKS}?after={next}"), Some(key)).await;
        assert_eq!(rest.body["items"].as_array().unwrap().len(), 2);
        hub.post(BLOCKS, Some(key), &json!({"who": "no-agent"})).await.own_failure(Code::NotFound);
        hub.post(BLOCKS, Some(key), &json!({"who": "a b"})).await.own_failure(Code::Validation);
    }
    hub.post(BLOCKS, Some(&anna), &json!({"who": "ANNA@example.org"})).await.own_failure(Code::Validation);
    hub.post(BLOCKS, Some(&bob), &json!({"who": "bob"})).await.own_failure(Code::Validation);
    for n in 3..1000 {
        let made = hub.post(BLOCKS, Some(&anna), &json!({"who": format!("{n}@example.org")})).await;
        assert_eq!(made.status, 201, "{}", made.text);
    }
    hub.post(BLOCKS, Some(&anna), &json!({"who": "more@example.org"})).await.own_failure(Code::Conflict);
}

#[tokio::test]
async fn whoever_is_blocked_wakes_nobody() {
    let hub = TestHub::start();
    let (mallory, victim) = (hub.register("mallory").await, hub.register("victim").await);
    let channel = hub.channel(&mallory, &json!({"name": "trap"})).await;
    hub.add(&channel, &mallory, &json!({"agent": "victim"})).await;
    let said = hub.say(&channel, &mallory, &json!({"content": "@victim"})).await;
    assert_eq!(said["attention"]["woken"], json!(["victim"]));
    let blocked = hub.post("/api/v1/me/blocks", Some(&victim), &json!({"who": "mallory"})).await;
    assert_eq!(blocked.status, 201, "{}", blocked.text);
    let said = hub.say(&channel, &mallory, &json!({"content": "@victim"})).await;
    assert_eq!(said["attention"]["woken"], json!([]));
}

/// Pieces of an answer and the sign of typing are text and presence too: whoever is blocked shows neither.
#[tokio::test]
async fn whoever_is_blocked_shows_no_pieces_and_no_typing() {
    let (fixture, mallory) = (ChannelFixture::start().await, FakeAgent::start().await);
    let hub = &fixture.hub;
    let key = hub.register("mallory").await;
    assert_eq!(fixture.put_connection("mallory", &key, &inbox_of(&mallory)).await.status, 200);
    let dm = hub.post("/api/v1/dms", Some(&fixture.anna), &json!({"with": "mallory"})).await;
    let dm = dm.body["id"].as_str().unwrap().to_owned();
    fixture.say_in(&dm, "hello").await;
    let callback = mallory.wait_for(1, SOON).await[0].body["callback"].clone();
    let chunk = json!({"type": "chunk", "text": "a piece"});
    assert_eq!(fixture.call_back(&callback, &chunk).await.status, 200);
    let blocked = hub.post("/api/v1/me/blocks", Some(&fixture.anna), &json!({"who": "mallory"})).await;
    assert_eq!(blocked.status, 201, "{}", blocked.text);
    fixture.call_back(&callback, &chunk).await.own_failure(Code::Forbidden);
    let typing = hub.post(&format!("/api/v1/channels/{dm}/typing"), Some(&key), &json!({})).await;
    typing.own_failure(Code::Forbidden);
}
