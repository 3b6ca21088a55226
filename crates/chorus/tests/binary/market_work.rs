//! `chorus market work`: a program that serves jobs of the hub.

use crate::agent_fixture::{Agent, HubFixture, SOON, until};
use crate::market::{command, market, orchestrator, seen};
use serde_json::{Value, json};

/// A hub with a payer, and a registered worker that does not run yet.
pub(crate) struct Trade {
    pub(crate) fixture: HubFixture,
    /// The owner's key of the payer.
    pub(crate) boss: String,
    /// The worker's key and id.
    pub(crate) worker: String,
    pub(crate) worker_id: String,
}

impl Trade {
    pub(crate) async fn open() -> Self {
        let fixture = HubFixture::open().await;
        let boss = orchestrator(&fixture).await;
        let made =
            market(&fixture, "", &["register", "Worker", "--owner", "worker", "--skill", "add=0.10"]).await;
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        Self { boss, worker: text("api_key"), worker_id: text("agent_id"), fixture }
    }

    /// Runs `chorus market work` with these flags and this script, in which `$D` is the folder, and waits
    /// until it listens.
    pub(crate) async fn work(&self, flags: &[&str], script: &str) -> Agent {
        let path = self.fixture.path("work.sh");
        std::fs::write(&path, format!("D='{}'\n{script}\n", self.fixture.folder.path().display())).unwrap();
        let args = [&["work"], flags, &["sh", path.to_str().unwrap()]].concat();
        // The log contains this start only.
        std::fs::remove_file(self.fixture.path("log")).ok();
        let agent = Agent::run(command(&self.fixture, &self.worker, &args), &self.fixture.path("log"));
        seen(&self.fixture, "listening for jobs").await;
        agent
    }

    pub(crate) async fn hire(&self, input: &str, more: &[&str]) -> Value {
        let args = [&["hire", "add", "--budget", "1", "--input", input], more].concat();
        market(&self.fixture, &self.boss, &args).await
    }
}

pub(crate) fn id(job: &Value) -> &str {
    job["job_id"].as_str().unwrap()
}

/// Records its job, and acts by its input.
pub(crate) const SCRIPT: &str = "read -r input\n\
    echo \"$CHORUS_JOB\" >> $D/ran\n\
    case $input in\n\
    *slow*) echo $$ > $D/pid; while ! test -e $D/go; do sleep 0.05; done;;\n\
    *silent*) exit 0;;\n\
    esac\n\
    echo \"{\\\"got\\\": $input}\"";

#[tokio::test]
async fn a_slow_job_does_not_hold_up_another() {
    let trade = Trade::open().await;
    let worker = trade.work(&[], SCRIPT).await;
    let slow = trade.hire("{\"slow\": 1}", &[]).await;
    until("the slow one runs", || !trade.fixture.read("pid").trim().is_empty()).await;
    let quick = trade.hire("{\"a\": 1}", &["--deadline-ms", "20000", "--wait"]).await;
    assert_eq!((&quick["status"], &quick["settled"]), (&json!("SUCCESS"), &json!(0.1)), "{quick}");
    let done = market(&trade.fixture, &trade.boss, &["jobs", id(&slow)]).await;
    assert_eq!(done["status"], "PENDING", "{done}");
    std::fs::write(trade.fixture.path("go"), "").unwrap();
    until("the slow one is done", || trade.fixture.read("log").matches("SUCCESS").count() == 2).await;
    worker.end().await;

    // With one job at a time, the second waits for the first.
    std::fs::remove_file(trade.fixture.path("go")).unwrap();
    std::fs::remove_file(trade.fixture.path("pid")).unwrap();
    let worker = trade.work(&["--at-once", "1"], SCRIPT).await;
    trade.hire("{\"slow\": 2}", &[]).await;
    until("the slow one runs", || !trade.fixture.read("pid").trim().is_empty()).await;
    let late = trade.hire("{\"a\": 2}", &["--deadline-ms", "1500", "--wait"]).await;
    assert_eq!(late["status"], "FAILURE", "{late}");
    worker.end().await;
}

#[tokio::test]
async fn jobs_that_have_ended_are_not_begun_and_end_their_program() {
    let trade = Trade::open().await;
    let late = trade.hire("{\"late\": 1}", &["--deadline-ms", "1000", "--wait"]).await;
    assert_eq!(late["status"], "FAILURE", "{late}");
    let cancelled = trade.hire("{\"cancelled\": 1}", &[]).await;
    market(&trade.fixture, &trade.boss, &["cancel", id(&cancelled)]).await;
    // The hub hands out neither of them, so only the next job runs.
    let worker = trade.work(&[], SCRIPT).await;
    let slow = trade.hire("{\"slow\": 1}", &[]).await;
    until("the program runs", || !trade.fixture.read("pid").trim().is_empty()).await;
    let pid = trade.fixture.read("pid").trim().to_owned();
    market(&trade.fixture, &trade.boss, &["cancel", id(&slow)]).await;
    seen(&trade.fixture, &format!("job {}: it has ended", id(&slow))).await;
    until("the program is gone", || !std::path::Path::new(&format!("/proc/{pid}")).exists()).await;
    assert_eq!(trade.fixture.read("ran").trim(), id(&slow));
    worker.end().await;
}

/// An empty output is not paid, for both kinds of workers.
#[tokio::test]
async fn a_program_that_prints_nothing_is_not_paid() {
    let trade = Trade::open().await;
    let worker = trade.work(&[], SCRIPT).await;
    let silent = trade.hire("{\"silent\": 1}", &["--wait"]).await;
    assert_eq!((&silent["status"], &silent["settled"]), (&json!("FAILURE"), &json!(0.0)), "{silent}");
    assert!(silent["error"]["message"].as_str().unwrap().contains("sh printed nothing"), "{silent}");
    worker.end().await;

    let flags = ["--name", "mute", "--skill", "mute=0.10", "--owner", "mute", "--exec", "true"];
    let agent = Agent::run(trade.fixture.command(&flags), &trade.fixture.path("log"));
    seen(&trade.fixture, "listens to mute").await;
    let silent = market(&trade.fixture, &trade.boss, &["hire", "mute", "--budget", "1", "--wait"]).await;
    assert_eq!((&silent["status"], &silent["settled"]), (&json!("FAILURE"), &json!(0.0)), "{silent}");
    assert!(silent["error"]["message"].as_str().unwrap().contains("true printed nothing"), "{silent}");
    agent.end().await;
}

/// An owner's key is stored in one place only. Another owner at a later start, perhaps mistyped, replaces
/// neither the key nor the owner.
#[tokio::test]
async fn an_agent_stays_with_its_owner() {
    let fixture = HubFixture::open().await;
    let flags = |owner: &[&'static str]| {
        [&["--name", "ok", "--skill", "ok=0.10"], owner, &["--exec", "cat"]].concat()
    };
    let agent = Agent::run(fixture.command(&flags(&["--owner", "first"])), &fixture.path("log"));
    seen(&fixture, "listens to ok").await;
    agent.end().await;
    let key = fixture.read("state/ok.owner");
    assert!(key.starts_with("cw_"), "{key}");

    let mut moved = tokio::process::Command::from(fixture.command(&flags(&["--owner", "frist"])));
    let moved = tokio::time::timeout(SOON, moved.kill_on_drop(true).output());
    let moved = moved.await.expect("it does not start").unwrap();
    let said = String::from_utf8_lossy(&moved.stderr).into_owned();
    assert_eq!(moved.status.code(), Some(3), "{said}");
    assert!(said.contains("ok earns for first on the market, and cannot be moved to frist"), "{said}");
    assert!(said.contains("hint: leave --owner out"), "{said}");
    for owner in [&["--owner", "first"][..], &[]] {
        std::fs::remove_file(fixture.path("log")).unwrap();
        let agent = Agent::run(fixture.command(&flags(owner)), &fixture.path("log"));
        seen(&fixture, "offers ok=0.10 for first").await;
        seen(&fixture, "listens to ok").await;
        agent.end().await;
    }
    assert_eq!(fixture.read("state/ok.owner"), key);
    let wallet = market(&fixture, key.trim(), &["wallet", "first"]).await;
    assert_eq!(wallet["balance"], 0.0, "{wallet}");
}

/// Ends a worker in the middle of a job, by SIGKILL or SIGTERM, and starts it again. The job is then done
/// once.
async fn goes_on_after(trade: &Trade, hard: bool, start: impl AsyncFn() -> Agent, skill: &str) {
    for file in ["go", "pid", "ran"] {
        std::fs::remove_file(trade.fixture.path(file)).ok();
    }
    let worker = start().await;
    let hire = ["hire", skill, "--budget", "1", "--input", "{\"slow\": 1}"];
    let job = market(&trade.fixture, &trade.boss, &hire).await;
    until("the job is in hand", || !trade.fixture.read("pid").trim().is_empty()).await;
    if hard {
        worker.kill9();
    } else {
        worker.end().await;
    }
    std::fs::write(trade.fixture.path("go"), "").unwrap();
    let worker = start().await;
    seen(&trade.fixture, "SUCCESS").await;
    let done = market(&trade.fixture, &trade.boss, &["jobs", id(&job)]).await;
    assert_eq!((&done["status"], &done["settled"]), (&json!("SUCCESS"), &json!(0.1)), "{done}");
    // Another job is done as usual, and no job is done twice.
    let next = market(&trade.fixture, &trade.boss, &["hire", skill, "--budget", "1", "--wait"]).await;
    assert_eq!(next["status"], "SUCCESS", "{next}");
    assert_eq!(trade.fixture.read("ran").lines().collect::<Vec<_>>(), [id(&job), id(&job), id(&next)]);
    worker.end().await;
}

#[tokio::test]
async fn a_job_in_hand_outlives_the_worker() {
    let trade = Trade::open().await;
    for hard in [true, false] {
        goes_on_after(&trade, hard, async || trade.work(&[], SCRIPT).await, "add").await;
    }
    // A worker with its own address, to which the hub POSTs jobs.
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    let (listen, endpoint) = (format!("127.0.0.1:{port}"), format!("http://127.0.0.1:{port}/jobs"));
    let flags = ["--listen", &listen, "--endpoint", &endpoint];
    goes_on_after(&trade, true, async || trade.work(&flags, SCRIPT).await, "add").await;
}

#[tokio::test]
async fn a_job_in_hand_outlives_the_agent() {
    let trade = Trade::open().await;
    let script = trade.fixture.path("slow.sh");
    std::fs::write(&script, format!("D='{}'\n{SCRIPT}\n", trade.fixture.folder.path().display())).unwrap();
    for way in [&[][..], &["--c2a"]] {
        let start = async || {
            let name = format!("slow{}", way.len());
            let skill = format!("{name}=0.10");
            let named = ["--name", &name, "--skill", &skill, "--owner", &name];
            let flags = [&named, way, &["--exec", "sh", script.to_str().unwrap()]].concat();
            std::fs::remove_file(trade.fixture.path("log")).ok();
            let agent = Agent::run(trade.fixture.command(&flags), &trade.fixture.path("log"));
            seen(&trade.fixture, &format!("listens to {name}")).await;
            agent
        };
        goes_on_after(&trade, way.is_empty(), start, &format!("slow{}", way.len())).await;
    }
}
