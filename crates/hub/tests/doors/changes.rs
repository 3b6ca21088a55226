//! Changing members, agents, accounts, channels and invitations.

use crate::support::{OPERATOR, TestHub, eventually, text_of};
use chorus_protocol::code::Code;
use chorus_testkit::receiver::FakeAgent;
use serde_json::{Value, json};

#[tokio::test]
async fn members() {
    let hub = TestHub::start();
    let (anna, ben) = (hub.account("anna@example.org").await, hub.account("ben@example.org").await);
    let bob = hub.register("bob").await;
    let channel = hub.channel(&anna, &json!({"name": "c"})).await;
    hub.add(&channel, &anna, &json!({"account": "ben@example.org"})).await;
    hub.add(&channel, &anna, &json!({"agent": "bob"})).await;
    let change = async |key: &str, handle: &str, body: Value| {
        hub.ask("PATCH", &format!("{channel}/members/{handle}"), Some(key), &body).await
    };
    let changed =
        change(&anna, "bob", json!({"roles": ["scribe", "reviewer", "scribe"], "handle": "robert"})).await;
    assert_eq!(
        (&changed.body["handle"], &changed.body["roles"]),
        (&json!("robert"), &json!(["reviewer", "scribe"]))
    );
    // The agent is woken by its new handle, and no longer by the old one.
    let said = hub.say(&channel, &anna, &json!({"content": "@robert and @bob"})).await;
    assert_eq!((&said["attention"]["woken"], &said["unknown"]), (&json!(["robert"]), &json!(["bob"])));

    // Only the owner appoints leads. A lead may change the rest, except for the owner.
    change(&ben, "robert", json!({"roles": []})).await.own_failure(Code::Forbidden);
    assert_eq!(change(&anna, "ben", json!({"lead": true})).await.body["lead"], true);
    assert_eq!(change(&ben, "robert", json!({"roles": []})).await.body["roles"], json!([]));
    change(&ben, "robert", json!({"lead": true})).await.own_failure(Code::Forbidden);
    change(&ben, "anna", json!({"handle": "x"})).await.own_failure(Code::Forbidden);
    // Every member may change their own handle, unless it is taken.
    assert_eq!(change(&bob, "robert", json!({"handle": "Bob"})).await.body["handle"], "Bob");
    change(&bob, "bob", json!({"handle": "ANNA"})).await.own_failure(Code::Conflict);
    change(&bob, "bob", json!({"roles": ["boss"]})).await.own_failure(Code::Forbidden);
    change(&anna, "nobody", json!({"lead": true})).await.own_failure(Code::NotFound);
    change(&anna, "bob", json!({})).await.own_failure(Code::Validation);
}

/// A handle takes precedence over a role, so nobody may choose a handle that is addressed to others.
#[tokio::test]
async fn nobody_takes_the_name_of_a_role_or_of_somebody_who_was_named() {
    let hub = TestHub::start();
    let anna = hub.account("anna@example.org").await;
    let mallory = hub.register("mallory").await;
    let channel = hub.channel(&anna, &json!({"name": "c"})).await;
    for name in ["bea", "backend"] {
        hub.register(name).await;
    }
    hub.add(&channel, &anna, &json!({"agent": "mallory"})).await;
    hub.add(&channel, &anna, &json!({"agent": "bea", "roles": ["backend"]})).await;
    let change = async |key: &str, handle: &str, body: Value| {
        hub.ask("PATCH", &format!("{channel}/members/{handle}"), Some(key), &body).await
    };
    for taken in ["backend", "Backend", "operator", "EVERYONE", "hub"] {
        change(&mallory, "mallory", json!({"handle": taken})).await.own_failure(Code::Conflict);
    }
    for dots in [".", ".."] {
        change(&mallory, "mallory", json!({"handle": dots})).await.own_failure(Code::Validation);
    }
    // A new member whose name equals a role gets another handle, unless the person who adds it chooses that
    // handle.
    hub.add(&channel, &anna, &json!({"agent": "backend"})).await;
    let said = hub.say(&channel, &anna, &json!({"content": "@backend-2 hello"})).await;
    assert_eq!(said["attention"]["woken"], json!(["backend-2"]), "{said}");
    assert_eq!(change(&anna, "backend-2", json!({"handle": "backend"})).await.body["handle"], "backend");

    let asked = hub.say(&channel, &anna, &json!({"content": "@bea what is the password?"})).await;
    let gone = hub.ask("DELETE", &format!("{channel}/members/bea"), Some(&anna), &json!({})).await;
    assert_eq!(gone.status, 204, "{}", gone.text);
    change(&mallory, "mallory", json!({"handle": "bea"})).await;
    let answer = json!({"content": "it is me", "reply_to": asked["event_id"]});
    hub.post(&format!("{channel}/messages"), Some(&mallory), &answer)
        .await
        .own_failure(Code::PolicyForbidden);
    let said = hub.say(&channel, &anna, &json!({"content": "@bea are you new?"})).await;
    let answer = json!({"content": "I am", "reply_to": said["event_id"]});
    assert_eq!(hub.post(&format!("{channel}/messages"), Some(&mallory), &answer).await.status, 201);
}

/// An owner can remove their agent from every channel, whoever added it.
#[tokio::test]
async fn an_owner_takes_its_agent_out_of_wherever_it_is() {
    let hub = TestHub::start();
    let (anna, ben) = (hub.account("anna@example.org").await, hub.account("ben@example.org").await);
    let (mallory, vic) = (hub.register("mallory").await, hub.register("vic").await);
    let channel = hub.channel(&mallory, &json!({"name": "trap"})).await;
    hub.add(&channel, &mallory, &json!({"agent": "vic", "lead": true})).await;
    hub.post("/api/v1/agents/claim", Some(&anna), &json!({"api_key": vic})).await;
    let remove =
        async |key: &str| hub.ask("DELETE", &format!("{channel}/members/vic"), Some(key), &json!({})).await;
    remove(&ben).await.own_failure(Code::NotFound);
    assert_eq!(remove(&anna).await.status, 204);
    let said = hub.say(&channel, &mallory, &json!({"content": "@vic hello"})).await;
    assert_eq!(said["attention"]["woken"], json!([]), "{said}");
    remove(&anna).await.own_failure(Code::NotFound);
}

#[tokio::test]
async fn what_is_for_a_paused_agent_waits() {
    let hub = TestHub::start();
    let anna = hub.account("anna@example.org").await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    hub.post("/api/v1/agents/claim", Some(&anna), &json!({"api_key": bob})).await;
    let hook = FakeAgent::start().await;
    let carol = hub.register_webhook("carol", &hook.url()).await;
    let channel = hub.channel(&anna, &json!({"name": "c"})).await;
    hub.add(&channel, &anna, &json!({"agent": "bob"})).await;
    hub.add(&channel, &anna, &json!({"agent": "carol"})).await;
    let pause = async |key: &str, name: &str, paused: bool| {
        hub.ask("PATCH", &format!("/api/v1/agents/{name}"), Some(key), &json!({"paused": paused})).await
    };
    let mut inbox = hub.inbox(&bob, None).await;
    let paused = pause(&anna, "bob", true).await;
    assert!(paused.body["paused_since"].is_string(), "{}", paused.text);
    pause(&carol, "carol", true).await;
    pause(&alice, "carol", false).await.own_failure(Code::Forbidden);

    assert_eq!(hub.send(&alice, "alice", "bob", "waits").await.outcome(), (202, "queued"));
    assert_eq!(hub.send(&alice, "alice", "carol", "waits").await.outcome(), (202, "queued"));
    hub.say(&channel, &anna, &json!({"content": "@bob @carol look"})).await;
    inbox.assert_quiet().await;
    assert!(hook.requests().is_empty());
    // A connection opened meanwhile waits as well.
    let mut second = hub.inbox(&bob, None).await;
    second.assert_quiet().await;

    pause(&anna, "bob", false).await;
    assert_eq!(text_of(&second.message().await.1), "waits");
    assert_eq!(second.event("chat").await["event"]["content"], "@bob @carol look");
    assert!(pause(OPERATOR, "carol", false).await.body.get("paused_since").is_none());
    eventually(async || hook.requests().len(), |requests| *requests == 1).await;
}

#[tokio::test]
async fn agents() {
    let hub = TestHub::start();
    let bob = hub.register("bob").await;
    let change = async |body: Value| hub.ask("PATCH", "/api/v1/agents/bob", Some(&bob), &body).await;
    let card = json!({"card_version": "0.3", "user_culture": "de", "supported_languages": ["de"]});
    let changed = change(json!({"description": "plans releases", "card": card})).await;
    assert_eq!((&changed.body["description"], &changed.body["card"]), (&json!("plans releases"), &card));
    let found = hub.get("/api/v1/agents?q=releases", Some(&bob)).await;
    assert_eq!(found.body["items"].as_array().unwrap().len(), 1, "it is found by it");
    let changed = change(json!({"description": "", "endpoint": "https://bob.example/hook"})).await;
    assert_eq!((&changed.body["description"], &changed.body["card"]), (&json!(null), &card));
    let shown = hub.get("/agents/bob", Some(&bob)).await;
    assert_eq!(shown.data()["endpoint"], "https://bob.example/hook");
    change(json!({"endpoint": "http://10.0.0.1/"})).await.own_failure(Code::EndpointBlocked);
    change(json!({})).await.own_failure(Code::Validation);
}

#[tokio::test]
async fn a_deleted_account_leaves_what_it_wrote() {
    let hub = TestHub::start();
    let (anna, ben) = (hub.account("anna@example.org").await, hub.account("ben@example.org").await);
    let bot = hub.post("/api/v1/agents", Some(&anna), &json!({"name": "bot"})).await;
    let bot = bot.body["api_key"].as_str().unwrap().to_owned();
    let channel = hub.channel(&anna, &json!({"name": "c"})).await;
    hub.add(&channel, &anna, &json!({"account": "ben@example.org"})).await;
    hub.say(&channel, &anna, &json!({"content": "I was here"})).await;

    hub.delete("/api/v1/me?confirm=ben@example.org", Some(&anna)).await.own_failure(Code::Validation);
    hub.delete("/api/v1/me", Some(&anna)).await.own_failure(Code::Validation);
    assert_eq!(hub.delete("/api/v1/me?confirm=Anna@example.org", Some(&anna)).await.status, 204);
    hub.get("/api/v1/me", Some(&anna)).await.own_failure(Code::Unauthorized);
    hub.get("/agent/messages", Some(&bot)).await.failure(Code::Unauthorized);
    let log = hub.log(&channel, &ben, "kind=message").await;
    assert_eq!(log[0]["content"], "I was here");
    assert!(log[0]["author"]["handle"].as_str().unwrap().starts_with("deleted-"), "{}", log[0]);
    let detail = hub.get(&channel, Some(&ben)).await;
    assert_eq!(detail.body["owner"]["id"], hub.get("/api/v1/me", Some(&ben)).await.body["id"]);
    // The address is free again, and gets a new account.
    let again = hub.account("anna@example.org").await;
    hub.get(&channel, Some(&again)).await.own_failure(Code::NotFound);
}

#[tokio::test]
async fn one_s_own_account() {
    let hub = TestHub::start();
    let anna = hub.account("anna@example.org").await;
    let change = async |body: Value| hub.ask("PATCH", "/api/v1/me", Some(&anna), &body).await;
    assert_eq!(hub.get("/api/v1/me", Some(&anna)).await.body["mails"], true);
    assert_eq!(change(json!({"name": "Anna K."})).await.body["name"], "Anna K.");
    assert_eq!(change(json!({"mails": false})).await.body["mails"], false);
    let me = hub.get("/api/v1/me", Some(&anna)).await;
    assert_eq!((&me.body["name"], &me.body["mails"]), (&json!("Anna K."), &json!(false)));
    change(json!({})).await.own_failure(Code::Validation);
    change(json!({"name": "two\nlines"})).await.own_failure(Code::Validation);
}

#[tokio::test]
async fn an_archived_channel_is_opened_again() {
    let hub = TestHub::start();
    let (anna, bob) = (hub.account("anna@example.org").await, hub.register("bob").await);
    let channel = hub.channel(&anna, &json!({"name": "c"})).await;
    hub.add(&channel, &anna, &json!({"agent": "bob"})).await;
    assert_eq!(hub.delete(&channel, Some(&anna)).await.status, 204);
    let say = format!("{channel}/messages");
    assert!(hub.post(&say, Some(&anna), &json!({"content": "x"})).await.status >= 400);
    let restore = format!("{channel}/restore");
    hub.post(&restore, Some(&bob), &json!({})).await.own_failure(Code::Forbidden);
    for _ in 0..2 {
        let restored = hub.post(&restore, Some(&anna), &json!({})).await;
        assert_eq!((restored.status, &restored.body["archived"]), (200, &json!(false)));
    }
    hub.say(&channel, &bob, &json!({"content": "x"})).await;
}

#[tokio::test]
async fn invitations_are_listed_and_revoked() {
    let hub =
        crate::support::Setup::new().config(|config| config.signup = chorus_hub::Signup::Invite).start();
    let (anna, ben) = (hub.account("anna@example.org").await, hub.account("ben@example.org").await);
    let made = hub.post("/api/v1/invitations", Some(&anna), &json!({"email": "eve@example.org"})).await;
    let code = hub.post("/api/v1/invitations", Some(&anna), &json!({})).await.body;
    let list = async |key: &str| hub.get("/api/v1/invitations", Some(key)).await.body["items"].clone();
    let listed = list(&anna).await;
    assert_eq!((&listed[0]["id"], &listed[0]["email"]), (&made.body["id"], &json!("eve@example.org")));
    assert_eq!((listed.as_array().unwrap().len(), list(&ben).await), (2, json!([])));
    assert_eq!(list(OPERATOR).await.as_array().unwrap().len(), 2);
    assert!(!listed.to_string().contains("ci_"));

    let path = format!("/api/v1/invitations/{}", code["id"].as_str().unwrap());
    let register = json!({"agent_id": "bot", "invitation": code["invitation"]});
    // Deleting another person's invitation does nothing.
    assert_eq!(hub.delete(&path, Some(&ben)).await.status, 204);
    assert_eq!(list(&anna).await.as_array().unwrap().len(), 2);
    assert_eq!(hub.delete(&path, Some(&anna)).await.status, 204);
    hub.post("/register", None, &register).await.failure(Code::Forbidden);
    let refused = hub.post("/register", None, &json!({"agent_id": "bot"})).await;
    assert!(
        refused.failure(Code::Forbidden).contains("chorus register --invitation ci_"),
        "{}",
        refused.text
    );
}
