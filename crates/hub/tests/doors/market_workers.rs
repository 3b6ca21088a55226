//! Workers that know only the document: an endpoint that accepts jobs, sends no heartbeat, and reports errors
//! in its own words.

use crate::market::{BEGIN, Trader, assert_balanced, balance, trader, trader_at};
use crate::market_jobs::{ended, hire, job, reputation, shown, success, text};
use crate::support::{SOON, Setup, TestHub, eventually};
use chorus_protocol::code::Code;
use chorus_store::TxExt as _;
use chorus_testkit::clock::ManualClock;
use chorus_testkit::receiver::{FakeAgent, Reply};
use serde_json::{Value, json};

const FIND: &str = "/market/discover?skill=analyze_text";

async fn found(hub: &TestHub) -> Vec<String> {
    let found = hub.get(FIND, None).await.body;
    found["agents"].as_array().unwrap().iter().map(|agent| text(&agent["agent_id"])).collect()
}

fn with_id(mut body: Value, who: &Trader) -> Value {
    body["agent_id"] = json!(who.id);
    body
}

/// Starts a hub on this clock, with a client and a worker that has an endpoint.
async fn begin(clock: &ManualClock) -> (TestHub, FakeAgent, Trader, Trader) {
    let hub = Setup::new().clock(clock).start();
    let agent = FakeAgent::start().await;
    let boss = trader(&hub, "boss", 1).await;
    // The client registers no skills, because a caller that shows its key is present and would be found
    // itself.
    let hires = json!({"agent_name": "boss", "owner_id": boss.owner, "skills": []});
    assert_eq!(hub.post("/market/register", Some(&boss.owner_key), &with_id(hires, &boss)).await.status, 200);
    let worker = trader_at(&hub, "worker", 0, Some(&format!("http://{}/work", agent.addr()))).await;
    (hub, agent, boss, worker)
}

/// A search probes the endpoint and finds it as long as it answers.
#[tokio::test]
async fn an_endpoint_without_heartbeats_is_found_and_hired() {
    let clock = ManualClock::new(BEGIN);
    let (hub, agent, boss, worker) = begin(&clock).await;
    // A server that supports only its one POST.
    agent.set(Reply::Text(501, "Unsupported method".into()));
    clock.advance(91_000);
    assert_eq!(found(&hub).await, std::slice::from_ref(&worker.id));
    assert_eq!(agent.requests().len(), 1, "asked once");
    assert_eq!(found(&hub).await.len(), 1);
    assert_eq!(agent.requests().len(), 1, "it is known to live");
    // Hiring by name and by skill probes too, and so do quotes.
    clock.advance(91_000);
    hire(&hub, &boss.key, &job(1, &worker.id)).await;
    clock.advance(91_000);
    let mut any = job(2, &worker.id);
    any.as_object_mut().unwrap().remove("agent_id");
    assert_eq!(hire(&hub, &boss.key, &any).await["agent_id"], json!(worker.id));
    clock.advance(91_000);
    let offers = hub.post("/market/quotes", Some(&boss.key), &json!({"skill_name": "analyze_text"})).await;
    assert_eq!(offers.body["offers"][0]["agent_id"], json!(worker.id), "{}", offers.text);
}

#[tokio::test]
async fn an_endpoint_that_is_gone_is_not_found_and_not_asked_all_the_time() {
    let clock = ManualClock::new(BEGIN);
    let (hub, agent, boss, worker) = begin(&clock).await;
    agent.set(Reply::Text(502, "bad gateway".into()));
    clock.advance(91_000);
    for _ in 0..5 {
        assert!(found(&hub).await.is_empty());
        hub.post("/market/jobs", Some(&boss.key), &job(1, &worker.id)).await.own_failure(Code::AgentOffline);
    }
    assert_eq!(agent.requests().len(), 1, "once for all of them");
    assert_eq!(balance(&hub, &boss.owner).await, (json!(1.0), json!(0.0)));
    // The worker comes back.
    agent.set(Reply::Text(404, "no such page".into()));
    assert!(found(&hub).await.is_empty(), "not asked again yet");
    clock.advance(15_000);
    assert_eq!(found(&hub).await, std::slice::from_ref(&worker.id));
    // Agents that are shown anyway are not probed.
    clock.advance(91_000);
    let all = hub.get(&format!("{FIND}&include_offline=true"), None).await.body;
    assert_eq!(all["agents"][0]["status"], "offline", "{all}");
    assert_eq!(agent.requests().len(), 2);
    drop(agent);
    assert!(found(&hub).await.is_empty());
}

/// Simultaneous clients share one probe.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_hire_at_once_ask_once() {
    let clock = ManualClock::new(BEGIN);
    let (hub, agent, boss, worker) = begin(&clock).await;
    let pause = std::time::Duration::from_millis(300);
    agent.set(Reply::Slow(pause, Box::new(Reply::Json(405, json!({})))));
    clock.advance(91_000);
    let (hub, boss, worker) = (&hub, &boss, &worker);
    let each = (1..=5).map(|n| async move { hire(hub, &boss.key, &job(n, &worker.id)).await });
    futures_util::future::join_all(each).await;
    let asked = agent.requests().iter().filter(|request| request.raw.is_empty()).count();
    assert_eq!(asked, 1);
}

/// A response to a job counts as a heartbeat, and so does its result.
#[tokio::test]
async fn an_answered_job_is_a_sign_of_life() {
    let clock = ManualClock::new(BEGIN);
    let (hub, agent, boss, worker) = begin(&clock).await;
    clock.advance(80_000);
    let one = job(1, &worker.id);
    agent.set(Reply::Json(200, success(&one)));
    hire(&hub, &boss.key, &one).await;
    ended(&hub, &boss.key, &one).await;
    let seen = async || hub.get(&format!("/market/agents/{}", worker.id), None).await.body;
    let last = seen().await["last_seen"].clone();
    clock.advance(80_000);
    // 160 seconds after it registered.
    let seen = eventually(seen, |seen| seen["status"] == "online").await;
    assert!(text(&seen["last_seen"]) >= text(&last), "{seen}");
    let asked = agent.requests().iter().filter(|request| request.raw.is_empty()).count();
    assert_eq!(asked, 0, "nobody had to ask");
}

/// The client reads the worker's own reason for a refusal.
#[tokio::test]
async fn a_workers_own_words_are_kept() {
    let hub = TestHub::start();
    let agent = FakeAgent::start().await;
    let boss = trader(&hub, "boss", 1).await;
    let worker = trader_at(&hub, "worker", 0, Some(&format!("http://{}/jobs", agent.addr()))).await;
    let own = |code: &str, message: &str| json!({"error": {"code": code, "message": message}});
    for (n, status, answer, code, words) in [
        (1, 422, own("BUDGET_INSUFFICIENT", "not for 0.15"), "BUDGET_INSUFFICIENT", "HTTP 422: not for 0.15"),
        (2, 400, own("SKILL_MISMATCH", ""), "SKILL_MISMATCH", "HTTP 400"),
        (3, 400, json!({"error": {"code": "no code <b>"}}), "REJECTED", "HTTP 400"),
        (4, 409, json!({"error": "busy"}), "REJECTED", "HTTP 409: busy"),
        (5, 422, json!({"job_id": "x", "status": "FAILURE", "error_message": "no"}), "REJECTED", ": no"),
    ] {
        agent.set(Reply::Json(status, answer));
        let job = job(n, &worker.id);
        hire(&hub, &boss.key, &job).await;
        let failed = ended(&hub, &boss.key, &job).await;
        assert_eq!(
            (&failed["status"], &failed["error"]["code"]),
            (&json!("REJECTED"), &json!(code)),
            "{failed}"
        );
        assert!(text(&failed["error"]["message"]).ends_with(words), "{failed}");
    }
    assert_eq!(reputation(&hub, &worker).await, 50.0, "a refusal costs nothing");
    agent.set(Reply::Text(400, format!("a\u{7}b{}", "x".repeat(5000))));
    let plain = job(6, &worker.id);
    hire(&hub, &boss.key, &plain).await;
    let failed = ended(&hub, &boss.key, &plain).await;
    let message = text(&failed["error"]["message"]);
    assert!(message.contains(": abx") && message.len() < 700, "{message}");
    assert_eq!(balance(&hub, &boss.owner).await, (json!(1.0), json!(0.0)));
    assert_balanced(&hub).await;
}

/// A worker that answers with errors was not offline.
#[tokio::test]
async fn whoever_answers_errors_was_not_offline() {
    let clock = ManualClock::new(BEGIN);
    let (hub, agent, boss, worker) = begin(&clock).await;
    for (n, status) in [(1, 503), (2, 404)] {
        agent.set(Reply::Json(status, json!({})));
        let job = job(n, &worker.id);
        hire(&hub, &boss.key, &job).await;
        agent.wait_for(n as usize, SOON).await;
        tried(&hub, &worker, n as usize).await;
        clock.advance(300_000);
        let failed = ended(&hub, &boss.key, &job).await;
        assert_eq!(failed["error"]["code"], "EXECUTION_ERROR", "{failed}");
        assert!(
            text(&failed["error"]["message"]).contains(&format!("it answered HTTP {status}")),
            "{failed}"
        );
        let seen = json!({"agent_id": worker.id});
        assert_eq!(hub.post("/market/heartbeat", Some(&worker.key), &seen).await.status, 204);
    }
    // The worker is unreachable.
    drop(agent);
    let gone = job(3, &worker.id);
    hire(&hub, &boss.key, &gone).await;
    tried(&hub, &worker, 3).await;
    clock.advance(300_000);
    let failed = ended(&hub, &boss.key, &gone).await;
    assert_eq!(failed["error"]["code"], "AGENT_OFFLINE", "{failed}");
    assert!(text(&failed["error"]["message"]).contains("could not be reached"), "{failed}");
    // It accepted none of them, because a proxy may have answered.
    assert_eq!(reputation(&hub, &worker).await, 50.0);
}

/// Waits until this many attempts to reach an agent are recorded.
async fn tried(hub: &TestHub, worker: &Trader, count: usize) {
    let agent = chorus_protocol::ids::AgentId::parse(&worker.id).unwrap();
    let count_in = async || {
        let read = move |tx: &mut dyn chorus_store::Tx| {
            tx.query("SELECT COUNT(*) AS count FROM attempts WHERE agent_id = $1", &[(&agent).into()])?
                .remove(0)
                .int("count")
        };
        hub.store().read::<_, chorus_store::StoreError, _>(read).await.unwrap()
    };
    eventually(count_in, |tries| *tries >= count as i64).await;
}

/// A response that is not a valid result is kept as the reason on the job.
#[tokio::test]
async fn an_answer_that_is_not_taken_leaves_its_reason() {
    let clock = ManualClock::new(BEGIN);
    let (hub, agent, boss, worker) = begin(&clock).await;
    let mut other = success(&job(99, &worker.id));
    other["output_data"] = json!({"entities": []});
    for (n, reply, why) in [
        (1, Reply::Json(200, other.clone()), "job_id: is another job's"),
        (2, Reply::Json(200, json!({"job_id": job(2, "")["job_id"], "status": "DONE"})), "status: must be"),
        (3, Reply::Text(200, "<html>hello</html>".into()), "body: "),
        (5, Reply::Text(200, "x".repeat(300_000)), "it is longer than 262144 bytes"),
    ] {
        agent.set(reply);
        let job = job(n, &worker.id);
        hire(&hub, &boss.key, &job).await;
        let noted =
            eventually(async || shown(&hub, &boss.key, &job).await, |job| job["note"].is_string()).await;
        assert!(text(&noted["note"]).contains(why), "{noted}");
        assert_eq!(noted["status"], "PENDING", "it may still report one");
    }
    // An acknowledgement is not a result, and nothing is wrong with it.
    agent.set(Reply::Json(202, json!({"status": "accepted"})));
    let four = job(4, &worker.id);
    hire(&hub, &boss.key, &four).await;
    tried(&hub, &worker, 5).await;
    assert_eq!(shown(&hub, &boss.key, &four).await.get("note"), None);
    clock.advance(300_000);
    let failed = ended(&hub, &boss.key, &job(3, &worker.id)).await;
    assert_eq!(failed["error"]["code"], "EXECUTION_ERROR");
    assert!(text(&failed["error"]["message"]).contains("no result of this job: body: "), "{failed}");
    assert_balanced(&hub).await;
}

/// An agent that only hires has no offers; an invalid time is refused; a broken result is shown as a failure.
#[tokio::test]
async fn small_print_of_the_document() {
    let hub = TestHub::start();
    let mut body = json!({"agent_name": "Boss", "owner_id": "b", "skills": [], "version": "0.1"});
    body["timestamp_utc"] = json!("yesterday");
    let fault = hub.post("/market/register", None, &body).await.own_failure(Code::Validation).to_owned();
    assert_eq!(fault, "timestamp_utc: must be a time in ISO 8601, UTC, like 2026-02-11T14:15:09Z");
    for good in ["2026-02-11T14:15:09Z", "2026-02-11T14:15:09.123456", "2026-02-11 14:15:09+00:00"] {
        body["timestamp_utc"] = json!(good);
        body["agent_name"] = json!(format!("Boss {good}"));
        body["owner_id"] = json!(good);
        let registered = hub.post("/market/register", None, &body).await;
        assert_eq!(registered.status, 201, "{good}: {}", registered.text);
    }
    assert_eq!(hub.get("/market/discover", None).await.body["agents"], json!([]));
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    for path in ["/market/jobs", "/market/transfer"] {
        let wrong = json!({"timestamp_utc": "2026-13-01T00:00:00Z"});
        let fault = hub.post(path, Some(&boss.key), &wrong).await.own_failure(Code::Validation).to_owned();
        assert!(fault.contains("timestamp_utc: must be a time"), "{path}: {fault}");
    }
    let one = job(1, &worker.id);
    hire(&hub, &boss.key, &one).await;
    let broken: Value =
        json!({"job_id": one["job_id"], "status": "SUCCESS", "output_data": {"entities": "none"}});
    let report = format!("/market/jobs/{}/result", text(&one["job_id"]));
    for _ in 0..2 {
        let taken = hub.post(&report, Some(&worker.key), &broken).await;
        assert_eq!((taken.status, &taken.body["status"]), (200, &json!("FAILURE")), "{}", taken.text);
    }
    let failed = shown(&hub, &boss.key, &one).await;
    assert_eq!(
        (&failed["status"], &failed["result"]["status"]),
        (&json!("FAILURE"), &json!("FAILURE")),
        "{failed}"
    );
}

/// Registering makes an agent present for a while, also with the account's token. Other acts of a person do
/// not, because they say nothing about the agent's program.
#[tokio::test]
async fn what_a_person_says_is_no_sign_of_life() {
    let clock = ManualClock::new(BEGIN);
    let hub = Setup::new().clock(&clock).start();
    let boss = trader(&hub, "boss", 1).await;
    let anna = hub.account("anna@example.org").await;
    let made = hub.post("/api/v1/agents", Some(&anna), &json!({"name": "painter"})).await.body;
    let (id, key) = (text(&made["agent_id"]), text(&made["api_key"]));
    let offer = json!({"agent_id": id, "agent_name": "painter", "skills": [{"skill_name": "paint", "cost_per_call": 0.1}]});
    for _ in 0..2 {
        let registered = hub.post("/market/register", Some(&anna), &offer).await;
        assert!(matches!(registered.status, 200 | 201), "{}", registered.text);
    }
    let status = async || hub.get(&format!("/market/agents/{id}"), None).await.body["status"].clone();
    assert_eq!(status().await, "online");
    assert_eq!(hub.get("/market/discover?skill=paint", None).await.body["total"], 1);
    clock.advance(91_000);
    assert_eq!(hub.get("/api/v1/me", Some(&anna)).await.status, 200);
    assert_eq!(status().await, "offline");
    assert_eq!(hub.get("/market/discover?skill=paint", None).await.body["total"], 0);
    let wanted = json!({"agent_id": id, "skill_name": "paint", "input_data": {}, "budget": 0.1});
    hub.post("/market/jobs", Some(&boss.key), &wanted).await.own_failure(Code::AgentOffline);
    // The agent's program calls the hub.
    assert_eq!(hub.get("/agent/messages", Some(&key)).await.status, 200);
    eventually(status, |status| status == "online").await;
    hire(&hub, &boss.key, &wanted).await;
}

/// A result reported by the owner is not a heartbeat either.
#[tokio::test]
async fn a_result_from_a_person_is_no_sign_of_life_of_the_agent() {
    let clock = ManualClock::new(BEGIN);
    let hub = Setup::new().clock(&clock).start();
    let boss = trader(&hub, "boss", 1).await;
    let anna = hub.account("anna@example.org").await;
    let made = hub.post("/api/v1/agents", Some(&anna), &json!({"name": "painter"})).await.body;
    let (id, key) = (text(&made["agent_id"]), text(&made["api_key"]));
    let offer = json!({"agent_id": id, "agent_name": "painter", "skills": [{"skill_name": "paint", "cost_per_call": 0.1}]});
    hub.post("/market/register", Some(&anna), &offer).await;
    hub.post("/market/heartbeat", Some(&key), &json!({"agent_id": id})).await;
    for (reporter, expected) in [(&anna, "offline"), (&key, "online")] {
        hub.post("/market/heartbeat", Some(&key), &json!({"agent_id": id})).await;
        let wanted = json!({"agent_id": id, "skill_name": "paint", "input_data": {}, "budget": 0.1});
        let hired = hire(&hub, &boss.key, &wanted).await;
        clock.advance(91_000);
        let result = json!({"job_id": hired["job_id"], "status": "SUCCESS", "output_data": {}});
        let path = format!("/market/jobs/{}/result", text(&hired["job_id"]));
        let reported = hub.post(&path, Some(reporter), &result).await;
        assert_eq!(reported.status, 200, "{}", reported.text);
        // Heartbeats are written by the background work.
        hub.background_round().await;
        let shown = hub.get(&format!("/market/agents/{id}"), None).await.body;
        assert_eq!(shown["status"], expected, "{shown}");
    }
}

/// An agent with a connection string sends no heartbeat either: it is probed, and hired as long as it answers.
#[tokio::test]
async fn a_connection_string_is_asked_whether_it_lives() {
    let clock = ManualClock::new(BEGIN);
    let hub = Setup::new().clock(&clock).start();
    let agent = FakeAgent::start().await;
    let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
    let connection = json!({"connection_string": format!("http://{}/inbox/sk_a1b2c3d4e5f6", agent.addr())});
    let path = format!("/api/v1/agents/{}/connection", worker.id);
    assert_eq!(hub.ask("PUT", &path, Some(&worker.key), &connection).await.status, 200);
    clock.advance(91_000);
    agent.set(Reply::Json(503, json!({})));
    assert_eq!(found(&hub).await, Vec::<String>::new(), "what says that it is gone is away");
    agent.set(Reply::Json(405, json!({})));
    clock.advance(20_000);
    assert_eq!(found(&hub).await, std::slice::from_ref(&worker.id));
    agent.set(Reply::Json(202, json!({})));
    hire(&hub, &boss.key, &job(1, &worker.id)).await;
    let posted =
        eventually(async || agent.requests(), |all| all.iter().any(|one| one.body.is_object())).await;
    let posted = &posted.iter().find(|one| one.body["message"].is_object()).unwrap().body;
    assert!(text(&posted["message"]["content"]).contains("analyze_text"), "{posted}");
}
