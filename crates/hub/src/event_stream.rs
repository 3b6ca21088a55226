//! An answer that goes on: server-sent events.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use chorus_protocol::sse::STREAM_HEADERS;

/// A stream of events that nobody on the way keeps or holds back.
pub(crate) fn event_stream(body: Body) -> Response {
    (STREAM_HEADERS, body).into_response()
}
