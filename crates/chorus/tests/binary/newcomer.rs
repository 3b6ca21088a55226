//! First contact with the command line: it reports results, and shows no secret.

use crate::hub::{OPERATOR, chorus};
use crate::terminal::{Terminal, text};
use chorus_testkit::receiver::{FakeAgent, Reply};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

#[test]
fn a_person_who_was_not_met_yet_is_asked() {
    let at = Terminal::open();
    let (anna, eve) = (at.person("anna"), at.person("eve"));
    let asked = at.run(&anna, &["dm", "eve@example.org", "hello"]);
    assert!(asked.code == 0 && asked.out.starts_with("asked: eve@example.org is invited"), "{asked:?}");
    assert!(asked.out.contains("nothing was said yet"), "{asked:?}");
    assert_eq!(at.json(&anna, &["dm", "nobody@example.org"]), json!({"status": "invited"}));
    let invitation = text(&at.json(&eve, &["invitations", "list"])[0]["id"]);
    at.good(&eve, &["invitations", "accept", &invitation]);
    let said = at.good(&anna, &["dm", "eve@example.org", "hello", "again"]);
    assert!(said.starts_with('#') && said.contains(" evt_"), "{said}");
    // Options are options, and no part of the message.
    let said = at.json(&anna, &["dm", "eve@example.org", "and", "again"]);
    assert!(text(&said["event_id"]).starts_with("evt_"), "{said}");
    at.good("", &["dm", "eve@example.org", "by key", "--key", &anna]);
    at.run(&anna, &["dm", "eve@example.org", "hello", "--dry-run"]).failed(2, "--dry-run");
    let id = text(&at.json(&anna, &["dm", "eve@example.org"])["id"]);
    let said = at.good(&eve, &["channel", "history", &id]);
    assert!(said.contains("by key") && !said.contains("--"), "{said}");
    assert!(at.good(&eve, &["channel", "history", &id]).contains("hello again"));
}

#[test]
fn registering_again_changes_what_is_said_and_nothing_else() {
    let at = Terminal::open();
    let first =
        at.json("", &["register", "alice", "--culture", "de", "--language", "de", "--language", "nl"]);
    let row = || at.good("", &["agents", "alice"]).lines().nth(1).unwrap().to_owned();
    assert!(row().contains("de       de,nl"), "{}", row());
    let second = at.json(&text(&first["api_key"]), &["register", "alice"]);
    assert!(row().contains("de       de,nl"), "the card stays: {}", row());
    let third = at.json(&text(&second["api_key"]), &["register", "alice", "--culture", "fr"]);
    assert!(row().contains("fr       de,nl"), "{}", row());
    // With another agent's key set, a new agent still gets a card.
    at.json(&text(&third["api_key"]), &["register", "bob"]);
    assert!(at.good("", &["agents", "bob"]).contains("en       en"));
    at.run(&text(&first["api_key"]), &["register", "alice"])
        .failed(3, "is CHORUS_KEY the newest key of this agent?");
}

#[test]
fn an_agent_of_a_persons_own() {
    let at = Terminal::open();
    let (anna, eve) = (at.person("anna"), at.person("eve"));
    let made = at.run(&anna, &["register", "timber", "--culture", "de"]);
    assert!(made.code == 0 && made.out.contains("export CHORUS_KEY=ca_"), "{made:?}");
    assert!(made.err.contains("registered, and yours") && made.err.contains("/inbox/sk_"), "{made:?}");
    assert!(at.good("", &["agents", "timber"]).contains("de       de"));
    assert!(at.good(&anna, &["agents", "reset-key", "timber"]).starts_with("ca_"), "its owner may");
    let made = at.json(&anna, &["register", "cedar"]);
    assert!(text(&made["api_key"]).starts_with("ca_") && made["connection_string"].is_string(), "{made}");
    at.run(&eve, &["register", "timber"]).failed(3, "");

    // An agent that registered itself has no owner, until someone claims it by its key.
    let key = at.agent("stray");
    at.run(&anna, &["agents", "reset-key", "stray"]).failed(3, "owner");
    let claimed = at.fed(&anna, &["agents", "claim", "-"], &format!("{key}\n"));
    assert!(
        claimed.code == 0 && claimed.out.starts_with("stray@") && claimed.out.ends_with(" is yours\n"),
        "{claimed:?}"
    );
    at.run(&eve, &["agents", "claim", &key]).failed(3, "belongs to an account already");
    assert!(at.good(&anna, &["agents", "reset-key", "stray"]).starts_with("ca_"));
}

#[test]
fn names_that_nobody_has_are_told() {
    let at = Terminal::open();
    let anna = at.agent("anna");
    at.agent("bob");
    at.good(&anna, &["channel", "create", "ops"]);
    at.good(&anna, &["channel", "join", "ops", "--agent", "bob"]);
    let dry = at.good(&anna, &["channel", "say", "ops", "@bob and @bbo?", "--dry-run"]);
    let taken_for = "taken for: question (confidence medium, by lexicon)";
    assert_eq!(dry, format!("bob would be woken: direct_mention\n{taken_for}\nnobody here is called: bbo\n"));
    let dry = at.good(&anna, &["channel", "say", "ops", "@bbo?", "--dry-run"]);
    assert_eq!(dry, "nobody would be woken\nnobody here is called: bbo\n");
    let said = at.good(&anna, &["channel", "say", "ops", "@bob and @bbo?"]);
    assert!(said.ends_with("; woken: bob; nobody here is called: bbo\n"), "{said}");
    let many: Vec<_> = (0..52).map(|n| format!("@a{n}")).collect();
    for more in [&["--dry-run"][..], &[]] {
        let said = at.good(&anna, &[&["channel", "say", "ops", &many.join(" ")], more].concat());
        assert!(said.contains("left out, being mentioned after the first 50: a50,a51"), "{said}");
    }
}

#[test]
fn what_became_of_envelopes() {
    let at = Terminal::open();
    let (alice, bob) = (at.agent("alice"), at.agent("bob"));
    assert!(at.run(&alice, &["sent"]).err.contains("nothing was sent"));
    let sent = at.json(&alice, &["send", "bob", "one", "--from", "alice"]);
    at.good(&alice, &["send", "bob", "two", "--from", "alice"]);
    let shown = at.good(&alice, &["sent"]);
    assert_eq!((shown.matches(" to bob@").count(), shown.matches("\n  stored").count()), (2, 2), "{shown}");
    assert!(!shown.contains("handed") && !shown.contains("one"), "{shown}");
    at.good(&bob, &["inbox", "--count", "1"]);
    let trace = text(&sent["trace_id"]);
    let end = Instant::now() + Duration::from_secs(30);
    // The delivery is recorded with a delay.
    while !at.good(&alice, &["sent", &trace]).contains("\n  handed") {
        assert!(Instant::now() < end, "{}", at.good(&alice, &["sent", &trace]));
        std::thread::sleep(Duration::from_millis(50));
    }
    let all = at.json(OPERATOR, &["sent", "--sender", "alice"]);
    assert_eq!((all.as_array().unwrap().len(), &all[1]["trace_id"]), (2, &json!(trace)), "{all}");
    assert_eq!(at.json(&alice, &["sent", "--limit", "1"]).as_array().unwrap().len(), 1);
    at.run(&alice, &["sent", "x"]).failed(2, "a trace_id has 32 hex digits");
    at.run(&bob, &["sent", &trace]).failed(3, "no envelope of this trace_id");
}

#[test]
fn channels_change_hands_and_come_back() {
    let at = Terminal::open();
    let (anna, bob) = (at.agent("anna"), at.agent("bob"));
    let id = text(&at.json(&anna, &["channel", "create", "ops"])["id"]);
    at.good(&anna, &["channel", "join", "ops", "--agent", "bob"]);
    let changed = at.good(&anna, &["channel", "member", "ops", "bob", "--role", "review", "--lead"]);
    assert_eq!(changed, "bob: roles review; answers for the others\n");
    let changed =
        at.good(&anna, &["channel", "member", "ops", "bob", "--handle", "robert", "--no-roles", "--no-lead"]);
    assert_eq!(changed, "robert: roles -\n");
    at.run(&anna, &["channel", "member", "ops", "robert"]).failed(2, "--role");
    assert_eq!(at.good(&anna, &["channel", "transfer", "ops", "robert"]), "ops belongs to robert now\n");
    at.run(&anna, &["channel", "archive", "ops"]).failed(3, "");
    at.good(&bob, &["channel", "archive", "ops"]);
    assert!(!at.good(&bob, &["channel", "list"]).contains("ops"));
    assert!(at.good(&anna, &["channel", "list", "--archived"]).contains(&id));
    // An archived channel can still be given by its name, after an open one.
    assert!(at.good(&anna, &["channel", "members", "ops"]).contains("robert"));
    at.run(&bob, &["channel", "say", "ops", "hello"]).failed(3, "archived");
    assert_eq!(at.good(&bob, &["channel", "restore", "ops"]), "ops is open again\n");
    at.good(&bob, &["channel", "say", "ops", "hello"]);
    at.good(&bob, &["channel", "leave", "ops", "anna"]);
    let log = at.good(&bob, &["channel", "history", "ops", "--all"]);
    let lines: Vec<_> = log.lines().filter_map(|line| line.strip_prefix("  ")).collect();
    let expected = [
        "joined",
        "added robert",
        "changed what bob is here",
        "changed what robert is here",
        "changed the channel",
        "archived the channel",
        "opened the channel again",
        "hello",
        "removed anna",
    ];
    assert_eq!(lines, expected.map(|line| if line == "added robert" { "added bob" } else { line }), "{log}");
    assert!(log.lines().next().unwrap().contains(" anna "), "{log}");
}

#[test]
fn jobs_in_the_inbox_without_their_secrets() {
    let at = Terminal::open();
    let worker = at.json("", &["market", "register", "Worker", "--owner", "w", "--skill", "sum=1"]);
    let boss = at.json("", &["market", "register", "Boss", "--owner", "b", "--skill", "boss=1"]);
    let (worker, boss) = (text(&worker["api_key"]), text(&boss["owner_key"]));
    at.good(OPERATOR, &["market", "mint", "b", "10"]);
    let job = at.json(&boss, &["market", "hire", "sum", "--budget", "2", "--input", "{\"a\": 1}"]);
    let job = text(&job["job_id"]);
    for args in [&["inbox", "--history"][..], &["inbox", "--count", "1", "--timeout", "30"]] {
        let shown = at.good(&worker, args);
        assert!(
            shown.contains("job sum for 2") && shown.contains(&job) && shown.contains("\n  {\"a\":1}"),
            "{shown}"
        );
        assert!(!shown.contains("http") && !shown.contains("callback"), "{shown}");
    }
    for args in [&["inbox", "--after", "0", "--count", "1", "--json"][..], &["inbox", "--history", "--json"]]
    {
        let data: Value = serde_json::from_str(at.good(&worker, args).lines().next().unwrap()).unwrap();
        assert!(text(&data["data"]["callback_url"]).starts_with("http"), "a program needs it: {data}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_try_of_a_delivery() {
    let at = Terminal::open();
    let receiver = FakeAgent::start().await;
    receiver.set(Reply::Json(422, json!({})));
    let anna = at.person("anna");
    at.json(&anna, &["register", "marl"]);
    let connection = format!("http://{}/inbox/sk_1", receiver.addr());
    assert_eq!(at.good(&anna, &["agent-url", "set", "marl", &connection]), "set\n");
    at.good(&anna, &["channel", "create", "ops"]);
    at.good(&anna, &["channel", "join", "ops", "--agent", "marl"]);
    at.good(&anna, &["channel", "say", "ops", "@marl take this"]);
    let end = Instant::now() + Duration::from_secs(30);
    let dead = async || loop {
        let dead = at.json(&anna, &["deliveries", "list", "--state", "dead"]);
        if let Some(one) = dead.get(0) {
            return text(&one["id"]);
        }
        assert!(Instant::now() < end, "{dead}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let id = dead().await;
    assert_eq!(at.good(&anna, &["deliveries", "replay", &id]), "waiting\n");
    receiver.wait_for(2, Duration::from_secs(30)).await;
    let id = dead().await;
    let tries = at.json(&anna, &["deliveries", "tries", &id]);
    assert_eq!(tries.as_array().unwrap().len(), 2, "{tries}");
    assert!(text(&tries[0]["at"]) < text(&tries[1]["at"]), "{tries}");
    let shown = at.good(&anna, &["deliveries", "tries", &id]);
    assert_eq!(shown.matches("  422  ").count(), 2, "{shown}");
    let eve = at.person("eve");
    at.run(&eve, &["deliveries", "tries", &id]).failed(3, "");

    let unset = at.json(&anna, &["agent-url", "unset", "marl"]);
    assert_eq!(unset, json!({"agent": "marl", "connection_string": null}));
    assert!(at.good(&anna, &["agent-url", "unset", "marl"]).contains("no connection string of its own"));
    assert_eq!(at.good(&anna, &["agent-url", "mend", "marl"]), "tried again now\n");
}

#[test]
fn hints_that_fit() {
    let at = Terminal::open();
    let anna = at.person("anna");
    let spare = at.json(&anna, &["token", "create", "laptop"]);
    at.good(&anna, &["token", "revoke", &text(&spare["id"])]);
    let revoked = at.run(&text(&spare["token"]), &["channel", "list"]);
    revoked.failed(3, "was this token revoked");
    assert!(!revoked.err.contains("register"), "{revoked:?}");
    at.run("co_00000000000000000000000000000000", &["fleet"]).failed(3, "CHORUS_OPERATOR_KEY");
    at.run("ca_00000000000000000000000000000000", &["fleet"]).failed(3, "`chorus register NAME`");
    at.run("hunter2", &["fleet"]).failed(3, "ct_…");

    at.good(&anna, &["channel", "create", "ops"]);
    at.run(OPERATOR, &["audit", "--channel", "ops"]).failed(2, "give its id ch_…");
    at.run(&anna, &["audit"]).failed(2, "--channel names one of yours");
    at.good(&anna, &["audit", "--channel", "ops", "--kind", "decision"]);
    let join = at.run(&anna, &["channel", "join", "ops"]);
    join.failed(2, "--agent <AGENT>|--account <ACCOUNT>");
    assert!(!join.err.contains("--url") && !join.err.contains("--key"), "{join:?}");
    assert!(at.good("", &["--help"]).contains("5 inconclusive"));

    // Nothing came, so there is no position to resume from.
    let bob = at.agent("bob");
    let listened = at.run(&bob, &["inbox", "--after", "0", "--timeout", "1"]);
    assert!(listened.code == 0 && !listened.err.contains("to go on from here"), "{listened:?}");
}

#[test]
fn doctor_says_that_something_else_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let _read = stream.read(&mut head).unwrap();
            let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
            // The client may have disconnected.
            stream.write_all(answer.as_bytes()).ok();
        }
    });
    let output = chorus().args(["doctor", "--url", &url]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("something else than a hub answers there"), "{said}");
    assert!(!said.contains("disk"), "{said}");
}

#[test]
fn doctor_says_why_a_hub_would_not_start() {
    let at = Terminal::open();
    let data = at.folder.path().join("hub");
    let looked = |folder: &str| at.run("", &["doctor", "--data", folder]);
    assert_eq!(looked("hub").code, 0, "{:?}", looked("hub"));
    let nowhere = looked("nosuch");
    assert!(nowhere.code == 1 && nowhere.out.contains("there is no folder nosuch"), "{nowhere:?}");
    let key = fs::read(data.join("master.key")).unwrap();
    fs::remove_file(data.join("master.key")).unwrap();
    let missing = looked("hub");
    assert!(missing.code == 1 && missing.out.contains("master.key is missing"), "{missing:?}");
    assert!(missing.out.contains("CHORUS_MASTER_KEY"), "{missing:?}");
    // A monitor looks at the hub alone, which runs.
    let hub_only = at.run("", &["doctor", "--data", "hub", "--hub-only"]);
    assert!(hub_only.code == 0 && !hub_only.out.contains("start"), "{hub_only:?}");
    let other: Vec<_> = key.iter().map(|digit| if *digit == b'0' { b'1' } else { b'0' }).collect();
    for (key, code) in [(other, 1), (key, 0)] {
        fs::write(data.join("master.key"), key).unwrap();
        fs::set_permissions(data.join("master.key"), fs::Permissions::from_mode(0o600)).unwrap();
        let looked = looked("hub");
        assert_eq!((looked.code, looked.out.contains("BAD  start")), (code, code == 1), "{looked:?}");
    }
}

#[test]
fn files_for_programs_and_folders_that_are_made() {
    let at = Terminal::open();
    let folder = at.folder.path();
    let data = folder.join("hub");
    let data = data.to_str().unwrap();
    let copied = at.json("", &["backup", "new/folder/chorus.db", "--data", data]);
    assert_eq!(copied["file"], "new/folder/chorus.db");
    assert!(folder.join("new/folder/chorus.db").exists());
    let exported = at.json("", &["export", "all.export", "--data", "new/folder"]);
    assert!(exported["file"] == "all.export" && exported["rows"].as_u64() > Some(0), "{exported}");
    let imported = at.json("", &["import", "all.export", "--data", "other"]);
    assert!(imported["file"] == "all.export" && imported["rows"] == exported["rows"], "{imported}");
    let hash = at.fed("", &["hash", "--json"], "{\"b\": 1, \"a\": 2}");
    let hash: Value = serde_json::from_str(&hash.out).unwrap();
    assert_eq!(text(&hash["sha256"]), at.fed("", &["hash"], "{\"a\":2,\"b\":1}").out.trim());

    fs::create_dir(folder.join("full")).unwrap();
    fs::write(folder.join("full/notes.txt"), "mine").unwrap();
    let demo = ["demo", "--listen", "127.0.0.1:0", "--data"];
    at.run("", &[&demo[..], &["full"]].concat()).failed(1, "the folder full is not empty");
    at.run("", &[&demo[..], &["full/notes.txt"]].concat()).failed(1, "cannot look into the folder");
}
