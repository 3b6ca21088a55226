//! Disables and enables accounts and agents.

use super::accounts::shown;
use crate::accounts::{counts, end_sessions};
use crate::agents::{AgentRef, view};
use chorus_node::AppState;
use chorus_node::Error;
use chorus_node::audit::{Deed, RequestContext};
use chorus_node::caller::Caller;
use chorus_protocol::api::accounts::EndedSessions;
use chorus_protocol::api::agents::AgentView;
use chorus_protocol::api::operator::Account;
use chorus_protocol::ids::{AccountId, AgentId};
use chorus_store::audit::{Action, Actor, Subject};
use chorus_store::{StoreError, Tx, access, accounts, directory};
use serde_json::json;
use std::sync::Arc;

/// Returns the account with this id or email address.
fn account(tx: &mut dyn Tx, text: &str) -> Result<accounts::Account, Error> {
    let found = match AccountId::parse(text) {
        Some(id) => accounts::by_id(tx, id)?,
        // No address contains NUL, and PostgreSQL accepts no text with it.
        None if text.contains('\0') => None,
        None => accounts::by_email(tx, text)?,
    };
    found.ok_or_else(|| Error::not_found("account"))
}

/// Disables an account with all of its agents until it is enabled again. No data is lost.
pub async fn disable_account(app: &AppState, context: RequestContext, id: String) -> Result<Account, Error> {
    change_account(app, context, id, Action::AccountDisabled, access::disable_account).await
}

/// Enables an account and its agents, except agents that are disabled themselves.
pub async fn enable_account(app: &AppState, context: RequestContext, id: String) -> Result<Account, Error> {
    change_account(app, context, id, Action::AccountEnabled, access::enable_account).await
}

async fn change_account(
    app: &AppState,
    context: RequestContext,
    id: String,
    action: Action,
    change: fn(&mut dyn Tx, AccountId, i64) -> Result<bool, StoreError>,
) -> Result<Account, Error> {
    let hub = Arc::clone(app);
    let work = move |tx: &mut dyn Tx| {
        let found = account(tx, &id)?;
        if change(tx, found.id, hub.now())? {
            let deed = Deed::new(Actor::Operator, action, Subject::Account(found.id), json!({}));
            context.record(tx, &hub, deed)?;
            hub.push_after(tx);
        }
        account(tx, &id).map(|account| shown(account, None))
    };
    app.store.write::<_, Error, _>(work).await
}

/// Signs out every browser of an account, and revokes its tokens if `tokens` is set.
pub async fn end_sessions_of(
    app: &AppState,
    context: RequestContext,
    id: String,
    tokens: bool,
) -> Result<EndedSessions, Error> {
    let hub = Arc::clone(app);
    let work = move |tx: &mut dyn Tx| {
        let found = account(tx, &id)?;
        let ended = end_sessions(tx, found.id, None, tokens)?;
        let subject = Subject::Account(found.id);
        let deed = Deed::new(Actor::Operator, Action::SessionsEnded, subject, counts(&ended));
        context.record(tx, &hub, deed)?;
        Ok(ended)
    };
    app.store.write::<_, Error, _>(work).await
}

/// Disables an agent until it is enabled again.
pub async fn disable_agent(app: &AppState, context: RequestContext, id: &str) -> Result<AgentView, Error> {
    change_agent(app, context, id, Action::AgentDisabled, access::disable_agent).await
}

/// Enables an agent. It stays out while its owner is disabled.
pub async fn enable_agent(app: &AppState, context: RequestContext, id: &str) -> Result<AgentView, Error> {
    change_agent(app, context, id, Action::AgentEnabled, access::enable_agent).await
}

async fn change_agent(
    app: &AppState,
    context: RequestContext,
    id: &str,
    action: Action,
    change: fn(&mut dyn Tx, AgentId, i64) -> Result<bool, StoreError>,
) -> Result<AgentView, Error> {
    let (agent, hub) = (AgentRef::parse(app, id)?, Arc::clone(app));
    let work = move |tx: &mut dyn Tx| {
        let found = agent.find(tx)?.ok_or_else(|| Error::not_found("agent"))?;
        if change(tx, found.id, hub.now())? {
            let (subject, detail) = (Subject::Agent(found.id), json!({"name": found.name}));
            context.record(tx, &hub, Deed::new(Actor::Operator, action, subject, detail))?;
            hub.push_after(tx);
        }
        let changed = directory::by_id(tx, found.id)?.ok_or_else(|| Error::not_found("agent"))?;
        Ok(view(&hub, &Caller::Operator, &changed))
    };
    app.store.write::<_, Error, _>(work).await
}
