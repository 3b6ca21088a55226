//! The hub's own small doors: health, metrics, the discovery document.

use crate::answers::relay::{Overloaded, TooFast, success};
use crate::error::ApiError;
use crate::extract::By;
use crate::route::Route;
use crate::routes::Routes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use chorus_app::caller::Caller;
use chorus_app::{AppState, health_report, operator};
use chorus_protocol::relay::{Discovery, Failure, HealthReport, Success};
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .at(Route::PUBLIC, routes!(discovery))
        .at(Route { free: true, ..Route::PUBLIC }, routes!(health))
        .at(Route { free: true, ..Route::RELAY }, routes!(metrics))
}

/// Is the hub well?
///
/// Proved by writing to the store, at most once a second.
#[utoipa::path(get, path = "/health", tag = "hub",
    responses((status = 200, description = "It is", body = Success<HealthReport>),
              (status = 503, description = "The store cannot write: `ERR_OVERLOADED` says why", body = Failure)))]
pub(crate) async fn health(State(app): State<AppState>) -> Result<Response, ApiError> {
    Ok(success(&app, StatusCode::OK, health_report::report(&app).await?))
}

/// Figures for Prometheus
///
/// With the operator's key: `authorization: {credentials: co_…}` in Prometheus' settings. Everybody else learns that the hub
/// runs, and no figures.
#[utoipa::path(get, path = "/metrics", tag = "hub", security((), ("key" = [])),
    responses((status = 200, description = "OpenMetrics text", body = String, content_type = "application/openmetrics-text"),
              (status = 401, description = "`ERR_UNAUTHORIZED`: a key was sent, and it is not valid", body = Failure),
              TooFast, Overloaded))]
pub(crate) async fn metrics(State(app): State<AppState>, By(caller): By) -> Result<Response, ApiError> {
    let text = if caller == Caller::Operator {
        operator::figures(&app).await?
    } else {
        "# HELP chorus_up The hub runs.\n# TYPE chorus_up gauge\nchorus_up 1\n# EOF\n".to_owned()
    };
    Ok(([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
        .into_response())
}

/// Where things are
///
/// The discovery document of the transport profile, bare as its section 8 shows it.
#[utoipa::path(get, path = "/.well-known/chorus.json", tag = "relay",
    responses((status = 200, description = "The document", body = Discovery), TooFast))]
pub(crate) async fn discovery(State(app): State<AppState>) -> axum::Json<Discovery> {
    axum::Json(Discovery::new(&format!("Chorus hub at {}", app.config.host_name)))
}
