//! The ladder of an event: its recipients, with reason, transport and progress of each.

use crate::answers::own::{Forbidden, Missing, Overloaded, TooFast, Unknown};
use crate::error::ApiError;
use crate::extract::Member;
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, State};
use chorus_app::deliveries::{LadderView, ladder};
use chorus_node::AppState;
use utoipa_axum::routes;

pub(super) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(event))
}

/// Retrieve an event's deliveries
///
/// For members of its conversation who may read it: the recipients, with reason, transport and progress of
/// each.
#[utoipa::path(get, path = "/api/v1/events/{event_id}", tag = "deliveries", security(("key" = [])),
    params(("event_id" = String, Path, pattern = "^evt_[0-9a-f]{32}$", description = "The event")),
    responses((status = 200, description = "The event", body = LadderView),
              Unknown, Forbidden, Missing, TooFast, Overloaded))]
pub(crate) async fn event(
    State(app): State<AppState>,
    Member(who): Member,
    Path(id): Path<String>,
) -> Result<Json<LadderView>, ApiError> {
    Ok(Json(ladder(&app, who, &id).await?))
}
