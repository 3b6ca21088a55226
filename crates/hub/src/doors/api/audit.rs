//! Who did what, and what was decided.

use crate::answers::own::Reading;
use crate::error::ApiError;
use crate::extract::{Known, Query};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::State;
use chorus_app::{AppState, trail};
use chorus_protocol::api::Items;
use chorus_protocol::api::audit::{TrailEntry, TrailQuery};
use utoipa_axum::routes;

pub(super) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(list))
}

/// Who did what, and what was decided
///
/// For the operator; and for the owner of a channel, who names it. `act`s come the newest first: registrations, keys and
/// secrets replaced, what was disabled and enabled, sessions, tokens, invitations and accounts, connection strings, owners and
/// members of channels, the master key, what the operator did, what became of messages that waited for a person (not what they
/// say), and what was said to whoever looked, which the operator alone reads. Kept for 400 days; of one agent or account, the newest 200
/// of each of its own acts. The other kinds come in the order of time, from where they are kept anyway, and need an actor, a
/// channel or an event: what was decided for agents, who took on what, who called which tool, who said something (not
/// what), and what agents made of what they were given. With an event and no kind all of these come together. What an agent's harness said for the log (`kind=log`, the newest 200, for 30
/// days) is for whoever manages the agent, which is named as `actor`. A page may hold fewer than asked for, although there are more.
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
