//! A person edits, deletes or continues messages before an agent's turn begins, for all message sources of
//! `chorus agent`.

use crate::agent_fixture::{Agent, HubFixture, SOON, kinds, said, until};
use crate::hub::chorus;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Starts an agent that waits for its authors to pause. Each prompt is written to `$D/prompt-` and the id of
/// its message.
fn patient(fixture: &HubFixture, name: &str, door: &[&str]) -> Agent {
    let path = fixture.path(&format!("{name}.sh"));
    let script = "cat > $D/prompt-$CHORUS_MESSAGE_ID; echo x >> $D/turns; echo yes";
    std::fs::write(&path, format!("D='{}'\n{script}\n", fixture.folder.path().display())).unwrap();
    let mut command = chorus();
    command.arg("agent").args(door).args(["--name", name, "--quiet", "2", "--state"]);
    command.arg(fixture.path("state")).args(["--exec", "sh"]).arg(path);
    command.env("CHORUS_URL", &fixture.url).current_dir(fixture.folder.path());
    Agent::run(command, &fixture.path("log"))
}

/// Makes a request of anna about a message in the channel, and returns the event's id.
async fn act(fixture: &HubFixture, method: Method, message: &str, body: Value) -> String {
    let path = format!("/channels/{}/messages{message}", fixture.channel);
    let done = fixture.api(method, &path, &fixture.anna, body).await;
    done["event_id"].as_str().unwrap_or_default().to_owned()
}

async fn say(fixture: &HubFixture, content: &str) -> String {
    act(fixture, Method::POST, "", json!({"content": content})).await
}

async fn change(fixture: &HubFixture, message: &str, content: &str) -> String {
    act(fixture, Method::PATCH, &format!("/{message}"), json!({"content": content})).await
}

#[tokio::test]
async fn an_inbox_is_answered_as_things_stand_when_the_turn_begins() {
    let fixture = HubFixture::open().await;
    let agent = patient(&fixture, "echo", &[]);
    fixture.admit("echo").await;
    let edited = say(&fixture, "@echo first wording").await;
    change(&fixture, &edited, "@echo second wording").await;
    assert_eq!(said(&fixture.idle("echo", 1).await), ["yes"]);
    let prompt = fixture.read(&format!("prompt-{edited}"));
    assert!(prompt.contains("\n@echo second wording\n") && !prompt.contains("first wording"), "{prompt}");

    // A deleted message, or one that no longer asks the agent, starts no turn and is no failure.
    let deleted = say(&fixture, "@echo something that is taken back").await;
    act(&fixture, Method::DELETE, &format!("/{deleted}"), Value::Null).await;
    fixture.idle("echo", 2).await;
    let asks_nothing = say(&fixture, "@echo please restart the database").await;
    change(&fixture, &asks_nothing, "I did it myself").await;
    let seen = fixture.idle("echo", 3).await;
    let expected = [&["lifecycle", "status", "message", "lifecycle"][..], &["lifecycle"; 4]].concat();
    assert_eq!((kinds(&seen), fixture.read("turns").as_str()), (expected, "x\n"), "{}", fixture.read("log"));
    for message in [&deleted, &asks_nothing] {
        let ladder =
            fixture.api(Method::GET, &format!("/events/{message}"), &fixture.anna, Value::Null).await;
        assert_eq!(ladder["deliveries"][0]["disposition"], "superseded", "{ladder:#}");
    }

    // The example of the C2A document: a message without a mention is delivered to nobody, but is still a
    // piece.
    let mut last = String::new();
    for piece in ["@echo when someone types", "in", "pieces", "like this @echo", "the agent should wait"] {
        let message = say(&fixture, piece).await;
        last = if piece.contains('@') { message } else { last };
    }
    assert_eq!(said(&fixture.idle("echo", 4).await).len(), 2, "one answer to all of it");
    let prompt = fixture.read(&format!("prompt-{last}"));
    let whole = "\n@echo when someone types\nin\npieces\nlike this @echo\nthe agent should wait\n-----";
    assert!(prompt.contains(whole), "{prompt}\n{}", fixture.read("log"));
    assert_eq!(fixture.read("turns"), "x\nx\n");
    agent.end().await;
}

/// An agent that claimed a message to a role waits for the author's pause, like one that was mentioned.
#[tokio::test]
async fn what_was_claimed_is_answered_once_as_it_stands() {
    let fixture = HubFixture::open().await;
    let agent = patient(&fixture, "ada", &["--c2a"]);
    until("it listens", || fixture.read("log").contains("ada listens to ada@localhost")).await;
    let path = format!("/channels/{}/members", fixture.channel);
    let member = json!({"agent": "ada", "roles": ["ops"], "handle": "ada-of-ops"});
    fixture.api(Method::POST, &path, &fixture.anna, member).await;
    let asked = say(&fixture, "@ops please look at disk 1").await;
    let begun = Instant::now();
    loop {
        let ladder = fixture.api(Method::GET, &format!("/events/{asked}"), &fixture.anna, Value::Null).await;
        if ladder["claims"][0]["state"] == "held" {
            break;
        }
        assert!(begun.elapsed() < SOON, "{ladder:#}\n{}", fixture.read("log"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(fixture.read("turns"), "", "nothing is made of it yet");
    let changed = change(&fixture, &asked, "@ops please look at disk 2").await;
    fixture.seen("ada-of-ops", |events| !said(events).is_empty()).await;
    let prompt = fixture.read(&format!("prompt-{changed}"));
    assert!(
        prompt.contains("\nyou: ada-of-ops\n") && prompt.contains("\n@ops please look at disk 2\n"),
        "{prompt}"
    );
    // The next message gets the next answer, so nothing came in between.
    let next = say(&fixture, "@ada-of-ops and now?").await;
    fixture.seen("ada-of-ops", |events| said(events).len() >= 2).await;
    assert!(fixture.read(&format!("prompt-{next}")).contains("and now?"));
    assert_eq!(fixture.read("turns"), "x\nx\n", "{}", fixture.read("log"));
    agent.end().await;
}
