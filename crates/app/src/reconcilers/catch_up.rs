//! Indexes the messages of an imported database, and encrypts again what a former key encrypted.
//!
//! Both go through all rows, so they run as a task of their own, in small steps that the next start continues.
//! Urgent work is in [`ticks`](super::ticks). A row that cannot be indexed is skipped and does not hold up the
//! others.

use crate::reconcilers::reseal::{self, Walk};
use chorus_node::tasks::background::report;
use chorus_node::{App, AppState};
use chorus_store::{StoreError, Tx, search};
use std::time::Duration;
use tokio::time::MissedTickBehavior;

/// The interval between checks for work.
const TICK: Duration = Duration::from_secs(10);
/// Ticks between two checks that everything is sealed with the current key.
const RESEAL_TICKS: u64 = 6;
/// Rows that one indexing step handles.
const INDEX_STEP: i64 = 200;

/// Runs until the hub stops.
pub async fn run(app: AppState) {
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut walk = Walk::default();
    for tick in 0_u64.. {
        tokio::select! {
            _ = interval.tick() => {}
            () = app.tasks.stopping.cancelled() => break,
        }
        let messages = index_in_steps(&app, "event", search::index_imported, search::skip_imported);
        report("index imported messages", messages.await);
        if tick % RESEAL_TICKS == 0 {
            report("seal anew what a former key sealed", reseal::reseal(&app, &mut walk).await);
        }
    }
}

/// Calls `index` with a limit of rows until nothing is left. Calls `skip` for a row that cannot be indexed.
pub(super) async fn index_in_steps(
    app: &App,
    what: &str,
    index: fn(&mut dyn Tx, i64) -> Result<bool, StoreError>,
    skip: fn(&mut dyn Tx) -> Result<Option<String>, StoreError>,
) -> Result<(), StoreError> {
    let mut limit = INDEX_STEP;
    while !app.tasks.stopping.is_cancelled() {
        let begin = app.elapsed();
        match app.store.write::<_, StoreError, _>(move |tx: &mut dyn Tx| index(tx, limit)).await {
            Ok(false) => break,
            Ok(true) => limit = (limit * 2).min(INDEX_STEP),
            // One row of the step fails. The step is halved until that row is found.
            Err(StoreError::Unexpected(_) | StoreError::Panicked) if limit > 1 => limit /= 2,
            Err(error @ (StoreError::Unexpected(_) | StoreError::Panicked)) => {
                let skipped = app.store.write::<_, StoreError, _>(skip).await?;
                let Some(skipped) = skipped else { return Err(error) };
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, what, skipped, "this one cannot be indexed and will not be found");
            }
            Err(error) => return Err(error),
        }
        // Pauses as long as the step took, and at least a millisecond, so that other writers get half of the
        // time.
        let took = Duration::from_millis((app.elapsed() - begin).max(1) as u64);
        tokio::select! {
            () = tokio::time::sleep(took) => {}
            () = app.tasks.stopping.cancelled() => break,
        }
    }
    Ok(())
}
