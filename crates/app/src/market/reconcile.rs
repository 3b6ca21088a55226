//! The market's reconciler: deadlines, batched signs of life, totals and cleanup.
//!
//! Each step is a function of the database's state and the time. A hint may be lost and a node may die.

use super::agents::refund;
use super::books::BooksCheck;
use super::outages::OutageWatch;
use super::settle::{self, Ended};
use chorus_market::escrow::Verdict;
use chorus_node::Error;
use chorus_node::{App, AppState};
use chorus_protocol::code::Code;
use chorus_protocol::ids::JobId;
use chorus_protocol::market::UncountedReason;
use chorus_store::market::{agents, handing, jobs, ledger, quotes};
use chorus_store::{StoreError, Tx, inboxes};
use std::sync::Arc;
use std::time::Duration;

/// The interval between checks of deadlines.
const TICK: Duration = Duration::from_millis(500);
/// Ticks between two updates of the totals and cleanups of old rows.
const SLOW_TICKS: u64 = 60;
/// Jobs that one step ends at most.
const STEP: i64 = 100;
/// The time after which a job that was requested while its agent left is certainly visible.
const LEAVING_MS: i64 = 60_000;
/// The status of an overloaded endpoint.
const TOO_MANY_REQUESTS: i64 = 429;
/// The time for which quotes are kept after they expire.
const QUOTES_KEPT_MS: i64 = 24 * 60 * 60 * 1000;

/// Runs the reconciler until the hub stops.
pub async fn run(app: AppState, mut outages: OutageWatch) {
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut tick, mut books) = (0, BooksCheck::default());
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            () = app.tasks.stopping.cancelled() => break,
        }
        // Runs before deadlines are checked.
        report("note that the hub is up", outages.tick(&app).await);
        report("end overdue jobs", end_overdue(&app).await);
        report("refund the jobs of agents that left", refund_left(&app).await);
        report("write signs of life", write_seen(&app).await.map_err(Into::into));
        report("check the books", books.step(&app).await.map_err(Into::into));
        if tick % SLOW_TICKS == 0 {
            report("add up the ledger", add_up(&app).await.map_err(Into::into));
            report("forget old offers", forget_quotes(&app).await.map_err(Into::into));
        }
        tick += 1;
        app.telemetry.metrics.background_round("market");
    }
    report("write signs of life", write_seen(&app).await.map_err(Into::into));
}

fn report(what: &str, done: Result<(), Error>) {
    if let Err(error) = done {
        let cause = error.cause.as_deref().map(|cause| cause as &dyn std::error::Error);
        tracing::warn!(error = error.message, cause, "could not {what}; it is tried again");
    }
}

/// Returns whether one item of many was handled. An error of the item itself is logged and does not stop the
/// others. An error of the store affects all of them and ends this turn.
fn each(what: &str, done: Result<(), Error>) -> Result<bool, Error> {
    match done {
        Err(error) if error.code != Code::Overloaded => {
            report(what, Err(error));
            Ok(false)
        }
        done => done.map(|()| true),
    }
}

/// Fails and refunds the jobs whose deadline has passed.
pub async fn end_overdue(app: &AppState) -> Result<(), Error> {
    loop {
        let now = app.now();
        let find = move |tx: &mut dyn Tx| jobs::find_overdue(tx, now, STEP);
        let overdue = app.store.read::<_, StoreError, _>(find).await?;
        let (found, mut ended) = (overdue.len() as i64, 0);
        for id in overdue {
            let hub = Arc::clone(app);
            let end = move |tx: &mut dyn Tx| overdue_in(tx, &hub, id);
            ended += i64::from(each("end an overdue job", app.store.write::<_, Error, _>(end).await)?);
        }
        if found < STEP || ended == 0 || app.tasks.stopping.is_cancelled() {
            return Ok(());
        }
    }
}

/// Ends one overdue job. An agent that never got it was offline; an agent that had it failed to do it.
fn overdue_in(tx: &mut dyn Tx, app: &App, id: JobId) -> Result<(), Error> {
    let Some(mut job) = jobs::by_id(tx, id)? else { return Ok(()) };
    let tried = handing::last_try(tx, &job.agreed)?;
    // The endpoint may still be working and has not answered yet.
    let is_at_work = job.handed_at.is_some() && !matches!(tried, Some((Some(_), _)));
    let (code, mut why) = if is_at_work || handing::was_handed(tx, &job.agreed)? {
        (Code::ExecutionError, "the agent had the job and gave no result before its deadline".to_owned())
    } else {
        match tried {
            // The endpoint is up and refused the job. An answer that it has no room now is a decline, which its rate shows.
            Some((Some(status), _)) => {
                if status == TOO_MANY_REQUESTS {
                    job.excuse.get_or_insert(UncountedReason::Declined);
                }
                let why =
                    format!("the agent did not take the job before its deadline: it answered HTTP {status}");
                (Code::ExecutionError, why)
            }
            Some((None, Some(error))) => {
                (Code::AgentOffline, format!("the agent could not be reached before the deadline: {error}"))
            }
            Some((None, None)) | None => {
                (Code::AgentOffline, "the agent could not be reached before the deadline".to_owned())
            }
        }
    };
    if let Some(note) = &job.note {
        why = format!("{why}; {note}");
    }
    settle::settle(tx, app, &job, Verdict::Overdue, &Ended::because(code.as_str(), why))?;
    Ok(())
}

/// Refunds all open jobs of agents that left.
pub async fn refund_left(app: &AppState) -> Result<(), Error> {
    let now = app.now();
    let find = move |tx: &mut dyn Tx| {
        let leaving = agents::leaving(tx, STEP)?.into_iter();
        let look = |(agent, left_at)| Ok((agent, left_at, jobs::open_of_agent(tx, agent, 1)?.is_empty()));
        leaving.map(look).collect::<Result<Vec<_>, StoreError>>()
    };
    for (agent, left_at, is_done) in app.store.read::<_, StoreError, _>(find).await? {
        let hub = Arc::clone(app);
        if !is_done {
            let refund = move |tx: &mut dyn Tx| refund(tx, &hub, &[agent]);
            each("refund the jobs of one that left", app.store.write::<_, Error, _>(refund).await)?;
        } else if left_at < now - LEAVING_MS {
            app.store.write::<_, Error, _>(move |tx: &mut dyn Tx| Ok(agents::has_left(tx, agent)?)).await?;
        }
    }
    Ok(())
}

async fn write_seen(app: &App) -> Result<(), StoreError> {
    let now = app.now();
    let seen = app.caches.market.take_seen(now - app.config.presence.as_millis() as i64..=now);
    if seen.is_empty() {
        return Ok(());
    }
    let write = move |tx: &mut dyn Tx| seen.iter().try_for_each(|(agent, at)| inboxes::seen(tx, *agent, *at));
    app.store.write::<_, StoreError, _>(write).await
}

async fn add_up(app: &App) -> Result<(), StoreError> {
    let sums = app.store.read::<_, StoreError, _>(ledger::sums).await?;
    if !sums.balanced() {
        tracing::error!(?sums, "the ledger does not add up");
    }
    app.caches.market.added_up(sums.balanced(), app.now());
    Ok(())
}

async fn forget_quotes(app: &App) -> Result<(), StoreError> {
    let cutoff = app.now() - QUOTES_KEPT_MS;
    let old = move |tx: &mut dyn Tx| Ok(quotes::remove_before(tx, cutoff, STEP)?.len() as i64 == STEP);
    // Deletes in short steps, so that other writers do not wait long.
    while app.store.write::<_, StoreError, _>(old).await? && !app.tasks.stopping.is_cancelled() {}
    Ok(())
}
