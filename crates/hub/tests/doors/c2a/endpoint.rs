//! A harness endpoint: the hub calls it, and it calls back by `POST /c2a`.

use super::harness::{Harness, initialize, text};
use crate::channel_fixture::{BEGIN, ChannelFixture};
use crate::market::{assert_balanced, balance, trader};
use crate::market_jobs::{ended, hire, job, success};
use crate::support::{SOON, Setup, TestHub, envelope, eventually};
use crate::web::send;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use chorus_protocol::code::Code;
use chorus_testkit::clock::ManualClock;
use chorus_testkit::receiver::FakeAgent;
use data_encoding::BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// The response to deliveries from now on.
#[derive(Debug, Clone)]
pub(super) enum Says {
    Accepted,
    Error(i64),
    Status(u16),
    /// A success of HTTP that is not a C2A result.
    Anything(Value),
    /// The endpoint accepts the request and never responds.
    Nothing,
}

#[derive(Debug, Clone)]
pub(super) struct Got {
    headers: HeaderMap,
    raw: Bytes,
    pub(super) body: Value,
}

/// An HTTP server that speaks C2A.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) url: String,
    got: Arc<Mutex<Vec<Got>>>,
    says: Arc<Mutex<Says>>,
    begins: Arc<Mutex<Says>>,
    /// The capabilities it declares.
    pub(super) can: Arc<Mutex<Value>>,
}

impl Endpoint {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = Self {
            url: format!("http://{}/c2a", listener.local_addr().unwrap()),
            got: Arc::default(),
            says: Arc::new(Mutex::new(Says::Accepted)),
            begins: Arc::new(Mutex::new(Says::Accepted)),
            can: Arc::new(Mutex::new(initialize()["params"]["capabilities"].clone())),
        };
        let served = endpoint.clone();
        let receive = move |headers: HeaderMap, raw: Bytes| {
            let answer = served.answer(headers, raw);
            async move {
                match answer {
                    Some(answer) => answer,
                    None => std::future::pending().await,
                }
            }
        };
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(post(receive))).await });
        endpoint
    }

    fn answer(&self, headers: HeaderMap, raw: Bytes) -> Option<(StatusCode, Json<Value>)> {
        let body: Value = serde_json::from_slice(&raw).unwrap();
        let begins = body["method"] == "initialize";
        let result = if begins {
            json!({"protocolVersion": "2026-06-02", "capabilities": *self.can.lock().unwrap()})
        } else {
            json!({"status": "accepted"})
        };
        let says = if begins { &self.begins } else { &self.says }.lock().unwrap().clone();
        let id = body["id"].clone();
        self.got.lock().unwrap().push(Got { headers, raw, body });
        Some(match says {
            Says::Accepted => (StatusCode::OK, Json(json!({"jsonrpc": "2.0", "id": id, "result": result}))),
            Says::Error(code) => {
                let error = json!({"code": code, "message": "not now"});
                (StatusCode::OK, Json(json!({"jsonrpc": "2.0", "id": id, "error": error})))
            }
            Says::Status(status) => (StatusCode::from_u16(status).unwrap(), Json(json!({}))),
            Says::Anything(body) => (StatusCode::OK, Json(body)),
            Says::Nothing => return None,
        })
    }

    pub(super) fn say(&self, says: Says) {
        *self.says.lock().unwrap() = says;
    }

    /// Waits for this many requests of a method.
    pub(super) async fn requests(&self, method: &str, n: usize) -> Vec<Got> {
        let all = async || {
            let got = self.got.lock().unwrap().clone();
            got.into_iter().filter(|got| got.body["method"] == method).collect::<Vec<_>>()
        };
        eventually(all, |found| found.len() >= n).await
    }

    /// Waits for this many deliveries and returns their params.
    pub(super) async fn delivered(&self, n: usize) -> Vec<Value> {
        let found = self.requests("chat/deliver", n).await;
        assert_eq!(found.len(), n, "{found:?}");
        found.into_iter().map(|got| got.body["params"].clone()).collect()
    }
}

pub(super) async fn set(hub: &TestHub, name: &str, key: &str, url: &str) -> crate::support::Answer {
    hub.ask("PUT", &format!("/api/v1/agents/{name}/harness"), Some(key), &json!({"endpoint": url})).await
}

/// Adds an agent with this harness endpoint to the channel.
async fn called(fixture: &ChannelFixture, name: &str, endpoint: &Endpoint) -> Value {
    let made = fixture.agent(&json!({"name": name})).await;
    fixture.join(&fixture.channel, name).await;
    let set = set(&fixture.hub, name, made["api_key"].as_str().unwrap(), &endpoint.url).await;
    assert_eq!(set.status, 200, "{}", set.text);
    assert_eq!(set.body["harness"], "127.0.0.1");
    made
}

/// Makes one call by `POST /c2a`, as a harness without a connection does.
async fn call_back(hub: &TestHub, key: &str, name: &str, arguments: Value) -> Value {
    let call = json!({"jsonrpc": "2.0", "id": "c1", "method": "tools/call",
        "params": {"name": name, "arguments": arguments}});
    let answer = hub.post("/c2a", Some(key), &call).await;
    assert_eq!((answer.status, &answer.body["result"]["isError"]), (200, &Value::Null), "{}", answer.text);
    answer.body["result"]["structuredContent"].clone()
}

#[tokio::test]
async fn a_mention_is_delivered_acknowledged_and_answered() {
    let (fixture, endpoint) = (ChannelFixture::start().await, Endpoint::start().await);
    let made = called(&fixture, "timber", &endpoint).await;
    let key = made["api_key"].as_str().unwrap();
    let begun = endpoint.requests("initialize", 1).await;
    assert_eq!(begun[0].body["params"]["protocolVersion"], "2026-06-02");

    let event = fixture.say("@timber is the deploy blocked?").await;
    fixture.say("nobody in particular").await;
    let requests = endpoint.requests("chat/deliver", 1).await;
    let (request, params) = (&requests[0], &requests[0].body["params"]);
    assert_eq!((&params["eventId"], text(params)), (&json!(event), "@timber is the deploy blocked?"));
    assert_eq!(params["attention"]["policy"], "must_respond");
    assert_eq!(params["injection"]["mode"], "buffered", "as its initialize said it can");
    assert_eq!(params["reliability"]["attempt"], 1);

    // The request is signed like every other POST.
    let header = |name: &str| request.headers[name].to_str().unwrap().to_owned();
    let secret = made["webhook_secret"].as_str().unwrap().strip_prefix("whsec_").unwrap();
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&BASE64.decode(secret.as_bytes()).unwrap()).unwrap();
    mac.update(format!("{}.{}.", header("webhook-id"), header("webhook-timestamp")).as_bytes());
    mac.update(&request.raw);
    assert_eq!(header("webhook-signature"), format!("v1,{}", BASE64.encode(&mac.finalize().into_bytes())));

    let delivery = fixture.delivery_is(&event, "delivered").await;
    assert_eq!(delivery["transport"], "harness");
    let rungs: Vec<_> = delivery["rungs"].as_array().unwrap().iter().map(|rung| &rung["rung"]).collect();
    assert_eq!(rungs, ["stored", "handed", "acked"]);
    let reply = json!({"target": {"conversationId": fixture.channel}, "inReplyTo": event, "idempotencyKey": "k1",
        "visibility": "thread", "directedness": "to_me", "text": "No, it is not."});
    let sent = call_back(&fixture.hub, key, "chat.send_message", reply.clone()).await;
    assert_eq!(call_back(&fixture.hub, key, "chat.send_message", reply).await, sent, "once for the same key");
    assert_eq!(fixture.log().await.last().unwrap()["content"], "No, it is not.");
    assert_eq!(fixture.delivery(&event).await["disposition"], "responded");
    assert_eq!(endpoint.delivered(1).await.len(), 1, "and nothing came twice");
}

/// A harness that can show knocks gets them. An accepted delivery that needs no answer is complete.
#[tokio::test]
async fn what_it_can_show_is_kept() {
    let (fixture, endpoint) = (ChannelFixture::start().await, Endpoint::start().await);
    called(&fixture, "timber", &endpoint).await;
    let first = fixture.say("@timber please look at the rollback").await;
    endpoint.delivered(1).await;
    let thanks = json!({"content": "thanks", "reply_to": first, "to": ["timber"]});
    let path = format!("/api/v1/channels/{}/messages", fixture.channel);
    let said = fixture.hub.post(&path, Some(&fixture.anna), &thanks).await;
    assert_eq!(said.status, 201, "{}", said.text);
    let delivered = endpoint.delivered(2).await;
    assert_eq!(delivered[1]["injection"]["mode"], "notify", "{}", delivered[1]);
    assert_eq!(delivered[1]["attention"]["policy"], "ack_only");
    assert!(delivered[1].get("content").is_none(), "a knock quotes nothing");
}

#[tokio::test]
async fn what_fails_comes_again_under_the_same_ids_and_in_order() {
    let ((fixture, clock), endpoint) = (ChannelFixture::with_clock().await, Endpoint::start().await);
    called(&fixture, "timber", &endpoint).await;
    let failures = [
        Says::Status(503),
        Says::Error(-32000),
        Says::Anything(json!({"status": "ok"})),
        Says::Anything(json!({"jsonrpc": "2.0", "id": "deliver-99", "result": {}})),
    ];
    endpoint.say(failures[0].clone());
    let event = fixture.say("@timber one").await;
    let second = fixture.say("@timber two").await;
    for (n, says) in failures[1..].iter().cloned().chain([Says::Accepted]).enumerate() {
        endpoint.delivered(n + 1).await;
        fixture.recorded(&clock).await;
        endpoint.say(says);
        clock.advance(10 * 60 * 1000);
    }
    let all = endpoint.delivered(6).await;
    for (n, params) in all[..5].iter().enumerate() {
        assert_eq!(params["eventId"], json!(event));
        assert_eq!(params["reliability"]["attempt"], n + 1);
        assert_eq!(params["reliability"]["idempotencyKey"], all[0]["reliability"]["idempotencyKey"]);
    }
    assert_eq!(all[5]["eventId"], json!(second), "what was said later waits");
    let requests = endpoint.requests("chat/deliver", 6).await;
    assert!(requests[..5].iter().all(|got| got.body["id"] == requests[0].body["id"]));
    let delivery = fixture.delivery_is(&event, "delivered").await;
    let errors: Vec<_> = delivery["attempts"].as_array().unwrap().iter().map(|one| &one["error"]).collect();
    assert_eq!(errors[0], "receiver answered HTTP 503");
    assert_eq!(errors[1], "the harness answered with the JSON-RPC error -32000: not now");
    for other in &errors[2..4] {
        assert_eq!(*other, "the harness did not answer with a JSON-RPC response to this request");
    }
    fixture.delivery_is(&second, "delivered").await;
}

#[tokio::test]
async fn what_it_will_never_take_is_dead_and_can_be_replayed() {
    let (fixture, endpoint) = (ChannelFixture::start().await, Endpoint::start().await);
    called(&fixture, "timber", &endpoint).await;
    for (n, says) in [Says::Status(422), Says::Error(-32602)].into_iter().enumerate() {
        endpoint.say(says);
        let event = fixture.say("@timber hello").await;
        let dead = fixture.delivery_is(&event, "dead").await;
        assert_eq!(endpoint.delivered(2 * n + 1).await[2 * n]["eventId"], json!(event));
        endpoint.say(Says::Accepted);
        let path = format!("/api/v1/deliveries/{}/replay", dead["id"].as_str().unwrap());
        let replayed = fixture.hub.post(&path, Some(&fixture.anna), &json!({})).await;
        assert!((200..300).contains(&replayed.status), "{}", replayed.text);
        fixture.delivery_is(&event, "delivered").await;
        assert_eq!(endpoint.delivered(2 * n + 2).await[2 * n + 1]["eventId"], json!(event));
    }
}

#[tokio::test]
async fn a_restart_loses_nothing_and_forgets_no_harness() {
    let clock = ManualClock::new(BEGIN);
    let mut fixture = ChannelFixture::on(&Setup::new().clock(&clock)).await;
    let endpoint = Endpoint::start().await;
    called(&fixture, "timber", &endpoint).await;
    endpoint.say(Says::Status(503));
    let event = fixture.say("@timber hello").await;
    endpoint.delivered(1).await;
    fixture.recorded(&clock).await;
    fixture.hub = fixture.hub.restart(|_| {}).await;
    endpoint.say(Says::Accepted);
    clock.advance(10 * 60 * 1000);
    let all = endpoint.delivered(2).await;
    assert_eq!((&all[1]["eventId"], &all[1]["reliability"]["attempt"]), (&json!(event), &json!(2)));
    fixture.delivery_is(&event, "delivered").await;
    assert_eq!(endpoint.requests("initialize", 1).await.len(), 1);
}

#[tokio::test]
async fn who_has_forgotten_that_it_began_begins_again() {
    let ((fixture, clock), endpoint) = (ChannelFixture::with_clock().await, Endpoint::start().await);
    called(&fixture, "timber", &endpoint).await;
    endpoint.say(Says::Error(-32002));
    let event = fixture.say("@timber hello").await;
    endpoint.requests("initialize", 2).await;
    fixture.recorded(&clock).await;
    endpoint.say(Says::Accepted);
    clock.advance(10 * 60 * 1000);
    fixture.delivery_is(&event, "delivered").await;
}

/// The owner sets and removes the harness by forms, and sees its last error.
#[tokio::test]
async fn its_page_tells_how_it_is_and_changes_it() {
    let (fixture, endpoint) = (ChannelFixture::start().await, Endpoint::start().await);
    let made = fixture.agent(&json!({"name": "timber"})).await;
    fixture.join(&fixture.channel, "timber").await;
    let (hub, anna) = (&fixture.hub, Some(&*fixture.anna));
    let path = format!("/directory/{}", made["agent_id"].as_str().unwrap());
    let page = async |key: &str| fixture.hub.get(&path, Some(key)).await.text;
    assert!(page(&fixture.anna).await.contains("it connects by itself, if it speaks C2A"));
    let harness = format!("{path}/harness");
    assert_eq!(send(hub, &harness, anna, &[("endpoint", "ftp://x.example/")]).await.status, 400);
    let set = send(hub, &harness, anna, &[("endpoint", &endpoint.url)]).await;
    assert_eq!((set.status, set.header("location")), (303, &*path), "{}", set.text);
    assert!(page(&fixture.anna).await.contains("called at 127.0.0.1</dd>"), "and nothing is wrong");
    endpoint.say(Says::Anything(json!({"jsonrpc": "2.0", "id": "x", "result": {}})));
    fixture.say("@timber hello").await;
    let why = "the harness did not answer with a JSON-RPC response to this request";
    eventually(async || page(&fixture.anna).await, |page| page.contains(why)).await;
    let eve = hub.account("eve@example.org").await;
    let seen = page(&eve).await;
    assert!(!seen.contains(why) && !seen.contains("127.0.0.1") && !seen.contains(&harness), "{seen}");
    assert_eq!(send(hub, &harness, Some(&eve), &[("endpoint", &endpoint.url)]).await.status, 403);
    assert_eq!(send(hub, &format!("{harness}/remove"), Some(&eve), &[]).await.status, 403);
    endpoint.say(Says::Accepted);
    eventually(async || page(&fixture.anna).await, |page| !page.contains(why)).await;
    assert_eq!(send(hub, &format!("{harness}/remove"), anna, &[]).await.status, 303);
    assert!(page(&fixture.anna).await.contains("it connects by itself"));
}

/// An open session takes precedence over the harness, which takes precedence over a webhook and a connection
/// string.
#[tokio::test]
async fn its_place_among_the_ways() {
    let (fixture, endpoint, hook) =
        (ChannelFixture::start().await, Endpoint::start().await, FakeAgent::start().await);
    let made = called(&fixture, "timber", &endpoint).await;
    let key = made["api_key"].as_str().unwrap();
    let change = json!({"endpoint": hook.url()});
    assert_eq!(fixture.hub.ask("PATCH", "/api/v1/agents/timber", Some(key), &change).await.status, 200);
    fixture.put_connection("timber", key, &format!("http://{}/inbox/sk_secret", hook.addr())).await;
    let event = fixture.say("@timber one").await;
    assert_eq!(fixture.delivery_is(&event, "delivered").await["transport"], "harness");
    let fleet = fixture.get("/api/v1/fleet").await;
    assert_eq!(fleet.body["items"][0]["reached_by"], "harness", "{}", fleet.text);
    let mut session = Harness::connect(&fixture.hub, key).await;
    fixture.say("@timber two").await;
    assert_eq!(text(&session.delivered().await), "@timber two");
    drop(session);
    eventually(async || fixture.hub.online("timber").await, |online| !online).await;
    let removed = fixture.hub.delete("/api/v1/agents/timber/harness", Some(key)).await;
    assert_eq!((removed.status, &removed.body["harness"]), (200, &Value::Null), "{}", removed.text);
    fixture.say("@timber three").await;
    hook.wait_for(1, SOON).await;
    assert_eq!(endpoint.delivered(1).await.len(), 1);
}

/// The cells of the bridge table for an envelope and a post of another service; the job follows below.
#[tokio::test]
async fn bridges_to_a_harness() {
    let (fixture, endpoint) = (ChannelFixture::start().await, Endpoint::start().await);
    let made = called(&fixture, "timber", &endpoint).await;
    let alice = fixture.hub.register("alice").await;
    let mut inbox = fixture.hub.inbox(&alice, None).await;
    let sent = fixture.hub.send(&alice, "alice", "timber", "Coffee?").await;
    assert_eq!(sent.outcome(), (200, "delivered"), "{}", sent.text);
    assert_eq!(sent.data()["receiver_response"], json!({"status": "accepted"}));
    let params = endpoint.delivered(1).await.remove(0);
    assert_eq!((text(&params), &params["conversation"]["kind"]), ("Coffee?", &json!("dm")));
    let reply = json!({"target": {"conversationId": params["conversation"]["id"]}, "inReplyTo": params["eventId"],
        "idempotencyKey": "k1", "visibility": "dm", "directedness": "to_me", "text": "Gladly."});
    call_back(&fixture.hub, made["api_key"].as_str().unwrap(), "chat.send_message", reply).await;
    assert_eq!(inbox.message().await.1["envelope"]["original_text"], "Gladly.");
    // The sender gets the outcome at once and decides.
    endpoint.say(Says::Error(-32000));
    let sent = fixture.hub.send(&alice, "alice", "timber", "Tea?").await;
    assert_eq!(sent.outcome(), (200, "failed"), "{}", sent.text);
    assert_eq!(sent.data()["error_code"], "ERR_AGENT_UNREACHABLE");
    assert!(sent.text.contains("the JSON-RPC error -32000: not now"), "{}", sent.text);

    endpoint.say(Says::Accepted);
    let post = json!({"channel": {"id": "C04", "name": "general", "service": "Slack"},
        "message": {"id": "m1", "sender": "alice", "content": "hello"}, "callback": "https://s.example/cb"});
    assert_eq!(fixture.call_back(&made["connection_string"], &post).await.status, 200);
    let params = endpoint.delivered(3).await.remove(2);
    assert_eq!((text(&params), &params["source"]["platform"]), ("hello", &json!("channel")));
}

/// The last cell of the row: a job is an assignment, and its result goes to the address that came with it.
#[tokio::test]
async fn a_job_reaches_a_harness_and_is_paid() {
    let (hub, endpoint) = (TestHub::start(), Endpoint::start().await);
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    assert_eq!(set(&hub, &worker.id, &worker.key, &endpoint.url).await.status, 200);
    // After a refusal it is delivered again unchanged.
    endpoint.say(Says::Error(-32000));
    let asked = job(1, &worker.id);
    hire(&hub, &boss.key, &asked).await;
    endpoint.requests("chat/deliver", 1).await;
    endpoint.say(Says::Accepted);
    let all = endpoint.requests("chat/deliver", 2).await;
    let (first, params) = (&all[0].body, &all[1].body["params"]);
    assert_eq!(all[1].body["id"], first["id"]);
    assert_eq!(params["eventId"], first["params"]["eventId"]);
    assert_eq!(
        (&params["conversation"]["kind"], &params["attention"]["intent"], &params["author"]["kind"]),
        (&json!("tool"), &json!("assignment"), &json!("system")),
        "{params}"
    );
    assert_eq!(params["attention"]["policy"], "must_respond");
    assert!(text(params).contains("analyze_text"), "{params}");
    for name in ["job_id", "skill_name", "input_data", "budget"] {
        assert_eq!(params["job"][name], asked[name], "{name} {params}");
    }
    let callback = params["job"]["callback_url"].as_str().unwrap().strip_prefix(&hub.url).unwrap().to_owned();
    let taken = hub.post(&callback, None, &success(&asked)).await;
    assert_eq!((taken.status, &taken.body["status"]), (200, &json!("SUCCESS")), "{}", taken.text);
    assert_eq!(balance(&hub, &worker.owner).await.0, 0.1);
    assert_eq!(endpoint.requests("chat/deliver", 2).await.len(), 2, "what was done is not asked again");
    // A job that the harness can never accept fails, and the client is refunded.
    endpoint.say(Says::Error(-32602));
    let refused = job(2, &worker.id);
    hire(&hub, &boss.key, &refused).await;
    assert_eq!(ended(&hub, &boss.key, &refused).await["status"], "FAILURE");
    assert_balanced(&hub).await;
}

/// A waiting sender gets the harness's reply, and not its acknowledgement.
#[tokio::test]
async fn a_streamed_envelope_ends_with_the_reply() {
    let (fixture, endpoint) = (ChannelFixture::start().await, Endpoint::start().await);
    let made = called(&fixture, "timber", &endpoint).await;
    let alice = fixture.hub.register("alice").await;
    let body = json!({"receiver_id": "timber", "envelope": envelope("alice", "Coffee?"), "stream": true});
    let request = fixture.hub.request(Method::POST, "/messages", Some(&alice)).json(&body);
    let response = request.send().await.unwrap();
    let params = endpoint.delivered(1).await.remove(0);
    let reply = json!({"target": {"conversationId": params["conversation"]["id"]}, "inReplyTo": params["eventId"],
        "idempotencyKey": "k1", "visibility": "dm", "directedness": "to_me", "text": "Gladly."});
    let sent = call_back(&fixture.hub, made["api_key"].as_str().unwrap(), "chat.send_message", reply).await;
    assert_eq!(sent["delivery"], "delivered");
    let heard = tokio::time::timeout(SOON, response.text()).await.expect("it ends").unwrap();
    assert!(heard.contains("event: done") && heard.contains("Gladly."), "{heard}");
}

/// An edit replaces the message; a deletion cancels it.
#[tokio::test]
async fn edits_and_deletions_reach_it() {
    let (fixture, endpoint) = (ChannelFixture::start().await, Endpoint::start().await);
    called(&fixture, "timber", &endpoint).await;
    let event = fixture.say("@timber is it tusday?").await;
    fixture.delivery_is(&event, "delivered").await;
    let path = format!("/api/v1/channels/{}/messages/{event}", fixture.channel);
    let edited = json!({"content": "@timber is it Tuesday?"});
    assert_eq!(fixture.hub.ask("PATCH", &path, Some(&fixture.anna), &edited).await.status, 200);
    let changed = endpoint.delivered(2).await.remove(1);
    assert_eq!((&changed["supersedes"], text(&changed)), (&json!(event), "@timber is it Tuesday?"));
    assert_ne!(changed["eventId"], json!(event));
    assert_eq!(fixture.hub.delete(&path, Some(&fixture.anna)).await.status, 204);
    let told = endpoint.requests("notifications/cancelled", 1).await;
    let last = &endpoint.requests("chat/deliver", 2).await[1];
    assert_eq!(told[0].body["params"]["requestId"], last.body["id"]);
    assert_eq!(told[0].body["params"]["eventId"], changed["eventId"]);
    assert!(told[0].headers.contains_key("webhook-signature"));
}

#[tokio::test]
async fn only_who_answers_initialize_is_set() {
    let (fixture, endpoint) = (ChannelFixture::start().await, Endpoint::start().await);
    let made = fixture.agent(&json!({"name": "timber"})).await;
    let key = made["api_key"].as_str().unwrap();
    for (says, code) in [
        (Says::Status(404), Code::AgentUnreachable),
        (Says::Error(-32601), Code::AgentUnreachable),
        (Says::Anything(json!({"status": "ok"})), Code::AgentUnreachable),
    ] {
        *endpoint.begins.lock().unwrap() = says.clone();
        let answer = set(&fixture.hub, "timber", key, &endpoint.url).await;
        assert!(answer.own_failure(code).starts_with("initialize: "), "{says:?} {}", answer.text);
    }
    // An address that echoes its input is not called again.
    let echo = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let router = Router::new().fallback(post(async |body: Bytes| body));
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    };
    set(&fixture.hub, "timber", key, &echo).await.own_failure(Code::AgentUnreachable);
    set(&fixture.hub, "timber", key, "http://10.0.0.1/c2a").await.own_failure(Code::EndpointBlocked);
    set(&fixture.hub, "timber", key, "ftp://agent.example/").await.own_failure(Code::Validation);
    let shown = fixture.hub.get("/api/v1/agents/timber", Some(key)).await;
    assert_eq!(shown.body["harness"], Value::Null);
    // A caller who may not set it cannot make the hub call anybody.
    let (eve, calls) = (fixture.hub.register("eve").await, endpoint.got.lock().unwrap().len());
    set(&fixture.hub, "timber", &eve, &endpoint.url).await.own_failure(Code::Forbidden);
    assert_eq!(endpoint.got.lock().unwrap().len(), calls);
}
