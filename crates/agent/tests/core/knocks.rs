//! A knock that was not followed up is shown with the next turn.

use crate::world::{World, typed};
use chorus_agent::harness::{Command, Event, Post, Posted, Taken, To};
use serde_json::json;

impl World {
    /// Delivers a knock, as a host does.
    fn knock(&mut self, id: &str, reason: &str, topic: &str) {
        let knock = json!({"eventId": id, "conversation": {"id": "ch_9", "kind": "channel"},
            "author": {"id": "acc_1", "kind": "agent", "displayName": "bob"}, "target": {"directedness": "to_my_role"},
            "attention": {"policy": "may_respond", "reason": reason, "priority": "low"}, "injection": {"mode": "notify"},
            "knock": {"from": "agent:bob", "where": "channel:ch_9", "directedness": "to_my_role", "policy": "may_respond",
                "priority": "low", "topic": topic, "pullWith": "chat.read_thread"},
            "reliability": {"idempotencyKey": id}});
        self.tell(Event::Offered(Taken::delivery(knock)));
    }

    fn asked_about(&mut self, name: &str) -> String {
        self.inbox.push(typed(name, "ch_1", "anna"));
        self.finish();
        let run = self.log.iter().find_map(|command| match command {
            Command::Run(run) if run.turn.message_id == name => Some(run.prompt("echo", "en")),
            _ => None,
        });
        run.unwrap()
    }
}

#[test]
fn it_costs_no_turn_and_is_shown_once_also_after_a_restart() {
    let mut world = World::new(1);
    world.knock("evt_1", "thread_participation", "a question in ops");
    world.knock("evt_2", "inbound_reaction", "reaction declined to your message");
    world.finish();
    assert_eq!(world.runs, 0);
    world.kill();
    let prompt = world.asked_about("a");
    let line = |id: &str, topic: &str| {
        format!(
            "knock {id}: from agent:bob, where channel:ch_9, directedness to_my_role, policy may_respond, priority low, \
             topic {topic} (read it with chat.read_thread)\n"
        )
    };
    let both = [line("evt_1", "a question in ops"), line("evt_2", "reaction declined to your message")];
    assert!(prompt.starts_with("C2A KNOCKS\n----- knocks ") && prompt.contains(&both.concat()), "{prompt}");
    assert!(!world.asked_about("b").contains("C2A KNOCKS"));
}

#[test]
fn the_newest_of_too_many() {
    let mut world = World::new(1);
    for n in 0..25 {
        world.knock(&format!("evt_{n}"), "thread_participation", "words in ops");
        world.finish();
    }
    let prompt = world.asked_about("a");
    assert_eq!(prompt.matches("\nknock evt_").count(), 20, "{prompt}");
    assert!(prompt.contains("\nknock evt_5:") && prompt.contains("\nknock evt_24:"), "{prompt}");
}

/// A knock claimed by another agent is shown; one that was claimed in the end is processed and not shown.
#[test]
fn what_another_holds_is_shown_and_what_was_claimed_is_not() {
    let mut world = World::new(1);
    let mut claim = |held: bool| {
        world.knock("evt_1", "role_mention", "a question in ops");
        let Post { number, to } = world.flying.remove(0);
        assert!(matches!(to, To::Tool { .. }), "{to:?}");
        let posted = if held {
            let event = json!({"eventId": "evt_1", "conversation": {"id": "ch_9", "kind": "channel"},
                "author": {"id": "acc_1", "kind": "agent", "displayName": "bob"},
                "target": {"directedness": "to_my_role"}, "content": [{"type": "text", "text": "who knows?"}],
                "attention": {"policy": "may_respond", "reason": "role_mention"}});
            let claimed =
                json!({"eventId": "evt_1", "state": "held", "holder": "agent:echo", "event": event});
            Posted::Given(Box::new(serde_json::from_value(claimed).unwrap()))
        } else {
            Posted::Failed { why: "bob has it".into(), retry_after_ms: None, perhaps_arrived: false }
        };
        world.tell(Event::Posted { number, posted });
        world.finish();
    };
    claim(false);
    claim(true);
    let own =
        world.log.iter().any(|command| matches!(command, Command::Run(run) if run.turn.text == "who knows?"));
    assert!(own && !world.asked_about("a").contains("C2A KNOCKS"));
    let mut world = World::new(1);
    world.knock("evt_1", "role_mention", "a question in ops");
    let number = world.flying.remove(0).number;
    let posted = Posted::Failed { why: "bob has it".into(), retry_after_ms: None, perhaps_arrived: false };
    world.tell(Event::Posted { number, posted });
    world.finish();
    assert!(world.asked_about("a").contains("\nknock evt_1: "));
}
