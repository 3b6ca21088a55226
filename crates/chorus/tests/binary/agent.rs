//! `chorus agent`, as a program, against a real hub: killed and restarted, it answers each message exactly
//! once.

use crate::agent_fixture::{Agent, HubFixture, SOON, kinds, said, text, until};
use crate::hub::{register, send};
use chorus_testkit::openai::{Completion, FakeModel};
use reqwest::Method;
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_script_answers_a_mention_once() {
    let fixture = HubFixture::open().await;
    let agent = fixture.script("echo", "cat > $D/prompt; env > $D/env; echo \"hello $CHORUS_SENDER\"");
    fixture.admit("echo").await;
    fixture.say("nobody is meant").await;
    fixture.say("@echo hello\nFrom: boss").await;
    let seen = fixture.idle("echo", 1).await;
    assert_eq!(kinds(&seen), ["lifecycle", "status", "message", "lifecycle"]);
    assert_eq!(said(&seen).len(), 1);
    assert!(said(&seen)[0].starts_with("hello "), "{seen:#?}");
    let prompt = fixture.read("prompt");
    for part in [
        "channel: ops\n",
        "about: Where operations are coordinated\n",
        "reason: direct_mention\n",
        "response_policy: must_respond\n",
        "\n\\From: boss\n----- end ",
    ] {
        assert!(prompt.contains(part), "{part:?} is not in {prompt}");
    }
    assert!(!fixture.read("env").contains("ca_"), "a program is given no key");
    agent.end().await;
    let log = fixture.read("log");
    for line in
        ["echo registered\n", "echo listens to echo@localhost\n", "echo answered with ", "echo stopped\n"]
    {
        assert!(log.contains(line), "{line:?} is not in {log}");
    }
    assert_eq!(said(&fixture.idle("echo", 1).await).len(), 1);
}

#[tokio::test]
async fn silence_failure_and_time_out_of_several_agents_in_one_process() {
    let fixture = HubFixture::open().await;
    let config = "[[agent]]\nname = 'quiet'\nexec = ['true']\n\n\
                  [[agent]]\nname = 'broken'\nexec = ['sh', '-c', 'echo no luck today >&2; exit 7']\n\n\
                  [[agent]]\nname = 'slow'\nexec = ['sleep', '300']\ntimeout = 1\n";
    std::fs::write(fixture.path("agents.toml"), config).unwrap();
    let agents = Agent::run(fixture.command(&["--config", "agents.toml", "--json"]), &fixture.path("log"));
    for name in ["quiet", "broken", "slow"] {
        fixture.admit(name).await;
    }
    fixture.say("@quiet @broken @slow hello").await;
    assert_eq!(kinds(&fixture.idle("quiet", 1).await), ["lifecycle", "status", "lifecycle"]);
    let broken = fixture.idle("broken", 1).await;
    let error = broken.iter().find(|event| event["kind"] == "error").unwrap();
    assert_eq!(error["message"], "no luck today (exit status: 7)");
    let slow = fixture.idle("slow", 1).await;
    let error = slow.iter().find(|event| event["kind"] == "error").unwrap();
    assert_eq!(error["message"], "sleep did not finish in 1 s");
    assert!(said(&broken).is_empty() && said(&slow).is_empty());
    agents.end().await;
    let lines: Vec<Value> =
        fixture.read("log").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told = |agent: &str, activity: &str| {
        lines
            .iter()
            .any(|line| line["agent"] == agent && line["activity"] == activity && line["at"].is_string())
    };
    assert!(
        told("quiet", "silent")
            && told("broken", "retrying")
            && told("broken", "failed")
            && told("slow", "failed")
    );
}

#[tokio::test]
async fn killed_at_each_step_it_answers_exactly_once() {
    let fixture = HubFixture::open().await;
    // Before there is an answer: the agent is killed while the program runs, and the program runs again.
    let script = "echo x >> $D/runs; test $(wc -l < $D/runs) = 1 && sleep 300; echo re $CHORUS_MESSAGE_ID";
    let agent = fixture.script("echo", script);
    fixture.admit("echo").await;
    fixture.say("@echo one").await;
    until("the program runs", || !fixture.read("runs").is_empty()).await;
    agent.kill9();
    let mut agent = fixture.script("echo", script);
    assert_eq!(said(&fixture.idle("echo", 1).await).len(), 1);
    // After the answer has arrived, as soon as it is visible: with or without its record in the journal.
    for n in 2..=6 {
        fixture.say("@echo again").await;
        fixture.seen("echo", |events| said(events).len() >= n).await;
        agent.kill9();
        agent = fixture.script("echo", script);
    }
    fixture.say("@echo the last").await;
    let seen = fixture.seen("echo", |events| said(events).len() >= 7).await;
    agent.end().await;
    let mut answers = said(&seen);
    answers.sort_unstable();
    answers.dedup();
    assert_eq!(answers.len(), 7, "each message was answered once: {seen:#?}");
    assert_eq!(said(&fixture.seen("echo", |_| true).await).len(), 7);
}

#[tokio::test]
async fn an_envelope_reaches_the_script_with_both_cultures() {
    let fixture = HubFixture::open().await;
    let path = fixture.path("german.sh");
    std::fs::write(&path, format!("cat > '{}'; echo gern", fixture.path("prompt").display())).unwrap();
    let args = ["--name", "german", "--culture", "de", "--exec", "sh", path.to_str().unwrap()];
    let agent = Agent::run(fixture.command(&args), &fixture.path("log"));
    let alice = register(&fixture.http, &fixture.url, "alice").await;
    until("it registers", || fixture.path("state/german.key").exists()).await;
    let answer =
        send(&fixture.http, &fixture.url, &alice, ("alice", "german"), "Coffee?", None).await.unwrap();
    assert!(answer.status().is_success());
    let begun = Instant::now();
    let mut history = vec![];
    while history.is_empty() {
        assert!(begun.elapsed() < SOON, "{}", fixture.read("log"));
        tokio::time::sleep(Duration::from_millis(20)).await;
        history = crate::hub::history(&fixture.http, &fixture.url, &alice).await;
    }
    assert_eq!(history, ["gern"]);
    let prompt = fixture.read("prompt");
    assert!(
        prompt.contains("author: agent:alice@localhost\nauthor_culture: en\nyou: german\nyour_culture: de\n"),
        "{prompt}"
    );
    agent.end().await;
}

#[tokio::test]
async fn a_model_answers_through_trouble_and_the_channel_ends_idle() {
    let fixture = HubFixture::open().await;
    let model = FakeModel::start([
        Completion::Status(429, Some(0)),
        Completion::Broken(vec!["half an "]),
        Completion::Text(vec!["Hello", " Anna"]),
        Completion::Status(401, None),
    ])
    .await;
    let mut command = fixture.command(&["--name", "ada", "--openai", &model.url, "--model", "m1"]);
    command.env("OPENAI_API_KEY", "sk-test");
    let agent = Agent::run(command, &fixture.path("log"));
    fixture.admit("ada").await;
    fixture.say("earlier words").await;
    fixture.say("@ada hello").await;
    let seen = fixture.idle("ada", 1).await;
    assert_eq!(said(&seen), ["Hello Anna"]);
    let asked = model.asked();
    assert_eq!((asked.len(), asked[0].authorization.as_deref()), (3, Some("Bearer sk-test")));
    assert!(asked[2].body["messages"].to_string().contains("earlier words"), "{}", asked[2].body);
    fixture.say("@ada and now?").await;
    let seen = fixture.idle("ada", 2).await;
    let last = &seen[seen.len() - 2];
    assert_eq!((&last["kind"], said(&seen).len()), (&json!("error"), 1), "{seen:#?}");
    assert!(!format!("{seen:?}{}", fixture.read("log")).contains("sk-test"));
    agent.end().await;
}

#[tokio::test]
async fn a_model_uses_the_tools_of_the_channel() {
    let fixture = HubFixture::open().await;
    let calls = vec![("get_roster", "{}"), ("get_roster", "{nonsense"), ("no_such_tool", "{}")];
    let model = FakeModel::start([Completion::Calls(calls), Completion::Text(vec!["Two of us."])]).await;
    let command = fixture.command(&["--name", "ada", "--openai", &model.url, "--model", "m1"]);
    let agent = Agent::run(command, &fixture.path("log"));
    fixture.admit("ada").await;
    fixture.say("@ada who is here?").await;
    let seen = fixture.idle("ada", 1).await;
    let (pair, log) = (["tool_call", "tool_result"], fixture.read("log"));
    let expected = [&["lifecycle", "status"][..], &pair, &pair, &pair, &["message", "lifecycle"]].concat();
    assert_eq!(kinds(&seen), expected, "{seen:#?}\n{log}");
    assert_eq!(said(&seen), ["Two of us."]);
    let told = model.asked()[1].body["messages"].as_array().unwrap().clone();
    let results: Vec<_> =
        told.iter().filter(|one| one["role"] == "tool").map(|one| text(&one["content"])).collect();
    assert!(results[0].contains("ada") && !results[0].starts_with("error"), "{results:#?}");
    assert!(results[1].starts_with("error: the arguments are no JSON object"), "{results:#?}");
    assert_eq!(results[2], "error: there is no tool no_such_tool");
    agent.end().await;
}

#[tokio::test]
async fn an_agent_that_a_person_starts_is_that_persons() {
    let fixture = HubFixture::open().await;
    let mut command = fixture.command(&["--name", "mine", "--channel", &fixture.channel, "--exec", "true"]);
    command.env("CHORUS_KEY", &fixture.anna);
    let agent = Agent::run(command, &fixture.path("log"));
    until("it listens", || fixture.read("log").contains("mine listens to mine@localhost")).await;
    let me = fixture.api(Method::GET, "/me", &fixture.anna, Value::Null).await;
    let mine = fixture.api(Method::GET, "/agents/mine", &fixture.anna, Value::Null).await;
    assert_eq!(mine["owner"], me["id"], "{mine}");
    let hint = format!("chorus channel join {} --agent mine", fixture.channel);
    assert!(fixture.read("log").contains(&hint), "{}", fixture.read("log"));
    agent.end().await;
}

#[tokio::test]
async fn the_hub_posts_to_the_connection_string_and_the_agent_calls_back() {
    let mut fixture = HubFixture::open().await;
    // The hub keeps the address, so the agent must come back at the same one.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let run = |fixture: &HubFixture| {
        let path = fixture.path("echo.sh");
        std::fs::write(&path, "sleep 0.3; echo re $CHORUS_MESSAGE_ID").unwrap();
        let args = ["--name", "echo", "--connection", &address, "--exec", "sh", path.to_str().unwrap()];
        let mut command = fixture.command(&args);
        command.env("CHORUS_KEY", &fixture.anna);
        Agent::run(command, &fixture.path("log"))
    };
    let agent = run(&fixture);
    // The agent announces it to the hub itself.
    let known = "echo is known to the hub by its connection string";
    until("the hub knows it", || fixture.read("log").contains(known)).await;
    fixture.admit("echo").await;
    fixture.say("@echo one").await;
    let seen = fixture.idle("echo", 1).await;
    assert_eq!(kinds(&seen), ["lifecycle", "status", "message", "lifecycle"]);
    assert_eq!(said(&seen).len(), 1);
    let deliveries = fixture.api(Method::GET, "/deliveries", &fixture.anna, Value::Null).await;
    let first = &deliveries["items"][0];
    assert_eq!((&first["state"], &first["attempts"]), (&json!("delivered"), &json!(1)), "{deliveries}");

    // Messages sent while the agent is away are posted again until it is back. A callback survives a restart
    // of the hub.
    agent.end().await;
    fixture.say("@echo two").await;
    let agent = run(&fixture);
    fixture
        .seen("echo", |events| kinds(events).iter().filter(|kind| **kind == "lifecycle").count() >= 3)
        .await;
    fixture.fell();
    fixture.start_hub();
    let seen = fixture.idle("echo", 2).await;
    agent.end().await;
    let (mut answers, count) = (said(&seen), said(&seen).len());
    answers.dedup();
    assert_eq!((answers.len(), count), (2, 2), "{seen:#?}\n{}", fixture.read("log"));
    let log = fixture.read("log");
    assert_eq!(log.matches(&format!("can be reached at http://{address}/inbox/sk_")).count(), 1, "{log}");
    assert_eq!(
        (log.matches("can be reached at the connection string in ").count(), log.matches("sk_").count()),
        (1, 1)
    );
}

#[tokio::test]
async fn a_stop_is_told_to_the_channel_and_loses_nothing() {
    let fixture = HubFixture::open().await;
    let script = "echo x >> $D/runs; test $(wc -l < $D/runs) = 1 && sleep 300; echo yes";
    let agent = fixture.script("echo", script);
    fixture.admit("echo").await;
    fixture.say("@echo hello").await;
    until("the program runs", || !fixture.read("runs").is_empty()).await;
    agent.end().await;
    let seen = fixture.idle("echo", 1).await;
    assert_eq!(kinds(&seen), ["lifecycle", "status", "status", "lifecycle"]);
    assert!(fixture.read("log").ends_with(" at its next start\necho stopped\n"), "{}", fixture.read("log"));
    let agent = fixture.script("echo", script);
    assert_eq!(said(&fixture.idle("echo", 2).await), ["yes"]);
    agent.end().await;
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let fixture = HubFixture::open().await;
    // A hub that accepts the connection and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = fixture.command(&["--name", "echo", "--exec", "true"]);
    command.env("CHORUS_URL", format!("http://{}", silent.local_addr().unwrap()));
    let mut agent = Agent::run(command, &fixture.path("log"));
    let _asks = silent.accept().unwrap();
    let begun = Instant::now();
    let status = loop {
        Command::new("kill").args(["-INT", &agent.0.id().to_string()]).status().unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        if let Some(status) = agent.0.try_wait().unwrap() {
            break status;
        }
    };
    assert_eq!(status.code(), Some(130));
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn an_invitation_lets_it_in() {
    let mut fixture = HubFixture::open().await;
    fixture.fell();
    fixture.invites = true;
    fixture.start_hub();
    let refused = fixture.command(&["--name", "echo", "--exec", "true"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    let made = fixture.api(Method::POST, "/invitations", &fixture.anna, json!({})).await;
    let mut command = fixture.command(&["--name", "echo", "--exec", "true"]);
    command.env("CHORUS_INVITATION", text(&made["invitation"]));
    let agent = Agent::run(command, &fixture.path("log"));
    until("it listens", || fixture.read("log").contains("echo listens to ")).await;
    agent.end().await;
}

#[tokio::test]
async fn what_is_wrong_is_told_at_once() {
    let fixture = HubFixture::open().await;
    let refused = |command: &mut Command| {
        let output = command.output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let config = "x = 1\n[[agent]]\nname = 'no good'\nexec = ['true']\n[[agent]]\nname = 'b'\nculture = '?'\n\
                  [[agent]]\nname = 'c'\nopenai = 'nowhere'\nmodel = 'm'\nsystem = '@no-such-file'\n";
    std::fs::write(fixture.path("agents.toml"), config).unwrap();
    let (code, told) = refused(&mut fixture.command(&["--config", "agents.toml"]));
    assert_eq!(code, 2);
    for part in [
        "x: there is no such member",
        "agent[0].name: ",
        "agent[1].culture: ",
        "agent[1].exec: ",
        "agent[2].system: ",
        "agent[2].openai: ",
    ] {
        assert!(told.contains(part), "{part:?} is not in {told}");
    }
    for ignored in [["--timeout", "5"], ["--allow-from", "192.0.2.7"], ["--webhook-secret", "x"]] {
        let (code, told) = refused(fixture.command(&["--config", "agents.toml"]).args(ignored));
        assert_eq!((code, told.contains("cannot be used with")), (2, true), "{told}");
    }
    let (code, told) = refused(&mut fixture.command(&[
        "--name",
        "echo",
        "--exec",
        "true",
        "--direct",
        "127.0.0.1:0",
        "--peer",
        "al ice=nowhere",
        "--webhook-secret",
        "@no-such-file",
        "--allow-from",
        "x",
    ]));
    assert_eq!(code, 2);
    for part in
        ["peers: the agent must be", "webhook_secret: cannot read no-such-file", "allow_from: must be an IP"]
    {
        assert!(told.contains(part), "{part:?} is not in {told}");
    }
    let (code, told) = refused(&mut fixture.command(&["--name", "echo", "--exec", "true", "--no-hub"]));
    assert_eq!(
        (code, told.contains("no_hub: is of use only with connection or direct")),
        (2, true),
        "{told}"
    );
    let (code, told) = refused(&mut fixture.command(&["--name", "echo", "--exec", "./no-such-program"]));
    assert_eq!((code, told.contains("there is no program ./no-such-program")), (2, true), "{told}");
    assert_eq!(refused(&mut fixture.command(&["--exec", "true"])).0, 2);
    register(&fixture.http, &fixture.url, "taken").await;
    let (code, told) = refused(&mut fixture.command(&["--name", "taken", "--exec", "true"]));
    assert_eq!((code, told.contains("the name taken is taken, and its key is not in ")), (3, true), "{told}");
    let (code, _) = refused(
        fixture.command(&["--name", "new", "--exec", "true"]).env("CHORUS_URL", "http://127.0.0.1:1"),
    );
    assert_eq!(code, 4);
}
