//! An accepted digest is shown with one turn, also after a crash at any point.

use crate::world::{World, typed};
use chorus_agent::harness::{Command, Event, Taken};
use serde_json::json;

const TOLD: &str = "3 messages in this channel";

impl World {
    /// Delivers a digest twice, as a host does until it is accepted.
    fn bring_digest(&mut self) {
        let digest = json!({"eventId": "evt_d", "conversation": {"kind": "system"}, "target": {"directedness": "ambient"},
            "content": [{"type": "text", "text": TOLD}], "injection": {"mode": "digest"},
            "attention": {"policy": "must_not_respond", "reason": "digest"}, "reliability": {"idempotencyKey": "evt_d:echo"}});
        for _ in 0..2 {
            self.tell(Event::Offered(Taken::delivery(digest.clone())));
        }
    }

    fn ask_for(&mut self, name: &str) {
        self.inbox.push(typed(name, "ch_1", "anna"));
    }

    /// Returns the messages whose turns showed the digest, in order.
    fn shown_with(&self) -> Vec<&str> {
        let runs = self.log.iter().filter_map(|command| match command {
            Command::Run(run) if run.prompt("echo", "en").contains(TOLD) => {
                Some(run.turn.message_id.as_str())
            }
            _ => None,
        });
        runs.collect()
    }
}

#[test]
fn it_is_shown_once_before_what_is_asked_next() {
    let mut world = World::new(1);
    world.bring_digest();
    world.finish();
    assert_eq!(world.runs, 0, "it is worth no turn");
    for name in ["a", "b"] {
        world.ask_for(name);
        world.finish();
    }
    assert_eq!((world.shown_with(), world.runs), (vec!["a"], 2));
}

#[test]
fn a_restart_forgets_none() {
    let mut world = World::new(1);
    world.bring_digest();
    world.finish();
    world.kill();
    world.ask_for("a");
    world.finish();
    world.kill();
    world.ask_for("b");
    world.finish();
    assert_eq!(world.shown_with(), ["a"]);
}

/// For a crash at any point, the answer was produced with the digest shown, or the digest was shown before.
#[test]
fn it_is_never_lost_and_hardly_ever_shown_twice() {
    for killed_after in 0..40 {
        let mut world = World::new(killed_after as u64);
        world.killed_after = Some(killed_after);
        world.bring_digest();
        // The host repeats the digest as long as it was not accepted.
        world.bring_digest();
        world.ask_for("a");
        while world.killed_after.is_some() && world.answers.is_empty() {
            if !world.flying.is_empty() {
                world.end_post(true, None);
            } else if !world.running.is_empty() {
                world.end_turn(2);
            } else if !world.hand_over() {
                world.pass(60_000);
            }
        }
        world.finish();
        world.ask_for("b");
        world.finish();
        assert!(world.core.ledger() == &world.disk);
        let shown = world.shown_with();
        assert!(shown.contains(&"a"), "{killed_after}: {shown:?}");
        assert_eq!(world.answers.keys().collect::<Vec<_>>(), ["a", "b"], "{killed_after}");
    }
}

#[test]
fn a_turn_that_fails_leaves_it_for_the_next() {
    let mut world = World::new(1);
    world.bring_digest();
    world.ask_for("a");
    while world.running.is_empty() {
        if !world.flying.is_empty() {
            world.end_post(true, None);
        } else if !world.hand_over() {
            world.pass(60_000);
        }
    }
    world.end_turn(1);
    world.finish();
    world.ask_for("b");
    world.finish();
    assert_eq!(world.shown_with(), ["a", "b"]);
}
