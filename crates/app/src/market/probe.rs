//! Asking endpoints whether they live: those for jobs, harnesses, and what is behind connection strings.
//!
//! A worker that knows the document alone sends no heartbeat: it registers once and waits for jobs. So whoever looks for a skill, or
//! hires, has those asked that would be found if they were not away: the best few of them, at once, for a moment. As long as these say
//! nothing the next few are asked as well, so that many who are silent do not hide one who would answer. Each is asked once in a while,
//! however many look, and the more seldom the more often it was silent; an answer is a sign of life like any other. Nobody is
//! asked because time passes.

use super::presence::{presence, seen_since};
use crate::app::{App, AppState};
use crate::error::Error;
use crate::transport::limits::Cause;
use crate::transport::outbound::To;
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

/// So many are asked at once, and so many answers are enough.
const AT_ONCE: usize = 8;
/// So many are asked for one search, and so many at one server: else whoever has many agents there would use it up.
const MOST_ASKED: usize = 4 * AT_ONCE;
const MOST_OF_SERVER: usize = AT_ONCE;
/// So many are looked at for them.
const MOST_FOUND: usize = 8 * MOST_ASKED;
/// After this time the next ones are asked.
const NEXT_AFTER: Duration = Duration::from_millis(250);
/// How long an answer may take; whoever searches waits for it.
const PATIENCE: Duration = Duration::from_secs(2);
/// Whoever did not answer is not asked again for this long, or for half of what a sign of life counts; twice as long each time it
/// was silent again, but not for ever.
const PAUSE_MS: i64 = 15_000;

/// Before agents are shown: as [`wake_found`], but the same search again within a second looks for nobody, since what is popular is
/// searched for all the time.
pub(super) async fn wake_shown(app: &AppState, search: &Search, shown: usize) -> Result<(), Error> {
    let Search { skill, min_reputation, max_cost, words, .. } = search;
    let (key, now) = (format!("{skill:?} {min_reputation} {max_cost} {words:?} {shown}"), app.elapsed());
    if app.market.probes.has_looked(&key, now) {
        return Ok(());
    }
    wake_found(app, search, shown).await?;
    // Only now: whoever comes meanwhile waits for the same answers.
    app.market.probes.looked(key, now);
    Ok(())
}

fn pause_ms(app: &App) -> i64 {
    PAUSE_MS.min(app.config.presence.as_millis() as i64 / 2)
}

/// Asks the best that this search would find if they were not away, unless `enough` are found before them.
pub(super) async fn wake_found(app: &AppState, search: &Search, enough: usize) -> Result<(), Error> {
    let (hub, search) = (Arc::clone(app), search.clone());
    let find = move |tx: &mut dyn Tx| {
        let (now, pause_ms) = (hub.elapsed(), pause_ms(&hub));
        let wanted = |agent| !hub.market.probes.is_silent(agent, now, pause_ms);
        let found = discovery::away(tx, &search, seen_since(&hub), (MOST_FOUND, enough), &wanted)?;
        Ok(spread(workers(tx, &hub, &found)?))
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

/// Those that are asked: at each server the best few.
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
    let now = (app.elapsed(), app.now());
    let answers = join_all(workers.iter().zip(0..).map(|(to, place)| async move {
        if place >= AT_ONCE {
            tokio::time::sleep(NEXT_AFTER * (place / AT_ONCE) as u32).await;
            if answered.load(Ordering::Relaxed) >= AT_ONCE {
                return None;
            }
        }
        let probe = app.market.probes.question(to.receiver, now, pause_ms)?;
        let lives = *probe.answered.get_or_init(|| app.outbound.probe(to, PATIENCE)).await;
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
