//! A hub written from the documents alone: registration, an inbox that resumes, callbacks and sends with
//! idempotency keys. Also an agent under test.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post, put};
use chorus_agent::harness::{Activity, AgentOptions, Driver, Exec, HarnessError, Listen, Observer, run};
use chorus_agent::{Backoff, Environment};
use futures_util::stream;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

pub(crate) const TRACE: &str = "0123456789abcdef0123456789abcdef";
const SOON: Duration = Duration::from_secs(30);

#[derive(Default, Clone)]
pub(crate) struct World {
    /// The inbox: kind and data. Positions begin at 1.
    inbox: Vec<(String, Value)>,
    /// The events sent to callbacks, in order.
    pub(crate) seen: Vec<Value>,
    /// The bodies sent to `/messages`.
    pub(crate) sent: Vec<Value>,
    /// The lines sent to reply streams.
    pub(crate) streamed: Vec<Value>,
    /// The body sent under each key.
    pub(crate) keys: HashMap<String, String>,
    /// The `Last-Event-ID` of each opened inbox.
    pub(crate) resumed: Vec<Option<String>>,
    /// The registrations.
    pub(crate) registered: Vec<Value>,
    /// The requests about the agent's connection: the method and the body.
    pub(crate) connections: Vec<(String, Value)>,
    /// The next answers of `/messages` before `queued`: the status, and the data or the error.
    pub(crate) outcomes: VecDeque<(u16, Value)>,
    /// Ignores idempotency keys, as other services do.
    pub(crate) keyless: bool,
    /// The channel's current messages. Reading them fails while this is empty.
    pub(crate) log: Vec<Value>,
    /// The messages that are held for approval, with their states.
    pub(crate) approvals: Vec<(Value, String)>,
    /// Incremented to end all inboxes.
    era: u64,
    /// The behaviour of callbacks.
    pub(crate) mood: Mood,
}

#[derive(Default, Clone, Copy, PartialEq)]
pub(crate) enum Mood {
    #[default]
    Good,
    /// Accepts a message, and never answers.
    Mute,
    /// Answers 503 to all events.
    Down,
    /// Answers 409 to messages, for another reason than the key.
    Contrary,
}

#[derive(Clone)]
pub(crate) struct Hub {
    pub(crate) url: String,
    world: Arc<watch::Sender<World>>,
}

impl Hub {
    pub(crate) async fn start() -> Self {
        rustls::crypto::ring::default_provider().install_default().ok();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let hub = Self { url, world: Arc::new(watch::Sender::new(World::default())) };
        let app = Router::new()
            .route("/register", post(register))
            .route("/agent/inbox", get(inbox))
            .route("/channels/{channel}/inbox/{token}", post(callback))
            .route("/messages", post(messages))
            .route("/streams/{id}", post(streams))
            .route("/api/v1/agents/{id}", get(agent))
            .route("/api/v1/agents/{id}/connection", put(connection))
            .route("/api/v1/agents/{id}/connection/mend", post(connection))
            .route("/api/v1/me", get(async || axum::Json(json!({"kind": "agent", "id": "me"}))))
            .route("/api/v1/channels/{id}", get(channel))
            .route("/api/v1/channels/{id}/events", get(events))
            .route("/api/v1/channels/{id}/messages", post(hold))
            .route("/api/v1/approvals/{id}", get(approval).delete(withdraw))
            .with_state(hub.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        hub
    }

    pub(crate) fn world(&self) -> World {
        self.world.borrow().clone()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut World)) {
        self.world.send_modify(change);
    }

    /// Adds an entry to the inbox.
    pub(crate) fn put(&self, kind: &str, data: Value) {
        self.change(|world| world.inbox.push((kind.into(), data)));
    }

    /// Returns the data of a mention.
    pub(crate) fn chat(&self, id: &str, text: &str) -> Value {
        json!({
            "trace_id": TRACE,
            "channel": {"id": "ch_1", "name": "ops", "kind": "channel", "context": "Where operations are coordinated"},
            "event": {"event_id": id, "sequence": 7, "kind": "message", "content": text, "thread": null,
                "author": {"id": "a1", "kind": "account", "handle": "anna"}},
            "attention": {"reason": "direct_mention"},
            "callback": format!("{}/channels/ch_1/inbox/tok_{id}", self.url),
        })
    }

    pub(crate) fn mention(&self, id: &str, text: &str) {
        self.put("chat", self.chat(id, text));
    }

    /// Ends all open inboxes, as a hub that shuts down does.
    pub(crate) fn cut(&self) {
        self.change(|world| world.era += 1);
    }

    pub(crate) async fn until(&self, what: &str, done: impl FnMut(&World) -> bool) -> World {
        let mut world = self.world.subscribe();
        let Ok(waited) = tokio::time::timeout(SOON, world.wait_for(done)).await else {
            panic!("{what} did not happen; seen: {:#?}", self.world().seen);
        };
        waited.unwrap().clone()
    }

    /// Returns the events sent to callbacks, once the agent was idle `n` times.
    pub(crate) async fn idle(&self, n: usize) -> Vec<Value> {
        let idle = json!({"type": "lifecycle", "status": "idle"});
        let count = |world: &World| world.seen.iter().filter(|event| **event == idle).count();
        let seen = self.until("idle", |world| count(world) >= n).await.seen;
        assert_eq!(seen.last(), Some(&idle), "idle is the last word: {seen:#?}");
        seen
    }
}

/// Returns the messages among events.
pub(crate) fn messages_of(seen: &[Value]) -> Vec<&str> {
    seen.iter()
        .filter(|event| event["type"] == "message")
        .map(|event| event["content"].as_str().unwrap())
        .collect()
}

/// Returns the kinds of events, in order; a lifecycle event by its status.
pub(crate) fn kinds(seen: &[Value]) -> Vec<&str> {
    seen.iter()
        .map(|event| match event["type"].as_str().unwrap() {
            "lifecycle" => event["status"].as_str().unwrap(),
            other => other,
        })
        .collect()
}

async fn register(State(hub): State<Hub>, body: axum::Json<Value>) -> Response {
    hub.change(|world| world.registered.push(body.0));
    if hub.world().registered.len() > 1 {
        let error = json!({"code": "ERR_AGENT_ID_TAKEN", "message": "taken"});
        let body = json!({"success": false, "error": error, "metadata": {"timestamp": "t"}});
        return (StatusCode::CONFLICT, axum::Json(body)).into_response();
    }
    let registration = json!({"id": "a3b8d1b6-0b3b-4b1a-9c1a-1a2b3c4d5e6f", "agent_id": "echo@x", "online": false,
        "registered_at": "t", "updated_at": "t"});
    let data = json!({"agent_id": "echo@x", "api_key": "ca_1", "registration": registration});
    let body = json!({"success": true, "data": data, "metadata": {"timestamp": "t"}});
    (StatusCode::CREATED, axum::Json(body)).into_response()
}

async fn agent(State(hub): State<Hub>) -> Response {
    let state = if hub.world().connections.is_empty() { "none" } else { "ok" };
    let id = "00000000-0000-0000-0000-000000000001";
    axum::Json(json!({"agent_id": id, "address": "echo@x", "name": "echo", "online": true,
        "connection": {"state": state}}))
    .into_response()
}

async fn connection(State(hub): State<Hub>, method: axum::http::Method, body: String) -> Response {
    let body = serde_json::from_str(&body).unwrap_or_default();
    hub.change(|world| world.connections.push((method.to_string(), body)));
    axum::Json(json!({})).into_response()
}

async fn inbox(State(hub): State<Hub>, headers: HeaderMap) -> Response {
    if headers.get("authorization").is_none_or(|value| value != "Bearer ca_1") {
        let error = json!({"code": "ERR_UNAUTHORIZED", "message": "no"});
        return (StatusCode::UNAUTHORIZED, axum::Json(json!({"success": false, "error": error})))
            .into_response();
    }
    let place = headers.get("last-event-id").map(|id| id.to_str().unwrap().to_owned());
    hub.change(|world| world.resumed.push(place.clone()));
    let mut world = hub.world.subscribe();
    let era = world.borrow().era;
    let (out, lines) = mpsc::channel::<Bytes>(1);
    tokio::spawn(async move {
        let mut place = place.map_or(0, |place| place.parse().unwrap());
        let connected = json!({"agent_id": "echo@x", "after": place});
        out.send(format!("event: connected\ndata: {connected}\n\n").into()).await.ok();
        loop {
            if world.borrow().era != era {
                return;
            }
            let next = world.borrow_and_update().inbox.get(place).cloned();
            if let Some((kind, data)) = next {
                place += 1;
                if out.send(format!("id: {place}\nevent: {kind}\ndata: {data}\n\n").into()).await.is_err() {
                    return;
                }
                continue;
            }
            if world.changed().await.is_err() {
                return;
            }
        }
    });
    let lines =
        stream::unfold(lines, async |mut lines| Some((Ok::<_, Infallible>(lines.recv().await?), lines)));
    ([("content-type", "text/event-stream")], Body::from_stream(Box::pin(lines))).into_response()
}

/// Records a body under a key. Returns whether it is new; another body under the same key is a conflict.
fn once(hub: &Hub, headers: &HeaderMap, body: &str) -> Result<bool, StatusCode> {
    let key = headers.get("idempotency-key").expect("every write has a key").to_str().unwrap().to_owned();
    let mut result = Ok(true);
    hub.change(|world| {
        result = match world.keys.get(&key) {
            _ if world.keyless => Ok(true),
            Some(known) if known == body => Ok(false),
            Some(_) => Err(StatusCode::CONFLICT),
            None => {
                world.keys.insert(key, body.to_owned());
                Ok(true)
            }
        };
    });
    result
}

async fn callback(
    State(hub): State<Hub>,
    Path((_channel, token)): Path<(String, String)>,
    headers: HeaderMap,
    body: String,
) -> Response {
    assert!(token.starts_with("tok_") && !headers.contains_key("authorization"));
    let mood = hub.world().mood;
    if mood == Mood::Down {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let event: Value = serde_json::from_str(&body).unwrap();
    if mood == Mood::Contrary && event["type"] == "message" {
        let error = json!({"error": {"code": "CONFLICT", "message": "this channel is closed"}});
        return (StatusCode::CONFLICT, axum::Json(error)).into_response();
    }
    match once(&hub, &headers, &body) {
        Err(status) => {
            let error = json!({"error": {"code": "IDEMPOTENCY_CONFLICT", "message": "no"}});
            return (status, axum::Json(error)).into_response();
        }
        Ok(new) => hub.change(|world| world.seen.extend(new.then(|| event.clone()))),
    }
    if mood == Mood::Mute && event["type"] == "message" {
        std::future::pending::<()>().await;
    }
    StatusCode::OK.into_response()
}

async fn messages(State(hub): State<Hub>, headers: HeaderMap, body: String) -> Response {
    let mut next = None;
    hub.change(|world| next = world.outcomes.pop_front());
    if let Some((status, data)) = next {
        let body =
            json!({"success": status == 200, "data": data, "error": data, "metadata": {"timestamp": "t"}});
        return (StatusCode::from_u16(status).unwrap(), axum::Json(body)).into_response();
    }
    match once(&hub, &headers, &body) {
        Err(status) => {
            let error = json!({"code": "ERR_IDEMPOTENCY_CONFLICT", "message": "no"});
            return (status, axum::Json(json!({"success": false, "error": error}))).into_response();
        }
        Ok(new) => {
            let body = serde_json::from_str(&body).unwrap();
            hub.change(|world| world.sent.extend(new.then_some(body)));
        }
    }
    let data = json!({"delivery": "queued", "trace_id": TRACE});
    axum::Json(json!({"success": true, "data": data, "metadata": {"timestamp": "t"}})).into_response()
}

async fn streams(State(hub): State<Hub>, body: String) -> Response {
    let lines = body.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    hub.change(|world| world.streamed.extend(lines));
    axum::Json(json!({"success": true, "data": {}, "metadata": {"timestamp": "t"}})).into_response()
}

async fn channel(Path(id): Path<String>) -> Response {
    if id == "ch_1" {
        return axum::Json(json!({"id": id, "name": "ops"})).into_response();
    }
    let error = json!({"error": {"code": "NOT_FOUND", "message": "no such channel"}});
    (StatusCode::NOT_FOUND, axum::Json(error)).into_response()
}

async fn events(State(hub): State<Hub>, Query(page): Query<HashMap<String, String>>) -> Response {
    if let Some(after) = page.get("after") {
        assert_eq!((after.as_str(), &page["kind"]), ("6", &"message".to_owned()), "since the first message");
        let log = hub.world().log;
        return if log.is_empty() {
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        } else {
            axum::Json(json!({"items": log, "next": null})).into_response()
        };
    }
    let event = |author: &str, text: &str| json!({"kind": "message", "author": {"id": author, "handle": author}, "content": text});
    axum::Json(json!({"items": [event("anna", "earlier"), event("me", "indeed")], "next": null}))
        .into_response()
}

async fn hold(State(hub): State<Hub>, body: axum::Json<Value>) -> Response {
    hub.change(|world| world.approvals.push((body.0, "held".into())));
    let approval = (hub.world().approvals.len() - 1).to_string();
    let held = json!({"status": "held", "approval": approval, "expires_at": "t"});
    (StatusCode::ACCEPTED, axum::Json(held)).into_response()
}

async fn approval(State(hub): State<Hub>, Path(id): Path<usize>) -> Response {
    axum::Json(json!({"id": id, "state": hub.world().approvals[id].1})).into_response()
}

async fn withdraw(State(hub): State<Hub>, Path(id): Path<usize>) -> Response {
    let mut status = StatusCode::NO_CONTENT;
    hub.change(|world| match world.approvals[id].1.as_str() {
        "held" | "withdrawn" => world.approvals[id].1 = "withdrawn".into(),
        _ => status = StatusCode::CONFLICT,
    });
    if status == StatusCode::NO_CONTENT {
        return status.into_response();
    }
    (status, axum::Json(json!({"error": {"code": "CONFLICT", "message": "it was decided"}}))).into_response()
}

/// An agent under test.
pub(crate) struct Agent {
    task: JoinHandle<Result<(), HarnessError>>,
    stop: watch::Sender<bool>,
    activities: Arc<Mutex<Vec<Activity>>>,
}

impl Agent {
    pub(crate) fn start(options: AgentOptions) -> Self {
        let (stop, stopping) = watch::channel(false);
        let activities = Arc::new(Mutex::new(vec![]));
        let kept = Arc::clone(&activities);
        let observer = Observer::new(move |activity| kept.lock().unwrap().push(activity));
        Self { task: tokio::spawn(run(options, observer, stopping)), stop, activities }
    }

    /// Kills the agent like a process: nothing is finished or reported.
    pub(crate) async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
        // The lock is released with the last task of the agent. A real process releases it at once.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    /// Stops the agent as Ctrl-C does.
    pub(crate) async fn stop(self) -> Vec<Activity> {
        self.stop.send_replace(true);
        tokio::time::timeout(SOON, self.task).await.expect("it ends").unwrap().unwrap();
        // A child process that another test is just starting shares the lock for a moment.
        tokio::time::sleep(Duration::from_millis(50)).await;
        self.activities.lock().unwrap().clone()
    }

    /// Returns the error that ended the agent.
    pub(crate) async fn failed(self) -> HarnessError {
        tokio::time::timeout(SOON, self.task).await.expect("it ends").unwrap().unwrap_err()
    }

    pub(crate) fn activities(&self) -> Vec<Activity> {
        self.activities.lock().unwrap().clone()
    }
}

/// A folder with a program and the state of its agent.
pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Returns the options of an agent with this shell script, in which `$D` is the folder.
    pub(crate) fn script(&self, hub: &Hub, script: &str) -> AgentOptions {
        let script = format!("D='{}'\n{script}", self.folder.path().display());
        let mut exec = Exec::new("sh", vec!["-c".into(), script]);
        exec.backoff = Backoff { base_ms: 10, max_ms: 20 };
        self.options(hub, Driver::Exec(exec))
    }

    pub(crate) fn options(&self, hub: &Hub, driver: Driver) -> AgentOptions {
        AgentOptions {
            name: "echo".into(),
            url: Some(hub.url.clone()),
            invitation: None,
            key: None,
            token: None,
            state: self.path("state"),
            culture: "en".into(),
            system: None,
            channels: vec![],
            listen: Listen::Inbox,
            driver,
            // Tool servers and services of the tests run on this machine.
            allow_private: vec!["127.0.0.0/8".parse().unwrap()],
            foreign_mcp: false,
            at_once: chorus_agent::harness::AT_ONCE,
            quiet: chorus_agent::harness::QUIET,
            seen: false,
            offering: chorus_agent::harness::Offering::default(),
            environment: Environment::system(),
        }
    }
}
