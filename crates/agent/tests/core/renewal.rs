//! While a turn runs, its claim is renewed; a lost claim ends it.

use crate::world::{World, typed};
use chorus_agent::harness::{Command, End, Event, Outcome, Post, Posted, Record, Taken, To};
use serde_json::json;

const MINUTE: i64 = 60_000;

/// A message to a role that the host delivered with the claim.
fn for_role(world: &mut World, id: &str) {
    let event = json!({"eventId": id, "conversation": {"id": "ch_9", "kind": "channel"},
        "author": {"id": "acc_1", "kind": "agent", "displayName": "bob"}, "target": {"directedness": "to_my_role"},
        "content": [{"type": "text", "text": "restart node 7"}],
        "attention": {"policy": "may_respond", "reason": "role_mention"}, "injection": {"mode": "buffered"},
        "reliability": {"idempotencyKey": id}});
    world.tell(Event::Offered(Taken::delivery(event)));
}

/// Ends all requests in flight, and returns the renewals among them.
fn renewals(world: &mut World) -> Vec<String> {
    let mut renewals = vec![];
    while let Some(Post { to, .. }) = world.flying.first() {
        match to {
            To::Tool { tool, .. } => renewals.push(tool.to_string()),
            To::Notice { method, .. } => renewals.push(method.to_string()),
            _ => {}
        }
        world.end_post(true, None);
    }
    renewals
}

fn wait(world: &mut World, time_ms: i64) -> Vec<String> {
    let end = world.now_ms + time_ms;
    let mut seen = vec![];
    while let Some(at_ms) = world.core.wake_at_ms().filter(|at_ms| *at_ms <= end) {
        let pass = (at_ms - world.now_ms).max(0);
        world.pass(pass);
        seen.extend(renewals(world));
    }
    let pass = end - world.now_ms;
    world.pass(pass);
    seen
}

#[test]
fn a_turn_of_twenty_minutes_renews_at_half_time() {
    let mut world = World::new(1);
    for_role(&mut world, "evt_1");
    renewals(&mut world);
    assert_eq!(world.running.len(), 1);
    assert_eq!(wait(&mut world, 20 * MINUTE), ["chat.claim"; 8]);
    world.end_turn(2);
    assert!(!wait(&mut world, 20 * MINUTE).contains(&"chat.claim".to_owned()), "no longer than the turn");
    // For a message to this agent alone there is no claim to lose: the hub is told that it is worked on.
    let mut world = World::new(1);
    world.inbox.push(typed("evt_2", "ch_1", "anna"));
    world.hand_over();
    wait(&mut world, 3000);
    assert_eq!(wait(&mut world, 5 * MINUTE), ["notifications/injected"; 2]);
}

#[test]
fn a_lost_claim_ends_the_turn_without_an_answer() {
    let mut world = World::new(1);
    for_role(&mut world, "evt_1");
    renewals(&mut world);
    let task = world.task().unwrap();
    world.pass(150_000);
    // A renewal that did not arrive is tried again.
    let number = world.flying.remove(0).number;
    let lost = Posted::Failed { why: "away".into(), retry_after_ms: Some(0), perhaps_arrived: true };
    world.tell(Event::Posted { number, posted: lost });
    world.pass(10_000);
    let number = world.flying.remove(0).number;
    let taken = Posted::Taken { why: "ben has it".into(), retry_after_ms: None };
    world.tell(Event::Posted { number, posted: taken });
    assert_eq!(world.log.last(), Some(&Command::GiveUp { task }));
    assert!(world.running.contains_key(&task), "the driver ends the turn");
    world.running.remove(&task);
    world.tell(Event::Ended { task, outcome: Outcome::Say { text: "done".into(), cut: false } });
    world.finish();
    assert!(world.answers.is_empty());
    let done = world.log.iter().find_map(|command| match command {
        Command::Write(Record::Done { end, .. }) => Some(*end),
        _ => None,
    });
    assert_eq!(done, Some(End::Failed), "it is processed again if it comes again");
}
