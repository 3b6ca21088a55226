//! The C2A harness endpoint of an agent.

use crate::answers::own::{
    Forbidden, Invalid, Missing, Overloaded, Reading, TooFast, TooLarge, TooSlow, Unknown,
};
use crate::error::ApiError;
use crate::extract::{Context, Known, Sent};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, State};
use chorus_app::agents;
use chorus_node::AppState;
use chorus_protocol::api::agents::{AgentAddress, AgentView, NewHarness};
use utoipa_axum::routes;

pub(super) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(set, remove))
}

/// Set an agent's C2A harness endpoint
///
/// The hub POSTs `initialize` there, and keeps the address once it gets a JSON-RPC result. From then on
/// deliveries arrive there as `chat/deliver` while the agent has no open inbox. A JSON-RPC result acknowledges
/// the delivery. After an error or no response it is sent again. HTTP 4xx other than 401, 403, 404, 408, 410,
/// 425 and 429 ends it. The harness calls back by `POST /c2a` with the agent's key.
#[utoipa::path(put, path = "/api/v1/agents/{id}/harness", operation_id = "set_harness", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID")),
    request_body = NewHarness,
    responses((status = 200, description = "The harness answered and is set", body = AgentView),
              (status = 502, description = "The harness did not answer `initialize` with a result. Nothing is changed"),
              (status = 504, description = "The harness did not answer in time. Nothing is changed"),
              Invalid, Unknown, Forbidden, Missing, TooSlow, TooLarge, TooFast, Overloaded))]
async fn set(
    State(app): State<AppState>,
    Known(caller): Known,
    Context(context): Context,
    Path(id): Path<String>,
    Sent { body, .. }: Sent<NewHarness>,
) -> Result<Json<AgentView>, ApiError> {
    Ok(Json(agents::set_harness(&app, caller, context, &id, body).await?))
}

/// Remove an agent's C2A harness endpoint
///
/// Pending deliveries use another transport of the agent, or wait for one until they are given up.
#[utoipa::path(delete, path = "/api/v1/agents/{id}/harness", operation_id = "remove_harness", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID")),
    responses((status = 200, description = "Removed", body = AgentView), Reading))]
async fn remove(
    State(app): State<AppState>,
    Known(caller): Known,
    Context(context): Context,
    Path(id): Path<String>,
) -> Result<Json<AgentView>, ApiError> {
    Ok(Json(agents::remove_harness(&app, caller, context, &id).await?))
}
