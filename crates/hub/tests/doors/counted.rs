//! Registrations, changes of members and channels, transfers and jobs count against a quota.

use crate::market::{registration, trader};
use crate::support::{Answer, Setup, TestHub, on_both};
use chorus_protocol::code::Code;
use serde_json::{Value, json};

on_both![
    offers_count_for_the_agent_and_its_address,
    changes_of_members_and_channels_are_limited_and_count,
    leaving_is_possible_without_room,
    transfers_and_jobs_count_for_who_pays,
];

async fn used(hub: &TestHub, key: &str, quota: &str) -> u64 {
    let me = hub.get("/api/v1/me", Some(key)).await;
    me.body["quotas"][quota]["used"].as_u64().unwrap_or_else(|| panic!("no {quota}: {}", me.text))
}

#[track_caller]
fn refused(answer: &Answer, quota: &str) {
    assert!(answer.own_failure(Code::QuotaExceeded).contains(quota), "{}", answer.text);
    assert_eq!(answer.body["error"]["details"]["quota"], quota, "{}", answer.text);
}

/// Returns offers of about 100 KB.
fn offers(owner: &str) -> Value {
    let skill = |n: usize| {
        let properties: serde_json::Map<_, _> = (0..10)
            .map(|m| (format!("field{m}"), json!({"type": "string", "description": "x".repeat(400)})))
            .collect();
        let schema = json!({"type": "object", "properties": properties});
        json!({"skill_name": format!("skill-{n}"), "cost_per_call": 1, "input_schema": schema})
    };
    json!({"agent_name": owner, "owner_id": owner, "skills": (0..20).map(skill).collect::<Vec<_>>()})
}

/// Registrations without a key count for their agents, and their bytes for the source address.
async fn offers_count_for_the_agent_and_its_address(setup: Setup) {
    let setup = setup.config(|config| {
        config.rate_limit = Some(100_000);
        config.quotas.registration_bytes = 500_000;
    });
    let hub = setup.start();
    let first = hub.post("/market/register", None, &offers("owner-0")).await;
    assert_eq!(first.status, 201, "{}", first.text);
    let key = first.body["api_key"].as_str().unwrap();
    let counted = used(&hub, key, "agent_bytes").await;
    assert!(counted > 80_000, "{counted}");
    // Registering again replaces the offers.
    let again = hub.post("/market/register", Some(key), &offers("owner-0")).await;
    assert_eq!((again.status, used(&hub, key, "agent_bytes").await), (200, counted), "{}", again.text);
    let mut last = None;
    for n in 1..20 {
        let answer = hub.post("/market/register", None, &offers(&format!("owner-{n}"))).await;
        if answer.status != 201 {
            last = Some((n, answer));
            break;
        }
    }
    let (taken, last) = last.expect("one address stores as much as it likes");
    assert!((4..=6).contains(&taken), "{taken}");
    assert!(last.own_failure(Code::RateLimited).contains("CHORUS_QUOTA_REGISTRATION_BYTES"), "{}", last.text);
    assert_ne!(last.header("retry-after"), "");
    // The same limit covers cards. People with accounts have their own quota.
    let card = json!({"agent_id": "big", "agent_card": {"name": "x".repeat(8000)}});
    let mut cards = 0;
    while hub
        .post(
            "/register",
            None,
            &json!({"agent_id": format!("big-{cards}"), "agent_card": card["agent_card"]}),
        )
        .await
        .status
        == 201
    {
        cards += 1;
        assert!(cards < 20, "cards are not bounded");
    }
    let anna = hub.account("anna@example.org").await;
    let hers = hub
        .post(
            "/market/register",
            Some(&anna),
            &json!({"agent_name": "hers", "skills": offers("x")["skills"]}),
        )
        .await;
    assert_eq!(hers.status, 201, "{}", hers.text);
    assert!(used(&hub, &anna, "account_bytes").await > 80_000);
    // Removing offers frees their bytes.
    let fewer = registration("fewer", "owner-0", "0.10");
    let fewer = hub.post("/market/register", Some(key), &fewer).await;
    assert_eq!(fewer.status, 200, "{}", fewer.text);
    assert!(used(&hub, key, "agent_bytes").await < 3000);
}

/// In a foreign channel an agent may change its handle no more often than it may post, and each change counts.
async fn changes_of_members_and_channels_are_limited_and_count(setup: Setup) {
    let hub = setup.config(|config| config.rate_limit = Some(100_000)).start();
    let (anna, bob) = (hub.account("anna@example.org").await, hub.register("bob").await);
    let channel = hub.channel(&anna, &json!({"name": "c"})).await;
    hub.add(&channel, &anna, &json!({"agent": "bob", "handle": "bob"})).await;
    let before = used(&hub, &bob, "agent_bytes").await;
    let (mut name, mut renamed) = ("bob".to_owned(), 0_u64);
    let last = loop {
        let new = format!("bob{renamed}");
        let answer =
            hub.ask("PATCH", &format!("{channel}/members/{name}"), Some(&bob), &json!({"handle": new})).await;
        if answer.status != 200 {
            break answer;
        }
        (name, renamed) = (new, renamed + 1);
        assert!(renamed < 100, "an agent renames itself as often as it likes");
    };
    last.own_failure(Code::RateLimited);
    assert!(used(&hub, &bob, "agent_bytes").await >= before + 256 * renamed);
    // Archiving and restoring its own channel counts too.
    let own = hub.channel(&bob, &json!({"name": "own"})).await;
    let before = used(&hub, &bob, "agent_bytes").await;
    assert_eq!(hub.delete(&own, Some(&bob)).await.status, 204);
    assert_eq!(hub.post(&format!("{own}/restore"), Some(&bob), &json!({})).await.status, 200);
    assert!(used(&hub, &bob, "agent_bytes").await >= before + 2 * 256);
    let mut rounds = 0;
    while hub.delete(&own, Some(&bob)).await.status == 204 {
        hub.post(&format!("{own}/restore"), Some(&bob), &json!({})).await;
        rounds += 1;
        assert!(rounds < 100, "an agent archives as often as it likes");
    }
    // Leaving is never limited.
    assert_eq!(hub.delete(&format!("{channel}/members/{name}"), Some(&bob)).await.status, 204);
}

/// A caller with a full quota can still leave, archive and delete.
async fn leaving_is_possible_without_room(setup: Setup) {
    let hub = setup.config(|config| config.quotas.agent_bytes = 20_000).start();
    let (anna, bob) = (hub.account("anna@example.org").await, hub.register("bob").await);
    let theirs = hub.channel(&anna, &json!({"name": "c"})).await;
    hub.add(&theirs, &anna, &json!({"agent": "bob", "handle": "bob"})).await;
    let own = hub.channel(&bob, &json!({"name": "own"})).await;
    let said = hub.say(&own, &bob, &json!({"content": "x"})).await["event_id"].clone();
    let document = json!({"slug": "notes", "content": "x"});
    assert_eq!(hub.post(&format!("{own}/artifacts"), Some(&bob), &document).await.status, 201);
    let text = json!({"content": "x".repeat(3000)});
    let small = json!({"content": "x"});
    while hub.post(&format!("{own}/messages"), Some(&bob), &text).await.status == 201 {}
    while hub.post(&format!("{own}/messages"), Some(&bob), &small).await.status == 201 {}
    let rename =
        hub.ask("PATCH", &format!("{theirs}/members/bob"), Some(&bob), &json!({"handle": "rob"})).await;
    refused(&rename, "agent_bytes");
    let message = format!("{own}/messages/{}", said.as_str().unwrap());
    assert_eq!(hub.delete(&message, Some(&bob)).await.status, 204);
    assert_eq!(hub.delete(&format!("{own}/artifacts/notes"), Some(&bob)).await.status, 204);
    assert_eq!(hub.delete(&format!("{theirs}/members/bob"), Some(&bob)).await.status, 204);
    assert_eq!(hub.delete(&own, Some(&bob)).await.status, 204);
    assert_eq!(hub.delete("/agents/bob", Some(&bob)).await.status, 200);
}

/// An owner without an account has its own quota: transfers and jobs count for it.
async fn transfers_and_jobs_count_for_who_pays(setup: Setup) {
    let hub = setup.config(|config| config.quotas.agent_bytes = 20_000).start();
    let (carol, dave) = (trader(&hub, "carol", 20).await, trader(&hub, "dave", 20).await);
    let before = used(&hub, &carol.owner_key, "agent_bytes").await;
    let job =
        json!({"agent_id": dave.id, "skill_name": "analyze_text", "input_data": {"text": "x"}, "budget": 1});
    let hired = hub.post("/market/jobs", Some(&carol.owner_key), &job).await;
    assert_eq!(hired.status, 202, "{}", hired.text);
    let after = used(&hub, &carol.owner_key, "agent_bytes").await;
    assert!(after >= before + 1536 + 256, "{before} {after}");
    let mut paid = 0;
    let last = loop {
        let id = format!("11111111-1111-4111-8111-{paid:012}");
        let body =
            json!({"transfer_id": id, "from_owner": carol.owner, "to_owner": dave.owner, "amount": 0.01});
        let answer = hub.post("/market/transfer", Some(&carol.owner_key), &body).await;
        if answer.status != 200 {
            break answer;
        }
        paid += 1;
        assert!(paid < 100, "transfers do not count");
    };
    refused(&last, "agent_bytes");
    let hired = hub.post("/market/jobs", Some(&carol.owner_key), &job).await;
    refused(&hired, "agent_bytes");
    // The usage is the same after a restart, and others are not affected.
    let before = used(&hub, &carol.owner_key, "agent_bytes").await;
    let hub = hub.restart(|_| {}).await;
    assert_eq!(used(&hub, &carol.owner_key, "agent_bytes").await, before);
    let again = registration("dave", &dave.owner, "0.20");
    assert_eq!(hub.post("/market/register", Some(&dave.key), &again).await.status, 200);
}
