//! Direct messages between two `chorus` programs, and a hub that calls one of them.

use crate::hub::{Hub, chorus, serve};
use chorus_testkit::http;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

/// A running `chorus receive`.
struct Listener {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
    url: String,
}

impl Listener {
    /// Starts it on a free port, and waits until it listens.
    fn start(args: &[&str]) -> Self {
        let mut command = chorus();
        command.args(["receive", "--listen", "127.0.0.1:0"]).args(args);
        Self::run(command)
    }

    fn run(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let url = line.trim_end().strip_prefix("listening on ");
        let url = url.unwrap_or_else(|| panic!("does not listen: {line:?}")).to_owned();
        Self { child, stderr, url }
    }

    /// Returns its output, once it has exited successfully.
    fn printed(mut self) -> String {
        let output = self.child.wait_with_output().unwrap();
        let mut said = String::new();
        std::io::Read::read_to_string(&mut self.stderr, &mut said).unwrap();
        assert!(output.status.success(), "{said}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Runs `chorus send --to URL`, from alice.
fn send(url: &str, args: &[&str]) -> Output {
    let mut command = chorus();
    // A key in the environment must not be sent.
    command.env("CHORUS_KEY", "ca_secret");
    command.args(["send", "--to", url, "--from", "alice@example.org"]).args(args).output().unwrap()
}

#[track_caller]
fn sent(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[track_caller]
fn failed(output: &Output, code: i32, said: &str) {
    let all = [&output.stdout[..], &output.stderr].concat();
    let all = String::from_utf8(all).unwrap();
    assert_eq!(output.status.code(), Some(code), "{all}");
    assert!(all.contains(said), "{all}");
}

#[test]
fn two_programs_talk_directly() {
    let bob = Listener::start(&["--count", "2"]);
    let context = ["--culture", "zh-CN", "--context", "An informal invitation to talk"];
    let first = send(&bob.url, &[&["下午一起喝杯咖啡?"][..], &context].concat());
    assert_eq!(sent(&first), format!("delivered: {} took it\n", bob.url));
    let second =
        send(&bob.url, &["And", "at", "four?", "--conversation", "meeting-7", "--turn", "2", "--json"]);
    let outcome: Value = serde_json::from_str(&sent(&second)).unwrap();
    assert_eq!(outcome, json!({"delivery": "delivered", "receiver_response": {"status": "ok"}}));
    let printed = bob.printed();
    let lines: Vec<_> = printed.lines().collect();
    assert!(lines[0].starts_with("#1 20") && lines[0].ends_with("Z alice@example.org (zh-CN)"), "{printed}");
    assert_eq!(lines[1..3], ["  下午一起喝杯咖啡?", "  context: An informal invitation to talk"]);
    assert!(lines[3].starts_with("#2 ") && lines[3].ends_with("(en) in meeting-7, turn 2"), "{printed}");
    assert_eq!(lines[4..], ["  And at four?"]);
}

#[test]
fn a_duplicate_turn_is_answered_and_printed_once() {
    let bob = Listener::start(&["--count", "2", "--json"]);
    let turn = |text, number| send(&bob.url, &[text, "--conversation", "c", "--turn", number]);
    for (text, number) in [("one", "1"), ("one again", "1"), ("two", "2")] {
        sent(&turn(text, number));
    }
    let lines: Vec<Value> = bob.printed().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let texts: Vec<_> = lines.iter().map(|line| &line["envelope"]["original_text"]).collect();
    assert_eq!(texts, ["one", "two"]);
    assert_eq!((&lines[0]["id"], &lines[0]["sender_id"]), (&json!("1"), &json!("alice@example.org")));
    assert_eq!(lines[0]["webhook_id"], Value::Null);
    assert!(lines[0]["received_at"].as_str().unwrap().ends_with('Z'));
}

#[tokio::test]
async fn wrong_envelopes_are_refused() {
    let bob = Listener::start(&["--path", "/bob"]);
    assert!(bob.url.ends_with("/bob"));
    for (body, code) in [
        (json!({}), "INVALID_ENVELOPE"),
        (json!({"envelope": {"chorus_version": "0.4"}}), "INVALID_ENVELOPE"),
        (json!({"envelope": {"chorus_version": "9"}}), "UNSUPPORTED_VERSION"),
    ] {
        let answer = http::client().post(&bob.url).json(&body).send().await.unwrap();
        assert_eq!(answer.status(), 400);
        let reply: Value = answer.json().await.unwrap();
        assert_eq!((&reply["status"], &reply["error_code"]), (&json!("error"), &json!(code)));
    }
    failed(&send(&bob.url.replace("/bob", "/carol"), &["hi"]), 3, "there is nothing at this path (HTTP 404)");
    bob.kill();
}

/// An envelope is answered `ok` only if it was printed.
#[test]
fn what_could_not_be_printed_was_not_taken() {
    let mut bob = Listener::start(&[]);
    drop(bob.child.stdout.take());
    failed(&send(&bob.url, &["hi", "--retry", "0"]), 3, "the agent did not take it");
    assert!(bob.child.wait().unwrap().success());
}

#[tokio::test]
async fn a_hubs_webhook_is_received_and_a_strangers_is_not() {
    let data = tempfile::tempdir().unwrap();
    let hub = Hub::run(serve(data.path(), None));
    let chorus = |args: &[&str], variables: &[(&str, &str)]| {
        let mut command = chorus();
        command.env("CHORUS_URL", &hub.url).envs(variables.iter().copied()).args(args);
        command
    };
    // The secret comes with the registration, so the port must be chosen before.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let endpoint = format!("http://{address}/receive");

    let registered = sent(&chorus(&["register", "bob", "--endpoint", &endpoint], &[]).output().unwrap());
    let value = |name: &str| {
        let line = registered.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name} in {registered}")).trim().trim_matches('\'').to_owned()
    };
    let secret = value("export CHORUS_WEBHOOK_SECRET=");
    assert!(secret.starts_with("whsec_"));
    assert_eq!(value("secret "), secret);
    let alice = sent(&chorus(&["register", "alice", "--json"], &[]).output().unwrap());
    let alice: Value = serde_json::from_str(&alice).unwrap();
    let key = alice["api_key"].as_str().unwrap();
    assert_eq!(alice.get("webhook_secret"), None);

    let receive = ["receive", "--listen", &address, "--count", "1", "--json"];
    let bob = Listener::run(chorus(&receive, &[("CHORUS_WEBHOOK_SECRET", &secret)]));
    failed(&send(&bob.url, &["I am the hub"]), 3, "must be signed (HTTP 401)");
    let outcome = chorus(&["send", "bob", "hello", "--from", "alice", "--json"], &[("CHORUS_KEY", key)]);
    let outcome: Value = serde_json::from_str(&sent(&{ outcome }.output().unwrap())).unwrap();
    assert_eq!(outcome["delivery"], "delivered");
    assert_eq!(outcome["receiver_response"], json!({"status": "ok"}));
    let printed: Value = serde_json::from_str(&bob.printed()).unwrap();
    assert_eq!(printed["envelope"]["original_text"], "hello");
    assert_eq!(printed["webhook_id"], format!("msg_{}", outcome["trace_id"].as_str().unwrap()));

    // With another secret the hub's request is refused, and the sender is told.
    let other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let bob = Listener::run(chorus(&[&receive[..], &["--secret", other]].concat(), &[]));
    let outcome = chorus(&["send", "bob", "hello", "--from", "alice"], &[("CHORUS_KEY", key)]);
    failed(&{ outcome }.output().unwrap(), 1, "ERR_AGENT_UNREACHABLE, receiver answered HTTP 401");
    bob.kill();
}

#[tokio::test]
async fn a_hub_teaches_how_to_join_it() {
    let data = tempfile::tempdir().unwrap();
    let mut command = serve(data.path(), None);
    command.args(["--public-url", "https://hub.example/chorus"]);
    let hub = Hub::run(command);
    let skill = |args: &[&str]| {
        // An old key does not matter here.
        let mut command = chorus();
        command.env("CHORUS_URL", &hub.url).env("CHORUS_KEY", "ca_stale").arg("skill").args(args);
        sent(&command.output().unwrap())
    };
    let english = skill(&[]);
    assert!(english.starts_with("# Join the Chorus hub at hub.example\n"), "{english}");
    assert!(english.contains("curl -s https://hub.example/chorus/register "));
    assert!(english.contains("NAME@hub.example") && !english.contains("{{"));
    assert!(skill(&["--lang", "zh-CN"]).starts_with("# 加入 Chorus"));
    let json: Value = serde_json::from_str(&skill(&["--lang", "zh", "--json"])).unwrap();
    assert_eq!(json["language"], "zh-CN");
    assert!(json["text"].as_str().unwrap().starts_with("# 加入 Chorus"));
    let json: Value = serde_json::from_str(&skill(&["--lang", "tlh", "--json"])).unwrap();
    assert_eq!(
        (&json["language"], json["text"].as_str().map(str::trim_end)),
        (&json!("en"), Some(english.trim_end()))
    );

    let get = |path: &str, language: &str| {
        let request = http::client().get(format!("{}{path}", hub.url)).header("accept-language", language);
        async { request.send().await.unwrap() }
    };
    for (language, chosen) in [("zh-TW,zh;q=0.9,en;q=0.8", "zh-CN"), ("en,zh;q=0.5", "en"), ("fr", "en")] {
        let answer = get("/skill", language).await;
        assert_eq!(answer.headers()["content-language"], chosen);
        assert_eq!(answer.headers()["content-type"], "text/markdown; charset=utf-8");
        assert_eq!(answer.headers()["vary"], "Accept-Language");
    }
    assert_eq!(get("/skill?lang=en", "zh").await.headers()["content-language"], "en");
    let llms = get("/llms.txt", "zh").await;
    assert_eq!(llms.headers()["content-type"], "text/plain; charset=utf-8");
    assert!(llms.text().await.unwrap().contains("(https://hub.example/chorus/skill)"));
}
