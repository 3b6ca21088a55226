//! Recovery of stolen keys and webhook secrets.

use crate::channel_fixture::{BEGIN, ChannelFixture, HOUR, inbox_of};
use crate::revocation::{mcp, mcp_token};
use crate::support::{Answer, OPERATOR, SOON, Setup, TestHub, eventually, members};
use chorus_hub::Mail;
use chorus_protocol::code::Code;
use chorus_testkit::clock::ManualClock;
use chorus_testkit::receiver::{FakeAgent, Received, Reply};
use chorus_testkit::sse::SseClient;
use data_encoding::BASE64;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::Method;
use serde_json::{Value, json};
use std::fs;

/// A thief replaces the stolen key; the owner still regains the agent.
async fn the_owner_has_the_last_word(setup: Setup) {
    let mails = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(BEGIN);
    let setup = setup.clock(&clock).config(|config| config.mail = Mail::Folder(mails.path().into()));
    let fixture = ChannelFixture::on(&setup).await;
    let hub = &fixture.hub;
    let made = fixture.agent(&json!({"name": "timber"})).await;
    fixture.join(&fixture.channel, "timber").await;
    let stolen = made["api_key"].as_str().unwrap();

    // Acts of the same moment have no order.
    let tick = || clock.advance(1);
    tick();
    let rotated = hub.post("/register", Some(stolen), &json!({"agent_id": "timber"})).await;
    let thiefs = rotated.data()["api_key"].as_str().unwrap().to_owned();
    tick();
    let again = hub.post("/register", Some(&thiefs), &json!({"agent_id": "timber"})).await;
    let thiefs = again.data()["api_key"].as_str().unwrap().to_owned();
    hub.post("/register", Some(stolen), &json!({"agent_id": "timber"})).await.failure(Code::AgentIdTaken);
    let mut inbox = hub.inbox(&thiefs, None).await;
    fixture.say("@timber the plan").await;
    let chat = inbox.event("chat").await;
    let given = mcp_token(&chat);
    assert_eq!(mcp(hub, &fixture.channel, &given).await.status, 200);

    let path = "/api/v1/agents/timber/key/reset";
    for key in [&*thiefs, &hub.account("eve@example.org").await, &hub.register("eve").await] {
        hub.post(path, Some(key), &json!({})).await.own_failure(Code::Forbidden);
    }
    let ask = || hub.request(Method::POST, path, Some(&fixture.anna)).header("idempotency-key", "k");
    tick();
    let reset = Answer::of(ask()).await;
    assert_eq!(reset.status, 200, "{}", reset.text);
    assert_eq!(members(&reset.body), ["address", "agent_id", "api_key"]);
    assert_eq!(reset.body["agent_id"], made["agent_id"]);
    let repeated = Answer::of(ask()).await;
    assert_eq!((&repeated.body, repeated.header("idempotent-replayed")), (&reset.body, "true"));

    fixture.say("@timber is not for the thief").await;
    assert_eq!(inbox.rest().await, [], "its inbox is over");
    hub.get("/agent/messages", Some(&thiefs)).await.failure(Code::Unauthorized);
    assert_eq!(mcp(hub, &fixture.channel, &given).await.status, 401);
    let said = json!({"type": "message", "content": "it is me"});
    assert_eq!(fixture.call_back(&chat["callback"], &said).await.status, 410);
    hub.post("/register", Some(&thiefs), &json!({"agent_id": "timber"})).await.failure(Code::AgentIdTaken);
    assert!(SseClient::open(&format!("{}/agent/inbox", hub.url), &thiefs, None).await.is_err());

    let key = reset.body["api_key"].as_str().unwrap();
    let mut inbox = hub.inbox(key, None).await;
    assert_eq!(inbox.event("chat").await["event"]["content"], "@timber is not for the thief");
    tick();
    let by_operator = hub.post(path, Some(OPERATOR), &json!({})).await;
    assert_eq!(by_operator.status, 200, "{}", by_operator.text);
    hub.get("/agent/messages", Some(key)).await.failure(Code::Unauthorized);

    let all = || -> Vec<_> {
        let files = fs::read_dir(mails.path()).unwrap().map(|file| file.unwrap().path());
        files.filter(|file| file.extension().is_some_and(|kind| kind == "eml")).collect()
    };
    let told = eventually(async || all(), |mails| !mails.is_empty()).await;
    assert_eq!(told.len(), 1, "two rotations within an hour are one mail");
    let mail = fs::read_to_string(&told[0]).unwrap().replace("=\r\n", "").replace("=3D", "=");
    let command = format!("CHORUS_KEY=ct_... chorus agents reset-key timber --detach --url {}\r\n", hub.url);
    assert!(mail.contains("To: anna@example.org") && mail.contains(&command), "{mail}");
    assert!(mail.contains(&format!("sign in at {}/", hub.url)), "{mail}");
    clock.advance(2 * HOUR);
    let key = by_operator.body["api_key"].as_str().unwrap();
    hub.post("/register", Some(key), &json!({"agent_id": "timber"})).await.data();
    eventually(async || all(), |mails| mails.len() == 2).await;

    let acts = acts(hub, "subject=", made["agent_id"].as_str().unwrap()).await;
    let acts: Vec<_> = acts.iter().map(|act| (text(&act["action"]), text(&act["actor"]["kind"]))).collect();
    let expected = [
        ("key.rotated", "agent"),
        ("key.reset", "operator"),
        ("key.reset", "account"),
        ("key.rotated", "agent"),
        ("key.rotated", "agent"),
        ("agent.registered", "account"),
    ];
    assert_eq!(acts, expected);
}

#[tokio::test]
async fn a_stolen_key_is_taken_back() {
    the_owner_has_the_last_word(Setup::new()).await;
}

#[tokio::test]
async fn a_stolen_key_is_taken_back_on_postgres() {
    the_owner_has_the_last_word(Setup::postgres()).await;
}

/// A thief with the key has set its own transports. A new key alone keeps them; detaching removes them.
async fn what_a_thief_planted_is_taken_off(setup: Setup) {
    let (fixture, trap, other_trap) =
        (ChannelFixture::on(&setup).await, FakeAgent::start().await, FakeAgent::start().await);
    let (hub, alice) = (&fixture.hub, fixture.hub.register("alice").await);
    let made = fixture.agent(&json!({"name": "timber"})).await;
    fixture.join(&fixture.channel, "timber").await;
    let agent = "/api/v1/agents/timber";
    let planted = json!({"agent_id": "timber", "endpoint": trap.url()});
    let planted = hub.post("/register", Some(text(&made["api_key"])), &planted).await.data().clone();
    let thief = text(&planted["api_key"]);
    assert_eq!(fixture.put_connection("timber", thief, &inbox_of(&other_trap)).await.status, 200);
    let ask = async |what: &str| hub.post(&format!("{agent}/{what}/rotate"), Some(thief), &json!({})).await;
    let foreign = text(&ask("connection-string").await.body["connection_string"]).to_owned();
    let secret = text(&ask("webhook-secret").await.body["webhook_secret"]).to_owned();
    let post = async |id: &str| {
        let body = json!({"channel": {"id": "C1"}, "callback": "https://s.example/cb",
            "message": {"id": id, "sender": "eve", "content": "hi"}});
        Answer::of(hub.client.post(&foreign).json(&body)).await.status
    };

    let path = format!("{agent}/key/reset");
    let reset = |body: &Value| {
        let request = hub.request(Method::POST, &path, Some(&fixture.anna)).header("idempotency-key", "k");
        Answer::of(request.json(body))
    };
    for wrong in [json!({"detach": 1}), json!([]), json!("detach")] {
        reset(&wrong).await.own_failure(Code::Validation);
    }
    hub.post(&path, Some(&fixture.anna), &json!({"release": true})).await.own_failure(Code::Forbidden);
    assert_eq!(reset(&json!({})).await.status, 200);
    reset(&json!({"detach": true})).await.own_failure(Code::IdempotencyConflict);
    assert_eq!(hub.send(&alice, "alice", "timber", "first").await.outcome(), (200, "delivered"));
    assert!(is_signed_with(&trap.wait_for(1, SOON).await[0], &secret));
    assert_eq!(post("m1").await, 200);
    let shown = fixture.get(agent).await.body;
    assert_eq!(shown["connection"], json!({"state": "ok", "host": "127.0.0.1"}));
    trap.set(Reply::Json(503, json!({})));
    let waiting = fixture.say("@timber waits").await;
    eventually(async || fixture.delivery(&waiting).await, |delivery| delivery["attempts"] != json!([])).await;

    let detached = hub.post(&path, Some(&fixture.anna), &json!({"detach": true})).await;
    let key = text(&detached.body["api_key"]).to_owned();
    let before = (trap.requests().len(), other_trap.requests().len());
    trap.set(Reply::Json(200, json!({})));
    assert_eq!(hub.send(&alice, "alice", "timber", "second").await.outcome(), (202, "queued"));
    fixture.say("@timber at last").await;
    assert_eq!(post("m2").await, 404);
    let shown = fixture.get(agent).await.body;
    assert_eq!(shown["connection"], json!({"state": "none"}));
    assert_eq!(hub.get("/agents/timber", Some(&key)).await.data().get("endpoint"), None);
    let inbox = hub.inbox(&key, None).await;
    let chats = async || -> Vec<_> {
        let history = hub.history(&key).await;
        history
            .iter()
            .map(|entry| entry["data"]["event"]["content"].clone())
            .filter(Value::is_string)
            .collect()
    };
    let chats = eventually(chats, |chats| chats.len() == 2).await;
    assert_eq!(chats, ["@timber waits", "@timber at last"]);
    assert_eq!(
        (trap.requests().len(), other_trap.requests().len()),
        before,
        "nothing more goes to the thief"
    );
    drop(inbox);

    // The agent is connected again, and its deliveries are signed with a secret that the thief does not have.
    let hook = FakeAgent::start().await;
    let again = json!({"agent_id": "timber", "endpoint": hook.url()});
    let again = hub.post("/register", Some(&key), &again).await.data().clone();
    eventually(async || hub.online("timber").await, |online| !online).await;
    assert_eq!(hub.send(&alice, "alice", "timber", "third").await.outcome(), (200, "delivered"));
    let request = &hook.wait_for(1, SOON).await[0];
    for (secret, good) in [
        (text(&made["webhook_secret"]), false),
        (text(&planted["webhook_secret"]), false),
        (&secret, false),
        (text(&again["webhook_secret"]), true),
    ] {
        assert_eq!(is_signed_with(request, secret), good, "{secret}");
    }
    let acts = acts(hub, "action=", "key.reset").await;
    let details: Vec<_> = acts.iter().map(|act| &act["detail"]).collect();
    let detail = |detach| json!({"name": "timber", "detach": detach, "release": false});
    assert_eq!(details, [&detail(true), &detail(false)]);
}

#[tokio::test]
async fn a_stolen_agent_is_detached() {
    what_a_thief_planted_is_taken_off(Setup::new()).await;
}

#[tokio::test]
async fn a_stolen_agent_is_detached_on_postgres() {
    what_a_thief_planted_is_taken_off(Setup::postgres()).await;
}

/// A thief claims an agent without an owner; a new key alone would leave it with the thief.
async fn a_claimed_agent_is_released(setup: Setup) {
    let hub = setup.start();
    let (bob, alice, eve) =
        (hub.register("bob").await, hub.register("alice").await, hub.account("eve@example.org").await);
    let ask = async |path: &str, key: &str, body: Value| {
        let answer = hub.post(path, Some(key), &body).await;
        assert!(answer.status < 300, "{path}: {}", answer.text);
        answer.body
    };
    hub.send(&bob, "bob", "alice", "hi").await.data();
    ask("/api/v1/agents/claim", &eve, json!({"api_key": bob})).await;
    ask("/api/v1/me/blocks", &eve, json!({"who": "alice"})).await;
    assert_eq!(hub.send(&alice, "alice", "bob", "hi").await.status, 403);
    let used = async || hub.get("/api/v1/me", Some(&eve)).await.body["quotas"].clone();
    let is_counted = |quotas: &Value| quotas["account_bytes"]["used"].as_i64() > Some(256);
    let before = eventually(used, is_counted).await;
    assert_eq!(before["agents"]["used"], 1);
    let path = "/api/v1/agents/bob/key/reset";
    let said = hub.post(path, Some(&eve), &json!({"release": true})).await;
    assert!(said.own_failure(Code::Forbidden).contains("operator"));
    ask("/api/v1/operator/accounts/eve@example.org/disable", OPERATOR, json!({})).await;
    let key = text(&ask(path, OPERATOR, json!({"release": true})).await["api_key"]).to_owned();
    let shown = hub.get("/api/v1/agents/bob", Some(OPERATOR)).await.body;
    assert_eq!((shown.get("owner"), shown.get("disabled_since")), (None, None), "{shown}");
    ask("/api/v1/operator/accounts/eve@example.org/enable", OPERATOR, json!({})).await;

    hub.post(path, Some(&eve), &json!({})).await.own_failure(Code::Forbidden);
    hub.post("/api/v1/agents/claim", Some(&eve), &json!({"api_key": bob})).await.own_failure(Code::NotFound);
    assert_eq!(hub.get("/api/v1/agents?mine=true", Some(&eve)).await.body["items"], json!([]));
    let after = used().await;
    assert_eq!((&after["account_bytes"]["used"], &after["agents"]["used"]), (&json!(0), &json!(0)));
    assert_eq!(
        hub.send(&alice, "alice", "bob", "hi").await.outcome(),
        (202, "queued"),
        "eve keeps nobody out"
    );
    let anna = hub.account("anna@example.org").await;
    ask("/api/v1/agents/claim", &anna, json!({"api_key": key})).await;
    assert_eq!(hub.get("/api/v1/agents?mine=true", Some(&anna)).await.body["items"][0]["name"], "bob");
    let acts = acts(&hub, "action=", "key.reset").await;
    assert_eq!(acts.len(), 1);
    assert_eq!(acts[0]["detail"], json!({"name": "bob", "detach": false, "release": true}));
}

#[tokio::test]
async fn the_operator_releases_a_stolen_agent() {
    a_claimed_agent_is_released(Setup::new()).await;
}

#[tokio::test]
async fn the_operator_releases_a_stolen_agent_on_postgres() {
    a_claimed_agent_is_released(Setup::postgres()).await;
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// Returns the recorded acts, newest first.
pub(crate) async fn acts(hub: &TestHub, filter: &str, value: &str) -> Vec<Value> {
    let page = hub.get(&format!("/api/v1/audit?limit=200&{filter}{value}"), Some(OPERATOR)).await;
    assert_eq!(page.status, 200, "{}", page.text);
    page.body["items"].as_array().unwrap().clone()
}

/// Returns whether a request is signed with this secret, as a receiver's library checks it.
fn is_signed_with(request: &Received, secret: &str) -> bool {
    let header = |name: &str| request.headers[name].to_str().unwrap();
    let secret = BASE64.decode(secret.strip_prefix("whsec_").unwrap().as_bytes()).unwrap();
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&secret).unwrap();
    mac.update(format!("{}.{}.", header("webhook-id"), header("webhook-timestamp")).as_bytes());
    mac.update(&request.raw);
    let signature = format!("v1,{}", BASE64.encode(&mac.finalize().into_bytes()));
    header("webhook-signature").split(' ').any(|given| given == signature)
}

#[tokio::test]
async fn a_webhook_secret_is_replaced_with_an_overlap() {
    let ((fixture, clock), hook) = (ChannelFixture::with_clock().await, FakeAgent::start().await);
    let (hub, alice) = (&fixture.hub, fixture.hub.register("alice").await);
    let made = fixture.agent(&json!({"name": "timber", "endpoint": hook.url()})).await;
    fixture.join(&fixture.channel, "timber").await;
    let first = text(&made["webhook_secret"]).to_owned();
    // Both the relay and the pusher sign.
    let signed = async || {
        let before = hook.requests().len();
        assert_eq!(hub.send(&alice, "alice", "timber", "hi").await.outcome(), (200, "delivered"));
        fixture.say("@timber hi").await;
        hook.wait_for(before + 2, SOON).await.split_off(before)
    };
    let good = |requests: &[Received], secrets: &[(&str, bool)]| {
        for request in requests {
            for (secret, expected) in secrets {
                assert_eq!(is_signed_with(request, secret), *expected, "{secret}");
            }
        }
    };
    good(&signed().await, &[(&first, true)]);

    let path = "/api/v1/agents/timber/webhook-secret/rotate";
    let key = text(&made["api_key"]);
    hub.post(path, Some(&alice), &json!({})).await.own_failure(Code::Forbidden);
    let rotated = hub.post(path, Some(key), &json!({})).await;
    assert_eq!(rotated.status, 200, "{}", rotated.text);
    assert_eq!(members(&rotated.body), ["previous_until", "webhook_secret"]);
    let end = chorus_protocol::time::rfc3339(BEGIN + 24 * HOUR);
    assert_eq!(rotated.body["previous_until"], end);
    let second = text(&rotated.body["webhook_secret"]).to_owned();
    assert_ne!(first, second);
    good(&signed().await, &[(&first, true), (&second, true)]);
    clock.advance(24 * HOUR - 1);
    good(&signed().await, &[(&first, true), (&second, true)]);
    clock.advance(1);
    good(&signed().await, &[(&first, false), (&second, true)]);
    // A registration returns the current secret.
    let again =
        hub.post("/agents", Some(OPERATOR), &json!({"agent_id": "timber", "endpoint": hook.url()})).await;
    assert_eq!(again.data()["webhook_secret"], second);

    let third = hub.post(path, Some(&fixture.anna), &json!({})).await.body;
    let fourth = hub.post(path, Some(OPERATOR), &json!({})).await.body;
    let (third, fourth) = (text(&third["webhook_secret"]), text(&fourth["webhook_secret"]));
    good(&signed().await, &[(&first, false), (&second, false), (third, true), (fourth, true)]);
}
