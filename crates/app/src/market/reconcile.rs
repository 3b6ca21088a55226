//! What happens on the market by itself: deadlines, signs of life that are written together, and adding it all up.
//!
//! Reconcilers: functions of the database's state and the time. A hint may be lost and a node may die.

use super::agents::refund;
use super::settle::{self, Ended};
use super::who;
use crate::app::{App, AppState};
use crate::error::Error;
use chorus_market::escrow::Verdict;
use chorus_protocol::code::Code;
use chorus_protocol::ids::JobId;
use chorus_store::market::{agents, jobs, ledger, quotes};
use chorus_store::usage::ROW_BYTES;
use chorus_store::{StoreError, Tx, inboxes};
use std::sync::Arc;
use std::time::Duration;

/// How often deadlines are looked at.
const TICK: Duration = Duration::from_millis(500);
/// Every so many ticks it is all added up, and what is old is forgotten.
const SLOW_TICKS: u64 = 60;
/// So many jobs are ended in one step.
const STEP: i64 = 100;
/// Somebody who hired an agent at the moment it left is done with after this time.
const LEAVING_MS: i64 = 60_000;
/// How long offers are remembered beyond their end.
const QUOTES_KEPT_MS: i64 = 24 * 60 * 60 * 1000;

/// Ticks until the hub stops.
pub async fn run(app: AppState) {
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut tick = 0;
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            () = app.stopping.cancelled() => break,
        }
        report("end overdue jobs", end_overdue(&app).await);
        report("refund the jobs of agents that left", refund_left(&app).await);
        report("write signs of life", write_seen(&app).await.map_err(Into::into));
        if tick % SLOW_TICKS == 0 {
            report("add up the ledger", add_up(&app).await.map_err(Into::into));
            report("forget old offers", forget_quotes(&app).await.map_err(Into::into));
        }
        tick += 1;
    }
    report("write signs of life", write_seen(&app).await.map_err(Into::into));
}

fn report(what: &str, done: Result<(), Error>) {
    if let Err(error) = done {
        tracing::warn!(error = error.message, "could not {what}; it is tried again");
    }
}

/// Jobs whose time is over fail, and are refunded.
pub async fn end_overdue(app: &AppState) -> Result<(), Error> {
    loop {
        let now = app.now();
        let find = move |tx: &mut dyn Tx| jobs::find_overdue(tx, now, STEP);
        let overdue = app.store.read::<_, StoreError, _>(find).await?;
        let more = overdue.len() as i64 == STEP;
        for id in overdue {
            let hub = Arc::clone(app);
            app.store.write::<_, Error, _>(move |tx: &mut dyn Tx| overdue_in(tx, &hub, id)).await?;
        }
        if !more || app.stopping.is_cancelled() {
            return Ok(());
        }
    }
}

/// Ends one job whose time is over: whoever never answered was away, whoever had it did not do it.
fn overdue_in(tx: &mut dyn Tx, app: &App, id: JobId) -> Result<(), Error> {
    let Some(job) = jobs::by_id(tx, id)? else { return Ok(()) };
    let (code, mut why) = if jobs::was_handed(tx, &job.agreed)? {
        (Code::ExecutionError, "the agent had the job and gave no result before its deadline".to_owned())
    } else {
        match jobs::last_try(tx, &job.agreed)? {
            // It is there, and would not have it.
            Some((Some(status), _)) => {
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

/// Agents that left, by whatever door: what is held for their open jobs goes back, however many there are.
pub async fn refund_left(app: &AppState) -> Result<(), Error> {
    let now = app.now();
    let find = move |tx: &mut dyn Tx| {
        let leaving = agents::leaving(tx, STEP)?.into_iter();
        let look =
            |(agent, left_at)| Ok((agent, left_at, jobs::open_of_agent(tx, agent, now, 1)?.is_empty()));
        leaving.map(look).collect::<Result<Vec<_>, StoreError>>()
    };
    for (agent, left_at, is_done) in app.store.read::<_, StoreError, _>(find).await? {
        let hub = Arc::clone(app);
        if !is_done {
            app.store.write::<_, Error, _>(move |tx: &mut dyn Tx| refund(tx, &hub, agent)).await?;
        } else if left_at < now - LEAVING_MS {
            app.store.write::<_, Error, _>(move |tx: &mut dyn Tx| Ok(agents::has_left(tx, agent)?)).await?;
        }
    }
    Ok(())
}

async fn write_seen(app: &App) -> Result<(), StoreError> {
    let seen = app.market.take_seen(app.now() - app.config.presence.as_millis() as i64);
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
    app.market.added_up(sums.balanced(), app.now());
    Ok(())
}

async fn forget_quotes(app: &App) -> Result<(), StoreError> {
    let cutoff = app.now() - QUOTES_KEPT_MS;
    let usage = Arc::clone(&app.usage);
    let old = move |tx: &mut dyn Tx| {
        let removed = quotes::remove_before(tx, cutoff, STEP)?.into_iter();
        usage.give_back(tx, removed.map(|(wallet, bytes)| (who::by_wallet(wallet), bytes + ROW_BYTES)));
        Ok(())
    };
    app.store.write::<_, StoreError, _>(old).await
}
