//! Responses with server-sent events.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use chorus_protocol::sse::STREAM_HEADERS;

/// Returns a stream of events with headers that forbid caching and buffering.
pub(crate) fn event_stream(body: Body) -> Response {
    (STREAM_HEADERS, body).into_response()
}
