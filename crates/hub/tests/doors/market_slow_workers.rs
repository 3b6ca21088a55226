//! Workers fail only by their own fault: not for a late answer, an outage of the hub, or a full quota.

use crate::market::{BEGIN, Trader, assert_balanced, balance, registration, trader, trader_at};
use crate::market_jobs::{ended, hire, job, reputation, result, success};
use crate::support::{Answer, SOON, Setup, TestHub, on_both};
use chorus_protocol::code::Code;
use chorus_store::{StoreError, Tx};
use chorus_testkit::clock::ManualClock;
use chorus_testkit::receiver::{FakeAgent, Reply};
use serde_json::{Value, json};
use std::time::Duration;
use uuid::Uuid;

on_both![
    a_worker_may_answer_when_the_job_is_done,
    a_worker_that_never_answers_is_asked_once,
    an_outage_of_the_hub_costs_the_worker_nothing,
    a_worker_that_fills_its_storage_is_not_excused,
    a_worker_without_room_for_a_result_is_not_hired,
];

const HOUR_MS: i64 = 60 * 60 * 1000;

async fn newest_reason(hub: &TestHub, agent: &Trader) -> Value {
    let thought = hub.get(&format!("/market/reputation/{}", agent.id), None).await.body;
    thought["changes"][0]["not_counted"].clone()
}

/// A worker without callbacks finishes its job before it answers the POST.
async fn a_worker_may_answer_when_the_job_is_done(setup: Setup) {
    let hub = setup.config(|config| config.webhook_timeout = Duration::from_millis(200)).start();
    let agent = FakeAgent::start().await;
    let boss = trader(&hub, "boss", 1).await;
    let worker = trader_at(&hub, "worker", 0, Some(&format!("http://{}/jobs", agent.addr()))).await;
    let one = job(1, &worker.id);
    let pause = Duration::from_secs(3);
    agent.set(Reply::Slow(pause, Box::new(Reply::Json(200, success(&one)))));
    hire(&hub, &boss.key, &one).await;
    let done = ended(&hub, &boss.key, &one).await;
    assert_eq!((&done["status"], &done["settled"]), (&json!("SUCCESS"), &json!(0.1)), "{done}");
    assert_eq!(agent.requests().len(), 1, "it is POSTed once");
    assert_eq!(reputation(&hub, &worker).await, 51.0);
    assert_eq!(balance(&hub, &worker.owner).await.0, 0.1);
    assert_balanced(&hub).await;
}

/// A hanging worker is not asked again, fails at the deadline, and delays nobody else.
async fn a_worker_that_never_answers_is_asked_once(setup: Setup) {
    let clock = ManualClock::new(BEGIN);
    let config = |config: &mut chorus_node::Config| config.webhook_timeout = Duration::from_millis(200);
    let hub = setup.clock(&clock).config(config).start();
    let (agent, quick) = (FakeAgent::start().await, FakeAgent::start().await);
    let boss = trader(&hub, "boss", 2).await;
    let worker = trader_at(&hub, "worker", 0, Some(&format!("http://{}/jobs", agent.addr()))).await;
    let other = trader_at(&hub, "other", 0, Some(&format!("http://{}/jobs", quick.addr()))).await;
    agent.set(Reply::Hang);
    for n in 1..=8 {
        hire(&hub, &boss.key, &job(n, &worker.id)).await;
    }
    // More than an agent usually gets at a time, because hanging jobs are counted separately.
    agent.wait_for(8, SOON).await;
    let next = job(9, &other.id);
    quick.set(Reply::Json(200, success(&next)));
    hire(&hub, &boss.key, &next).await;
    assert_eq!(ended(&hub, &boss.key, &next).await["status"], "SUCCESS");
    let noted = async || {
        crate::catch_up::number(
            &hub,
            "SELECT COUNT(*) AS count FROM jobs WHERE handed_at IS NOT NULL AND status = 'PENDING'",
        )
        .await
    };
    crate::support::eventually(noted, |handed| *handed == 8).await;
    clock.advance(300_000);
    for n in 1..=8 {
        let failed = ended(&hub, &boss.key, &job(n, &worker.id)).await;
        assert_eq!(
            (&failed["status"], &failed["error"]["code"]),
            (&json!("FAILURE"), &json!("EXECUTION_ERROR")),
            "{failed}"
        );
    }
    assert_eq!(agent.requests().len(), 8, "each is POSTed once");
    assert_eq!(reputation(&hub, &worker).await, 50.0 - 5.0 * 4.5);
}

/// Starts a hub that waits for answers briefly, with a job that its worker works on. Returns the path for the job's result too.
async fn job_under_way(setup: Setup, agent: &FakeAgent) -> (TestHub, Trader, Trader, String) {
    let config = |config: &mut chorus_node::Config| config.webhook_timeout = Duration::from_millis(200);
    let hub = setup.config(config).start();
    let boss = trader(&hub, "boss", 2).await;
    let worker = trader_at(&hub, "worker", 0, Some(&format!("http://{}/jobs", agent.addr()))).await;
    agent.set(Reply::Hang);
    hire(&hub, &boss.key, &job(1, &worker.id)).await;
    let posted = agent.wait_for(1, SOON).await;
    let callback =
        posted[0].body["callback_url"].as_str().unwrap().strip_prefix(&hub.url).unwrap().to_owned();
    let noted = "SELECT COUNT(*) AS count FROM jobs WHERE handed_at IS NOT NULL";
    crate::support::eventually(async || crate::catch_up::number(&hub, noted).await, |handed| *handed == 1)
        .await;
    (hub, boss, worker, callback)
}

/// Checks that the first job was POSTed once, and that its worker can report it without a change of its reputation.
async fn assert_posted_once(
    hub: &TestHub,
    agent: &FakeAgent,
    boss: &Trader,
    worker: &Trader,
    callback: &str,
) {
    // A second job shows that the hub pushes.
    let next = job(2, &worker.id);
    agent.set(Reply::Json(200, success(&next)));
    hire(hub, &boss.key, &next).await;
    assert_eq!(ended(hub, &boss.key, &next).await["status"], "SUCCESS");
    for _ in 0..2 {
        hub.background_round().await;
    }
    assert_eq!(agent.requests().len(), 2, "each job is POSTed once");
    let one = job(1, &worker.id);
    let taken = hub.post(callback, None, &success(&one)).await;
    assert_eq!((taken.status, &taken.body["status"]), (200, &json!("SUCCESS")), "{}", taken.text);
    assert_eq!(newest_reason(hub, worker).await, "cut_off");
    assert_balanced(hub).await;
}

#[tokio::test]
async fn a_job_under_way_is_not_repeated_after_a_restart() {
    for setup in [Setup::new(), Setup::postgres()] {
        let agent = FakeAgent::start().await;
        let (hub, boss, worker, callback) = job_under_way(setup, &agent).await;
        let hub = hub.restart(|_| {}).await;
        assert_posted_once(&hub, &agent, &boss, &worker, &callback).await;
    }
}

#[tokio::test]
async fn a_job_under_way_is_not_repeated_after_its_node_died() {
    for setup in [Setup::new(), Setup::postgres()] {
        let agent = FakeAgent::start().await;
        let (hub, boss, worker, callback) = job_under_way(setup, &agent).await;
        // This is what a dead node leaves behind: a lease that nobody renews.
        let die = |tx: &mut dyn Tx| {
            let sql = "UPDATE deliveries SET lease_owner = $1, lease_until = 1 WHERE lease_until IS NOT NULL";
            tx.execute(sql, &[(&Uuid::nil()).into()])?;
            tx.execute("UPDATE chats SET due_at = 1 WHERE due_at IS NOT NULL", &[])
        };
        assert_eq!(hub.store().write::<_, StoreError, _>(die).await.unwrap(), 1);
        let waits = "SELECT COUNT(*) AS count FROM chats WHERE due_at IS NOT NULL";
        crate::support::eventually(async || crate::catch_up::number(&hub, waits).await, |waits| *waits == 0)
            .await;
        assert_posted_once(&hub, &agent, &boss, &worker, &callback).await;
    }
}

async fn an_outage_of_the_hub_costs_the_worker_nothing(setup: Setup) {
    let clock = ManualClock::new(BEGIN);
    let hub = setup.clock(&clock).start();
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let jobs: Vec<_> = (1..=2).map(|n| job(n, &worker.id)).collect();
    for job in &jobs {
        hire(&hub, &boss.key, job).await;
    }
    let open = hub.get("/market/jobs?handouts=true", Some(&worker.key)).await;
    assert_eq!(open.body["items"].as_array().unwrap().len(), 2, "{}", open.text);
    let setup = hub.setup();
    hub.stop().await;
    clock.advance(HOUR_MS);
    let hub = setup.start();
    // A result that arrives after the outage is accepted.
    let taken = result(&hub, &worker.key, &jobs[0], &success(&jobs[0])).await;
    assert_eq!((taken.status, &taken.body["status"]), (200, &json!("SUCCESS")), "{}", taken.text);
    assert_eq!(
        (reputation(&hub, &worker).await, newest_reason(&hub, &worker).await),
        (json!(50.0), json!("hub_down"))
    );
    // The other job keeps its remaining time.
    clock.advance(290_000);
    assert_eq!(
        hub.get(&format!("/market/jobs/{}", jobs[1]["job_id"].as_str().unwrap()), Some(&boss.key)).await.body
            ["status"],
        "PENDING"
    );
    clock.advance(20_000);
    assert_eq!(ended(&hub, &boss.key, &jobs[1]).await["status"], "FAILURE");
    assert_eq!(
        (reputation(&hub, &worker).await, newest_reason(&hub, &worker).await),
        (json!(50.0), json!("hub_down"))
    );
    assert_balanced(&hub).await;
}

fn large(job: &Value, bytes: usize) -> Value {
    json!({"job_id": job["job_id"], "status": "SUCCESS", "output_data": {"entities": [], "more": "x".repeat(bytes)}})
}

/// A worker that fills its own storage after it got a job, and then says nothing, has failed.
async fn a_worker_that_fills_its_storage_is_not_excused(setup: Setup) {
    let clock = ManualClock::new(BEGIN);
    let config = |config: &mut chorus_node::Config| config.quotas.agent_bytes = 60_000;
    let hub = setup.clock(&clock).config(config).start();
    let (boss, worker) = (trader(&hub, "boss", 2).await, trader(&hub, "worker", 0).await);
    let mut inbox = hub.inbox(&worker.key, None).await;
    let one = job(1, &worker.id);
    hire(&hub, &boss.key, &one).await;
    inbox.event("job").await;
    let channel = hub.channel(&worker.key, &json!({"name": "mine"})).await;
    let mut stored = 0;
    // Until its storage is full.
    while stored < 20
        && hub
            .ask(
                "POST",
                &format!("{channel}/messages"),
                Some(&worker.key),
                &json!({"content": "x".repeat(9000)}),
            )
            .await
            .status
            == 201
    {
        stored += 1;
    }
    assert!((1..20).contains(&stored), "{stored}");
    hub.background_round().await;
    clock.advance(300_000);
    assert_eq!(ended(&hub, &boss.key, &one).await["status"], "FAILURE");
    assert_eq!(
        (reputation(&hub, &worker).await, newest_reason(&hub, &worker).await),
        (json!(45.5), Value::Null)
    );
}

async fn a_worker_without_room_for_a_result_is_not_hired(setup: Setup) {
    let clock = ManualClock::new(BEGIN);
    let config = |config: &mut chorus_node::Config| config.quotas.agent_bytes = 60_000;
    let hub = setup.clock(&clock).config(config).start();
    let (boss, worker) = (trader(&hub, "boss", 2).await, trader(&hub, "worker", 0).await);
    let mut hires = registration("boss", &boss.owner, "0.10");
    (hires["agent_id"], hires["skills"]) = (json!(boss.id), json!([]));
    assert_eq!(hub.post("/market/register", Some(&boss.owner_key), &hires).await.status, 200);
    let report = async |job: &Value, bytes: usize| -> Answer {
        result(&hub, &worker.key, job, &large(job, bytes)).await
    };
    let (one, two) = (job(1, &worker.id), job(2, &worker.id));
    for job in [&one, &two] {
        hire(&hub, &boss.key, job).await;
    }
    assert_eq!(report(&one, 55_000).await.status, 200);
    assert_eq!(reputation(&hub, &worker).await, 51.0);
    // Jobs assigned before do not count against the worker.
    report(&two, 20_000).await.own_failure(Code::QuotaExceeded);
    // The worker is passed over, and a client that names it gets an error.
    let three = job(3, &worker.id);
    let why =
        hub.post("/market/jobs", Some(&boss.key), &three).await.own_failure(Code::RateLimited).to_owned();
    assert!(why.contains("storage"), "{why}");
    let mut any = three.clone();
    any.as_object_mut().unwrap().remove("agent_id");
    hub.post("/market/jobs", Some(&boss.key), &any).await.own_failure(Code::RateLimited);
    let other = trader(&hub, "other", 0).await;
    assert_eq!(hire(&hub, &boss.key, &any).await["agent_id"], json!(other.id));
    clock.advance(300_000);
    assert_eq!(ended(&hub, &boss.key, &two).await["status"], "FAILURE");
    assert_eq!(
        (reputation(&hub, &worker).await, newest_reason(&hub, &worker).await),
        (json!(51.0), json!("at_limit"))
    );
    assert_balanced(&hub).await;
}
