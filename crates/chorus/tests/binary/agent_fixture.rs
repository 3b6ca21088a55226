//! A hub that can be restarted, and agents that run against it.

use crate::hub::{Hub, OPERATOR, chorus};
use chorus_testkit::http;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

pub(crate) const SOON: Duration = Duration::from_mins(1);

/// A hub that restarts at the same address, with one channel, and its agents.
pub(crate) struct HubFixture {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) http: Client,
    port: u16,
    pub(crate) hub: Option<Hub>,
    /// `true` if sign-up is by invitation.
    pub(crate) invites: bool,
    pub(crate) url: String,
    pub(crate) anna: String,
    pub(crate) channel: String,
}

impl HubFixture {
    pub(crate) async fn open() -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (folder, http) = (tempfile::tempdir().unwrap(), http::client());
        let url = format!("http://127.0.0.1:{port}");
        let mut fixture = Self {
            folder,
            http,
            port,
            hub: None,
            invites: false,
            url,
            anna: String::new(),
            channel: String::new(),
        };
        fixture.start_hub();
        let account =
            fixture.api(Method::POST, "/accounts", OPERATOR, json!({"email": "anna@example.org"})).await;
        fixture.anna = text(&account["api_token"]);
        let body = json!({"name": "ops", "context": "Where operations are coordinated"});
        let channel = fixture.api(Method::POST, "/channels", &fixture.anna, body).await;
        fixture.channel = text(&channel["id"]);
        fixture
    }

    /// Starts the hub, for the first time or again.
    pub(crate) fn start_hub(&mut self) {
        let mut command = chorus();
        command.args(["serve", "--listen", &format!("127.0.0.1:{}", self.port), "--data"]);
        command.arg(self.path("data")).env("CHORUS_OPERATOR_KEY", OPERATOR).env("CHORUS_RATE_LIMIT", "off");
        command.env("CHORUS_LOG", "warn").env("CHORUS_ALLOW_PRIVATE_ENDPOINTS", "127.0.0.0/8");
        if self.invites {
            command.env("CHORUS_SIGNUP", "invite");
        }
        self.hub = Some(Hub::run(command));
        // Connections to the killed hub are useless.
        self.http = http::client();
    }

    pub(crate) fn fell(&mut self) {
        self.hub.take().unwrap().kill9();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub(crate) async fn api(&self, method: Method, path: &str, key: &str, body: Value) -> Value {
        let request =
            self.http.request(method.clone(), format!("{}/api/v1{path}", self.url)).bearer_auth(key);
        let request = if method == Method::GET { request } else { request.json(&body) };
        let answer = request.send().await.unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Returns `chorus agent` with these arguments, not started yet.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = chorus();
        command.arg("agent").args(args).args(["--quiet", "0", "--state"]).arg(self.path("state"));
        command.env("CHORUS_URL", &self.url).current_dir(self.folder.path());
        command
    }

    /// Starts an agent with this shell script, in which `$D` is the folder.
    pub(crate) fn script(&self, name: &str, script: &str) -> Agent {
        let path = self.path(&format!("{name}.sh"));
        std::fs::write(&path, format!("D='{}'\n{script}\n", self.folder.path().display())).unwrap();
        Agent::run(self.command(&["--name", name, "--exec", "sh", path.to_str().unwrap()]), &self.path("log"))
    }

    /// Adds an agent to the channel, once it has registered itself.
    pub(crate) async fn admit(&self, name: &str) {
        let path = format!("/channels/{}/members", self.channel);
        let key = self.path(&format!("state/{name}.key"));
        until(&format!("{name} registers"), || key.exists()).await;
        self.api(Method::POST, &path, &self.anna, json!({"agent": name})).await;
    }

    pub(crate) async fn say(&self, text: &str) {
        let path = format!("/channels/{}/messages", self.channel);
        self.api(Method::POST, &path, &self.anna, json!({"content": text})).await;
    }

    pub(crate) async fn events(&self) -> Vec<Value> {
        let path = format!("/channels/{}/events?limit=200", self.channel);
        let mut page = self.api(Method::GET, &path, &self.anna, Value::Null).await;
        page["items"].as_array_mut().unwrap().drain(..).collect()
    }

    /// Returns an agent's events in the channel, once `done` holds for them.
    pub(crate) async fn seen(&self, name: &str, done: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let begun = Instant::now();
        loop {
            let mut events = self.events().await;
            events.retain(|event| event["author"]["handle"] == name && event["kind"] != "join");
            if done(&events) {
                return events;
            }
            assert!(begun.elapsed() < SOON, "{name}: {events:#?}\n{}", self.read("log"));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Returns an agent's events, once it was idle `n` times. The last event must be idle.
    pub(crate) async fn idle(&self, name: &str, n: usize) -> Vec<Value> {
        let is_idle = |event: &Value| event["kind"] == "lifecycle" && event["status"] == "idle";
        let seen = self.seen(name, |events| events.iter().filter(|event| is_idle(event)).count() >= n).await;
        assert!(is_idle(seen.last().unwrap()), "{seen:#?}");
        seen
    }
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}")).to_owned()
}

/// Returns the messages among events.
pub(crate) fn said(events: &[Value]) -> Vec<&str> {
    let messages = events.iter().filter(|event| event["kind"] == "message");
    messages.map(|event| event["content"].as_str().unwrap()).collect()
}

pub(crate) fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["kind"].as_str().unwrap()).collect()
}

pub(crate) async fn until(what: &str, done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < SOON, "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A running `chorus agent`.
pub(crate) struct Agent(pub(crate) Child);

impl Agent {
    pub(crate) fn run(mut command: Command, log: &Path) -> Self {
        let log = File::options().create(true).append(true).open(log).unwrap();
        Self(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap())
    }

    pub(crate) fn kill9(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Stops it with SIGTERM, as a service manager does. It must exit successfully.
    pub(crate) async fn end(mut self) {
        let sent = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let begun = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                assert!(status.success(), "{status}");
                return;
            }
            assert!(begun.elapsed() < SOON, "the agent does not end");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // The process has ended already in most tests.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
