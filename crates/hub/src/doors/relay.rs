//! The relay's door: Chorus Transport 0.4, exactly where its document puts things.

pub(crate) mod bodies;
pub(crate) mod directory;
pub(crate) mod inbox;
pub(crate) mod reply;
pub(crate) mod send;

use crate::route::{Credentials, Route};
use crate::routes::Routes;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use chorus_app::App;
use chorus_protocol::relay::{Metadata, Success};
use chorus_protocol::time::rfc3339;
use serde::Serialize;
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    // Who wants to register again has a stale key; its door looks at the key itself.
    let register = Route { credentials: Credentials::Ignored, ..Route::RELAY };
    Routes::default()
        .at(register, routes!(directory::register))
        .at(Route::RELAY, routes!(directory::list, directory::register_by_operator))
        .at(Route::RELAY, routes!(directory::one, directory::unregister))
        .at(Route::RELAY, routes!(send::send))
        .at(reply::REPLIES, routes!(reply::reply))
        .at(Route::RELAY, routes!(inbox::open))
        .at(Route::RELAY, routes!(inbox::history))
}

/// A success in the relay's common format.
pub(super) fn success<T: Serialize>(app: &App, status: StatusCode, data: T) -> Response {
    success_page(app, status, data, None)
}

/// The same for a page of a list.
pub(super) fn success_page<T: Serialize>(
    app: &App,
    status: StatusCode,
    data: T,
    next: Option<String>,
) -> Response {
    let metadata = Metadata { timestamp: rfc3339(app.now()), next };
    (status, Json(Success { success: true, data, metadata })).into_response()
}
