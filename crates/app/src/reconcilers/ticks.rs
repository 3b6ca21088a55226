//! When the steps of background work are taken, and that one that fails is reported and tried again at its next turn.
//! [`Ticks`] is all of it but the waiting, so that a simulation takes the same ticks.

use super::steps::{self, Settings};
use crate::app::{App, AppState};
use crate::attention::overdue::{self, Due};
use crate::attention::{digesting, offering};
use crate::away::tell_away;
use crate::background::{each, report};
use crate::conversation;
use crate::delivery::handed::record_handed;
use crate::transport::dialect::End;
use chorus_protocol::ids::{EventId, TraceId};
use chorus_store::{Kind, StoreError, Tx, approvals, inboxes, sent, streams};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// A clock that moves more than this from one tick to the next was set.
const MAX_DRIFT_MS: i64 = 2000;
/// How often watermarks are written, and other nodes' commits looked for.
const TICK: Duration = Duration::from_millis(500);
/// Every so many ticks it is written what is stored of whom.
const USAGE_TICKS: u64 = 2;
/// How much of what is due one tick attends to.
const ATTEND_STEP: i64 = 200;
/// Every so many ticks the slower steps run, or as soon as so much time has passed: ticks of a busy hub come late.
const SLOW_TICKS: u64 = 20;

/// Ticks until the hub stops, and does the last things once more then.
pub async fn run(app: AppState) {
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut ticks = Ticks::new(&app);
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            () = app.stopping.cancelled() => break,
        }
        ticks.take(&app).await;
    }
    report("record what was handed", record_handed(&app, app.live.all()).await);
    report("record what is stored", app.usage.flush(&app.store).await);
    report("record which tools were called", app.tool_log.flush(&app.store).await);
    report("record what harnesses say", app.harness_log.flush(&app.store).await);
}

/// The ticks of the background work, one each half a second.
pub struct Ticks {
    next: u64,
    /// In ticks: three chances before a lease runs out.
    renew_every: u64,
    watch: ClockWatch,
    /// After which tick, and how much time, the slower steps run next.
    slow_next: (u64, i64),
}

impl Ticks {
    pub fn new(app: &App) -> Self {
        let renew_every = app.config.presence.as_millis() / TICK.as_millis() / 3;
        let renew_every = renew_every.clamp(1, u128::from(SLOW_TICKS)) as u64;
        Self { next: 0, renew_every, watch: ClockWatch::new(app), slow_next: (0, app.elapsed()) }
    }

    /// Does what is to be done in the next one.
    pub async fn take(&mut self, app: &AppState) {
        let tick = self.next;
        self.next += 1;
        app.metrics.inboxes.set(app.live.open_inboxes() as i64);
        app.metrics.queued.set(app.store.queued() as i64);
        report("record what was handed", record_handed(app, app.live.all()).await);
        if app.store.kind() == Kind::Postgres {
            report("look at other nodes' commits", poll(app).await);
        }
        report("bring in order what was sent", sort_sent(app).await);
        report("record which tools were called", app.tool_log.flush(&app.store).await);
        report("record what harnesses say", app.harness_log.flush(&app.store).await);
        report("count what was saved", app.turns_saved.flush(&app.store, &app.metrics).await);
        if tick.is_multiple_of(USAGE_TICKS) {
            report("record what is stored", app.usage.flush(&app.store).await);
        }
        // Whoever sets the clock finds everything as it should be.
        let is_slow = self.watch.was_clock_set(app) || self.is_time_for_slow(app, tick);
        if is_slow || tick.is_multiple_of(self.renew_every) {
            report("renew open inboxes", renew(app).await);
        }
        report("attend to what is due", attend(app).await);
        report("end what waits for a person", end_waiting(app).await);
        if is_slow {
            self.slow_next = (tick + SLOW_TICKS, app.elapsed() + SLOW_TICKS as i64 * TICK.as_millis() as i64);
            report("end what the clock would keep", pull_back(app).await);
            report("clean up", clean_up(app, self.watch.can_judge_leases(app)).await);
            report("look for better ways", reroute(app).await);
            report("tell who is away", tell_away(app).await);
            report("sum up for who leads", sum_up(app).await);
        }
    }

    fn is_time_for_slow(&self, app: &App, tick: u64) -> bool {
        tick >= self.slow_next.0 || app.elapsed() >= self.slow_next.1
    }
}

/// Brings what was sent lately in order.
async fn sort_sent(app: &App) -> Result<(), StoreError> {
    while !app.stopping.is_cancelled() && sent::sort_a_lot(&app.store).await? {}
    Ok(())
}

/// Takes the next steps of what agents were given, and of claims, one at a time.
async fn attend(app: &App) -> Result<(), StoreError> {
    let now = app.now();
    let find = move |tx: &mut dyn Tx| overdue::find(tx, now, ATTEND_STEP);
    let Due { given, claims } = app.store.read::<_, StoreError, _>(find).await?;
    if given.is_empty() && claims.is_empty() {
        return Ok(());
    }
    // Who is connected here is there, whatever the clock says.
    renew(app).await?;
    let mut sent = false;
    for due in given {
        let escalation = EventId(app.environment.uuid_v7());
        let step = move |tx: &mut dyn Tx| overdue::attend(tx, now, due, escalation);
        sent |= each("take a step of what is due", app.store.write(step).await)?;
    }
    for due in claims {
        let step = move |tx: &mut dyn Tx| {
            offering::offer_again(tx, now, due).map_err(|error| StoreError::Unexpected(error.message.into()))
        };
        sent |= each("offer something again", app.store.write(step).await)?;
        conversation::tell_attention(app, (due.1, due.0));
    }
    if sent {
        app.due.notify_one();
    }
    Ok(())
}

/// What waited for a person long enough, or in vain, ends: one at a time.
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

/// Tells those who lead how much happened, one at a time.
async fn sum_up(app: &App) -> Result<(), StoreError> {
    let now = app.now();
    let find = move |tx: &mut dyn Tx| digesting::find(tx, now, ATTEND_STEP);
    let found = app.store.read::<_, StoreError, _>(find).await?;
    if found.is_empty() {
        return Ok(());
    }
    for of in found {
        let ids = (EventId(app.environment.uuid_v7()), TraceId(app.environment.uuid_v7()));
        let step = move |tx: &mut dyn Tx| digesting::tell(tx, now, of, ids);
        let events = each("sum up for one who leads", app.store.write(step).await)?;
        app.metrics.digested.inc_by(events);
    }
    // Some may be for harnesses that are called.
    app.due.notify_one();
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
    let (now, settings) = (app.now(), Settings::new(&app.config));
    if app.live.open_inboxes() == 0 {
        return Ok(0);
    }
    app.store.write(move |tx: &mut dyn Tx| steps::renew(tx, now, &settings)).await
}

/// What is over is brought to its end.
async fn clean_up(app: &App, leases: bool) -> Result<(), StoreError> {
    // Not the whole hub: the store must not keep it alive.
    let (now, settings, usage) = (app.now(), Settings::new(&app.config), Arc::clone(&app.usage));
    let step = move |tx: &mut dyn Tx| steps::clean_up(tx, now, &settings, leases, &usage);
    while app.store.write::<_, StoreError, _>(step.clone()).await? {
        if app.stopping.is_cancelled() {
            break;
        }
    }
    Ok(())
}

/// What others hold for longer than anybody can, because a clock was set back, ends.
async fn pull_back(app: &App) -> Result<(), StoreError> {
    let (now, settings) = (app.now(), Settings::new(&app.config));
    let find = move |tx: &mut dyn Tx| steps::find_ahead(tx, now, &settings);
    if app.store.read::<_, StoreError, _>(find).await? {
        let pull = move |tx: &mut dyn Tx| steps::pull_back(tx, now, &settings);
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

/// What waits for a way that is gone or worse than another goes the other one, and what was put off before the clock was set back is
/// tried now.
async fn reroute(app: &App) -> Result<(), StoreError> {
    let now = app.now();
    let find = move |tx: &mut dyn Tx| steps::find_astray(tx, now);
    if let Some(found) = app.store.read::<_, StoreError, _>(find).await? {
        let reroute = move |tx: &mut dyn Tx| steps::reroute(tx, now, &found);
        app.store.write::<_, StoreError, _>(reroute).await?;
        app.due.notify_one();
    }
    Ok(())
}
