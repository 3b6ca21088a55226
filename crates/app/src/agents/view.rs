//! Views of agents, by the rights of the caller.

use super::reference::may_manage;
use crate::allowance;
use chorus_node::App;
use chorus_node::caller::Caller;
use chorus_protocol::api::agents::{AgentView, ConnectionView};
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::ConnectionState;
use chorus_store::directory::Agent;
use chorus_store::{StoreError, Tx, market};
use url::Url;

/// Returns an agent as the caller may see it.
pub fn view(app: &App, caller: &Caller, agent: &Agent) -> AgentView {
    let (now, presence) = (app.now(), app.config.presence.as_millis() as i64);
    // An open inbox is a lease of `presence` milliseconds, so this is the time of its last renewal.
    let renewed = (agent.open_until > 0).then(|| (agent.open_until - presence).min(now));
    // A time in the future means that the clock was set back; it counts as now.
    let seen = renewed.max((agent.seen_at > 0).then_some(agent.seen_at.min(now)));
    let manages = may_manage(caller, agent);
    AgentView {
        agent_id: agent.id,
        address: app.address(&agent.name),
        name: agent.name.clone(),
        description: agent.description.clone(),
        card: agent.card.as_deref().and_then(|card| serde_json::from_str(card).ok()),
        owner: agent.owner.filter(|_| manages),
        online: agent.open_until > now,
        last_seen: seen.map(rfc3339),
        connection: manages.then(|| connection(app, agent)),
        endpoint: host(agent.endpoint.as_deref()).filter(|_| manages),
        harness: host(agent.harness.as_deref()).filter(|_| manages),
        market_endpoint: None,
        disabled_since: agent.disabled_at.filter(|_| manages).map(rfc3339),
        paused_since: agent.paused_at.filter(|_| manages).map(rfc3339),
        allowance: None,
    }
}

/// Returns an agent as the caller may see it, with its market data. Callers that manage the agent see its
/// market endpoint. The agent itself, and callers that may set its allowance, see the allowance.
pub fn whole_view(
    tx: &mut dyn Tx,
    app: &App,
    caller: &Caller,
    agent: &Agent,
) -> Result<AgentView, StoreError> {
    let mut view = view(app, caller, agent);
    if may_manage(caller, agent) {
        let listing = market::agents::by_id(tx, agent.id)?;
        view.market_endpoint = listing.and_then(|listing| host(listing.endpoint.as_deref()));
    }
    if caller.id() == Some(agent.id.into()) || allowance::may_set(tx, caller, agent)? {
        view.allowance = allowance::shown(tx, agent.id, app.now())?;
    }
    Ok(view)
}

fn connection(app: &App, agent: &Agent) -> ConnectionView {
    let (state, broken) = match (&agent.connection, &agent.broken) {
        (None, _) => (ConnectionState::None, None),
        (Some(_), None) => (ConnectionState::Ok, None),
        (Some(_), Some(broken)) => (ConnectionState::Broken, Some(broken)),
    };
    let sealed = agent.connection.as_ref();
    let opened = sealed.and_then(|sealed| app.config.master_key.open(agent.id.as_bytes(), sealed));
    ConnectionView {
        state,
        host: host(opened.as_deref()),
        reason: broken.map(|(why, _)| why.clone()),
        since: broken.map(|(_, since)| rfc3339(*since)),
    }
}

/// Returns the host of a URL. The rest of the URL may be secret.
pub fn host(url: Option<&str>) -> Option<String> {
    Url::parse(url?).ok()?.host_str().map(str::to_owned)
}
