//! Direct jobs: `chorus market work --listen` takes them, `chorus market hire --direct` requests and pays
//! them.

use crate::agent_fixture::{Agent, SOON, until};
use crate::market::{market, said_of, seen};
use crate::market_work::{SCRIPT, Trade, id};
use chorus_testkit::receiver::FakeAgent;
use reqwest::Method;
use serde_json::{Value, json};

const JOB: &str = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";

/// Returns the worker's address for jobs, from its log.
fn address(trade: &Trade) -> String {
    let log = trade.fixture.read("log");
    let line = log.lines().find_map(|line| line.strip_prefix("listening for jobs at "));
    line.unwrap_or_else(|| panic!("it does not listen: {log}")).to_owned()
}

/// Runs `hire --direct` with these arguments and returns the exit code and the JSON output.
fn hire(trade: &Trade, key: &str, args: &[&str]) -> (Option<i32>, Value, String) {
    let args = [&["hire", "add", "--direct", "--json"], args].concat();
    let (code, out, err) = said_of(&trade.fixture, key, &args);
    (code, serde_json::from_str(&out).unwrap_or_default(), err)
}

fn document_job(job: &str) -> Value {
    json!({"job_id": job, "orchestrator_id": "a3b8d1b6-0b3b-4b1a-9c1a-1a2b3c4d5e6f", "skill_name": "add",
        "input_data": {"text": "Revenue"}, "budget": 0.15, "currency": "chorus_credits_v1",
        "callback_url": "https://orchestrator/results", "timestamp_utc": "2026-02-11T14:15:09Z"})
}

async fn wallet(trade: &Trade) -> Value {
    market(&trade.fixture, &trade.boss, &["wallet", "boss"]).await["balance"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_direct_job_is_done_and_paid_once() {
    let trade = Trade::open().await;
    let worker = trade.work(&["--listen", "127.0.0.1:0"], SCRIPT).await;
    let url = address(&trade);
    // The path may be left out.
    let at = url.strip_suffix("/jobs").unwrap();
    let asked =
        ["--endpoint", at, "--budget", "0.15", "--input", "{\"a\": 1}", "--from", "boss", "--id", JOB];
    for _ in 0..2 {
        let (code, done, err) = hire(&trade, &trade.boss, &asked);
        assert_eq!((code, &done["status"]), (Some(0), &json!("SUCCESS")), "{done} {err}");
        assert_eq!((&done["output_data"], &done["paid"]), (&json!({"got": {"a": 1}}), &json!(0.1)), "{done}");
        assert_eq!((&done["agent_id"], &done["execution_cost"]), (&json!(trade.worker_id), &json!(0.1)));
        assert!(done["execution_time_ms"].is_i64() && done["timestamp_utc"].is_string(), "{done}");
        assert_eq!(
            (&done["transfer"]["to_owner"], &done["transfer"]["job_id"]),
            (&json!("worker"), &json!(JOB))
        );
    }
    assert_eq!(trade.fixture.read("ran").trim(), JOB, "the same job is done once");
    assert_eq!(wallet(&trade).await, 9.9);
    let people =
        ["hire", "add", "--direct", "--endpoint", at, "--budget", "0.15", "--no-pay", "--input", "{}"];
    let (code, out, err) = said_of(&trade.fixture, "", &people);
    assert!(code == Some(0) && out.ends_with("  add  SUCCESS\n{\"got\":{}}\n"), "{out} {err}");

    // A refusal, by the agent or before the request, costs nothing.
    let other =
        ["--endpoint", at, "--budget", "0.15", "--input", "{\"a\": 2}", "--from", "boss", "--id", JOB];
    let agent = trade.worker_id.as_str();
    for (key, args, exit, words) in [
        (&trade.boss, &other[..], 3, "used for another job"),
        (&trade.boss, &["--endpoint", at, "--budget", "0.05", "--from", "boss"], 3, "BUDGET_INSUFFICIENT"),
        (&trade.boss, &["--agent", agent, "--budget", "0.05", "--from", "boss"], 3, "BUDGET_INSUFFICIENT"),
        (
            &trade.boss,
            &["--agent", agent, "--budget", "0.15", "--from", "boss"],
            3,
            "has no address of its own",
        ),
        (&trade.boss, &["--budget", "0.15", "--from", "boss"], 3, "nobody with an address"),
        (&trade.boss, &["--endpoint", at, "--budget", "100", "--from", "boss"], 3, "TRANSFER_FAILED"),
        (&trade.boss, &["--endpoint", at, "--budget", "0.15"], 2, "--from"),
        (&trade.worker, &["--endpoint", at, "--budget", "0.15"], 2, "paying needs the key of an owner"),
        (
            &trade.boss,
            &["--endpoint", "http://127.0.0.1:1", "--budget", "0.15", "--from", "boss"],
            4,
            "cannot reach",
        ),
    ] {
        let (code, done, err) = hire(&trade, key, args);
        assert_eq!((code, &done), (Some(exit), &Value::Null), "{args:?}: {err}");
        assert!(err.contains(words), "{args:?}: {err}");
    }
    let skill = ["hire", "fly", "--direct", "--endpoint", at, "--budget", "1", "--no-pay"];
    let (code, _, err) = said_of(&trade.fixture, "", &skill);
    assert!(code == Some(3) && err.contains("SKILL_MISMATCH"), "{err}");
    // A failed job is not paid.
    let args = ["--endpoint", at, "--budget", "0.15", "--input", "{\"silent\": 1}", "--from", "boss"];
    let (code, failed, _) = hire(&trade, &trade.boss, &args);
    assert_eq!(
        (code, &failed["status"], &failed["paid"]),
        (Some(1), &json!("FAILURE"), &json!(0.0)),
        "{failed}"
    );
    assert_eq!(wallet(&trade).await, 9.9);
    // Jobs of the hub come by the inbox at the same time.
    seen(&trade.fixture, "listening for jobs\n").await;
    let brokered = trade.hire("{\"b\": 1}", &["--wait"]).await;
    assert_eq!((&brokered["status"], &brokered["settled"]), (&json!("SUCCESS"), &json!(0.1)), "{brokered}");
    worker.end().await;
}

/// The worker's address for a client that knows the document alone, and refusals of strangers.
#[tokio::test]
async fn the_address_of_a_worker() {
    let trade = Trade::open().await;
    let callback = FakeAgent::start().await;
    let flags = ["--listen", "127.0.0.1:0", "--allow-private", "127.0.0.0/8"];
    let worker = trade.work(&flags, SCRIPT).await;
    let url = address(&trade);
    let post = |body: Value| trade.fixture.http.post(&url).json(&body);
    let answer = post(document_job(JOB)).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let done: Value = answer.json().await.unwrap();
    assert_eq!((&done["job_id"], &done["status"]), (&json!(JOB), &json!("SUCCESS")), "{done}");
    assert_eq!((&done["execution_cost"], &done["error_message"]), (&json!(0.1), &Value::Null), "{done}");

    // The result of a longer job is sent to its callback, and returned to a repeated request.
    let mut slow = document_job("f81d4fae-7dec-11d0-a765-00a0c91e6bf7");
    (slow["input_data"], slow["callback_url"]) = (json!({"slow": 1}), json!(callback.url()));
    let answer = post(slow.clone()).send().await.unwrap();
    assert_eq!(answer.status(), 202);
    let pending: Value = answer.json().await.unwrap();
    assert_eq!(
        (&pending["status"], &pending["error_message"]),
        (&json!("PENDING"), &Value::Null),
        "{pending}"
    );
    std::fs::write(trade.fixture.path("go"), "").unwrap();
    let brought = callback.wait_for(1, SOON).await;
    let brought = brought[0].body.clone();
    assert_eq!((&brought["job_id"], &brought["status"]), (&slow["job_id"], &json!("SUCCESS")), "{brought}");
    let again: Value = post(slow).send().await.unwrap().json().await.unwrap();
    assert_eq!(again, brought);

    let with = |name: &str, value: Value| {
        let mut job = document_job("f81d4fae-7dec-11d0-a765-00a0c91e6bf8");
        job[name] = value;
        job
    };
    for (body, status, code) in [
        (json!({}), 400, "VALIDATION"),
        (with("currency", json!("dollars")), 400, "VALIDATION"),
        (with("budget", json!("1")), 400, "VALIDATION"),
        (with("budget", json!(0.001)), 400, "VALIDATION"),
        (with("budget", json!(0.09)), 422, "BUDGET_INSUFFICIENT"),
        (with("skill_name", json!("fly")), 422, "SKILL_MISMATCH"),
        (with("job_id", json!(JOB)), 200, ""),
        (with("input_data", json!("x".repeat(300_000))), 413, "VALIDATION"),
    ] {
        let answer = post(body).send().await.unwrap();
        let (seen, said) = (answer.status(), answer.json::<Value>().await.unwrap());
        assert_eq!(
            (seen.as_u16(), said["error"]["code"].as_str().unwrap_or_default()),
            (status, code),
            "{said}"
        );
    }
    let from_page = post(document_job(JOB)).header("origin", "https://page.example").send().await.unwrap();
    assert_eq!(from_page.status(), 403);
    for (method, path, status) in
        [(Method::GET, "/jobs", 405), (Method::HEAD, "/jobs", 405), (Method::POST, "/elsewhere", 404)]
    {
        let url = url.replace("/jobs", path);
        assert_eq!(trade.fixture.http.request(method, url).send().await.unwrap().status(), status, "{path}");
    }
    let challenge = post(json!({"type": "challenge", "challenge": "c_1"})).send().await.unwrap();
    assert_eq!(challenge.json::<Value>().await.unwrap(), json!({"challenge": "c_1"}));
    worker.end().await;

    // With a network list or a secret, other requests are refused.
    for guard in [["--allow-from", "192.0.2.7"], ["--secret", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"]] {
        let worker = trade.work(&[&["--listen", "127.0.0.1:0"], &guard[..]].concat(), SCRIPT).await;
        let answer = trade.fixture.http.post(address(&trade)).json(&document_job(JOB)).send().await.unwrap();
        assert!(matches!(answer.status().as_u16(), 401 | 403), "{guard:?}: {}", answer.status());
        worker.end().await;
    }
}

/// With a registered address, jobs of the hub and direct jobs come the same way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registered_address_takes_the_hubs_jobs_too() {
    let trade = Trade::open().await;
    let at = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let endpoint = format!("http://{at}/jobs");
    let worker: Agent = trade.work(&["--listen", &at, "--endpoint", &endpoint], SCRIPT).await;
    seen(&trade.fixture, &format!("registered: the hub sends jobs to {endpoint}")).await;
    let quick = trade.hire("{\"a\": 1}", &["--wait"]).await;
    assert_eq!((&quick["status"], &quick["settled"]), (&json!("SUCCESS"), &json!(0.1)), "{quick}");
    assert!(!trade.fixture.read("log").contains("listening for jobs\n"), "its inbox is closed");

    // The job takes longer than a response may, so its result goes to the hub's callback.
    let slow = trade.hire("{\"slow\": 1}", &["--wait"]);
    let go = async {
        until("the slow one runs", || !trade.fixture.read("pid").trim().is_empty()).await;
        seen(&trade.fixture, "its result goes to the callback address").await;
        std::fs::write(trade.fixture.path("go"), "").unwrap();
    };
    let (slow, ()) = tokio::join!(slow, go);
    assert_eq!((&slow["status"], &slow["settled"]), (&json!("SUCCESS"), &json!(0.1)), "{slow}");

    // Cancelling a job ends its program.
    std::fs::remove_file(trade.fixture.path("go")).unwrap();
    std::fs::remove_file(trade.fixture.path("pid")).unwrap();
    let slow = trade.hire("{\"slow\": 2}", &[]).await;
    until("the program runs", || !trade.fixture.read("pid").trim().is_empty()).await;
    let pid = trade.fixture.read("pid").trim().to_owned();
    market(&trade.fixture, &trade.boss, &["cancel", id(&slow)]).await;
    until("the program is gone", || !std::path::Path::new(&format!("/proc/{pid}")).exists()).await;

    // The agent is found by its skill. A registered endpoint in a private network is called only if that is
    // allowed.
    let asked = ["--budget", "0.15", "--input", "{\"a\": 1}", "--from", "boss"];
    let (code, _, err) = hire(&trade, &trade.boss, &asked);
    assert!(code == Some(3) && err.contains("is not called"), "{err}");
    let allowed = [&asked[..], &["--allow-private", "127.0.0.0/8"]].concat();
    let (code, done, err) = hire(&trade, &trade.boss, &allowed);
    assert_eq!(
        (code, &done["status"], &done["paid"]),
        (Some(0), &json!("SUCCESS"), &json!(0.1)),
        "{done} {err}"
    );
    assert_eq!(wallet(&trade).await, 9.7);
    worker.end().await;
}
