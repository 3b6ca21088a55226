//! The result tool of a job for an agent with a connection string: only that agent can report with it.

use crate::market::{BEGIN, Trader, assert_balanced, balance, trader};
use crate::market_jobs::{hire, id, job, shown, text};
use crate::support::{Answer, SOON, Setup, TestHub};
use chorus_protocol::code::Code;
use chorus_testkit::clock::ManualClock;
use chorus_testkit::receiver::FakeAgent;
use reqwest::Method;
use serde_json::{Value, json};

const SESSIONS: &str = "2025-11-25";

/// An agent with a connection string, from its program's view.
struct Worker {
    hub: TestHub,
    boss: Trader,
    hired: Trader,
    agent: FakeAgent,
}

impl Worker {
    async fn start(setup: Setup) -> Self {
        let hub = setup.start();
        let agent = FakeAgent::start().await;
        let (boss, worker) = (trader(&hub, "boss", 1).await, trader(&hub, "worker", 0).await);
        let fixture = Self { hub, boss, hired: worker, agent };
        fixture.connect("sk_a1b2c3d4e5f6").await;
        fixture
    }

    async fn connect(&self, secret: &str) {
        let body = json!({"connection_string": format!("http://{}/inbox/{secret}", self.agent.addr())});
        let path = format!("/api/v1/agents/{}/connection", self.hired.id);
        let set = self.hub.ask("PUT", &path, Some(&self.hired.key), &body).await;
        assert_eq!(set.status, 200, "{}", set.text);
    }

    /// Waits for the nth job.
    async fn given(&self, n: u32) -> (Value, Tools) {
        let job = job(n, &self.hired.id);
        hire(&self.hub, &self.boss.key, &job).await;
        let posted = self.agent.wait_for(n as usize, SOON).await.remove(n as usize - 1).body;
        (job, Tools::of(&self.hub, &posted))
    }

    async fn shown(&self, job: &Value) -> Value {
        shown(&self.hub, &self.boss.key, job).await
    }
}

/// The MCP server that came with a job.
#[derive(Clone)]
struct Tools {
    path: String,
    bearer: String,
}

impl Tools {
    fn of(hub: &TestHub, posted: &Value) -> Self {
        let path = text(&posted["mcp"]["url"]).strip_prefix(&hub.url).unwrap().to_owned();
        let bearer = text(&posted["mcp"]["headers"]["Authorization"]);
        Self { path, bearer: bearer.strip_prefix("Bearer ").unwrap().to_owned() }
    }

    async fn ask(&self, hub: &TestHub, method: &str, params: Value, session: Option<&str>) -> Answer {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let request = hub.request(Method::POST, &self.path, Some(&self.bearer));
        let request = request.header("accept", "application/json, text/event-stream").json(&body);
        let request = session.iter().fold(request, |request, session| {
            request.header("mcp-session-id", *session).header("mcp-protocol-version", SESSIONS)
        });
        Answer::of(request).await
    }

    /// Calls the tool with a session, as most clients do.
    async fn report(&self, hub: &TestHub, arguments: Value) -> Value {
        let session = self.open(hub).await;
        let call = json!({"name": "report_result", "arguments": arguments});
        let answer = self.ask(hub, "tools/call", call, Some(&session)).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.body["result"].clone()
    }

    async fn open(&self, hub: &TestHub) -> String {
        let opened = self.initialize(hub).await;
        assert_eq!(opened.status, 200, "{}", opened.text);
        opened.header("mcp-session-id").to_owned()
    }

    async fn initialize(&self, hub: &TestHub) -> Answer {
        let params = json!({"protocolVersion": SESSIONS, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        self.ask(hub, "initialize", params, None).await
    }
}

#[tokio::test]
async fn a_result_is_reported_by_the_tool_that_came_with_the_job() {
    let fixture = Worker::start(Setup::new()).await;
    let Worker { hub, boss, hired: worker, .. } = &fixture;
    let (one, tools) = fixture.given(1).await;

    let opened = tools.initialize(hub).await;
    assert!(text(&opened.body["result"]["instructions"]).contains(&id(&one)), "{}", opened.text);
    let session = opened.header("mcp-session-id").to_owned();
    let listed = tools.ask(hub, "tools/list", json!({}), Some(&session)).await.body;
    let names: Vec<_> =
        listed["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["report_result"], "a job has no other tools");

    // An invalid result is refused and changes nothing.
    for wrong in [json!({}), json!({"status": "DONE"}), json!({"status": "SUCCESS", "job": 1})] {
        let refused = tools.report(hub, wrong.clone()).await;
        assert_eq!(refused["isError"], true, "{wrong}: {refused}");
    }
    assert_eq!(fixture.shown(&one).await["status"], "PENDING");

    let result = json!({"status": "SUCCESS", "output_data": {"entities": [1]}, "execution_cost": 0.05});
    let taken = tools.report(hub, result.clone()).await;
    let expected = json!({"job_id": id(&one), "status": "SUCCESS", "settled": 0.05});
    assert_eq!(taken["structuredContent"], expected, "{taken}");
    let done = fixture.shown(&one).await;
    assert_eq!(
        (&done["status"], &done["result"]["output_data"]),
        (&json!("SUCCESS"), &json!({"entities": [1]}))
    );
    assert_eq!(balance(hub, &worker.owner).await.0, 0.05);
    // Repeating the result returns the same; another result is too late.
    assert_eq!(tools.report(hub, result).await["structuredContent"], expected);
    let late = tools.report(hub, json!({"status": "FAILURE"})).await;
    assert!(late["isError"] == true && late.to_string().contains("too late"), "{late}");
    assert_eq!(balance(hub, &boss.owner).await, (json!(0.95), json!(0.0)));

    // An agent that cannot do the job gives a reason.
    let (two, tools) = fixture.given(2).await;
    tools.report(hub, json!({"status": "FAILURE", "error_message": "no idea"})).await;
    let failed = fixture.shown(&two).await;
    assert_eq!((&failed["status"], &failed["error"]["message"]), (&json!("FAILURE"), &json!("no idea")));

    // The job names the skill's output schema, which is checked here too.
    let (three, tools) = fixture.given(3).await;
    let posted = fixture.agent.wait_for(3, SOON).await.remove(2).body;
    assert!(text(&posted["message"]["content"]).contains("\"entities\""), "{posted}");
    let broken = tools.report(hub, json!({"status": "SUCCESS", "output_data": {"entities": 1}})).await;
    assert_eq!(broken["structuredContent"]["status"], "FAILURE", "{broken}");
    assert_eq!(fixture.shown(&three).await["status"], "FAILURE");
    assert_balanced(hub).await;
}

#[tokio::test]
async fn it_is_good_for_this_job_and_this_agent_alone() {
    let clock = ManualClock::new(BEGIN);
    let fixture = Worker::start(Setup::new().clock(&clock)).await;
    let Worker { hub, boss, hired: worker, .. } = &fixture;
    let (one, tools) = fixture.given(1).await;
    let (two, _) = fixture.given(2).await;

    let elsewhere = Tools { path: tools.path.replace(&id(&one), &id(&two)), ..tools.clone() };
    assert_eq!(elsewhere.initialize(hub).await.status, 404, "a token of another job");
    let stranger = trader(hub, "stranger", 0).await;
    let as_stranger = Tools { bearer: stranger.key, ..tools.clone() };
    as_stranger.initialize(hub).await.own_failure(Code::NotFound);
    let call = json!({"name": "report_result", "arguments": {"status": 1}});
    let told = as_stranger.ask(hub, "tools/call", call, Some("x")).await;
    told.own_failure(Code::NotFound);
    Tools { bearer: boss.key.clone(), ..tools.clone() }.initialize(hub).await.own_failure(Code::Forbidden);
    // There are no notifications about a job.
    assert_eq!(hub.get(&tools.path, Some(&tools.bearer)).await.status, 405);
    // The agent's own key works too.
    let with_key = Tools { bearer: worker.key.clone(), ..tools.clone() };
    assert_eq!(with_key.initialize(hub).await.status, 200);

    // A late agent is told so, not that it is unknown.
    clock.advance(600_000);
    let late = tools.report(hub, json!({"status": "FAILURE"})).await;
    assert!(late["isError"] == true && late.to_string().contains("too late"), "{late}");
    // The token ends with the connection string.
    fixture.connect("sk_bbbbbbbbbbbb").await;
    tools.initialize(hub).await.own_failure(Code::Gone);
    clock.advance(2 * 24 * 60 * 60 * 1000);
    assert_eq!(tools.initialize(hub).await.status, 401, "it has run out");
}
