//! Properties for any sequence of events: nothing is lost, nothing is answered twice, a thread has one
//! turn at a time, and the same seed gives the same commands.

use crate::world::{Kind, World, profile, turn};
use chorus_agent::harness::{Command, Event, Outcome, Posted, Profile};
use chorus_protocol::channel::CallbackEvent;
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Debug, Clone, Copy)]
enum Act {
    Say(Kind, usize),
    HandOver,
    Offer(usize),
    Show,
    CallTool,
    EndTurn(u8),
    /// Ends the request in flight: `true` if it arrives, then the reported result: a retry may succeed, and it
    /// may have arrived.
    EndPost(bool, Option<(bool, bool)>),
    Pass(i64),
    /// Withdraws a message.
    Withdraw(usize),
    /// Kills the core after this many more commands.
    Kill(usize),
    Stop,
    Noise(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let kind = prop_oneof![
        Just(Kind::Chat),
        Just(Kind::Foreign),
        Just(Kind::Streamed),
        Just(Kind::Envelope),
        Just(Kind::Typed),
        Just(Kind::Typed)
    ];
    let act = prop_oneof![
        3 => (kind, 0..6usize).prop_map(|(kind, n)| Act::Say(kind, n)),
        4 => Just(Act::HandOver),
        1 => (0..6usize).prop_map(Act::Offer),
        1 => Just(Act::Show),
        1 => Just(Act::CallTool),
        5 => (0..8u8).prop_map(Act::EndTurn),
        8 => Just(Act::EndPost(true, None)),
        3 => (any::<bool>(), any::<Option<(bool, bool)>>()).prop_map(|(arrives, told)| Act::EndPost(arrives, told)),
        3 => prop_oneof![Just(300), Just(5000), Just(60_000), Just(400_000), Just(100_000_000)].prop_map(Act::Pass),
        1 => (0..6usize).prop_map(Act::Kill),
        1 => (0..6usize).prop_map(Act::Withdraw),
        1 => Just(Act::Stop),
        1 => any::<u64>().prop_map(Act::Noise),
    ];
    vec(act, 0..150)
}

fn play(seed: u64, acts: &[Act]) -> World {
    let at_once = 1 + seed as usize % 4;
    let mut world = World::of(seed, Profile { at_once, ..profile() });
    for act in acts {
        match *act {
            Act::Say(kind, n) => world.inbox.push(turn(kind, n)),
            Act::HandOver => drop(world.hand_over()),
            Act::Offer(n) => world.offer(20 + n),
            Act::Show => world.ask(|task| {
                let event = CallbackEvent::Status { status: "busy".into() };
                Event::Shows { task, event }
            }),
            Act::CallTool => world.ask(|task| Event::Acts { task, tool: "hammer".into() }),
            Act::EndTurn(outcome) => world.end_turn(outcome),
            Act::EndPost(arrives, told) => world.end_post(arrives, told),
            Act::Pass(by_ms) => world.pass(by_ms),
            Act::Withdraw(n) => world.tell(Event::Withdrawn { message: format!("Typed{n}") }),
            Act::Kill(0) => world.kill(),
            Act::Kill(after) => world.killed_after = Some(after),
            Act::Stop => world.tell(Event::Stop),
            Act::Noise(number) => {
                world.tell(Event::Posted { number: number | 1 << 40, posted: Posted::Arrived });
                let task = number | 1 << 40;
                let outcome = Outcome::Say { text: "stale".into(), cut: false };
                world.tell(Event::Ended { task, outcome });
                world.tell(Event::Acts { task, tool: "stale".into() });
            }
        }
        if world.ended {
            world.kill();
        }
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn nothing_is_lost_and_nothing_is_answered_twice(seed: u64, acts in acts()) {
        let mut world = play(seed, &acts);
        world.finish();
        for turn in &world.inbox {
            prop_assert!(world.done.contains(&turn.id), "{turn:?} is lost");
        }
        for id in &world.accepted {
            prop_assert!(world.done.contains(id), "{id} was taken and is lost");
        }
        let places = world.inbox.len();
        prop_assert!(places == 0 || world.disk.cursor() == Some(places.to_string().as_str()));
        for (name, answers) in &world.answers {
            prop_assert_eq!(answers.len(), 1, "{} was answered {:?}", name, answers);
        }
        // The ledger on disk equals the core's.
        prop_assert_eq!(&world.disk, world.core.ledger());
    }

    #[test]
    fn everybody_is_answered_if_nothing_fails(seed: u64, kinds in vec(0..4usize, 1..100)) {
        let mut world = World::new(seed);
        for (n, kind) in kinds.iter().enumerate() {
            world.inbox.push(turn([Kind::Chat, Kind::Foreign, Kind::Streamed, Kind::Envelope][*kind], n));
        }
        world.finish();
        prop_assert_eq!(world.answers.len(), kinds.len());
    }

    #[test]
    fn the_same_seed_gives_the_same_commands(seed: u64, acts in acts()) {
        let (one, other) = (play(seed, &acts), play(seed, &acts));
        prop_assert_eq!(one.log, other.log);
    }

    #[test]
    fn a_stop_ends_it_soon_whoever_does_not_answer(seed: u64, acts in acts()) {
        let mut world = play(seed, &acts);
        world.killed_after = None;
        world.tell(Event::Stop);
        let begun_ms = world.now_ms;
        while !world.ended {
            let at_ms = world.core.wake_at_ms().expect("nobody else would wake it");
            prop_assert!(at_ms - begun_ms <= 20_000, "it waits until {}", at_ms - begun_ms);
            world.now_ms = world.now_ms.max(at_ms);
            world.tell(Event::Time);
        }
        prop_assert_eq!(world.log.iter().filter(|one| **one == Command::End).count() >= 1, true);
    }
}
