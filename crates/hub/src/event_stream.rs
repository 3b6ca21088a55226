//! An answer that goes on: server-sent events.

use axum::body::Body;
use axum::http::header::{self, HeaderName};
use axum::response::{IntoResponse, Response};

/// A stream of events that nobody on the way keeps or holds back.
pub(crate) fn event_stream(body: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // Proxies that buffer would hold events back.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, body).into_response()
}
