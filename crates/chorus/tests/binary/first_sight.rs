//! A closer look at the command line: redirected output is exact, refusals give their reason, and nothing is
//! made up.

use crate::hub::{OPERATOR, chorus};
use crate::terminal::{Terminal, text};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;

#[test]
fn documents_are_exact_and_lose_nothing() {
    let at = Terminal::open();
    let anna = at.person("anna");
    at.good(&anna, &["channel", "create", "ops"]);
    let odd = "# Plan\n\u{1b}[1m\ttab\n\n";
    fs::write(at.folder.path().join("plan.md"), odd).unwrap();
    at.good(&anna, &["document", "create", "ops", "plan", "--title", "The plan", "--file", "plan.md"]);
    assert_eq!(at.good(&anna, &["document", "read", "ops", "plan"]), odd);
    assert_eq!(at.good(&anna, &["document", "get", "ops", "The plan"]), odd);
    at.run(&anna, &["document", "get", "ops", "No plan"]).failed(3, "");
    let got = at.json(&anna, &["document", "get", "ops", "plan", "-o", "copy.md"]);
    assert_eq!(got, json!({"slug": "plan", "version": 1, "file": "copy.md", "bytes": odd.len()}));
    assert_eq!(fs::read_to_string(at.folder.path().join("copy.md")).unwrap(), odd);

    for name in ["notes.py", "notes.txt"] {
        fs::write(at.folder.path().join(name), name).unwrap();
    }
    let put = |args: &[&str]| at.run(&anna, &[&["document", "put", "ops"], args].concat());
    assert_eq!(put(&["notes.py"]).out, "notes version 1\n");
    assert_eq!(put(&["notes.py"]).out, "notes version 2\n");
    put(&["notes.txt"]).failed(2, "the document notes is \"notes.py\", not \"notes.txt\"");
    assert_eq!(put(&["notes.txt", "--slug", "notes-txt"]).out, "notes-txt version 1\n");
    assert_eq!(put(&["notes.txt", "--slug", "notes"]).out, "notes version 3\n");
}

#[test]
fn a_stale_key_says_how_to_go_on_without() {
    let at = Terminal::open();
    let stale = "ca_00000000000000000000000000000000";
    for args in [&["register", "dora"][..], &["agents"]] {
        at.run(stale, args).failed(3, "`unset CHORUS_KEY`");
    }
    let told = at.run(stale, &["agents", "--json"]);
    told.failed(3, "");
    let told: Value = serde_json::from_str(&told.err).unwrap();
    assert_eq!(told["error"]["code"], "ERR_UNAUTHORIZED", "{told}");
    assert!(text(&told["error"]["hint"]).contains("unset"), "{told}");
    at.run("", &["account", "create", "x@example.org"]).failed(2, "the operator's key");
    let anna = at.person("anna");
    at.run(&anna, &["send", "dora", "hi", "--from", "dora"]).failed(2, "a person's token");
    at.good(&anna, &["register", "timber"]);
    at.run(&anna, &["register", "timber"]).failed(3, "it is yours: `chorus agents reset-key");
    let eve = at.person("eve");
    at.run(&eve, &["register", "timber"]).failed(3, "choose another name");
    at.run("", &["register", "timber"]).failed(3, "--key or CHORUS_KEY");
    assert!(at.good("", &["agents", "list"]).contains("timber@"));
    assert_eq!(at.good(&anna, &["unregister", "timber"]), "timber is not registered any more\n");
}

#[test]
fn an_agent_runs_with_its_own_key() {
    let at = Terminal::open();
    let (ada, bob) = (at.agent("ada"), at.agent("bob"));
    let run = |key: &str| at.run(key, &["agent", "--name", "ada", "--exec", "cat"]);
    run(&bob).failed(2, "the given key is the agent bob's, not ada's");
    assert!(!at.folder.path().join("chorus-agent/ada.key").exists(), "nothing is kept of it");
    assert!(!ada.is_empty());
}

#[test]
fn channels_read_and_change_as_one_expects() {
    let at = Terminal::open();
    let (anna, bob) = (at.agent("anna"), at.agent("bob"));
    at.good(&anna, &["channel", "create", "ops"]);
    at.good(&anna, &["channel", "join", "ops", "--agent", "bob"]);
    let empty = at.run(&anna, &["channel", "history", "ops"]);
    assert!(empty.code == 0 && empty.err.contains("nothing was said"), "{empty:?}");
    at.run(&anna, &["channel", "say", "ops", " "]).failed(2, "there is nothing to say");
    at.good(&anna, &["channel", "say", "ops", "@bob one?"]);
    at.good(&bob, &["channel", "say", "ops", "--reply-to", "#3", "two"]);
    at.good(&anna, &["channel", "edit", "ops", "#3", "@bob one and a half?"]);
    at.good(&bob, &["channel", "react", "ops", "#3", "agree"]);
    let log = at.good(&bob, &["channel", "history", "ops"]);
    assert!(log.contains("\n  @bob one and a half? (edited)\n"), "{log}");
    for (place, told) in [("#99", "there is no #99"), ("#x", "#x is no place"), ("#0", "#0 is no place")] {
        at.run(&bob, &["channel", "edit", "ops", place, "x"]).failed(1, told);
    }
    let set = at
        .good(&anna, &["channel", "set", "ops", "--name", "works", "--context", "Work", "--keep-days", "30"]);
    assert_eq!(set, "works: for Work; members read all; kept 30 days\n");
    let set = at.good(&anna, &["channel", "set", "works", "--context", "", "--keep-days", "0"]);
    assert_eq!(set, "works: for -; members read all; kept as long as the hub does\n");
    at.run(&bob, &["channel", "set", "works", "--name", "mine"]).failed(3, "");
    at.run(&anna, &["channel", "set", "works"]).failed(2, "--keep-days");
    assert_eq!(at.good(&bob, &["channel", "leave", "works"]), "bob is not in works any more\n");
}

#[test]
fn an_account_is_changed_and_deleted_by_its_person() {
    let at = Terminal::open();
    let anna = at.person("anna");
    assert!(at.good(&anna, &["account", "show"]).contains("  account  anna  anna@example.org"));
    assert!(at.good(OPERATOR, &["account", "show"]).contains("operator"));
    let edited = at.good(&anna, &["account", "edit", "--name", "Anna B", "--mails", "off"]);
    assert!(edited.ends_with("  Anna B  anna@example.org  not told by mail of what waits\n"), "{edited}");
    at.run(&anna, &["account", "edit"]).failed(2, "--mails");
    at.run(&anna, &["account", "delete", "--confirm", "eve@example.org"]).failed(3, "");
    let deleted = at.good(&anna, &["account", "delete", "--confirm", "anna@example.org"]);
    assert_eq!(deleted, "anna@example.org is deleted\n");
    at.run(&anna, &["account", "show"]).failed(3, "was this token revoked");
}

#[test]
fn what_was_taken_back_is_shown_as_that() {
    let at = Terminal::open();
    let (anna, bob) = (at.agent("anna"), at.agent("bob"));
    at.good(&anna, &["channel", "create", "ops"]);
    at.good(&anna, &["channel", "join", "ops", "--agent", "bob"]);
    at.good(&anna, &["channel", "say", "ops", "@bob can you read this?"]);
    at.good(&anna, &["channel", "delete", "ops", "#3"]);
    let shown = at.good(&bob, &["inbox", "--history"]);
    assert!(shown.contains("\n  (deleted)") && !shown.contains("direct_mention"), "{shown}");
}

#[test]
fn an_inbox_whose_key_is_replaced_says_so() {
    let at = Terminal::open();
    let bob = at.agent("bob");
    let mut listening = chorus();
    listening.args(["inbox", "--timeout", "60"]).env("CHORUS_URL", &at.hub.url).env("CHORUS_KEY", &bob);
    listening.stderr(std::process::Stdio::piped());
    let mut listening = listening.spawn().unwrap();
    let mut err = listening.stderr.take().unwrap();
    let mut begun = [0; 16];
    err.read_exact(&mut begun).unwrap();
    at.json(&bob, &["register", "bob"]);
    let mut said = String::new();
    err.read_to_string(&mut said).unwrap();
    assert_eq!(listening.wait().unwrap().code(), Some(3), "{said}");
    assert!(said.contains("the hub ended this inbox: the key") && !said.contains("trying again"), "{said}");
}

/// A hub that answers exactly as the relay document shows, and nothing else.
fn plain_hub() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 8192];
            let read = stream.read(&mut head).unwrap();
            let head = String::from_utf8_lossy(&head[..read]).into_owned();
            let path = head.split([' ', '?']).nth(1).unwrap_or_default();
            let answer = |data: Value| json!({"success": true, "data": data, "metadata": {"timestamp": "t"}});
            let (status, kind, body) = match path {
                "/health" => ("200 OK", "application/json", answer(json!({"status": "ok"})).to_string()),
                "/agents" => {
                    let alice =
                        json!({"agent_id": "alice@chorus", "registered_at": "2026-03-20T10:00:00.000Z"});
                    ("200 OK", "application/json", answer(json!([alice])).to_string())
                }
                "/agent/inbox" => {
                    let envelope = json!({"chorus_version": "0.4", "sender_id": "bob@chorus", "original_text": "hi",
                        "sender_culture": "en"});
                    let message = json!({"trace_id": "t-1", "sender_id": "bob@chorus", "envelope": envelope});
                    let events =
                        format!("event: connected\ndata: {{}}\n\nevent: message\ndata: {message}\n\n");
                    ("200 OK", "text/event-stream", events)
                }
                _ => ("404 Not Found", "text/plain", String::new()),
            };
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            // The client may have disconnected.
            stream.write_all(answer.as_bytes()).ok();
        }
    });
    url
}

#[test]
fn of_a_plain_hub_nothing_is_made_up() {
    let url = plain_hub();
    let run = |args: &[&str]| {
        let output = chorus().args(args).args(["--url", &url, "--key", "ca_1"]).output().unwrap();
        (
            output.status.code().unwrap(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, out, err) = run(&["agents"]);
    assert!(code == 0 && out.contains("alice@chorus  ?  "), "{out}{err}");
    let (_, out, _) = run(&["agents", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()[0]["online"], Value::Null, "{out}");
    let (_, out, err) = run(&["doctor"]);
    assert!(out.contains("ok   hub") && !out.contains("store") && !out.contains("durability"), "{out}{err}");
    let (code, out, err) = run(&["inbox", "--count", "1"]);
    assert!(code == 0 && out.contains("hi") && !err.contains("to go on from here"), "{out}{err}");
    for args in [&["channel", "list"][..], &["dm", "bob", "hi"], &["sent"], &["market", "discover"]] {
        let (code, out, err) = run(args);
        assert!(
            code == 3 && out.is_empty() && err.contains("this hub knows only the relay"),
            "{args:?}: {err}"
        );
    }
}
