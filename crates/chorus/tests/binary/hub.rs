//! A running `chorus serve`, and the few requests that the tests make to it.

use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The operator's key of every hub in these tests.
pub(crate) const OPERATOR: &str = "co_0123456789abcdef0123456789abcdef";
pub(crate) const MASTER: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// Returns a `chorus` command with a clean environment.
pub(crate) fn chorus() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chorus"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CHORUS_")) {
        command.env_remove(name);
    }
    // There is no such folder: nobody's profile is used.
    command.env("XDG_CONFIG_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/no-config"));
    command.stdin(Stdio::null());
    command
}

/// Returns `chorus serve` on a free port, not started yet.
pub(crate) fn serve(data: &Path, database: Option<&str>) -> Command {
    let mut command = chorus();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data);
    if let Some(url) = database {
        command.args(["--database", url]).env("CHORUS_MASTER_KEY", MASTER);
    }
    command
        .env("CHORUS_OPERATOR_KEY", OPERATOR)
        .env("CHORUS_RATE_LIMIT", "off")
        .env("CHORUS_ALLOW_PRIVATE_ENDPOINTS", "127.0.0.0/8")
        .env("CHORUS_LOG", "warn");
    command
}

/// A running hub.
pub(crate) struct Hub {
    child: Child,
    pub(crate) url: String,
}

impl Hub {
    pub(crate) fn start(data: &Path, database: Option<&str>) -> Self {
        Self::run(serve(data, database))
    }

    /// Starts `command` and waits for the line it prints when it is ready.
    pub(crate) fn run(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim_end().strip_prefix("chorus listening on ");
        let url = url.unwrap_or_else(|| panic!("not a ready line: {line:?}")).to_owned();
        Self { child, url }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the hub with SIGKILL.
    pub(crate) fn kill9(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent =
            Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for the exit, and returns the status and the rest of standard output.
    pub(crate) fn wait(mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + Duration::from_secs(30);
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "the hub does not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        let mut rest = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
        (status, rest)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        // The process has ended already in most tests.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Registers an agent and returns its key.
pub(crate) async fn register(http: &Client, url: &str, name: &str) -> String {
    let answer = http.post(format!("{url}/register")).json(&json!({"agent_id": name})).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::CREATED);
    let body: Value = answer.json().await.unwrap();
    body["data"]["api_key"].as_str().unwrap().to_owned()
}

/// Sends a message.
pub(crate) async fn send(
    http: &Client,
    url: &str,
    key: &str,
    (from, to): (&str, &str),
    text: &str,
    idempotency_key: Option<&str>,
) -> reqwest::Result<Response> {
    let body = json!({"receiver_id": to, "envelope": {
        "chorus_version": "0.4", "sender_id": from, "original_text": text, "sender_culture": "en"}});
    let mut request = http.post(format!("{url}/messages")).bearer_auth(key).json(&body);
    if let Some(idempotency_key) = idempotency_key {
        request = request.header("Idempotency-Key", idempotency_key);
    }
    request.send().await
}

/// Returns the texts in an agent's history, from all pages.
pub(crate) async fn history(http: &Client, url: &str, key: &str) -> Vec<String> {
    let (mut texts, mut after) = (vec![], "0".to_owned());
    loop {
        let url = format!("{url}/agent/messages?limit=200&after={after}");
        let page: Value = http.get(url).bearer_auth(key).send().await.unwrap().json().await.unwrap();
        let messages = page["data"].as_array().unwrap();
        texts.extend(messages.iter().map(|m| m["envelope"]["original_text"].as_str().unwrap().to_owned()));
        match page["metadata"]["next"].as_str() {
            Some(next) => next.clone_into(&mut after),
            None => return texts,
        }
    }
}
