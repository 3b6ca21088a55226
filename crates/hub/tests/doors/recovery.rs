//! Getting back what was stolen: keys, webhook secrets; and who did it is written down.

use crate::cast::{BEGIN, Cast, HOUR};
use crate::revocation::{mcp, mcp_token, token};
use crate::support::{Answer, OPERATOR, SOON, Setup, TestHub, eventually, members};
use chorus_hub::Mail;
use chorus_protocol::relay::Code;
use chorus_store::audit::Action;
use chorus_testkit::clock::ManualClock;
use chorus_testkit::receiver::{FakeAgent, Received, Reply};
use chorus_testkit::sse::SseClient;
use data_encoding::BASE64;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
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

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// What was done, the newest first.
async fn acts(hub: &TestHub, filter: &str, value: &str) -> Vec<Value> {
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

/// Everything there is to be written down is done once: each action is there, and no secret of all that were shown.
async fn everything_is_written_down(setup: Setup) {
    let mails = tempfile::tempdir().unwrap();
    let cast = Cast::on(&setup.config(|config| config.mail = Mail::Folder(mails.path().into()))).await;
    let hub = &cast.hub;
    let mut secrets = vec![cast.anna.clone(), OPERATOR.to_owned()];
    let mut ask = async |method: &str, path: &str, key: &str, body: Value| {
        let request = hub.ask(method, path, Some(key).filter(|key| !key.is_empty()), &body).await;
        assert!(request.status < 300, "{method} {path}: {}", request.text);
        for name in ["api_key", "token", "api_token", "invitation", "webhook_secret", "connection_string"] {
            let found = [&request.body[name], &request.body["data"][name]];
            secrets.extend(found.into_iter().filter_map(Value::as_str).map(str::to_owned));
        }
        request.body
    };
    let made = ask("POST", "/api/v1/agents", &cast.anna, json!({"name": "timber"})).await;
    let timber = "/api/v1/agents/timber";
    let bob = ask("POST", "/register", "", json!({"agent_id": "bob"})).await;
    let key = text(&bob["data"]["api_key"]).to_owned();
    let bob = ask(
        "POST",
        "/register",
        &key,
        json!({"agent_id": "bob", "endpoint": "https://b.example/hook_s3cr3t"}),
    )
    .await;
    let key = text(&bob["data"]["api_key"]).to_owned();
    ask("POST", "/agents", OPERATOR, json!({"agent_id": "bob", "endpoint": "https://b.example/"})).await;
    ask("POST", "/api/v1/agents/claim", &cast.anna, json!({"api_key": key})).await;
    ask("POST", &format!("{timber}/key/reset"), &cast.anna, json!({})).await;
    ask("POST", &format!("{timber}/webhook-secret/rotate"), &cast.anna, json!({})).await;
    ask("POST", &format!("{timber}/connection-string/rotate"), &cast.anna, json!({})).await;
    let connection = json!({"connection_string": "https://agent.example/inbox/sk_hush"});
    ask("PUT", &format!("{timber}/connection"), &cast.anna, connection).await;
    ask("DELETE", &format!("{timber}/connection"), &cast.anna, json!({})).await;
    for what in ["disable", "enable"] {
        ask("POST", &format!("/api/v1/operator/agents/timber/{what}"), OPERATOR, json!({})).await;
        // Once more is no news.
        ask("POST", &format!("/api/v1/operator/agents/timber/{what}"), OPERATOR, json!({})).await;
        ask("POST", &format!("/api/v1/operator/accounts/anna@example.org/{what}"), OPERATOR, json!({})).await;
    }
    let made_token = ask("POST", "/api/v1/tokens", &cast.anna, json!({"label": "t"})).await;
    ask("DELETE", &format!("/api/v1/tokens/{}", text(&made_token["id"])), &cast.anna, json!({})).await;
    ask("DELETE", "/api/v1/me/sessions", &cast.anna, json!({})).await;
    ask("POST", "/api/v1/invitations", &cast.anna, json!({})).await;
    let channel = format!("/api/v1/channels/{}", cast.channel);
    for name in ["timber", "bob"] {
        ask("POST", &format!("{channel}/members"), &cast.anna, json!({"agent": name, "handle": name})).await;
    }
    ask("DELETE", &format!("{channel}/members/timber"), &cast.anna, json!({})).await;
    ask("DELETE", &format!("{channel}/members/bob"), &key, json!({})).await;
    ask("POST", &format!("{channel}/members"), &cast.anna, json!({"agent": "bob", "handle": "bob"})).await;
    let hook = FakeAgent::start().await;
    hook.set(Reply::Json(400, json!({})));
    cast.connected("pine", &hook).await;
    let refused = cast.say("@pine").await;
    cast.delivery_is(&refused, "failed").await;
    let replay = async |key: &str| hub.post("/api/v1/deliveries/replay", Some(key), &json!({})).await;
    assert_eq!(replay(OPERATOR).await.body["replayed"], 1);
    cast.delivery_is(&refused, "failed").await;
    assert_eq!(replay(&cast.anna).await.body["replayed"], 1, "not the operator's");
    ask("PATCH", &channel, &cast.anna, json!({"owner": "bob"})).await;
    ask("DELETE", "/agents/bob", OPERATOR, json!({})).await;

    let log = hub.get("/api/v1/audit?limit=200", Some(OPERATOR)).await;
    let all = log.body["items"].as_array().unwrap();
    let found: BTreeSet<_> = all.iter().map(|act| text(&act["action"])).collect();
    assert_eq!(found, Action::ALL.iter().map(|action| action.as_str()).collect::<BTreeSet<_>>());
    let count = |action: &str| all.iter().filter(|act| act["action"] == action).count();
    assert_eq!((count("agent.disabled"), count("member.removed"), count("member.added")), (1, 1, 4));
    assert_eq!(count("deliveries.replayed"), 1);
    for act in all {
        assert_eq!(
            members(act),
            ["action", "actor", "at", "client", "detail", "id", "request_id", "subject"]
        );
        assert_eq!(
            (members(&act["actor"]), members(&act["subject"])),
            (vec!["id", "kind"], vec!["id", "kind"])
        );
        assert!(act["detail"].is_object() && act["client"] == "127.0.0.1", "{act}");
        assert_ne!(act["request_id"], "");
    }
    secrets.extend(["s3cr3t", "sk_hush", "sk_secret"].map(str::to_owned));
    assert!(secrets.len() > 12, "{secrets:?}");
    for secret in secrets {
        // Not even without what stands before it.
        let bare = if secret.len() > 20 { secret.rsplit(['_', '/']).next().unwrap() } else { &secret };
        assert!(!log.text.contains(bare), "{secret}");
    }

    // Filters, and pages of each.
    let timber = text(&made["agent_id"]);
    let of = |filter: &dyn Fn(&&Value) -> bool| all.iter().filter(filter).cloned().collect::<Vec<_>>();
    assert_eq!(acts(hub, "subject=", timber).await, of(&|act| act["subject"]["id"] == timber));
    assert_eq!(acts(hub, "actor=", "operator").await, of(&|act| act["actor"]["id"] == "operator"));
    assert_eq!(acts(hub, "action=", "key.reset").await, of(&|act| act["action"] == "key.reset"));
    let anna = all.iter().find(|act| act["actor"]["kind"] == "account").unwrap()["actor"]["id"].clone();
    let both = format!("actor={}&subject=", text(&anna));
    let expected = of(&|act| act["actor"]["id"] == anna && act["subject"]["id"] == timber);
    assert_eq!(acts(hub, &both, timber).await, expected);
    assert_eq!(acts(hub, "since=", "2999-01-01T00:00:00Z").await, Vec::<Value>::new());
    assert_eq!(acts(hub, "since=", text(&all.last().unwrap()["at"])).await.len(), all.len());
    let (mut paged, mut path) = (vec![], "/api/v1/audit?limit=3".to_owned());
    loop {
        let page = hub.get(&path, Some(OPERATOR)).await.body;
        paged.extend(page["items"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/audit?limit=3&after={next}");
    }
    assert_eq!(&paged, all);
    for wrong in ["action=key.stolen", "since=yesterday", "after=x", "actor=%00", "subject=a%20b", "limit=0"]
    {
        hub.get(&format!("/api/v1/audit?{wrong}"), Some(OPERATOR)).await.own_failure(Code::Validation);
    }
}

#[tokio::test]
async fn each_act_is_in_the_audit_log() {
    everything_is_written_down(Setup::new()).await;
}

#[tokio::test]
async fn each_act_is_in_the_audit_log_on_postgres() {
    everything_is_written_down(Setup::postgres()).await;
}

/// What a key does that it may do again and again leaves a bounded trail; what was refused leaves none.
#[tokio::test]
async fn nobody_fills_the_log() {
    let hub = TestHub::start();
    let anna = hub.account("anna@example.org").await;
    let made = token(&hub, &anna).await;
    hub.delete(&format!("/api/v1/tokens/{}", made.0), Some(&hub.account("eve@example.org").await)).await;
    hub.post("/register", None, &json!({"agent_id": "bob"})).await.data();
    for _ in 0..5 {
        hub.post("/register", None, &json!({"agent_id": "bob"})).await.failure(Code::AgentIdTaken);
        hub.post("/api/v1/agents/bob/key/reset", Some(&anna), &json!({})).await.own_failure(Code::Forbidden);
        hub.delete("/api/v1/tokens/crd_00000000000000000000000000000000", Some(&anna)).await;
    }
    let all = acts(&hub, "", "").await;
    let mut found: Vec<_> = all.iter().map(|act| text(&act["action"])).collect();
    found.sort_unstable();
    assert_eq!(found, ["account.made", "account.made", "agent.registered", "token.made"]);
    let registered = all.iter().find(|act| act["action"] == "agent.registered").unwrap();
    assert_eq!(registered["actor"], json!({"kind": "nobody", "id": "nobody"}));
}
