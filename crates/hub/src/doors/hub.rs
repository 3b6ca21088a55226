//! The hub's own small doors: health, metrics, and the discovery document.

use crate::answers::relay::{Overloaded, TooFast, success};
use crate::credentials::bearer;
use crate::error::ApiError;
use crate::extract::{By, Context};
use crate::route::Route;
use crate::routes::Routes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use chorus_app::health_report::{self, HealthReader};
use chorus_app::operator;
use chorus_node::audit::RequestContext;
use chorus_node::authentication;
use chorus_node::caller::{Caller, key_hash};
use chorus_node::source::rate_key;
use chorus_node::{App, AppState};
use chorus_protocol::relay::{Discovery, Failure, HealthReport, Success};
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .at(Route::PUBLIC, routes!(discovery))
        .at(Route { free: true, ..Route::PUBLIC }, routes!(health))
        .at(Route { free: true, ..Route::RELAY }, routes!(metrics))
}

/// Check the hub's health
///
/// The check writes to the store, at most once a second. With the operator's key the report also names wallets
/// that do not balance.
#[utoipa::path(get, path = "/health", tag = "hub",
    responses((status = 200, description = "The hub is healthy", body = Success<HealthReport>),
              (status = 503, description = "`ERR_OVERLOADED`: the store cannot write", body = Failure),
              TooFast))]
pub(crate) async fn health(
    State(app): State<AppState>,
    Context(context): Context,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let reader = health_reader(&app, &context, &headers)?;
    Ok(success(&app, StatusCode::OK, health_report::report(&app, reader).await?))
}

/// Returns the reader of the report: the operator, if the request carries the operator key. Any other key is
/// ignored, but a wrong guess at the operator key counts as a wrong key.
fn health_reader(app: &App, context: &RequestContext, headers: &HeaderMap) -> Result<HealthReader, ApiError> {
    let key = bearer(headers).ok().flatten().filter(|key| key.starts_with("co_"));
    match key {
        Some(key) if authentication::is_operator(app, &key_hash(key)) => Ok(HealthReader::Operator),
        Some(_) => {
            Ok(app.limits.count_bad_secret(rate_key(context.client)).map(|()| HealthReader::Public)?)
        }
        None => Ok(HealthReader::Public),
    }
}

/// Retrieve metrics for Prometheus
///
/// Requires the operator's key: set `authorization: {credentials: co_…}` in the Prometheus configuration.
/// Without it the response only shows that the hub runs.
#[utoipa::path(get, path = "/metrics", tag = "hub", security((), ("key" = [])),
    responses((status = 200, description = "OpenMetrics text", body = String, content_type = "application/openmetrics-text"),
              (status = 401, description = "`ERR_UNAUTHORIZED`: the key is not valid", body = Failure),
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

/// Retrieve the discovery document
///
/// The discovery document of the transport profile, without an envelope, as section 8 of the profile shows it.
#[utoipa::path(get, path = "/.well-known/chorus.json", tag = "relay",
    responses((status = 200, description = "The document", body = Discovery), TooFast))]
pub(crate) async fn discovery(State(app): State<AppState>) -> axum::Json<Discovery> {
    axum::Json(Discovery::new(&format!("Chorus hub at {}", app.config.host_name)))
}
