//! Commands of people and agents: their output for a person and for a program, and their failures.

use crate::hub::OPERATOR;
use crate::terminal::{Terminal, text};
use serde_json::json;
use std::fs;
use std::path::PathBuf;

#[test]
fn what_was_said_is_changed_and_answered() {
    let at = Terminal::open();
    let (anna, bob) = (at.agent("anna"), at.agent("bob"));
    at.good(&anna, &["channel", "create", "ops"]);
    at.good(&anna, &["channel", "join", "ops", "--agent", "bob"]);
    let said = at.json(&anna, &["channel", "say", "ops", "the roolback plan"]);
    let id = text(&said["event_id"]);
    let short = &id[id.len() - 8..];
    let edited = at.good(&anna, &["channel", "edit", "ops", short, "the", "rollback", "plan"]);
    assert_eq!(edited, format!("edited {short}\n"));
    assert_eq!(
        at.good(&bob, &["channel", "react", "ops", short, "working", "--eta", "soon"]),
        format!("working on {short}\n")
    );
    at.run(&bob, &["channel", "react", "ops", short, "shrug"]).failed(2, "possible values: seen");
    at.run(&bob, &["channel", "edit", "ops", short, "mine"]).failed(3, "");
    let thread = at.good(&bob, &["channel", "say", "ops", "--thread", short, "found", "it"]);
    assert!(thread.starts_with('#'), "{thread}");
    let history = at.good(&anna, &["channel", "history", "ops", "--all"]);
    for part in ["the rollback plan", "reacts: working", "(thread ", "found it"] {
        assert!(history.contains(part), "{part}: {history}");
    }
    assert!(at.good(&anna, &["channel", "history", "ops", "--thread", short]).contains("found it"));

    let found = at.good(&bob, &["search", "rollback", "plan"]);
    assert!(found.contains("anna in ops") && found.contains("the rollback plan"), "{found}");
    assert_eq!(at.json(&bob, &["search", "rollback"]).as_array().unwrap().len(), 1);
    let none = at.run(&bob, &["search", "roolback"]);
    assert!(none.code == 0 && none.out.is_empty() && none.err.contains("no message holds"), "{none:?}");
    let stranger = at.agent("eve");
    assert_eq!(at.json(&stranger, &["search", "rollback"]), json!([]));

    assert_eq!(at.good(&anna, &["channel", "delete", "ops", short]), format!("deleted {short}\n"));
    assert!(at.good(&anna, &["channel", "history", "ops"]).contains("(deleted)"));
    assert_eq!(at.json(&bob, &["search", "rollback"]), json!([]));
    at.run(&anna, &["channel", "delete", "ops", "00000000"]).failed(1, "none of the last 1000 events");
    let left = at.json(&bob, &["channel", "leave", "ops", "bob"]);
    assert_eq!((&left["handle"], &left["left"]), (&json!("bob"), &json!(true)));
    at.run(&bob, &["channel", "history", "ops"]).failed(1, "no channel of yours");
}

#[test]
fn documents() {
    let at = Terminal::open();
    let anna = at.agent("anna");
    at.good(&anna, &["channel", "create", "ops"]);
    fs::write(at.folder.path().join("plan.md"), "# Plan\n").unwrap();
    let made =
        at.json(&anna, &["document", "create", "ops", "plan", "--title", "The plan", "--file", "plan.md"]);
    assert_eq!((&made["slug"], &made["version"]), (&json!("plan"), &json!(1)), "{made}");
    assert_eq!(at.good(&anna, &["document", "read", "ops", "plan"]).trim_end(), "# Plan");
    let list = at.good(&anna, &["document", "list", "ops"]);
    assert!(list.contains("plan") && list.contains("The plan"), "{list}");
    let edited = at.fed(&anna, &["document", "edit", "ops", "plan", "--base", "1"], "# Better\n");
    assert_eq!(edited.code, 0, "{edited:?}");
    assert_eq!(at.good(&anna, &["document", "read", "ops", "plan"]).trim_end(), "# Better");
    let stale = at.fed(&anna, &["document", "edit", "ops", "plan", "--base", "1"], "# Worse\n");
    stale.failed(3, "");
    // Piped text is stored unchanged, including the last line break, and may be longer than a message.
    let long = format!("{}\r\n\n", "line\n".repeat(60_000));
    for (slug, text) in [("one-line", "x\n"), ("unended", "x"), ("long", &long)] {
        at.fed(&anna, &["document", "create", "ops", slug], text);
        assert!(at.good(&anna, &["document", "get", "ops", slug]) == text, "{slug}");
    }
    at.run(&anna, &["document", "read", "ops", "nothing"]).failed(3, "");
    at.run(&anna, &["document", "create", "ops", "x", "--file", "/nowhere"]).failed(1, "/nowhere");
}

#[test]
fn tokens_codes_and_accounts() {
    let at = Terminal::open();
    let made = at.run(OPERATOR, &["account", "create", "anna@example.org", "--name", "Anna"]);
    assert!(made.out.starts_with("acc_") && made.out.contains("  anna@example.org  ct_"), "{made:?}");
    let anna = made.out.trim().rsplit("  ").next().unwrap().to_owned();
    at.run(&anna, &["account", "create", "x@example.org"]).failed(3, "");
    let token = at.run(&anna, &["token", "create", "laptop"]);
    assert!(token.out.starts_with("ct_") && token.err.contains("not shown again"), "{token:?}");
    let list = at.json(&anna, &["token", "list"]);
    let laptop = list.as_array().unwrap().iter().find(|one| one["label"] == "laptop").unwrap();
    let id = text(&laptop["id"]);
    assert!(at.good(&anna, &["token", "list"]).contains("laptop"));
    assert_eq!(at.good(&anna, &["token", "revoke", &id]), format!("{id} is revoked\n"));
    at.run(token.out.trim(), &["token", "list"]).failed(3, "UNAUTHORIZED");

    let code = at.run(&anna, &["invite", "ben@example.org", "--days", "3"]);
    assert!(code.out.starts_with("ci_") && code.out.contains("/signin"), "{code:?}");
    at.good(&anna, &["invite"]);
    let open = at.json(&anna, &["invite", "list"]);
    assert_eq!((open.as_array().unwrap().len(), &open[0]["email"]), (2, &json!("ben@example.org")), "{open}");
    let shown = at.good(&anna, &["invite", "list"]);
    assert!(shown.contains("whoever has it") && !shown.contains("ci_"), "{shown}");
    let id = text(&open[0]["id"]);
    assert_eq!(at.good(&anna, &["invite", "revoke", &id]), format!("{id} is revoked\n"));
    assert_eq!(at.json(&anna, &["invite", "list"]).as_array().unwrap().len(), 1);
    at.run(&anna, &["invite", "revoke", "x"]).failed(3, "id of an invitation");
}

#[test]
fn whom_somebody_keeps_out() {
    let at = Terminal::open();
    let (anna, eve) = (at.person("anna"), at.person("eve"));
    let block = at.json(&anna, &["block", "add", "eve@example.org"]);
    assert_eq!(block["who"], "eve@example.org");
    assert!(at.good(&anna, &["block", "list"]).contains("eve@example.org"));
    // The blocked person is not told, and the invitation is not shown.
    at.good(&eve, &["dm", "anna@example.org", "hello"]);
    assert_eq!(at.json(&anna, &["invitations", "list"]), json!([]));
    let id = text(&block["id"]);
    assert_eq!(at.good(&anna, &["block", "remove", &id]), format!("{id} is removed\n"));
    assert_eq!(at.json(&anna, &["block", "list"]), json!([]));

    let declined = |word: &str, whom: &str| {
        at.good(whom, &["dm", "anna@example.org"]);
        let id = text(&at.json(&anna, &["invitations", "list"])[0]["id"]);
        at.json(&anna, &["invitations", word, &id])
    };
    let ben = at.person("ben");
    assert_eq!(declined("decline", &ben)["declined"], true);
    let zoe = at.person("zoe");
    assert_eq!(declined("block", &zoe)["blocked"], true);
    assert_eq!(at.json(&anna, &["block", "list"]).as_array().unwrap().len(), 1);
}

#[test]
fn agents_come_and_go() {
    let at = Terminal::open();
    let (anna, key) = (at.person("anna"), at.agent("alice"));
    let fleet = at.good(&key, &["fleet"]);
    assert!(fleet.contains("alice@") && fleet.contains("STATE"), "{fleet}");
    assert!(at.json(&key, &["fleet"])[0]["state"].is_string());
    at.run(&anna, &["unregister", "alice"]).failed(3, "");
    assert_eq!(at.good(&key, &["unregister", "alice"]), "alice is not registered any more\n");
    at.run(&key, &["inbox"]).failed(3, "UNAUTHORIZED");
    assert_eq!(at.json(OPERATOR, &["unregister", "alice"]), json!({"agent": "alice", "registered": false}));
    at.run("", &["agents", "alice"]).failed(3, "`chorus agents` lists who is there");

    let acts = at.good(OPERATOR, &["audit"]);
    assert!(acts.contains("agent.registered"), "{acts}");
    at.run(OPERATOR, &["audit", "--kind", "decision"]).failed(3, "");
}

#[test]
fn the_market_from_the_terminal() {
    let at = Terminal::open();
    let worker = at.json("", &["market", "register", "Worker", "--owner", "w", "--skill", "sum=1"]);
    let boss = at.json("", &["market", "register", "Boss", "--owner", "b", "--skill", "boss=1"]);
    let (agent, boss) = (text(&worker["agent_id"]), text(&boss["owner_key"]));
    at.good(OPERATOR, &["market", "mint", "b", "10"]);
    at.good(OPERATOR, &["market", "burn", "b", "1"]);
    at.run(&boss, &["market", "mint", "b", "10"]).failed(3, "");
    let found = at.good(&boss, &["market", "discover", "--skill", "sum", "--offline"]);
    assert!(found.contains(&agent), "{found}");
    let thought = at.good("", &["market", "reputation", &agent]);
    assert!(thought.contains("50"), "{thought}");
    at.good(&boss, &["market", "transfer", "--from", "b", "--to", "w", "2"]);
    assert_eq!(at.json(&boss, &["market", "wallet", "b"])["balance"], 7.0);
    let moved = at.good(&boss, &["market", "ledger"]);
    assert!(moved.lines().count() >= 3, "{moved}");
    let job = at.json(&boss, &["market", "hire", "sum", "--budget", "2"]);
    let job = text(&job["job_id"]);
    assert!(at.good(&boss, &["market", "jobs"]).contains(&job));
    at.good(&boss, &["market", "cancel", &job]);
    assert_eq!(at.json(&boss, &["market", "wallet", "b"])["held"], 0.0);
}

#[test]
fn scores_and_receipts_at_a_hub() {
    let at = Terminal::open();
    let (anna, eve) = (at.person("anna"), at.person("eve"));
    let example = |name: &str| {
        let folder: PathBuf =
            [env!("CARGO_MANIFEST_DIR"), "..", "..", "examples", "choir", name].iter().collect();
        folder.to_str().unwrap().to_owned()
    };
    let (score, bad) = (example("score.json"), example("bad-run.json"));
    let id = at.good(&anna, &["score", "create", &score]).trim().to_owned();
    assert_eq!(at.json(&anna, &["score", "show", &id])["version"], 1);
    assert_eq!(at.good(&anna, &["score", "update", &id, &score]), "version 2\n");
    let list = at.good(&anna, &["score", "list"]);
    assert!(list.contains(&id), "{list}");
    at.run(&eve, &["score", "show", &id]).failed(3, "");
    assert!(at.json(&anna, &["score", "rehearse", &id]).is_object());

    let secret = at.json(&anna, &["score", "secret", &id]);
    let (secret, url) = (text(&secret["secret"]), text(&secret["ingest_url"]));
    let submit = ["sign", "--secret", &secret, "--submit", &url, &bad];
    at.good("", &submit);
    at.good(&anna, &["score", "evidence", &id, &bad]);
    assert_eq!(at.json(&anna, &["score", "list-evidence", &id]).as_array().unwrap().len(), 2);
    let prefix = &secret[..12];
    let revoked = at.json(&anna, &["score", "revoke-secret", &id, prefix]);
    assert_eq!(revoked, json!({"prefix": prefix, "revoked": true}));
    assert_eq!(at.run("", &submit).code, 3);

    let first = at.json(&anna, &["receipt", "issue", &id, "--evidence", "none"]);
    let second = at.json(&anna, &["receipt", "issue", &id]);
    let (first, second) = (text(&first["receipt_id"]), text(&second["receipt_id"]));
    let list = at.json(&anna, &["receipt", "list", &id]);
    assert_eq!(list.as_array().unwrap().len(), 2, "{list}");
    assert_eq!(at.run("", &["receipt", "compare", &first, &second]).code, 1, "what was observed is worse");
    let link = at.good(&anna, &["receipt", "publish-comparison", &first, &second]);
    assert!(link.contains("/compare/"), "{link}");
    assert!(at.json("", &["receipt", "attestation", &second])["payload"].is_string());
    fs::write(at.folder.path().join("receipt.json"), at.good("", &["receipt", "show", &second])).unwrap();
    assert!(at.good("", &["verify", "receipt.json"]).starts_with("unverified: no keys"));
    assert!(at.good(&anna, &["score", "archive", &id]).contains("is archived"));
    assert!(at.good("", &["receipt", "show", &second]).contains(&second), "receipts stay");
}
