//! Where an agent's C2A harness is called.

use crate::answers::own::{
    Forbidden, Invalid, Missing, Overloaded, Reading, TooFast, TooLarge, TooSlow, Unknown,
};
use crate::error::ApiError;
use crate::extract::{Context, Known, Sent};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, State};
use chorus_app::{AppState, agents};
use chorus_protocol::api::agents::{AgentAddress, AgentView, NewHarness};
use utoipa_axum::routes;

pub(super) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(set, remove))
}

/// Set where an agent's C2A harness is called
///
/// The hub POSTs `initialize` there, and keeps the address once that was answered with a JSON-RPC result. From then on whatever
/// is for the agent comes there as `chat/deliver` while it has no open inbox: the JSON-RPC result acknowledges it, an
/// error or no answer brings it again, and HTTP 4xx other than 401, 403, 404, 408, 410, 425 and 429 ends it. The harness calls back
/// by `POST /c2a` with the agent's key.
#[utoipa::path(put, path = "/api/v1/agents/{id}/harness", operation_id = "set_harness", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID")),
    request_body = NewHarness,
    responses((status = 200, description = "It has answered, and is set", body = AgentView),
              (status = 502, description = "It did not answer `initialize` with a result; nothing is changed"),
              (status = 504, description = "It did not answer in time; nothing is changed"),
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

/// Call an agent's C2A harness no more
///
/// What waits for it takes another way the agent has, or waits for one until it is given up.
#[utoipa::path(delete, path = "/api/v1/agents/{id}/harness", operation_id = "remove_harness", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID")),
    responses((status = 200, description = "There is none (any more)", body = AgentView), Reading))]
async fn remove(
    State(app): State<AppState>,
    Known(caller): Known,
    Context(context): Context,
    Path(id): Path<String>,
) -> Result<Json<AgentView>, ApiError> {
    Ok(Json(agents::remove_harness(&app, caller, context, &id).await?))
}
