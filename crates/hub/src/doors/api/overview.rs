//! The hub as its operator sees it: how it is set, how busy it is, and what is dangerous about it.

use crate::answers::own::{Forbidden, Overloaded, TooFast, Unknown};
use crate::extract::Operator;
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::State;
use chorus_app::{AppState, operator};
use chorus_protocol::api::operator::Overview;
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(overview))
}

/// Look at the hub as its operator
///
/// How it is set, how busy it is, and what is dangerous in its present settings, the worst first.
#[utoipa::path(get, path = "/api/v1/operator/overview", tag = "operator", security(("key" = [])),
    responses((status = 200, description = "The hub", body = Overview), Unknown, Forbidden, TooFast, Overloaded))]
async fn overview(State(app): State<AppState>, _: Operator) -> Json<Overview> {
    Json(operator::overview(&app))
}
