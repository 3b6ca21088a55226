//! The audit log and other recorded decisions.

use crate::answers::own::Reading;
use crate::error::ApiError;
use crate::extract::{Known, Query};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::State;
use chorus_app::trail;
use chorus_node::AppState;
use chorus_protocol::api::Items;
use chorus_protocol::api::audit::{TrailEntry, TrailQuery};
use utoipa_axum::routes;

pub(super) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(list))
}

/// List recorded acts and decisions
///
/// For the operator; and for a channel owner, who must name the channel. `act` entries come newest first:
/// registrations, replaced keys and secrets, disabling and enabling, sessions, tokens, invitations, accounts,
/// connection strings, owners and members of channels, the master key, acts of the operator, decisions on
/// messages that waited for approval (without their text), and ephemeral messages, which only the operator may
/// read. They are kept for 400 days; of one agent or account, the newest 200 of each kind of its own acts.
///
/// The other kinds come in chronological order from the data they describe, and need an actor, a channel or an
/// event: routing decisions, claims, tool calls, authorship of messages (without their text), and outcomes of
/// deliveries. With an event and no kind, all of these are returned together. Harness logs (`kind=log`, the
/// newest 200, kept for 30 days) are visible to the managers of the agent named as `actor`. A page may hold
/// fewer entries than `limit`, although more follow.
#[utoipa::path(get, path = "/api/v1/audit", operation_id = "list_audit", tag = "operator", security(("key" = [])),
    params(TrailQuery),
    responses((status = 200, description = "A page", body = Items<TrailEntry>), Reading))]
async fn list(
    State(app): State<AppState>,
    Known(caller): Known,
    Query(asked): Query<TrailQuery>,
) -> Result<Json<Items<TrailEntry>>, ApiError> {
    Ok(Json(trail::list(&app, caller, asked).await?))
}
