//! Single guarantees of the core, each with one sequence of events.

use crate::world::{Kind, World, turn};
use chorus_agent::harness::{Activity, Command, End, Event, Outcome, Posted, Record, To, Turn};
use chorus_protocol::channel::CallbackEvent;
use chorus_protocol::words::Policy;

/// Creates a world in which this message has arrived.
fn world(kind: Kind) -> World {
    let mut world = World::new(1);
    world.inbox.push(turn(kind, 1));
    world.hand_over();
    world
}

/// Returns the commands in a few words each.
fn told(world: &World) -> Vec<String> {
    let say = |event: &CallbackEvent| match event {
        CallbackEvent::Lifecycle { status } => format!("{status:?}").to_lowercase(),
        event => event.word().to_owned(),
    };
    let words = world.log.iter().map(|command| match command {
        Command::Write(Record::Cursor(cursor)) => format!("cursor {cursor}"),
        Command::Write(Record::Intent { .. }) => "intent".into(),
        Command::Write(Record::Done { end, .. }) => format!("done {end:?}").to_lowercase(),
        Command::Write(Record::Took(_)) => "took".into(),
        Command::Write(Record::Acted { tool, .. }) => format!("acted {tool}"),
        Command::Post(post) => match &post.to {
            To::Callback { event, .. } => format!("post {}", say(event)),
            To::Piece { .. } => "piece".into(),
            To::Stream { .. } => "stream".into(),
            To::StreamError { code, .. } => format!("stream error {code}"),
            To::Peer { .. } => "peer".into(),
            To::Hub { .. } => "hub".into(),
            To::Tool { tool, .. } => format!("tool {tool}"),
            To::Notice { method, .. } => format!("notice {method}"),
        },
        Command::Tell(activity) => {
            let activity = serde_json::to_value(activity).unwrap();
            format!("tell {}", activity["activity"].as_str().unwrap())
        }
        Command::Run(_) => "run".into(),
        Command::Resume { .. } => "resume".into(),
        Command::CancelTurn { .. } => "cancelturn".into(),
        Command::CancelPost { .. } => "cancelpost".into(),
        Command::Refuse { .. } => "refuse".into(),
        other => format!("{other:?}").to_lowercase(),
    });
    words.collect()
}

fn busy(task: u64) -> Event {
    Event::Shows { task, event: CallbackEvent::Status { status: "busy".into() } }
}

fn failed(retry_after_ms: Option<u64>, perhaps_arrived: bool) -> Posted {
    Posted::Failed { why: "no".into(), retry_after_ms, perhaps_arrived }
}

/// Reports the result of the request in flight.
fn posted(world: &mut World, posted: Posted) {
    let number = world.flying.remove(0).number;
    world.tell(Event::Posted { number, posted });
}

#[test]
fn a_message_is_taken_answered_and_done() {
    let mut chat = world(Kind::Chat);
    chat.finish();
    let expected =
        "tell took, post processing, run, intent, post message, done answered, tell answered, post idle";
    assert_eq!(told(&chat).join(", "), expected);
    let mut streamed = world(Kind::Streamed);
    streamed.finish();
    assert_eq!(told(&streamed).join(", "), "tell took, run, intent, stream, done answered, tell answered");
}

#[test]
fn silence_and_failures_are_told_to_whoever_listens() {
    for (kind, outcome, expected) in [
        (Kind::Chat, 0, "done silent, tell silent, post idle"),
        (Kind::Streamed, 0, "stream error silent, done silent, tell silent"),
        (Kind::Chat, 1, "post error, done failed, tell failed, post idle"),
        (Kind::Streamed, 1, "stream error failed, done failed, tell failed"),
        (Kind::Envelope, 1, "done failed, tell failed"),
    ] {
        let mut world = world(kind);
        world.end_post(true, None);
        world.end_turn(outcome);
        world.finish();
        let told = told(&world);
        let after = told.iter().position(|one| one == "run").unwrap() + 1;
        assert_eq!(told[after..].join(", "), expected, "{kind:?} {outcome}");
    }
}

#[test]
fn a_hub_that_is_away_is_waited_for_and_others_for_minutes() {
    for (kind, patience_ms) in [(Kind::Chat, 86_400_000), (Kind::Foreign, 300_000)] {
        let mut world = world(kind);
        world.end_post(true, None);
        world.end_turn(2);
        let (begun_ms, mut tries) = (world.now_ms, 0);
        while told(&world).last().unwrap() == "post message" {
            world.log.clear();
            posted(&mut world, failed(Some(0), false));
            tries += 1;
            let at_ms = world.core.wake_at_ms().unwrap();
            assert!(at_ms - world.now_ms <= 30_000, "no pause is longer");
            let pass = at_ms - world.now_ms;
            world.pass(pass);
        }
        assert_eq!(world.now_ms - begun_ms, patience_ms, "{kind:?}");
        assert!(tries > 10, "{tries}");
    }
}

#[test]
fn a_sender_that_takes_nothing_does_not_hold_up_the_agent() {
    let mut world = world(Kind::Streamed);
    world.end_turn(2);
    assert!(matches!(world.flying[0].to, To::Stream { .. }));
    world.pass(300_000);
    // The answer may have arrived, so it is not sent again.
    let (id, cursor) = (turn(Kind::Streamed, 1).id, Some("1".into()));
    let done = Record::Done { id, end: End::Answered, cursor, merged: vec![] };
    assert!(told(&world).contains(&"cancelpost".to_owned()));
    world.end_post(true, None);
    assert!(world.log.contains(&Command::Write(done)), "{:#?}", told(&world));
}

#[test]
fn a_sender_that_does_not_listen_gets_an_envelope() {
    for refused in [true, false] {
        let mut world = world(Kind::Streamed);
        world.end_turn(2);
        posted(&mut world, Posted::Gone { refused });
        assert!(matches!(world.flying[0].to, To::Hub { .. }));
        // After a crash the stream may have carried the answer: one that refuses has, and one that is
        // unreachable is tried again.
        let mut world = self::world(Kind::Streamed);
        world.end_turn(2);
        world.kill();
        world.hand_over();
        posted(&mut world, Posted::Gone { refused });
        assert_eq!(world.done.len(), usize::from(refused));
        world.pass(1000);
        assert_eq!(world.flying.len(), usize::from(!refused));
    }
}

#[test]
fn reports_are_tried_twice_and_complained_about_once() {
    let mut world = world(Kind::Chat);
    for _ in 0..2 {
        posted(&mut world, failed(Some(0), false));
        world.pass(1000);
    }
    assert_eq!(told(&world)[1..], ["post processing", "post processing", "tell unseen", "run"]);
    world.ask(busy);
    posted(&mut world, failed(None, false));
    assert!(world.waits.is_empty(), "the turn goes on");
    world.finish();
    assert_eq!(told(&world).iter().filter(|one| *one == "tell unseen").count(), 1);
}

#[test]
fn what_a_turn_shows_when_it_ends_is_not_waited_for() {
    let mut world = world(Kind::Chat);
    world.end_post(true, None);
    world.ask(busy);
    world.end_turn(0);
    assert_eq!(told(&world)[3..], ["post status", "cancelpost", "done silent", "tell silent", "post idle"]);
}

#[test]
fn a_tool_that_may_have_changed_something_is_not_called_again() {
    let acted = || {
        let mut world = world(Kind::Chat);
        world.end_post(true, None);
        world.ask(|task| Event::Acts { task, tool: "hammer".into() });
        assert_eq!(told(&world)[3..], ["acted hammer", "resume"]);
        world
    };
    let why = |world: &World| {
        world.log.iter().find_map(|command| match command {
            Command::Tell(Activity::Failed { why, .. }) => Some(why.clone()),
            _ => None,
        })
    };
    let mut killed = acted();
    killed.kill();
    killed.finish();
    assert_eq!(why(&killed).unwrap(), "interrupted after calling hammer; it is not called again");
    let mut stopped = acted();
    stopped.tell(Event::Stop);
    stopped.end_post(true, None);
    assert_eq!(why(&stopped).unwrap(), "stopped after calling hammer; it is not called again");
}

#[test]
fn a_stop_puts_off_what_runs_and_gives_an_answer_a_moment() {
    let mut running = world(Kind::Chat);
    running.end_post(true, None);
    running.tell(Event::Stop);
    running.end_post(true, None);
    running.end_post(true, None);
    assert_eq!(told(&running)[3..], ["cancelturn", "post status", "tell put_off", "post idle", "end"]);

    let mut sending = world(Kind::Chat);
    sending.end_post(true, None);
    sending.end_turn(2);
    sending.tell(Event::Stop);
    assert_eq!(sending.core.wake_at_ms(), Some(5000));
    sending.pass(5000);
    // Idle is not reported, and the next start sends the same answer.
    assert_eq!(told(&sending)[4..], ["post message", "cancelpost", "end"]);
    sending.kill();
    sending.finish();
    assert_eq!(sending.answers["Chat1"], ["answer Chat1"]);
}

#[test]
fn the_queue_is_bounded_and_full_means_not_taken() {
    let mut world = world(Kind::Chat);
    for n in 0..512 {
        assert!(world.core.has_room(), "{n}");
        world.offer(n);
    }
    assert!(!world.core.has_room());
    world.offer(512);
    assert_eq!((world.accepted.len(), world.refused), (512, 1));
    world.inbox.push(turn(Kind::Chat, 2));
    assert!(!world.hand_over(), "the inbox is not read");
    world.finish();
    assert_eq!(world.answers.len(), 514);
}

#[test]
fn what_is_offered_twice_is_taken_once() {
    let mut world = World::new(1);
    world.offer(1);
    world.offer(1);
    world.finish();
    world.offer(1);
    world.finish();
    assert_eq!(told(&world).iter().filter(|one| *one == "took").count(), 1);
    assert_eq!(told(&world).iter().filter(|one| *one == "tell repeated").count(), 2);
    assert_eq!(world.answers["Foreign1"].len(), 1);
}

#[test]
fn what_failed_may_come_again_and_what_was_answered_may_not() {
    let mut world = world(Kind::Chat);
    world.end_post(true, None);
    world.end_turn(1);
    world.finish();
    world.inbox.extend([turn(Kind::Chat, 1), turn(Kind::Chat, 1)]);
    world.finish();
    assert_eq!((world.answers["Chat1"].len(), world.runs), (1, 2));
    assert_eq!(told(&world).last().unwrap(), "cursor 3");
}

/// The hub repeats a message that requires an answer. Then the program is asked again, too.
#[test]
fn silence_to_what_must_be_answered_is_not_the_end() {
    for (policy, runs) in [(Policy::MustRespond, 2), (Policy::MayRespond, 1)] {
        let mut world = World::new(1);
        let asked = Turn { policy: Some(policy), ..turn(Kind::Chat, 1) };
        for _ in 0..2 {
            world.tell(Event::Arrived { turn: Box::new(asked.clone()), cursor: None });
            for _ in 0..5 {
                world.end_post(true, None);
                world.end_turn(0);
            }
        }
        assert_eq!(world.runs, runs, "{policy:?}");
        assert!(world.answers.is_empty());
    }
}

#[test]
fn an_inbox_that_is_taken_over_is_dealt_with_to_its_end() {
    let mut world = world(Kind::Chat);
    world.inbox.push(turn(Kind::Chat, 2));
    world.hand_over();
    world.tell(Event::Nothing { cursor: "3".into() });
    world.tell(Event::Closed);
    while !world.ended {
        world.end_post(true, None);
        world.end_turn(2);
    }
    assert_eq!(told(&world)[told(&world).len() - 4..], ["cursor 3", "tell answered", "post idle", "end"]);
    assert_eq!(world.answers.len(), 2);
}

#[test]
fn two_agents_do_not_answer_each_other_for_ever() {
    let mut world = World::new(1);
    let mut deep = turn(Kind::Envelope, 1);
    if let chorus_agent::harness::Back::Envelope(back) = &mut deep.back {
        back.depth = 8;
    }
    world.tell(Event::Arrived { turn: Box::new(deep), cursor: None });
    assert_eq!(told(&world), ["tell took", "done silent", "tell silent"]);
    world.tell(Event::Ended { task: 1, outcome: Outcome::Silence });
    assert_eq!(world.log.len(), 3);
}
