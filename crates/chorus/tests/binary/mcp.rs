//! MCP with the program itself: clients written from the specification, beside `chorus agent`s, with a hub
//! that is killed.

use crate::agent_fixture::{HubFixture, SOON, text, until};
use chorus_testkit::http;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const VERSION: &str = "2025-11-25";
/// The number of messages, each to all ten; the hub is killed after some of them.
const MESSAGES: usize = 12;
const KILLS: [usize; 3] = [2, 5, 8];

/// An agent with an MCP session, which is opened once and must survive every restart.
struct Client {
    http: reqwest::Client,
    url: String,
    key: String,
    name: String,
    session: String,
    /// The number of requests that broke off.
    broken: usize,
}

impl Client {
    async fn open(fixture: &HubFixture, name: &str) -> Self {
        let made = fixture.api(Method::POST, "/agents", &fixture.anna, json!({"name": name})).await;
        let members = format!("/channels/{}/members", fixture.channel);
        fixture.api(Method::POST, &members, &fixture.anna, json!({"agent": name})).await;
        let url = format!("{}/mcp/{}", fixture.url, fixture.channel);
        let (key, session) = (text(&made["api_key"]), String::new());
        let mut client = Self { http: http::client(), url, key, name: name.into(), session, broken: 0 };
        let params = json!({"protocolVersion": VERSION, "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}});
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let answer = client.post(&hello).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        answer.headers()["mcp-session-id"].to_str().unwrap().clone_into(&mut client.session);
        let answer: Value = answer.json().await.unwrap();
        assert_eq!(answer["result"]["protocolVersion"], VERSION);
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(client.post(&ready).await.unwrap().status(), StatusCode::ACCEPTED);
        client
    }

    async fn post(&self, message: &Value) -> reqwest::Result<reqwest::Response> {
        let mut request = self.http.post(&self.url).bearer_auth(&self.key).json(message);
        request = request.header("accept", "application/json, text/event-stream");
        if !self.session.is_empty() {
            request = request.header("mcp-session-id", &self.session).header("mcp-protocol-version", VERSION);
        }
        request.send().await
    }

    /// Calls a tool and returns its result. The request is repeated while the hub is unreachable.
    async fn tool(&mut self, name: &str, arguments: Value) -> Value {
        let params = json!({"name": name, "arguments": arguments});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let begun = Instant::now();
        loop {
            let answered = async {
                let answer = self.post(&call).await?;
                Ok::<_, reqwest::Error>((answer.status(), answer.text().await?))
            };
            if let Ok((status, body)) = answered.await {
                assert_eq!(status, StatusCode::OK, "{} calls {name}: {body}", self.name);
                let mut answer: Value = serde_json::from_str(&body).unwrap();
                assert_eq!(answer["result"]["isError"], false, "{} calls {name}: {body}", self.name);
                return answer["result"]["structuredContent"].take();
            }
            self.broken += 1;
            assert!(begun.elapsed() < SOON, "{} cannot reach the hub", self.name);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Answers the requests after `next` until all have come. Returns the number of requests that broke off.
    async fn answer(mut self, mut next: Value) -> (String, usize) {
        let mention = format!("@{} ", self.name);
        let mut seen = HashSet::new();
        while seen.len() < MESSAGES {
            let wait = json!({"after": next, "kind": "message", "wait_ms": 30_000});
            let page = self.tool("wait_for_events", wait).await;
            for event in page["events"].as_array().unwrap() {
                if event["content"].as_str().unwrap().contains(&mention) {
                    let id = text(&event["event_id"]);
                    let answer = json!({"content": format!("re {id}"), "idempotency_key": id});
                    self.tool("chat_send_message", answer).await;
                    assert!(seen.insert(id), "{} was told twice of {event}", self.name);
                }
            }
            next = page["next"].clone();
        }
        (self.name, self.broken)
    }
}

/// Sends all messages, each once, retrying while the hub is unreachable.
async fn say(url: String, key: String, to: String, said: Arc<AtomicUsize>) {
    let http = http::client();
    for n in 0..MESSAGES {
        let body = json!({"content": format!("{to} number {n}")});
        let begun = Instant::now();
        loop {
            let request = http.post(&url).bearer_auth(&key).header("idempotency-key", format!("say-{n}"));
            if let Ok(answer) = request.json(&body).send().await {
                let (status, woken) = (answer.status(), answer.text().await.unwrap_or_default());
                assert_eq!(status, StatusCode::CREATED, "{woken}");
                break;
            }
            assert!(begun.elapsed() < SOON, "the hub does not come back");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        said.store(n + 1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Returns all events of one kind, in order.
async fn events(fixture: &HubFixture, kind: &str) -> Vec<Value> {
    let path = format!("/channels/{}/events?kind={kind}&limit=200", fixture.channel);
    let mut page = fixture.api(Method::GET, &path, &fixture.anna, Value::Null).await;
    page["items"].as_array_mut().unwrap().drain(..).collect()
}

/// Returns the ids of anna's messages, and the number of answers of each agent to each.
async fn told(fixture: &HubFixture) -> (Vec<String>, BTreeMap<(String, String), usize>) {
    let (mut asked, mut answers) = (vec![], BTreeMap::new());
    for event in events(fixture, "message").await {
        match event["content"].as_str().unwrap().strip_prefix("re ") {
            None => asked.push(text(&event["event_id"])),
            Some(id) => {
                *answers.entry((text(&event["author"]["handle"]), id.to_owned())).or_default() += 1;
            }
        }
    }
    (asked, answers)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_that_is_killed_under_ten_agents_loses_nothing_and_nothing_is_answered_twice() {
    let mut fixture = HubFixture::open().await;
    let names: Vec<_> = (1..=5).flat_map(|n| [format!("agent{n}"), format!("client{n}")]).collect();
    let mut agents = vec![];
    for name in names.iter().filter(|name| name.starts_with("agent")) {
        agents.push(fixture.script(name, "sleep 0.1; echo re $CHORUS_MESSAGE_ID"));
        fixture.admit(name).await;
    }
    let mut clients = JoinSet::new();
    for name in names.iter().filter(|name| name.starts_with("client")) {
        let mut client = Client::open(&fixture, name).await;
        let now = client.tool("wait_for_events", json!({"wait_ms": 0})).await["next"].take();
        clients.spawn(client.answer(now));
    }
    let to = format!("@{}", names.join(" @"));
    let url = format!("{}/api/v1/channels/{}/messages", fixture.url, fixture.channel);
    let said = Arc::new(AtomicUsize::new(0));
    let saying = tokio::spawn(say(url, fixture.anna.clone(), to, Arc::clone(&said)));
    for kill in KILLS {
        until("more is said", || said.load(Ordering::Relaxed) >= kill).await;
        fixture.fell();
        fixture.start_hub();
    }
    saying.await.unwrap();
    while let Some(client) = clients.join_next().await {
        let (name, broken) = client.unwrap();
        assert!(broken > 0, "{name} did not notice that the hub was killed");
    }
    let begun = Instant::now();
    while told(&fixture).await.1.len() < names.len() * MESSAGES {
        assert!(begun.elapsed() < SOON, "{:#?}\n{}", told(&fixture).await, fixture.read("log"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for agent in agents {
        agent.end().await;
    }
    let (asked, answers) = told(&fixture).await;
    assert_eq!(asked.len(), MESSAGES, "each was said once");
    let once = names.iter().flat_map(|name| asked.iter().map(|id| ((name.clone(), id.clone()), 1)));
    assert_eq!(answers, once.collect::<BTreeMap<_, _>>(), "{}", fixture.read("log"));
    let states = events(&fixture, "lifecycle").await;
    let states = states.iter().map(|event| (text(&event["author"]["handle"]), text(&event["status"])));
    let last: BTreeMap<_, _> = states.collect();
    assert!(last.len() == 5 && last.values().all(|status| status == "idle"), "{last:?}");
}
