//! Changes of an agent: its description, card, endpoint and pause.

use super::connection::change as change_way;
use super::{AgentRef, card_fits, check_url, find_managed, host, managed, whole_view};
use crate::delivery::challenge;
use chorus_node::AppState;
use chorus_node::Error;
use chorus_node::audit::{Deed, RequestContext};
use chorus_node::caller::Caller;
use chorus_node::idempotency::{Done, Once};
use chorus_protocol::api::agents::{AgentChange, AgentView, EndpointUrl};
use chorus_protocol::faults::Faults;
use chorus_protocol::relay::check_endpoint;
use chorus_store::audit::{Action, Subject};
use chorus_store::directory::{self, Agent, Record};
use chorus_store::{Tx, access, push};
use serde_json::json;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Changes an agent. The agent, its owner and the operator may do this. Deliveries to a paused agent wait, and
/// are due when it resumes.
pub async fn change(
    app: &AppState,
    caller: Caller,
    context: RequestContext,
    named: &str,
    new: AgentChange,
    once: Once,
) -> Result<Done<AgentView>, Error> {
    let AgentChange { description, card, endpoint, paused } = new;
    if description.is_none() && card.is_none() && endpoint.is_none() && paused.is_none() {
        return Err(Faults::one("body", "must have a description, a card, an endpoint or paused").into());
    }
    if let Some(Err(what)) = card.as_ref().map(|card| card_fits(app, card)) {
        return Err(Faults::one("card", what).into());
    }
    let endpoint = endpoint.map(|EndpointUrl(url)| check_endpoint(&url)).transpose();
    let endpoint = endpoint.map_err(|what| Faults::one("endpoint", what))?;
    let (named, hub, runtime) = (AgentRef::parse(app, named)?, Arc::clone(app), Handle::current());
    find_managed(app, &caller, &named).await?;
    check_url(app, "endpoint", endpoint.as_ref()).await?;
    let (endpoint, card) = (endpoint.map(String::from), card.map(|card| card.to_string()));
    let (who, which) = (caller.clone(), named.clone());
    let may = move |tx: &mut dyn Tx| managed(tx, &who, &which).map(drop);
    let work = move |tx: &mut dyn Tx| {
        let (agent, now) = (managed(tx, &caller, &named)?, hub.now());
        // The lock orders this against a push to the agent.
        tx.lock(agent.id.into())?;
        let id = agent.id;
        if let Some(text) = &description {
            directory::set_description(tx, &agent, Some(text.as_str()).filter(|text| !text.is_empty()))?;
        }
        let agent = directory::by_id(tx, id)?.ok_or_else(|| Error::not_found("agent"))?;
        if endpoint.is_some() || card.is_some() {
            let record = Record {
                name: agent.name.clone(),
                endpoint: endpoint.clone().or_else(|| agent.endpoint.clone()),
                card: card.clone().or_else(|| agent.card.clone()),
            };
            directory::update(tx, agent, &record, None, now)?;
        }
        if let Some(endpoint) = endpoint.clone() {
            push::retry_now(tx, id, now)?;
            let (hub, runtime) = (Arc::clone(&hub), runtime.clone());
            tx.after_commit(Box::new(move || challenge::ask_again(&hub, &runtime, id, endpoint)));
        }
        if let Some(paused) = paused {
            access::pause_agent(tx, id, paused, now)?;
        }
        hub.push_after(tx);
        let detail = json!({"endpoint": host(endpoint.as_deref()), "paused": paused});
        let deed = Deed::new(caller.actor(), Action::AgentUpdated, Subject::Agent(id), detail);
        context.record(tx, &hub, deed)?;
        let changed = directory::by_id(tx, id)?.ok_or_else(|| Error::not_found("agent"))?;
        Ok(whole_view(tx, &hub, &caller, &changed)?)
    };
    app.once(once, may, work).await
}

/// Removes an agent's webhook. Pending deliveries take another way to the agent, or wait in its inbox.
pub async fn remove_endpoint(
    app: &AppState,
    caller: Caller,
    context: RequestContext,
    named: &str,
) -> Result<AgentView, Error> {
    let (named, hub, who) = (AgentRef::parse(app, named)?, Arc::clone(app), caller.clone());
    let remove = move |tx: &mut dyn Tx, agent: &Agent| {
        if agent.endpoint.is_none() {
            return Ok(());
        }
        let detail = json!({"endpoint_removed": host(agent.endpoint.as_deref())});
        let deed = Deed::new(who.actor(), Action::AgentUpdated, Subject::Agent(agent.id), detail);
        context.record(tx, &hub, deed)?;
        let record = Record { name: agent.name.clone(), endpoint: None, card: agent.card.clone() };
        directory::update(tx, agent.clone(), &record, None, hub.now())?;
        Ok(push::retry_now(tx, agent.id, hub.now())?)
    };
    change_way(app, caller, named, remove).await
}
