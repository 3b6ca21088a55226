//! Background work as reconcilers: steps that bring the database to where it should be, whatever happened before.
//!
//! Each step is an idempotent function of the database's state and the time; it takes no other input. So the path
//! after a crash, on another node and on a quiet day is the same path. A step that fails is tried again at its next
//! turn.

use super::live::{End, Inbox};
use crate::app::{App, AppState};
use chorus_protocol::ids::AgentId;
use chorus_store::{Kind, StoreError, Tx, accounts, audit, deliveries, idempotency, inboxes, push, streams};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// How often watermarks are written, and other nodes' commits looked for.
const TICK: Duration = Duration::from_millis(500);
/// Every so many ticks the slower steps run.
const SLOW_TICKS: u64 = 20;
/// How many deliveries one step sends another way.
const REROUTE_STEP: i64 = 500;
/// How much of each kind one step of the clean-up removes: each is a transaction, and others wait for it.
const CLEAN_UP_STEP: i64 = 500;

/// Runs the steps until the hub stops, and the last ones once more then.
pub(crate) async fn run(app: AppState) {
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // Three chances before a lease runs out.
    let renew_ticks =
        (app.config.presence.as_millis() / TICK.as_millis() / 3).clamp(1, u128::from(SLOW_TICKS)) as u64;
    for tick in 0_u64.. {
        tokio::select! {
            _ = interval.tick() => {}
            () = app.stopping.cancelled() => break,
        }
        app.metrics.inboxes.set(app.live.len() as i64);
        app.metrics.queued.set(app.store.queued() as i64);
        report("record what was handed", record_handed(&app, app.live.all()).await);
        if app.store.kind() == Kind::Postgres {
            report("look at other nodes' commits", poll(&app).await);
        }
        if tick % renew_ticks == 0 {
            report("renew open inboxes", renew(&app).await);
        }
        if tick % SLOW_TICKS == 0 {
            report("clean up", clean_up(&app).await);
            report("look for better ways", reroute(&app).await);
        }
    }
    report("record what was handed", record_handed(&app, app.live.all()).await);
}

fn report<T>(step: &str, result: Result<T, StoreError>) {
    if let Err(error) = result {
        tracing::warn!(error = &error as &dyn std::error::Error, "could not {step}; it is tried again");
    }
}

/// Writes the watermarks that rose since the last time, all in one transaction.
pub(crate) async fn record_handed(app: &App, inboxes: Vec<Arc<Inbox>>) -> Result<(), StoreError> {
    let handed: Vec<(AgentId, i64)> =
        inboxes.iter().filter_map(|inbox| Some((inbox.agent, inbox.unrecorded()?))).collect();
    if handed.is_empty() {
        return Ok(());
    }
    let marks = handed.clone();
    let write = move |tx: &mut dyn Tx| {
        marks.iter().try_for_each(|(agent, seq)| inboxes::hand_through(tx, *agent, *seq))
    };
    app.store.write::<_, StoreError, _>(write).await?;
    let handed: HashMap<_, _> = handed.into_iter().collect();
    for inbox in inboxes {
        if let Some(seq) = handed.get(&inbox.agent) {
            inbox.record(*seq);
        }
    }
    Ok(())
}

/// Covers lost wake-ups, of commits and of keys that were taken back, and finds inboxes that another node took over or that were revoked there.
async fn poll(app: &App) -> Result<(), StoreError> {
    let node = app.config.node;
    // Listed before the store is asked, so that none of them can be missing there only because it is opening.
    let here: Vec<_> = app.live.all().into_iter().filter(|inbox| inbox.is_stored()).collect();
    let open = app.store.read::<_, StoreError, _>(move |tx: &mut dyn Tx| inboxes::on_node(tx, node)).await?;
    let open: HashMap<_, _> = open.into_iter().map(|open| (open.agent, open)).collect();
    for inbox in here {
        match open.get(&inbox.agent) {
            Some(row) if row.session == inbox.session => inbox.raise(row.head),
            _ => inbox.finish(End::TakenOver),
        }
    }
    let followed = app.live.all_followed();
    if !followed.is_empty() {
        let heads = move |tx: &mut dyn Tx| streams::heads(tx, &followed);
        for (stream, head) in app.store.read::<_, StoreError, _>(heads).await? {
            app.live.wake(stream, head);
        }
    }
    Ok(())
}

/// This node lives.
async fn renew(app: &App) -> Result<u64, StoreError> {
    let (node, until) = (app.config.node, app.now() + app.config.presence.as_millis() as i64);
    if app.live.len() == 0 {
        return Ok(0);
    }
    app.store.write(move |tx: &mut dyn Tx| inboxes::renew(tx, node, until)).await
}

/// What is over is brought to its end.
async fn clean_up(app: &App) -> Result<(), StoreError> {
    let now = app.now();
    let cutoff = app.config.retention.map(|keep| now - keep.as_millis() as i64);
    let step = move |tx: &mut dyn Tx| {
        deliveries::fail_abandoned(tx, now)?;
        let keys = idempotency::remove_expired(tx, now, CLEAN_UP_STEP)?;
        let credentials = accounts::remove_expired(tx, now, CLEAN_UP_STEP)?;
        let acts = audit::remove_old(tx, now, CLEAN_UP_STEP)?;
        let old = cutoff.map_or(Ok(deliveries::Removed::default()), |cutoff| {
            deliveries::remove_before(tx, cutoff, CLEAN_UP_STEP)
        })?;
        // Whatever took a whole step may have more.
        Ok([keys, credentials, acts, old.deliveries].contains(&(CLEAN_UP_STEP as u64)))
    };
    while app.store.write::<_, StoreError, _>(step).await? {
        if app.stopping.is_cancelled() {
            break;
        }
    }
    Ok(())
}

/// What waits for a way that is gone or worse than another goes the other one.
async fn reroute(app: &App) -> Result<(), StoreError> {
    let now = app.now();
    let find = move |tx: &mut dyn Tx| push::find_rerouted(tx, now, REROUTE_STEP);
    let found = app.store.read::<_, StoreError, _>(find).await?;
    if found.is_empty() {
        return Ok(());
    }
    app.store.write::<_, StoreError, _>(move |tx: &mut dyn Tx| push::hurry(tx, &found, now)).await?;
    app.due.notify_one();
    Ok(())
}
