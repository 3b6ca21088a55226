//! Jobs through the hub: hiring, delivery, outcome, and a single payment.

use crate::market::{BEGIN, Trader, assert_balanced, balance, registration, trader};
use crate::support::{Answer, OPERATOR, Setup, TestHub, eventually};
use chorus_protocol::code::Code;
use chorus_testkit::clock::ManualClock;
use serde_json::{Value, json};

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

/// Returns the document's job, for this agent.
pub(crate) fn job(n: u32, agent: &str) -> Value {
    json!({
        "job_id": format!("f81d4fae-7dec-11d0-a765-{n:012}"), "agent_id": agent,
        "skill_name": "analyze_text", "input_data": {"text": "Revenue for Q3 was $42,000..."},
        "budget": 0.15, "currency": "chorus_credits_v1", "timestamp_utc": "2026-02-11T14:15:09Z"
    })
}

pub(crate) fn id(job: &Value) -> String {
    text(&job["job_id"])
}

/// Returns the document's result.
pub(crate) fn success(job: &Value) -> Value {
    json!({
        "job_id": job["job_id"], "status": "SUCCESS",
        "output_data": {"entities": [{"type": "revenue", "value": 42000, "period": "Q3"}]},
        "execution_cost": 0.10, "execution_time_ms": 1250, "error_message": null, "timestamp_utc": "2026-02-11T14:15:09Z"
    })
}

pub(crate) async fn hire(hub: &TestHub, key: &str, job: &Value) -> Value {
    let answer = hub.post("/market/jobs", Some(key), job).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    answer.body
}

pub(crate) async fn result(hub: &TestHub, key: &str, job: &Value, result: &Value) -> Answer {
    hub.post(&format!("/market/jobs/{}/result", id(job)), Some(key), result).await
}

pub(crate) async fn shown(hub: &TestHub, key: &str, job: &Value) -> Value {
    let answer = hub.get(&format!("/market/jobs/{}", id(job)), Some(key)).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body
}

pub(crate) async fn ended(hub: &TestHub, key: &str, job: &Value) -> Value {
    eventually(async || shown(hub, key, job).await, |shown| shown["status"] != "PENDING").await
}

pub(crate) async fn reputation(hub: &TestHub, agent: &Trader) -> Value {
    hub.get(&format!("/market/reputation/{}", agent.id), None).await.body["reputation_score"].clone()
}

/// Hires, holds, completes, pays and refunds a job, and raises the reputation.
#[tokio::test]
async fn a_job_from_hiring_to_payment() {
    let hub = TestHub::start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let mut inbox = hub.inbox(&worker.key, None).await;
    let job = job(1, &worker.id);
    let hired = hire(&hub, &boss.key, &job).await;
    assert_eq!(
        (&hired["status"], &hired["held"], &hired["settled"]),
        (&json!("PENDING"), &json!(0.15), &json!(0.0))
    );
    assert_eq!((&hired["agent_id"], &hired["orchestrator_id"]), (&json!(worker.id), &json!(boss.id)));
    assert!(hired["deadline_at"].is_string() && hired.get("result").is_none());
    assert_eq!(balance(&hub, &boss.owner).await, (json!(0.85), json!(0.15)));
    assert_balanced(&hub).await;

    // The agent gets the document's job request, with an address for the result.
    let handed = inbox.event("job").await;
    for name in ["job_id", "skill_name", "input_data", "budget", "currency"] {
        assert_eq!(handed[name], job[name], "{name}");
    }
    assert_eq!(handed["orchestrator_id"], json!(boss.id));
    let callback = text(&handed["callback_url"]).strip_prefix(&hub.url).unwrap().to_owned();
    assert!(callback.starts_with(&format!("/market/jobs/{}/result/tok_", id(&job))), "{callback}");
    // Reading the inbox by cursor returns the same.
    let kept = hub.get("/agent/messages?kind=all", Some(&worker.key)).await.body;
    assert_eq!(kept["data"][0]["data"], handed, "{kept}");
    let taken = hub.post(&callback, None, &success(&job)).await;
    assert_eq!(
        (taken.status, &taken.body["status"], &taken.body["settled"]),
        (200, &json!("SUCCESS"), &json!(0.1)),
        "{}",
        taken.text
    );

    let done = shown(&hub, &boss.key, &job).await;
    assert_eq!(
        (&done["status"], &done["held"], &done["settled"]),
        (&json!("SUCCESS"), &json!(0.0), &json!(0.1))
    );
    assert_eq!(done["result"]["output_data"], success(&job)["output_data"]);
    assert_eq!(done["result"]["agent_id"], json!(worker.id));
    assert_eq!(balance(&hub, &boss.owner).await, (json!(0.9), json!(0.0)));
    assert_eq!(balance(&hub, &worker.owner).await, (json!(0.1), json!(0.0)));
    let thought = hub.get(&format!("/market/reputation/{}", worker.id), None).await.body;
    assert_eq!(thought["reputation_score"], 51.0);
    let step = &thought["changes"][0];
    assert_eq!((&step["job_id"], &step["status"]), (&job["job_id"], &json!("SUCCESS")));
    assert_eq!(step["arithmetic"], "50.0000 + 2.0 × 50.0000 / 100 = 51.0000");
    let ledger = hub.get(&format!("/market/ledger?job={}", id(&job)), Some(&boss.owner_key)).await.body;
    let mut kinds: Vec<_> =
        ledger["items"].as_array().unwrap().iter().map(|item| text(&item["kind"])).collect();
    kinds.sort();
    assert_eq!(kinds, ["hold", "refund", "settle"]);

    // Retries of anybody return the same job and result, and move no more credits.
    assert_eq!(hire(&hub, &boss.key, &job).await["status"], "SUCCESS");
    assert_eq!(hub.post(&callback, None, &success(&job)).await.status, 200);
    assert_eq!(result(&hub, &worker.key, &job, &success(&job)).await.status, 200);
    let mut other = success(&job);
    other["execution_cost"] = json!(0.15);
    result(&hub, &worker.key, &job, &other).await.own_failure(Code::Conflict);
    let mut changed = job.clone();
    changed["budget"] = json!(0.2);
    hub.post("/market/jobs", Some(&boss.key), &changed).await.own_failure(Code::Conflict);
    // The job was paid from escrow, so a transfer for it is refused.
    let pay = json!({"transfer_id": id(&job), "from_owner": boss.owner, "to_owner": worker.owner, "amount": 0.1, "job_id": job["job_id"]});
    hub.post("/market/transfer", Some(&boss.owner_key), &pay).await.own_failure(Code::Conflict);
    assert_eq!(balance(&hub, &worker.owner).await.0, 0.1);
    assert_eq!(reputation(&hub, &worker).await, 51.0);
    assert_balanced(&hub).await;
}

/// Existing workers answer with less than the document prints.
#[tokio::test]
async fn results_that_say_little_and_results_that_contradict() {
    let hub = TestHub::start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let one = job(1, &worker.id);
    hire(&hub, &boss.key, &one).await;
    let mut wrong = success(&one);
    wrong["job_id"] = json!("f81d4fae-7dec-11d0-a765-000000000009");
    result(&hub, &worker.key, &one, &wrong).await.own_failure(Code::Validation);
    wrong = success(&one);
    wrong["agent_id"] = json!(boss.id);
    result(&hub, &worker.key, &one, &wrong).await.own_failure(Code::Validation);
    wrong = success(&one);
    wrong["execution_cost"] = json!(0.001);
    result(&hub, &worker.key, &one, &wrong).await.own_failure(Code::Validation);
    // The job takes longer.
    let pending = json!({"job_id": one["job_id"], "status": "PENDING"});
    assert_eq!(result(&hub, &worker.key, &one, &pending).await.body["status"], "PENDING");
    let short = json!({"job_id": one["job_id"], "status": "SUCCESS", "output_data": {"entities": []}});
    assert_eq!(result(&hub, &worker.key, &one, &short).await.body["settled"], 0.1);
    let filled = shown(&hub, &boss.key, &one).await["result"].clone();
    assert!(filled["execution_time_ms"].is_i64() && filled["timestamp_utc"].is_string());
    assert_eq!(filled["execution_cost"], 0.1);

    // A cost above the budget is capped; a cost of zero pays nothing.
    for (n, cost, paid) in [(2, json!(9), 0.15), (3, json!(0), 0.0)] {
        let job = job(n, &worker.id);
        hire(&hub, &boss.key, &job).await;
        let mut said = success(&job);
        said["execution_cost"] = cost;
        assert_eq!(result(&hub, &worker.key, &job, &said).await.body["settled"], paid);
    }
    // A failure pays nothing, and costs 4.5 points.
    let before = reputation(&hub, &worker).await.as_f64().unwrap();
    let failing = job(4, &worker.id);
    hire(&hub, &boss.key, &failing).await;
    let failure = json!({"job_id": failing["job_id"], "status": "FAILURE", "error_message": "out of paper"});
    assert_eq!(result(&hub, &worker.key, &failing, &failure).await.body["status"], "FAILURE");
    let failed = shown(&hub, &boss.key, &failing).await;
    assert_eq!(failed["error"], json!({"code": "EXECUTION_ERROR", "message": "out of paper"}));
    let after = reputation(&hub, &worker).await.as_f64().unwrap();
    assert!((before - after - 4.5).abs() < 1e-9, "{before} {after}");
    // Output that violates the skill's schema fails the job as well.
    let broken = job(5, &worker.id);
    hire(&hub, &boss.key, &broken).await;
    let said = json!({"job_id": broken["job_id"], "status": "SUCCESS", "output_data": {"entities": "none"}});
    assert_eq!(result(&hub, &worker.key, &broken, &said).await.body["status"], "FAILURE");
    let failed = shown(&hub, &boss.key, &broken).await;
    assert!(text(&failed["error"]["message"]).contains("output_data.entities: must be a list"), "{failed}");
    assert_eq!(balance(&hub, &boss.owner).await, (json!(0.75), json!(0.0)));
    assert_balanced(&hub).await;
}

#[tokio::test]
async fn what_keeps_a_job_from_being_taken_moves_nothing() {
    let clock = ManualClock::new(BEGIN);
    let hub = Setup::new().clock(&clock).start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let refuse = async |change: &dyn Fn(&mut Value), code: Code| {
        let mut job = job(1, &worker.id);
        change(&mut job);
        hub.post("/market/jobs", Some(&boss.key), &job).await.own_failure(code).to_owned()
    };
    refuse(&|job| job["skill_name"] = json!("fly"), Code::SkillMismatch).await;
    let by_hub = |job: &mut Value| drop(job.as_object_mut().unwrap().remove("agent_id"));
    refuse(
        &|job| {
            by_hub(job);
            job["skill_name"] = json!("fly");
        },
        Code::SkillMismatch,
    )
    .await;
    refuse(&|job| job["budget"] = json!(0.09), Code::BudgetInsufficient).await;
    refuse(
        &|job| {
            by_hub(job);
            job["budget"] = json!(0.09);
        },
        Code::BudgetInsufficient,
    )
    .await;
    refuse(&|job| job["budget"] = json!(1.01), Code::TransferFailed).await;
    refuse(&|job| job["agent_id"] = json!("a3b8d1b6-0b3b-4b1a-9c1a-1a2b3c4d5e6f"), Code::NotFound).await;
    refuse(&|job| job["orchestrator_id"] = json!(worker.id), Code::Forbidden).await;
    let faults = refuse(&|job| job["input_data"] = json!({"text": 7}), Code::Validation).await;
    assert_eq!(faults, "input_data.text: must be a string, not a number");
    refuse(&|job| job["callback_url"] = json!("http://10.0.0.1/x"), Code::EndpointBlocked).await;
    for wrong in [json!(-1), json!("0.15"), json!(0.001), json!(1e30), json!(null)] {
        refuse(&|job| job["budget"] = wrong.clone(), Code::Validation).await;
    }
    for (name, wrong) in [
        ("currency", json!("EUR")),
        ("deadline_ms", json!(10)),
        ("job_id", json!("x")),
        ("skill_name", json!("")),
    ] {
        refuse(&|job| job[name] = wrong.clone(), Code::Validation).await;
    }
    hub.post("/market/jobs", None, &job(1, &worker.id)).await.own_failure(Code::Unauthorized);
    hub.post("/market/jobs", Some(OPERATOR), &job(1, &worker.id)).await.own_failure(Code::Forbidden);
    // A client without a wallet.
    let poor = hub.register("poor").await;
    hub.post("/market/jobs", Some(&poor), &job(1, &worker.id)).await.own_failure(Code::TransferFailed);
    clock.advance(91_000);
    refuse(&|_| {}, Code::AgentOffline).await;
    refuse(&by_hub, Code::AgentOffline).await;
    // The agent is removed between discovery and hiring.
    assert_eq!(
        hub.delete(&format!("/market/agents/{}", worker.id), Some(&worker.owner_key)).await.status,
        200
    );
    refuse(&|_| {}, Code::NotFound).await;
    assert_eq!(balance(&hub, &boss.owner).await, (json!(1.0), json!(0.0)));
    let jobs = hub.get("/market/jobs", Some(&boss.key)).await.body;
    assert_eq!(jobs["items"], json!([]));
    assert_balanced(&hub).await;
}

#[tokio::test]
async fn the_hub_picks_the_best_that_is_not_oneself() {
    let hub = TestHub::start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let mut cheap = registration("cheap", "cheap's", "0.05");
    cheap["skills"][0]["input_schema"] = json!({});
    let cheap = hub.post("/market/register", None, &cheap).await.body;
    let mut job = job(1, &worker.id);
    job.as_object_mut().unwrap().remove("agent_id");
    let hired = hire(&hub, &boss.key, &job).await;
    assert_eq!(hired["agent_id"], cheap["agent_id"]);
}

#[tokio::test]
async fn others_learn_nothing_of_a_job() {
    let hub = TestHub::start();
    let (boss, worker, other) =
        (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await, trader(&hub, "other", 1).await);
    let job = job(1, &worker.id);
    hire(&hub, &boss.owner_key, &job).await;
    let at = format!("/market/jobs/{}", id(&job));
    let nothing = "/market/jobs/f81d4fae-7dec-11d0-a765-000000000077";
    for key in [&other.key, &other.owner_key, OPERATOR] {
        for (what, body) in [("", None), ("/cancel", Some(json!({}))), ("/result", Some(success(&job)))] {
            let ask = async |job: &str| match &body {
                None => hub.get(job, Some(key)).await,
                Some(body) => hub.post(&format!("{job}{what}"), Some(key), body).await,
            };
            let there = ask(&at).await.own_failure(Code::NotFound).to_owned();
            assert_eq!(there, ask(nothing).await.own_failure(Code::NotFound), "{what}");
        }
        let ledger = hub.get(&format!("/market/ledger?job={}", id(&job)), Some(key)).await.body;
        assert_eq!(ledger["items"].as_array().unwrap().is_empty(), key != OPERATOR, "{ledger}");
        assert_eq!(hub.get("/market/jobs", Some(key)).await.body["items"], json!([]));
    }
    // The client cannot report a result, and the worker cannot cancel.
    result(&hub, &boss.owner_key, &job, &success(&job)).await.own_failure(Code::Forbidden);
    hub.post(&format!("{at}/cancel"), Some(&worker.key), &json!({})).await.own_failure(Code::Forbidden);
    for token in ["tok_", "tok_00", "x", &format!("tok_{}", "0".repeat(64))] {
        hub.post(&format!("{at}/result/{token}"), None, &success(&job)).await.own_failure(Code::NotFound);
    }
    // Another client's `job_id` is taken; the error says nothing else.
    hub.post("/market/jobs", Some(&other.key), &job).await.own_failure(Code::Conflict);
    for key in [&boss.owner_key, &worker.key, &worker.owner_key] {
        assert_eq!(hub.get("/market/jobs", Some(key)).await.body["items"][0]["job_id"], job["job_id"]);
        let owner = shown(&hub, key, &job).await.get("owner_id").cloned();
        assert_eq!(owner.is_some(), key == &boss.owner_key);
    }
    assert_eq!(shown(&hub, &boss.owner_key, &job).await["status"], "PENDING");
}

#[tokio::test]
async fn taking_a_job_back() {
    let hub = TestHub::start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let job = job(1, &worker.id);
    hire(&hub, &boss.key, &job).await;
    let cancel = format!("/market/jobs/{}/cancel", id(&job));
    for _ in 0..2 {
        let answer = hub.post(&cancel, Some(&boss.key), &json!({})).await;
        assert_eq!((answer.status, &answer.body["status"]), (200, &json!("FAILURE")), "{}", answer.text);
        assert_eq!(answer.body["error"]["code"], "CANCELLED");
    }
    assert_eq!(balance(&hub, &boss.owner).await, (json!(1.0), json!(0.0)));
    assert_eq!(reputation(&hub, &worker).await, 50.0);
    result(&hub, &worker.key, &job, &success(&job)).await.own_failure(Code::Conflict);
    assert_eq!(balance(&hub, &worker.owner).await.0, 0.0);
}

/// A cancelled job is not delivered to a worker that connects later.
#[tokio::test]
async fn what_was_taken_back_is_not_handed_out() {
    let hub = TestHub::start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    for n in [1, 2] {
        hire(&hub, &boss.key, &job(n, &worker.id)).await;
    }
    let cancel = format!("/market/jobs/{}/cancel", id(&job(1, &worker.id)));
    assert_eq!(hub.post(&cancel, Some(&boss.key), &json!({})).await.status, 200);
    let mut inbox = hub.inbox(&worker.key, Some("0")).await;
    let given = inbox.event("job").await;
    assert_eq!(given["job_id"], id(&job(2, &worker.id)));
    // Its ledger entries are in order and numbered.
    let path = format!("/market/ledger?job={}", id(&job(1, &worker.id)));
    let moved = hub.get(&path, Some(&boss.owner_key)).await.body["items"].clone();
    let moved: Vec<_> = moved.as_array().unwrap().iter().map(|row| (&row["number"], &row["kind"])).collect();
    assert_eq!(moved, [(&json!(1), &json!("hold")), (&json!(2), &json!("refund"))]);
}

#[tokio::test]
async fn an_owners_job_to_its_own_agent_moves_no_reputation() {
    let hub = TestHub::start();
    let worker = trader(&hub, "worker", 1).await;
    let job = job(1, &worker.id);
    hire(&hub, &worker.owner_key, &job).await;
    assert_eq!(result(&hub, &worker.key, &job, &success(&job)).await.status, 200);
    assert_eq!(balance(&hub, &worker.owner).await, (json!(1.0), json!(0.0)));
    assert_eq!(reputation(&hub, &worker).await, 50.0);
    let changes = hub.get(&format!("/market/reputation/{}", worker.id), None).await.body["changes"].clone();
    assert_eq!((changes.as_array().unwrap().len(), &changes[0]["not_counted"]), (1, &json!("own_agent")));
}

#[tokio::test]
async fn a_deadline_refunds_and_counts() {
    let clock = ManualClock::new(BEGIN);
    let hub = Setup::new().clock(&clock).start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    // The worker never received it.
    let job_one = job(1, &worker.id);
    hire(&hub, &boss.key, &job_one).await;
    clock.advance(300_000);
    let failed = ended(&hub, &boss.key, &job_one).await;
    assert_eq!(
        (&failed["status"], &failed["error"]["code"]),
        (&json!("FAILURE"), &json!("AGENT_OFFLINE")),
        "{failed}"
    );
    // The worker never received it, so its reputation does not change.
    assert_eq!(reputation(&hub, &worker).await, 50.0);
    result(&hub, &worker.key, &job_one, &success(&job_one)).await.own_failure(Code::Conflict);
    // The worker received it and did not do it.
    let mut inbox = hub.inbox(&worker.key, None).await;
    let mut job_two = job(2, &worker.id);
    job_two["deadline_ms"] = json!(60_000);
    hire(&hub, &boss.key, &job_two).await;
    // The first job has ended and is not delivered any more.
    inbox.event("job").await;
    // The read position of an inbox is written a little later.
    let agent: chorus_protocol::ids::AgentId = chorus_protocol::ids::AgentId::parse(&worker.id).unwrap();
    let handed = async || {
        let read = move |tx: &mut dyn chorus_store::Tx| chorus_store::inboxes::handed_through(tx, agent);
        hub.store().read::<_, chorus_store::StoreError, _>(read).await.unwrap()
    };
    eventually(handed, |through| *through >= 2).await;
    clock.advance(60_000);
    let failed = ended(&hub, &boss.key, &job_two).await;
    assert_eq!(failed["error"]["code"], "EXECUTION_ERROR", "{failed}");
    assert_eq!(reputation(&hub, &worker).await, 45.5);
    assert_eq!(balance(&hub, &boss.owner).await, (json!(1.0), json!(0.0)));
    assert_balanced(&hub).await;
}

#[tokio::test]
async fn an_agent_that_leaves_gives_back_what_is_held() {
    for path in ["/market/agents", "/agents"] {
        let hub = TestHub::start();
        let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
        for n in 1..=2 {
            hire(&hub, &boss.key, &job(n, &worker.id)).await;
        }
        assert_eq!(balance(&hub, &boss.owner).await.1, 0.3);
        assert_eq!(hub.delete(&format!("{path}/{}", worker.id), Some(&worker.key)).await.status, 200);
        assert_eq!(balance(&hub, &boss.owner).await, (json!(1.0), json!(0.0)), "{path}");
        let failed = shown(&hub, &boss.key, &job(1, &worker.id)).await;
        assert_eq!(
            (&failed["status"], &failed["error"]["code"]),
            (&json!("FAILURE"), &json!("AGENT_OFFLINE"))
        );
        hub.get(&format!("/market/agents/{}", worker.id), None).await.own_failure(Code::NotFound);
        assert_balanced(&hub).await;
    }
}

/// Deleting an account removes its agents like any others.
#[tokio::test]
async fn agents_of_a_deleted_account_give_back_what_is_held() {
    for setup in [Setup::new(), Setup::postgres()] {
        let hub = setup.start();
        let (boss, anna) = (trader(&hub, "boss", 1).await, hub.account("anna@example.org").await);
        let mut jobs = vec![];
        for (n, name) in [(1, "one"), (2, "two")] {
            let mut body = registration(name, "", "0.10");
            body.as_object_mut().unwrap().remove("owner_id");
            let worker = hub.post("/market/register", Some(&anna), &body).await;
            assert_eq!(worker.status, 201, "{}", worker.text);
            let alive = json!({"agent_id": worker.body["agent_id"]});
            let heard = hub.post("/market/heartbeat", Some(&text(&worker.body["api_key"])), &alive).await;
            assert!(heard.status < 300, "{}", heard.text);
            let job = job(n, &text(&worker.body["agent_id"]));
            hire(&hub, &boss.key, &job).await;
            jobs.push(job);
        }
        assert_eq!(balance(&hub, &boss.owner).await.1, 0.3);
        let gone = hub.delete("/api/v1/me?confirm=anna@example.org", Some(&anna)).await;
        assert!(gone.status < 300, "{}", gone.text);
        assert_eq!(balance(&hub, &boss.owner).await, (json!(1.0), json!(0.0)));
        for job in &jobs {
            let failed = shown(&hub, &boss.key, job).await;
            assert_eq!(failed["error"]["code"], "AGENT_OFFLINE", "{failed}");
        }
        let found = hub.get("/market/discover?skill=analyze_text&include_offline=true", None).await;
        assert_eq!(found.body["agents"].as_array().map(Vec::len), Some(1), "the boss: {}", found.text);
        assert_balanced(&hub).await;
    }
}

/// Many concurrent jobs with retries: the sum stays the same, and nothing is paid twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_jobs_at_once_with_retries() {
    for setup in [Setup::new(), Setup::postgres()] {
        let hub = setup.config(|config| config.rate_limit = None).start();
        let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 1).await);
        // 1.00 pays for six jobs at 0.15 each. Each is requested twice.
        let (hub, boss, worker) = (&hub, &boss, &worker);
        let each = (0..30_u32).map(|n| async move {
            let job = job(n / 2, &worker.id);
            let hired = hub.post("/market/jobs", Some(&boss.key), &job).await;
            if hired.status != 202 {
                hired.own_failure(Code::TransferFailed);
                return;
            }
            let reported = result(hub, &worker.key, &job, &success(&job)).await;
            assert_eq!(reported.status, 200, "{}", reported.text);
            assert_balanced(hub).await;
        });
        futures_util::future::join_all(each).await;
        assert_balanced(hub).await;
        let done = hub.get("/market/jobs?status=SUCCESS&limit=100", Some(&boss.key)).await.body;
        let done = done["items"].as_array().unwrap().len() as f64;
        assert!(done >= 6.0);
        let (left, held) = balance(hub, &boss.owner).await;
        assert_eq!(held, 0.0);
        assert!((left.as_f64().unwrap() - (1.0 - done * 0.1)).abs() < 1e-9, "{left} after {done}");
    }
}
