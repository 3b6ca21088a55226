//! A pasted trace as an evidence bundle.

use crate::answers::own::{Forbidden, Invalid, Missing, Overloaded, TooFast, TooLarge, TooSlow, Unknown};
use crate::body;
use crate::error::ApiError;
use crate::extract::{KnownOrHolder, Query};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, Request, State};
use chorus_app::AppState;
use chorus_app::choir::adapt::{self, MAX_TRACE};
use chorus_protocol::api::scores::Adapting;
use chorus_protocol::choir::evidence::Bundle;
use utoipa_axum::routes;

pub(super) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(convert))
}

/// Convert a framework's trace into an evidence bundle
///
/// `format` is `openai`, `langgraph`, `crewai`, `otel` or `auto`; the body is what the framework wrote, at most 8 MiB. Nothing is
/// stored or logged of it: what comes back can be sent as evidence, or signed. Larger traces: `chorus adapt`.
#[utoipa::path(post, path = "/api/v1/adapt/{format}", operation_id = "adapt_trace", tag = "choir", security(("key" = [])),
    params(("format" = String, Path, description = "Which framework wrote it"), Adapting),
    request_body = Object,
    responses((status = 200, description = "The bundle", body = Bundle),
              Invalid, Unknown, Forbidden, Missing, TooSlow, TooLarge, TooFast, Overloaded))]
async fn convert(
    State(app): State<AppState>,
    KnownOrHolder(caller): KnownOrHolder,
    Path(format): Path<String>,
    Query(asked): Query<Adapting>,
    request: Request,
) -> Result<Json<Bundle>, ApiError> {
    let (parts, body) = request.into_parts();
    let trace = body::read(&app, &parts.headers, body, MAX_TRACE).await?;
    Ok(Json(adapt::adapt(&app, caller, &format, asked, &trace).await?))
}
