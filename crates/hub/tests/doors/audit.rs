//! The audit log: every act is recorded, secrets are not, and nobody can flood it.

use crate::c2a::endpoint::Endpoint;
use crate::channel_fixture::ChannelFixture;
use crate::recovery::{acts, text};
use crate::revocation::token;
use crate::support::{OPERATOR, Setup, TestHub, members};
use chorus_hub::{Environment, MasterKey, keep_fingerprint};
use chorus_protocol::code::Code;
use chorus_store::audit::Action;
use chorus_testkit::receiver::{FakeAgent, Reply};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Performs every recorded act once. Returns all secrets that were shown or sent.
async fn do_everything(fixture: &ChannelFixture) -> Vec<String> {
    let hub = &fixture.hub;
    let mut secrets = vec![fixture.anna.clone(), OPERATOR.to_owned()];
    let mut ask = async |method: &str, path: &str, key: &str, body: Value| {
        let request = hub.ask(method, path, Some(key).filter(|key| !key.is_empty()), &body).await;
        assert!(request.status < 300, "{method} {path}: {}", request.text);
        for name in [
            "api_key",
            "token",
            "api_token",
            "invitation",
            "webhook_secret",
            "connection_string",
            "owner_key",
        ] {
            let found = [&request.body[name], &request.body["data"][name]];
            secrets.extend(found.into_iter().filter_map(Value::as_str).map(str::to_owned));
        }
        request.body
    };
    ask("POST", "/api/v1/agents", &fixture.anna, json!({"name": "timber"})).await;
    let timber = "/api/v1/agents/timber";
    let bob = ask("POST", "/register", "", json!({"agent_id": "bob"})).await;
    let key = text(&bob["data"]["api_key"]).to_owned();
    let with_endpoint = json!({"agent_id": "bob", "endpoint": "https://b.example/hook_s3cr3t"});
    let bob = ask("POST", "/register", &key, with_endpoint).await;
    let key = text(&bob["data"]["api_key"]).to_owned();
    ask("POST", "/agents", OPERATOR, json!({"agent_id": "bob", "endpoint": "https://b.example/"})).await;
    let skills = json!([{"skill_name": "sum", "cost_per_call": 1}]);
    ask("POST", "/market/register", &key, json!({"agent_name": "Bob", "owner_id": "acme", "skills": skills}))
        .await;
    for what in ["mint", "burn", "wallets/acme/key/reset"] {
        ask("POST", &format!("/market/{what}"), OPERATOR, json!({"owner": "acme", "amount": 2})).await;
    }
    ask("POST", "/api/v1/agents/claim", &fixture.anna, json!({"api_key": key})).await;
    ask("POST", &format!("{timber}/key/reset"), &fixture.anna, json!({})).await;
    ask("POST", &format!("{timber}/webhook-secret/rotate"), &fixture.anna, json!({})).await;
    ask("POST", &format!("{timber}/connection-string/rotate"), &fixture.anna, json!({})).await;
    let connection = json!({"connection_string": "https://agent.example/inbox/sk_hush"});
    ask("PUT", &format!("{timber}/connection"), &fixture.anna, connection).await;
    ask("DELETE", &format!("{timber}/connection"), &fixture.anna, json!({})).await;
    ask("PUT", &format!("{timber}/allowance"), &fixture.anna, json!({"credits_per_day": 1})).await;
    for what in ["disable", "enable"] {
        ask("POST", &format!("/api/v1/operator/agents/timber/{what}"), OPERATOR, json!({})).await;
        // A repetition is not recorded.
        ask("POST", &format!("/api/v1/operator/agents/timber/{what}"), OPERATOR, json!({})).await;
        ask("POST", &format!("/api/v1/operator/accounts/anna@example.org/{what}"), OPERATOR, json!({})).await;
    }
    let made_token = ask("POST", "/api/v1/tokens", &fixture.anna, json!({"label": "t"})).await;
    ask("DELETE", &format!("/api/v1/tokens/{}", text(&made_token["id"])), &fixture.anna, json!({})).await;
    ask("DELETE", "/api/v1/me/sessions", &fixture.anna, json!({})).await;
    let invited = ask("POST", "/api/v1/invitations", &fixture.anna, json!({})).await;
    ask("DELETE", &format!("/api/v1/invitations/{}", text(&invited["id"])), &fixture.anna, json!({})).await;
    let leaving = hub.account("leaving@example.org").await;
    ask("DELETE", "/api/v1/me?confirm=leaving@example.org", &leaving, json!({})).await;
    let channel = format!("/api/v1/channels/{}", fixture.channel);
    for name in ["timber", "bob"] {
        ask("POST", &format!("{channel}/members"), &fixture.anna, json!({"agent": name, "handle": name}))
            .await;
    }
    ask("PATCH", &format!("{channel}/members/timber"), &fixture.anna, json!({"roles": ["carver"]})).await;
    ask("DELETE", &format!("{channel}/members/timber"), &fixture.anna, json!({})).await;
    ask("DELETE", &format!("{channel}/members/bob"), &key, json!({})).await;
    ask("POST", &format!("{channel}/members"), &fixture.anna, json!({"agent": "bob", "handle": "bob"})).await;
    replay_what_was_refused(fixture).await;
    let drafted = ask("POST", crate::choir::SCORES, "", crate::choir::score()).await;
    let score = format!("{}/{}", crate::choir::SCORES, text(&drafted["score_id"]));
    let link = text(&drafted["edit_link"]).to_owned();
    // An act without an actor is not recorded, because nobody could be limited for flooding the log.
    ask("POST", &format!("{score}/signing-secrets"), link.rsplit('/').next().unwrap(), json!({})).await;
    ask("POST", &format!("{score}/claim"), &fixture.anna, json!({"edit_link": link})).await;
    let made = ask("POST", &format!("{score}/signing-secrets"), &fixture.anna, json!({})).await;
    let revoked = format!("{score}/signing-secrets/{}", text(&made["prefix"]));
    for _ in 0..2 {
        ask("DELETE", &revoked, &fixture.anna, json!({})).await;
    }
    ask("POST", &format!("{score}/receipts"), &fixture.anna, json!({})).await;
    ask("PATCH", &channel, &fixture.anna, json!({"owner": "bob"})).await;
    ask("DELETE", "/agents/bob", OPERATOR, json!({})).await;
    let (old, new) = ([1; 32], [2; 32]);
    // This works with any master key.
    let keys = [(MasterKey::new(old), true), (MasterKey::new(new).replacing(old), false)];
    for (key, lost) in keys.into_iter().chain([(MasterKey::new(new), false)]) {
        keep_fingerprint(hub.store(), &key, &Environment::system(), lost).await.unwrap();
    }
    secrets.extend(["s3cr3t", "sk_hush", "sk_secret"].map(str::to_owned));
    secrets.push(link);
    secrets
}

async fn set_and_remove_a_harness(fixture: &ChannelFixture) {
    let endpoint = Endpoint::start().await;
    let (path, key) = ("/api/v1/agents/timber/harness", Some(fixture.anna.as_str()));
    let body = json!({"endpoint": endpoint.url});
    assert_eq!(fixture.hub.ask("PUT", path, key, &body).await.status, 200);
    // A repetition is not recorded.
    for _ in 0..2 {
        assert_eq!(fixture.hub.delete(path, key).await.status, 200);
    }
}

async fn do_all_there_is_to_a_stream(fixture: &ChannelFixture) {
    let ask = async |method: &str, path: &str, body: Value| {
        let answer = fixture.hub.ask(method, path, Some(&fixture.anna), &body).await;
        assert!(answer.status < 300, "{method} {path}: {}", answer.text);
        answer.body
    };
    let channel = fixture.another_channel("work").await;
    let new = json!({"name": "work", "conversations": [channel]});
    let made = ask("POST", "/api/v1/streams", new).await;
    let (id, path) = (text(&made["id"]), format!("/api/v1/streams/{}", text(&made["id"])));
    ask("PATCH", &path, json!({"name": "migration", "owners": ["anna"]})).await;
    // Each is done twice; the second is not recorded.
    for what in ["leave", "leave", "join", "join"] {
        ask("POST", &format!("{path}/{what}"), json!({})).await;
    }
    for _ in 0..2 {
        ask("DELETE", &path, json!({})).await;
    }
    let done = acts(&fixture.hub, "subject=", id).await;
    let actions: Vec<_> = done.iter().rev().map(|act| text(&act["action"])).collect();
    assert_eq!(actions, ["made", "changed", "left", "joined", "closed"].map(|what| format!("stream.{what}")));
    assert!(done.iter().all(|act| act["subject"] == json!({"kind": "stream", "id": id})), "{done:?}");
    assert_eq!(done[3]["detail"], json!({"name": "migration", "changed": ["name", "owners"]}));
}

async fn replay_what_was_refused(fixture: &ChannelFixture) {
    let hook = FakeAgent::start().await;
    hook.set(Reply::Json(400, json!({})));
    fixture.connected("pine", &hook).await;
    let refused = fixture.say("@pine").await;
    fixture.delivery_is(&refused, "dead").await;
    let replay = async |key: &str| fixture.hub.post("/api/v1/deliveries/replay", Some(key), &json!({})).await;
    assert_eq!(replay(OPERATOR).await.body["replayed"], 1);
    fixture.delivery_is(&refused, "dead").await;
    assert_eq!(replay(&fixture.anna).await.body["replayed"], 1, "not the operator's");
}

/// Every action is recorded, and no secret appears.
async fn everything_is_written_down(setup: Setup) {
    let fixture = ChannelFixture::on(&setup.config(|config| config.anonymous_scores = true)).await;
    let (hub, secrets) = (&fixture.hub, do_everything(&fixture).await);
    set_and_remove_a_harness(&fixture).await;
    do_all_there_is_to_a_stream(&fixture).await;
    let log = hub.get("/api/v1/audit?limit=200", Some(OPERATOR)).await;
    let all = log.body["items"].as_array().unwrap();
    let found: BTreeSet<_> = all.iter().map(|act| text(&act["action"])).collect();
    // The tests of `approvals` and `ephemeral` cover the acts about messages.
    let said = |action: &&str| action.starts_with("approval.") || *action == "message.shown";
    let rights = Action::ALL.iter().map(|action| action.as_str()).filter(|action| !said(action));
    assert_eq!(found, rights.collect::<BTreeSet<_>>());
    let count = |action: &str| all.iter().filter(|act| act["action"] == action).count();
    assert_eq!((count("agent.disabled"), count("member.removed"), count("member.added")), (1, 1, 4));
    assert_eq!((count("deliveries.replayed"), count("master_key.replaced")), (1, 1));
    assert_eq!((count("signing_secret.made"), count("signing_secret.revoked")), (1, 1));
    for act in all {
        assert_eq!(
            members(act),
            ["action", "actor", "at", "client", "detail", "id", "kind", "request_id", "subject"]
        );
        assert_eq!(
            (members(&act["actor"]), members(&act["subject"])),
            (vec!["id", "kind"], vec!["id", "kind"])
        );
        // An act without a request has no source.
        let is_request = act["action"] != "master_key.replaced";
        assert!(act["detail"].is_object() && (act["client"] == "127.0.0.1") == is_request, "{act}");
        assert_eq!(act["request_id"] != "", is_request, "{act}");
    }
    assert!(secrets.len() > 12, "{secrets:?}");
    for secret in secrets {
        // Secrets do not appear without their prefix either.
        let bare = if secret.len() > 20 { secret.rsplit(['_', '/']).next().unwrap() } else { &secret };
        assert!(!log.text.contains(bare), "{secret}");
    }
    check_filters(hub, all).await;
}

/// Checks the filters and their pages.
async fn check_filters(hub: &TestHub, all: &[Value]) {
    let timber = all.iter().find(|act| act["action"] == "webhook_secret.rotated").unwrap();
    let timber = text(&timber["subject"]["id"]);
    let of = |filter: &dyn Fn(&&Value) -> bool| all.iter().filter(filter).cloned().collect::<Vec<_>>();
    assert_eq!(acts(hub, "subject=", timber).await, of(&|act| act["subject"]["id"] == timber));
    assert_eq!(acts(hub, "subject=", "timber").await, acts(hub, "subject=", timber).await);
    assert_eq!(acts(hub, "subject=", "hub").await, of(&|act| act["subject"]["kind"] == "hub"));
    assert_eq!(acts(hub, "actor=", "operator").await, of(&|act| act["actor"]["id"] == "operator"));
    assert_eq!(acts(hub, "action=", "key.reset").await, of(&|act| act["action"] == "key.reset"));
    let anna = all.iter().find(|act| act["actor"]["kind"] == "account").unwrap()["actor"]["id"].clone();
    assert_eq!(acts(hub, "actor=", "Anna@example.org").await, of(&|act| act["actor"]["id"] == anna));
    for filter in ["actor=anna", "subject=bob", "subject=nobody@example.org", "subject=acc_12"] {
        let refused = hub.get(&format!("/api/v1/audit?{filter}"), Some(OPERATOR)).await;
        let said = refused.own_failure(Code::NotFound);
        assert!(said.starts_with(filter.split_once('=').unwrap().0) && said.contains("acc_"), "{said}");
    }
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
    assert_eq!(paged, all);
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

/// Repeated acts of one key leave a bounded number of entries; refused requests leave none.
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

/// Creating and revoking tokens repeatedly hides neither a live token nor the repetition itself.
#[tokio::test]
async fn repetitions_push_no_row_out() {
    let hub = TestHub::start();
    let anna = hub.account("anna@example.org").await;
    let (first, _) = token(&hub, &anna).await;
    let mut kept = vec![first];
    for n in 0..420 {
        let (id, _) = token(&hub, &anna).await;
        if n == 300 {
            kept.push(id);
        } else {
            let revoked = hub.delete(&format!("/api/v1/tokens/{id}"), Some(&anna)).await;
            assert_eq!(revoked.status, 204, "{}", revoked.text);
        }
    }
    let (mut acts, mut path) = (vec![], "/api/v1/audit?action=token.made&limit=200".to_owned());
    loop {
        let page = hub.get(&path, Some(OPERATOR)).await.body;
        acts.extend(page["items"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/audit?action=token.made&limit=200&after={next}");
    }
    let made: Vec<_> = acts.iter().map(|act| text(&act["subject"]["id"])).collect();
    assert!(kept.iter().all(|id| made.contains(&id.as_str())), "{} rows", made.len());
    assert!(acts.len() < 210, "{} rows", acts.len());
    let counted: i64 = acts.iter().map(|act| 1 + act["repeats"].as_i64().unwrap_or(0)).sum();
    assert_eq!(counted, 421);
}
