//! How agents are reached by the Channel Protocol.
//!
//! An agent has up to two connection strings: one of its own, which its owner pastes so that the hub can reach it, and one
//! that the hub issues, so that other services can. The first is kept sealed, the second as a hash.

use super::{AgentRef, check_url, find_managed, host, issued, managed, seal, view};
use crate::app::AppState;
use crate::audit::{Deed, RequestContext};
use crate::caller::{Caller, key_hash};
use crate::error::Error;
use crate::once::{Done, Once};
use chorus_protocol::api::agents::{AgentView, EndpointUrl, IssuedConnection, NewConnection};
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::faults::Faults;
use chorus_protocol::relay::check_endpoint;
use chorus_store::audit::{Action, Subject};
use chorus_store::directory::{self, Agent};
use chorus_store::{Tx, push};
use serde_json::json;
use std::sync::Arc;

/// Sets an agent's own connection string. What waited because the former one was broken is posted to this one at once.
pub async fn connect(
    app: &AppState,
    caller: Caller,
    context: RequestContext,
    named: &str,
    new: NewConnection,
) -> Result<AgentView, Error> {
    let (named, EndpointUrl(url)) = (AgentRef::parse(app, named)?, new.connection_string);
    let url = check_endpoint(&url).map_err(|what| Faults::one("connection_string", what))?;
    // Before any name is looked up: whoever may not set it learns nothing of names.
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

/// Takes an agent's own connection string away.
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

/// Tries a broken connection again: whatever waits for the agent is tried at once.
pub async fn mend(app: &AppState, caller: Caller, named: &str) -> Result<AgentView, Error> {
    let (named, now) = (AgentRef::parse(app, named)?, app.now());
    let mend = move |tx: &mut dyn Tx, agent: &Agent| Ok(push::mend(tx, agent.id, now).map(drop)?);
    change(app, caller, named, mend).await
}

/// Changes how an agent is reached, and shows it as it is then.
pub(super) async fn change(
    app: &AppState,
    caller: Caller,
    named: AgentRef,
    work: impl Fn(&mut dyn Tx, &Agent) -> Result<(), Error> + Send + 'static,
) -> Result<AgentView, Error> {
    let hub = Arc::clone(app);
    let change = move |tx: &mut dyn Tx| {
        let found = managed(tx, &caller, &named)?;
        // Whoever pushes to it meanwhile holds it, or finds it changed.
        tx.lock(found.id.0)?;
        work(tx, &found)?;
        hub.push_after(tx);
        let changed = directory::by_id(tx, found.id)?.ok_or_else(|| Error::not_found("agent"))?;
        Ok(view(&hub, &caller, &changed))
    };
    app.store.write::<_, Error, _>(change).await
}

/// Replaces the connection string that the hub issues for an agent. The old one stops at once.
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
