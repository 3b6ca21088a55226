//! Reputation: which jobs count, that it cannot be gained or lost without work, and that agents may decline.

use crate::market::{BEGIN, Trader, assert_balanced, balance, registration, trader, trader_at};
use crate::market_jobs::{ended, hire, id, job, reputation, result, success};
use crate::support::{SOON, Setup, TestHub, eventually, on_both};
use chorus_protocol::code::Code;
use chorus_testkit::clock::ManualClock;
use chorus_testkit::receiver::{FakeAgent, Reply};
use serde_json::{Value, json};

on_both![
    a_deadline_that_nobody_can_keep_costs_nothing,
    of_one_payer_five_jobs_a_day_count,
    money_that_flows_back_ends_the_praise,
    declines_do_not_use_up_the_jobs_of_a_day,
    a_price_counts_up_and_down_alike,
    declining_in_time_costs_nothing_and_is_shown,
    a_slow_skill_may_be_declined_later,
    an_endpoint_declines_by_its_status,
    a_polled_inbox_hands_out_jobs,
];

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

fn with(mut job: Value, name: &str, value: Value) -> Value {
    job[name] = value;
    job
}

fn failure(job: &Value) -> Value {
    json!({"job_id": job["job_id"], "status": "FAILURE", "error_message": "no luck"})
}

fn rejection(job: &Value) -> Value {
    json!({"job_id": job["job_id"], "status": "REJECTED", "error_message": "not today"})
}

/// Returns the reasons of the newest entries, newest first; null for one that counted.
async fn reasons(hub: &TestHub, agent: &Trader) -> Vec<Value> {
    let thought = hub.get(&format!("/market/reputation/{}?limit=200", agent.id), None).await.body;
    let lines = thought["changes"].as_array().unwrap().iter();
    lines.map(|line| line.get("not_counted").cloned().unwrap_or_default()).collect()
}

/// Fetches the agent's open jobs, as a restarted program does.
async fn poll(hub: &TestHub, agent: &Trader) {
    let open = hub.get("/market/jobs?status=PENDING&handouts=true", Some(&agent.key)).await;
    assert_eq!(open.status, 200, "{}", open.text);
}

/// Hires the agent and reports this result.
async fn done(hub: &TestHub, boss: &Trader, worker: &Trader, job: &Value, said: &Value) -> Value {
    hire(hub, &boss.key, job).await;
    let taken = result(hub, &worker.key, job, said).await;
    assert_eq!(taken.status, 200, "{}", taken.text);
    taken.body
}

async fn a_deadline_that_nobody_can_keep_costs_nothing(setup: Setup) {
    let clock = ManualClock::new(BEGIN);
    let hub = setup.clock(&clock).start();
    let (eve, worker) = (trader(&hub, "eve", 4).await, trader(&hub, "worker", 0).await);
    let jobs: Vec<_> =
        (1..=23).map(|n| with(job(n, &worker.id), "deadline_ms", json!(1000 + i64::from(n)))).collect();
    for job in &jobs {
        hire(&hub, &eve.key, job).await;
    }
    poll(&hub, &worker).await;
    clock.advance(2000);
    for job in &jobs {
        assert_eq!(ended(&hub, &eve.key, job).await["status"], "FAILURE");
    }
    assert_eq!(reputation(&hub, &worker).await, 50.0);
    let mut reasons = reasons(&hub, &worker).await;
    assert_eq!(reasons.len(), 23);
    reasons.retain(|reason| reason != "short_time" && reason != "not_handed");
    assert_eq!(reasons, Vec::<Value>::new());
    assert_eq!(balance(&hub, &eve.owner).await, (json!(4.0), json!(0.0)));
    assert_balanced(&hub).await;
}

async fn of_one_payer_five_jobs_a_day_count(setup: Setup) {
    let clock = ManualClock::new(BEGIN);
    let hub = setup.clock(&clock).start();
    let (boss, worker) = (trader(&hub, "boss", 10).await, trader(&hub, "worker", 0).await);
    for n in 1..=20 {
        let job = job(n, &worker.id);
        done(&hub, &boss, &worker, &job, &success(&job)).await;
    }
    assert_eq!(reputation(&hub, &worker).await, 55.0);
    let mut expected = vec![json!("daily_limit"); 15];
    expected.extend(vec![Value::Null; 5]);
    assert_eq!(reasons(&hub, &worker).await, expected);
    // Failures count toward the same number.
    let failed = job(21, &worker.id);
    done(&hub, &boss, &worker, &failed, &failure(&failed)).await;
    assert_eq!(reputation(&hub, &worker).await, 55.0);
    // Another payer has five of its own, and so does the next day.
    let other = trader(&hub, "other", 1).await;
    let next = job(22, &worker.id);
    done(&hub, &other, &worker, &next, &success(&next)).await;
    assert_eq!(reputation(&hub, &worker).await, 56.0);
    // A sign of life from before the jump, written after it, would look like one from before the clock was set back.
    hub.background_round().await;
    clock.advance(DAY_MS + 1);
    for agent in [&boss, &worker] {
        let beat = json!({"agent_id": agent.id});
        assert_eq!(hub.post("/market/heartbeat", Some(&agent.key), &beat).await.status, 204);
    }
    let next = job(23, &worker.id);
    done(&hub, &boss, &worker, &next, &success(&next)).await;
    assert_eq!(reputation(&hub, &worker).await, 57.0);
}

async fn money_that_flows_back_ends_the_praise(setup: Setup) {
    let clock = ManualClock::new(BEGIN);
    let hub = setup.clock(&clock).start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 1).await);
    let first = job(1, &worker.id);
    done(&hub, &boss, &worker, &first, &success(&first)).await;
    assert_eq!(reputation(&hub, &worker).await, 51.0);
    let back = json!({"transfer_id": "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "from_owner": worker.owner,
        "to_owner": boss.owner, "amount": 0.10});
    assert_eq!(hub.post("/market/transfer", Some(&worker.owner_key), &back).await.status, 200);
    for (n, said) in [(2, success as fn(&Value) -> Value), (3, failure)] {
        let job = job(n, &worker.id);
        done(&hub, &boss, &worker, &job, &said(&job)).await;
    }
    // The opposite direction does not count either, because the first job paid for it.
    let other = job(4, &boss.id);
    done(&hub, &worker, &boss, &other, &success(&other)).await;
    assert_eq!(reputation(&hub, &worker).await, 51.0);
    assert_eq!(reputation(&hub, &boss).await, 50.0);
    assert_eq!(reasons(&hub, &worker).await[..2], [json!("paid_both_ways"), json!("paid_both_ways")]);
    assert_eq!(reasons(&hub, &boss).await, [json!("paid_both_ways")]);
    // After 30 days they count as strangers again.
    // A sign of life from before the jump, written after it, would look like one from before the clock was set back.
    hub.background_round().await;
    clock.advance(31 * DAY_MS);
    let beat = json!({"agent_id": worker.id});
    assert_eq!(hub.post("/market/heartbeat", Some(&worker.key), &beat).await.status, 204);
    let next = job(5, &worker.id);
    done(&hub, &boss, &worker, &next, &success(&next)).await;
    assert_eq!(reputation(&hub, &worker).await, 52.0);
}

/// Declines use up none of the five jobs a day that count, in neither direction.
async fn declines_do_not_use_up_the_jobs_of_a_day(setup: Setup) {
    let hub = setup.start();
    let (boss, worker) = (trader(&hub, "boss", 5).await, trader(&hub, "worker", 0).await);
    for n in 1..=6 {
        let job = job(n, &worker.id);
        hire(&hub, &boss.key, &job).await;
        assert_eq!(result(&hub, &worker.key, &job, &rejection(&job)).await.status, 200);
    }
    let job = job(7, &worker.id);
    done(&hub, &boss, &worker, &job, &success(&job)).await;
    assert_eq!(reputation(&hub, &worker).await, 51.0);
    let expected = [Value::Null, json!("daily_limit"), json!("declined")];
    assert_eq!(reasons(&hub, &worker).await[..3], expected);
}

/// The listed price decides, not the amount paid: an agent that waives its price rises as much as it would
/// fall.
async fn a_price_counts_up_and_down_alike(setup: Setup) {
    let hub = setup.start();
    let boss = trader(&hub, "boss", 5).await;
    for (first, name, price, up, down, reason) in [
        (10, "free", "0", 50.0, 50.0, json!("low_price")),
        (20, "cheap", "0.09", 50.0, 50.0, json!("low_price")),
        (30, "fair", "0.10", 51.0, 46.5, Value::Null),
    ] {
        let made = hub.post("/market/register", None, &registration(name, &format!("{name}'s"), price)).await;
        assert_eq!(made.status, 201, "{}", made.text);
        let key = |name: &str| made.body[name].as_str().unwrap().to_owned();
        let worker = Trader {
            id: key("agent_id"),
            key: key("api_key"),
            owner: format!("{name}'s"),
            owner_key: key("owner_key"),
        };
        let (one, two) = (job(first, &worker.id), job(first + 1, &worker.id));
        let unpaid = with(success(&one), "execution_cost", json!(0));
        assert_eq!(done(&hub, &boss, &worker, &one, &unpaid).await["settled"], 0.0);
        assert_eq!(reputation(&hub, &worker).await, up, "{name}");
        done(&hub, &boss, &worker, &two, &failure(&two)).await;
        assert_eq!(reputation(&hub, &worker).await, down, "{name}");
        assert_eq!(reasons(&hub, &worker).await, [reason.clone(), reason]);
    }
}

async fn declining_in_time_costs_nothing_and_is_shown(setup: Setup) {
    let clock = ManualClock::new(BEGIN);
    let hub = setup.clock(&clock).start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let one = job(1, &worker.id);
    hire(&hub, &boss.key, &one).await;
    poll(&hub, &worker).await;
    clock.advance(30_000);
    for _ in 0..2 {
        let taken = result(&hub, &worker.key, &one, &rejection(&one)).await;
        assert_eq!((taken.status, &taken.body["status"]), (200, &json!("REJECTED")), "{}", taken.text);
    }
    result(&hub, &worker.key, &one, &success(&one)).await.own_failure(Code::Conflict);
    let ended = hub.get(&format!("/market/jobs/{}", id(&one)), Some(&boss.key)).await.body;
    assert_eq!(ended["error"], json!({"code": "REJECTED", "message": "not today"}));
    assert_eq!(balance(&hub, &boss.owner).await, (json!(1.0), json!(0.0)));
    let listed = hub.get("/market/jobs?status=REJECTED", Some(&boss.key)).await.body;
    assert_eq!(listed["items"][0]["job_id"], one["job_id"], "{listed}");
    // A late decline is a failure, and says so.
    let two = job(2, &worker.id);
    hire(&hub, &boss.key, &two).await;
    poll(&hub, &worker).await;
    clock.advance(30_001);
    let taken = result(&hub, &worker.key, &two, &rejection(&two)).await;
    assert_eq!(taken.body["status"], "FAILURE", "{}", taken.text);
    let ended = hub.get(&format!("/market/jobs/{}", id(&two)), Some(&boss.key)).await.body;
    let why = ended["error"]["message"].as_str().unwrap();
    assert!(why.starts_with("not today; it declined later than 30 s"), "{why}");
    assert_eq!(reputation(&hub, &worker).await, 45.5);
    assert_eq!(reasons(&hub, &worker).await, [Value::Null, json!("declined")]);
    let beat = json!({"agent_id": worker.id});
    assert_eq!(hub.post("/market/heartbeat", Some(&worker.key), &beat).await.status, 204);
    let found = hub.get("/market/discover?skill=analyze_text", None).await.body;
    let shown =
        found["agents"].as_array().unwrap().iter().find(|agent| agent["agent_id"] == json!(worker.id));
    assert_eq!(shown.unwrap()["decline_rate"], 0.5, "{found}");
    for path in ["agents", "reputation"] {
        let shown = hub.get(&format!("/market/{path}/{}", worker.id), None).await.body;
        assert_eq!(shown["decline_rate"], 0.5, "{shown}");
    }
    assert_balanced(&hub).await;
}

/// A skill with a longer duration leaves more time to decline.
async fn a_slow_skill_may_be_declined_later(setup: Setup) {
    let clock = ManualClock::new(BEGIN);
    let hub = setup.clock(&clock).start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let mut offer = registration("worker", &worker.owner, "0.10");
    offer["agent_id"] = json!(worker.id);
    offer["skills"][0]["min_deadline_ms"] = json!(600_000);
    assert_eq!(hub.post("/market/register", Some(&worker.owner_key), &offer).await.status, 200);
    let one = with(job(1, &worker.id), "deadline_ms", json!(600_000));
    hire(&hub, &boss.key, &one).await;
    poll(&hub, &worker).await;
    clock.advance(590_000);
    assert_eq!(result(&hub, &worker.key, &one, &rejection(&one)).await.body["status"], "REJECTED");
    assert_eq!(reputation(&hub, &worker).await, 50.0);
}

async fn an_endpoint_declines_by_its_status(setup: Setup) {
    let clock = ManualClock::new(BEGIN);
    let hub = setup.clock(&clock).start();
    let agent = FakeAgent::start().await;
    let boss = trader(&hub, "boss", 1).await;
    let worker = trader_at(&hub, "worker", 0, Some(&format!("http://{}/jobs", agent.addr()))).await;
    let own = |code: &str| json!({"error": {"code": code, "message": "no"}});
    for (n, status, code) in [(1, 402, "TRANSFER_FAILED"), (2, 422, "SKILL_MISMATCH")] {
        agent.set(Reply::Json(status, own(code)));
        let job = job(n, &worker.id);
        hire(&hub, &boss.key, &job).await;
        let ended = ended(&hub, &boss.key, &job).await;
        assert_eq!(
            (&ended["status"], &ended["error"]["code"]),
            (&json!("REJECTED"), &json!(code)),
            "{ended}"
        );
    }
    // A FAILURE in the response keeps its code and counts as a failure.
    let three = job(3, &worker.id);
    let failed = with(failure(&three), "error_code", json!("SKILL_MISMATCH"));
    agent.set(Reply::Json(200, failed));
    hire(&hub, &boss.key, &three).await;
    let failed = ended(&hub, &boss.key, &three).await;
    assert_eq!(failed["error"], json!({"code": "SKILL_MISMATCH", "message": "no luck"}));
    assert_eq!(reputation(&hub, &worker).await, 45.5);
    // A busy worker is asked again until the deadline. Its reputation does not change, but it has declined the job.
    agent.set(Reply::Json(429, json!({})));
    let four = job(4, &worker.id);
    hire(&hub, &boss.key, &four).await;
    agent.wait_for(4, SOON).await;
    let tried = async || {
        let shown = hub.get(&format!("/market/jobs/{}", id(&four)), Some(&boss.key)).await.body;
        let attempts =
            crate::catch_up::number(&hub, "SELECT COUNT(*) AS count FROM attempts WHERE status = 429").await;
        assert_eq!(shown["status"], "PENDING");
        attempts
    };
    eventually(tried, |attempts| *attempts >= 1).await;
    clock.advance(300_000);
    assert_eq!(ended(&hub, &boss.key, &four).await["status"], "FAILURE");
    assert_eq!(reputation(&hub, &worker).await, 45.5);
    let expected = [json!("declined"), Value::Null, json!("declined"), json!("declined")];
    assert_eq!(reasons(&hub, &worker).await, expected);
}

/// A worker that reads its inbox by cursor has received those jobs: silence costs it as much as others.
async fn a_polled_inbox_hands_out_jobs(setup: Setup) {
    let clock = ManualClock::new(BEGIN);
    let hub = setup.clock(&clock).start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let one = job(1, &worker.id);
    hire(&hub, &boss.key, &one).await;
    let read = hub.get("/agent/messages?kind=all", Some(&worker.key)).await;
    assert_eq!(read.body["data"][0]["data"]["job_id"], one["job_id"], "{}", read.text);
    clock.advance(300_000);
    assert_eq!(ended(&hub, &boss.key, &one).await["status"], "FAILURE");
    assert_eq!(reputation(&hub, &worker).await, 45.5);
}
