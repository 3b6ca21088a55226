//! Reading what a client sends: bounded in size and time, with an error for each.

use crate::error::ApiError;
use axum::body::Body;
use axum::http::HeaderMap;
use bytes::Bytes;
use chorus_app::App;
use chorus_protocol::json;
use chorus_web::read_body;
use serde_json::Value;

/// The whole body, if it is at most `limit` bytes.
pub(crate) async fn read(
    app: &App,
    headers: &HeaderMap,
    body: Body,
    limit: usize,
) -> Result<Bytes, ApiError> {
    Ok(read_body(app, headers, body, limit).await?)
}

/// The whole body as JSON.
pub(crate) async fn read_json(
    app: &App,
    headers: &HeaderMap,
    body: Body,
    limit: usize,
) -> Result<Value, ApiError> {
    let bytes = read(app, headers, body, limit).await?;
    json::parse(&bytes).map_err(ApiError::validation)
}

/// What a client calls a request that it may send again.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let key = value.to_str().ok().filter(|key| (1..=255).contains(&key.len()));
    key.map(Some)
        .ok_or_else(|| ApiError::validation("Idempotency-Key: must be 1 to 255 visible ASCII characters"))
}
