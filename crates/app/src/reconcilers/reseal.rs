//! Seals connection strings and stored posts again after the master key was replaced.
//!
//! A secret that cannot be opened is left as it is: its key may come back.

use chorus_node::App;
use chorus_node::secrets::sealed_posts::{mark, seal_post, try_open};
use chorus_protocol::ids::{AgentId, EventId};
use chorus_store::{StoreError, Tx, conversations, sealed};

/// The log message at the end of a pass that found nothing to do.
const DONE: &str = "everything is sealed with the new master key; once all nodes run with it and all receivers of \
                    webhooks know their new secrets, CHORUS_MASTER_KEY_PREVIOUS can go";
/// Rows that one step reads.
const LOOK: i64 = 500;
const RESEAL: usize = 16;

/// The progress of a pass over all sealed values.
#[derive(Default)]
pub struct Walk {
    connections: Progress<AgentId>,
    posts: Progress<EventId>,
    /// True if a value was not sealed with the current key.
    found: bool,
    told: bool,
}

enum Progress<T> {
    After(Option<T>),
    Done,
}

impl<T> Default for Progress<T> {
    fn default() -> Self {
        Self::After(None)
    }
}

/// Seals everything with the current key. One pass runs after each start. While a former key is configured,
/// passes repeat, because other nodes may still seal with it.
pub async fn reseal(app: &App, walk: &mut Walk) -> Result<(), StoreError> {
    while !app.tasks.stopping.is_cancelled() {
        match (&walk.connections, &walk.posts) {
            (Progress::After(after), _) => {
                let after = *after;
                let (next, found) = reseal_connections(app, after).await?;
                walk.found |= found;
                walk.connections = next;
            }
            (Progress::Done, Progress::After(after)) => {
                let after = *after;
                let (next, found) = reseal_posts(app, after).await?;
                walk.found |= found;
                walk.posts = next;
            }
            (Progress::Done, Progress::Done) if app.config.master_key.previous().is_none() => break,
            (Progress::Done, Progress::Done) => {
                let found = walk.found;
                if !found && !walk.told {
                    tracing::info!("{DONE}");
                }
                *walk = Walk { told: !found, ..Walk::default() };
                if !found {
                    break;
                }
            }
        }
    }
    Ok(())
}

async fn reseal_connections(
    app: &App,
    after: Option<AgentId>,
) -> Result<(Progress<AgentId>, bool), StoreError> {
    let find = move |tx: &mut dyn Tx| sealed::connections(tx, after, LOOK);
    let page = app.store.read::<_, StoreError, _>(find).await?;
    let next = match page.last() {
        Some((last, _)) if page.len() as i64 == LOOK => Progress::After(Some(*last)),
        _ => Progress::Done,
    };
    let master = &app.config.master_key;
    let anew = |(agent, former): (AgentId, Vec<u8>)| {
        if master.open_own(agent.as_bytes(), &former).is_some() {
            return None;
        }
        let opened = master.open(agent.as_bytes(), &former)?;
        let sealed = master.seal(app.environment.bytes(), agent.as_bytes(), &opened)?;
        Some((agent, former, sealed))
    };
    let anew: Vec<_> = page.into_iter().filter_map(anew).collect();
    if anew.is_empty() {
        return Ok((next, false));
    }
    let write = move |tx: &mut dyn Tx| {
        anew.iter()
            .try_for_each(|(agent, former, sealed)| sealed::replace_connection(tx, *agent, former, sealed))
    };
    app.store.write::<_, StoreError, _>(write).await?;
    Ok((next, true))
}

async fn reseal_posts(app: &App, after: Option<EventId>) -> Result<(Progress<EventId>, bool), StoreError> {
    let mark = mark(&app.config.master_key);
    let find = move |tx: &mut dyn Tx| sealed::posts(tx, after, &mark, LOOK);
    let mut page = app.store.read::<_, StoreError, _>(find).await?;
    let full = page.len() as i64 == LOOK;
    // Rows after the last one that is resealed in this step wait for the next.
    let stale = page.iter().enumerate().filter(|(_, (_, current))| !current);
    let cut = stale.map(|(place, _)| place).nth(RESEAL);
    page.truncate(cut.unwrap_or(page.len()));
    let next = match page.last() {
        Some((last, _)) if full || cut.is_some() => Progress::After(Some(*last)),
        _ => Progress::Done,
    };
    let stale: Vec<_> = page.into_iter().filter(|(_, current)| !current).map(|(event, _)| event).collect();
    if stale.is_empty() {
        return Ok((next, false));
    }
    let (master, environment) = (app.config.master_key.clone(), app.environment.clone());
    let write = move |tx: &mut dyn Tx| {
        let mut found = false;
        for event in &stale {
            let Some(stored) = conversations::event_by_id(tx, *event)? else { continue };
            let opened = try_open(&master, *event, &stored.body);
            let sealed = opened.and_then(|body| seal_post(&master, environment.bytes(), *event, &body));
            if let Some(sealed) = sealed {
                sealed::replace_post(tx, *event, &sealed)?;
                found = true;
            }
        }
        Ok(found)
    };
    let found = app.store.write::<_, StoreError, _>(write).await?;
    Ok((next, found))
}
