//! What the operator does about people and agents, and the log of what everybody did.

use crate::answers::own::Reading;
use crate::error::ApiError;
use crate::extract::{Context, Operator, Query};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, State};
use chorus_app::{AppState, operator};
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
/// It is kept out, with all of its agents, until it is enabled again: whatever proves it is refused, what it has open ends at
/// once, and no sign-in link lets it in. Nothing of it is lost.
#[utoipa::path(post, path = "/api/v1/operator/accounts/{id}/disable", tag = "operator", security(("key" = [])),
    params(("id" = String, Path, description = "The account's id or email address")),
    responses((status = 200, description = "It is kept out", body = Account), Reading))]
pub(crate) async fn disable_account(
    State(app): State<AppState>,
    _: Operator,
    Context(context): Context,
    Path(id): Path<String>,
) -> Result<Json<Account>, ApiError> {
    Ok(Json(operator::disable_account(&app, context, id).await?))
}

/// Enable an account that was disabled
///
/// What proved it before does again, and its agents are let in, unless one is disabled itself.
#[utoipa::path(post, path = "/api/v1/operator/accounts/{id}/enable", tag = "operator", security(("key" = [])),
    params(("id" = String, Path, description = "The account's id or email address")),
    responses((status = 200, description = "It is let in", body = Account), Reading))]
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
/// Every browser is signed out, and sign-in links that nobody has used yet are over. Its tokens stay, unless they are to be
/// revoked as well.
#[utoipa::path(delete, path = "/api/v1/operator/accounts/{id}/sessions", tag = "operator", security(("key" = [])),
    params(("id" = String, Path, description = "The account's id or email address"), Tokens),
    responses((status = 200, description = "They are over", body = EndedSessions), Reading))]
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
/// It is kept out until it is enabled again: its key, its connection string and whatever was given out under them are refused,
/// and what it has open ends at once. It is called nowhere: envelopes for it are `queued`, and what would wake it waits, for a
/// day at most where it is pushed.
#[utoipa::path(post, path = "/api/v1/operator/agents/{id}/disable", tag = "operator", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID")),
    responses((status = 200, description = "It is kept out", body = AgentView), Reading))]
pub(crate) async fn disable_agent(
    State(app): State<AppState>,
    _: Operator,
    Context(context): Context,
    Path(id): Path<String>,
) -> Result<Json<AgentView>, ApiError> {
    Ok(Json(operator::disable_agent(&app, context, &id).await?))
}

/// Enable an agent that was disabled
///
/// What proved it before does again, and what waited for it is delivered. One whose owner is disabled stays out with it.
#[utoipa::path(post, path = "/api/v1/operator/agents/{id}/enable", tag = "operator", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID")),
    responses((status = 200, description = "It is let in, unless its owner is not", body = AgentView), Reading))]
pub(crate) async fn enable_agent(
    State(app): State<AppState>,
    _: Operator,
    Context(context): Context,
    Path(id): Path<String>,
) -> Result<Json<AgentView>, ApiError> {
    Ok(Json(operator::enable_agent(&app, context, &id).await?))
}
