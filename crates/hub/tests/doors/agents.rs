//! Agents of an account: creating, finding, connecting and claiming them.

use crate::channel_fixture::{BEGIN, ChannelFixture, HOUR, MINUTE, inbox_of};
use crate::support::{Answer, HOST, OPERATOR, TestHub, eventually, members};
use chorus_protocol::code::Code;
use chorus_testkit::receiver::{FakeAgent, Reply};
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

const AGENTS: &str = "/api/v1/agents";

#[tokio::test]
async fn an_account_makes_agents() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    let card =
        json!({"card_version": "0.3", "user_culture": "en", "supported_languages": ["en"], "extra": 1});
    let body = json!({
        "name": "Timber", "description": "Reviews specifications", "card": card,
        "connection_string": inbox_of(&timber), "endpoint": timber.url()
    });
    let made = fixture.hub.post(AGENTS, Some(&fixture.anna), &body).await;
    assert_eq!(made.status, 201, "{}", made.text);
    assert_eq!(
        members(&made.body),
        ["address", "agent_id", "api_key", "connection_string", "webhook_secret"]
    );
    assert_eq!(made.body["address"], format!("Timber@{HOST}"));
    let key = made.body["api_key"].as_str().unwrap();
    assert!(key.starts_with("ca_") && key.len() == 35);
    let me = fixture.hub.get(&format!("{AGENTS}/timber"), Some(key)).await;
    assert_eq!(me.status, 200, "{}", me.text);
    assert_eq!(
        (&me.body["agent_id"], &me.body["description"]),
        (&made.body["agent_id"], &body["description"])
    );
    let leads_to = json!({"state": "ok", "host": "127.0.0.1"});
    assert_eq!((&me.body["card"], &me.body["connection"]), (&card, &leads_to));
    assert!(!me.text.contains("sk_"), "no secret is shown twice");
    // The agent works like any other.
    let mut inbox = fixture.hub.inbox(key, None).await;
    let alice = fixture.hub.register("alice").await;
    assert_eq!(fixture.hub.send(&alice, "alice", "timber", "hello").await.outcome(), (200, "delivered_sse"));
    assert_eq!(inbox.texts(1).await, ["hello"]);

    for taken in ["timber", "ALICE"] {
        let again = fixture.hub.post(AGENTS, Some(&fixture.anna), &json!({"name": taken})).await;
        again.own_failure(Code::Conflict);
    }
    fixture.hub.post(AGENTS, Some(key), &body).await.own_failure(Code::Forbidden);
    fixture.hub.post(AGENTS, Some(OPERATOR), &body).await.own_failure(Code::Forbidden);
    fixture.hub.post(AGENTS, None, &body).await.own_failure(Code::Unauthorized);
}

#[tokio::test]
async fn every_fault_at_once_and_nothing_is_made() {
    let fixture = ChannelFixture::start().await;
    let wrong = json!({
        "name": "a b", "description": "x".repeat(1001), "card": {"user_culture": "e_n"},
        "connection_string": "ftp://x/", "endpoint": "https://user@x/"
    });
    let answer = fixture.hub.post(AGENTS, Some(&fixture.anna), &wrong).await;
    let faults = answer.own_failure(Code::Validation);
    for name in
        ["name", "description", "card.card_version", "card.user_culture", "connection_string", "endpoint"]
    {
        assert!(faults.contains(&format!("{name}: ")), "{name} in {faults}");
    }
    for body in
        [json!({}), json!([]), json!({"name": "x@elsewhere.example"}), json!({"name": "x".repeat(128)})]
    {
        fixture.hub.post(AGENTS, Some(&fixture.anna), &body).await.own_failure(Code::Validation);
    }
    for name in ["connection_string", "endpoint"] {
        let body = json!({"name": "x", name: "http://10.0.0.1/inbox/sk_1"});
        let blocked = fixture.hub.post(AGENTS, Some(&fixture.anna), &body).await;
        assert!(blocked.own_failure(Code::EndpointBlocked).starts_with(&format!("{name}: ")));
    }
    assert_eq!(fixture.get(AGENTS).await.body["items"], json!([]));
}

/// A retry creates no second agent and returns the same key.
#[tokio::test]
async fn making_is_idempotent() {
    let fixture = ChannelFixture::start().await;
    let make = async |name: &str| {
        let request =
            fixture.hub.request(Method::POST, AGENTS, Some(&fixture.anna)).header("idempotency-key", "k");
        Answer::of(request.json(&json!({"name": name}))).await
    };
    let (first, again) = (make("timber").await, make("timber").await);
    assert_eq!((again.status, &again.body, again.header("idempotent-replayed")), (201, &first.body, "true"));
    make("birch").await.own_failure(Code::IdempotencyConflict);
    let body = json!({"name": "wanted"});
    let many = join_all((0..8).map(|_| fixture.hub.post(AGENTS, Some(&fixture.anna), &body)));
    let statuses: Vec<_> = { many.await }.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 7, "{statuses:?}");
}

#[tokio::test]
async fn the_directory() {
    let fixture = ChannelFixture::start().await;
    let bea = fixture.hub.account("bea@example.org").await;
    for (owner, name, description) in [
        (&fixture.anna, "birch", "Builds"),
        (&fixture.anna, "a_pine", "100% sure"),
        (&bea, "timber", "Reviews builds"),
    ] {
        let body = json!({"name": name, "description": description});
        assert_eq!(fixture.hub.post(AGENTS, Some(owner), &body).await.status, 201);
    }
    let alder = fixture.hub.register("alder").await;
    let inbox = fixture.hub.inbox(&alder, None).await;
    let names = async |query: &str| -> Vec<String> {
        let page = fixture.get(&format!("{AGENTS}{query}")).await;
        assert_eq!(page.status, 200, "{}", page.text);
        let items = page.body["items"].as_array().unwrap();
        items.iter().map(|agent| agent["name"].as_str().unwrap().to_owned()).collect()
    };
    for (query, found) in [
        ("", &["a_pine", "alder", "birch", "timber"][..]),
        ("?mine=true", &["a_pine", "birch"]),
        ("?online=true", &["alder"]),
        ("?online=false&q=B", &["birch", "timber"]),
        ("?q=BUILD", &["birch", "timber"]),
        ("?q=_", &["a_pine"]),
        ("?q=%25", &["a_pine"]),
        ("?q=nobody", &[]),
        ("?mine=true&q=birch", &["birch"]),
    ] {
        assert_eq!(names(query).await, found, "{query}");
    }
    let first = fixture.get(&format!("{AGENTS}?limit=3")).await;
    assert_eq!(first.body["next"], "birch");
    assert_eq!(names("?limit=3&after=birch").await, ["timber"]);
    let page = fixture.get(&format!("{AGENTS}?q=alder")).await;
    let item = &page.body["items"][0];
    assert_eq!((&item["online"], &item["owner"]), (&json!(true), &Value::Null));
    assert!(item["last_seen"].is_string(), "{item}");
    assert_eq!(item["connection"], Value::Null, "it is not hers");
    for (name, hers) in [("birch", true), ("timber", false)] {
        let agent = fixture.get(&format!("{AGENTS}/{name}")).await;
        assert_eq!(
            agent.body["owner"].is_string(),
            hers,
            "whose an agent is, is between them: {}",
            agent.text
        );
    }
    drop(inbox);
    eventually(async || names("?online=true").await, Vec::is_empty).await;

    let wrong = fixture.get(&format!("{AGENTS}?online=x&mine=y&limit=0")).await;
    wrong.own_failure(Code::Validation);
    fixture.hub.get(AGENTS, None).await.own_failure(Code::Unauthorized);
    fixture.hub.get(&format!("{AGENTS}/alder"), None).await.own_failure(Code::Unauthorized);
    fixture.hub.get(&format!("{AGENTS}?mine=true"), Some(&alder)).await.own_failure(Code::Forbidden);
    fixture.get(&format!("{AGENTS}/nobody")).await.own_failure(Code::NotFound);
    assert_eq!(fixture.hub.get(&format!("{AGENTS}/alder"), Some(&alder)).await.body["name"], "alder");
}

#[tokio::test]
async fn who_sets_a_connection_string() {
    let (fixture, timber) = (ChannelFixture::start().await, FakeAgent::start().await);
    let made = fixture.agent(&json!({"name": "timber"})).await;
    let (key, id) = (made["api_key"].as_str().unwrap(), made["agent_id"].as_str().unwrap());
    let (mallory, alice) =
        (fixture.hub.account("mallory@example.org").await, fixture.hub.register("alice").await);
    let url = inbox_of(&timber);
    for stranger in [&mallory, &alice] {
        fixture.put_connection(id, stranger, &url).await.own_failure(Code::Forbidden);
        let path = format!("{AGENTS}/{id}/connection");
        fixture.hub.delete(&path, Some(stranger)).await.own_failure(Code::Forbidden);
    }
    for friend in [&*fixture.anna, key, OPERATOR] {
        let set = fixture.put_connection(id, friend, &url).await;
        assert_eq!((set.status, &set.body["connection"]["state"]), (200, &json!("ok")), "{}", set.text);
        let gone = fixture.hub.delete(&format!("{AGENTS}/timber/connection"), Some(friend)).await;
        assert_eq!((gone.status, &gone.body["connection"]["state"]), (200, &json!("none")), "{}", gone.text);
    }
    fixture.put_connection("nobody", &fixture.anna, &url).await.own_failure(Code::NotFound);
    fixture.put_connection(id, &fixture.anna, "not a url").await.own_failure(Code::Validation);
    fixture
        .put_connection(id, &fixture.anna, "http://169.254.169.254/x")
        .await
        .own_failure(Code::EndpointBlocked);
    let path = format!("{AGENTS}/timber/connection");
    let empty = Answer::of(fixture.hub.request(Method::PUT, &path, Some(key)).json(&json!({}))).await;
    assert!(empty.own_failure(Code::Validation).contains("connection_string: is required"));
    Answer::of(fixture.hub.request(Method::PUT, &path, None).json(&json!({})))
        .await
        .own_failure(Code::Unauthorized);
}

/// Deliveries that wait when the connection string is removed wait for the next one.
#[tokio::test]
async fn without_a_connection_string_it_waits_for_the_next() {
    let ((fixture, clock), timber) = (ChannelFixture::with_clock().await, FakeAgent::start().await);
    fixture.connected("timber", &timber).await;
    timber.set(Reply::Json(503, json!({})));
    let event = fixture.say("@timber hello").await;
    fixture.recorded(&clock).await;
    let disconnected = fixture.hub.delete(&format!("{AGENTS}/timber/connection"), Some(&fixture.anna)).await;
    assert_eq!(disconnected.status, 200, "{}", disconnected.text);
    timber.set(Reply::Json(200, json!({})));
    clock.advance(MINUTE);
    let given_up = chorus_protocol::time::rfc3339(BEGIN + 24 * HOUR);
    let waits = async || fixture.get("/api/v1/deliveries").await.body["items"][0].clone();
    let waits = eventually(waits, |item| item["next_try"] == given_up).await;
    assert_eq!((&waits["state"], &waits["attempts"]), (&json!("waiting"), &json!(1)), "it was not tried");
    let new = format!("http://{}/inbox/sk_next", timber.addr());
    assert_eq!(fixture.put_connection("timber", &fixture.anna, &new).await.status, 200);
    fixture.delivery_is(&event, "delivered").await;
    let paths: Vec<_> = timber.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(paths, ["/inbox/sk_secret", "/inbox/sk_next"]);
}

#[tokio::test]
async fn claiming() {
    let hub = TestHub::start();
    let (anna, bea) = (hub.account("anna@example.org").await, hub.account("bea@example.org").await);
    let key = hub.register("timber").await;
    let claim = async |who: Option<&str>, body: Value| hub.post("/api/v1/agents/claim", who, &body).await;
    claim(Some(&anna), json!({"api_key": "ca_00000000000000000000000000000000"}))
        .await
        .own_failure(Code::NotFound);
    claim(Some(&anna), json!({"api_key": anna})).await.own_failure(Code::NotFound);
    claim(Some(&anna), json!({})).await.own_failure(Code::Validation);
    claim(Some(&key), json!({"api_key": key})).await.own_failure(Code::Forbidden);
    claim(None, json!({"api_key": key})).await.own_failure(Code::Unauthorized);
    let (one, other) =
        tokio::join!(claim(Some(&anna), json!({"api_key": key})), claim(Some(&bea), json!({"api_key": key})));
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409], "{} {}", one.text, other.text);
    let owner = if one.status == 200 { &anna } else { &bea };
    let mine = hub.get("/api/v1/agents?mine=true", Some(owner)).await;
    assert_eq!(mine.body["items"][0]["name"], "timber");
    assert_eq!(mine.body["items"][0]["connection"]["state"], "none");
    claim(Some(owner), json!({"api_key": key})).await.own_failure(Code::Conflict);
    // The agent still works as before.
    assert_eq!(hub.send(&key, "timber", "timber", "note").await.outcome(), (202, "queued"));
}
