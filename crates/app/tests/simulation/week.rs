//! A simulated week: fifty agents and ten people in twenty channels, with jobs and credits. `CHORUS_SEED=7`
//! runs one seed, `CHORUS_SEEDS=1000` that many.

mod cast;
mod harness;
mod host;
mod money;
mod people;
mod requests;
mod story;
mod verdict;

use crate::seeds::{each_seed, number};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use story::Story;
use verdict::Tally;

/// The default number of seeds.
const SEEDS: u64 = 200;

/// Runs a seed to its end. Returns its hash and its tally.
fn play(seed: u64) -> (String, Tally) {
    let mut story = Story::new(seed);
    let played = catch_unwind(AssertUnwindSafe(|| {
        story.play();
        story.judge()
    }));
    match played {
        Ok(tally) => (story.world.hash(), tally),
        Err(panic) => {
            let texts = [panic.downcast_ref::<String>().map(String::as_str), panic.downcast_ref().copied()];
            let what = texts.into_iter().flatten().next().unwrap_or("it panicked");
            panic!(
                "{}seed {seed}: {what}\nreplay it: CHORUS_SEED={seed} cargo test --workspace --test simulation week",
                story.world.last_notes()
            );
        }
    }
}

#[test]
fn a_week_comes_to_rest_with_nothing_forgotten_and_nothing_done_twice() {
    let sum = Mutex::new(Tally::default());
    let seeds = each_seed(SEEDS, |seed| {
        let (_, tally) = play(seed);
        sum.lock().unwrap().add(&tally);
    });
    let sum = sum.into_inner().unwrap();
    // Too little activity would prove nothing.
    let enough = sum.answers > 1000
        && sum.crashes > 500
        && sum.escalations > 20
        && sum.claims > 100
        && sum.paid > 100
        && sum.digests > 200;
    assert!(number("CHORUS_SEED").is_some() || seeds < SEEDS || enough, "{sum:?}");
}

#[test]
fn the_same_seed_gives_the_same_week_and_another_another() {
    let (one, _) = play(7);
    assert_eq!(play(7).0, one);
    assert_ne!(play(8).0, one);
}
