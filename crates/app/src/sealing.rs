//! What the database keeps for others and must not tell: posts of other services, whose callbacks and bearers are
//! secrets, sealed for their event; and the reconciler that seals anew what another key sealed, or nobody did.
//!
//! A sealed post names the key it was sealed with, so that those of another one are found without opening any. What
//! cannot be opened is left as it is: its key may come back.

use crate::app::App;
use crate::secrets::MasterKey;
use chorus_protocol::ids::{AgentId, EventId};
use chorus_store::{StoreError, Tx, conversations, sealed};
use data_encoding::BASE64URL_NOPAD;

/// What a sealed post begins with; one from before there were seals is JSON.
const SEALED: &str = "sealed:";
/// Told instead of a post that cannot be opened.
const UNREADABLE: &str =
    r#"{"error":"this message was sealed with a master key that this hub does not have any more"}"#;
/// Told at the end of a walk that found nothing to do.
const DONE: &str = "everything is sealed with the new master key; once all nodes run with it and all receivers of \
                    webhooks know their new secrets, CHORUS_MASTER_KEY_PREVIOUS can go";
/// How much one step looks at, and how many posts of up to 256 KiB it seals anew.
const LOOK: i64 = 500;
const RESEAL: usize = 16;

/// What every post sealed with this key begins with.
fn mark(master: &MasterKey) -> String {
    format!("{SEALED}{}:", &master.fingerprint()[..8])
}

/// A post as it is stored.
pub fn seal_post(master: &MasterKey, nonce: [u8; 12], event: EventId, body: &str) -> Option<String> {
    let sealed = master.seal(nonce, event.as_bytes(), body)?;
    Some(format!("{}{}", mark(master), BASE64URL_NOPAD.encode(&sealed)))
}

/// A post as it came.
pub fn open_post(master: &MasterKey, event: EventId, stored: &str) -> String {
    try_open(master, event, stored).unwrap_or_else(|| {
        tracing::warn!(%event, "a post of another service cannot be opened with this master key");
        UNREADABLE.into()
    })
}

fn try_open(master: &MasterKey, event: EventId, stored: &str) -> Option<String> {
    let Some(sealed) = stored.strip_prefix(SEALED) else { return Some(stored.into()) };
    let (_, sealed) = sealed.split_once(':')?;
    master.open(event.as_bytes(), &BASE64URL_NOPAD.decode(sealed.as_bytes()).ok()?)
}

/// How far the reconciler has come on its way through everything that is sealed.
#[derive(Default)]
pub struct Walk {
    connections: Progress<AgentId>,
    posts: Progress<EventId>,
    /// Whether something was not as it should be.
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

/// A reconciler: everything is sealed with the current key. One walk after each start; while a former key is given, one
/// after another, because other nodes may still seal with it.
pub async fn reseal(app: &App, walk: &mut Walk) -> Result<(), StoreError> {
    while !app.stopping.is_cancelled() {
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
    // Those after the last one that is sealed anew in this step are for the next.
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
