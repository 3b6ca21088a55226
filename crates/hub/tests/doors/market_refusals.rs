//! Everything that the market refuses: amounts in every wrong spelling, and each of the document's error
//! codes. A refusal gives the reason and moves nothing: the visible ledger is the same before and after.

use crate::market::{BEGIN, Trader, assert_balanced, registration, trader, trader_at};
use crate::market_jobs::{ended, hire, job, success, text};
use crate::support::{Answer, OPERATOR, SOON, Setup, TestHub};
use chorus_protocol::code::Code;
use chorus_testkit::clock::ManualClock;
use chorus_testkit::receiver::{FakeAgent, Reply};
use reqwest::Method;
use serde_json::{Value, json};

/// Returns the visible state of all credits and offers.
async fn snapshot(hub: &TestHub) -> Vec<Value> {
    let mut seen = vec![];
    for path in [
        "/market/economy",
        "/market/ledger?owner=owner%20of%20boss&limit=200",
        "/market/ledger?owner=owner%20of%20worker&limit=200",
        "/market/wallets/owner%20of%20boss",
        "/market/wallets/owner%20of%20worker",
        "/market/skills",
    ] {
        let answer = hub.get(path, Some(OPERATOR)).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        seen.push(answer.body);
    }
    seen
}

async fn send(hub: &TestHub, path: &str, key: &str, body: String) -> Answer {
    let request = hub.request(Method::POST, path, Some(key)).header("content-type", "application/json");
    Answer::of(request.body(body)).await
}

/// Returns every place that takes an amount, with `AMOUNT` in it: the path, the key, the body, and the name in
/// the fault.
fn places(
    boss: &Trader,
    worker: &Trader,
    open: &Value,
    quote: &str,
) -> Vec<(String, String, String, &'static str)> {
    let with = |mut body: Value, at: &str| {
        *body.pointer_mut(at).unwrap() = json!("AMOUNT");
        body.to_string().replace("\"AMOUNT\"", "AMOUNT")
    };
    let issue = json!({"owner": boss.owner, "amount": 1});
    let transfer = json!({
        "transfer_id": "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "from_owner": boss.owner, "to_owner": worker.owner, "amount": 1
    });
    let quotes = json!({"skill_name": "analyze_text", "budget": 1});
    let at = |path: &str| path.to_owned();
    let result = format!("/market/jobs/{}/result", text(&open["job_id"]));
    let mut offered = registration("new", "new's", "0.10");
    offered["owner_id"] = json!(worker.owner);
    vec![
        (at("/market/jobs"), boss.key.clone(), with(job(2, &worker.id), "/budget"), "budget: "),
        (at("/market/transfer"), boss.owner_key.clone(), with(transfer, "/amount"), "amount: "),
        (at("/market/mint"), OPERATOR.into(), with(issue.clone(), "/amount"), "amount: "),
        (at("/market/burn"), OPERATOR.into(), with(issue, "/amount"), "amount: "),
        (at("/market/quotes"), boss.key.clone(), with(quotes, "/budget"), "budget: "),
        (
            format!("/market/quotes/{quote}/offer"),
            worker.key.clone(),
            "{\"price\": AMOUNT}".into(),
            "price: ",
        ),
        (result, worker.key.clone(), with(success(open), "/execution_cost"), "execution_cost: "),
        (
            at("/market/register"),
            worker.owner_key.clone(),
            with(offered, "/skills/0/cost_per_call"),
            "skills[0].cost_per_call: ",
        ),
    ]
}

#[tokio::test]
async fn amounts_that_are_none_are_refused_everywhere_and_nothing_moves() {
    let clock = ManualClock::new(BEGIN);
    let hub = Setup::new().clock(&clock).start();
    let (boss, worker) = (trader(&hub, "boss", 5).await, trader(&hub, "worker", 0).await);
    let open = job(1, &worker.id);
    hire(&hub, &boss.key, &open).await;
    let asked =
        hub.post("/market/quotes", Some(&boss.key), &json!({"skill_name": "analyze_text"})).await.body;
    let before = snapshot(&hub).await;
    let places = places(&boss, &worker, &open, &text(&asked["quote_id"]));
    let wrong = [
        "0.001",
        "0.105",
        "1.000",
        "-1",
        "-0.01",
        "-0",
        "1e1",
        "1E-2",
        "1e400",
        "\"0.10\"",
        "\"\"",
        "true",
        "[]",
        "{}",
        "92233720368547758.08",
        "100000000000000000000",
        "1e999",
    ];
    for (path, key, body, name) in &places {
        for amount in wrong {
            let answer = send(&hub, path, key, body.replace("AMOUNT", amount)).await;
            assert_eq!(answer.status, 400, "{path} {amount}: {}", answer.text);
            let why = answer.own_failure(Code::Validation);
            assert!(why.starts_with(name) || why.starts_with("body: "), "{path} {amount}: {why}");
        }
    }
    // Zero is not an amount to transfer, create or remove.
    for path in ["/market/transfer", "/market/mint", "/market/burn"] {
        let (_, key, body, _) = places.iter().find(|place| place.0 == path).unwrap();
        for zero in ["0", "0.0", "0.00"] {
            let answer = send(&hub, path, key, body.replace("AMOUNT", zero)).await;
            let why = answer.own_failure(Code::Validation);
            assert!(why.starts_with("amount: "), "{path}: {why}");
        }
    }
    for wrong in ["-1", "0.001", "1e1", "x"] {
        let found = hub.get(&format!("/market/discover?max_cost={wrong}"), None).await;
        assert!(found.own_failure(Code::Validation).starts_with("max_cost: "), "{wrong}");
    }
    assert_eq!(snapshot(&hub).await, before);
    assert_balanced(&hub).await;
}

/// One hundredth more than a wallet holds, and than all credits there can be.
#[tokio::test]
async fn huge_amounts_are_refused_and_nothing_moves() {
    let hub = TestHub::start();
    let (boss, worker) = (trader(&hub, "boss", 5).await, trader(&hub, "worker", 0).await);
    let before = snapshot(&hub).await;
    let most = chorus_protocol::market::Credits::MAX.to_string();
    for amount in ["5.01", "1000000", &most] {
        let transfer = json!({
            "transfer_id": "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "from_owner": boss.owner, "to_owner": worker.owner,
            "amount": 0
        });
        let body = transfer.to_string().replace("\"amount\":0", &format!("\"amount\":{amount}"));
        send(&hub, "/market/transfer", &boss.owner_key, body).await.own_failure(Code::TransferFailed);
        let body = job(1, &worker.id).to_string().replace("\"budget\":0.15", &format!("\"budget\":{amount}"));
        send(&hub, "/market/jobs", &boss.key, body).await.own_failure(Code::TransferFailed);
        let body = format!("{{\"owner\": {:?}, \"amount\": {amount}}}", boss.owner);
        send(&hub, "/market/burn", OPERATOR, body).await.own_failure(Code::TransferFailed);
    }
    let body = format!("{{\"owner\": {:?}, \"amount\": {most}}}", boss.owner);
    let minted = send(&hub, "/market/mint", OPERATOR, body).await;
    assert!((400..500).contains(&minted.status), "more than there may ever be: {}", minted.text);
    assert_eq!(snapshot(&hub).await, before);
    assert_balanced(&hub).await;
}

/// The document's five codes, each in its place.
#[tokio::test]
async fn every_code_of_the_document() {
    let clock = ManualClock::new(BEGIN);
    let hub = Setup::new().clock(&clock).start();
    let agent = FakeAgent::start().await;
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let before = snapshot(&hub).await;
    let by_hub = |mut job: Value| {
        job.as_object_mut().unwrap().remove("agent_id");
        job
    };
    let with = |name: &str, value: Value| {
        let mut job = job(1, &worker.id);
        job[name] = value;
        job
    };
    for (status, code, body) in [
        (422, Code::SkillMismatch, with("skill_name", json!("fly"))),
        (422, Code::SkillMismatch, by_hub(with("skill_name", json!("fly")))),
        (422, Code::BudgetInsufficient, with("budget", json!(0.09))),
        (422, Code::BudgetInsufficient, by_hub(with("budget", json!(0)))),
        (402, Code::TransferFailed, with("budget", json!(1.01))),
    ] {
        let answer = hub.post("/market/jobs", Some(&boss.key), &body).await;
        assert_eq!(answer.status, status, "{}", answer.text);
        assert!(!answer.own_failure(code).is_empty());
    }
    clock.advance(91_000);
    for body in [job(1, &worker.id), by_hub(job(1, &worker.id))] {
        let answer = hub.post("/market/jobs", Some(&boss.key), &body).await;
        assert_eq!((answer.status, answer.header("retry-after")), (503, "30"), "{}", answer.text);
        answer.own_failure(Code::AgentOffline);
    }
    // The agent is found, and gone before it is hired.
    let beat = json!({"agent_id": worker.id});
    assert_eq!(hub.post("/market/heartbeat", Some(&worker.key), &beat).await.status, 204);
    let gone = trader(&hub, "gone", 0).await;
    let found = hub.get("/market/discover?skill=analyze_text", None).await.body;
    assert!(
        found["agents"].as_array().unwrap().iter().any(|agent| agent["agent_id"] == json!(gone.id)),
        "{found}"
    );
    assert_eq!(hub.delete(&format!("/market/agents/{}", gone.id), Some(&gone.key)).await.status, 200);
    hub.post("/market/jobs", Some(&boss.key), &job(1, &gone.id)).await.own_failure(Code::NotFound);
    assert_eq!(snapshot(&hub).await, before);

    // A later failure ends the job, and the credits return.
    let failing = trader_at(&hub, "failing", 0, Some(&format!("http://{}/jobs", agent.addr()))).await;
    let failed = json!({"job_id": job(3, &failing.id)["job_id"], "status": "FAILURE"});
    agent.set(Reply::Json(200, failed));
    hire(&hub, &boss.key, &job(3, &failing.id)).await;
    agent.wait_for(1, SOON).await;
    assert_eq!(ended(&hub, &boss.key, &job(3, &failing.id)).await["error"]["code"], "EXECUTION_ERROR");
    hire(&hub, &boss.key, &job(4, &worker.id)).await;
    clock.advance(300_000);
    assert_eq!(ended(&hub, &boss.key, &job(4, &worker.id)).await["error"]["code"], "AGENT_OFFLINE");
    assert_eq!(snapshot(&hub).await[3..5], before[3..5], "all of it came back");
    assert_balanced(&hub).await;
}
