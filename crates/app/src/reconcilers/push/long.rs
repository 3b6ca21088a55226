//! Waits for an agent that answers the POST of a job only when the job is done.
//!
//! The lease is renewed while the request is open, so that no node POSTs the job again meanwhile. A job is not
//! POSTed again after the hub stopped or died with such a request open, because the agent may still work on it:
//! it reports to the callback URL, and the job does not count against it.

use super::Settings;
use chorus_node::AppState;
use chorus_node::source::Source;
use chorus_node::transport::outbound::PostError;
use chorus_protocol::market::UncountedReason;
use chorus_store::market::{handing, jobs};
use chorus_store::push::{self, Due};
use chorus_store::{StoreError, Tx};
use std::pin::pin;
use std::time::Duration;

/// The interval between checks of the clock.
const TICK: Duration = Duration::from_secs(1);
pub(super) const CUT_OFF: &str =
    "the hub stopped waiting for the answer to its POST; the result can be POSTed to the callback_url";

/// Waits until the hub need not wait for the answer any more, and returns the reason. The POST was sent at
/// `at`.
pub(super) async fn wait(app: &AppState, due: &Due, at: i64, sources: Vec<Source>) -> PostError {
    let place = app.transport.long_requests.begin(due.id, sources);
    let lease_ms = Settings::new(&app.config).push_lease_ms;
    let (mut renew_at, mut stopping) = (i64::MIN, pin!(stopping(app)));
    loop {
        let now = app.now();
        if now >= due.give_up_at {
            return PostError::Timeout(Duration::from_millis((now - at).max(0) as u64));
        }
        if now >= renew_at || renew_at > now + lease_ms {
            match renew(app, due, at, now + lease_ms).await {
                Ok(true) => renew_at = now + lease_ms / 3,
                Ok(false) => return PostError::JobOver,
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, delivery = %due.id, "a lease could not be renewed; it is tried again");
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(TICK) => {}
            () = place.displaced() => break,
            () = &mut stopping => break,
        }
    }
    PostError::Displaced
}

/// Waits until the hub stops and half of its drain time is over, which leaves time to record the outcome.
async fn stopping(app: &AppState) {
    app.tasks.stopping.cancelled().await;
    tokio::time::sleep(app.config.times.drain / 2).await;
}

/// Notes that the hub cut off the request of a job, so that the job does not count.
pub(super) fn excuse(tx: &mut dyn Tx, due: &Due) -> Result<(), StoreError> {
    jobs::excuse(tx, due.event, UncountedReason::CutOff, CUT_OFF)
}

/// Renews the lease and records the time when the agent got the job. Returns whether the job is still open.
async fn renew(app: &AppState, due: &Due, at: i64, until: i64) -> Result<bool, StoreError> {
    let due = due.clone();
    let renew = move |tx: &mut dyn Tx| {
        handing::record(tx, due.event, at)?;
        push::renew(tx, &due, until)?;
        jobs::is_open(tx, due.event)
    };
    app.store.write::<_, StoreError, _>(renew).await
}
