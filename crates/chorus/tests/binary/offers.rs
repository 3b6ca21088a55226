//! `chorus market quote`, `accept` and `run`, as people and programs use them at a terminal.

use crate::hub::OPERATOR;
use crate::terminal::{Terminal, text};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Two workers with the skill `sum` at different prices, and an owner with credits: the agents' ids and keys,
/// and the owner's key.
fn market(at: &Terminal) -> ([(String, String); 2], String) {
    let worker = |name: &str, skill: &str| {
        let made = at.json("", &["market", "register", name, "--owner", name, "--skill", skill]);
        (text(&made["agent_id"]), text(&made["api_key"]))
    };
    let workers = [worker("cheap", "sum=0.20"), worker("dear", "sum=0.30")];
    let boss = at.json("", &["market", "register", "Boss", "--owner", "boss"]);
    at.good(OPERATOR, &["market", "mint", "boss", "1"]);
    (workers, text(&boss["owner_key"]))
}

/// Does the next job in this agent's inbox.
fn work(at: &Terminal, key: &str, output: &Value) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let jobs = at.json(key, &["market", "jobs", "--status", "PENDING"]);
        if let Some(job) = jobs.as_array().unwrap().first() {
            let id = text(&job["job_id"]);
            let body = json!({"job_id": id, "status": "SUCCESS", "output_data": output});
            let path = format!("{}/market/jobs/{id}/result", at.hub.url);
            let sent = async {
                chorus_testkit::http::client().post(path).bearer_auth(key).json(&body).send().await.unwrap()
            };
            let taken = tokio::runtime::Runtime::new().unwrap().block_on(sent);
            assert!(taken.status().is_success(), "{taken:?}");
            return;
        }
        assert!(Instant::now() < deadline, "no job comes");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn offers_are_asked_for_and_one_is_taken() {
    let at = Terminal::open();
    let ([(cheap, cheap_key), (dear, _)], boss) = market(&at);
    let asked = at.run(&boss, &["market", "quote", "sum", "--wait", "0"]);
    assert_eq!(asked.code, 0, "{asked:?}");
    let lines: Vec<_> = asked.out.lines().collect();
    assert!(lines[0].contains("PRICE") && lines[1].contains(&cheap) && lines[2].contains(&dear), "{asked:?}");
    assert!(lines[1].contains("0.20") && asked.err.contains("stand until"), "{asked:?}");

    let quote = at.json(&boss, &["market", "quote", "sum", "--wait", "0", "--input", "{\"a\": 1}"]);
    let id = text(&quote["quote_id"]);
    let taken = at.json(&boss, &["market", "accept", &id, &cheap]);
    assert_eq!((&taken["status"], &taken["held"]), (&json!("PENDING"), &json!(0.2)), "{taken}");
    // Accepting the same offer again returns the same job; another offer is refused.
    assert_eq!(at.json(&boss, &["market", "accept", &id, &cheap])["job_id"], taken["job_id"]);
    at.run(&boss, &["market", "accept", &id, &dear]).failed(3, "taken already");
    work(&at, &cheap_key, &json!({"sum": 1}));
    let shown = at.good(&boss, &["market", "jobs", &text(&taken["job_id"])]);
    assert!(
        shown.contains("SUCCESS") && shown.contains("paid 0.20") && shown.contains("{\"sum\":1}"),
        "{shown}"
    );

    // A skill that nobody offers, another caller's offers, and an invalid agent.
    at.run(&boss, &["market", "quote", "paint", "--wait", "0"]).failed(3, "nobody offers");
    at.run(&boss, &["market", "quote", "sum", "--wait", "0", "--budget", "0.10"])
        .failed(3, "BUDGET_INSUFFICIENT");
    at.run(&cheap_key, &["market", "accept", &id, &cheap]).failed(3, "not yours");
    at.run(&boss, &["market", "accept", &id, "cheap"]).failed(2, "must be the UUID");
    at.run("", &["market", "quote", "sum"]).failed(2, "this needs a key");
}

#[test]
fn a_pipeline_is_told_step_by_step() {
    let at = Terminal::open();
    let ([(cheap, cheap_key), _], boss) = market(&at);
    let pipeline =
        json!({"budget": 0.5, "input_data": {"a": 1}, "steps": [{"skill_name": "sum", "agent_id": cheap}]});
    std::fs::write(at.folder.path().join("p.json"), pipeline.to_string()).unwrap();
    let ran = std::thread::scope(|scope| {
        let worker = scope.spawn(|| work(&at, &cheap_key, &json!({"sum": 1})));
        let ran = at.run(&boss, &["market", "run", "p.json"]);
        worker.join().unwrap();
        ran
    });
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("sum  SUCCESS  paid 0.20") && ran.out.contains("paid 0.20 of 0.50"), "{ran:?}");
    assert!(ran.out.ends_with("{\"sum\":1}\n"), "{ran:?}");

    std::fs::write(at.folder.path().join("odd.json"), "{}").unwrap();
    at.run(&boss, &["market", "run", "odd.json"]).failed(2, "is no pipeline");
    at.run(&boss, &["market", "run", "none.json"]).failed(1, "cannot read none.json");
    let none = json!({"budget": 0.5, "input_data": {}, "steps": []});
    std::fs::write(at.folder.path().join("none.json"), none.to_string()).unwrap();
    assert_eq!(at.run(&boss, &["market", "run", "none.json"]).code, 2);
}
