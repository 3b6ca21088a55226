//! Pushing over real sockets: POSTs are retried until they arrive, in order, and none is lost.

use crate::channel_fixture::{BEGIN, ChannelFixture, HOUR, MINUTE, contents, inbox_of};
use crate::support::{Answer, HOST, OPERATOR, SOON, Setup, eventually};
use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use chorus_protocol::code::Code;
use chorus_testkit::clock::ManualClock;
use chorus_testkit::receiver::{FakeAgent, Reply};
use data_encoding::BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Starts a server that computes its responses from the bodies, and keeps them.
pub(crate) async fn serve(
    answer: impl Fn(&Value) -> (u16, Option<String>) + Clone + Send + Sync + 'static,
) -> (String, Arc<Mutex<Vec<Value>>>) {
    let got = Arc::new(Mutex::new(vec![]));
    let seen = Arc::clone(&got);
    let receive = move |body: axum::Json<Value>| {
        let (status, after) = answer(&body.0);
        seen.lock().unwrap().push(body.0);
        let headers = after.map(|after| [("retry-after", after)]);
        let status = StatusCode::from_u16(status).unwrap();
        async move { headers.map_or_else(|| Ok(status), |headers| Err((status, headers))) }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/inbox/sk_1", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(post(receive))).await });
    (url, got)
}

/// The POST follows the document and carries a signature.
#[tokio::test]
async fn a_mention_is_one_post_to_the_one_that_is_mentioned() {
    let (fixture, timber, other) =
        (ChannelFixture::start().await, FakeAgent::start().await, FakeAgent::start().await);
    let made = fixture.connected("timber", &timber).await;
    fixture.connected("birch", &other).await;
    let event = fixture.say("@timber what's the weather in Oslo?").await;
    fixture.say("nobody in particular").await;
    let requests = timber.wait_for(1, SOON).await;
    let request = &requests[0];
    assert_eq!(request.path, "/inbox/sk_secret");
    assert_eq!(request.headers["content-type"], "application/json");
    let body = &request.body;
    assert_eq!(
        body["channel"],
        json!({
            "id": fixture.channel, "name": "ops", "service": format!("Chorus at {HOST}"),
            "context": "We keep things running."
        })
    );
    let message = json!({"id": event, "sender": "anna", "content": "@timber what's the weather in Oslo?"});
    assert_eq!(body["message"], message);
    let callback = body["callback"].as_str().unwrap();
    assert!(callback.starts_with(&format!("{}/channels/{}/inbox/tok_", fixture.hub.url, fixture.channel)));

    let (id, time) = (&request.headers["webhook-id"], &request.headers["webhook-timestamp"]);
    let secret = made["webhook_secret"].as_str().unwrap().strip_prefix("whsec_").unwrap();
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&BASE64.decode(secret.as_bytes()).unwrap()).unwrap();
    mac.update(&[id.as_bytes(), b".", time.as_bytes(), b".", &request.raw].concat());
    let signature = format!("v1,{}", BASE64.encode(&mac.finalize().into_bytes()));
    assert_eq!(request.headers["webhook-signature"], signature);

    let delivery = fixture.delivery_is(&event, "delivered").await;
    assert_eq!(delivery["recipient"]["handle"], "timber");
    assert_eq!((&delivery["reason"], &delivery["transport"]), (&json!("direct_mention"), &json!("channel")));
    let rungs: Vec<_> = delivery["rungs"].as_array().unwrap().iter().map(|rung| &rung["rung"]).collect();
    assert_eq!(rungs, ["stored", "handed", "acked"]);
    let attempts = delivery["attempts"].as_array().unwrap();
    assert_eq!((attempts.len(), &attempts[0]["status"]), (1, &json!(200)));
    assert_eq!(other.requests().len(), 0, "nobody else is asked");
    assert_eq!(timber.requests().len(), 1);
}

#[tokio::test]
async fn an_agent_that_was_down_for_ten_hours_gets_everything_in_order() {
    let ((fixture, clock), timber) = (ChannelFixture::with_clock().await, FakeAgent::start().await);
    fixture.connected("timber", &timber).await;
    timber.set(Reply::Json(503, json!({})));
    let mut events = vec![];
    for n in 0..3 {
        events.push(fixture.say(&format!("@timber {n}")).await);
        timber.wait_for(1, SOON).await;
    }
    fixture.tried(&clock, &timber, 4).await;
    fixture.recorded(&clock).await;
    clock.advance(5 * HOUR);
    timber.wait_for(6, SOON).await;
    fixture.recorded(&clock).await;
    events.push(fixture.say("@timber 3").await);
    let tries = timber.wait_for(6, SOON).await;
    assert!(contents(&tries).iter().all(|content| *content == "@timber 0"), "the first one holds the others");
    let delivery = eventually(
        async || fixture.delivery(&events[0]).await,
        |delivery| delivery["attempts"].as_array().unwrap().len() == tries.len(),
    )
    .await;
    assert_eq!(delivery["state"], "waiting");
    assert_eq!(delivery["attempts"][0]["error"], "receiver answered HTTP 503");

    timber.set(Reply::Json(200, json!({})));
    clock.advance(5 * HOUR);
    let all = timber.wait_for(tries.len() + 4, SOON).await;
    let arrived = &all[tries.len()..];
    assert_eq!(contents(arrived), ["@timber 0", "@timber 1", "@timber 2", "@timber 3"]);
    for (request, event) in arrived.iter().zip(&events) {
        assert_eq!(request.body["message"]["id"], *event);
        fixture.delivery_is(event, "delivered").await;
    }
    // Each attempt of a message has the same ids and its own callback.
    let (first, last) = (&all[0], &arrived[0]);
    assert_eq!(first.body["message"], last.body["message"]);
    assert_eq!(first.headers["webhook-id"], last.headers["webhook-id"]);
    assert_ne!(first.headers["webhook-id"], arrived[1].headers["webhook-id"]);
    assert_ne!(first.body["callback"], last.body["callback"]);
    assert_eq!(contents(&timber.requests()), contents(&all));
}

/// The pauses grow from a second to five minutes.
#[tokio::test]
async fn tries_become_rarer() {
    let (clock, timber) = (ManualClock::new(BEGIN), FakeAgent::start().await);
    // The pause after many failures is off, because it uses another clock.
    let setup = Setup::new().clock(&clock).config(|config| config.times.rest = Duration::ZERO);
    let fixture = ChannelFixture::on(&setup).await;
    fixture.connected("timber", &timber).await;
    timber.set(Reply::DropConnection);
    let event = fixture.say("@timber hello").await;
    timber.wait_for(1, SOON).await;
    let mut last = clock.now();
    for pause in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300].map(|seconds| seconds * 1000) {
        fixture.tried(&clock, &timber, 1).await;
        let waited = clock.now() - last;
        assert!((pause * 4 / 5..=pause * 6 / 5).contains(&waited), "{waited} instead of {pause}");
        last = clock.now();
    }
    let delivery = fixture.delivery(&event).await;
    assert!(delivery["attempts"][0]["error"].as_str().unwrap().starts_with("receiver could not be reached"));
    assert_eq!(delivery["attempts"][0]["status"], Value::Null);
}

#[tokio::test]
async fn retry_after_is_honoured() {
    let (fixture, clock) = ChannelFixture::with_clock().await;
    let (url, got) = serve(|_| (429, Some("600".into()))).await;
    fixture.agent(&json!({"name": "timber", "connection_string": url})).await;
    fixture.join(&fixture.channel, "timber").await;
    let event = fixture.say("@timber hello").await;
    let ten_minutes = "2026-03-20T10:10:00.000Z";
    assert_eq!(chorus_protocol::time::parse_rfc3339(ten_minutes), Some(BEGIN + 10 * MINUTE));
    let waits = async || fixture.get("/api/v1/deliveries?state=waiting").await.body["items"][0].clone();
    eventually(waits, |item| item["next_try"] == ten_minutes).await;
    clock.advance(10 * MINUTE - 1);
    fixture.hub.background_round().await;
    assert_eq!(got.lock().unwrap().len(), 1, "not before");
    clock.advance(1);
    eventually(async || got.lock().unwrap().len(), |tries| *tries == 2).await;
    let delivery = fixture.delivery(&event).await;
    assert_eq!(delivery["attempts"][0]["status"], 429);
}

#[tokio::test]
async fn a_stuck_conversation_holds_up_no_other() {
    let fixture = ChannelFixture::start().await;
    let stuck = fixture.another_channel("stuck").await;
    let name = stuck.clone();
    let answer = move |body: &Value| if body["channel"]["id"] == name { (503, None) } else { (200, None) };
    let (url, got) = serve(answer).await;
    fixture.agent(&json!({"name": "timber", "connection_string": url})).await;
    fixture.join(&fixture.channel, "timber").await;
    fixture.join(&stuck, "timber").await;
    let held = fixture.say_in(&stuck, "@timber here").await;
    fixture.say_in(&stuck, "@timber and here").await;
    eventually(async || got.lock().unwrap().len(), |tries| *tries > 0).await;
    for n in 0..3 {
        fixture.delivery_is(&fixture.say(&format!("@timber {n}")).await, "delivered").await;
    }
    assert_eq!(fixture.delivery(&held).await["state"], "waiting");
    let said: Vec<_> = got.lock().unwrap().iter().map(|body| body["message"]["content"].clone()).collect();
    assert!(!said.contains(&json!("@timber and here")));
}

/// A hub that stops during a POST waits and records the outcome, and the next one continues.
#[tokio::test]
async fn a_stop_loses_nothing() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    fixture.connected("timber", &timber).await;
    timber.set(Reply::Slow(Duration::from_millis(700), Box::new(Reply::Json(200, json!({})))));
    let finished = fixture.say("@timber finished").await;
    timber.wait_for(1, SOON).await;
    let ChannelFixture { hub, anna, channel } = fixture;
    let fixture = ChannelFixture { hub: hub.restart(|_| {}).await, anna, channel };
    assert_eq!(fixture.delivery(&finished).await["state"], "delivered", "it was waited for");

    timber.set(Reply::Hang);
    let cut = fixture.say("@timber cut").await;
    timber.wait_for(2, SOON).await;
    let ChannelFixture { hub, anna, channel } = fixture;
    let setup = hub.setup();
    let took = hub.stop().await;
    assert!(took < Duration::from_secs(8), "{took:?}");
    timber.set(Reply::Json(200, json!({})));
    let fixture = ChannelFixture { hub: setup.start(), anna, channel };
    let delivery = fixture.delivery_is(&cut, "delivered").await;
    assert_eq!(delivery["attempts"].as_array().unwrap().len(), 2, "{delivery}");
    assert_eq!(delivery["attempts"][0]["error"], "the hub stopped before the outcome was known");
    let all = timber.requests();
    assert_eq!(all.len(), 3);
    assert_eq!(all[1].headers["webhook-id"], all[2].headers["webhook-id"]);
}

/// An unregistered agent gets nothing more, and its deliveries end.
#[tokio::test]
async fn an_agent_that_was_unregistered() {
    let ((fixture, clock), timber) = (ChannelFixture::with_clock().await, FakeAgent::start().await);
    fixture.connected("timber", &timber).await;
    timber.set(Reply::Json(503, json!({})));
    let event = fixture.say("@timber hello").await;
    timber.wait_for(1, SOON).await;
    fixture.recorded(&clock).await;
    assert_eq!(fixture.hub.delete("/agents/timber", Some(&fixture.anna)).await.status, 200);
    clock.advance(MINUTE);
    let failed = fixture.delivery_is(&event, "dead").await;
    assert_eq!(failed["rungs"][1]["reason"], "the agent is not registered any more");
    assert_eq!(failed["attempts"].as_array().unwrap().len(), 1, "it was not tried again");
    assert_eq!(timber.requests().len(), 1);
}

/// An inbox opened while deliveries wait gets them first, and later ones behind them.
#[tokio::test]
async fn an_inbox_that_opens_gets_what_waits_first() {
    let ((fixture, clock), timber) = (ChannelFixture::with_clock().await, FakeAgent::start().await);
    let key = fixture.connected("timber", &timber).await["api_key"].as_str().unwrap().to_owned();
    timber.set(Reply::Json(503, json!({})));
    let waits = fixture.say("@timber by post").await;
    timber.wait_for(1, SOON).await;
    fixture.recorded(&clock).await;
    let mut inbox = fixture.hub.inbox(&key, None).await;
    let second = fixture.say("@timber by inbox").await;
    for content in ["@timber by post", "@timber by inbox"] {
        assert_eq!(inbox.event("chat").await["event"]["content"], content);
    }
    for event in [waits, second] {
        assert_eq!(fixture.delivery_is(&event, "delivered_sse").await["transport"], "inbox");
    }
    // Long enough for another attempt, but not for a reminder.
    clock.advance(4 * MINUTE);
    inbox.assert_quiet().await;
    assert_eq!(timber.requests().len(), 1, "each goes one way");
}

/// Every caller sees only their own deliveries.
#[tokio::test]
async fn whose_deliveries() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    let key = fixture.connected("timber", &timber).await["api_key"].as_str().unwrap().to_owned();
    let birch = fixture.connected("birch", &timber).await["api_key"].as_str().unwrap().to_owned();
    for n in 0..3 {
        fixture.delivery_is(&fixture.say(&format!("@timber {n}")).await, "delivered").await;
    }
    let mallory = fixture.hub.account("mallory@example.org").await;
    let count = async |who: &str, query: &str| -> usize {
        let list: Answer = fixture.hub.get(&format!("/api/v1/deliveries{query}"), Some(who)).await;
        assert_eq!(list.status, 200, "{}", list.text);
        list.body["items"].as_array().unwrap().len()
    };
    for (who, query, expected) in [
        (&*fixture.anna, "", 3),
        (&key, "", 3),
        (OPERATOR, "", 3),
        (&birch, "", 0),
        (&mallory, "", 0),
        (&mallory, "?agent=timber", 0),
        (&birch, "?agent=timber", 0),
        (&key, "?agent=timber", 3),
        (OPERATOR, "?agent=timber&state=delivered", 3),
        (&*fixture.anna, "?state=dead", 0),
        (&*fixture.anna, "?agent=nobody", 0),
        (&*fixture.anna, "?limit=2", 2),
    ] {
        assert_eq!(count(who, query).await, expected, "{query}");
    }
    let mut path = "/api/v1/deliveries?limit=1".to_owned();
    for page in 0..3 {
        let list = fixture.get(&path).await;
        let item = &list.body["items"][0];
        assert_eq!(
            (&item["kind"], &item["transport"], &item["state"]),
            (&json!("chat"), &json!("channel"), &json!("delivered"))
        );
        match list.body["next"].as_str() {
            Some(next) => path = format!("/api/v1/deliveries?limit=1&after={next}"),
            None => assert_eq!(page, 2),
        }
    }
    fixture.hub.get("/api/v1/deliveries", None).await.own_failure(Code::Unauthorized);
    let wrong = fixture.get("/api/v1/deliveries?state=x&channel=y&since=z&agent=a%20b").await;
    let faults = wrong.own_failure(Code::Validation);
    assert_eq!(faults.matches(": must").count(), 4, "{faults}");
    fixture.get("/api/v1/deliveries?after=1").await.own_failure(Code::Validation);
}

/// The deliveries of an event are visible to those who may read it.
#[tokio::test]
async fn who_sees_what_became_of_an_event() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    let key = fixture.connected("timber", &timber).await["api_key"].as_str().unwrap().to_owned();
    let event = fixture.say("@timber hello").await;
    fixture.delivery_is(&event, "delivered").await;
    let path = format!("/api/v1/events/{event}");
    let mine = fixture.hub.get(&path, Some(&key)).await;
    assert_eq!((mine.status, &mine.body["event"]["content"]), (200, &json!("@timber hello")));
    assert_eq!(mine.body["claims"], json!([]));
    let mallory = fixture.hub.account("mallory@example.org").await;
    fixture.hub.get(&path, Some(&mallory)).await.own_failure(Code::NotFound);
    fixture.hub.get(&path, Some(OPERATOR)).await.own_failure(Code::Forbidden);
    fixture.hub.get(&path, None).await.own_failure(Code::Unauthorized);
    fixture.get("/api/v1/events/evt_00000000000000000000000000000000").await.own_failure(Code::NotFound);
    fixture.get("/api/v1/events/x").await.own_failure(Code::NotFound);
}

/// On PostgreSQL with two nodes, each message is posted once.
#[tokio::test]
async fn two_nodes_push_each_message_once() {
    let setup = Setup::postgres();
    let (fixture, other, timber) =
        (ChannelFixture::on(&setup).await, setup.start(), FakeAgent::start().await);
    fixture.connected("timber", &timber).await;
    let mut events = vec![];
    for n in 0..10 {
        events.push(fixture.say(&format!("@timber {n}")).await);
    }
    for event in &events {
        fixture.delivery_is(event, "delivered").await;
    }
    let requests = timber.requests();
    let ids: Vec<_> = requests.iter().map(|request| request.body["message"]["id"].clone()).collect();
    assert_eq!(ids, events, "in order, and no more");
    other.assert_healthy().await;
}

/// A manual clock does not advance by itself.
#[tokio::test]
async fn nothing_is_due_before_its_time() {
    let ((fixture, clock), timber): ((ChannelFixture, ManualClock), _) =
        (ChannelFixture::with_clock().await, FakeAgent::start().await);
    fixture.connected("timber", &timber).await;
    timber.set(Reply::Json(503, json!({})));
    fixture.say("@timber hello").await;
    fixture.recorded(&clock).await;
    fixture.hub.background_round().await;
    assert_eq!(timber.requests().len(), 1);
    clock.advance(2000);
    timber.wait_for(2, SOON).await;
}

/// An agent without an address is told things that wait for an inbox. An address that it gets later gets them, in order.
#[tokio::test]
async fn a_way_that_comes_later_delivers_what_waits() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    let texts = ["@late one", "@late two", "@late three"];
    for way in ["connection", "webhook", "registration"] {
        let name = format!("late-{way}");
        let key = fixture.hub.register(&name).await;
        let path = format!("/api/v1/channels/{}/members", fixture.channel);
        fixture.hub.post(&path, Some(&fixture.anna), &json!({"agent": name, "handle": "late"})).await;
        for text in texts {
            fixture.say(text).await;
        }
        let before = timber.requests().len();
        match way {
            "connection" => drop(fixture.put_connection(&name, &key, &inbox_of(&timber)).await),
            "webhook" => {
                let path = format!("/api/v1/agents/{name}");
                let request = fixture.hub.request(Method::PATCH, &path, Some(&key));
                let changed = Answer::of(request.json(&json!({"endpoint": timber.url()}))).await;
                assert_eq!(changed.status, 200, "{}", changed.text);
            }
            _ => {
                let again = json!({"agent_id": name, "endpoint": timber.url()});
                let registered = fixture.hub.post("/register", Some(&key), &again).await;
                assert!(registered.status < 300, "{}", registered.text);
            }
        }
        timber.wait_for(before + 3, SOON).await;
        let requests = timber.requests();
        let told: Vec<_> = requests[before..].iter().map(|request| request.body.to_string()).collect();
        for (told, text) in told.iter().zip(texts) {
            assert!(told.contains(text), "{told} is not {text}");
        }
        fixture.hub.delete(&format!("{path}/late"), Some(&fixture.anna)).await;
    }
}

/// There is one counter per outcome; recipients and addresses are not exposed.
#[tokio::test]
async fn pushes_are_counted_by_their_outcome() {
    let ((fixture, clock), timber) = (ChannelFixture::with_clock().await, FakeAgent::start().await);
    fixture.connected("timber", &timber).await;
    for (status, state) in [(200, "delivered"), (400, "dead")] {
        timber.set(Reply::Json(status, json!({})));
        fixture.delivery_is(&fixture.say("@timber now").await, state).await;
    }
    timber.set(Reply::Json(503, json!({})));
    let event = fixture.say("@timber later").await;
    fixture.recorded(&clock).await;
    clock.advance(25 * HOUR);
    fixture.delivery_is(&event, "dead").await;
    timber.set(Reply::Json(404, json!({})));
    fixture.say("@timber never").await;
    // An unanswered earlier message is sent again, and comes first.
    let seen = async || {
        clock.advance(MINUTE);
        fixture.get("/api/v1/agents/timber").await.body["connection"]["state"].clone()
    };
    eventually(seen, |state| state == "broken").await;
    fixture.agent(&json!({"name": "hook", "endpoint": timber.url()})).await;
    fixture.join(&fixture.channel, "hook").await;
    timber.set(Reply::Json(200, json!({})));
    fixture.delivery_is(&fixture.say("@hook now").await, "delivered").await;

    let metrics = fixture.hub.get("/metrics", Some(OPERATOR)).await.text;
    let counts = |line: &str| {
        let (what, count) = line.strip_prefix("chorus_pushes_total")?.rsplit_once(' ')?;
        (count != "0").then(|| what.to_owned())
    };
    let mut pushes: Vec<_> = metrics.lines().filter_map(counts).collect();
    pushes.sort_unstable();
    let wanted = [
        r#"{transport="channel",outcome="broken"}"#,
        r#"{transport="channel",outcome="dead"}"#,
        r#"{transport="channel",outcome="delivered"}"#,
        r#"{transport="channel",outcome="refused"}"#,
        r#"{transport="channel",outcome="retry"}"#,
        r#"{transport="webhook",outcome="delivered"}"#,
    ];
    assert_eq!(pushes, wanted);
}
