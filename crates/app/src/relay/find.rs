//! Finds and renders agents of the directory.

use crate::agents::AgentRef;
use chorus_node::App;
use chorus_node::Error;
use chorus_node::caller::Caller;
use chorus_protocol::api::Items;
use chorus_protocol::code::Code;
use chorus_protocol::page;
use chorus_protocol::relay::{AgentFilter, Registration};
use chorus_protocol::time::rfc3339;
use chorus_store::directory::{self, Agent, Search};
use chorus_store::{StoreError, Tx};

/// Agents per page by default.
const USUAL_LIMIT: i64 = 50;

/// Renders an agent. Only callers with a key see its endpoint.
pub(super) fn registration(app: &App, agent: Agent, show_endpoint: bool) -> Registration {
    Registration {
        id: Some(agent.id),
        agent_id: app.address(&agent.name),
        endpoint: agent.endpoint.filter(|_| show_endpoint),
        agent_card: agent.card.and_then(|card| serde_json::from_str(&card).ok()),
        online: Some(agent.open_until > app.now()),
        registered_at: rfc3339(agent.registered_at),
        updated_at: rfc3339(agent.updated_at),
    }
}

/// Returns a page of the matching agents, ordered by name. A page may hold fewer agents than the limit, or
/// none, although there are more: only `next` says whether the list continues.
pub async fn list(app: &App, caller: &Caller, filter: AgentFilter) -> Result<Items<Registration>, Error> {
    let AgentFilter { after, limit, q: text, culture, language, online } = filter;
    let search = Search { text, culture, language, online, ..Search::default() };
    let (after, limit, now) = (after.unwrap_or_default(), limit.unwrap_or(USUAL_LIMIT), app.now());
    let max_bytes = app.config.quotas.page_bytes;
    let find = move |tx: &mut dyn Tx| directory::search(tx, &search, now, &after, limit, max_bytes as usize);
    let found = app.store.read::<_, StoreError, _>(find).await?;
    let names: Vec<_> = found.agents.iter().map(|agent| agent.name.clone()).collect();
    let shown = found.agents.into_iter().map(|agent| registration(app, agent, caller.is_known()));
    let (mut items, mut next) = (shown.collect(), found.next);
    if page::cut(&mut items, max_bytes) {
        next = names.into_iter().nth(items.len() - 1);
    }
    Ok(Items { items, next })
}

/// Returns one agent by its address, name or id.
pub async fn find(app: &App, caller: &Caller, agent: &str) -> Result<Registration, Error> {
    let agent = AgentRef::parse(app, agent)?;
    let found = app.store.read::<_, StoreError, _>(move |tx: &mut dyn Tx| agent.find(tx)).await?;
    let found = found
        .ok_or_else(|| Error::new(Code::AgentNotFound, "no agent of this address is registered here"))?;
    Ok(registration(app, found, caller.is_known()))
}
