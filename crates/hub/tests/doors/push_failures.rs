//! Failing pushes: who is told, what is retried, and what ends.

use crate::channel_fixture::{BEGIN, ChannelFixture, HOUR, MINUTE, contents, inbox_of};
use crate::support::{HOST, SOON, envelope, eventually};
use chorus_hub::MasterKey;
use chorus_hub::Policy;
use chorus_protocol::code::Code;
use chorus_testkit::receiver::{FakeAgent, Reply};
use serde_json::{Value, json};

#[tokio::test]
async fn a_wrong_connection_string_is_told_to_its_owner_and_mended() {
    let ((fixture, clock), timber) = (ChannelFixture::with_clock().await, FakeAgent::start().await);
    let key = fixture.connected("timber", &timber).await["api_key"].as_str().unwrap().to_owned();
    let mallory = fixture.hub.account("mallory@example.org").await;
    timber.set(Reply::Json(404, json!({})));
    let first = fixture.say("@timber 1").await;
    timber.wait_for(1, SOON).await;
    let seen = async || fixture.get("/api/v1/agents/timber").await.body;
    let broken = eventually(seen, |agent| agent["connection"]["state"] == "broken").await;
    assert_eq!(broken["connection"]["reason"], "receiver answered HTTP 404");
    assert_eq!(broken["connection"]["since"], chorus_protocol::time::rfc3339(BEGIN));
    assert_eq!(
        fixture.hub.get("/api/v1/agents/timber", Some(&key)).await.body["connection"]["state"],
        "broken"
    );
    let stranger = fixture.hub.get("/api/v1/agents/timber", Some(&mallory)).await;
    assert_eq!(
        (stranger.status, &stranger.body["connection"]),
        (200, &Value::Null),
        "nobody else's business"
    );

    let second = fixture.say("@timber 2").await;
    clock.advance(HOUR);
    fixture.hub.background_round().await;
    assert_eq!(timber.requests().len(), 1, "nothing is tried any more");
    assert_eq!(fixture.delivery(&second).await["state"], "waiting");

    // The owner retries: the same response breaks the connection again.
    let mend = "/api/v1/agents/timber/connection/mend";
    fixture.hub.post(mend, Some(&mallory), &json!({})).await.own_failure(Code::Forbidden);
    let mended = fixture.hub.post(mend, Some(&fixture.anna), &json!({})).await;
    assert_eq!((mended.status, &mended.body["connection"]["state"]), (200, &json!("ok")));
    timber.wait_for(2, SOON).await;
    eventually(seen, |agent| agent["connection"]["state"] == "broken").await;

    timber.set(Reply::Json(200, json!({})));
    let new = format!("http://{}/inbox/sk_new", timber.addr());
    fixture.put_connection("timber", &mallory, &new).await.own_failure(Code::Forbidden);
    let mended = fixture.put_connection("timber", &fixture.anna, &new).await;
    assert_eq!((mended.status, &mended.body["connection"]["state"]), (200, &json!("ok")));
    assert!(!mended.text.contains("sk_new"), "it is never shown again");
    let all = timber.wait_for(4, SOON).await;
    assert_eq!(contents(&all[2..]), ["@timber 1", "@timber 2"], "in order");
    assert!(all[2..].iter().all(|request| request.path == "/inbox/sk_new"));
    for event in [first, second] {
        fixture.delivery_is(&event, "delivered").await;
    }
}

#[tokio::test]
async fn after_a_day_it_is_a_dead_letter_and_the_next_proceeds() {
    let ((fixture, clock), timber) = (ChannelFixture::with_clock().await, FakeAgent::start().await);
    let key = fixture.connected("timber", &timber).await["api_key"].as_str().unwrap().to_owned();
    timber.set(Reply::Json(500, json!({})));
    let first = fixture.say("@timber 1").await;
    let second = fixture.say("@timber 2").await;
    timber.wait_for(1, SOON).await;
    fixture.recorded(&clock).await;
    clock.advance(12 * HOUR);
    timber.wait_for(2, SOON).await;
    fixture.recorded(&clock).await;
    let third = fixture.say("@timber 3").await;
    clock.advance(12 * HOUR);
    let dead = fixture.delivery_is(&first, "dead").await;
    assert_eq!(dead["rungs"][1]["rung"], "dead");
    assert_eq!(dead["rungs"][1]["reason"], "receiver answered HTTP 500");
    assert_eq!(dead["attempts"].as_array().unwrap().len(), 2);
    let dead = fixture.delivery_is(&second, "dead").await;
    assert_eq!(dead["attempts"].as_array().unwrap().len(), 1, "it had its one try");
    timber.wait_for(4, SOON).await;
    fixture.recorded(&clock).await;
    timber.set(Reply::Json(200, json!({})));
    clock.advance(10 * MINUTE);
    fixture.delivery_is(&third, "delivered").await;

    let list = fixture.get("/api/v1/deliveries?state=dead").await;
    let items = list.body["items"].as_array().unwrap();
    assert_eq!(items.iter().map(|item| &item["event_id"]).collect::<Vec<_>>(), [&first, &second]);
    assert_eq!(items[0]["agent"]["address"], format!("timber@{HOST}"));
    assert_eq!((&items[0]["attempts"], &items[0]["next_try"]), (&json!(2), &Value::Null));

    let mallory = fixture.hub.account("mallory@example.org").await;
    let replay = format!("/api/v1/deliveries/{}/replay", items[0]["id"].as_str().unwrap());
    fixture.hub.post(&replay, Some(&mallory), &json!({})).await.own_failure(Code::NotFound);
    let before = timber.requests().len();
    let replayed = fixture.hub.post(&replay, Some(&key), &json!({})).await;
    assert_eq!((replayed.status, &replayed.body["state"]), (202, &json!("waiting")), "{}", replayed.text);
    let all = timber.wait_for(before + 1, SOON).await;
    assert_eq!(all[before].body["message"]["id"], first);
    assert_eq!(all[before].headers["webhook-id"], all[0].headers["webhook-id"]);
    fixture.delivery_is(&first, "delivered").await;
    fixture.hub.post(&replay, Some(&fixture.anna), &json!({})).await.own_failure(Code::Conflict);

    let window = "/api/v1/deliveries/replay";
    let nobody = fixture.hub.post(window, Some(&mallory), &json!({})).await;
    assert_eq!((nobody.status, &nobody.body["replayed"]), (202, &json!(0)));
    let replay = async |query: &str| {
        fixture.hub.post(&format!("{window}?{query}"), Some(&fixture.anna), &json!({})).await
    };
    let (begin, now) =
        (chorus_protocol::time::rfc3339(BEGIN + 1), chorus_protocol::time::rfc3339(clock.now()));
    assert_eq!(replay(&format!("state=dead&since={begin}")).await.body["replayed"], 0);
    let replayed = replay(&format!("agent=timber&channel={}&until={now}", fixture.channel)).await;
    assert_eq!(replayed.body, json!({"replayed": 1, "more": false}));
    fixture.delivery_is(&second, "delivered").await;
    let faults = replay("state=waiting&channel=ops&since=5").await;
    let faults = faults.own_failure(Code::Validation);
    for name in ["state: ", "channel: ", "since: "] {
        assert!(faults.contains(name), "{faults}");
    }
}

/// A permanently refused delivery is not retried, and delays nothing.
#[tokio::test]
async fn what_is_refused_is_refused() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    fixture.connected("timber", &timber).await;
    for reply in [Reply::Json(400, json!({})), Reply::Redirect("http://127.0.0.1:1/".into())] {
        timber.set(reply);
        let event = fixture.say("@timber no").await;
        let failed = fixture.delivery_is(&event, "dead").await;
        assert_eq!(failed["attempts"].as_array().unwrap().len(), 1);
        assert_eq!(failed["rungs"][1]["rung"], "dead");
    }
    timber.set(Reply::Json(200, json!({})));
    fixture.delivery_is(&fixture.say("@timber yes").await, "delivered").await;
    assert_eq!(timber.requests().len(), 3);
}

/// A delivery that an endpoint refuses is retried until the endpoint is fixed.
#[tokio::test]
async fn a_webhook_that_refuses_is_tried_until_it_is_mended() {
    let ((fixture, clock), hook) = (ChannelFixture::with_clock().await, FakeAgent::start().await);
    fixture.agent(&json!({"name": "hook", "endpoint": hook.url()})).await;
    fixture.join(&fixture.channel, "hook").await;
    for (n, status) in (1..).zip([401, 403, 404, 410]) {
        hook.set(Reply::Json(status, json!({})));
        let event = fixture.say("@hook hello").await;
        hook.wait_for(2 * n - 1, SOON).await;
        fixture.recorded(&clock).await;
        let waits = fixture.delivery(&event).await;
        assert_eq!((&waits["state"], &waits["attempts"][0]["status"]), (&json!("waiting"), &json!(status)));
        hook.set(Reply::Json(200, json!({})));
        fixture.tried(&clock, &hook, 1).await;
        fixture.delivery_is(&event, "delivered").await;
    }
    assert_eq!(fixture.get("/api/v1/agents/hook").await.body["connection"], json!({"state": "none"}));
}

/// An address that became private is not called any more.
#[tokio::test]
async fn an_address_that_turned_private_breaks_the_connection() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    fixture.connected("timber", &timber).await;
    fixture.agent(&json!({"name": "hook", "endpoint": timber.url()})).await;
    fixture.join(&fixture.channel, "hook").await;
    let ChannelFixture { hub, anna, channel } = fixture;
    let hub = hub.restart(|config| config.outbound = Policy::default()).await;
    let fixture = ChannelFixture { hub, anna, channel };
    let event = fixture.say("@timber hello").await;
    let seen = async || fixture.get("/api/v1/agents/timber").await.body["connection"].clone();
    let broken = eventually(seen, |connection| connection["state"] == "broken").await;
    assert!(broken["reason"].as_str().unwrap().contains("loopback"), "{broken}");
    assert_eq!(fixture.delivery(&event).await["state"], "waiting");
    fixture.delivery_is(&fixture.say("@hook hello").await, "dead").await;
    assert_eq!(timber.requests().len(), 0);
    let refused = fixture.put_connection("timber", &fixture.anna, &inbox_of(&timber)).await;
    assert!(refused.own_failure(Code::EndpointBlocked).starts_with("connection_string: "));
}

/// The sender is told that the delivery failed, and the owner why: only the owner can fix it.
#[tokio::test]
async fn a_connection_string_of_another_master_key() {
    let (mut fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    let alice = fixture.hub.register("alice").await;
    let key = fixture.connected("timber", &timber).await["api_key"].as_str().unwrap().to_owned();
    fixture.hub = fixture.hub.restart(|config| config.master_key = MasterKey::new([8; 32])).await;
    let mut body = json!({"receiver_id": "timber", "envelope": envelope("alice", "hello")});
    for stream in [false, true] {
        body["stream"] = stream.into();
        let sent = fixture.hub.post("/messages", Some(&alice), &body).await;
        assert_eq!(sent.outcome(), (200, "failed"), "{}", sent.text);
        assert_eq!(sent.data()["error_code"], Code::AgentUnreachable.as_str());
        assert_eq!(sent.data()["detail"], "the receiver's owner must set its connection string again");
    }
    let history = fixture.hub.history(&key).await;
    assert!(history.len() == 2 && history.iter().all(|message| message["delivery"] == "failed"));
    let connection = fixture.get("/api/v1/agents/timber").await.body["connection"].clone();
    assert_eq!(connection["state"], "broken");
    assert!(connection["reason"].as_str().unwrap().contains("master key"), "{connection}");
    assert_eq!(timber.requests().len(), 0);

    assert_eq!(fixture.put_connection("timber", &key, &inbox_of(&timber)).await.status, 200);
    body["stream"] = false.into();
    assert_eq!(fixture.hub.post("/messages", Some(&alice), &body).await.outcome(), (200, "delivered"));
}
