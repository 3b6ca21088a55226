//! Schedules the steps of background work. A step that fails is logged and runs again at its next turn.
//! [`Ticks`] contains everything but the waiting, so that a simulation takes the same ticks.

use super::steps::{self, Settings};
use crate::attention::{digests, reconciler};
use crate::away::tell_away;
use crate::choir::log_integrity;
use crate::conversation;
use crate::delivery::handed::record_handed;
use chorus_node::tasks::background::{each, report};
use chorus_node::transport::dialect::End;
use chorus_node::{App, AppState};
use chorus_protocol::ids::{EventId, TraceId};
use chorus_store::attention::{DueItems, find_due};
use chorus_store::{Kind, StoreError, Tx, approvals, inboxes, sent, streams};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// A clock that moves more than this from one tick to the next was set by someone.
const MAX_DRIFT_MS: i64 = 2000;
/// The interval at which watermarks are written and other nodes' commits are looked for.
const TICK: Duration = Duration::from_millis(500);
/// Ticks between two writes of the storage usage.
const USAGE_TICKS: u64 = 2;
/// Due attention items that one tick handles.
const ATTEND_STEP: i64 = 200;
/// Ticks between two runs of the slower steps. They also run after the corresponding time, because ticks of a
/// busy hub come late.
const SLOW_TICKS: u64 = 20;

/// Ticks until the hub stops, and then runs the final steps once more.
pub async fn run(app: AppState) {
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut ticks = Ticks::new(&app);
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            () = app.tasks.stopping.cancelled() => break,
        }
        ticks.take(&app).await;
    }
    report("record what was handed", record_handed(&app, app.transport.live.all()).await);
    report("record what is stored", app.limits.usage.flush(&app.store).await);
    report("record which tools were called", app.telemetry.tool_log.flush(&app.store).await);
    report("record what harnesses say", app.telemetry.harness_log.flush(&app.store).await);
}

/// The ticks of the background work, one every half second.
pub struct Ticks {
    next: u64,
    /// The interval in ticks. It allows three renewals before a lease expires.
    renew_every: u64,
    watch: ClockWatch,
    /// The tick and the elapsed time at which the slower steps run next.
    slow_next: (u64, i64),
}

impl Ticks {
    pub fn new(app: &App) -> Self {
        let renew_every = app.config.presence.as_millis() / TICK.as_millis() / 3;
        let renew_every = renew_every.clamp(1, u128::from(SLOW_TICKS)) as u64;
        Self { next: 0, renew_every, watch: ClockWatch::new(app), slow_next: (0, app.elapsed()) }
    }

    /// Takes the next tick.
    pub async fn take(&mut self, app: &AppState) {
        let tick = self.next;
        self.next += 1;
        app.telemetry.metrics.inboxes.set(app.transport.live.open_inboxes() as i64);
        app.telemetry.metrics.queued.set(app.store.queued() as i64);
        report("record what was handed", record_handed(app, app.transport.live.all()).await);
        if app.store.kind() == Kind::Postgres {
            report("look at other nodes' commits", poll(app).await);
        }
        report("bring in order what was sent", sort_sent(app).await);
        report("record which tools were called", app.telemetry.tool_log.flush(&app.store).await);
        report("record what harnesses say", app.telemetry.harness_log.flush(&app.store).await);
        report(
            "count what was saved",
            app.telemetry.turns_saved.flush(&app.store, &app.telemetry.metrics).await,
        );
        if tick.is_multiple_of(USAGE_TICKS) {
            report("record what is stored", app.limits.usage.flush(&app.store).await);
        }
        // The slower steps run at once after the clock was set, to correct stored times.
        let is_slow = self.watch.was_clock_set(app) || self.is_time_for_slow(app, tick);
        if is_slow || tick.is_multiple_of(self.renew_every) {
            report("renew open inboxes", renew(app).await);
        }
        report("attend to what is due", attend(app).await);
        report("end what waits for a person", end_waiting(app).await);
        if is_slow {
            self.slow_next = (tick + SLOW_TICKS, app.elapsed() + SLOW_TICKS as i64 * TICK.as_millis() as i64);
            report("end what the clock would keep", pull_back(app).await);
            report("look at the log", log_integrity::check(app).await);
            report("clean up", clean_up(app, self.watch.can_judge_leases(app)).await);
            report("look for better ways", reroute(app).await);
            report("tell who is away", tell_away(app).await);
            report("sum up for who leads", sum_up(app).await);
        }
        app.telemetry.metrics.background_round("ticks");
    }

    fn is_time_for_slow(&self, app: &App, tick: u64) -> bool {
        tick >= self.slow_next.0 || app.elapsed() >= self.slow_next.1
    }
}

/// Orders the envelopes that were sent lately.
async fn sort_sent(app: &App) -> Result<(), StoreError> {
    while !app.tasks.stopping.is_cancelled() && sent::sort_a_lot(&app.store).await? {}
    Ok(())
}

/// Takes the next due steps of attention items and claims, one at a time.
async fn attend(app: &App) -> Result<(), StoreError> {
    let now = app.now();
    let find = move |tx: &mut dyn Tx| find_due(tx, now, ATTEND_STEP);
    let DueItems { obligations, claims } = app.store.read::<_, StoreError, _>(find).await?;
    if obligations.is_empty() && claims.is_empty() {
        return Ok(());
    }
    // Agents connected to this node count as online, whatever the clock says.
    renew(app).await?;
    let mut sent = false;
    for (event, agent) in obligations {
        let escalation = EventId(app.environment.uuid_v7());
        let step = move |tx: &mut dyn Tx| reconciler::attend(tx, event, agent, escalation, now);
        sent |= each("take a step of what is due", app.store.write(step).await)?;
    }
    for (event, conversation) in claims {
        let step = move |tx: &mut dyn Tx| reconciler::reoffer(tx, event, conversation, now);
        sent |= each("offer something again", app.store.write(step).await)?;
        conversation::tell_attention(app, conversation, event);
    }
    if sent {
        app.tasks.push_due.notify_one();
    }
    Ok(())
}

/// Ends approvals that have waited too long for a person, one at a time.
async fn end_waiting(app: &AppState) -> Result<(), StoreError> {
    let now = app.now();
    let find = move |tx: &mut dyn Tx| approvals::due(tx, now, ATTEND_STEP);
    for id in app.store.read::<_, StoreError, _>(find).await? {
        let (hub, told) = (Arc::clone(app), EventId(app.environment.uuid_v7()));
        let step = move |tx: &mut dyn Tx| conversation::end_by_itself(&hub, tx, now, id, told);
        each("end one that waits for a person", app.store.write(step).await)?;
    }
    Ok(())
}

/// Sends due digests to the leads of channels, one at a time.
async fn sum_up(app: &App) -> Result<(), StoreError> {
    let now = app.now();
    let find = move |tx: &mut dyn Tx| digests::find(tx, now, ATTEND_STEP);
    let found = app.store.read::<_, StoreError, _>(find).await?;
    if found.is_empty() {
        return Ok(());
    }
    for of in found {
        let ids = (EventId(app.environment.uuid_v7()), TraceId(app.environment.uuid_v7()));
        let step = move |tx: &mut dyn Tx| digests::tell(tx, now, of, ids);
        let events = each("sum up for one who leads", app.store.write(step).await)?;
        app.telemetry.metrics.digested.inc_by(events);
    }
    // Some recipients may be harnesses that are called by POST.
    app.tasks.push_due.notify_one();
    Ok(())
}

/// Covers lost wake-ups of commits and revocations, and finds inboxes that another node took over or revoked.
async fn poll(app: &App) -> Result<(), StoreError> {
    let node = app.config.node;
    // Listed before the store is read, so that an inbox that is just opening is not taken for a missing one.
    let here: Vec<_> = app.transport.live.all().into_iter().filter(|inbox| inbox.is_stored()).collect();
    let open = app.store.read::<_, StoreError, _>(move |tx: &mut dyn Tx| inboxes::on_node(tx, node)).await?;
    let open: HashMap<_, _> = open.into_iter().map(|open| (open.agent, open)).collect();
    for inbox in here {
        match open.get(&inbox.agent) {
            Some(row) if row.session == inbox.session => inbox.raise(row.head),
            _ => inbox.finish(End::TakenOver),
        }
    }
    let followed = app.transport.live.all_followed();
    if !followed.is_empty() {
        let heads = move |tx: &mut dyn Tx| streams::heads(tx, &followed);
        for (stream, head) in app.store.read::<_, StoreError, _>(heads).await? {
            app.transport.live.wake(stream, head);
        }
    }
    Ok(())
}

/// Renews the leases of the open inboxes of this node.
async fn renew(app: &App) -> Result<u64, StoreError> {
    let (now, settings) = (app.now(), Settings::new(&app.config));
    if app.transport.live.open_inboxes() == 0 {
        return Ok(0);
    }
    app.store.write(move |tx: &mut dyn Tx| steps::renew(tx, now, &settings)).await
}

/// Removes expired rows in steps until none is left.
async fn clean_up(app: &App, leases: bool) -> Result<(), StoreError> {
    // Captures no reference to the hub: the store must not keep it alive.
    let (now, settings) = (app.now(), Settings::new(&app.config));
    let step = move |tx: &mut dyn Tx| steps::clean_up(tx, now, &settings, leases);
    while app.store.write::<_, StoreError, _>(step).await? {
        if app.tasks.stopping.is_cancelled() {
            break;
        }
    }
    Ok(())
}

/// Shortens leases of other nodes that end later than any lease can, because a clock was set back.
async fn pull_back(app: &App) -> Result<(), StoreError> {
    let (now, settings) = (app.now(), Settings::new(&app.config));
    let find = move |tx: &mut dyn Tx| steps::find_ahead(tx, now, &settings);
    if app.store.read::<_, StoreError, _>(find).await? {
        let pull = move |tx: &mut dyn Tx| steps::pull_back(tx, now, &settings);
        app.store.write::<_, StoreError, _>(pull).await?;
    }
    Ok(())
}

/// Detects that the clock was set. For the duration of a lease after that, no lease counts as expired by the
/// clock.
struct ClockWatch {
    /// The wall clock minus the elapsed time.
    ahead: i64,
    set_at: Option<i64>,
}

impl ClockWatch {
    fn new(app: &App) -> Self {
        Self { ahead: app.now() - app.elapsed(), set_at: None }
    }

    fn was_clock_set(&mut self, app: &App) -> bool {
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
        self.set_at.is_none_or(|at| app.elapsed() - at > Settings::new(&app.config).longest.lease_ms)
    }
}

/// Reroutes deliveries that wait for a route that is gone or worse than another, and retries those that were
/// postponed before the clock was set back.
async fn reroute(app: &App) -> Result<(), StoreError> {
    let now = app.now();
    let find = move |tx: &mut dyn Tx| steps::find_astray(tx, now);
    if let Some(found) = app.store.read::<_, StoreError, _>(find).await? {
        let reroute = move |tx: &mut dyn Tx| steps::reroute(tx, now, &found);
        app.store.write::<_, StoreError, _>(reroute).await?;
        app.tasks.push_due.notify_one();
    }
    Ok(())
}
