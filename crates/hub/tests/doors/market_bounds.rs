//! Bounds for strangers on the market: deadlines that cannot be kept, and the number of open jobs.

use crate::market::{Trader, balance, trader};
use crate::support::{Answer, Setup, TestHub, on_both};
use chorus_protocol::code::Code;
use chorus_protocol::time::parse_rfc3339;
use serde_json::{Value, json};

on_both![
    a_skill_says_how_long_it_must_be_given,
    so_many_jobs_are_open_and_no_more,
    an_agent_is_shown_what_it_has_in_hand,
    an_odd_schema_is_passed_over,
    jobs_without_a_budget_have_half_of_the_room,
];

fn job(n: u32) -> Value {
    json!({
        "job_id": format!("f81d4fae-7dec-11d0-a765-{n:012}"), "skill_name": "analyze_text", "input_data": {"text": "x"},
        "budget": 0.15,
    })
}

fn with(mut job: Value, member: &str, value: impl Into<Value>) -> Value {
    job[member] = value.into();
    job
}

async fn hire(hub: &TestHub, boss: &Trader, job: &Value) -> Answer {
    hub.post("/market/jobs", Some(&boss.key), job).await
}

/// Registers the worker's only skill, which needs some time.
async fn needs(hub: &TestHub, worker: &Trader, least: i64) -> Answer {
    let skill = json!({"skill_name": "analyze_text", "cost_per_call": 0.10, "min_deadline_ms": least});
    let body = json!({"agent_name": "worker", "skills": [skill]});
    hub.post("/market/register", Some(&worker.key), &body).await
}

/// An impossible deadline cannot lower a reputation.
async fn a_skill_says_how_long_it_must_be_given(setup: Setup) {
    let hub = setup.start();
    let (boss, worker) = (trader(&hub, "boss", 5).await, trader(&hub, "worker", 0).await);
    for wrong in [0, 999, 604_800_001] {
        let what = needs(&hub, &worker, wrong).await;
        let what = what.own_failure(Code::Validation);
        assert!(what.contains("skills[0].min_deadline_ms"), "{what}");
    }
    assert_eq!(needs(&hub, &worker, 600_000).await.status, 200);
    let found = hub.get("/market/discover?skill=analyze_text", None).await.body;
    let found = found["agents"].as_array().unwrap().iter().find(|found| found["agent_id"] == worker.id);
    assert_eq!(found.unwrap()["skill"]["min_deadline_ms"], 600_000);
    let shown = hub.get(&format!("/market/agents/{}", worker.id), None).await.body;
    assert_eq!(shown["skills"][0]["min_deadline_ms"], 600_000);

    let named = with(job(1), "agent_id", worker.id.as_str());
    for asked in [job(1), named.clone()] {
        let what = hire(&hub, &boss, &with(asked, "deadline_ms", 599_999)).await;
        let what = what.own_failure(Code::Validation);
        assert!(what.contains("deadline_ms: must be 600000 or more"), "{what}");
    }
    let ask = json!({"skill_name": "analyze_text", "answer_ms": 0});
    let quote =
        hub.post("/market/quotes", Some(&boss.key), &ask).await.body["quote_id"].as_str().unwrap().to_owned();
    let path = format!("/market/quotes/{quote}/accept");
    let accept = json!({"agent_id": worker.id, "input_data": {"text": "x"}, "deadline_ms": 1000});
    hub.post(&path, Some(&boss.key), &accept).await.own_failure(Code::Validation);
    assert_eq!(balance(&hub, &boss.owner).await, (json!(5.0), json!(0.0)));

    // Without a deadline the default applies: a slow agent cannot hold anybody's credits for as long as it
    // likes.
    for asked in [job(1), named.clone()] {
        let what = hire(&hub, &boss, &asked).await;
        let what = what.own_failure(Code::Validation);
        assert!(what.contains("must be 600000 or more") && what.contains("a job has 300000"), "{what}");
    }
    let accept = json!({"agent_id": worker.id, "input_data": {"text": "x"}});
    let what = hub.post(&path, Some(&boss.key), &accept).await;
    let what = what.own_failure(Code::Validation);
    assert!(what.contains("must be 600000 or more"), "{what}");
    assert_eq!(balance(&hub, &boss.owner).await, (json!(5.0), json!(0.0)));
    let took = |hired: &Answer| {
        let at = |member: &str| parse_rfc3339(hired.body[member].as_str().unwrap()).unwrap();
        at("deadline_at") - at("created_at")
    };
    let hired = hire(&hub, &boss, &with(named, "deadline_ms", 600_000)).await;
    assert_eq!((hired.status, took(&hired)), (202, 600_000), "{}", hired.text);

    // If no agent is named, a faster one is hired instead.
    let quick = trader(&hub, "quick", 0).await;
    let hired = hire(&hub, &boss, &with(job(2), "deadline_ms", 1000)).await;
    assert_eq!((hired.status, &hired.body["agent_id"]), (202, &json!(quick.id)), "{}", hired.text);
    let hired = hire(&hub, &boss, &job(3)).await;
    assert_eq!((&hired.body["agent_id"], took(&hired)), (&json!(quick.id), 300_000), "{}", hired.text);
}

async fn so_many_jobs_are_open_and_no_more(setup: Setup) {
    let hub = setup.config(|config| config.quotas.open_jobs = 1).start();
    let (boss, worker) = (trader(&hub, "boss", 5).await, trader(&hub, "worker", 0).await);
    let to_worker = |n: u32| with(job(n), "agent_id", worker.id.as_str());
    for _ in 0..2 {
        assert_eq!(hire(&hub, &boss, &to_worker(1)).await.status, 202, "it is the same job");
    }
    let what = hire(&hub, &boss, &to_worker(2)).await;
    let what = what.own_failure(Code::QuotaExceeded);
    assert!(what.contains("open_jobs") && what.contains("wait until one has ended"), "{what}");
    assert_eq!(balance(&hub, &boss.owner).await, (json!(4.85), json!(0.15)));
    let path = format!("/market/jobs/{}/cancel", job(1)["job_id"].as_str().unwrap());
    assert_eq!(hub.post(&path, Some(&boss.key), &json!({})).await.status, 200);
    assert_eq!(hire(&hub, &boss, &to_worker(2)).await.status, 202);

    // One agent has room for the jobs of ten clients.
    for n in 3..12 {
        let other = trader(&hub, &format!("other-{n}"), 1).await;
        assert_eq!(hire(&hub, &other, &to_worker(n)).await.status, 202);
    }
    let late = trader(&hub, "late", 1).await;
    let full = hire(&hub, &late, &to_worker(12)).await;
    assert!(full.headers.contains_key("retry-after"), "{}", full.text);
    assert!(full.own_failure(Code::RateLimited).contains("10 open jobs already"));
    // A client that names no agent is not delayed by a full one.
    let hired = hire(&hub, &late, &job(12)).await;
    assert_eq!(hired.status, 202, "{}", hired.text);
    assert_ne!(hired.body["agent_id"], worker.id);
}

/// An agent that was stopped during a job can read the job with all its data; nobody else can.
async fn an_agent_is_shown_what_it_has_in_hand(setup: Setup) {
    let hub = setup.start();
    let (boss, worker) = (trader(&hub, "boss", 5).await, trader(&hub, "worker", 0).await);
    assert_eq!(hire(&hub, &boss, &with(job(1), "agent_id", worker.id.as_str())).await.status, 202);
    let (all, open) = ("/market/jobs", "/market/jobs?status=PENDING&handouts=true");
    let handout =
        async |key: &str, path: &str| hub.get(path, Some(key)).await.body["items"][0]["handout"].clone();
    let given = handout(&worker.key, open).await;
    assert_eq!((&given["job_id"], &given["input_data"]), (&job(1)["job_id"], &json!({"text": "x"})));
    for (key, path) in [(&worker.key, all), (&boss.key, open)] {
        assert_eq!(handout(key, path).await, Value::Null);
    }
    // The data that came with the job authenticates the agent.
    let url = given["callback_url"].as_str().unwrap();
    let path = &url[url.find("/market/").unwrap()..];
    let result = json!({"job_id": given["job_id"], "status": "SUCCESS", "output_data": {"entities": []}});
    assert_eq!(hub.post(path, None, &result).await.status, 200);
    assert_eq!(hub.get(open, Some(&worker.key)).await.body["items"], json!([]));
}

/// An offer whose schema accepts nothing of the request does not prevent the others.
async fn an_odd_schema_is_passed_over(setup: Setup) {
    let hub = setup.start();
    let boss = trader(&hub, "boss", 5).await;
    let offer = |schema: Value| {
        let skill = json!({"skill_name": "sum", "cost_per_call": 0.10, "input_schema": schema});
        json!({"agent_name": "worker", "skills": [skill]})
    };
    let mut odd = vec![];
    for n in 0..3 {
        let worker = trader(&hub, &format!("odd-{n}"), 0).await;
        let body = offer(json!({format!("nobody_says_this_{n}"): "string"}));
        assert_eq!(hub.post("/market/register", Some(&worker.key), &body).await.status, 200);
        odd.push(worker);
    }
    let asked = with(job(1), "skill_name", "sum");
    let what = hire(&hub, &boss, &asked).await;
    let what = what.own_failure(Code::Validation);
    assert!(what.contains("nobody_says_this_"), "{what}");
    let plain = trader(&hub, "plain", 0).await;
    let body = offer(json!({"text": "string"}));
    assert_eq!(hub.post("/market/register", Some(&plain.key), &body).await.status, 200);
    let hired = hire(&hub, &boss, &asked).await;
    assert_eq!((hired.status, &hired.body["agent_id"]), (202, &json!(plain.id)), "{}", hired.text);
    // A named agent reports the reason itself.
    let named = with(with(job(2), "skill_name", "sum"), "agent_id", odd[0].id.as_str());
    hire(&hub, &boss, &named).await.own_failure(Code::Validation);
}

/// Those who have nothing to lose do not keep out those who pay.
async fn jobs_without_a_budget_have_half_of_the_room(setup: Setup) {
    let hub = setup.config(|config| config.quotas.open_jobs = 1).start();
    let worker = trader(&hub, "worker", 0).await;
    let skill = json!({"skill_name": "analyze_text", "cost_per_call": 0});
    let body = json!({"agent_name": "worker", "skills": [skill]});
    assert_eq!(hub.post("/market/register", Some(&worker.key), &body).await.status, 200);
    let asked = |n: u32, budget: f64| with(with(job(n), "agent_id", worker.id.as_str()), "budget", budget);
    for n in 0..5 {
        let penniless = trader(&hub, &format!("penniless-{n}"), 0).await;
        assert_eq!(hire(&hub, &penniless, &asked(n, 0.0)).await.status, 202);
    }
    let penniless = trader(&hub, "penniless", 0).await;
    let full = hire(&hub, &penniless, &asked(5, 0.0)).await;
    let full = full.own_failure(Code::RateLimited);
    assert!(full.contains("5 open jobs without a budget"), "{full}");
    for n in 6..11 {
        let boss = trader(&hub, &format!("boss-{n}"), 1).await;
        assert_eq!(hire(&hub, &boss, &asked(n, 0.15)).await.status, 202);
    }
}
