//! Getting back what was stolen: keys and webhook secrets.

use crate::cast::{BEGIN, Cast, HOUR};
use crate::revocation::{mcp, mcp_token};
use crate::support::{Answer, OPERATOR, SOON, Setup, TestHub, eventually, members};
use chorus_hub::Mail;
use chorus_protocol::relay::Code;
use chorus_testkit::clock::ManualClock;
use chorus_testkit::receiver::{FakeAgent, Received};
use chorus_testkit::sse::SseClient;
use data_encoding::BASE64;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::Method;
use serde_json::{Value, json};
use std::fs;

/// A thief replaces the key it stole, and goes on; its owner takes the agent back all the same.
async fn the_owner_has_the_last_word(setup: Setup) {
    let mails = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(BEGIN);
    let setup = setup.clock(&clock).config(|config| config.mail = Mail::Folder(mails.path().into()));
    let cast = Cast::on(&setup).await;
    let hub = &cast.hub;
    let made = cast.agent(&json!({"name": "timber"})).await;
    cast.join(&cast.channel, "timber").await;
    let stolen = made["api_key"].as_str().unwrap();

    // Acts of one moment are in no order.
    let tick = || clock.advance(1);
    tick();
    let rotated = hub.post("/register", Some(stolen), &json!({"agent_id": "timber"})).await;
    let thiefs = rotated.data()["api_key"].as_str().unwrap().to_owned();
    tick();
    let again = hub.post("/register", Some(&thiefs), &json!({"agent_id": "timber"})).await;
    let thiefs = again.data()["api_key"].as_str().unwrap().to_owned();
    hub.post("/register", Some(stolen), &json!({"agent_id": "timber"})).await.failure(Code::AgentIdTaken);
    let mut inbox = hub.inbox(&thiefs, None).await;
    cast.say("@timber the plan").await;
    let chat = inbox.event("chat").await;
    let given = mcp_token(&chat);
    assert_eq!(mcp(hub, &cast.channel, &given).await.status, 200);

    let path = "/api/v1/agents/timber/key/reset";
    for key in [&*thiefs, &hub.account("eve@example.org").await, &hub.register("eve").await] {
        hub.post(path, Some(key), &json!({})).await.own_failure(Code::Forbidden);
    }
    let ask = || hub.request(Method::POST, path, Some(&cast.anna)).header("idempotency-key", "k");
    tick();
    let reset = Answer::of(ask()).await;
    assert_eq!(reset.status, 200, "{}", reset.text);
    assert_eq!(members(&reset.body), ["address", "agent_id", "api_key"]);
    assert_eq!(reset.body["agent_id"], made["agent_id"]);
    let repeated = Answer::of(ask()).await;
    assert_eq!((&repeated.body, repeated.header("idempotent-replayed")), (&reset.body, "true"));

    cast.say("@timber is not for the thief").await;
    assert_eq!(inbox.rest().await, [], "its inbox is over");
    hub.get("/agent/messages", Some(&thiefs)).await.failure(Code::Unauthorized);
    assert_eq!(mcp(hub, &cast.channel, &given).await.status, 401);
    let said = json!({"type": "message", "content": "it is me"});
    assert_eq!(cast.call_back(&chat["callback"], &said).await.status, 410);
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
    let mail = fs::read_to_string(&told[0]).unwrap();
    assert!(
        mail.contains("To: anna@example.org") && mail.contains("chorus agents reset-key timber"),
        "{mail}"
    );
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

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// What was done, the newest first.
pub(crate) async fn acts(hub: &TestHub, filter: &str, value: &str) -> Vec<Value> {
    let page = hub.get(&format!("/api/v1/audit?limit=200&{filter}{value}"), Some(OPERATOR)).await;
    assert_eq!(page.status, 200, "{}", page.text);
    page.body["items"].as_array().unwrap().clone()
}

/// Whether a request is signed with this secret, as a receiver with a library for it finds out.
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
    let ((cast, clock), hook) = (Cast::with_clock().await, FakeAgent::start().await);
    let (hub, alice) = (&cast.hub, cast.hub.register("alice").await);
    let made = cast.agent(&json!({"name": "timber", "endpoint": hook.url()})).await;
    cast.join(&cast.channel, "timber").await;
    let first = text(&made["webhook_secret"]).to_owned();
    // By the relay, and by the pusher.
    let signed = async || {
        let before = hook.requests().len();
        assert_eq!(hub.send(&alice, "alice", "timber", "hi").await.outcome(), (200, "delivered"));
        cast.say("@timber hi").await;
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
    // What a registration tells is the current one.
    let again =
        hub.post("/agents", Some(OPERATOR), &json!({"agent_id": "timber", "endpoint": hook.url()})).await;
    assert_eq!(again.data()["webhook_secret"], second);

    let third = hub.post(path, Some(&cast.anna), &json!({})).await.body;
    let fourth = hub.post(path, Some(OPERATOR), &json!({})).await.body;
    let (third, fourth) = (text(&third["webhook_secret"]), text(&fourth["webhook_secret"]));
    good(&signed().await, &[(&first, false), (&second, false), (third, true), (fourth, true)]);
}
