//! Where an agent's C2A harness is called, if that has an address of its own.
//!
//! Whoever sets it must manage the agent before anything is called; the harness must answer `initialize` before it is kept.

use super::connection::change;
use super::{AgentRef, check_url, find_managed, host, managed};
use crate::app::AppState;
use crate::audit::{Deed, RequestContext};
use crate::caller::Caller;
use crate::delivery::harness;
use crate::error::Error;
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

/// Sets where an agent's harness is called, once the harness has answered. What waits for the agent goes there at once.
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
        // The name may be another's since: that one's harness was not asked.
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

/// An agent's harness is called no more.
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

/// Why an agent's harness did not take what it was sent last, and since when that is so; nothing if it did, or was sent nothing.
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
