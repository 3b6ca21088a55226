//! What the operator does about people and agents, and the log of what everybody did.

use super::answers::{Forbidden, Invalid, Missing, Overloaded, TooFast, Unknown};
use super::recovery::{EndedSessions, end_all, wants_tokens};
use super::{Items, not_found, read};
use crate::doors::relay::bodies::AgentAddress;
use crate::doors::relay::{AgentRef, PageQuery};
use crate::error::ApiError;
use crate::extract::{By, Context};
use crate::route::{Route, Routes};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::Uri;
use chorus_app::agents::view;
use chorus_app::audit::RequestContext;
use chorus_app::caller::Caller;
use chorus_app::{App, AppState};
use chorus_protocol::api::agents::AgentView;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AccountId, AgentId, AuditId, ConversationId, CredentialId};
use chorus_protocol::relay::Code;
use chorus_protocol::time::{parse_rfc3339, rfc3339};
use chorus_store::accounts::{self, Account};
use chorus_store::audit::{self, Action, Filter, Recorded, Subject};
use chorus_store::{Tx, directory};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;
use utoipa_axum::routes;

/// The longest id or address that is asked for, in bytes.
const MAX_ID: usize = 254;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .at(Route::API, routes!(disable_account))
        .at(Route::API, routes!(enable_account))
        .at(Route::API, routes!(end_sessions))
        .at(Route::API, routes!(disable_agent))
        .at(Route::API, routes!(enable_agent))
        .at(Route::API, routes!(audit_log))
}

/// An account as the operator sees it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct AccountView {
    /// Its id.
    #[schema(example = "acc_0190a3c4d5e67f8090a1b2c3d4e5f607")]
    account_id: String,
    /// Where its sign-in links go.
    email: String,
    /// What to call the person.
    name: String,
    /// When it was made.
    created_at: String,
    /// Since when it is kept out, if it is.
    disabled_since: Option<String>,
}

impl From<Account> for AccountView {
    fn from(account: Account) -> Self {
        Self {
            account_id: account.id.to_string(),
            email: account.email,
            name: account.name,
            created_at: rfc3339(account.created_at),
            disabled_since: account.disabled_at.map(rfc3339),
        }
    }
}

/// The account that a path names by its id or its address.
fn account(tx: &mut dyn Tx, text: &str) -> Result<Account, ApiError> {
    let found = match AccountId::parse(text) {
        Some(id) => accounts::by_id(tx, id)?,
        // No address has this sign, and PostgreSQL takes no text with it.
        None if text.contains('\0') => None,
        None => accounts::by_email(tx, text)?,
    };
    found.ok_or_else(|| not_found("account"))
}

/// Disable an account
///
/// It is kept out, with all of its agents, until it is enabled again: whatever proves it is refused, what it has open ends at
/// once, and no sign-in link lets it in. Nothing of it is lost.
#[utoipa::path(post, path = "/api/v1/operator/accounts/{id}/disable", tag = "operator", security(("key" = [])),
    params(("id" = String, Path, description = "The account's id or email address")),
    responses((status = 200, description = "It is kept out", body = AccountView),
              Invalid, Unknown, Forbidden, Missing, TooFast, Overloaded))]
pub(crate) async fn disable_account(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    Path(id): Path<String>,
) -> Result<Json<AccountView>, ApiError> {
    change_account(&app, caller, context, id, Action::AccountDisabled, accounts::disable).await
}

/// Enable an account that was disabled
///
/// What proved it before does again, and its agents are let in, unless one is disabled itself.
#[utoipa::path(post, path = "/api/v1/operator/accounts/{id}/enable", tag = "operator", security(("key" = [])),
    params(("id" = String, Path, description = "The account's id or email address")),
    responses((status = 200, description = "It is let in", body = AccountView),
              Invalid, Unknown, Forbidden, Missing, TooFast, Overloaded))]
pub(crate) async fn enable_account(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    Path(id): Path<String>,
) -> Result<Json<AccountView>, ApiError> {
    change_account(&app, caller, context, id, Action::AccountEnabled, accounts::enable).await
}

async fn change_account(
    app: &AppState,
    caller: Caller,
    context: RequestContext,
    id: String,
    action: Action,
    change: fn(&mut dyn Tx, AccountId, i64) -> Result<bool, chorus_store::StoreError>,
) -> Result<Json<AccountView>, ApiError> {
    caller.operator()?;
    let hub = Arc::clone(app);
    let work = move |tx: &mut dyn Tx| {
        let found = account(tx, &id)?;
        if change(tx, found.id, hub.now())? {
            context.record(tx, &hub, &caller, action, Subject::Account(found.id), json!({}))?;
            hub.push_after(tx);
        }
        Ok(AccountView::from(account(tx, &id)?))
    };
    app.store.write::<_, ApiError, _>(work).await.map(Json)
}

/// End all sessions of an account
///
/// Every browser is signed out, and sign-in links that nobody has used yet are over. Its tokens stay, unless they are to be
/// revoked as well.
#[utoipa::path(delete, path = "/api/v1/operator/accounts/{id}/sessions", tag = "operator", security(("key" = [])),
    params(("id" = String, Path, description = "The account's id or email address"),
           ("tokens" = Option<bool>, Query, nullable = false, description = "Whether its tokens are revoked as well")),
    responses((status = 200, description = "They are over", body = EndedSessions),
              Invalid, Unknown, Forbidden, Missing, TooFast, Overloaded))]
pub(crate) async fn end_sessions(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Json<EndedSessions>, ApiError> {
    caller.operator()?;
    let (hub, tokens) = (Arc::clone(&app), wants_tokens(&uri)?);
    let work = move |tx: &mut dyn Tx| {
        let found = account(tx, &id)?;
        let ended = end_all(tx, found.id, None, tokens)?;
        let detail = json!(ended);
        context.record(tx, &hub, &caller, Action::SessionsEnded, Subject::Account(found.id), detail)?;
        Ok(ended)
    };
    app.store.write::<_, ApiError, _>(work).await.map(Json)
}

/// Disable an agent
///
/// It is kept out until it is enabled again: its key, its connection string and whatever was given out under them are refused,
/// and what it has open ends at once. It is called nowhere: envelopes for it are `queued`, and what would wake it waits, for a
/// day at most where it is pushed.
#[utoipa::path(post, path = "/api/v1/operator/agents/{id}/disable", tag = "operator", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID")),
    responses((status = 200, description = "It is kept out", body = AgentView),
              Invalid, Unknown, Forbidden, Missing, TooFast, Overloaded))]
pub(crate) async fn disable_agent(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    Path(id): Path<String>,
) -> Result<Json<AgentView>, ApiError> {
    change_agent(&app, caller, context, &id, Action::AgentDisabled).await
}

/// Enable an agent that was disabled
///
/// What proved it before does again, and what waited for it is delivered. One whose owner is disabled stays out with it.
#[utoipa::path(post, path = "/api/v1/operator/agents/{id}/enable", tag = "operator", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID")),
    responses((status = 200, description = "It is let in, unless its owner is not", body = AgentView),
              Invalid, Unknown, Forbidden, Missing, TooFast, Overloaded))]
pub(crate) async fn enable_agent(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    Path(id): Path<String>,
) -> Result<Json<AgentView>, ApiError> {
    change_agent(&app, caller, context, &id, Action::AgentEnabled).await
}

async fn change_agent(
    app: &AppState,
    caller: Caller,
    context: RequestContext,
    id: &str,
    action: Action,
) -> Result<Json<AgentView>, ApiError> {
    caller.operator()?;
    let (agent, hub) = (AgentRef::parse(app, id)?, Arc::clone(app));
    let change = if action == Action::AgentDisabled { directory::disable } else { directory::enable };
    let work = move |tx: &mut dyn Tx| {
        let found = agent.find(tx)?.ok_or_else(|| not_found("agent"))?;
        if change(tx, found.id, hub.now())? {
            let (subject, detail) = (Subject::Agent(found.id), json!({"name": found.name}));
            context.record(tx, &hub, &caller, action, subject, detail)?;
            hub.push_after(tx);
        }
        let changed = directory::by_id(tx, found.id)?.ok_or_else(|| not_found("agent"))?;
        Ok(view(&hub, &caller, &changed))
    };
    app.store.write::<_, ApiError, _>(work).await.map(Json)
}

/// One act.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct AuditView {
    /// Its id.
    #[schema(example = "aud_0190a3c4d5e67f8090a1b2c3d4e5f607")]
    id: String,
    /// When.
    at: String,
    /// Who did it.
    actor: AuditParty,
    /// What was done: a word such as `key.reset`.
    action: String,
    /// To whom or what.
    subject: AuditParty,
    /// What else there is to say.
    #[schema(value_type = Object)]
    detail: Value,
    /// The request it was done by: `X-Request-Id`. Empty if it was none, as with a new master key.
    request_id: String,
    /// The address it came from; empty if it was no request.
    client: String,
}

/// One side of an act.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct AuditParty {
    /// `agent`, `account`, `operator` or `nobody`; of a subject also `channel`, `credential` or `hub`.
    kind: String,
    /// Its id; of the operator, of nobody and of the hub, the same word.
    id: String,
}

impl From<Recorded> for AuditView {
    fn from(recorded: Recorded) -> Self {
        let party = |(kind, id): (String, String)| AuditParty { kind, id };
        Self {
            id: recorded.id.to_string(),
            at: rfc3339(recorded.at),
            actor: party(recorded.actor),
            action: recorded.action,
            subject: party(recorded.subject),
            detail: serde_json::from_str(&recorded.detail).unwrap_or_default(),
            request_id: recorded.request_id,
            client: recorded.client,
        }
    }
}

/// Who did what to whom
///
/// The newest first: registrations, keys and secrets replaced, what was disabled and enabled, sessions, tokens, invitations and
/// accounts, connection strings, owners and members of channels, the master key, and what the operator did. Kept for 400 days; of one agent
/// or account, the newest 1,000 of its own acts.
#[utoipa::path(get, path = "/api/v1/audit", operation_id = "list_audit", tag = "operator", security(("key" = [])),
    params(("actor" = Option<String>, Query, max_length = 254, pattern = "^[!-~]*$",
            description = "Only what was done by this agent (its id or name), this account (its id or email address), `operator` or `nobody`"),
           ("action" = Option<String>, Query, pattern = "^(account\\.made|account\\.disabled|account\\.enabled|agent\\.claimed|agent\\.disabled|agent\\.enabled|agent\\.registered|agent\\.unregistered|agent\\.updated|channel\\.owner_changed|connection\\.set|connection\\.removed|connection_string\\.rotated|deliveries\\.replayed|invitation\\.made|key\\.rotated|key\\.reset|master_key\\.replaced|member\\.added|member\\.removed|sessions\\.ended|token\\.made|token\\.revoked|webhook_secret\\.rotated)$", description = "Only these acts, such as `key.reset`"),
           ("subject" = Option<String>, Query, max_length = 254, pattern = "^[!-~]*$",
            description = "Only what was done to this agent, account, channel (`ch_…`), credential (`crd_…`) or `hub`"),
           ("since" = Option<String>, Query, format = "date-time", description = "Only what was done since"),
           ("after" = Option<String>, Query, pattern = "^(aud_[0-9a-f]{32})?$", description = "`next` of the page before"),
           ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "50 unless said")),
    responses((status = 200, description = "A page", body = Items<AuditView>),
              Invalid, Unknown, Forbidden, Missing, TooFast, Overloaded))]
pub(crate) async fn audit_log(
    State(app): State<AppState>,
    By(caller): By,
    uri: Uri,
) -> Result<Json<Items<AuditView>>, ApiError> {
    caller.operator()?;
    let (PageQuery { after, limit }, filter) = (PageQuery::parse(&uri)?, filter(&uri)?);
    let after = after.filter(|after| !after.is_empty());
    let before = after.map(|after| {
        AuditId::parse(&after).ok_or_else(|| Faults::one("after", "must be `next` of the page before"))
    });
    let before = before.transpose()?;
    let hub = Arc::clone(&app);
    let list = move |tx: &mut dyn Tx| {
        let mut filter = filter.clone();
        for (name, party) in [("actor", &mut filter.actor), ("subject", &mut filter.subject)] {
            if let Some(text) = party.as_mut().filter(|text| !text.is_empty()) {
                *text = party_id(tx, &hub, name, text)?;
            }
        }
        Ok(audit::list(tx, &filter, before, limit + 1)?)
    };
    let found = read(&app, list).await?;
    let found = found.into_iter().map(AuditView::from).collect();
    Ok(Json(super::page(&app, found, limit, |last: &AuditView| last.id.clone())))
}

/// The id that a filter means: as it stands, whether or not there is anybody behind it any more, or of whoever has this name or
/// address now. An email address goes before an agent's that looks the same.
fn party_id(tx: &mut dyn Tx, app: &App, name: &str, text: &str) -> Result<String, ApiError> {
    let id = AgentId::parse(text)
        .map(|id| id.to_string())
        .or_else(|| AccountId::parse(text).map(|id| id.to_string()))
        .or_else(|| ConversationId::parse(text).map(|id| id.to_string()))
        .or_else(|| CredentialId::parse(text).map(|id| id.to_string()))
        .or_else(|| ["operator", "nobody", "hub"].contains(&text).then(|| text.to_owned()));
    if let Some(id) = id {
        return Ok(id);
    }
    if let Some(account) = accounts::by_email(tx, text)? {
        return Ok(account.id.to_string());
    }
    let agent = AgentRef::parse(app, text).ok().map(|agent| agent.find(tx)).transpose()?.flatten();
    let id = agent.map(|agent| agent.id.to_string());
    id.ok_or_else(|| {
        let takes = "an agent's id, name or address, an account's id (acc_…) or email address, a channel's id (ch_…), a \
                     credential's (crd_…), `operator`, `nobody` or `hub`; this is none of them, or nobody has it now";
        ApiError::new(Code::NotFound, format_args!("{name}: takes {takes}"))
    })
}

fn filter(uri: &Uri) -> Result<Filter, Faults> {
    let (mut filter, mut faults) = (Filter::default(), Faults::new());
    for (name, given) in url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
        let is_id = given.len() <= MAX_ID && given.bytes().all(|byte| byte.is_ascii_graphic());
        match &*name {
            "actor" | "subject" if !is_id => {
                faults.add(
                    &name,
                    format_args!("must be an id, a name or an address of at most {MAX_ID} characters"),
                );
            }
            "actor" => filter.actor = Some(given.into_owned()),
            "subject" => filter.subject = Some(given.into_owned()),
            "action" => {
                filter.action = Action::parse(&given);
                if filter.action.is_none() {
                    let words: Vec<_> = Action::ALL.iter().map(|action| action.as_str()).collect();
                    faults.add("action", format_args!("must be one of {}", words.join(", ")));
                }
            }
            "since" => match parse_rfc3339(&given) {
                Some(time) => filter.since = time,
                None => faults.add("since", "must be a time such as 2026-03-20T10:00:00Z"),
            },
            _ => {}
        }
    }
    if faults.is_empty() { Ok(filter) } else { Err(faults) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_names_every_action() {
        let document = serde_json::to_value(crate::openapi()).unwrap();
        let asked = document["paths"]["/api/v1/audit"]["get"]["parameters"].as_array().unwrap();
        let action = asked.iter().find(|parameter| parameter["name"] == "action").unwrap();
        let pattern = action["schema"]["pattern"].as_str().unwrap();
        let named: Vec<_> = pattern.trim_matches(['^', '(', ')', '$']).split('|').collect();
        let all: Vec<_> = Action::ALL.iter().map(|action| action.as_str().replace('.', "\\.")).collect();
        assert!(
            all.iter().all(|action| named.contains(&action.as_str())) && named.len() == all.len(),
            "{pattern}"
        );
    }
}
