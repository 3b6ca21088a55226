//! Background work as reconcilers: steps that bring the database to where it should be, whatever happened before.
//!
//! Each step is an idempotent function of the database's state and the time; it takes no other input. So the path
//! after a crash, on another node and on a quiet day is the same path. A step that fails is tried again at its next
//! turn.

use super::dialect::End;
use super::live::Inbox;
use super::push::LEASE_MARGIN_MS;
use super::replies::MAX_STREAM;
use crate::app::{App, AppState};
use chorus_protocol::ids::AgentId;
use chorus_store::clock::{self, Longest};
use chorus_store::{
    Kind, StoreError, Tx, accounts, audit, deliveries, idempotency, inboxes, invitations, mcp_sessions, push,
    streams,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// A clock that moves more than this from one tick to the next was set.
const MAX_DRIFT_MS: i64 = 2000;
/// How often watermarks are written, and other nodes' commits looked for.
const TICK: Duration = Duration::from_millis(500);
/// Every so many ticks it is written what is stored of whom.
const USAGE_TICKS: u64 = 2;
/// Every so many ticks the slower steps run.
const SLOW_TICKS: u64 = 20;
/// How many deliveries one step sends another way.
const REROUTE_STEP: i64 = 500;
/// How much of each kind one step of the clean-up removes: each is a transaction, and others wait for it.
const CLEAN_UP_STEP: i64 = 500;

/// Runs the steps until the hub stops, and the last ones once more then.
pub async fn run(app: AppState) {
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // Three chances before a lease runs out.
    let renew_ticks =
        (app.config.presence.as_millis() / TICK.as_millis() / 3).clamp(1, u128::from(SLOW_TICKS)) as u64;
    let mut watch = ClockWatch::new(&app);
    for tick in 0_u64.. {
        tokio::select! {
            _ = interval.tick() => {}
            () = app.stopping.cancelled() => break,
        }
        app.metrics.inboxes.set(app.live.open_inboxes() as i64);
        app.metrics.queued.set(app.store.queued() as i64);
        report("record what was handed", record_handed(&app, app.live.all()).await);
        if app.store.kind() == Kind::Postgres {
            report("look at other nodes' commits", poll(&app).await);
        }
        if tick % USAGE_TICKS == 0 {
            report("record what is stored", app.usage.flush(&app.store).await);
        }
        // Whoever sets the clock finds everything as it should be.
        let was_set = watch.look(&app);
        if was_set || tick % renew_ticks == 0 {
            report("renew open inboxes", renew(&app).await);
        }
        if was_set || tick % SLOW_TICKS == 0 {
            report("end what the clock would keep", pull_back(&app).await);
            report("clean up", clean_up(&app, watch.can_judge_leases(&app)).await);
            report("look for better ways", reroute(&app).await);
        }
    }
    report("record what was handed", record_handed(&app, app.live.all()).await);
    report("record what is stored", app.usage.flush(&app.store).await);
}

pub(super) fn report<T>(step: &str, result: Result<T, StoreError>) {
    if let Err(error) = result {
        tracing::warn!(error = &error as &dyn std::error::Error, "could not {step}; it is tried again");
    }
}

/// Writes the watermarks that rose since the last time, all in one transaction.
pub async fn record_handed(app: &App, inboxes: Vec<Arc<Inbox>>) -> Result<(), StoreError> {
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
    if app.live.open_inboxes() == 0 {
        return Ok(0);
    }
    app.store.write(move |tx: &mut dyn Tx| inboxes::renew(tx, node, until)).await
}

/// What is over is brought to its end.
async fn clean_up(app: &App, leases: bool) -> Result<(), StoreError> {
    let now = app.now();
    let cutoff = app.config.retention.map(|keep| now - keep.as_millis() as i64);
    // Not the whole hub: the store must not keep it alive.
    let usage = Arc::clone(&app.usage);
    let step = move |tx: &mut dyn Tx| {
        if leases {
            deliveries::fail_abandoned(tx, now)?;
        }
        let keys = idempotency::remove_expired(tx, now, CLEAN_UP_STEP)?;
        let answers = idempotency::shorten(tx, now, CLEAN_UP_STEP)?;
        let credentials = accounts::remove_expired(tx, now, CLEAN_UP_STEP)?;
        let acts = audit::remove_old(tx, now, CLEAN_UP_STEP)?;
        let old = cutoff.map_or(Ok(deliveries::Removed::default()), |cutoff| {
            deliveries::remove_before(tx, cutoff, CLEAN_UP_STEP)
        })?;
        usage.give_back(tx, old.bytes);
        let invited = invitations::remove_expired(tx, now, CLEAN_UP_STEP)?;
        let sessions = mcp_sessions::remove_unused(tx, now, CLEAN_UP_STEP)?;
        // Whatever took a whole step may have more.
        Ok([keys, answers, credentials, acts, invited, sessions, old.deliveries]
            .contains(&(CLEAN_UP_STEP as u64)))
    };
    while app.store.write::<_, StoreError, _>(step.clone()).await? {
        if app.stopping.is_cancelled() {
            break;
        }
    }
    Ok(())
}

/// How far ahead times can lie.
fn longest(app: &App) -> Longest {
    Longest {
        lease_ms: app.config.webhook_timeout.max(MAX_STREAM).as_millis() as i64 + LEASE_MARGIN_MS,
        presence_ms: app.config.presence.as_millis() as i64,
    }
}

/// What others hold for longer than anybody can, because a clock was set back, ends.
async fn pull_back(app: &App) -> Result<(), StoreError> {
    let (node, now, longest) = (app.config.node, app.now(), longest(app));
    let finds = move |tx: &mut dyn Tx| clock::finds_ahead(tx, node, now, &longest);
    if app.store.read::<_, StoreError, _>(finds).await? {
        let pull = move |tx: &mut dyn Tx| clock::pull_back(tx, node, now, &longest);
        app.store.write::<_, StoreError, _>(pull).await?;
    }
    Ok(())
}

/// Notices when somebody sets the clock: for as long as a lease lasts then, none is over because of the time it shows.
struct ClockWatch {
    /// What the clock is ahead of the time that has passed.
    ahead: i64,
    set_at: Option<i64>,
}

impl ClockWatch {
    fn new(app: &App) -> Self {
        Self { ahead: app.now() - app.elapsed(), set_at: None }
    }

    fn look(&mut self, app: &App) -> bool {
        let ahead = app.now() - app.elapsed();
        let by_ms = ahead - self.ahead;
        self.ahead = ahead;
        let was_set = by_ms.abs() > MAX_DRIFT_MS;
        if was_set {
            tracing::warn!(by_ms, "the clock was set");
            self.set_at = Some(app.elapsed());
        }
        was_set
    }

    fn can_judge_leases(&self, app: &App) -> bool {
        self.set_at.is_none_or(|at| app.elapsed() - at > longest(app).lease_ms)
    }
}

/// What waits for a way that is gone or worse than another goes the other one, and what was put off before the clock was set back is
/// tried now.
async fn reroute(app: &App) -> Result<(), StoreError> {
    let now = app.now();
    let find = move |tx: &mut dyn Tx| {
        Ok((push::find_rerouted(tx, now, REROUTE_STEP)?, clock::find_late(tx, now, REROUTE_STEP)?))
    };
    let (rerouted, late) = app.store.read::<_, StoreError, _>(find).await?;
    if rerouted.is_empty() && late.is_empty() {
        return Ok(());
    }
    let look_again = move |tx: &mut dyn Tx| {
        push::reroute(tx, &rerouted, now)?;
        push::hurry(tx, &late, now)
    };
    app.store.write::<_, StoreError, _>(look_again).await?;
    app.due.notify_one();
    Ok(())
}
