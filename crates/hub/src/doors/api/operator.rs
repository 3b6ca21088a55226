//! The operator's actions on accounts and agents.

use crate::answers::own::Reading;
use crate::error::ApiError;
use crate::extract::{Context, Operator, Query};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, State};
use chorus_app::operator;
use chorus_node::AppState;
use chorus_protocol::api::accounts::{EndedSessions, Tokens};
use chorus_protocol::api::agents::{AgentAddress, AgentView};
use chorus_protocol::api::operator::Account;
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .at(Route::API, routes!(disable_account))
        .at(Route::API, routes!(enable_account))
        .at(Route::API, routes!(end_sessions))
        .at(Route::API, routes!(disable_agent))
        .at(Route::API, routes!(enable_agent))
}

/// Disable an account
///
/// The account and its agents are locked out until it is enabled again: its credentials are refused, its open
/// connections end at once, and no sign-in link works. No data is lost.
#[utoipa::path(post, path = "/api/v1/operator/accounts/{id}/disable", tag = "operator", security(("key" = [])),
    params(("id" = String, Path, description = "The account's id or email address")),
    responses((status = 200, description = "Disabled", body = Account), Reading))]
pub(crate) async fn disable_account(
    State(app): State<AppState>,
    _: Operator,
    Context(context): Context,
    Path(id): Path<String>,
) -> Result<Json<Account>, ApiError> {
    Ok(Json(operator::disable_account(&app, context, id).await?))
}

/// Enable a disabled account
///
/// Its credentials work again, and so do its agents, except those that are disabled themselves.
#[utoipa::path(post, path = "/api/v1/operator/accounts/{id}/enable", tag = "operator", security(("key" = [])),
    params(("id" = String, Path, description = "The account's id or email address")),
    responses((status = 200, description = "Enabled", body = Account), Reading))]
pub(crate) async fn enable_account(
    State(app): State<AppState>,
    _: Operator,
    Context(context): Context,
    Path(id): Path<String>,
) -> Result<Json<Account>, ApiError> {
    Ok(Json(operator::enable_account(&app, context, id).await?))
}

/// End all sessions of an account
///
/// Every browser is signed out, and unused sign-in links stop working. Tokens stay valid, unless you ask to
/// revoke them too.
#[utoipa::path(delete, path = "/api/v1/operator/accounts/{id}/sessions", tag = "operator", security(("key" = [])),
    params(("id" = String, Path, description = "The account's id or email address"), Tokens),
    responses((status = 200, description = "The sessions have ended", body = EndedSessions), Reading))]
pub(crate) async fn end_sessions(
    State(app): State<AppState>,
    _: Operator,
    Context(context): Context,
    Path(id): Path<String>,
    Query(Tokens { tokens }): Query<Tokens>,
) -> Result<Json<EndedSessions>, ApiError> {
    Ok(Json(operator::end_sessions_of(&app, context, id, tokens).await?))
}

/// Disable an agent
///
/// The agent is locked out until it is enabled again: its key, its connection string and everything issued
/// under them are refused, and its open connections end at once. The hub does not call it: envelopes for it
/// are `queued`, and deliveries that would wake it wait, for at most a day where they are pushed.
#[utoipa::path(post, path = "/api/v1/operator/agents/{id}/disable", tag = "operator", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID")),
    responses((status = 200, description = "Disabled", body = AgentView), Reading))]
pub(crate) async fn disable_agent(
    State(app): State<AppState>,
    _: Operator,
    Context(context): Context,
    Path(id): Path<String>,
) -> Result<Json<AgentView>, ApiError> {
    Ok(Json(operator::disable_agent(&app, context, &id).await?))
}

/// Enable a disabled agent
///
/// Its credentials work again, and pending deliveries are sent. An agent whose owner is disabled stays locked
/// out.
#[utoipa::path(post, path = "/api/v1/operator/agents/{id}/enable", tag = "operator", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID")),
    responses((status = 200, description = "Enabled, unless the owner is disabled", body = AgentView), Reading))]
pub(crate) async fn enable_agent(
    State(app): State<AppState>,
    _: Operator,
    Context(context): Context,
    Path(id): Path<String>,
) -> Result<Json<AgentView>, ApiError> {
    Ok(Json(operator::enable_agent(&app, context, &id).await?))
}
