//! Probes job endpoints, harnesses and targets of connection strings for a sign of life.
//!
//! A worker that implements only the job document sends no heartbeat: it registers once and waits for jobs. So
//! a search or a hire probes the agents that it would find if they were online: the best few, all at once and
//! briefly. While these are silent, the next few are probed as well, so that many silent agents do not hide
//! one that would answer. Each agent is probed at most once per pause, however many callers search, and the
//! pause grows with each silence. An answer is a sign of life like any other. No timer ever starts a probe.

use super::presence::{presence, seen_since};
use chorus_node::Error;
use chorus_node::transport::outbound::To;
use chorus_node::transport::outbound_limits::Cause;
use chorus_node::{App, AppState};
use chorus_protocol::ids::AgentId;
use chorus_protocol::market::Presence;
use chorus_store::deliveries::{self, Way};
use chorus_store::market::agents;
use chorus_store::market::discovery::{self, Search};
use chorus_store::{StoreError, Tx, directory, inboxes};
use futures_util::future::join_all;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use url::{Origin, Url};

/// Agents probed at once, and answers that are enough.
const AT_ONCE: usize = 8;
/// Agents probed for one search. The limit per server is lower, so that an owner with many agents there does
/// not use it up.
const MOST_ASKED: usize = 4 * AT_ONCE;
const MOST_OF_SERVER: usize = AT_ONCE;
/// Candidates read from the store for one search.
const MOST_FOUND: usize = 8 * MOST_ASKED;
/// The delay after which the next group is probed.
const NEXT_AFTER: Duration = Duration::from_millis(250);
/// The time limit for an answer. The searching caller waits for it.
const PATIENCE: Duration = Duration::from_secs(2);
/// The pause after a silent probe, at most half the time that a sign of life counts. It doubles with each
/// further silence, up to a limit.
const PAUSE_MS: i64 = 15_000;

/// Does the same as [`wake_found`] before agents are shown, but skips a search that was probed within the last
/// second, because popular searches repeat all the time.
pub(super) async fn wake_shown(app: &AppState, search: &Search, shown: usize) -> Result<(), Error> {
    let Search { skill, min_reputation, max_cost, words, .. } = search;
    let (key, now) = (format!("{skill:?} {min_reputation} {max_cost} {words:?} {shown}"), app.elapsed());
    if app.caches.market.probes.has_looked(&key, now) {
        return Ok(());
    }
    wake_found(app, search, shown).await?;
    // Recorded last: a caller that searches meanwhile waits for the same answers.
    app.caches.market.probes.looked(key, now);
    Ok(())
}

fn pause_ms(app: &App) -> i64 {
    PAUSE_MS.min(app.config.presence.as_millis() as i64 / 2)
}

/// Probes the best offline agents that this search would find, unless `enough` online ones rank before them.
pub(super) async fn wake_found(app: &AppState, search: &Search, enough: usize) -> Result<(), Error> {
    let (hub, search) = (Arc::clone(app), search.clone());
    let find = move |tx: &mut dyn Tx| {
        let (now, pause_ms) = (hub.elapsed(), pause_ms(&hub));
        let wanted = |agent| !hub.caches.market.probes.is_silent(agent, now, pause_ms);
        let found = discovery::away(tx, &search, seen_since(&hub), MOST_FOUND, enough, &wanted)?;
        Ok(spread(workers(tx, &hub, &found)?))
    };
    ask(app, app.store.read::<_, StoreError, _>(find).await?).await
}

/// Probes one agent if it is offline.
pub(super) async fn wake(app: &AppState, agent: AgentId) -> Result<(), Error> {
    let hub = Arc::clone(app);
    let find = move |tx: &mut dyn Tx| workers(tx, &hub, &[agent]);
    ask(app, app.store.read::<_, StoreError, _>(find).await?).await
}

/// Returns the job addresses of those agents that are offline and get jobs by POST.
fn workers(tx: &mut dyn Tx, app: &App, found: &[AgentId]) -> Result<Vec<To>, StoreError> {
    let mut workers = vec![];
    for id in found {
        let Some(agent) = directory::by_id(tx, *id)? else { continue };
        if agent.disabled_at.is_some() || presence(app, (&agent).into()).0 == Presence::Online {
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

/// Picks the agents to probe: the best few of each server.
fn spread(mut workers: Vec<To>) -> Vec<To> {
    let mut servers: HashMap<Origin, usize> = HashMap::new();
    workers.retain(|to| {
        let Ok(url) = Url::parse(&to.url) else { return false };
        let asked = servers.entry(url.origin()).or_default();
        *asked += 1;
        *asked <= MOST_OF_SERVER
    });
    workers.truncate(MOST_ASKED);
    workers
}

async fn ask(app: &AppState, workers: Vec<To>) -> Result<(), Error> {
    let (pause_ms, answered) = (pause_ms(app), &AtomicUsize::new(0));
    let (now, seen_at) = (app.elapsed(), app.now());
    let answers = join_all(workers.iter().zip(0..).map(|(to, place)| async move {
        if place >= AT_ONCE {
            tokio::time::sleep(NEXT_AFTER * (place / AT_ONCE) as u32).await;
            if answered.load(Ordering::Relaxed) >= AT_ONCE {
                return None;
            }
        }
        let probe = app.caches.market.probes.question(to.receiver, now, seen_at, pause_ms)?;
        let lives = *probe.answered.get_or_init(|| app.transport.outbound.probe(to, PATIENCE)).await;
        answered.fetch_add(usize::from(lives), Ordering::Relaxed);
        lives.then_some((to.receiver, probe.seen_at))
    }));
    let alive: Vec<_> = answers.await.into_iter().flatten().collect();
    if alive.is_empty() {
        return Ok(());
    }
    let write =
        move |tx: &mut dyn Tx| alive.iter().try_for_each(|(agent, at)| inboxes::seen(tx, *agent, *at));
    Ok(app.store.write::<_, StoreError, _>(write).await?)
}
