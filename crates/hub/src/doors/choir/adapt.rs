//! Converts a pasted trace into an evidence bundle.

use crate::answers::own::{Forbidden, Invalid, Missing, Overloaded, TooFast, TooLarge, TooSlow, Unknown};
use crate::body;
use crate::error::ApiError;
use crate::extract::{KnownOrHolder, Query};
use crate::middleware::Client;
use crate::route::Route;
use crate::routes::Routes;
use axum::extract::{Path, Request, State};
use axum::{Extension, Json};
use chorus_app::choir::adapt::{self, MAX_TRACE};
use chorus_node::AppState;
use chorus_protocol::api::scores::Adapting;
use chorus_protocol::choir::evidence::Bundle;
use utoipa_axum::routes;

pub(super) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(convert))
}

/// Convert a framework's trace into an evidence bundle
///
/// `format` is `openai`, `langgraph`, `crewai`, `otel` or `auto`. The body is the framework's own output, at
/// most 8 MiB. It is neither stored nor logged. The result can be submitted as evidence, or signed. For larger
/// traces use `chorus adapt`.
#[utoipa::path(post, path = "/api/v1/adapt/{format}", operation_id = "adapt_trace", tag = "choir", security(("key" = [])),
    params(("format" = String, Path, description = "The framework that wrote the trace"), Adapting),
    request_body = Object,
    responses((status = 200, description = "The bundle", body = Bundle),
              Invalid, Unknown, Forbidden, Missing, TooSlow, TooLarge, TooFast, Overloaded))]
async fn convert(
    State(app): State<AppState>,
    KnownOrHolder(caller): KnownOrHolder,
    Path(format): Path<String>,
    Query(asked): Query<Adapting>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Json<Bundle>, ApiError> {
    let place = adapt::enter(&app, &caller, client.source())?;
    let (parts, body) = request.into_parts();
    let trace = body::read(&app, &parts, body, MAX_TRACE).await?;
    Ok(Json(adapt::adapt(&app, caller, place, &format, asked, &trace).await?))
}
