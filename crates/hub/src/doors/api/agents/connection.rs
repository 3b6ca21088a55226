//! Connection strings of agents (Channel Protocol).

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
use chorus_app::agents;
use chorus_node::AppState;
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
/// Messages are POSTed there while the agent has neither an open inbox nor a webhook. Deliveries that waited
/// because the former one was broken are posted at once; callbacks issued before stop working.
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

/// Remove an agent's own connection string
///
/// Pending deliveries use another transport of the agent, or wait for one until they are given up.
#[utoipa::path(delete, path = "/api/v1/agents/{id}/connection", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID")),
    responses((status = 200, description = "Removed", body = AgentView), Reading))]
async fn disconnect(
    State(app): State<AppState>,
    Known(caller): Known,
    Context(context): Context,
    Path(id): Path<String>,
) -> Result<Json<AgentView>, ApiError> {
    Ok(Json(agents::disconnect(&app, caller, context, &id).await?))
}

/// Retry a broken connection
///
/// All pending deliveries of the agent are tried at once.
#[utoipa::path(post, path = "/api/v1/agents/{id}/connection/mend", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID")),
    responses((status = 200, description = "The attempt has started", body = AgentView), Reading))]
async fn mend(
    State(app): State<AppState>,
    Known(caller): Known,
    Path(id): Path<String>,
) -> Result<Json<AgentView>, ApiError> {
    Ok(Json(agents::mend(&app, caller, &id).await?))
}

/// Rotate the connection string that the hub issues for an agent
///
/// The old one stops working at once, and so do callbacks issued before. An agent that registered itself gets
/// its first one this way.
#[utoipa::path(post, path = "/api/v1/agents/{id}/connection-string/rotate", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID"), Idempotent),
    responses((status = 200, description = "The new secret", body = IssuedConnection),
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
