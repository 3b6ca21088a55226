//! How agents are reached by the Channel Protocol.

use crate::answers::own::{
    Doing, Forbidden, Invalid, Missing, Overloaded, Reading, TooFast, TooLarge, TooSlow, Unknown,
};
use crate::error::ApiError;
use crate::extract::{Bare, Context, Idempotent, Known, Sent, done};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use chorus_app::{AppState, agents};
use chorus_protocol::api::agents::{AgentAddress, AgentView, IssuedConnection, NewConnection};
use utoipa_axum::routes;

pub(super) fn routes() -> Routes {
    Routes::default()
        .at(Route::API, routes!(connect, disconnect))
        .at(Route::API, routes!(mend))
        .at(Route::API, routes!(rotate))
}

/// Set an agent's own connection string
///
/// Messages for it are POSTed there while it has neither an open inbox nor a webhook. What waited because the former one
/// was broken is posted to this one at once; callbacks that were given out before end.
#[utoipa::path(put, path = "/api/v1/agents/{id}/connection", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID")),
    request_body = NewConnection,
    responses((status = 200, description = "Set", body = AgentView),
              Invalid, Unknown, Forbidden, Missing, TooSlow, TooLarge, TooFast, Overloaded))]
async fn connect(
    State(app): State<AppState>,
    Known(caller): Known,
    Context(context): Context,
    Path(id): Path<String>,
    Sent { body, .. }: Sent<NewConnection>,
) -> Result<Json<AgentView>, ApiError> {
    Ok(Json(agents::connect(&app, caller, context, &id, body).await?))
}

/// Take an agent's own connection string away
///
/// What waits to be posted to it takes another way the agent has, or waits for one until it is given up.
#[utoipa::path(delete, path = "/api/v1/agents/{id}/connection", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID")),
    responses((status = 200, description = "There is none (any more)", body = AgentView), Reading))]
async fn disconnect(
    State(app): State<AppState>,
    Known(caller): Known,
    Context(context): Context,
    Path(id): Path<String>,
) -> Result<Json<AgentView>, ApiError> {
    Ok(Json(agents::disconnect(&app, caller, context, &id).await?))
}

/// Try a broken connection again
///
/// Whatever waits for the agent is tried at once.
#[utoipa::path(post, path = "/api/v1/agents/{id}/connection/mend", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID")),
    responses((status = 200, description = "It is tried", body = AgentView), Reading))]
async fn mend(
    State(app): State<AppState>,
    Known(caller): Known,
    Path(id): Path<String>,
) -> Result<Json<AgentView>, ApiError> {
    Ok(Json(agents::mend(&app, caller, &id).await?))
}

/// Replace the connection string that the hub issues for an agent
///
/// The old one stops at once, and so do callbacks that were given out before. An agent that registered itself gets its first one
/// this way.
#[utoipa::path(post, path = "/api/v1/agents/{id}/connection-string/rotate", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID"), Idempotent),
    responses((status = 200, description = "The new one", body = IssuedConnection),
              Doing))]
async fn rotate(
    State(app): State<AppState>,
    Known(caller): Known,
    Context(context): Context,
    Path(id): Path<String>,
    Bare(once): Bare,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::OK, agents::rotate(&app, caller, context, &id, once).await?))
}
