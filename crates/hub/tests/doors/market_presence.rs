//! Presence on the market: paused agents cannot be hired, and silent agents do not hide others.

use crate::market::{BEGIN, registration, trader, trader_at};
use crate::market_jobs::{hire, job, text};
use crate::support::{OPERATOR, Setup, TestHub};
use chorus_protocol::code::Code;
use chorus_testkit::clock::ManualClock;
use chorus_testkit::receiver::{FakeAgent, Reply};
use serde_json::json;
use std::time::Duration;

const FIND: &str = "/market/discover?skill=analyze_text";

/// An open inbox does not make a paused agent available.
#[tokio::test]
async fn a_paused_agent_is_neither_found_nor_hired() {
    let hub = TestHub::start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let _inbox = hub.inbox(&worker.key, None).await;
    let pause = async |paused: bool| {
        let changed =
            hub.ask("PATCH", "/api/v1/agents/worker", Some(OPERATOR), &json!({"paused": paused})).await;
        assert_eq!(changed.status, 200, "{}", changed.text);
    };
    let found = async |more: &str| {
        let found = hub.get(&format!("{FIND}{more}"), None).await.body;
        let mine = found["agents"].as_array().unwrap().iter().find(|agent| agent["agent_id"] == worker.id);
        mine.map(|agent| text(&agent["status"]))
    };
    assert_eq!(found("").await.as_deref(), Some("online"));
    pause(true).await;
    assert_eq!(found("").await, None);
    assert_eq!(found("&include_offline=true").await.as_deref(), Some("offline"));
    let shown = hub.get(&format!("/market/agents/{}", worker.id), None).await.body;
    assert_eq!(shown["status"], "offline", "{shown}");
    let refused = hub.post("/market/jobs", Some(&boss.key), &job(1, &worker.id)).await;
    assert!(refused.own_failure(Code::AgentOffline).contains("paused"), "{}", refused.text);
    let mut any = job(2, &worker.id);
    any.as_object_mut().unwrap().remove("agent_id");
    hub.post("/market/jobs", Some(&boss.key), &any).await.own_failure(Code::AgentOffline);
    let ask = json!({"skill_name": "analyze_text"});
    hub.post("/market/quotes", Some(&boss.key), &ask).await.own_failure(Code::AgentOffline);
    pause(false).await;
    assert_eq!(found("").await.as_deref(), Some("online"));
    hire(&hub, &boss.key, &job(3, &worker.id)).await;
}

/// Silent endpoints are probed before an honest one, which is found at once nevertheless.
#[tokio::test]
async fn silent_endpoints_hide_nobody() {
    let clock = ManualClock::new(BEGIN);
    let hub = Setup::new().clock(&clock).start();
    let mut silent = vec![];
    for n in 0..12 {
        let agent = FakeAgent::start().await;
        agent.set(Reply::Slow(Duration::from_mins(1), Box::new(Reply::Json(200, json!({})))));
        let name = format!("silent-{n}");
        let mut body = registration(&name, &name, "0.01");
        body["api_endpoint"] = json!(format!("http://{}/jobs", agent.addr()));
        assert_eq!(hub.post("/market/register", None, &body).await.status, 201);
        silent.push(agent);
    }
    let agent = FakeAgent::start().await;
    agent.set(Reply::Text(404, "no such page".into()));
    let honest = trader_at(&hub, "honest", 0, Some(&format!("http://{}/jobs", agent.addr()))).await;
    clock.advance(91_000);
    let found = hub.get(FIND, None).await.body;
    assert_eq!(found["agents"][0]["agent_id"], json!(honest.id), "{found}");
    assert_eq!(found["agents"].as_array().unwrap().len(), 1, "{found}");
    // A silent agent is probed again after increasing pauses.
    let asked = || silent.iter().map(|agent| agent.requests().len()).sum::<usize>();
    assert_eq!(asked(), 12);
    for (pause, expected) in [(15_000, 24), (15_000, 24), (15_000, 36)] {
        clock.advance(pause);
        hub.get(FIND, None).await;
        assert_eq!(asked(), expected);
    }
}

/// An owner requests quotes on behalf of one of its agents, which then hires.
#[tokio::test]
async fn offers_are_asked_for_on_behalf_of_an_agent() {
    let hub = TestHub::start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let ask =
        |by: &str| json!({"skill_name": "analyze_text", "orchestrator_id": by, "input_data": {"text": "x"}});
    hub.post("/market/quotes", Some(&boss.owner_key), &ask(&worker.id)).await.own_failure(Code::Forbidden);
    let quote = hub.post("/market/quotes", Some(&boss.owner_key), &ask(&boss.id)).await;
    assert_eq!(quote.status, 201, "{}", quote.text);
    let offers = quote.body["offers"].as_array().unwrap();
    assert_eq!((offers.len(), &offers[0]["agent_id"]), (1, &json!(worker.id)), "not the one that asks");
    let accept = format!("/market/quotes/{}/accept", text(&quote.body["quote_id"]));
    let taken = hub.post(&accept, Some(&boss.owner_key), &json!({"agent_id": worker.id})).await;
    assert_eq!((taken.status, &taken.body["orchestrator_id"]), (202, &json!(boss.id)), "{}", taken.text);
}
