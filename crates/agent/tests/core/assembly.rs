//! Messages typed in pieces are one turn, and conversations are processed in parallel.

use crate::world::{World, environment, profile, typed};
use chorus_agent::harness::{
    Command, Core, End, Event, Known, Ledger, Outcome, Post, Posted, Profile, Record, Taken, To, Turn,
};
use chorus_attention::turn::{LONGEST_MS, QUIET_MS, Source};
use chorus_protocol::words::Reason;
use serde_json::json;

pub(crate) fn world(at_once: usize) -> World {
    World::of(1, Profile { at_once, ..profile() })
}

impl World {
    /// Delivers a message now.
    pub(crate) fn say(&mut self, turn: Turn) {
        self.inbox.push(turn);
        assert!(self.hand_over());
    }

    /// Returns the running turns, each as the names of its merged messages.
    pub(crate) fn runs_now(&self) -> Vec<Vec<&str>> {
        let pieces = |run: &'_ chorus_agent::harness::Run| -> Vec<_> {
            let turns = run.earlier.iter().chain([&run.turn]);
            // The names are borrowed from the inbox below.
            turns.map(|turn| turn.message_id.clone()).collect()
        };
        let all: Vec<Vec<String>> = self.running.values().map(pieces).collect();
        let known =
            |name: &String| self.inbox.iter().map(|turn| turn.message_id.as_str()).find(|one| one == name);
        all.iter().map(|names| names.iter().filter_map(known).collect()).collect()
    }

    /// Returns the events that the hub was told are superseded.
    fn superseded(&self) -> Vec<&str> {
        let told = self.log.iter().filter_map(|command| match command {
            Command::Post(Post { to: To::Notice { method, params }, .. }) => Some((method.as_str(), params)),
            _ => None,
        });
        let told = told.map(|(method, params)| {
            assert_eq!((method, &params["disposition"]), ("notifications/disposition", &json!("superseded")));
            params["eventId"].as_str().unwrap()
        });
        told.collect()
    }

    /// Lets every request arrive.
    pub(crate) fn arrive(&mut self) {
        while !self.flying.is_empty() {
            self.end_post(true, None);
        }
    }
}

#[test]
fn pieces_are_one_turn_and_get_one_answer() {
    let mut world = world(1);
    for (n, name) in ["a", "b", "c"].into_iter().enumerate() {
        world.say(typed(name, "ch_1", "anna"));
        world.pass(2_000);
        assert!(world.running.is_empty(), "{n}: she goes on");
    }
    assert_eq!(world.core.wake_at_ms(), Some(4_000 + QUIET_MS));
    world.pass(1_000);
    world.arrive();
    assert_eq!(world.runs_now(), [["a", "b", "c"]]);
    world.finish();
    assert_eq!(world.answers.keys().collect::<Vec<_>>(), ["c"], "one answer, to the last");
    let done = Record::Done {
        id: "chat c".into(),
        end: End::Answered,
        cursor: Some("3".into()),
        merged: vec!["chat a".into(), "chat b".into()],
    };
    assert!(world.log.contains(&Command::Write(done)), "{:#?}", world.log);
    // The hub must not wait for an answer to each.
    assert_eq!(world.superseded(), ["a", "b"]);
}

#[test]
fn typing_keeps_it_waiting_but_no_longer_than_thirty_seconds() {
    let mut world = world(1);
    world.say(typed("a", "ch_1", "anna"));
    for _ in 0..14 {
        world.pass(2_000);
        assert!(world.running.is_empty() && world.flying.is_empty());
        let typing = Source { author: "anna".into(), conversation: "ch_1 ".into() };
        world.tell(Event::Typing(typing));
    }
    world.pass(2_000);
    assert_eq!(world.now_ms, LONGEST_MS);
    world.arrive();
    assert_eq!(world.runs_now(), [["a"]]);
}

#[test]
fn a_piece_that_comes_while_the_model_thinks_is_merged() {
    let mut world = world(1);
    world.say(typed("a", "ch_1", "anna"));
    world.pass(QUIET_MS);
    world.arrive();
    assert_eq!(world.runs_now(), [["a"]]);
    world.say(typed("b", "ch_1", "anna"));
    assert!(world.running.is_empty(), "it is broken off");
    world.pass(QUIET_MS);
    world.arrive();
    assert_eq!(world.runs_now(), [["a", "b"]]);
    world.finish();
    assert_eq!(world.answers.keys().collect::<Vec<_>>(), ["b"]);
}

#[test]
fn nothing_is_broken_off_once_something_was_done_or_sent() {
    let begun = || {
        let mut world = world(1);
        world.say(typed("a", "ch_1", "anna"));
        world.pass(QUIET_MS);
        world.arrive();
        world
    };
    let mut acted = begun();
    acted.ask(|task| Event::Acts { task, tool: "hammer".into() });
    acted.say(typed("b", "ch_1", "anna"));
    assert_eq!(acted.runs_now(), [["a"]]);
    let mut sent = begun();
    sent.end_turn(2);
    sent.say(typed("b", "ch_1", "anna"));
    assert_eq!(sent.flying.len(), 1);
    let mut late = begun();
    late.now_ms = LONGEST_MS;
    late.say(typed("b", "ch_1", "anna"));
    assert_eq!(late.runs_now(), [["a"]], "nobody keeps a model from ever answering");
    for mut world in [acted, sent, late] {
        world.finish();
        assert_eq!(world.answers.keys().collect::<Vec<_>>(), ["a", "b"]);
    }
}

#[test]
fn after_a_crash_what_was_merged_is_not_answered_again() {
    let mut world = world(1);
    world.say(typed("a", "ch_1", "anna"));
    world.say(typed("b", "ch_1", "anna"));
    world.pass(QUIET_MS);
    world.arrive();
    world.end_turn(2);
    // The answer is in the journal, and may have been sent.
    world.kill();
    world.finish();
    assert_eq!(world.answers.keys().collect::<Vec<_>>(), ["b"]);
    assert_eq!(world.runs, 1);
    // The same after a tool was called.
    let mut world = self::world(1);
    world.say(typed("a", "ch_1", "anna"));
    world.say(typed("b", "ch_1", "anna"));
    world.pass(QUIET_MS);
    world.arrive();
    world.ask(|task| Event::Acts { task, tool: "hammer".into() });
    world.kill();
    world.finish();
    assert_eq!((world.answers.len(), world.runs), (0, 1));
}

#[test]
fn edits_and_deletions_before_the_answer() {
    let edit = |name: &str, of: &str| {
        let mut turn = typed(name, "ch_1", "anna");
        turn.supersedes = Some(of.into());
        turn
    };
    // While it waits, and while the model runs.
    for thinks in [false, true] {
        let mut world = world(1);
        world.say(typed("a", "ch_1", "anna"));
        world.say(typed("b", "ch_1", "anna"));
        if thinks {
            world.pass(QUIET_MS);
            world.arrive();
        }
        world.say(edit("a2", "a"));
        assert!(world.running.is_empty());
        world.pass(QUIET_MS);
        world.arrive();
        assert_eq!(world.runs_now(), [["a2", "b"]], "{thinks}");
        world.tell(Event::Withdrawn { message: "b".into() });
        world.pass(QUIET_MS);
        world.arrive();
        assert_eq!(world.runs_now(), [["a2"]], "{thinks}");
        world.tell(Event::Withdrawn { message: "a2".into() });
        world.pass(QUIET_MS);
        assert!(world.running.is_empty() && world.answers.is_empty());
        assert_eq!(world.disk.cursor(), Some("3"), "all of it was dealt with");
    }
    // After the answer an edit is a message like any other.
    let mut world = world(1);
    world.say(typed("a", "ch_1", "anna"));
    world.finish();
    world.say(edit("a2", "a"));
    world.finish();
    assert_eq!(world.answers.keys().collect::<Vec<_>>(), ["a", "a2"]);
}

fn changed(name: &str, of: &str) -> Turn {
    Turn { supersedes: Some(of.into()), ..typed(name, "ch_1", "anna") }
}

/// The hub names the original message in every edit. A model may run for a long time.
#[test]
fn of_several_changes_the_last_is_answered() {
    let mut world = world(1);
    world.say(typed("a", "ch_1", "anna"));
    world.pass(QUIET_MS);
    world.arrive();
    for name in ["a2", "a3"] {
        world.pass(2 * LONGEST_MS);
        world.say(changed(name, "a"));
        assert!(world.running.is_empty(), "what was said before is not answered any more");
        world.pass(QUIET_MS);
        world.arrive();
        assert_eq!(world.runs_now(), [[name]]);
    }
    world.finish();
    assert_eq!(world.answers.keys().collect::<Vec<_>>(), ["a3"]);
    // A withdrawal names the original message, too.
    world.say(typed("b", "ch_1", "anna"));
    world.say(changed("b2", "b"));
    world.pass(QUIET_MS);
    world.arrive();
    world.tell(Event::Withdrawn { message: "b".into() });
    world.pass(QUIET_MS);
    assert!(world.running.is_empty());
}

/// A delivery as a C2A host sends it.
fn delivered(name: &str, supersedes: Option<&str>, mode: &str) -> Taken {
    let mut params = json!({"eventId": name, "conversation": {"id": "ch_1", "kind": "channel"},
        "author": {"kind": "human", "displayName": "anna"}, "target": {"mentions": [], "directedness": "to_me"},
        "attention": {"policy": "must_respond", "reason": "direct_mention"},
        "injection": {"mode": mode}, "reliability": {"attempt": 1, "idempotencyKey": name}});
    match mode {
        "notify" => {
            params["knock"] = json!({"from": "human:anna", "where": "channel:ch_1", "directedness": "to_me",
                "policy": "must_respond", "priority": "normal", "topic": "a question", "pullWith": "chat.read_thread"});
        }
        _ => params["content"] = json!([{"type": "text", "text": format!("text of {name}")}]),
    }
    if let Some(before) = supersedes {
        params["supersedes"] = json!(before);
    }
    Taken::delivery(params)
}

/// A harness that dies after it accepted an edit knows from its journal that the earlier version is not
/// answered.
#[test]
fn after_a_crash_one_version_is_answered() {
    let mut disk = Ledger::default();
    for taken in [
        delivered("a", None, "buffered"),
        delivered("a2", Some("a"), "buffered"),
        delivered("a3", Some("a"), "buffered"),
    ] {
        disk.apply(Record::Took(taken));
    }
    assert_eq!([disk.known("chat a"), disk.known("chat a2")], [Known::Done, Known::Done]);
    let mut world = world(4);
    (world.core, world.disk) = (Core::new(profile(), disk.clone(), environment(1)), disk);
    world.tell(Event::Time);
    world.arrive();
    let running: Vec<_> = world.running.values().map(|run| run.turn.message_id.as_str()).collect();
    assert_eq!(running, ["a3"]);
    // The host repeats an earlier version: it is accepted and nothing else happens.
    world.tell(Event::Offered(delivered("a", None, "buffered")));
    assert!(world.log.contains(&Command::Accept));
    assert_eq!(world.core.ledger().known("chat a"), Known::Done);
    // An answer that may be in flight is still completed.
    let mut disk = Ledger::default();
    disk.apply(Record::Took(delivered("b", None, "buffered")));
    disk.apply(Record::Intent {
        id: "chat b".into(),
        text: "yes".into(),
        as_envelope: false,
        merged: vec![],
    });
    disk.apply(Record::Took(delivered("b2", Some("b"), "buffered")));
    assert!(matches!(disk.known("chat b"), Known::Intended { .. }));
}

/// A withdrawal without a notification is noticed when the turn is to run. The remaining messages are
/// answered; if none remains, nothing is sent.
#[test]
fn what_is_found_to_be_taken_back_is_left_out() {
    let mut world = world(1);
    for name in ["a", "b", "c"] {
        world.say(typed(name, "ch_1", "anna"));
    }
    world.pass(QUIET_MS);
    world.arrive();
    let found = |world: &mut World, names: &[&str]| {
        let (&task, messages) = (world.running.keys().next().unwrap(), names.iter().map(|&name| name.into()));
        let outcome = Outcome::Withdrawn { messages: messages.collect() };
        world.running.clear();
        world.tell(Event::Ended { task, outcome });
    };
    found(&mut world, &["a", "c"]);
    assert_eq!(world.runs_now(), [["b"]], "at once");
    assert_eq!(["chat a", "chat c"].map(|id| world.disk.known(id)), [Known::Done, Known::Done]);
    world.finish();
    assert_eq!(world.answers.keys().collect::<Vec<_>>(), ["b"]);
    assert_eq!(world.disk.cursor(), Some("3"));
    // No message remains, and no failure is reported.
    world.say(typed("d", "ch_1", "anna"));
    world.pass(QUIET_MS);
    world.arrive();
    found(&mut world, &["d"]);
    let after = world.log.len();
    world.finish();
    assert_eq!((world.answers.len(), world.disk.cursor()), (1, Some("4")));
    let told = world.log[after..].iter().filter(|one| matches!(one, Command::Post(_))).count();
    assert_eq!((told, world.runs), (0, 3), "{:#?}", &world.log[after..]);
}

/// A text received with a claim waits for its author to pause like any typed message. Its edit replaces it and
/// is claimed.
#[test]
fn what_was_claimed_waits_for_its_author_to_pause() {
    let mut world = world(1);
    let give = |world: &mut World, name: &str| {
        let [post] = &world.flying[..] else { panic!("one claim: {:?}", world.flying) };
        assert!(matches!(&post.to, To::Tool { arguments, .. } if arguments["eventId"] == name), "{post:?}");
        let number = post.number;
        world.flying.clear();
        let event = json!({"eventId": name, "conversation": {"id": "ch_1", "kind": "channel"},
            "author": {"kind": "human", "displayName": "anna"}, "target": {"mentions": [], "directedness": "to_my_role"},
            "content": [{"type": "text", "text": format!("text of {name}")}],
            "attention": {"policy": "may_respond", "reason": "role_mention"}});
        let claimed = json!({"eventId": name, "state": "held", "holder": "agent:echo-2", "event": event});
        let posted = Posted::Given(Box::new(serde_json::from_value(claimed).unwrap()));
        world.tell(Event::Posted { number, posted });
    };
    world.tell(Event::Offered(delivered("a", None, "notify")));
    give(&mut world, "a");
    world.pass(1_000);
    // The knock comes again; the text received before is kept.
    world.tell(Event::Offered(delivered("a", None, "notify")));
    assert!(world.running.is_empty() && world.flying.is_empty());
    world.tell(Event::Offered(delivered("a2", Some("a"), "notify")));
    give(&mut world, "a2");
    world.pass(QUIET_MS - 1);
    assert!(world.running.is_empty() && world.flying.is_empty());
    world.pass(1);
    world.arrive();
    let prompts: Vec<_> = world.running.values().map(|run| run.prompt("echo", "en")).collect();
    assert!(prompts.len() == 1 && prompts[0].contains("\ntext of a2\n"), "{prompts:?}");
    assert!(prompts[0].contains("\nyou: echo-2\n"), "what it is called there: {prompts:?}");
    assert_eq!(world.disk.known("chat a"), Known::Done);
}

/// A knock that is being claimed is replaced by its edit.
#[test]
fn a_change_of_what_is_being_claimed_takes_its_place() {
    let mut world = world(1);
    world.tell(Event::Offered(delivered("a", None, "notify")));
    assert_eq!(world.flying.len(), 1, "it is claimed");
    world.tell(Event::Offered(delivered("a2", Some("a"), "notify")));
    let claimed = |name: &str| {
        let is_claim =
            |post: &&Post| matches!(&post.to, To::Tool { arguments, .. } if arguments["eventId"] == name);
        world.flying.iter().filter(is_claim).count()
    };
    assert_eq!((claimed("a"), claimed("a2")), (0, 1));
}

#[test]
fn conversations_do_not_wait_for_each_other_and_each_is_in_order() {
    let mut world = world(2);
    for (name, channel, author) in
        [("a", "ch_1", "anna"), ("b", "ch_1", "bob"), ("c", "ch_2", "anna"), ("d", "ch_3", "anna")]
    {
        world.say(typed(name, channel, author));
    }
    world.pass(QUIET_MS);
    world.arrive();
    assert_eq!(world.runs_now(), [["a"], ["c"]], "two at once, one of each");
    let second = *world.running.keys().nth(1).unwrap();
    world.end_task(second, 2);
    world.arrive();
    assert_eq!(world.runs_now(), [["a"], ["d"]]);
    // An answer out of order is recorded, but the cursor moves only past messages that are all processed.
    assert_eq!(world.disk.cursor(), None);
    world.kill();
    world.finish();
    assert_eq!(world.disk.cursor(), Some("4"));
    assert_eq!(world.answers.values().map(Vec::len).sum::<usize>(), 4);
}

#[test]
fn a_slow_request_of_one_conversation_holds_up_no_other() {
    let mut world = world(4);
    world.say(typed("a", "ch_1", "anna"));
    world.pass(QUIET_MS);
    world.arrive();
    world.end_turn(2);
    let answer = world.flying[0].number;
    world.say(typed("b", "ch_2", "anna"));
    world.pass(QUIET_MS);
    let processing = world.flying[1].number;
    world.flying.remove(1);
    world.tell(Event::Posted { number: processing, posted: Posted::Arrived });
    assert_eq!(world.runs_now(), [["b"]]);
    assert_eq!(world.flying[0].number, answer, "the first still tries");
}

#[test]
fn a_cancellation_ends_what_runs_in_its_conversation() {
    let mut world = world(4);
    world.say(typed("a", "ch_1", "anna"));
    world.say(typed("b", "ch_2", "anna"));
    world.pass(QUIET_MS);
    world.arrive();
    world.say(stop("c"));
    world.arrive();
    assert_eq!(world.runs_now(), [["b"], ["c"]]);
    assert!(world.done.contains("chat a"));
    assert_eq!(world.superseded(), ["a"], "nobody waits for an answer to it");
}

/// A stop by the author of the work, as the hub sends it: there is nothing to answer.
pub(crate) fn stop(name: &str) -> Turn {
    let mut stop = typed(name, "ch_1", "anna");
    (stop.reason, stop.mode) = (Some(Reason::Cancellation), Some(chorus_protocol::words::Mode::Immediate));
    stop
}

/// A cancellation ends a merged turn that is about to run.
#[test]
fn a_cancellation_ends_what_is_about_to_run() {
    let mut world = world(4);
    world.say(typed("a", "ch_1", "anna"));
    world.say(typed("b", "ch_1", "anna"));
    world.pass(QUIET_MS);
    assert!(world.running.is_empty() && world.flying.len() == 1, "it is only said that it begins");
    world.say(stop("c"));
    world.arrive();
    assert_eq!((world.runs_now(), world.runs), (vec![vec!["c"]], 1));
    assert_eq!(world.superseded(), ["a", "b"]);
    assert!(world.done.contains("chat a") && world.done.contains("chat b"));
}

/// At every point of a crash, a stopped message is either reported as superseded or processed again. One that waits when it
/// is stopped is not reported, because the hub has ended it already.
#[test]
fn a_cancellation_that_a_crash_meets_is_told_or_the_work_is_done() {
    for killed_after in 0..12 {
        let mut world = world(4);
        world.say(typed("a", "ch_1", "anna"));
        world.pass(QUIET_MS);
        world.arrive();
        world.killed_after = Some(killed_after);
        world.say(stop("b"));
        world.finish();
        let ended = |command: &Command| matches!(command, Command::Write(Record::Done { id, end: End::Superseded, .. }) if id == "chat a");
        let told = world.superseded().contains(&"a") || world.log.iter().any(ended);
        assert!(told || world.answers.contains_key("a"), "{killed_after}: {:#?}", world.log);
        assert!(world.done.contains("chat a") && world.answers.contains_key("b"), "{killed_after}");
    }
}
