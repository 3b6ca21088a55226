//! A streamed answer, with the command line only.

use crate::hub::{Hub, chorus, register};
use chorus_testkit::http;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

fn on(hub: &Hub, key: &str) -> Command {
    let mut command = chorus();
    command.env("CHORUS_URL", &hub.url).env("CHORUS_KEY", key).stdout(Stdio::piped());
    command
}

/// Bob listens and alice asks. Returns alice's process and the address for bob's answer.
async fn ask(args: &[&str]) -> (Hub, tempfile::TempDir, Child, String) {
    let data = tempfile::tempdir().unwrap();
    let hub = Hub::start(data.path(), None);
    let http = http::client();
    let (alice, bob) = (register(&http, &hub.url, "alice").await, register(&http, &hub.url, "bob").await);
    let mut inbox =
        on(&hub, &bob).args(["inbox", "--json", "--count", "1"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(inbox.stderr.take().unwrap()).lines();
    assert!(said.next().unwrap().unwrap().starts_with("listening to bob"));
    let asking =
        on(&hub, &alice).args(["send", "bob", "a story", "--from", "alice", "--stream"]).args(args).spawn();
    let mut line = String::new();
    BufReader::new(inbox.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(inbox.wait().unwrap().success());
    let message: Value = serde_json::from_str(&line).unwrap();
    let reply_stream = message["reply_stream"].as_str().unwrap().to_owned();
    (hub, data, asking.unwrap(), reply_stream)
}

#[tokio::test]
async fn piece_by_piece() {
    let (_hub, _data, mut asking, reply_stream) = ask(&[]).await;
    let mut heard = asking.stdout.take().unwrap();
    let mut telling =
        chorus().args(["reply", &reply_stream]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut mouth = telling.stdin.take().unwrap();
    for piece in ["Once upon", " a time, 从前"] {
        mouth.write_all(piece.as_bytes()).unwrap();
        // Each piece is received before the next is sent.
        let mut bytes = vec![0; piece.len()];
        heard.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, piece.as_bytes());
    }
    drop(mouth);
    assert!(telling.wait().unwrap().success());
    let mut rest = String::new();
    heard.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "\n");
    assert!(asking.wait().unwrap().success());

    let again = chorus().args(["reply", &reply_stream]).output().unwrap();
    assert_eq!(again.status.code(), Some(3), "used once, it is refused");
}

#[tokio::test]
async fn for_programs() {
    let (_hub, _data, asking, reply_stream) = ask(&["--json"]).await;
    let mut telling =
        chorus().args(["reply", &reply_stream]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    telling.stdin.take().unwrap().write_all(b"The end.").unwrap();
    assert!(telling.wait().unwrap().success());
    let heard = asking.wait_with_output().unwrap();
    let lines: Vec<Value> = String::from_utf8(heard.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0], serde_json::json!({"event": "chunk", "data": {"text": "The end."}}));
    assert_eq!(lines[1], serde_json::json!({"event": "done", "data": {"result": "The end."}}));
}
