//! What a stranger tries on the market besides taking credits: filling up the disk, learning of others' jobs, praising itself.

use crate::market::{Trader, trader};
use crate::support::{OPERATOR, Setup, TestHub};
use chorus_protocol::code::Code;
use serde_json::{Value, json};

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

#[tokio::test]
async fn results_count_for_who_reports_them() {
    let hub = Setup::new().config(|config| config.quotas.agent_bytes = 50_000).start();
    let (boss, worker) = (trader(&hub, "boss", 5).await, trader(&hub, "worker", 0).await);
    let output = "x".repeat(30_000);
    assert_eq!(done(&hub, &boss, &worker, 1, &output).await.status, 200);
    done(&hub, &boss, &worker, 2, &output).await.own_failure(Code::QuotaExceeded);
    // A small one still fits.
    assert_eq!(done(&hub, &boss, &worker, 3, "x").await.status, 200);
}

#[tokio::test]
async fn who_owns_both_sides_praises_nobody() {
    let hub = TestHub::start();
    let (boss, worker) = (trader(&hub, "boss", 5).await, trader(&hub, "worker", 0).await);
    let anna = hub.account("anna@example.org").await;
    for agent in [&boss, &worker] {
        let claimed = hub.post("/api/v1/agents/claim", Some(&anna), &json!({"api_key": agent.key})).await;
        assert_eq!(claimed.status, 200, "{}", claimed.text);
    }
    let taken = done(&hub, &boss, &worker, 1, "x").await;
    assert_eq!((taken.status, &taken.body["settled"]), (200, &json!(0.1)), "{}", taken.text);
    let thought = hub.get(&format!("/market/reputation/{}", worker.id), None).await.body;
    assert_eq!((&thought["reputation_score"], &thought["changes"]), (&json!(50.0), &json!([])));
}

#[tokio::test]
async fn a_transfer_tells_nothing_of_others_jobs() {
    let hub = TestHub::start();
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
