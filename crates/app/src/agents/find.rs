//! Lookups in the directory of agents.

use super::{AgentRef, view, whole_view};
use chorus_node::Error;
use chorus_node::caller::Caller;
use chorus_node::page::fitting;
use chorus_node::{App, AppState};
use chorus_protocol::api::Items;
use chorus_protocol::api::agents::{AgentSearch, AgentView};
use chorus_protocol::ids::AgentId;
use chorus_store::Tx;
use chorus_store::directory::{self, Search};
use std::sync::Arc;

/// Returns the named agent as the caller may see it.
pub async fn agent(app: &AppState, caller: Caller, named: &str) -> Result<AgentView, Error> {
    let (named, hub) = (AgentRef::parse(app, named)?, Arc::clone(app));
    let find = move |tx: &mut dyn Tx| {
        let agent = named.find(tx)?.ok_or_else(|| Error::not_found("agent"))?;
        Ok(whole_view(tx, &hub, &caller, &agent)?)
    };
    app.store.read::<_, Error, _>(find).await
}

/// Returns a page of this hub's agents, ordered by name. A page may hold fewer agents than `limit` although
/// more follow.
pub async fn list(app: &AppState, caller: &Caller, asked: AgentSearch) -> Result<Items<AgentView>, Error> {
    let AgentSearch { after, limit, q, online, mine } = asked;
    let owner = if mine { Some(caller.person()?.id) } else { None };
    let search = Search { described: true, text: q, online, owner, ..Search::default() };
    let (now, after, max_bytes) =
        (app.now(), after.unwrap_or_default(), app.config.quotas.page_bytes as usize);
    let find = move |tx: &mut dyn Tx| Ok(directory::search(tx, &search, now, &after, limit, max_bytes)?);
    let found = app.store.read::<_, Error, _>(find).await?;
    let items = found.agents.iter().map(|agent| view(app, caller, agent)).collect();
    Ok(fitting(app, items, found.next, |last: &AgentView| last.name.clone()))
}

/// Returns those of the given agents that exist, as the caller may see them.
pub async fn some(app: &AppState, caller: &Caller, ids: Vec<AgentId>) -> Result<Vec<AgentView>, Error> {
    let (hub, caller) = (Arc::clone(app), caller.clone());
    let find = move |tx: &mut dyn Tx| {
        let mut found = vec![];
        for id in &ids {
            found.extend(directory::by_id(tx, *id)?.map(|agent| view(&hub, &caller, &agent)));
        }
        Ok(found)
    };
    app.store.read::<_, Error, _>(find).await
}

/// Returns the number of agents on this hub.
pub async fn count(app: &App) -> Result<i64, Error> {
    app.store.read::<_, Error, _>(|tx: &mut dyn Tx| Ok(directory::count(tx)?)).await
}
