//! `chorus agent --c2a` and `chorus c2a-stdio`, as programs, against a real hub: each request is answered
//! once, and messages that ask nothing start no turn.

use crate::agent_fixture::{Agent, HubFixture, SOON, said, text, until};
use crate::hub::{chorus, history, register, send};
use reqwest::Method;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc;
use std::time::Instant;

/// Starts an agent with a C2A session and this script. Each of its turns adds a line to `$D/turns`.
fn c2a(fixture: &HubFixture, name: &str, script: &str) -> Agent {
    run(fixture, name, &["--c2a"], script)
}

fn run(fixture: &HubFixture, name: &str, door: &[&str], script: &str) -> Agent {
    let path = fixture.path(&format!("{name}.sh"));
    let folder = fixture.folder.path().display();
    std::fs::write(&path, format!("D='{folder}'\necho {name} >> $D/turns\n{script}\n")).unwrap();
    let args = [door, &["--name", name, "--exec", "sh", path.to_str().unwrap()]].concat();
    Agent::run(fixture.command(&args), &fixture.path("log"))
}

/// Adds an agent with these roles to the channel, once it listens.
async fn admit(fixture: &HubFixture, name: &str, roles: Value) {
    until(&format!("{name} listens"), || {
        fixture.read("log").contains(&format!("{name} listens to {name}@localhost"))
    })
    .await;
    let path = format!("/channels/{}/members", fixture.channel);
    fixture.api(Method::POST, &path, &fixture.anna, json!({"agent": name, "roles": roles})).await;
}

/// Sends a message with these members, and returns the hub's response.
async fn post(fixture: &HubFixture, body: Value) -> Value {
    let path = format!("/channels/{}/messages", fixture.channel);
    fixture.api(Method::POST, &path, &fixture.anna, body).await
}

/// Waits for the disposition of an event for an agent.
async fn disposed(fixture: &HubFixture, event: &str, handle: &str) -> String {
    let begun = Instant::now();
    loop {
        let ladder = fixture.api(Method::GET, &format!("/events/{event}"), &fixture.anna, json!({})).await;
        let deliveries = ladder["deliveries"].as_array().unwrap();
        let mine = deliveries.iter().filter(|one| one["recipient"]["handle"] == handle);
        let last = mine.filter_map(|one| one["disposition"].as_str()).next_back();
        // A claimed event is not answered yet.
        if let Some(disposition) = last.filter(|disposition| *disposition != "claimed") {
            return disposition.to_owned();
        }
        assert!(begun.elapsed() < SOON, "{handle}: {ladder:#}\n{}", fixture.read("log"));
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Returns the handles of the recipients of an event.
async fn reached(fixture: &HubFixture, event: &Value) -> Vec<String> {
    let path = format!("/events/{}", event.as_str().unwrap());
    let ladder = fixture.api(Method::GET, &path, &fixture.anna, json!({})).await;
    ladder["deliveries"].as_array().unwrap().iter().map(|one| text(&one["recipient"]["handle"])).collect()
}

fn turns(fixture: &HubFixture) -> Vec<String> {
    let mut turns: Vec<_> = fixture.read("turns").lines().map(str::to_owned).collect();
    turns.sort();
    turns
}

#[tokio::test]
async fn two_that_repeat_everything_answer_one_message_once_each() {
    let fixture = HubFixture::open().await;
    let agents = ["ada", "bob"].map(|name| c2a(&fixture, name, "cat"));
    for name in ["ada", "bob"] {
        admit(&fixture, name, json!([])).await;
    }
    let event = text(&post(&fixture, json!({"content": "@ada @bob hello, who are you?"})).await["event_id"]);
    for name in ["ada", "bob"] {
        let answers = fixture.seen(name, |events| !said(events).is_empty()).await;
        // An answer wakes nobody, even if it repeats a mention, so nothing follows from it.
        for answer in answers.iter().filter(|one| one["kind"] == "message") {
            assert_eq!(reached(&fixture, &answer["event_id"]).await, Vec::<String>::new(), "{answer:#}");
        }
        assert_eq!(disposed(&fixture, &event, name).await, "responded");
    }
    // The log names the channel by its display name.
    let took = format!("ada took {event} from anna in ops\n");
    assert!(fixture.read("log").contains(&took), "{}", fixture.read("log"));
    // Both also answer the next message, as their second one.
    post(&fixture, json!({"content": "@ada @bob and what do you do?"})).await;
    for name in ["ada", "bob"] {
        let answers = fixture.seen(name, |events| said(events).len() >= 2).await;
        assert_eq!(said(&answers).len(), 2, "{answers:#?}");
    }
    assert_eq!(turns(&fixture), ["ada", "ada", "bob", "bob"]);
    for agent in agents {
        agent.end().await;
    }
}

#[tokio::test]
async fn two_that_thank_each_other_stop() {
    let fixture = HubFixture::open().await;
    let agents = [
        c2a(&fixture, "ada", "echo \"@bob thank you so much!\""),
        c2a(&fixture, "bob", "echo \"@ada thanks\""),
    ];
    for name in ["ada", "bob"] {
        admit(&fixture, name, json!([])).await;
    }
    let event =
        text(&post(&fixture, json!({"content": "@ada please tell bob what you think"})).await["event_id"]);
    assert_eq!(disposed(&fixture, &event, "ada").await, "responded");
    let thanks = fixture.seen("ada", |events| !said(events).is_empty()).await;
    let thanks = thanks.iter().find(|one| one["kind"] == "message").unwrap();
    assert_eq!(
        reached(&fixture, &thanks["event_id"]).await,
        Vec::<String>::new(),
        "a courtesy wakes no agent"
    );
    // A later question is answered, so nobody is stuck.
    let event = text(&post(&fixture, json!({"content": "@bob are you there?"})).await["event_id"]);
    assert_eq!(disposed(&fixture, &event, "bob").await, "responded");
    assert_eq!(turns(&fixture), ["ada", "bob"]);
    for agent in agents {
        agent.end().await;
    }
}

#[tokio::test]
async fn of_ten_with_a_role_one_spends_a_turn_whatever_doors_they_use() {
    let fixture = HubFixture::open().await;
    let names: Vec<String> = (0..10).map(|n| format!("agent-{n}")).collect();
    let agents: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(n, name)| {
            let door: &[&str] = match n % 3 {
                0 | 1 => &["--c2a"],
                _ => &[],
            };
            run(&fixture, name, door, "echo done")
        })
        .collect();
    for name in &names {
        admit(&fixture, name, json!(["ops"])).await;
    }
    for n in 1..=3 {
        let said = post(&fixture, json!({"content": format!("@ops please look at disk {n}")})).await;
        let begun = Instant::now();
        // A knock is claimed and answered; or the message is shown and answered.
        let held = loop {
            let path = format!("/events/{}", text(&said["event_id"]));
            let ladder = fixture.api(Method::GET, &path, &fixture.anna, json!({})).await;
            let claims = ladder["claims"].as_array().unwrap().clone();
            if claims.iter().any(|claim| claim["state"] == "resolved") {
                break claims;
            }
            assert!(begun.elapsed() < SOON, "{ladder:#}\n{}", fixture.read("log"));
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        };
        assert_eq!(held.len(), 1, "{held:#?}");
        assert_eq!(turns(&fixture).len(), n, "{}", fixture.read("log"));
    }
    let answers = fixture.events().await;
    let by_agents: Vec<_> = answers.iter().filter(|one| one["content"] == "done").collect();
    assert_eq!(by_agents.len(), 3, "{answers:#?}");
    for agent in agents {
        agent.end().await;
    }
}

#[tokio::test]
async fn a_thread_goes_on_with_who_was_asked() {
    let fixture = HubFixture::open().await;
    let script = "cat > $D/prompt-$CHORUS_MESSAGE_ID; echo \"yes\"";
    let agents = [c2a(&fixture, "ada", script), c2a(&fixture, "bob", script)];
    for name in ["ada", "bob"] {
        admit(&fixture, name, json!([])).await;
    }
    let asked =
        text(&post(&fixture, json!({"content": "@ada please restart the cache on eu-1"})).await["event_id"]);
    assert_eq!(disposed(&fixture, &asked, "ada").await, "responded");
    // A correction goes to the agent that was asked, without a new mention.
    let body = json!({"content": "I meant the one on eu-2", "thread": asked});
    let correction = post(&fixture, body).await;
    assert_eq!(correction["attention"]["knocked"], json!(["ada"]), "{correction}");
    let correction = text(&correction["event_id"]);
    let prompt = format!("prompt-{correction}");
    until("it reaches the model", || fixture.read(&prompt).contains("I meant the one on eu-2")).await;
    assert!(fixture.read(&prompt).contains("\nresponse_policy: may_respond\n"), "{}", fixture.read(&prompt));
    assert_eq!(disposed(&fixture, &correction, "ada").await, "responded");
    // A question requires an answer.
    let question = post(&fixture, json!({"content": "did it work?", "thread": asked})).await;
    let question = text(&question["event_id"]);
    assert_eq!(disposed(&fixture, &question, "ada").await, "responded");
    let prompt = fixture.read(&format!("prompt-{question}"));
    assert!(prompt.contains("\nresponse_policy: must_respond\nreason: thread_question\n"), "{prompt}");
    let (thread, event) = prompt.split_once("\nC2A EVENT\n").unwrap();
    let thread = thread.split_once("\nC2A THREAD\n").unwrap().1;
    for said in ["@ada please restart the cache on eu-1", "I meant the one on eu-2", "yes"] {
        assert!(thread.contains(&format!("\n{said}\n-----")) && !event.contains(said), "{prompt}");
    }
    assert_eq!(turns(&fixture), ["ada", "ada", "ada"], "bob was never asked");
    for agent in agents {
        agent.end().await;
    }
}

/// A cancelled message no longer waits for an answer, by a session and by an inbox.
#[tokio::test]
async fn what_was_cancelled_is_superseded() {
    let fixture = HubFixture::open().await;
    let script = "sleep 300; echo done";
    let agents = [c2a(&fixture, "ada", script), run(&fixture, "bob", &[], script)];
    for name in ["ada", "bob"] {
        admit(&fixture, name, json!([])).await;
    }
    let work = text(&post(&fixture, json!({"content": "@ada @bob do the long work"})).await["event_id"]);
    until("both work", || turns(&fixture) == ["ada", "bob"]).await;
    let stop = json!({"content": "@ada @bob stop", "intent": "cancellation"});
    let stop = text(&post(&fixture, stop).await["event_id"]);
    for (name, noted) in [("ada", "acknowledged"), ("bob", "ignored")] {
        assert_eq!(disposed(&fixture, &work, name).await, "superseded", "{name}");
        assert_eq!(disposed(&fixture, &stop, name).await, noted, "{name}");
    }
    assert_eq!(turns(&fixture), ["ada", "bob"], "a stop needs no answer");
    for agent in agents {
        agent.end().await;
    }
}

/// After `kill -9` while the program runs, and as soon as an answer is visible: a session answers once too,
/// also after a claim.
#[tokio::test]
async fn killed_at_each_step_it_answers_exactly_once() {
    let fixture = HubFixture::open().await;
    let script = "test $(grep -c echo $D/turns) = 1 && sleep 300; echo re $CHORUS_MESSAGE_ID";
    let start = || run(&fixture, "echo", &["--c2a"], script);
    let agent = start();
    admit(&fixture, "echo", json!(["ops"])).await;
    let event = text(&post(&fixture, json!({"content": "@ops please look at disk 1"})).await["event_id"]);
    until("the program runs", || !fixture.read("turns").is_empty()).await;
    agent.kill9();
    let mut agent = start();
    fixture.seen("echo", |events| !said(events).is_empty()).await;
    assert_eq!(disposed(&fixture, &event, "echo").await, "responded");
    for n in 2..=5 {
        let whom = if n % 2 == 0 { "@echo" } else { "@ops" };
        post(&fixture, json!({"content": format!("{whom} please look at disk {n}")})).await;
        fixture.seen("echo", |events| said(events).len() >= n).await;
        agent.kill9();
        agent = start();
    }
    post(&fixture, json!({"content": "@echo and the last one?"})).await;
    let seen = fixture.seen("echo", |events| said(events).len() >= 6).await;
    agent.end().await;
    let mut answers = said(&seen);
    answers.sort_unstable();
    answers.dedup();
    assert_eq!(answers.len(), 6, "each message was answered once: {seen:#?}");
    assert_eq!(said(&fixture.seen("echo", |_| true).await).len(), 6);
}

#[tokio::test]
async fn an_envelope_is_answered_by_the_session_it_came_by() {
    let fixture = HubFixture::open().await;
    let agent = c2a(&fixture, "echo", "cat > $D/prompt; echo gladly");
    let alice = register(&fixture.http, &fixture.url, "alice").await;
    until("it listens", || fixture.read("log").contains("echo listens to ")).await;
    send(&fixture.http, &fixture.url, &alice, ("alice", "echo"), "Coffee?", None).await.unwrap();
    let begun = Instant::now();
    loop {
        let history = history(&fixture.http, &fixture.url, &alice).await;
        if !history.is_empty() {
            assert_eq!(history, ["gladly"]);
            break;
        }
        assert!(begun.elapsed() < SOON, "{}", fixture.read("log"));
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(turns(&fixture), ["echo"]);
    agent.end().await;
}

/// `chorus c2a-stdio`, from the side of a harness that started it.
struct StdioHarness {
    child: Child,
    input: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
}

impl StdioHarness {
    fn start(fixture: &HubFixture, key: &str) -> Self {
        let mut command = chorus();
        command.arg("c2a-stdio").env("CHORUS_URL", &fixture.url).env("CHORUS_KEY", key);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let (out, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if out.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, input, lines }
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn heard(&self) -> Value {
        serde_json::from_str(&self.lines.recv_timeout(SOON).unwrap()).unwrap()
    }

    /// Returns the response to a request, and the messages before it.
    fn call(&mut self, id: &str, method: &str, params: Value) -> (Value, Vec<Value>) {
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let mut before = vec![];
        loop {
            let message = self.heard();
            if message["id"] == id && message.get("method").is_none() {
                return (message, before);
            }
            before.push(message);
        }
    }
}

impl Drop for StdioHarness {
    fn drop(&mut self) {
        // The process has ended already in most tests.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[tokio::test]
async fn a_session_on_standard_input_and_output() {
    let fixture = HubFixture::open().await;
    let key = register(&fixture.http, &fixture.url, "ada").await;
    let path = format!("/channels/{}/members", fixture.channel);
    fixture.api(Method::POST, &path, &fixture.anna, json!({"agent": "ada"})).await;
    let initialize = json!({"protocolVersion": "2026-06-02", "clientInfo": {"name": "mine", "version": "1"},
        "capabilities": {"delivery": {"ack": true}, "injection": {"buffered": true, "notify": true}}});
    let mut harness = StdioHarness::start(&fixture, &key);
    let (early, _) = harness.call("0", "tools/list", json!({}));
    assert_eq!(early["error"]["code"], -32002, "{early}");
    let (begun, _) = harness.call("1", "initialize", initialize.clone());
    assert_eq!(begun["result"]["protocolVersion"], "2026-06-02", "{begun}");
    // A delivery is one line, even for a text of several lines.
    let event = text(&post(&fixture, json!({"content": "@ada is the\ndeploy blocked?"})).await["event_id"]);
    let delivered = harness.heard();
    assert_eq!(
        (&delivered["method"], &delivered["params"]["eventId"]),
        (&json!("chat/deliver"), &json!(event))
    );
    assert_eq!(delivered["params"]["content"][0]["text"], "@ada is the\ndeploy blocked?");
    // A delivery that was not acknowledged comes again in the next session.
    drop(harness.input.take());
    assert!(harness.child.wait().unwrap().success());
    let mut harness = StdioHarness::start(&fixture, &key);
    harness.call("1", "initialize", initialize);
    let again = harness.heard();
    assert_eq!(again["params"]["eventId"], json!(event), "{again}");
    assert_eq!(
        again["params"]["reliability"]["idempotencyKey"],
        delivered["params"]["reliability"]["idempotencyKey"]
    );
    harness.say(&json!({"jsonrpc": "2.0", "id": again["id"], "result": {"status": "accepted"}}));
    let message = json!({"target": {"conversationId": fixture.channel}, "inReplyTo": event, "text": "No.",
        "idempotencyKey": "k1", "visibility": "thread", "directedness": "to_me"});
    for id in ["2", "3"] {
        let params = json!({"name": "chat.send_message", "arguments": message});
        let (sent, _) = harness.call(id, "tools/call", params);
        assert!(sent["result"]["structuredContent"]["eventId"].is_string(), "{sent}");
    }
    assert_eq!(said(&fixture.seen("ada", |events| !said(events).is_empty()).await), ["No."]);
    assert_eq!(disposed(&fixture, &event, "ada").await, "responded");
    // Requests before the end of input are answered, even if they are many, slow or unreadable.
    let ids: Vec<_> = (10..30).map(|n| n.to_string()).collect();
    for id in &ids {
        let mut message = message.clone();
        message["idempotencyKey"] = json!(id);
        let params = json!({"name": "chat.send_message", "arguments": message});
        harness.say(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    }
    harness.say(&json!("nothing of the kind"));
    drop(harness.input.take());
    let mut answered: Vec<_> = (0..=ids.len()).map(|_| harness.heard()["id"].clone()).collect();
    answered.sort_by_key(|id| id.as_str().map(str::to_owned));
    assert_eq!(answered[0], Value::Null, "what cannot be read is told so");
    assert_eq!(answered[1..], ids);
    assert!(harness.child.wait().unwrap().success());
    // A wrong key is reported.
    let mut command = chorus();
    command
        .arg("c2a-stdio")
        .env("CHORUS_URL", &fixture.url)
        .env("CHORUS_KEY", "ca_00000000000000000000000000000000");
    assert_eq!(command.output().unwrap().status.code(), Some(3));
}
