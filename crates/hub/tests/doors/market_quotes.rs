//! Quotes: agents are asked for a price, and one offer is accepted.

use crate::market::{BEGIN, assert_balanced, balance, registration, trader, trader_at};
use crate::market_jobs::{ended, hire, job, success, text};
use crate::support::{SOON, Setup, eventually};
use chorus_protocol::code::Code;
use chorus_testkit::clock::ManualClock;
use chorus_testkit::receiver::{FakeAgent, Reply};
use serde_json::json;
use std::collections::HashMap;

#[tokio::test]
async fn offers_are_asked_for_and_one_is_taken() {
    let clock = ManualClock::new(BEGIN);
    let hub = Setup::new().clock(&clock).start();
    let (boss, one, other) =
        (trader(&hub, "boss", 1).await, trader(&hub, "one", 0).await, trader(&hub, "other", 0).await);
    let ask = json!({"skill_name": "analyze_text", "input_data": {"text": "x"}});
    let quote = hub.post("/market/quotes", Some(&boss.key), &ask).await;
    assert_eq!(quote.status, 201, "{}", quote.text);
    let quote = quote.body;
    let mut agents: Vec<_> =
        quote["offers"].as_array().unwrap().iter().map(|offer| text(&offer["agent_id"])).collect();
    agents.sort();
    let mut expected = vec![one.id.clone(), other.id.clone()];
    expected.sort();
    assert_eq!((agents, &quote["status"]), (expected, &json!("open")));
    // The offered price is valid, even if the listed price changes.
    hub.post("/market/register", Some(&one.key), &registration("one", &one.owner, "0.90")).await;
    let accept = format!("/market/quotes/{}/accept", text(&quote["quote_id"]));
    let take = json!({"agent_id": one.id, "job_id": "f81d4fae-7dec-11d0-a765-000000000001"});
    hub.post(&accept, Some(&other.key), &take).await.own_failure(Code::NotFound);
    hub.post(&accept, None, &take).await.own_failure(Code::Unauthorized);
    hub.post(&accept, Some(&boss.key), &json!({"agent_id": boss.id})).await.own_failure(Code::Validation);
    for _ in 0..2 {
        let taken = hub.post(&accept, Some(&boss.key), &take).await;
        assert_eq!((taken.status, &taken.body["budget"]), (202, &json!(0.1)), "{}", taken.text);
    }
    hub.post(
        &accept,
        Some(&boss.key),
        &json!({"agent_id": other.id, "job_id": "f81d4fae-7dec-11d0-a765-000000000002"}),
    )
    .await
    .own_failure(Code::Conflict);
    assert_eq!(balance(&hub, &boss.owner).await, (json!(0.9), json!(0.1)));
    // After the deadline it is too late.
    let late = hub.post("/market/quotes", Some(&boss.key), &ask).await.body;
    clock.advance(60_000);
    let accept = format!("/market/quotes/{}/accept", text(&late["quote_id"]));
    hub.post(&accept, Some(&boss.key), &json!({"agent_id": other.id})).await.own_failure(Code::Conflict);
    let nobody = json!({"skill_name": "fly"});
    hub.post("/market/quotes", Some(&boss.key), &nobody).await.own_failure(Code::SkillMismatch);
    hub.post("/market/quotes", None, &ask).await.own_failure(Code::Unauthorized);
    let unfit = json!({"skill_name": "analyze_text", "input_data": {"text": 4}});
    let told = hub.post("/market/quotes", Some(&boss.key), &unfit).await;
    assert!(told.own_failure(Code::Validation).contains("input_data.text"), "{}", told.text);
    // The errors are the same as for hiring.
    let little = json!({"skill_name": "analyze_text", "budget": 0.05});
    hub.post("/market/quotes", Some(&boss.key), &little).await.own_failure(Code::BudgetInsufficient);
    clock.advance(91_000);
    hub.post("/market/quotes", Some(&boss.key), &ask).await.own_failure(Code::AgentOffline);
}

/// Agents with an open inbox are asked; one that does not answer counts with its listed price.
#[tokio::test]
async fn agents_are_asked_and_answer() {
    let clock = ManualClock::new(BEGIN);
    let hub = Setup::new().clock(&clock).start();
    let (boss, one, other) =
        (trader(&hub, "boss", 1).await, trader(&hub, "one", 0).await, trader(&hub, "other", 0).await);
    let third = trader(&hub, "third", 0).await;
    let (mut inbox, mut others) = (hub.inbox(&one.key, None).await, hub.inbox(&third.key, None).await);
    let ask = json!({"skill_name": "analyze_text", "input_data": {"text": "x"}, "budget": 0.5});
    let quote = hub.post("/market/quotes", Some(&boss.key), &ask).await.body;
    let id = text(&quote["quote_id"]);
    for inbox in [&mut inbox, &mut others] {
        let asked = inbox.event("quote").await;
        assert_eq!((&asked["quote_id"], &asked["input_data"]["text"]), (&quote["quote_id"], &json!("x")));
        assert_eq!(asked["budget"], 0.5);
    }
    let (at, offer) = (format!("/market/quotes/{id}"), format!("/market/quotes/{id}/offer"));
    let dear = json!({"price": 0.05, "expected_ms": 1000});
    for _ in 0..2 {
        let made = hub.post(&offer, Some(&one.key), &dear).await;
        assert_eq!(made.status, 200, "{}", made.text);
    }
    hub.post(&offer, Some(&one.key), &json!({"price": 0.06})).await.own_failure(Code::Conflict);
    hub.post(&offer, Some(&one.key), &json!({"price": 0.001})).await.own_failure(Code::Validation);
    assert_eq!(hub.post(&offer, Some(&third.key), &json!({})).await.status, 200);
    let above = hub.post(&offer, Some(&other.key), &json!({"price": 0.51})).await;
    assert!(above.own_failure(Code::Validation).contains("at most 0.50"), "{}", above.text);
    // An agent that was not asked learns nothing.
    hub.post(&offer, Some(&boss.key), &dear).await.own_failure(Code::NotFound);
    hub.post(&offer, Some(&boss.owner_key), &dear).await.own_failure(Code::NotFound);
    hub.post(&offer, None, &dear).await.own_failure(Code::Unauthorized);
    hub.get(&at, Some(&one.key)).await.own_failure(Code::NotFound);
    hub.get(&at, None).await.own_failure(Code::Unauthorized);
    let shown = hub.get(&at, Some(&boss.key)).await.body;
    let offers: HashMap<_, _> = shown["offers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|offer| (text(&offer["agent_id"]), offer.clone()))
        .collect();
    assert_eq!(offers.len(), 2, "who declined makes none: {shown}");
    let answered = &offers[&one.id];
    assert_eq!(
        (&answered["price"], &answered["answered"], &answered["expected_ms"]),
        (&json!(0.05), &json!(true), &json!(1000))
    );
    let listed = &offers[&other.id];
    assert_eq!((&listed["price"], &listed["answered"]), (&json!(0.1), &json!(false)));
    // A late answer counts as the listed price.
    clock.advance(5000);
    hub.post(&offer, Some(&other.key), &dear).await.own_failure(Code::Conflict);
    let accept = format!("{at}/accept");
    hub.post(&accept, Some(&boss.key), &json!({"agent_id": third.id})).await.own_failure(Code::Validation);
    let seen = json!({"agent_id": one.id, "price": 0.04});
    hub.post(&accept, Some(&boss.key), &seen).await.own_failure(Code::Conflict);
    let taken = hub.post(&accept, Some(&boss.key), &json!({"agent_id": one.id, "price": 0.05})).await;
    assert_eq!((taken.status, &taken.body["budget"]), (202, &json!(0.05)), "{}", taken.text);
    let job = inbox.event("job").await;
    assert_eq!(job["job_id"], taken.body["job_id"]);
    // The number of open quotes is limited.
    for _ in 0..50 {
        hub.post("/market/quotes", Some(&boss.key), &ask).await;
    }
    hub.post("/market/quotes", Some(&boss.key), &ask).await.own_failure(Code::RateLimited);
    assert_balanced(&hub).await;
}

/// Agents without an open inbox are called by their own transport; a server that knows only the document need
/// not support quotes.
#[tokio::test]
async fn endpoints_and_connection_strings_are_asked() {
    let hub = Setup::new().start();
    let [asks, plain, talks] = [FakeAgent::start().await, FakeAgent::start().await, FakeAgent::start().await];
    let boss = trader(&hub, "boss", 1).await;
    let at = |agent: &FakeAgent| format!("http://{}/jobs", agent.addr());
    let dear = trader_at(&hub, "dear", 0, Some(&at(&asks))).await;
    let document = trader_at(&hub, "document", 0, Some(&at(&plain))).await;
    let channel = trader(&hub, "channel", 0).await;
    let connection = json!({"connection_string": format!("http://{}/inbox/sk_a1b2c3d4e5f6", talks.addr())});
    let set = format!("/api/v1/agents/{}/connection", channel.id);
    assert_eq!(hub.ask("PUT", &set, Some(&channel.key), &connection).await.status, 200);
    asks.set(Reply::Json(200, json!({"price": 0.42, "expected_ms": 7})));
    plain.set(Reply::Text(404, "no such page".into()));
    let ask = json!({"skill_name": "analyze_text", "input_data": {"text": "x"}});
    let quote = hub.post("/market/quotes", Some(&boss.key), &ask).await;
    assert_eq!(quote.status, 201, "{}", quote.text);
    let posted = asks.wait_for(1, SOON).await.remove(0);
    assert_eq!((posted.path.as_str(), &posted.body["quote_id"]), ("/quotes", &quote.body["quote_id"]));
    let posted = talks.wait_for(1, SOON).await.remove(0).body;
    assert!(text(&posted["message"]["content"]).contains("analyze_text"), "{posted}");
    let callback = text(&posted["callback"]).strip_prefix(&hub.url).unwrap().to_owned();
    let say = async |content: &str| {
        hub.post(&callback, None, &json!({"type": "message", "content": content})).await
    };
    assert!(say("let me think").await.text.contains("price"));
    let said = say("0.07").await;
    assert_eq!(said.status, 200, "{}", said.text);
    let look = async || {
        let shown =
            hub.get(&format!("/market/quotes/{}", text(&quote.body["quote_id"])), Some(&boss.key)).await;
        let offers = shown.body["offers"].as_array().unwrap().clone();
        let told = |id: &str| {
            let offer = offers.iter().find(|offer| offer["agent_id"] == id).unwrap();
            (offer["price"].clone(), offer["answered"].clone())
        };
        [told(&dear.id), told(&document.id), told(&channel.id)]
    };
    let expected = [(json!(0.42), json!(true)), (json!(0.1), json!(false)), (json!(0.07), json!(true))];
    assert_eq!(eventually(look, |offers| offers[0].1 == true).await, expected);
    // It was asked once, and jobs are delivered there as before.
    assert_eq!(plain.wait_for(1, SOON).await.len(), 1);
    let one = job(1, &document.id);
    plain.set(Reply::Json(200, success(&one)));
    hire(&hub, &boss.key, &one).await;
    assert_eq!(ended(&hub, &boss.key, &one).await["status"], "SUCCESS");
}
