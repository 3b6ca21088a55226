//! Runs the simulation for many seeds. `CHORUS_SEED=7` runs one seed, `CHORUS_SEEDS=1000` that many.

use crate::story::Story;
use crate::verdict::{Tally, judge};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

/// The default number of seeds.
const SEEDS: u64 = 100;

/// Runs a seed to its end. Returns its hash and its tally.
fn play(seed: u64) -> (String, Tally) {
    let mut story = Story::new(seed);
    let played = catch_unwind(AssertUnwindSafe(|| {
        story.play();
        judge(&story)
    }));
    match played {
        Ok(tally) => (story.world.hash(), tally),
        Err(panic) => {
            let texts = [panic.downcast_ref::<String>().map(String::as_str), panic.downcast_ref().copied()];
            let what = texts.into_iter().flatten().next().unwrap_or("it panicked");
            panic!(
                "{}seed {seed}: {what}\nreplay it: CHORUS_SEED={seed} cargo test --workspace --test simulation seeds",
                story.world.last_notes()
            );
        }
    }
}

pub(crate) fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Returns a seed that no thread has taken.
fn next(seeds: &Mutex<Range<u64>>) -> Option<u64> {
    seeds.lock().unwrap().next()
}

/// Runs the named seed, or many seeds on every core. Returns their number.
pub(crate) fn each_seed(usual: u64, play: impl Fn(u64) + Sync) -> u64 {
    let seeds = match number("CHORUS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("CHORUS_SEEDS").unwrap_or(usual),
    };
    let count = seeds.end - seeds.start;
    let seeds = Mutex::new(seeds);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZeroUsize::get) {
            scope.spawn(|| {
                while let Some(seed) = next(&seeds) {
                    play(seed);
                }
            });
        }
    });
    count
}

#[test]
fn nothing_is_lost_and_nobody_answers_twice() {
    let sum = Mutex::new(Tally::default());
    let count = each_seed(SEEDS, |seed| {
        let (_, tally) = play(seed);
        sum.lock().unwrap().add(&tally);
    });
    let sum = sum.into_inner().unwrap();
    // Too little activity would prove nothing.
    let enough = sum.answers > 500 && sum.crashes > 100 && sum.answers < sum.deliveries;
    assert!(count < SEEDS || enough, "{sum:?}");
}

/// Each named agent answers once, and nobody answers an echo.
#[test]
fn two_that_print_what_they_read_come_to_rest() {
    let mut answers = 0;
    for seed in 0..10 {
        let mut story = Story::of_echoes(seed);
        story.play();
        let (tally, named) =
            (judge(&story), story.sayings.iter().map(|saying| saying.text.matches('@').count()));
        assert_eq!(tally.deliveries, named.sum::<usize>(), "seed {seed}");
        answers += tally.answers;
    }
    assert!(answers > 20, "{answers}");
}

#[test]
fn the_same_seed_gives_the_same_world_and_another_another() {
    let (one, _) = play(7);
    assert_eq!(play(7).0, one);
    assert_ne!(play(8).0, one);
}
