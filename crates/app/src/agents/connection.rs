//! Connections of agents by the Channel Protocol.
//!
//! An agent has up to two connection strings. The owner sets the agent's own, by which the hub reaches the
//! agent; it is stored sealed. The hub issues the other one, by which other services reach the agent; it is
//! stored as a hash.

use super::{AgentRef, check_url, find_managed, host, issued, managed, seal, whole_view};
use chorus_node::AppState;
use chorus_node::Error;
use chorus_node::audit::{Deed, RequestContext};
use chorus_node::caller::{Caller, key_hash};
use chorus_node::idempotency::{Done, Once};
use chorus_protocol::api::agents::{AgentView, EndpointUrl, IssuedConnection, NewConnection};
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::faults::Faults;
use chorus_protocol::relay::check_endpoint;
use chorus_store::audit::{Action, Subject};
use chorus_store::directory::{self, Agent};
use chorus_store::{Tx, push};
use serde_json::json;
use std::sync::Arc;

/// Sets an agent's own connection string. Deliveries that waited because the former connection was broken are
/// posted to the new one at once.
pub async fn connect(
    app: &AppState,
    caller: Caller,
    context: RequestContext,
    named: &str,
    new: NewConnection,
) -> Result<AgentView, Error> {
    let (named, EndpointUrl(url)) = (AgentRef::parse(app, named)?, new.connection_string);
    let url = check_endpoint(&url).map_err(|what| Faults::one("connection_string", what))?;
    // The permission is checked before any host name is resolved, so that other callers learn nothing about
    // names.
    find_managed(app, &caller, &named).await?;
    check_url(app, "connection_string", Some(&url)).await?;
    let (hub, who) = (Arc::clone(app), caller.clone());
    let set = move |tx: &mut dyn Tx, agent: &Agent| {
        let sealed = seal(&hub, agent.id, &url)?;
        let (subject, detail) = (Subject::Agent(agent.id), json!({"connection": host(Some(url.as_str()))}));
        context.record(tx, &hub, Deed::new(who.actor(), Action::ConnectionSet, subject, detail))?;
        directory::set_connection(tx, agent.id, Some(&sealed), hub.now())?;
        push::mend(tx, agent.id, hub.now())?;
        Ok(())
    };
    change(app, caller, named, set).await
}

/// Removes an agent's own connection string.
pub async fn disconnect(
    app: &AppState,
    caller: Caller,
    context: RequestContext,
    named: &str,
) -> Result<AgentView, Error> {
    let (named, now, hub, who) = (AgentRef::parse(app, named)?, app.now(), Arc::clone(app), caller.clone());
    let remove = move |tx: &mut dyn Tx, agent: &Agent| {
        if agent.connection.is_some() {
            let subject = Subject::Agent(agent.id);
            let deed = Deed::new(who.actor(), Action::ConnectionRemoved, subject, json!({}));
            context.record(tx, &hub, deed)?;
        }
        Ok(directory::set_connection(tx, agent.id, None, now)?)
    };
    change(app, caller, named, remove).await
}

/// Retries a broken connection: all waiting deliveries are attempted at once.
pub async fn mend(app: &AppState, caller: Caller, named: &str) -> Result<AgentView, Error> {
    let (named, now) = (AgentRef::parse(app, named)?, app.now());
    let mend = move |tx: &mut dyn Tx, agent: &Agent| Ok(push::mend(tx, agent.id, now).map(drop)?);
    change(app, caller, named, mend).await
}

/// Changes a way to reach an agent, and returns the changed agent.
pub(super) async fn change(
    app: &AppState,
    caller: Caller,
    named: AgentRef,
    work: impl Fn(&mut dyn Tx, &Agent) -> Result<(), Error> + Send + 'static,
) -> Result<AgentView, Error> {
    let hub = Arc::clone(app);
    let change = move |tx: &mut dyn Tx| {
        let found = managed(tx, &caller, &named)?;
        // The lock orders this against a push to the agent.
        tx.lock(found.id.into())?;
        work(tx, &found)?;
        hub.push_after(tx);
        let changed = directory::by_id(tx, found.id)?.ok_or_else(|| Error::not_found("agent"))?;
        Ok(whole_view(tx, &hub, &caller, &changed)?)
    };
    app.store.write::<_, Error, _>(change).await
}

/// Replaces the connection string that the hub issues for an agent. The old one stops working at once.
pub async fn rotate(
    app: &AppState,
    caller: Caller,
    context: RequestContext,
    named: &str,
    once: Once,
) -> Result<Done<IssuedConnection>, Error> {
    let (named, now, hub) = (AgentRef::parse(app, named)?, app.now(), Arc::clone(app));
    let secret = app.secret(SecretKind::ConnectionString);
    let (hash, new) = (key_hash(&secret), IssuedConnection { connection_string: issued(app, &secret) });
    let (who, which) = (caller.clone(), named.clone());
    let may = move |tx: &mut dyn Tx| managed(tx, &who, &which).map(drop);
    let work = move |tx: &mut dyn Tx| {
        let agent = managed(tx, &caller, &named)?;
        directory::set_foreign_secret(tx, agent.id, &hash, now)?;
        let subject = Subject::Agent(agent.id);
        let deed = Deed::new(caller.actor(), Action::ConnectionStringRotated, subject, json!({}));
        context.record(tx, &hub, deed)?;
        Ok(new.clone())
    };
    app.once(once, may, work).await
}
