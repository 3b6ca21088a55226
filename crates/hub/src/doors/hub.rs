//! The hub's own small doors: health, metrics, the discovery document.

use crate::doors::answers::{Overloaded, TooFast};
use crate::doors::relay::success;
use crate::error::ApiError;
use crate::extract::By;
use crate::route::Route;
use crate::routes::Routes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use chorus_app::caller::Caller;
use chorus_app::{AppState, operator};
use chorus_protocol::relay::{CHORUS_VERSION, Discovery, Failure, Success};
use chorus_protocol::time::rfc3339;
use serde::Serialize;
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
    let proof = app.health.prove(&app.store, app.now()).await?;
    let report = HealthReport {
        status: "ok",
        version: env!("CARGO_PKG_VERSION"),
        chorus_version: CHORUS_VERSION,
        host: app.config.host_name.clone(),
        store: StoreReport {
            kind: app.store.kind().as_str(),
            durability: app.config.durability.as_str(),
            write_latency_ms: proof.latency_ms,
            queued: app.store.queued() as u64,
        },
        retention_days: app.config.retention.map(|keep| keep.as_secs() / 86_400),
        open_inboxes: app.live.open_inboxes() as u64,
        time: rfc3339(app.now()),
        uptime_s: ((app.elapsed() - app.health.started_at).max(0) / 1000) as u64,
    };
    Ok(success(&app, StatusCode::OK, report))
}

/// What the hub says of its health.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct HealthReport {
    /// Always `ok`; a hub that is not well answers 503.
    status: &'static str,
    /// Of the program.
    version: &'static str,
    /// Of the envelopes it takes.
    chorus_version: &'static str,
    /// The host of its addresses.
    host: String,
    /// The store, which has just written.
    store: StoreReport,
    /// How long finished history is kept; `null` for ever.
    retention_days: Option<u64>,
    /// On this node.
    open_inboxes: u64,
    /// The hub's clock.
    time: String,
    /// Since this node started.
    uptime_s: u64,
}

/// What the hub says of its store.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct StoreReport {
    /// `sqlite` or `postgres`.
    kind: &'static str,
    /// `full`: success means fsynced. `relaxed`: it means written.
    durability: &'static str,
    /// How long the proof took.
    write_latency_ms: u64,
    /// Writes that wait.
    queued: u64,
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
