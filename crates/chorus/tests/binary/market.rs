//! Jobs served by `chorus agent` and hired by `chorus market`: the program itself, over sockets.

use crate::agent_fixture::{Agent, HubFixture, SOON, said, until};
use crate::hub::{OPERATOR, chorus};
use reqwest::Method;
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};

/// Registers an orchestrator with credits and returns its owner's key.
pub(crate) async fn orchestrator(fixture: &HubFixture) -> String {
    let made = market(fixture, "", &["register", "Boss", "--owner", "boss", "--skill", "boss=1"]).await;
    market(fixture, OPERATOR, &["mint", "boss", "10"]).await;
    made["owner_key"].as_str().unwrap().to_owned()
}

pub(crate) fn command(fixture: &HubFixture, key: &str, args: &[&str]) -> Command {
    let mut command = chorus();
    command.arg("market").args(args).arg("--json").env("CHORUS_URL", &fixture.url);
    if !key.is_empty() {
        command.env("CHORUS_KEY", key);
    }
    command.current_dir(fixture.folder.path());
    command
}

pub(crate) async fn market(fixture: &HubFixture, key: &str, args: &[&str]) -> Value {
    let mut command = tokio::process::Command::from(command(fixture, key, args));
    let output = command.output().await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!text.is_empty(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&text).unwrap()
}

pub(crate) async fn seen(fixture: &HubFixture, what: &str) {
    until(what, || fixture.read("log").contains(what)).await;
}

/// By the inbox and by C2A: jobs beside chat, failed jobs, and cancelled jobs.
async fn serves(way: &[&str]) {
    let fixture = HubFixture::open().await;
    let key = orchestrator(&fixture).await;
    let script = "test \"$CHORUS_EVENT_KIND\" = job || { cat > /dev/null; echo hello; exit; }\n\
                  read -r input\n\
                  case $input in\n\
                  *slow*) echo $$ > $D/pid; sleep 300;;\n\
                  *bad*) echo no luck >&2; exit 1;;\n\
                  *) echo \"{\\\"skill\\\": \\\"$CHORUS_SKILL\\\", \\\"got\\\": $input}\";;\n\
                  esac";
    let path = fixture.path("worker.sh");
    std::fs::write(&path, format!("D='{}'\n{script}\n", fixture.folder.path().display())).unwrap();
    let skill = json!({"skill_name": "price", "cost_per_call": 0.25, "input_schema": {"item": "string"}});
    std::fs::write(fixture.path("skill.json"), skill.to_string()).unwrap();
    let flags = ["--name", "worker", "--skill", "@skill.json", "--skill", "plain=0.10", "--owner", "worker"];
    let args = [way, &flags, &["--exec", "sh", path.to_str().unwrap()]].concat();
    let agent = Agent::run(fixture.command(&args), &fixture.path("log"));
    seen(&fixture, "listens").await;
    assert!(fixture.read("log").contains("offers price=0.25 plain=0.1"), "{}", fixture.read("log"));
    assert!(fixture.read("state/worker.owner").starts_with("cw_"));

    let hire = ["hire", "price", "--budget", "1", "--input", "{\"item\": \"apple\"}", "--wait"];
    let done = market(&fixture, &key, &hire).await;
    assert_eq!((&done["status"], &done["settled"]), (&json!("SUCCESS"), &json!(0.25)), "{done}");
    assert_eq!(done["result"]["output_data"], json!({"skill": "price", "got": {"item": "apple"}}));
    // The schema is that of the file.
    let odd = command(&fixture, &key, &["hire", "price", "--budget", "1", "--input", "{\"item\": 1}"])
        .output()
        .unwrap();
    assert_eq!(odd.status.code(), Some(3));
    // A failed job is refunded, with its reason.
    let failed =
        market(&fixture, &key, &["hire", "plain", "--budget", "1", "--input", "{\"bad\": 1}", "--wait"])
            .await;
    assert_eq!((&failed["status"], &failed["settled"]), (&json!("FAILURE"), &json!(0.0)), "{failed}");
    assert!(failed["error"]["message"].as_str().unwrap().contains("no luck"), "{failed}");
    // Cancelling a job ends its program.
    let slow = market(&fixture, &key, &["hire", "plain", "--budget", "1", "--input", "{\"slow\": 1}"]).await;
    until("the program runs", || !fixture.read("pid").trim().is_empty()).await;
    let pid = fixture.read("pid").trim().to_owned();
    market(&fixture, &key, &["cancel", slow["job_id"].as_str().unwrap()]).await;
    seen(&fixture, "leaves the job").await;
    until("the program is gone", || !std::path::Path::new(&format!("/proc/{pid}")).exists()).await;
    // The agent still answers chat.
    fixture.admit("worker").await;
    fixture.say("@worker hi").await;
    fixture.seen("worker", |events| said(events) == ["hello"]).await;
    let wallet = market(&fixture, &key, &["wallet", "boss"]).await;
    assert_eq!((&wallet["balance"], &wallet["held"]), (&json!(9.75), &json!(0.0)));
    agent.end().await;
}

#[tokio::test]
async fn an_agent_serves_jobs_by_its_inbox() {
    serves(&[]).await;
}

#[tokio::test]
async fn an_agent_serves_jobs_by_c2a() {
    serves(&["--c2a"]).await;
}

#[tokio::test]
async fn a_pipeline_stops_before_its_budget_is_passed() {
    let fixture = HubFixture::open().await;
    let key = orchestrator(&fixture).await;
    let flags = ["--name", "worker", "--skill", "one=0.20", "--skill", "two=0.30", "--owner", "worker"];
    let args = [&flags[..], &["--exec", "cat"]].concat();
    let agent = Agent::run(fixture.command(&args), &fixture.path("log"));
    seen(&fixture, "listens").await;
    let steps = json!([{"skill_name": "one"}, {"skill_name": "two"}]);
    for (budget, ends) in [(0.5, true), (0.49, false)] {
        let pipeline = json!({"budget": budget, "input_data": {"text": "x"}, "steps": steps});
        std::fs::write(fixture.path("pipeline.json"), pipeline.to_string()).unwrap();
        let output = tokio::process::Command::from(command(&fixture, &key, &["run", "pipeline.json"]))
            .output()
            .await
            .unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.success(), ends, "{out} {err}");
        if ends {
            let done: Value = serde_json::from_str(&out).unwrap();
            assert_eq!((&done["cost"], &done["output_data"]), (&json!(0.5), &json!({"text": "x"})), "{done}");
            assert_eq!(done["jobs"].as_array().unwrap().len(), 2);
        } else {
            assert!(err.contains("stopped before step 2 (two)") && err.contains("0.29"), "{err}");
        }
    }
    let wallet = market(&fixture, &key, &["wallet", "boss"]).await;
    assert_eq!((&wallet["balance"], &wallet["held"]), (&json!(9.3), &json!(0.0)));
    agent.end().await;
}

/// Runs `chorus market` for a person and returns the exit code and the output.
pub(crate) fn said_of(fixture: &HubFixture, key: &str, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = chorus();
    command.arg("market").args(args).env("CHORUS_URL", &fixture.url).current_dir(fixture.folder.path());
    if !key.is_empty() {
        command.env("CHORUS_KEY", key);
    }
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// All commands about money, for people and for programs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_of_money() {
    let fixture = HubFixture::open().await;
    let boss = market(&fixture, "", &["register", "Boss", "--owner", "boss"]).await;
    assert_eq!(boss["status"], "registered", "who only hires offers nothing: {boss}");
    let (boss_key, owner_key) = (boss["api_key"].as_str().unwrap(), boss["owner_key"].as_str().unwrap());
    let worker =
        market(&fixture, "", &["register", "Worker", "--owner", "worker", "--skill", "add=0.30"]).await;
    let (worker_id, worker_key) = (worker["agent_id"].as_str().unwrap(), worker["api_key"].as_str().unwrap());

    // Minting, transferring and burning each print the new balance.
    let ok = |args: &[&str], key: &str, words: &str| {
        let (code, out, err) = said_of(&fixture, key, args);
        assert_eq!((code, out.trim_end()), (Some(0), words), "{args:?}: {err}");
    };
    ok(&["mint", "boss", "10"], OPERATOR, "boss: 10.00 to spend");
    ok(&["burn", "boss", "1.50"], OPERATOR, "boss: 8.50 to spend");
    let id = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
    for _ in 0..2 {
        let transfer = ["transfer", "--from", "boss", "--to", "worker", "0.50", "--id", id];
        ok(&transfer, owner_key, &format!("{id}: 0.50 from boss to worker"));
    }
    ok(&["wallet", "boss"], owner_key, "boss: 8.00 to spend, 0.00 held for jobs");
    ok(&["wallet", "worker"], worker_key, "worker: 0.50 to spend, 0.00 held for jobs");
    let added = "10.00 made, 1.50 taken away; 8.50 in wallets, 0.00 held for jobs: it adds up";
    ok(&["economy"], "", added);
    let economy = market(&fixture, "", &["economy"]).await;
    assert_eq!((&economy["minted"], &economy["balanced"]), (&json!(10.0), &json!(true)));

    // Offers: one is accepted, and its job cancelled.
    let quote = market(&fixture, boss_key, &["quote", "add", "--wait", "0"]).await;
    assert_eq!(
        (&quote["offers"][0]["price"], &quote["offers"][0]["agent_id"]),
        (&json!(0.3), &json!(worker_id))
    );
    let (code, out, _) = said_of(&fixture, boss_key, &["quote", "add", "--wait", "0", "--budget", "0.30"]);
    assert!(code == Some(0) && out.contains("PRICE") && out.contains(worker_id), "{out}");
    let job = market(&fixture, boss_key, &["accept", quote["quote_id"].as_str().unwrap(), worker_id]).await;
    let job = job["job_id"].as_str().unwrap().to_owned();
    ok(&["wallet", "boss"], owner_key, "boss: 7.70 to spend, 0.30 held for jobs");
    for _ in 0..2 {
        let (code, out, _) = said_of(&fixture, boss_key, &["cancel", &job]);
        assert!(code == Some(0) && out.contains("FAILURE") && out.contains("CANCELLED"), "{out}");
    }
    ok(&["wallet", "boss"], owner_key, "boss: 8.00 to spend, 0.00 held for jobs");

    // The ledger and the reputation.
    let of_job = market(&fixture, owner_key, &["ledger", "--job", &job]).await;
    let kinds: Vec<_> = of_job.as_array().unwrap().iter().map(|moved| moved["kind"].clone()).collect();
    assert_eq!(kinds, [json!("hold"), json!("refund")], "{of_job}");
    let (code, out, _) = said_of(&fixture, owner_key, &["ledger"]);
    let kinds = ["mint", "burn", "transfer", "hold", "refund"];
    assert!(code == Some(0) && kinds.iter().all(|kind| out.contains(kind)), "{out}");
    ok(&["reputation", worker_id], "", "50.0000");

    // A refusal gives its code and exits with 3. An invalid amount is wrong usage.
    for (key, args, exit, words) in [
        (owner_key, &["transfer", "--from", "boss", "--to", "worker", "100"][..], 3, "TRANSFER_FAILED"),
        (worker_key, &["transfer", "--from", "boss", "--to", "worker", "1"], 3, "FORBIDDEN"),
        (owner_key, &["mint", "boss", "1"], 3, "FORBIDDEN"),
        (OPERATOR, &["burn", "boss", "100"], 3, "TRANSFER_FAILED"),
        (OPERATOR, &["mint", "boss", "0.001"], 2, "two decimals"),
        (OPERATOR, &["mint", "boss", "-1"], 2, ""),
        (boss_key, &["hire", "add", "--budget", "0.29"], 3, "BUDGET_INSUFFICIENT"),
        (boss_key, &["quote", "fly"], 3, "SKILL_MISMATCH"),
        (boss_key, &["cancel", id], 3, "NOT_FOUND"),
        (worker_key, &["wallet", "boss"], 3, ""),
        ("", &["wallet", "boss"], 2, ""),
        ("", &["reputation", id], 3, "NOT_FOUND"),
    ] {
        let (code, out, err) = said_of(&fixture, key, args);
        assert_eq!(code, Some(exit), "{args:?}: {out} {err}");
        assert!(out.is_empty() && err.contains(words), "{args:?}: {out} {err}");
    }
    ok(&["economy"], "", added);
}

/// An agent answers a request for a quote with its listed price and the duration of its last job.
async fn answers_quotes(way: &[&str]) {
    let fixture = HubFixture::open().await;
    let key = orchestrator(&fixture).await;
    let flags = ["--name", "worker", "--skill", "add=0.20", "--owner", "worker", "--exec", "cat"];
    let agent = Agent::run(fixture.command(&[way, &flags].concat()), &fixture.path("log"));
    seen(&fixture, "listens").await;
    let quote = market(&fixture, &key, &["quote", "add", "--wait", "20"]).await;
    let offer = &quote["offers"][0];
    assert_eq!((&offer["answered"], &offer["price"]), (&json!(true), &json!(0.2)), "{quote}");
    seen(&fixture, "offers a job of add for 0.20").await;
    market(&fixture, &key, &["hire", "add", "--budget", "0.20", "--input", "{\"a\": 1}", "--wait"]).await;
    let quote = market(&fixture, &key, &["quote", "add", "--wait", "20"]).await;
    let offer = &quote["offers"][0];
    assert!(offer["answered"] == true && offer["expected_ms"].is_i64(), "{quote}");
    agent.end().await;
}

#[tokio::test]
async fn an_agent_answers_quotes_by_its_inbox() {
    answers_quotes(&[]).await;
}

#[tokio::test]
async fn an_agent_answers_quotes_by_c2a() {
    answers_quotes(&["--c2a"]).await;
}

/// The ledger is checked in the background, and the doctor reports it.
#[tokio::test]
async fn the_doctor_looks_at_the_ledger() {
    let fixture = HubFixture::open().await;
    let begun = Instant::now();
    loop {
        let output = chorus()
            .arg("doctor")
            .env("CHORUS_URL", &fixture.url)
            .current_dir(fixture.folder.path())
            .output();
        let text = String::from_utf8_lossy(&output.unwrap().stdout).into_owned();
        if text.contains("ledger") && text.contains("adds up") {
            break;
        }
        assert!(begun.elapsed() < SOON, "{text}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// With sign-up by invitation, a new agent on the market uses a code, which works once.
#[tokio::test]
async fn a_sign_up_code_lets_an_agent_into_the_market() {
    let mut fixture = HubFixture::open().await;
    fixture.fell();
    fixture.invites = true;
    fixture.start_hub();
    let args = ["register", "Ada", "--owner", "ada", "--skill", "price=0.10"];
    let without = command(&fixture, "", &args).output().unwrap();
    assert_eq!(without.status.code(), Some(3), "{}", String::from_utf8_lossy(&without.stderr));
    let code = fixture.api(Method::POST, "/invitations", OPERATOR, json!({})).await;
    let code = code["invitation"].as_str().unwrap().to_owned();
    let with = [&args[..], &["--invitation", &code]].concat();
    assert_eq!(market(&fixture, "", &with).await["status"], "registered");
    let args = ["register", "Bob", "--owner", "bob", "--skill", "price=0.10", "--invitation", &code];
    assert_eq!(command(&fixture, "", &args).output().unwrap().status.code(), Some(3));
}
