//! Edits, deletions and additions before a turn runs, which the inbox does not report.

use crate::hub::{Agent, Hub, Mood, Place, kinds, messages_of};
use crate::model;
use chorus_agent::harness::{Activity, AgentOptions};
use chorus_testkit::openai::{Completion, FakeModel};
use serde_json::{Value, json};
use std::time::Duration;

const PROMPT: &str = "echo x >> $D/runs; cat > $D/prompt; echo yes";

/// A person mentions the agent, and may continue.
fn mention(hub: &Hub, id: &str, text: &str) {
    let mut data = hub.chat(id, text);
    data["attention"] = json!({"reason": "direct_mention", "policy": "must_respond", "mode": "buffered"});
    hub.put("chat", data);
}

/// A message in the channel's log, sent at this second.
fn logged(id: &str, text: &str, second: u32) -> Value {
    json!({"event_id": id, "kind": "message", "author": {"id": "a1", "kind": "account"}, "content": text,
        "created_at": format!("2026-03-20T10:00:{second:02}.000Z")})
}

fn deleted(id: &str) -> Value {
    json!({"event_id": id, "kind": "message", "author": {"id": "a1"}, "content": null, "deleted": true})
}

fn soon(options: AgentOptions) -> AgentOptions {
    AgentOptions { quiet: Duration::from_millis(100), ..options }
}

#[tokio::test]
async fn the_newest_words_are_answered_by_a_program_and_by_a_model() {
    let (hub, place) = (Hub::start().await, Place::new());
    hub.change(|world| world.log.push(logged("evt_1", "@echo second wording", 0)));
    mention(&hub, "evt_1", "@echo first wording");
    let agent = Agent::start(soon(place.script(&hub, PROMPT)));
    assert_eq!(messages_of(&hub.idle(1).await), ["yes"]);
    agent.stop().await;
    let prompt = place.read("prompt");
    assert!(prompt.contains("\n@echo second wording\n") && !prompt.contains("first"), "{prompt}");

    let (hub, place) = (Hub::start().await, Place::new());
    let model = FakeModel::start([Completion::Text(vec!["yes"])]).await;
    hub.change(|world| world.log.push(logged("evt_1", "@echo second wording", 0)));
    mention(&hub, "evt_1", "@echo first wording");
    let agent = Agent::start(soon(model::options(&hub, &place, &model)));
    hub.idle(1).await;
    agent.stop().await;
    let asked = model.asked()[0].body["messages"].to_string();
    assert!(asked.contains("second wording") && !asked.contains("first"), "{asked}");
}

#[tokio::test]
async fn what_was_taken_back_costs_no_turn_and_is_no_failure() {
    let (hub, place) = (Hub::start().await, Place::new());
    hub.change(|world| world.log.push(deleted("evt_1")));
    mention(&hub, "evt_1", "@echo never said");
    let agent = Agent::start(soon(place.script(&hub, PROMPT)));
    assert_eq!(kinds(&hub.idle(1).await), ["processing", "idle"]);
    // Of two messages, the remaining one is answered.
    hub.change(|world| world.log = vec![logged("evt_2", "@echo said", 1), deleted("evt_3")]);
    mention(&hub, "evt_2", "@echo said");
    mention(&hub, "evt_3", "@echo never said");
    assert_eq!(messages_of(&hub.idle(2).await), ["yes"]);
    let told = agent.stop().await;
    assert!(told.contains(&Activity::Superseded { message: "evt_1".into() }), "{told:#?}");
    let prompt = place.read("prompt");
    assert!(prompt.contains("event_id: evt_2\n") && !prompt.contains("never"), "{prompt}");
    assert_eq!(place.read("runs"), "x\n");
}

/// A deleted message is not answered, and no failure is reported.
#[tokio::test]
async fn what_is_taken_back_while_the_program_runs_is_not_answered() {
    let (hub, place) = (Hub::start().await, Place::new());
    hub.change(|world| world.log.push(logged("evt_1", "@echo hello", 0)));
    mention(&hub, "evt_1", "@echo hello");
    let wait = "echo x >> $D/runs; while ! test -e $D/go; do sleep 0.02; done; echo yes";
    let agent = Agent::start(soon(place.script(&hub, wait)));
    while place.read("runs").is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    hub.change(|world| world.log = vec![deleted("evt_1")]);
    std::fs::write(place.path("go"), "").unwrap();
    assert_eq!(kinds(&hub.idle(1).await), ["processing", "status", "idle"]);
    agent.stop().await;
    assert_eq!(place.read("runs"), "x\n");
}

#[tokio::test]
async fn what_names_nobody_is_a_piece_and_is_waited_for() {
    let (hub, place) = (Hub::start().await, Place::new());
    let first = vec![logged("evt_1", "@echo when someone types", 0), logged("evt_2", "in", 1)];
    hub.change(|world| world.log = first.clone());
    mention(&hub, "evt_1", "@echo when someone types");
    let options = place.script(&hub, PROMPT);
    let agent = Agent::start(AgentOptions { quiet: Duration::from_millis(500), ..options });
    // The author has not paused long enough, and continues meanwhile.
    hub.until("it begins", |world| !world.seen.is_empty()).await;
    hub.change(|world| world.log = [first, vec![logged("evt_3", "pieces", 1)]].concat());
    hub.idle(1).await;
    agent.stop().await;
    let prompt = place.read("prompt");
    assert!(prompt.contains("\n@echo when someone types\nin\npieces\n"), "{prompt}");
}

#[tokio::test]
async fn what_cannot_be_read_changes_nothing_and_what_was_decided_stands() {
    let (hub, place) = (Hub::start().await, Place::new());
    mention(&hub, "evt_1", "@echo first wording");
    hub.change(|world| world.mood = Mood::Mute);
    let agent = Agent::start(soon(place.script(&hub, PROMPT)));
    hub.until("an answer", |world| !messages_of(&world.seen).is_empty()).await;
    agent.kill().await;
    assert!(place.read("prompt").contains("\n@echo first wording\n"));
    // The message was edited by now, but it is answered already.
    hub.change(|world| {
        world.mood = Mood::Good;
        world.log.push(logged("evt_1", "@echo second wording", 0));
    });
    let agent = Agent::start(soon(place.script(&hub, "echo x >> $D/runs; echo no")));
    assert_eq!(messages_of(&hub.idle(1).await), ["yes"]);
    agent.stop().await;
    assert_eq!(place.read("runs"), "x\n");
}
