//! What was stored by former programs or with a former key is brought up to date: made findable, and sealed anew.
//!
//! This goes through everything there is. So it is a task of its own, in small steps that the next start goes on with: whatever
//! must not wait is in [`ticks`](super::ticks). A row that cannot be indexed is left out, and keeps no other from it.

use crate::app::{App, AppState};
use crate::background::report;
use crate::sealing::{self, Walk};
use chorus_store::market::reindex;
use chorus_store::{StoreError, Tx, directory, search};
use std::time::Duration;
use tokio::time::MissedTickBehavior;

/// How often it is looked whether there is something to do.
const TICK: Duration = Duration::from_secs(10);
/// Every so many ticks it is looked whether everything is sealed with the current key.
const RESEAL_TICKS: u64 = 6;
/// How many rows one step of the indexing goes through.
const INDEX_STEP: i64 = 200;

/// Runs until the hub stops.
pub async fn run(app: AppState) {
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut walk = Walk::default();
    for tick in 0_u64.. {
        tokio::select! {
            _ = interval.tick() => {}
            () = app.stopping.cancelled() => break,
        }
        let agents = index_old(&app, "agent", directory::index_old, directory::skip_old);
        report("make old agents findable", agents.await);
        let messages = index_old(&app, "event", search::index_old, search::skip_old);
        report("make old messages findable", messages.await);
        let skills = index_old(&app, "agent on the market", reindex::index_old, reindex::skip_old);
        report("make old skills findable", skills.await);
        if tick % RESEAL_TICKS == 0 {
            report("seal anew what a former key sealed", sealing::reseal(&app, &mut walk).await);
        }
    }
}

/// What was there before it was indexed as it is now becomes findable.
async fn index_old(
    app: &App,
    what: &str,
    index: fn(&mut dyn Tx, i64) -> Result<bool, StoreError>,
    skip: fn(&mut dyn Tx) -> Result<Option<String>, StoreError>,
) -> Result<(), StoreError> {
    let mut limit = INDEX_STEP;
    while !app.stopping.is_cancelled() {
        let begin = app.elapsed();
        match app.store.write::<_, StoreError, _>(move |tx: &mut dyn Tx| index(tx, limit)).await {
            Ok(false) => break,
            Ok(true) => limit = (limit * 2).min(INDEX_STEP),
            // One row among them: half of them, until it is found.
            Err(StoreError::Unexpected(_) | StoreError::Panicked) if limit > 1 => limit /= 2,
            Err(error @ (StoreError::Unexpected(_) | StoreError::Panicked)) => {
                let skipped = app.store.write::<_, StoreError, _>(skip).await?;
                let Some(skipped) = skipped else { return Err(error) };
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, what, skipped, "this one cannot be indexed and will not be found");
            }
            Err(error) => return Err(error),
        }
        // Others write half of the time, and never less than a millisecond.
        let took = Duration::from_millis((app.elapsed() - begin).max(1) as u64);
        tokio::select! {
            () = tokio::time::sleep(took) => {}
            () = app.stopping.cancelled() => break,
        }
    }
    Ok(())
}
