//! The address of an agent's C2A harness, if the hub calls it.
//!
//! The caller's permission is checked before the harness is called. The harness must answer `initialize`
//! before its address is stored.

use super::connection::change;
use super::{AgentRef, check_url, find_managed, host, managed};
use crate::delivery::harness;
use chorus_node::AppState;
use chorus_node::Error;
use chorus_node::audit::{Deed, RequestContext};
use chorus_node::caller::Caller;
use chorus_protocol::api::agents::{AgentView, EndpointUrl, NewHarness};
use chorus_protocol::faults::Faults;
use chorus_protocol::relay::check_endpoint;
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::Transport;
use chorus_store::audit::{Action, Subject};
use chorus_store::directory::{self, Agent};
use chorus_store::{Tx, push};
use serde_json::json;
use std::sync::Arc;

/// Sets the address of an agent's harness, after the harness has answered. Waiting deliveries are sent there
/// at once.
pub async fn set_harness(
    app: &AppState,
    caller: Caller,
    context: RequestContext,
    named: &str,
    new: NewHarness,
) -> Result<AgentView, Error> {
    let (named, EndpointUrl(url)) = (AgentRef::parse(app, named)?, new.endpoint);
    let url = check_endpoint(&url).map_err(|what| Faults::one("endpoint", what))?;
    let agent = find_managed(app, &caller, &named).await?;
    check_url(app, "endpoint", Some(&url)).await?;
    let begun = harness::begin(app, &agent, url.as_str()).await;
    let shows = begun.map_err(|error| Error::new(error.code(), format_args!("initialize: {error}")))?;
    let (hub, who, asked) = (Arc::clone(app), caller.clone(), agent.id);
    let set = move |tx: &mut dyn Tx, agent: &Agent| {
        // The name may belong to another agent by now, whose harness was not asked.
        if agent.id != asked {
            return Err(Error::not_found("agent"));
        }
        let (subject, detail) = (Subject::Agent(agent.id), json!({"harness": host(Some(url.as_str()))}));
        context.record(tx, &hub, Deed::new(who.actor(), Action::HarnessSet, subject, detail))?;
        directory::set_harness(tx, agent.id, Some((url.as_str(), &shows)), hub.now())?;
        Ok(push::retry_now(tx, agent.id, hub.now())?)
    };
    change(app, caller, named, set).await
}

/// Removes the address of an agent's harness. The hub stops calling it.
pub async fn remove_harness(
    app: &AppState,
    caller: Caller,
    context: RequestContext,
    named: &str,
) -> Result<AgentView, Error> {
    let (named, now, hub, who) = (AgentRef::parse(app, named)?, app.now(), Arc::clone(app), caller.clone());
    let remove = move |tx: &mut dyn Tx, agent: &Agent| {
        if agent.harness.is_some() {
            let deed = Deed::new(who.actor(), Action::HarnessRemoved, Subject::Agent(agent.id), json!({}));
            context.record(tx, &hub, deed)?;
            directory::set_harness(tx, agent.id, None, now)?;
        }
        Ok(())
    };
    change(app, caller, named, remove).await
}

/// Returns the error of the last delivery to an agent's harness, and its time. Returns `None` if it succeeded,
/// or if nothing was sent.
pub async fn harness_trouble(
    app: &AppState,
    caller: Caller,
    named: &str,
) -> Result<Option<(String, String)>, Error> {
    let named = AgentRef::parse(app, named)?;
    let find = move |tx: &mut dyn Tx| {
        let agent = managed(tx, &caller, &named)?;
        let last = push::last_outcome(tx, agent.id, Transport::Harness)?.filter(|_| agent.harness.is_some());
        Ok(last.and_then(|(why, at)| Some((why?, rfc3339(at)))))
    };
    app.store.read::<_, Error, _>(find).await
}
