//! Abuse of the market other than theft: filling the disk, learning of others' jobs, and self-praise.

use crate::market::{Trader, trader};
use crate::support::{OPERATOR, Setup, TestHub, on_both};
use chorus_protocol::code::Code;
use serde_json::{Value, json};

on_both![
    results_count_for_who_reports_them,
    who_owns_both_sides_praises_nobody,
    a_transfer_tells_nothing_of_others_jobs,
    the_best_that_wants_to_hear_from_one_is_hired,
    an_address_for_results_ends_with_its_agents_key,
    results_are_forgotten_like_everything_else,
    what_an_owner_asks_for_counts_for_the_owner,
    a_block_holds_for_the_owners_key,
    offers_count_though_nobody_is_asked,
    a_disabled_agents_owner_key_is_out,
];

fn job(n: u32, agent: &str) -> Value {
    json!({
        "job_id": format!("f81d4fae-7dec-11d0-a765-{n:012}"), "agent_id": agent,
        "skill_name": "analyze_text", "input_data": {"text": "x"}, "budget": 0.15
    })
}

async fn done(hub: &TestHub, boss: &Trader, worker: &Trader, n: u32, output: &str) -> crate::support::Answer {
    let job = job(n, &worker.id);
    let hired = hub.post("/market/jobs", Some(&boss.key), &job).await;
    assert_eq!(hired.status, 202, "{}", hired.text);
    let path = format!("/market/jobs/{}/result", job["job_id"].as_str().unwrap());
    let result = json!({"job_id": job["job_id"], "status": "SUCCESS", "output_data": {"entities": [], "more": output}});
    hub.post(&path, Some(&worker.key), &result).await
}

async fn results_count_for_who_reports_them(setup: Setup) {
    let hub = setup.config(|config| config.quotas.agent_bytes = 50_000).start();
    let (boss, worker) = (trader(&hub, "boss", 5).await, trader(&hub, "worker", 0).await);
    let output = "x".repeat(30_000);
    assert_eq!(done(&hub, &boss, &worker, 1, &output).await.status, 200);
    done(&hub, &boss, &worker, 2, &output).await.own_failure(Code::QuotaExceeded);
    // A small result still fits.
    assert_eq!(done(&hub, &boss, &worker, 3, "x").await.status, 200);
}

async fn who_owns_both_sides_praises_nobody(setup: Setup) {
    let hub = setup.start();
    let (boss, worker) = (trader(&hub, "boss", 5).await, trader(&hub, "worker", 0).await);
    let anna = hub.account("anna@example.org").await;
    for agent in [&boss, &worker] {
        let claimed = hub.post("/api/v1/agents/claim", Some(&anna), &json!({"api_key": agent.key})).await;
        assert_eq!(claimed.status, 200, "{}", claimed.text);
    }
    let allowed = json!({"credits_per_day": 1});
    let allowance = format!("/api/v1/agents/{}/allowance", boss.id);
    assert_eq!(hub.ask("PUT", &allowance, Some(&anna), &allowed).await.status, 200);
    let mint = json!({"owner": hub.get("/api/v1/me", Some(&anna)).await.body["id"], "amount": 5});
    assert_eq!(hub.post("/market/mint", Some(OPERATOR), &mint).await.status, 200);
    let taken = done(&hub, &boss, &worker, 1, "x").await;
    assert_eq!((taken.status, &taken.body["settled"]), (200, &json!(0.1)), "{}", taken.text);
    let thought = hub.get(&format!("/market/reputation/{}", worker.id), None).await.body;
    let line = &thought["changes"][0];
    assert_eq!((&thought["reputation_score"], &line["not_counted"]), (&json!(50.0), &json!("own_agent")));
}

async fn a_transfer_tells_nothing_of_others_jobs(setup: Setup) {
    let hub = setup.start();
    let (boss, worker) = (trader(&hub, "boss", 5).await, trader(&hub, "worker", 0).await);
    let (eve, ally) = (trader(&hub, "eve", 5).await, trader(&hub, "ally", 0).await);
    assert_eq!(done(&hub, &boss, &worker, 1, "x").await.status, 200);
    let pay = |n: u32, from: &Trader, job: u32| {
        json!({
            "transfer_id": format!("f81d4fae-7dec-11d0-a765-1{n:011}"), "from_owner": from.owner,
            "to_owner": ally.owner, "amount": 0.01, "job_id": format!("f81d4fae-7dec-11d0-a765-{job:012}")
        })
    };
    for (n, of) in [(1, 1), (2, 99)] {
        let paid = hub.post("/market/transfer", Some(&eve.owner_key), &pay(n, &eve, of)).await;
        assert_eq!(paid.status, 200, "{}", paid.text);
    }
    let twice = hub.post("/market/transfer", Some(&boss.owner_key), &pay(3, &boss, 1)).await;
    twice.own_failure(Code::Conflict);
    let ledger = hub.get("/market/ledger?job=f81d4fae-7dec-11d0-a765-000000000001", Some(OPERATOR)).await;
    assert_eq!(ledger.status, 200);
}

/// A worker who blocked the client is not hired by it: not by name, not as the best, and not by a quote.
async fn the_best_that_wants_to_hear_from_one_is_hired(setup: Setup) {
    let hub = setup.start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let block = json!({"who": boss.id});
    let blocked = hub.post("/api/v1/me/blocks", Some(&worker.key), &block).await;
    assert!(blocked.status < 300, "{}", blocked.text);
    hub.post("/market/jobs", Some(&boss.key), &job(1, &worker.id)).await.own_failure(Code::Forbidden);
    let mut any = job(1, &worker.id);
    any.as_object_mut().unwrap().remove("agent_id");
    let nobody = hub.post("/market/jobs", Some(&boss.key), &any).await;
    assert!(nobody.own_failure(Code::Forbidden).contains("wants to hear from you"));
    let ask = json!({"skill_name": "analyze_text"});
    hub.post("/market/quotes", Some(&boss.key), &ask).await.own_failure(Code::Forbidden);
    // The next best is hired.
    let other = trader(&hub, "other", 0).await;
    let hired = hub.post("/market/jobs", Some(&boss.key), &any).await;
    assert_eq!((hired.status, &hired.body["agent_id"]), (202, &json!(other.id)), "{}", hired.text);
    let offers = hub.post("/market/quotes", Some(&boss.key), &ask).await.body["offers"].clone();
    assert_eq!((offers.as_array().unwrap().len(), &offers[0]["agent_id"]), (1, &json!(other.id)));
}

/// The callback address for a job's result ends with the agent's key.
async fn an_address_for_results_ends_with_its_agents_key(setup: Setup) {
    let hub = setup.start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let mut inbox = hub.inbox(&worker.key, None).await;
    let job = job(1, &worker.id);
    assert_eq!(hub.post("/market/jobs", Some(&boss.key), &job).await.status, 202);
    let handed = inbox.event("job").await;
    let callback = handed["callback_url"].as_str().unwrap().strip_prefix(&hub.url).unwrap().to_owned();
    let reset =
        hub.post(&format!("/api/v1/agents/{}/key/reset", worker.id), Some(OPERATOR), &json!({})).await;
    assert_eq!(reset.status, 200, "{}", reset.text);
    let result = json!({"job_id": job["job_id"], "status": "SUCCESS", "output_data": {"entities": []}});
    hub.post(&callback, None, &result).await.own_failure(Code::Gone);
    assert_eq!(hub.get("/market/jobs", Some(&boss.key)).await.body["items"][0]["status"], "PENDING");
    // The job is delivered again to the holder of the new key, with a valid address.
    let key = reset.body["api_key"].as_str().unwrap();
    let mut inbox = hub.inbox(key, Some("0")).await;
    let handed = inbox.event("job").await;
    let callback = handed["callback_url"].as_str().unwrap().strip_prefix(&hub.url).unwrap().to_owned();
    assert_eq!(hub.post(&callback, None, &result).await.body["status"], "SUCCESS");
}

/// Results of jobs are deleted like everything else, and their bytes are freed.
async fn results_are_forgotten_like_everything_else(setup: Setup) {
    let clock = chorus_testkit::clock::ManualClock::new(crate::market::BEGIN);
    let day = std::time::Duration::from_hours(24);
    let hub = setup.clock(&clock).config(|config| config.retention = Some(day)).start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    assert_eq!(done(&hub, &boss, &worker, 1, &"x".repeat(30_000)).await.status, 200);
    let path = format!("/market/jobs/{}", job(1, "")["job_id"].as_str().unwrap());
    let shown = async || hub.get(&path, Some(&boss.key)).await.body;
    assert!(shown().await["result"].is_object());
    clock.advance(25 * 60 * 60 * 1000);
    let shown = crate::support::eventually(shown, |shown| shown.get("result").is_none()).await;
    assert_eq!((&shown["status"], &shown["settled"]), (&json!("SUCCESS"), &json!(0.1)), "{shown}");
}

/// Requests of an owner key count for its owner, and not for the agent it reaches.
async fn what_an_owner_asks_for_counts_for_the_owner(setup: Setup) {
    let hub = setup.config(|config| config.quotas.agent_bytes = 50_000).start();
    let (eve, worker) = (trader(&hub, "eve", 5).await, trader(&hub, "worker", 0).await);
    let _open = hub.inbox(&worker.key, None).await;
    let used =
        async || hub.get("/api/v1/me", Some(&worker.key)).await.body["quotas"]["agent_bytes"]["used"].clone();
    let before = used().await;
    let mut big = job(1, &worker.id);
    big["input_data"]["text"] = json!("x".repeat(30_000));
    assert_eq!(hub.post("/market/jobs", Some(&eve.owner_key), &big).await.status, 202);
    big["job_id"] = job(2, "")["job_id"].clone();
    let refused = hub.post("/market/jobs", Some(&eve.owner_key), &big).await;
    assert!(refused.own_failure(Code::QuotaExceeded).contains("agent_bytes"));
    let ask = json!({"skill_name": "analyze_text", "input_data": {"text": "x".repeat(30_000)}});
    hub.post("/market/quotes", Some(&eve.owner_key), &ask).await.own_failure(Code::QuotaExceeded);
    // Nothing counts for the worker.
    assert_eq!(used().await, before);
    let path = format!("/market/jobs/{}/result", job(1, "")["job_id"].as_str().unwrap());
    let result = json!({"job_id": job(1, "")["job_id"], "status": "SUCCESS", "output_data": {"entities": [], "more": "x".repeat(30_000)}});
    assert_eq!(hub.post(&path, Some(&worker.key), &result).await.status, 200);
}

/// Blocking an agent also blocks the owner key of the wallet it earns for.
async fn a_block_holds_for_the_owners_key(setup: Setup) {
    let hub = setup.start();
    let (eve, worker) = (trader(&hub, "eve", 5).await, trader(&hub, "worker", 0).await);
    assert_eq!(hub.post("/market/jobs", Some(&eve.owner_key), &job(1, &worker.id)).await.status, 202);
    let blocked = hub.post("/api/v1/me/blocks", Some(&worker.key), &json!({"who": eve.id})).await;
    assert!(blocked.status < 300, "{}", blocked.text);
    let hire = job(2, &worker.id);
    hub.post("/market/jobs", Some(&eve.owner_key), &hire).await.own_failure(Code::Forbidden);
    let ask = json!({"skill_name": "analyze_text", "limit": 5});
    let quote = hub.post("/market/quotes", Some(&eve.owner_key), &ask).await;
    // Only its own agent makes an offer.
    let offers = quote.body["offers"].as_array().cloned().unwrap_or_default();
    assert!(offers.iter().all(|offer| offer["agent_id"] != json!(worker.id)), "{}", quote.text);
    let other = trader(&hub, "other", 1).await;
    assert_eq!(hub.post("/market/jobs", Some(&other.owner_key), &hire).await.status, 202);
}

/// Quotes without a matching agent are stored and counted like others, until they are deleted.
async fn offers_count_though_nobody_is_asked(setup: Setup) {
    let clock = chorus_testkit::clock::ManualClock::new(crate::market::BEGIN);
    let hub = setup.clock(&clock).config(|config| config.quotas.agent_bytes = 50_000).start();
    let (eve, worker) = (trader(&hub, "eve", 5).await, trader(&hub, "worker", 0).await);
    let ask =
        json!({"skill_name": "analyze_text", "input_data": {"text": "x".repeat(30_000)}, "answer_ms": 0});
    for key in [&eve.owner_key, &eve.key] {
        let asked = hub.post("/market/quotes", Some(key), &ask).await;
        if key == &eve.owner_key {
            assert_eq!(asked.status, 201, "{}", asked.text);
        } else {
            asked.own_failure(Code::QuotaExceeded);
        }
    }
    clock.advance(25 * 60 * 60 * 1000);
    // Old quotes are deleted periodically, and first when a hub starts.
    let hub = hub.restart(|_| {}).await;
    let again = async || {
        // A heartbeat, after this time.
        hub.post(
            "/market/register",
            Some(&worker.key),
            &crate::market::registration("worker", &worker.owner, "0.10"),
        )
        .await;
        hub.post("/market/quotes", Some(&eve.owner_key), &ask).await
    };
    crate::support::eventually(again, |asked| asked.status == 201).await;
}

/// Disabling an agent also disables its owner key: the credits stay where they are until the operator enables
/// it.
async fn a_disabled_agents_owner_key_is_out(setup: Setup) {
    let hub = setup.start();
    let (eve, other) = (trader(&hub, "eve", 5).await, trader(&hub, "other", 0).await);
    let pay = json!({
        "transfer_id": "f81d4fae-7dec-11d0-a765-100000000001", "from_owner": eve.owner, "to_owner": other.owner, "amount": 1
    });
    let operate = async |what: &str| {
        let path = format!("/api/v1/operator/agents/{}/{what}", eve.id);
        let done = hub.post(&path, Some(OPERATOR), &json!({})).await;
        assert_eq!(done.status, 200, "{}", done.text);
    };
    // Cached keys are not valid beyond this.
    let wallet = format!("/market/wallets/{}", eve.owner.replace(' ', "%20"));
    assert_eq!(hub.get(&wallet, Some(&eve.owner_key)).await.status, 200);
    let sibling = crate::market::registration("sibling", &eve.owner, "0.10");
    let sibling = hub.post("/market/register", Some(&eve.owner_key), &sibling).await;
    let sibling = sibling.body["api_key"].as_str().unwrap().to_owned();
    operate("disable").await;
    let refused = hub.post("/market/transfer", Some(&eve.owner_key), &pay).await;
    assert!(refused.own_failure(Code::Forbidden).contains("this owner is disabled"), "{}", refused.text);
    let anew = crate::market::registration("another", &eve.owner, "0.10");
    hub.post("/market/register", Some(&eve.owner_key), &anew).await.own_failure(Code::Forbidden);
    // Another agent of that owner cannot spend the credits with its own key either.
    let hire = job(1, &other.id);
    let refused = hub.post("/market/jobs", Some(&sibling), &hire).await;
    assert!(refused.own_failure(Code::Forbidden).contains("this owner is disabled"), "{}", refused.text);
    operate("enable").await;
    assert_eq!(hub.post("/market/jobs", Some(&sibling), &hire).await.status, 202);
    assert_eq!(hub.post("/market/transfer", Some(&eve.owner_key), &pay).await.status, 200);
}
