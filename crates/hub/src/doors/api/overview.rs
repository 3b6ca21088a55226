//! The operator's overview: settings, load, and dangerous settings.

use crate::answers::own::{Forbidden, Overloaded, TooFast, Unknown};
use crate::extract::Operator;
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::State;
use chorus_app::operator;
use chorus_node::AppState;
use chorus_protocol::api::operator::Overview;
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(overview))
}

/// Retrieve the operator's overview
///
/// Settings, load, and warnings about dangerous settings, the most serious first.
#[utoipa::path(get, path = "/api/v1/operator/overview", tag = "operator", security(("key" = [])),
    responses((status = 200, description = "The overview", body = Overview), Unknown, Forbidden, TooFast, Overloaded))]
async fn overview(State(app): State<AppState>, _: Operator) -> Json<Overview> {
    Json(operator::overview(&app))
}
