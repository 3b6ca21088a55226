//! Reading request bodies, bounded in size and time. Each limit has its own error.

use crate::error::ApiError;
use axum::body::{Body, HttpBody};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap};
use bytes::Bytes;
use chorus_node::App;
use chorus_node::limits::body_budget::{BodyLease, SMALL_BODY};
use chorus_protocol::json;
use chorus_web::read_body;
use serde_json::Value;

/// Reads the whole body, at most `limit` bytes.
pub(crate) async fn read(app: &App, parts: &Parts, body: Body, limit: usize) -> Result<Bytes, ApiError> {
    Ok(read_body(app, parts, body, limit).await?)
}

/// Reads the whole body as JSON.
pub(crate) async fn read_json(app: &App, parts: &Parts, body: Body, limit: usize) -> Result<Value, ApiError> {
    let bytes = read(app, parts, body, limit).await?;
    json::parse(&bytes).map_err(ApiError::validation)
}

/// Returns whether a body is too small to be counted in the [budget](chorus_node::limits::body_budget) of all bodies.
pub(crate) fn is_small(body: &Body) -> bool {
    body.size_hint().upper().is_some_and(|length| length <= SMALL_BODY as u64)
}

/// Returns the lease that accounts for this request's body bytes.
pub(crate) fn lease(request: &Extensions) -> Result<BodyLease, ApiError> {
    let lease = request.get().cloned();
    lease.ok_or_else(|| ApiError::internal("a request without a lease for its body"))
}

/// Returns the `Idempotency-Key` of a request.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let key = value.to_str().ok().filter(|key| (1..=255).contains(&key.len()));
    key.map(Some)
        .ok_or_else(|| ApiError::validation("Idempotency-Key: must be 1 to 255 visible ASCII characters"))
}
