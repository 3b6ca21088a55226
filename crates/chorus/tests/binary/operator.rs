//! Recovery with the program itself: its commands, and the callers in its log.

use crate::hub::{Hub, OPERATOR, chorus, serve};
use chorus_testkit::http;
use serde_json::{Value, json};
use std::fs::{self, File};

/// Runs a command with a key, and returns whether it succeeded and its output.
fn run(hub: &Hub, key: &str, args: &[&str]) -> (bool, String, String) {
    let output = chorus().args(args).env("CHORUS_URL", &hub.url).env("CHORUS_KEY", key).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap().trim_end().to_owned();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[track_caller]
fn printed(hub: &Hub, key: &str, args: &[&str]) -> String {
    let (done, printed, said) = run(hub, key, args);
    assert!(done, "{args:?}: {said}");
    printed
}

#[tokio::test]
async fn keys_agents_and_accounts_are_taken_back() {
    let (dir, http) = (tempfile::tempdir().unwrap(), http::client());
    let log = dir.path().join("log");
    let mut command = serve(&dir.path().join("data"), None);
    command.env("CHORUS_LOG", "info").stderr(File::create(&log).unwrap());
    let hub = Hub::run(command);
    let post = async |path: &str, key: &str, body: Value| {
        let request = http.post(format!("{}{path}", hub.url)).bearer_auth(key).json(&body);
        request.send().await.unwrap().json::<Value>().await.unwrap()
    };
    let anna = post("/api/v1/accounts", OPERATOR, json!({"email": "anna@example.org"})).await;
    let (token, id) = (anna["api_token"].as_str().unwrap(), anna["account_id"].as_str().unwrap());
    let bob = post("/api/v1/agents", token, json!({"name": "bob"})).await;
    let (stolen, bob) = (bob["api_key"].as_str().unwrap(), bob["agent_id"].as_str().unwrap());

    let (done, key, said) = run(&hub, token, &["agents", "reset-key", "bob"]);
    assert!(done && key.starts_with("ca_") && said.contains("the old key is dead"), "{key} {said}");
    assert!(!run(&hub, stolen, &["inbox", "--timeout", "1"]).0);
    let put = http.put(format!("{}/api/v1/agents/bob/connection", hub.url)).bearer_auth(token);
    let planted = json!({"connection_string": "https://thief.example/inbox/sk_thiefs"});
    assert_eq!(put.json(&planted).send().await.unwrap().status(), 200);
    let shown = printed(&hub, token, &["agents", "bob"]);
    assert!(shown.contains("its connection string leads to thief.example (ok)"), "{shown}");
    let (done, key, said) = run(&hub, token, &["agents", "reset-key", "bob", "--detach"]);
    assert!(done && said.contains("nothing reaches bob@"), "{said}");
    let shown = printed(&hub, token, &["agents", "bob", "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["connection"], json!({"state": "none"}));
    let (done, _, said) = run(&hub, token, &["agents", "reset-key", "bob", "--release"]);
    assert!(!done && said.contains("only the operator"), "{said}");
    let secret = printed(&hub, token, &["agents", "rotate-secret", "bob", "--json"]);
    assert!(secret.contains("whsec_") && secret.contains("previous_until"), "{secret}");

    assert!(printed(&hub, OPERATOR, &["agents", "disable", "bob"]).starts_with("bob@"));
    let (done, _, said) = run(&hub, &key, &["inbox", "--timeout", "1"]);
    assert!(!done && said.contains("this agent is disabled"), "{said}");
    assert!(printed(&hub, token, &["agents", "bob"]).contains("it is disabled since 20"));
    assert!(printed(&hub, OPERATOR, &["agents", "enable", "bob"]).ends_with("is enabled"));
    assert!(printed(&hub, OPERATOR, &["agents", "bob"]).contains("bob@"));
    assert!(!run(&hub, token, &["agents", "disable", "bob"]).0, "this is the operator's");

    printed(&hub, OPERATOR, &["operator", "disable", "anna@example.org"]);
    let (done, _, said) = run(&hub, token, &["channel", "list"]);
    assert!(!done && said.contains("this account is disabled"), "{said}");
    printed(&hub, OPERATOR, &["operator", "enable", id]);
    assert_eq!(printed(&hub, OPERATOR, &["operator", "end-sessions", id]), "0 ended");
    assert!(run(&hub, token, &["channel", "list"]).0);
    let other = post("/api/v1/tokens", token, json!({"label": "made by a thief"})).await;
    let revoked = printed(&hub, OPERATOR, &["operator", "end-sessions", id, "--tokens"]);
    assert_eq!(revoked, "0 ended, 2 tokens revoked");
    for token in [token, other["token"].as_str().unwrap()] {
        assert!(!run(&hub, token, &["channel", "list"]).0);
    }

    let acts = printed(&hub, OPERATOR, &["operator", "audit", "--subject", bob]);
    let actions: Vec<_> = acts.lines().skip(1).map(|line| line.split_whitespace().nth(2).unwrap()).collect();
    let expected = [
        "agent.enabled",
        "agent.disabled",
        "webhook_secret.rotated",
        "key.reset",
        "connection.set",
        "key.reset",
        "agent.registered",
    ];
    assert_eq!(actions, expected, "{acts}");
    let acts = printed(&hub, OPERATOR, &["operator", "audit", "--action", "key.reset", "--json"]);
    let acts: Value = serde_json::from_str(&acts).unwrap();
    assert_eq!((acts.as_array().unwrap().len(), &acts[0]["actor"]["id"]), (2, &json!(id)));
    let by_name =
        printed(&hub, OPERATOR, &["operator", "audit", "--subject", "bob", "--actor", "anna@example.org"]);
    assert_eq!(by_name.lines().count(), 1 + 5, "{by_name}");
    let (done, _, said) = run(&hub, OPERATOR, &["operator", "audit", "--subject", "nobody-here"]);
    assert!(!done && said.contains("subject: takes an agent's id, name"), "{said}");

    // The log names the callers, and no secret.
    let log = fs::read_to_string(log).unwrap();
    let called = |route: &str, who: &str| log.lines().any(|line| line.contains(route) && line.contains(who));
    assert!(called("/agents/{id}/key/reset", id), "{log}");
    assert!(called("/operator/agents/{id}/disable", "operator"), "{log}");
    for secret in [stolen, &key, token, OPERATOR] {
        assert!(!log.contains(secret), "{log}");
    }
}

#[tokio::test]
async fn agents_are_paused_and_accounts_listed() {
    let (dir, http) = (tempfile::tempdir().unwrap(), http::client());
    let hub = Hub::run(serve(&dir.path().join("data"), None));
    let post = async |path: &str, key: &str, body: Value| {
        let request = http.post(format!("{}{path}", hub.url)).bearer_auth(key).json(&body);
        request.send().await.unwrap().json::<Value>().await.unwrap()
    };
    let anna = post("/api/v1/accounts", OPERATOR, json!({"email": "anna@example.org"})).await;
    let (token, id) = (anna["api_token"].as_str().unwrap(), anna["account_id"].as_str().unwrap());
    let carl = post("/api/v1/agents", token, json!({"name": "carl"})).await;
    let carls = carl["api_key"].as_str().unwrap();
    assert!(printed(&hub, token, &["agents", "pause", "carl"]).ends_with("is paused: what is for it waits"));
    let described = ["agents", "edit", "carl", "--description", "Reviews\nreleases"];
    assert!(printed(&hub, token, &described).ends_with("is changed"));
    let shown = printed(&hub, token, &["agents", "carl"]);
    assert!(shown.contains("it is paused since 20") && shown.contains("Reviews\\nreleases"), "{shown}");
    let resumed: Value =
        serde_json::from_str(&printed(&hub, carls, &["agents", "resume", "carl", "--json"])).unwrap();
    assert_eq!((&resumed["name"], &resumed["paused_since"]), (&json!("carl"), &Value::Null), "{resumed}");
    assert!(!run(&hub, token, &["agents", "edit", "carl"]).0, "nothing is to change");

    let nothing = "may spend 0.00 credits a day; 0.00 today, 0.00 left";
    assert!(printed(&hub, carls, &["agents", "allowance", "carl"]).ends_with(nothing));
    assert!(!run(&hub, carls, &["agents", "allowance", "carl", "5"]).0, "an agent does not allow itself");
    assert!(!run(&hub, token, &["agents", "allowance", "carl", "much"]).0);
    let set: Value =
        serde_json::from_str(&printed(&hub, token, &["agents", "allowance", "carl", "2.50", "--json"]))
            .unwrap();
    assert_eq!(set["allowance"]["credits_per_day"], 2.5, "{set}");
    assert!(printed(&hub, token, &["agents", "carl"]).contains("it may spend 2.50 credits a day"));
    assert!(printed(&hub, token, &["agents", "allowance", "carl", "off"]).ends_with(nothing));
    let (_, _, said) = run(&hub, OPERATOR, &["channel", "list"]);
    assert!(said.contains("the operator is in no conversation") && !said.contains("hint"), "{said}");

    assert!(!run(&hub, token, &["account", "list"]).0, "who there is, is the operator's to know");
    printed(&hub, OPERATOR, &["operator", "disable", "anna@example.org"]);
    let listed = printed(&hub, OPERATOR, &["account", "list"]);
    assert!(listed.starts_with("ID") && listed.contains("anna@example.org"), "{listed}");
    assert!(listed.contains(id) && listed.contains("disabled since 20"), "{listed}");
    let listed: Value =
        serde_json::from_str(&printed(&hub, OPERATOR, &["account", "list", "ANNA", "--json"])).unwrap();
    assert_eq!((&listed[0]["account_id"], listed.as_array().unwrap().len()), (&json!(id), 1));
    assert_eq!(printed(&hub, OPERATOR, &["account", "list", "nobody", "--json"]), "[]");
}
