//! Registration: who may take a name, what a record shows to whom, and the fate of keys.

use crate::support::{HOST, OPERATOR, Setup, TestHub, members};
use chorus_hub::Signup;
use chorus_protocol::code::Code;
use chorus_testkit::clock::ManualClock;
use reqwest::Method;
use serde_json::{Value, json};

const ENDPOINT: &str = "https://alice.example/receive";

fn card() -> Value {
    json!({"card_version": "0.3", "user_culture": "zh-CN", "supported_languages": ["zh-CN", "en"], "x": [1.50]})
}

#[tokio::test]
async fn oneself() {
    let clock = ManualClock::new(1_774_000_800_000);
    let hub = Setup::new().clock(&clock).start();
    let body = json!({"agent_id": "alice", "endpoint": ENDPOINT, "agent_card": card()});
    let answer = hub.post("/register", None, &body).await;
    assert_eq!(answer.status, 201);
    let (data, record) = (answer.data(), &answer.data()["registration"]);
    assert_eq!(data["agent_id"], format!("alice@{HOST}"));
    assert_eq!(record["agent_id"], data["agent_id"]);
    assert_eq!((&record["endpoint"], &record["agent_card"]), (&json!(ENDPOINT), &card()));
    assert_eq!(record["registered_at"], "2026-03-20T10:00:00.000Z");
    assert_eq!(record["updated_at"], "2026-03-20T10:00:00.000Z");
    assert_eq!(record["online"], false);
    assert_eq!(record["id"].as_str().unwrap().len(), 36, "a UUID");

    let key = data["api_key"].as_str().unwrap();
    assert_eq!(hub.get("/agent/messages", Some(key)).await.status, 200);
    let shown = hub.get("/agents/alice", Some(key)).await;
    assert_eq!(shown.data(), record);
    assert!(!shown.text.contains(key) && !shown.text.contains("whsec_"), "secrets are shown once");
}

/// The length limit applies to the full address, not to the short name.
#[tokio::test]
async fn an_address_that_is_given_can_be_used() {
    let hub = TestHub::start();
    let longest = "a".repeat(128 - 1 - HOST.len());
    let key = hub.register(&longest).await;
    let address = format!("{longest}@{HOST}");
    assert_eq!(hub.get(&format!("/agents/{address}"), None).await.status, 200);
    assert_eq!(hub.send(&key, &address, &address, "hi").await.status, 202);
    for name in [format!("{longest}a"), format!("{longest}a@chorus"), "a".repeat(128)] {
        let answer = hub.post("/register", None, &json!({"agent_id": name})).await;
        let fault = answer.failure(Code::Validation);
        assert!(fault.contains("at most 128 characters together with"), "{fault}");
    }
}

#[tokio::test]
async fn by_the_operator() {
    let hub = TestHub::start();
    let body = json!({"agent_id": "alice", "endpoint": ENDPOINT});
    let created = hub.post("/agents", Some(OPERATOR), &body).await;
    assert_eq!(created.status, 201);
    let key = created.data()["api_key"].as_str().unwrap();
    let mut inbox = hub.inbox(key, None).await;

    let other = json!({"agent_id": "ALICE@chorus", "endpoint": "https://alice.example/2"});
    let updated = hub.post("/agents", Some(OPERATOR), &other).await;
    assert_eq!(updated.status, 200);
    assert!(updated.data().get("api_key").is_none(), "the key stays");
    assert_eq!(updated.data()["registration"]["endpoint"], "https://alice.example/2");
    assert_eq!(updated.data()["agent_id"], format!("alice@{HOST}"), "spelled as it was first");
    assert_eq!(hub.send(key, "alice", "alice", "still").await.outcome(), (200, "delivered_sse"));
    assert_eq!(inbox.texts(1).await, ["still"]);
    hub.post("/agents", Some(OPERATOR), &json!({"agent_id": "b"})).await.failure(Code::Validation);
}

/// Registering with the key replaces the record and the key: the old key and its inbox end at once.
#[tokio::test]
async fn again_with_the_key() {
    let clock = ManualClock::new(1_774_000_800_000);
    let hub = Setup::new().clock(&clock).start();
    let first = json!({"agent_id": "alice", "endpoint": ENDPOINT, "agent_card": card()});
    let first = hub.post("/register", None, &first).await;
    let old = first.data()["api_key"].as_str().unwrap();
    let mut inbox = hub.inbox(old, None).await;
    clock.advance(1000);

    let second = hub.post("/register", Some(old), &json!({"agent_id": "alice"})).await;
    assert_eq!(second.status, 200);
    let (data, record) = (second.data(), &second.data()["registration"]);
    let new = data["api_key"].as_str().unwrap();
    assert_ne!(new, old);
    assert_eq!(record["id"], first.data()["registration"]["id"]);
    assert_eq!((&record["endpoint"], &record["agent_card"]), (&json!(ENDPOINT), &card()), "it names neither");
    assert_eq!(record["registered_at"], "2026-03-20T10:00:00.000Z");
    assert_eq!(record["updated_at"], "2026-03-20T10:00:01.000Z");

    for path in ["/agent/messages", "/agent/inbox", "/agents"] {
        hub.get(path, Some(old)).await.failure(Code::Unauthorized);
    }
    assert_eq!(inbox.rest().await, [], "a revoked key gets nothing more");
    assert!(inbox.revoked, "and is told why");
    assert_eq!(hub.get("/agent/messages", Some(new)).await.status, 200);
    hub.post("/register", Some(old), &json!({"agent_id": "alice"})).await.failure(Code::AgentIdTaken);
}

/// Pending messages stay with an agent whose key was replaced.
#[tokio::test]
async fn a_new_key_keeps_the_inbox() {
    let hub = TestHub::start();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    assert_eq!(hub.send(&alice, "alice", "bob", "waits").await.outcome(), (202, "queued"));
    let rotated = hub.post("/register", Some(&bob), &json!({"agent_id": "bob"})).await;
    let bob = rotated.data()["api_key"].as_str().unwrap();
    assert_eq!(hub.inbox(bob, None).await.texts(1).await, ["waits"]);
}

#[tokio::test]
async fn a_name_that_is_taken() {
    let hub = TestHub::start();
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    for name in ["alice", "ALICE", "Alice@chorus", &format!("alice@{HOST}"), "alice@CHORUS.Example"] {
        for key in [None, Some(&*bob), Some("ca_wrong"), Some(OPERATOR)] {
            let answer = hub.post("/register", key, &json!({"agent_id": name})).await;
            answer.failure(Code::AgentIdTaken);
        }
    }
    assert_eq!(hub.get("/agent/messages", Some(&alice)).await.status, 200, "her key still works");
}

/// A stale or malformed key does not prevent taking a free name.
#[tokio::test]
async fn a_free_name_needs_no_key() {
    let hub = TestHub::start();
    let alice = hub.register("alice").await;
    for (n, value) in
        ["Bearer ca_stale", "Basic x", "", "Bearer", &format!("Bearer {alice}")].iter().enumerate()
    {
        let request = hub.request(Method::POST, "/register", None).header("authorization", *value);
        let answer = crate::support::Answer::of(request.json(&json!({"agent_id": format!("a{n}")}))).await;
        assert_eq!(answer.status, 201, "{value}: {}", answer.text);
    }
    assert_eq!(hub.get("/agent/messages", Some(&alice)).await.status, 200, "her own key did not change");
}

#[tokio::test]
async fn names_and_hosts() {
    let hub = TestHub::start();
    for (n, host) in ["", "@chorus", "@CHORUS", "@chorus.example", "@Chorus.Example"].iter().enumerate() {
        let key = hub.register(&format!("Agent-{n}{host}")).await;
        for alias in ["", "@chorus", "@chorus.example", "@CHORUS.EXAMPLE"] {
            for name in [format!("Agent-{n}{alias}"), format!("agent-{n}{alias}")] {
                let found = hub.get(&format!("/agents/{name}"), None).await;
                assert_eq!(found.data()["agent_id"], format!("Agent-{n}@{HOST}"));
                assert_eq!(hub.send(&key, &name, &name, "hi").await.outcome(), (202, "queued"), "{name}");
            }
        }
    }
    for name in
        ["a@elsewhere.example", "a@chorus.example:80", "a@chorus.example.org", "a@chorus.", "a@localhost"]
    {
        let answer = hub.post("/register", None, &json!({"agent_id": name})).await;
        assert!(answer.failure(Code::Validation).contains(HOST), "{}", answer.text);
        let path = format!("/agents/{}", name.replace('@', "%40"));
        hub.get(&path, None).await.failure(Code::AgentNotFound);
    }
    let long = "a".repeat(129);
    for name in
        ["", "@", "@chorus", "a@", "a b", "a@b@c", "ä", "a/b", "..", "a@host:port", "a\u{202e}b", &long]
    {
        let answer = hub.post("/register", None, &json!({"agent_id": name})).await;
        assert!(answer.failure(Code::Validation).starts_with("agent_id: "), "{name}: {}", answer.text);
    }
}

#[tokio::test]
async fn cards() {
    let hub = TestHub::start();
    let with = |card: Value| json!({"agent_id": "a", "agent_card": card});
    for (card, fault) in [
        (json!({}), "agent_card.card_version: is required; agent_card.user_culture: is required; "),
        (
            json!({"chorus_version": "0.2"}),
            "agent_card.chorus_version: was renamed in card version 0.3: use card_version \"0.3\"",
        ),
        (json!({"card_version": "0.2"}), "agent_card.card_version: must be \"0.3\""),
        (json!({"card_version": 0.3}), "agent_card.card_version: must be a string"),
        (json!([]), "agent_card: must be an object"),
    ] {
        let answer = hub.post("/register", None, &with(card)).await;
        assert!(answer.failure(Code::Validation).starts_with(fault), "{}", answer.text);
    }
    for (field, value) in [
        ("supported_languages", json!([])),
        ("supported_languages", json!("en")),
        ("supported_languages", json!(vec!["en"; 101])),
        ("user_culture", json!("e")),
    ] {
        let mut card = card();
        card[field] = value;
        let answer = hub.post("/register", None, &with(card)).await;
        assert!(
            answer.failure(Code::Validation).starts_with(&format!("agent_card.{field}: ")),
            "{}",
            answer.text
        );
    }
    assert_eq!(hub.post("/register", None, &with(Value::Null)).await.status, 201, "a card is optional");
}

#[tokio::test]
async fn endpoints_are_for_callers_with_a_key() {
    let hub = TestHub::start();
    hub.register_webhook("alice", ENDPOINT).await;
    let bob = hub.register("bob").await;
    for path in ["/agents/alice", "/agents"] {
        assert!(!hub.get(path, None).await.text.contains("alice.example"), "{path}");
        for key in [&*bob, OPERATOR] {
            assert!(hub.get(path, Some(key)).await.text.contains(ENDPOINT), "{path}");
        }
    }
}

#[tokio::test]
async fn the_list_in_pages() {
    let hub = TestHub::start();
    assert_eq!(hub.get("/agents", None).await.data(), &json!([]));
    let names: Vec<String> = (0..7).map(|n| format!("agent-{n}")).collect();
    for name in names.iter().rev() {
        hub.register(name).await;
    }
    let (mut found, mut path, mut pages) = (vec![], "/agents?limit=3".to_owned(), 0);
    loop {
        let page = hub.get(&path, None).await;
        let list = page.data().as_array().unwrap();
        assert!(list.len() <= 3);
        found.extend(list.iter().map(|agent| agent["agent_id"].as_str().unwrap().to_owned()));
        pages += 1;
        let Some(next) = page.body["metadata"]["next"].as_str() else { break };
        path = format!("/agents?limit=3&after={next}");
    }
    assert_eq!((found, pages), (names.iter().map(|name| format!("{name}@{HOST}")).collect(), 3));
    let all = hub.get("/agents?limit=7", None).await;
    assert_eq!(members(&all.body["metadata"]), ["timestamp"], "the last page has no next");
    assert_eq!(hub.get("/agents?limit=200", None).await.data().as_array().unwrap().len(), 7);
    assert_eq!(hub.get("/agents?after=zzz", None).await.data(), &json!([]));
}

#[tokio::test]
async fn one_by_its_id() {
    let hub = TestHub::start();
    let alice = hub.post("/register", None, &json!({"agent_id": "alice"})).await;
    let id = alice.data()["registration"]["id"].as_str().unwrap();
    assert_eq!(hub.get(&format!("/agents/{id}"), None).await.data()["agent_id"], format!("alice@{HOST}"));
    let unknown = hub.get("/agents/00000000-0000-4000-8000-000000000000", None).await;
    unknown.failure(Code::AgentNotFound);
}

#[tokio::test]
async fn an_oauth_client_is_told_where_it_is() {
    let hub = TestHub::start();
    let body = json!({"redirect_uris": ["http://127.0.0.1/callback"], "client_name": "an MCP client"});
    let answer = hub.post("/register", None, &body).await;
    assert!(answer.failure(Code::NotFound).contains("OAuth"), "{}", answer.text);
    let body = json!({"agent_id": "550e8400-e29b-41d4-a716-446655440000", "agent_name": "One", "owner_id": "one",
                      "api_endpoint": ENDPOINT, "skills": [{"skill_name": "fly", "cost_per_call": 1}]});
    let answer = hub.post("/register", None, &body).await;
    assert!(answer.failure(Code::NotFound).contains("/market/register"), "{}", answer.text);
}

#[tokio::test]
async fn a_hub_that_takes_nobody() {
    for signup in [Signup::Closed, Signup::Invite] {
        let hub = Setup::new().config(|config| config.signup = signup).start();
        let made =
            hub.post("/agents", Some(OPERATOR), &json!({"agent_id": "alice", "endpoint": ENDPOINT})).await;
        assert_eq!(made.status, 201, "the operator registers agents");
        let alice = made.data()["api_key"].as_str().unwrap();
        for key in [None, Some("ca_anything"), Some(alice)] {
            let answer = hub.post("/register", key, &json!({"agent_id": "stranger"})).await;
            answer.failure(Code::Forbidden);
        }
        assert_eq!(hub.get("/agents", None).await.data().as_array().unwrap().len(), 1);
        let updated = hub.post("/register", Some(alice), &json!({"agent_id": "alice"})).await;
        assert_eq!(updated.status, 200, "who is here may change its own record");
        let made = hub.post("/register", Some(OPERATOR), &json!({"agent_id": "bob"})).await;
        assert_eq!(made.status, 201, "the operator may make an agent without an endpoint");
    }
}

/// Of two simultaneous registrations of a name, one succeeds.
#[tokio::test]
async fn a_race_for_a_name() {
    let hub = TestHub::start();
    let body = json!({"agent_id": "wanted"});
    let tries = (0..20).map(|_| hub.post("/register", None, &body));
    let answers = futures_util::future::join_all(tries).await;
    let mut statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!((statuses[0], statuses[1], statuses[19]), (201, 409, 409));
}

/// A name like an existing id is refused, because it would hide the object with that id.
#[tokio::test]
async fn nobody_is_called_like_an_id() {
    let hub = TestHub::start();
    let anna = hub.account("anna@example.org").await;
    let id = hub.get("/api/v1/me", Some(&anna)).await.body["id"].as_str().unwrap().to_owned();
    let uuid = "00000000-0000-0000-0000-00000000002a";
    for name in [&*id, "ch_00000000000000000000000000000000", uuid, &uuid.replace('-', "")] {
        let refused = hub.post("/register", None, &json!({"agent_id": name})).await;
        assert!(refused.failure(Code::Validation).contains("form of an id"), "{name}");
        let refused = hub.post("/api/v1/agents", Some(&anna), &json!({"name": name})).await;
        assert!(refused.own_failure(Code::Validation).contains("form of an id"), "{name}");
    }
    hub.register("acc_ountant").await;
    // Nor is a member.
    let channel = hub.channel(&anna, &json!({"name": "c"})).await;
    for handle in [&*id, uuid] {
        let refused = hub
            .ask("PATCH", &format!("{channel}/members/anna"), Some(&anna), &json!({"handle": handle}))
            .await;
        refused.own_failure(Code::Conflict);
    }
}

/// A taken name is refused before its endpoint is looked up, so that nothing leaks.
#[tokio::test]
async fn a_taken_name_is_refused_before_anything_is_looked_up() {
    let hub = Setup::new().config(|config| config.outbound.allow = vec![]).start();
    let key = hub.register("alice").await;
    let body = json!({"agent_id": "alice", "endpoint": "http://localhost/"});
    hub.post("/register", None, &body).await.failure(Code::AgentIdTaken);
    let refused = hub.post("/register", Some(&key), &body).await;
    assert!(!refused.failure(Code::EndpointBlocked).contains("127.0.0.1"), "{}", refused.text);
}
