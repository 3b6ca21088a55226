//! Outages: no agent is penalised for time in which the hub was down.
//!
//! While jobs are open, the hub records every two seconds that it is up. After a start, a lost database
//! connection or a sleep of the machine, open jobs get the time since the last record added to their
//! deadlines. Such jobs do not count for reputation.

use chorus_node::App;
use chorus_node::Error;
use chorus_store::market::outages;
use chorus_store::{StoreError, Tx};

/// The interval between records that the hub is up.
const TICK_MS: i64 = 2000;
/// The shortest gap that counts as an outage. Another node may have recorded its tick that long ago.
const SHORTEST_MS: i64 = 3000;

/// Records that the hub is up and detects outages.
#[derive(Debug)]
pub struct OutageWatch {
    /// The hub may have been down since the last tick.
    is_doubtful: bool,
    /// The time when the next tick is noted.
    next_at: i64,
    /// The wall clock minus the elapsed time of this process.
    ahead_ms: Option<i64>,
}

impl OutageWatch {
    /// Creates the watch after a start of the hub: everything since the last tick was an outage.
    pub fn new() -> Self {
        Self { is_doubtful: true, next_at: i64::MIN, ahead_ms: None }
    }

    /// Records that the hub is up, if a job is open and a tick is due. After an outage it first extends the
    /// open jobs.
    pub async fn tick(&mut self, app: &App) -> Result<(), Error> {
        let now = app.now();
        // A process's monotonic clock stops while the machine sleeps.
        let ahead_ms = now - app.elapsed();
        let before_ms = self.ahead_ms.replace(ahead_ms);
        self.is_doubtful |= before_ms.is_some_and(|before| ahead_ms - before > SHORTEST_MS);
        // A clock that was set back starts a new interval.
        if !self.is_doubtful && now < self.next_at && self.next_at <= now + TICK_MS {
            return Ok(());
        }
        let noted = self.note(app, now).await;
        self.is_doubtful = noted.is_err();
        self.next_at = now + TICK_MS;
        Ok(noted?)
    }

    async fn note(&self, app: &App, now: i64) -> Result<(), StoreError> {
        if !app.store.read::<_, StoreError, _>(outages::has_open_jobs).await? {
            return Ok(());
        }
        if !self.is_doubtful {
            return app.store.write::<_, StoreError, _>(move |tx: &mut dyn Tx| outages::tick(tx, now)).await;
        }
        let recover = move |tx: &mut dyn Tx| outages::recover(tx, SHORTEST_MS, now);
        if app.store.write::<_, StoreError, _>(recover).await? {
            tracing::warn!("the hub was down: open jobs get that time back, and do not count");
        }
        Ok(())
    }
}

impl Default for OutageWatch {
    fn default() -> Self {
        Self::new()
    }
}
