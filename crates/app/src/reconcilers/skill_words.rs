//! Indexes the words of skills soon after they were registered.
//!
//! It is a task of its own, so that new offers do not wait for the messages of an import.

use super::catch_up::index_in_steps;
use chorus_node::AppState;
use chorus_node::tasks::background::report;
use chorus_store::market::word_index;
use std::time::Duration;
use tokio::time::MissedTickBehavior;

/// The interval between checks without a hint. Hints may be lost, and registrations on other nodes give none
/// here.
const TICK: Duration = Duration::from_secs(10);

/// Runs until the hub stops.
pub async fn run(app: AppState) {
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            () = app.tasks.skill_words_due.notified() => {}
            () = app.tasks.stopping.cancelled() => break,
        }
        let indexed =
            index_in_steps(&app, "agent on the market", word_index::index_due, word_index::skip_due);
        report("index the words of skills", indexed.await);
    }
}
