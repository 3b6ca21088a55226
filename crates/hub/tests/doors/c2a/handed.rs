//! Deliveries to a harness from outside any conversation: their meaning, and the chat tools on them.

use super::harness::{Harness, initialize, text};
use crate::channel_fixture::{ChannelFixture, MINUTE};
use crate::market::trader;
use crate::market_jobs::{ended, hire, id, job};
use crate::support::{HOST, OPERATOR, Setup, TestHub, eventually};
use chorus_testkit::receiver::FakeAgent;
use serde_json::{Value, json};
use std::time::Duration;

/// Two agents, the second with a session.
struct Pair {
    fixture: ChannelFixture,
    alice: String,
    bob_key: String,
    bob: Harness,
}

impl Pair {
    async fn start() -> Self {
        let fixture = ChannelFixture::start().await;
        let (alice, bob_key) = (fixture.hub.register("alice").await, fixture.hub.register("bob").await);
        let bob = Harness::connect(&fixture.hub, &bob_key).await;
        Self { fixture, alice, bob_key, bob }
    }

    /// Sends an envelope from alice to bob and waits for its delivery.
    async fn write(&mut self, words: &str) -> Value {
        self.fixture.hub.send(&self.alice, "alice", "bob", words).await;
        self.bob.delivered().await
    }

    /// Returns the envelope's only delivery, as this agent sees it.
    async fn ladder(&self, event: &Value, key: &str) -> Value {
        let path = format!("/api/v1/events/{}", event.as_str().unwrap());
        let look = async || self.fixture.hub.get(&path, Some(key)).await;
        let seen =
            eventually(look, |seen| seen.status == 200 && seen.body["deliveries"][0].is_object()).await;
        seen.body["deliveries"][0].clone()
    }
}

#[tokio::test]
async fn an_envelope_is_decided_about_like_a_message_of_two() {
    let mut pair = Pair::start().await;
    for (words, policy, reason, mode) in [
        ("Could you look at the build?", "must_respond", "direct_message", "buffered"),
        ("Thanks!", "ack_only", "thanks", "buffered"),
        ("Stop, that is the wrong database!", "must_respond", "direct_message", "buffered"),
    ] {
        let params = pair.write(words).await;
        assert_eq!(
            params["attention"],
            json!({"policy": policy, "reason": reason, "priority": params["attention"]["priority"], "deadlineMs": 300_000})
        );
        assert_eq!((&params["injection"]["mode"], text(&params)), (&json!(mode), words));
        assert_eq!(params["author"]["id"], json!(format!("alice@{HOST}")));
    }
    // A harness that cannot wait is shown it at once.
    let mut begin = initialize();
    begin["params"]["capabilities"]["injection"]["buffered"] = json!(false);
    pair.bob = Harness::with(&pair.fixture.hub, &pair.bob_key, &begin).await;
    assert_eq!(pair.write("And now?").await["injection"]["mode"], "immediate");
}

#[tokio::test]
async fn the_tools_know_an_envelope_and_its_ladder_ends() {
    let mut pair = Pair::start().await;
    for (tool, more, disposition) in [
        ("chat.defer", json!({"reason": "later"}), "deferred"),
        ("chat.resolve", json!({}), "responded"),
        ("chat.react", json!({"signal": "seen"}), "acknowledged"),
        ("chat.react", json!({"signal": "working"}), "claimed"),
    ] {
        let event = pair.write("Could you look at the build?").await["eventId"].clone();
        let mut arguments = more.clone();
        arguments[if tool == "chat.react" { "inReplyTo" } else { "eventId" }] = event.clone();
        let recorded = pair.bob.done(tool, arguments).await;
        assert_eq!(recorded["disposition"], disposition, "{tool} {more}");
        let ladder = pair.ladder(&event, &pair.bob_key).await;
        assert_eq!(
            (&ladder["disposition"], &ladder["policy"]),
            (&json!(disposition), &json!("must_respond"))
        );
        assert_eq!(
            pair.ladder(&event, &pair.alice).await["disposition"],
            disposition,
            "its sender sees it too"
        );
    }
    let event = pair.write("Could you look at the build?").await["eventId"].clone();
    assert_eq!(pair.bob.refused("chat.claim", json!({"eventId": event})).await, "invalid_arguments");
    let back = json!({"inReplyTo": event, "signal": "seen", "removed": true});
    assert_eq!(pair.bob.refused("chat.react", back).await, "invalid_arguments");
    // The harness's report of its disposition and turn is recorded.
    pair.bob.notify("notifications/injected", json!({"eventIds": [event], "turnId": "t1"})).await;
    pair.bob.notify("notifications/disposition", json!({"eventId": event, "disposition": "failed"})).await;
    let done = async || pair.ladder(&event, &pair.bob_key).await;
    let has = |ladder: &Value, rung: &str| {
        ladder["rungs"].as_array().unwrap().iter().any(|one| one["rung"] == rung)
    };
    // The acknowledgement is recorded a moment later.
    let ladder = eventually(done, |ladder| ladder["disposition"] == "failed" && has(ladder, "acked")).await;
    assert!(has(&ladder, "injected") && has(&ladder, "handed"), "{ladder}");
    // Nobody else learns that it exists.
    let mallory = pair.fixture.hub.register("mallory").await;
    let path = format!("/api/v1/events/{}", event.as_str().unwrap());
    assert_eq!(pair.fixture.hub.get(&path, Some(&mallory)).await.status, 404);
    let mut mallory = Harness::connect(&pair.fixture.hub, &mallory).await;
    for tool in ["chat.resolve", "chat.claim"] {
        assert_eq!(mallory.refused(tool, json!({"eventId": event})).await, "not_found");
    }
}

#[tokio::test]
async fn an_answer_to_an_envelope_obeys_its_policy_and_is_what_became_of_it() {
    let mut pair = Pair::start().await;
    let reply = |params: &Value, key: &str, text: &str| {
        json!({"target": {"conversationId": params["conversation"]["id"]}, "inReplyTo": params["eventId"],
            "idempotencyKey": key, "visibility": "dm", "directedness": "to_me", "text": text})
    };
    let asked = pair.write("Could you look at the build?").await;
    pair.bob.done("chat.send_message", reply(&asked, "k1", "It is green.")).await;
    assert_eq!(pair.ladder(&asked["eventId"], &pair.alice).await["disposition"], "responded");
    let thanks = pair.write("Thanks!").await;
    let long = reply(&thanks, "k2", &"You are welcome. ".repeat(20));
    assert_eq!(pair.bob.refused("chat.send_message", long).await, "policy_forbidden");
    pair.bob.done("chat.send_message", reply(&thanks, "k3", "You are welcome.")).await;
    assert_eq!(pair.ladder(&thanks["eventId"], &pair.alice).await["disposition"], "acknowledged");
    // Both can read their exchange in order.
    let place = json!({"conversationId": asked["conversation"]["id"]});
    for tool in ["chat.read_thread", "chat.list_events"] {
        let read = pair.bob.done(tool, place.clone()).await;
        let said: Vec<_> = read["events"].as_array().unwrap().iter().map(text).collect();
        assert_eq!(
            said,
            ["Could you look at the build?", "It is green.", "Thanks!", "You are welcome."],
            "{tool}"
        );
    }
    let first = pair
        .bob
        .done("chat.read_thread", json!({"conversationId": place["conversationId"], "limit": 1}))
        .await;
    assert_eq!(text(&first["events"][0]), "You are welcome.", "the newest");
    let mallory = pair.fixture.hub.register("mallory").await;
    let mut mallory = Harness::connect(&pair.fixture.hub, &mallory).await;
    assert_eq!(mallory.refused("chat.read_thread", place).await, "not_a_member");
}

/// An envelope expires like an obligation, but without a reminder or an escalation.
#[tokio::test]
async fn what_is_not_answered_is_asked_for_no_longer() {
    let (fixture, clock) = ChannelFixture::with_clock().await;
    let (alice, bob) = (fixture.hub.register("alice").await, fixture.hub.register("bob").await);
    let mut harness = Harness::connect(&fixture.hub, &bob).await;
    fixture.hub.send(&alice, "alice", "bob", "Could you look at the build?").await;
    let event = harness.delivered().await["eventId"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/events/{event}");
    let ladder = async || fixture.hub.get(&path, Some(&bob)).await.body["deliveries"][0].clone();
    eventually(ladder, |one| one["policy"] == "must_respond").await;
    // A reminder would be due, then an escalation, then the expiry.
    clock.set(clock.now() + 5 * MINUTE);
    fixture.hub.background_round().await;
    clock.set(clock.now() + 5 * MINUTE);
    let over = eventually(ladder, |one| one["policy"] == "may_respond").await;
    assert_eq!((&over["reason"], &over["disposition"]), (&json!("stale"), &Value::Null));
    clock.set(clock.now() + 5 * MINUTE);
    eventually(ladder, |one| one["disposition"] == "ignored").await;
    harness.assert_quiet().await;
    let listed = harness.done("chat.list_events", json!({})).await;
    let found = &listed["events"][0];
    assert_eq!(
        (&found["disposition"], &found["attention"]["policy"], &found["attention"]["reason"]),
        (&json!("ignored"), &json!("may_respond"), &json!("stale")),
        "{found}"
    );
}

#[tokio::test]
async fn how_often_something_came_is_known_to_the_next_session() {
    let setup = Setup::new().config(|config| config.times.redelivery = Duration::from_millis(300));
    let fixture = ChannelFixture::on(&setup).await;
    let (alice, key) = (fixture.hub.register("alice").await, fixture.hub.register("bob").await);
    let mut bob = Harness::connect(&fixture.hub, &key).await;
    fixture.hub.send(&alice, "alice", "bob", "Coffee?").await;
    let attempt = |request: &Value| request["params"]["reliability"]["attempt"].as_i64().unwrap();
    let mut before = 0;
    for _ in 0..3 {
        let now = attempt(&bob.request().await);
        assert!(now > before, "{now} after {before}");
        before = now;
    }
    for _ in 0..2 {
        drop(bob);
        eventually(async || fixture.hub.online("bob").await, |online| !online).await;
        bob = Harness::connect(&fixture.hub, &key).await;
        let request = bob.request().await;
        let now = attempt(&request);
        assert!(now > before, "{now} after {before}");
        before = now;
    }
}

#[tokio::test]
async fn a_foreign_post_and_a_job_are_known_to_the_tools() {
    let (fixture, service) = (ChannelFixture::start().await, FakeAgent::start().await);
    let made = fixture.agent(&json!({"name": "timber"})).await;
    let key = made["api_key"].as_str().unwrap();
    let mut timber = Harness::connect(&fixture.hub, key).await;
    let post = json!({"channel": {"id": "C04ABCDEF", "name": "general", "service": "Slack"},
        "message": {"id": "m1", "sender": "alice", "content": "hello"},
        "callback": format!("http://{}/cb/C04ABCDEF/tok_abc123", service.addr())});
    assert_eq!(fixture.call_back(&made["connection_string"], &post).await.status, 200);
    let params = timber.delivered().await;
    assert_eq!(params["author"], json!({"id": "alice", "kind": "human", "displayName": "alice"}));
    let resolved = timber.done("chat.resolve", json!({"eventId": params["eventId"]})).await;
    assert_eq!(resolved["disposition"], "responded");
    let seen =
        fixture.hub.get(&format!("/api/v1/events/{}", params["eventId"].as_str().unwrap()), Some(key)).await;
    assert_eq!(seen.body["deliveries"][0]["disposition"], "responded", "{}", seen.text);
    assert!(!seen.text.contains("tok_abc123") && !seen.text.contains("hello"), "{}", seen.text);
}

/// A harness that knows only the document does a job: it gets it in words, answers it, and is told when it is
/// cancelled.
#[tokio::test]
async fn a_job_is_done_by_answering_it() {
    let hub = TestHub::start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let mut harness = Harness::connect(&hub, &worker.key).await;
    let asked = job(1, &worker.id);
    hire(&hub, &boss.key, &asked).await;
    let params = harness.delivered().await;
    let said = params["content"][0]["text"].as_str().unwrap();
    assert!(said.contains(&asked["input_data"].to_string()), "{said}");
    let answer = json!({"target": {"conversationId": params["conversation"]["id"]}, "inReplyTo": params["eventId"],
        "idempotencyKey": "k1", "visibility": "dm", "directedness": "to_me", "text": "{\"entities\": [42000]}"});
    for _ in 0..2 {
        let told = harness.done("chat.send_message", answer.clone()).await;
        assert_eq!(told["delivery"], "delivered", "{told}");
    }
    let done = ended(&hub, &boss.key, &asked).await;
    assert_eq!((&done["status"], &done["settled"]), (&json!("SUCCESS"), &json!(0.1)), "{done}");
    assert_eq!(done["result"]["output_data"], json!({"entities": [42000]}));
    let other = job(2, &worker.id);
    hire(&hub, &boss.key, &other).await;
    let params = harness.delivered().await;
    let cancel = format!("/market/jobs/{}/cancel", id(&other));
    assert_eq!(hub.post(&cancel, Some(&boss.key), &json!({})).await.status, 200);
    let told = harness.notified("notifications/cancelled").await;
    assert_eq!((&told["eventId"], &told["reason"]), (&params["eventId"], &json!("job_cancelled")), "{told}");
}

/// A forbidden disposition is not applied: a request gets an error, and the audit log records it.
#[tokio::test]
async fn a_disposition_that_policy_forbids_is_not_lost_in_silence() {
    let mut pair = Pair::start().await;
    let params = pair.write("Status: all green").await;
    assert_eq!(params["attention"]["policy"], "must_not_respond");
    let told = json!({"eventId": params["eventId"], "disposition": "responded"});
    let by_post = json!({"jsonrpc": "2.0", "method": "notifications/disposition", "params": told});
    let answer = pair.fixture.hub.post("/c2a", Some(&pair.bob_key), &by_post).await;
    assert_eq!((answer.status, &answer.body["error"]["code"]), (400, &json!(-32602)), "{}", answer.text);
    pair.bob.notify("notifications/disposition", told).await;
    let hub = &pair.fixture.hub;
    let audit = async || {
        let found = hub.get("/api/v1/audit?kind=tool_call&actor=bob", Some(OPERATOR)).await;
        let items = found.body["items"].as_array().unwrap().clone();
        items
            .iter()
            .map(|item| (item["action"].clone(), item["detail"]["outcome"].clone()))
            .collect::<Vec<_>>()
    };
    let both = eventually(audit, |calls| calls.len() == 2).await;
    assert_eq!(both[0], (json!("notifications/disposition"), json!("policy_forbidden")));
    let reply = json!({"target": {"conversationId": params["conversation"]["id"]}, "inReplyTo": params["eventId"],
        "idempotencyKey": "k", "visibility": "dm", "directedness": "to_me", "text": "Good."});
    assert_eq!(pair.bob.refused("chat.send_message", reply).await, "policy_forbidden");
    // The message asks for nothing, so its disposition is `ignored`.
    assert_eq!(pair.ladder(&params["eventId"], &pair.alice).await["disposition"], "ignored");
}

/// A job carries its deadline, and its id is a progress token.
#[tokio::test]
async fn a_job_tells_its_deadline_and_takes_progress() {
    let hub = TestHub::start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let mut harness = Harness::connect(&hub, &worker.key).await;
    let mut one = job(1, &worker.id);
    one["deadline_ms"] = json!(120_000);
    hire(&hub, &boss.key, &one).await;
    let given = harness.delivered().await;
    assert_eq!(
        (&given["conversation"]["kind"], &given["attention"]["intent"]),
        (&json!("tool"), &json!("assignment")),
        "{given}"
    );
    assert_eq!(given["attention"]["deadlineMs"], 120_000, "{given}");
    let progress = json!({"progressToken": one["job_id"], "progress": 1, "total": 3});
    harness.notify("notifications/progress", progress).await;
    let mut found = Value::Null;
    for _ in 0..100 {
        let listed = harness.done("chat.list_events", json!({})).await;
        let events = listed["events"].as_array().unwrap();
        found = events.iter().find(|event| event["eventId"] == given["eventId"]).unwrap().clone();
        if found["disposition"] == "claimed" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(found["disposition"], "claimed", "{found}");
    // Another's job reveals nothing.
    let mallory = hub.register("mallory").await;
    let mut mallory = Harness::connect(&hub, &mallory).await;
    mallory.notify("notifications/progress", json!({"progressToken": one["job_id"], "progress": 1})).await;
    assert_eq!(mallory.done("chat.list_events", json!({})).await["events"], json!([]));
}

/// An agent declines a job in the document's form, by a reaction or by a notification: nobody pays, and the
/// credits return at once.
#[tokio::test]
async fn a_job_that_is_declined_ends_at_once() {
    let hub = TestHub::start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let mut harness = Harness::connect(&hub, &worker.key).await;
    for (n, way) in ["result", "reaction", "notice"].into_iter().enumerate() {
        let asked = job(n as u32 + 1, &worker.id);
        hire(&hub, &boss.key, &asked).await;
        let params = harness.delivered().await;
        let event = &params["eventId"];
        match way {
            "result" => {
                let result = json!({"job_id": asked["job_id"], "status": "FAILURE", "output_data": null,
                    "error_message": "no luck", "error_code": "NO_LUCK"});
                let answer = json!({"target": {"conversationId": params["conversation"]["id"]}, "inReplyTo": event,
                    "idempotencyKey": "k1", "visibility": "dm", "directedness": "to_me", "text": result.to_string()});
                harness.done("chat.send_message", answer).await;
            }
            "reaction" => {
                let told =
                    harness.done("chat.react", json!({"inReplyTo": event, "signal": "declined"})).await;
                assert_eq!(told["disposition"], "failed", "{told}");
            }
            _ => {
                let told = json!({"eventId": event, "disposition": "failed", "reason": "no luck"});
                harness.notify("notifications/disposition", told).await;
            }
        }
        let done = ended(&hub, &boss.key, &asked).await;
        let (status, code) = match way {
            "result" => ("FAILURE", "NO_LUCK"),
            "reaction" => ("REJECTED", "REJECTED"),
            _ => ("FAILURE", "EXECUTION_ERROR"),
        };
        assert_eq!((&done["status"], &done["settled"]), (&json!(status), &json!(0.0)), "{way} {done}");
        assert_eq!(done["error"]["code"], code, "{way} {done}");
        let why = done["error"]["message"].as_str().unwrap();
        assert!(why.contains(if way == "reaction" { "declined the job" } else { "no luck" }), "{way} {done}");
    }
    assert_eq!(crate::market::balance(&hub, &boss.owner).await, (json!(1.0), json!(0.0)));
    // An agent cannot end a job of others.
    let asked = job(9, &worker.id);
    hire(&hub, &boss.key, &asked).await;
    let params = harness.delivered().await;
    let mallory = hub.register("mallory").await;
    let mut mallory = Harness::connect(&hub, &mallory).await;
    let told = json!({"eventId": params["eventId"], "disposition": "failed"});
    mallory.notify("notifications/disposition", told).await;
    assert_eq!(mallory.done("chat.list_events", json!({})).await["events"], json!([]));
    let job = hub.get(&format!("/market/jobs/{}", id(&asked)), Some(&boss.key)).await.body;
    assert_eq!(job["status"], "PENDING", "{job}");
}
