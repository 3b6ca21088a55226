//! Asking endpoints whether they live: those for jobs, harnesses, and what is behind connection strings.
//!
//! A worker that knows the document alone sends no heartbeat: it registers once and waits for jobs. So whoever looks for a skill, or
//! hires, has those asked that would be found if they were not away: the best few of them, at once, for a moment. Each is asked once
//! in a while, however many look, and an answer is a sign of life like any other. Nobody is asked because time passes.

use super::presence::{presence, seen_since};
use crate::app::{App, AppState};
use crate::delivery::limits::Cause;
use crate::delivery::outbound::To;
use crate::error::Error;
use chorus_protocol::ids::AgentId;
use chorus_protocol::market::Presence;
use chorus_store::deliveries::{self, Way};
use chorus_store::market::agents;
use chorus_store::market::discovery::{self, Search};
use chorus_store::{StoreError, Tx, directory, inboxes};
use futures_util::future::join_all;
use std::sync::Arc;
use std::time::Duration;

/// So many are asked for one search.
const ASKED: usize = 8;
/// How long an answer may take; whoever searches waits for it.
const PATIENCE: Duration = Duration::from_secs(2);
/// Whoever did not answer is not asked again for this long, or for half of what a sign of life counts.
const PAUSE_MS: i64 = 15_000;

/// Before agents are shown: as [`wake_found`], but the same search again within a second looks for nobody, since what is popular is
/// searched for all the time.
pub(super) async fn wake_shown(app: &AppState, search: &Search) -> Result<(), Error> {
    let Search { skill, min_reputation, max_cost, words, .. } = search;
    let (key, now) = (format!("{skill:?} {min_reputation} {max_cost} {words:?}"), app.now());
    if app.market.probes.has_looked(&key, now) {
        return Ok(());
    }
    wake_found(app, search).await?;
    // Only now: whoever comes meanwhile waits for the same answers.
    app.market.probes.looked(key, now);
    Ok(())
}

fn pause_since(app: &App) -> i64 {
    app.now() - PAUSE_MS.min(app.config.presence.as_millis() as i64 / 2)
}

/// Asks the best that this search would find if they were not away.
pub(super) async fn wake_found(app: &AppState, search: &Search) -> Result<(), Error> {
    let (hub, search) = (Arc::clone(app), search.clone());
    let find = move |tx: &mut dyn Tx| {
        let silent_since = pause_since(&hub);
        let wanted = |agent| !hub.market.probes.is_silent(agent, silent_since);
        let found = discovery::away(tx, &search, seen_since(&hub), ASKED, &wanted)?;
        workers(tx, &hub, &found)
    };
    ask(app, app.store.read::<_, StoreError, _>(find).await?).await
}

/// Asks this one, if it is away.
pub(super) async fn wake(app: &AppState, agent: AgentId) -> Result<(), Error> {
    let hub = Arc::clone(app);
    let find = move |tx: &mut dyn Tx| workers(tx, &hub, &[agent]);
    ask(app, app.store.read::<_, StoreError, _>(find).await?).await
}

/// Those of these that are away and would be POSTed a job: where that is, and whether it is proven.
fn workers(tx: &mut dyn Tx, app: &App, found: &[AgentId]) -> Result<Vec<To>, StoreError> {
    let mut workers = vec![];
    for id in found {
        let Some(agent) = directory::by_id(tx, *id)? else { continue };
        if agent.disabled_at.is_some() || presence(app, agent.open_until, agent.seen_at).0 == Presence::Online
        {
            continue;
        }
        let worker = agents::as_worker(tx, agent)?;
        let (url, proven) = match deliveries::way_of_push(&worker) {
            Way::Harness => (worker.harness, true),
            Way::Webhook => (worker.endpoint, worker.proven),
            Way::Connection => {
                let sealed = worker.connection.as_deref().unwrap_or_default();
                (app.config.master_key.open(id.as_bytes(), sealed), true)
            }
            Way::Session | Way::Inbox | Way::WaitBehind(_) | Way::WaitForOwner(_) => (None, false),
        };
        let cause = Cause::Push;
        workers.extend(url.map(|url| To { url, receiver: *id, sender: None, cause, proven }));
    }
    Ok(workers)
}

async fn ask(app: &AppState, workers: Vec<To>) -> Result<(), Error> {
    let (now, since) = (app.now(), pause_since(app));
    let asked =
        workers.iter().filter_map(|to| Some((to, app.market.probes.question(to.receiver, now, since)?)));
    let answers = join_all(asked.map(|(to, probe)| async move {
        let lives = *probe.answered.get_or_init(|| app.outbound.probe(to, PATIENCE)).await;
        lives.then_some((to.receiver, probe.at))
    }));
    let alive: Vec<_> = answers.await.into_iter().flatten().collect();
    if alive.is_empty() {
        return Ok(());
    }
    let write =
        move |tx: &mut dyn Tx| alive.iter().try_for_each(|(agent, at)| inboxes::seen(tx, *agent, *at));
    Ok(app.store.write::<_, StoreError, _>(write).await?)
}
