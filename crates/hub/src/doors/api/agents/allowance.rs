//! The credits that an agent's key may spend.

use crate::answers::own::{
    Conflict, Forbidden, Invalid, Missing, Overloaded, Reading, TooFast, TooLarge, TooSlow, Unknown,
};
use crate::error::ApiError;
use crate::extract::{Context, Exact, Idempotent, Known, done};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use chorus_app::agents;
use chorus_node::AppState;
use chorus_protocol::api::agents::{AgentAddress, AgentView, NewAllowance};
use utoipa_axum::routes;

pub(super) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(set, remove))
}

/// Set an agent's daily credit allowance
///
/// With the account that owns the agent, or the owner key of an agent without an account. An agent of an
/// account can spend nothing until this is set. A budget counts when it is held, and the part returned on the
/// same day (UTC) is available again.
#[utoipa::path(put, path = "/api/v1/agents/{id}/allowance", operation_id = "set_allowance", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID"), Idempotent),
    request_body = NewAllowance,
    responses((status = 200, description = "Set", body = AgentView),
              Invalid, Unknown, Forbidden, Missing, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
async fn set(
    State(app): State<AppState>,
    Known(caller): Known,
    Context(context): Context,
    Path(id): Path<String>,
    Exact(body, once): Exact<NewAllowance>,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::OK, agents::set_allowance(&app, caller, context, &id, body, once).await?))
}

/// Remove an agent's credit allowance
///
/// An agent of an account can then spend nothing; agents of an owner without an account can spend without
/// limit.
#[utoipa::path(delete, path = "/api/v1/agents/{id}/allowance", operation_id = "remove_allowance", tag = "agents",
    security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID")),
    responses((status = 200, description = "Removed", body = AgentView), Reading))]
async fn remove(
    State(app): State<AppState>,
    Known(caller): Known,
    Context(context): Context,
    Path(id): Path<String>,
) -> Result<Json<AgentView>, ApiError> {
    Ok(Json(agents::remove_allowance(&app, caller, context, &id).await?))
}
