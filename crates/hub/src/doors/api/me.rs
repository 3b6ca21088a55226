//! Who the caller is, and how much of each quota it uses.

use crate::answers::own::{Forbidden, Overloaded, TooFast, Unknown};
use crate::error::ApiError;
use crate::extract::By;
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::State;
use chorus_app::{AppState, accounts};
use chorus_protocol::api::accounts::Me;
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(me))
}

/// Who you are
///
/// And how much you use of what you may have.
#[utoipa::path(get, path = "/api/v1/me", tag = "people", security(("key" = [])),
    responses((status = 200, description = "The caller", body = Me), Unknown, Forbidden, TooFast, Overloaded))]
async fn me(State(app): State<AppState>, By(caller): By) -> Result<Json<Me>, ApiError> {
    Ok(Json(accounts::me(&app, caller).await?))
}
