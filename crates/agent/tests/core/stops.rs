//! A stop ends the work that it is about, and no other.

use crate::assembly::{stop, world};
use crate::world::typed;
use chorus_agent::harness::{Event, Turn};
use chorus_attention::turn::QUIET_MS;

/// Returns a message in a thread.
fn in_thread(mut turn: Turn, thread: &str) -> Turn {
    turn.place.as_mut().unwrap().thread = Some(thread.into());
    turn
}

/// A stop ends only the work that it is about.
#[test]
fn a_stop_ends_what_it_is_about() {
    let by = |author: &str| Turn { sender: author.into(), ..stop("s") };
    let answering = |message: &str| Turn { answers: vec![message.into()], ..by("carl") };
    for (what, stop, expected) in [
        ("its author's, outside of threads", by("anna"), vec!["a"]),
        ("not another's", by("carl"), vec![]),
        ("in the thread, what its author asked", in_thread(by("dora"), "root"), vec!["b"]),
        ("in the thread, not what another asked", in_thread(by("carl"), "root"), vec![]),
        ("the message that began the thread", in_thread(by("anna"), "a"), vec!["a"]),
        ("not in another thread", in_thread(by("anna"), "other"), vec![]),
        ("the message that it names", answering("b"), vec!["b"]),
    ] {
        let mut world = world(4);
        world.say(typed("a", "ch_1", "anna"));
        world.pass(QUIET_MS);
        world.arrive();
        world.say(in_thread(typed("b", "ch_1", "dora"), "root"));
        world.pass(QUIET_MS);
        world.arrive();
        world.say(stop);
        world.arrive();
        let done: Vec<_> =
            ["a", "b"].into_iter().filter(|one| world.done.contains(&format!("chat {one}"))).collect();
        assert_eq!(done, expected, "{what}");
        let running = world.runs_now().concat();
        assert_eq!(running.contains(&"a"), !expected.contains(&"a"), "{what}: {running:?}");
    }
}

/// The hub stops the work on a message, also after a tool was called and while it waits.
#[test]
fn the_hub_stops_work() {
    let mut world = world(4);
    world.say(typed("a", "ch_1", "anna"));
    world.pass(QUIET_MS);
    world.arrive();
    world.ask(|task| Event::Acts { task, tool: "deploy".into() });
    world.say(typed("b", "ch_1", "bob"));
    world.pass(QUIET_MS);
    for message in ["a", "b"] {
        world.tell(Event::Stopped { message: message.into(), why: Some("anna stopped it".into()) });
        world.arrive();
    }
    assert!(world.running.is_empty());
    assert!(world.done.contains("chat a") && world.done.contains("chat b"));
    assert_eq!(world.answers.len(), 0);
}
