//! The cost of offers: how often an agent may change them, what lists show of them, and how strangers' schemas
//! are checked.

use crate::catch_up::number;
use crate::market::{Trader, registration, trader};
use crate::support::{OPERATOR, Setup, TestHub, eventually};
use chorus_protocol::code::Code;
use serde_json::{Value, json};

/// Waits until the words of all offers are indexed.
pub(crate) async fn words_indexed(hub: &TestHub) {
    let due = "SELECT COUNT(*) AS count FROM market_agents WHERE words_due_at IS NOT NULL";
    eventually(async || number(hub, due).await, |due| *due == 0).await;
}

async fn schemas_compiled(hub: &TestHub) -> u64 {
    let figures = hub.get("/metrics", Some(OPERATOR)).await.text;
    let name = "chorus_market_schemas_compiled_total ";
    let line = figures.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("{figures}")).parse().unwrap()
}

/// One key cannot keep the writer busy with its offers; a program that registers on each start is not delayed.
#[tokio::test]
async fn changes_of_offers_are_limited_and_the_same_again_is_not() {
    for setup in [Setup::new(), Setup::postgres()] {
        let hub = setup.config(|config| config.rate_limit = Some(6000)).start();
        let (worker, other) = (trader(&hub, "worker", 0).await, trader(&hub, "other", 0).await);
        let offer = |trader: &Trader, name: &str, cost: usize| {
            let mut body = registration(name, &trader.owner, &format!("0.{cost}"));
            body["agent_id"] = json!(trader.id);
            body
        };
        for cost in 11..17 {
            let changed =
                hub.post("/market/register", Some(&worker.key), &offer(&worker, "worker", cost)).await;
            assert_eq!(changed.status, 200, "{}", changed.text);
        }
        let audited = "SELECT COUNT(*) AS count FROM audit WHERE action = 'skills.offered'";
        let before = number(&hub, audited).await;
        // Without the agent's key nobody can use up its changes.
        for cost in 30..40 {
            let refused = hub.post("/market/register", None, &offer(&other, "other", cost)).await;
            refused.own_failure(Code::Unauthorized);
        }
        for _ in 0..10 {
            let same = hub.post("/market/register", Some(&worker.key), &offer(&worker, "worker", 16)).await;
            assert_eq!((same.status, &same.body["status"]), (200, &json!("updated")), "{}", same.text);
        }
        assert_eq!(number(&hub, audited).await, before, "nothing was offered");
        let refused = hub.post("/market/register", Some(&worker.key), &offer(&worker, "worker", 17)).await;
        let wait: u64 = refused.header("retry-after").parse().unwrap();
        assert!((1..=60).contains(&wait), "{wait}");
        assert!(refused.own_failure(Code::RateLimited).contains("6 changes a minute"), "{}", refused.text);
        let listed = hub.get(&format!("/market/agents/{}", worker.id), None).await.body;
        assert_eq!(listed["skills"][0]["cost_per_call"], 0.16);
        let changed = hub.post("/market/register", Some(&other.key), &offer(&other, "other", 20)).await;
        assert_eq!(changed.status, 200, "{}", changed.text);
        // Even unchanged registrations are limited.
        let mut tries = 0;
        let refused = loop {
            let same = hub.post("/market/register", Some(&worker.key), &offer(&worker, "worker", 16)).await;
            if same.status != 200 {
                break same;
            }
            tries += 1;
            assert!(tries < 200);
        };
        assert!(refused.own_failure(Code::RateLimited).contains("120 registrations"), "{}", refused.text);
    }
}

/// The size of schemas does not affect the cost of a page of offers.
#[tokio::test]
async fn lists_carry_no_schemas() {
    let hub = TestHub::start();
    let worker = trader(&hub, "worker", 0).await;
    let found = hub.get("/market/discover?skill=analyze_text", None).await.body;
    assert_eq!(found["agents"][0]["skill"]["description"], "Extracts structured data from unstructured text");
    assert_eq!(found["agents"][0]["skill"]["cost_per_call"], 0.1);
    assert!(!found.to_string().contains("schema"), "{found}");
    let listed = hub.get(&format!("/market/agents/{}", worker.id), None).await;
    assert_eq!(listed.body["skills"][0]["input_schema"], json!({"text": "string"}), "{}", listed.text);
    assert_eq!(listed.body["skills"][0]["output_schema"], json!({"entities": "list"}));
}

/// Returns a schema of the highest permitted cost, which accepts any object with a text.
fn costly(n: usize) -> Value {
    let pattern = |n: usize| json!({"pattern": format!("^([a-z]|[a-y]){{{}}}", n + 1)});
    let mut properties: serde_json::Map<_, _> =
        (0..31).map(|at| (format!("p{n}x{at}"), pattern(1))).collect();
    properties.insert("text".into(), json!({"pattern": format!("^[a-z]*{n}?!?$")}));
    json!({"type": "object", "properties": properties})
}

/// A client that names no agent is not delayed by the schemas of higher-ranked agents.
#[tokio::test]
async fn costly_schemas_are_passed_over_and_compiled_once() {
    let hub = TestHub::start();
    let boss = trader(&hub, "boss", 5).await;
    let offer = async |name: &str, cost: f64, schema: Value| {
        let skill = json!({"skill_name": "sum", "cost_per_call": cost, "input_schema": schema});
        let body = json!({"agent_name": name, "owner_id": format!("owner of {name}"), "skills": [skill]});
        let listed = hub.post("/market/register", None, &body).await;
        assert_eq!(listed.status, 201, "{}", listed.text);
        listed.body["agent_id"].clone()
    };
    for n in 0..19 {
        offer(&format!("costly-{n}"), 0.01, costly(n)).await;
    }
    let plain = json!({"type": "object", "properties": {"text": {"type": "string", "pattern": "^a"}}});
    let honest = offer("honest", 0.02, plain).await;
    let text = "a".repeat(1000);
    let before = schemas_compiled(&hub).await;
    for round in 0..3 {
        let job = json!({"skill_name": "sum", "input_data": {"text": text}, "budget": 0.05});
        let hired = hub.post("/market/jobs", Some(&boss.key), &job).await;
        assert_eq!((hired.status, &hired.body["agent_id"]), (202, &honest), "{round}: {}", hired.text);
        let ask = json!({"skill_name": "sum", "input_data": {"text": text}, "limit": 20, "answer_ms": 0});
        let quoted = hub.post("/market/quotes", Some(&boss.key), &ask).await;
        assert_eq!(quoted.status, 201, "{}", quoted.text);
        let offers = quoted.body["offers"].as_array().unwrap();
        assert!(offers.iter().any(|offer| offer["agent_id"] == honest), "{}", quoted.text);
    }
    assert_eq!(schemas_compiled(&hub).await - before, 1, "the costly ones not at all, the other once");
    // A short input to a named agent is checked against its schema, which is compiled once.
    let job = json!({"skill_name": "sum", "input_data": {"text": "b"}, "budget": 0.05, "agent_id": honest});
    let refused = hub.post("/market/jobs", Some(&boss.key), &job).await;
    assert!(refused.own_failure(Code::Validation).contains("must match the pattern"), "{}", refused.text);
    assert_eq!(schemas_compiled(&hub).await - before, 1);
}

/// The number of patterns in a registration is limited, because the hub compiles them.
#[tokio::test]
async fn a_registration_has_so_many_patterns_and_no_more() {
    let hub = TestHub::start();
    let body = |skills: usize| {
        let skill =
            |n: usize| json!({"skill_name": format!("s{n}"), "cost_per_call": 1, "input_schema": costly(n)});
        json!({"agent_name": "a", "owner_id": "o", "skills": (0..skills).map(skill).collect::<Vec<_>>()})
    };
    let refused = hub.post("/market/register", None, &body(7)).await;
    assert!(refused.own_failure(Code::Validation).contains("at most 200 patterns"), "{}", refused.text);
    assert_eq!(hub.post("/market/register", None, &body(6)).await.status, 201);
}
