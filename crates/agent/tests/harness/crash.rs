//! The agent is killed at each step and started again: every message is answered exactly once.

use crate::hub::{Agent, Hub, Mood, Place, kinds, messages_of};
use serde_json::json;
use std::time::Duration;

/// A script that answers with the number of its runs, and is slow the first time.
const SLOW_FIRST: &str = "echo x >> $D/runs; N=$(wc -l < $D/runs); test $N = 1 && sleep 300; echo answer $N";
const COUNT: &str = "echo x >> $D/runs; echo answer $(wc -l < $D/runs)";

async fn ran(place: &Place) {
    while place.read("runs").is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn while_the_program_runs() {
    let (hub, place) = (Hub::start().await, Place::new());
    hub.mention("evt_1", "@echo hello");
    let agent = Agent::start(place.script(&hub, SLOW_FIRST));
    ran(&place).await;
    agent.kill().await;
    let agent = Agent::start(place.script(&hub, SLOW_FIRST));
    assert_eq!(messages_of(&hub.idle(1).await), ["answer 2"]);
    agent.stop().await;
    assert_eq!(hub.world().resumed, [Some("0".to_owned()), Some("0".to_owned())]);
}

#[tokio::test]
async fn before_the_answer_left() {
    let (hub, place) = (Hub::start().await, Place::new());
    hub.change(|world| world.mood = Mood::Down);
    hub.mention("evt_1", "@echo hello");
    let agent = Agent::start(place.script(&hub, COUNT));
    while !place.read("state/echo.journal").contains("\"intent\"") {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    agent.kill().await;
    hub.change(|world| world.mood = Mood::Good);
    let agent = Agent::start(place.script(&hub, COUNT));
    assert_eq!(messages_of(&hub.idle(1).await), ["answer 1"]);
    agent.stop().await;
    assert_eq!(place.read("runs").lines().count(), 1, "what was decided is not asked again");
}

#[tokio::test]
async fn after_the_answer_arrived() {
    let (hub, place) = (Hub::start().await, Place::new());
    hub.change(|world| world.mood = Mood::Mute);
    hub.mention("evt_1", "@echo hello");
    let agent = Agent::start(place.script(&hub, COUNT));
    hub.until("an answer", |world| !messages_of(&world.seen).is_empty()).await;
    agent.kill().await;
    hub.change(|world| world.mood = Mood::Good);
    let agent = Agent::start(place.script(&hub, COUNT));
    let seen = hub.idle(1).await;
    assert_eq!(kinds(&seen), ["processing", "status", "message", "idle"]);
    assert_eq!(messages_of(&seen), ["answer 1"]);
    agent.stop().await;
    assert_eq!(place.read("runs").lines().count(), 1);
}

#[tokio::test]
async fn after_the_answer_arrived_at_a_service_that_knows_no_keys() {
    let (hub, service, place) = (Hub::start().await, Hub::start().await, Place::new());
    service.change(|world| (world.mood, world.keyless) = (Mood::Mute, true));
    // The message comes through the hub, and its answer goes to another service.
    hub.put(
        "channel",
        json!({"channel": {"id": "c1"}, "message": {"id": "m1", "sender": "alice", "content": "hello"},
            "callback": format!("{}/channels/c1/inbox/tok_1", service.url)}),
    );
    let agent = Agent::start(place.script(&hub, COUNT));
    service.until("an answer", |world| !messages_of(&world.seen).is_empty()).await;
    agent.kill().await;
    service.change(|world| world.mood = Mood::Good);
    let agent = Agent::start(place.script(&hub, COUNT));
    assert_eq!(messages_of(&service.idle(1).await), ["answer 1"]);
    agent.stop().await;
    assert_eq!(place.read("runs").lines().count(), 1);
}

#[tokio::test]
async fn with_a_journal_that_was_lost_the_key_still_tells() {
    let (hub, place) = (Hub::start().await, Place::new());
    hub.mention("evt_1", "@echo hello");
    let agent = Agent::start(place.script(&hub, COUNT));
    hub.idle(1).await;
    agent.stop().await;
    std::fs::remove_file(place.path("state/echo.journal")).unwrap();
    // The hub delivers the message again, and the program gives another answer.
    let agent = Agent::start(place.script(&hub, COUNT));
    let seen = hub.idle(2).await;
    assert_eq!(messages_of(&seen), ["answer 1"], "a conflict under the key counts as answered");
    assert!(!kinds(&seen).contains(&"error"));
    agent.stop().await;
    assert_eq!(place.read("runs").lines().count(), 2);
}

fn sorted(mut answers: Vec<&str>) -> Vec<String> {
    answers.sort_unstable();
    answers.into_iter().map(str::to_owned).collect()
}

#[tokio::test]
async fn many_kills_in_a_row() {
    let (hub, place) = (Hub::start().await, Place::new());
    // The messages are not in a thread, so they are answered side by side.
    let mut expected: Vec<_> = (0..12).map(|n| format!("re evt_{n}")).collect();
    expected.sort_unstable();
    for n in 0..12 {
        hub.mention(&format!("evt_{n}"), "@echo hello");
    }
    for round in 0..6 {
        let agent = Agent::start(place.script(&hub, "sleep 0.02; echo re $CHORUS_MESSAGE_ID"));
        // A key that was issued but not stored yet is lost for good. This test does not cover that.
        hub.until("an inbox", |world| !world.resumed.is_empty()).await;
        tokio::time::sleep(Duration::from_millis(60 + 35 * round)).await;
        agent.kill().await;
    }
    let agent = Agent::start(place.script(&hub, "echo re $CHORUS_MESSAGE_ID"));
    let world = hub.until("all answers", |world| messages_of(&world.seen).len() >= 12).await;
    assert_eq!(sorted(messages_of(&world.seen)), expected);
    agent.stop().await;
    assert_eq!(sorted(messages_of(&hub.world().seen)), expected);
}
