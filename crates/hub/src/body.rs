//! Reading what a client sends: bounded in size and time, with an error for each.

use crate::error::ApiError;
use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use chorus_app::App;
use chorus_protocol::code::Code;
use chorus_protocol::json;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;

/// The whole body, if it is at most `limit` bytes.
pub(crate) async fn read(
    app: &App,
    headers: &HeaderMap,
    body: Body,
    limit: usize,
) -> Result<Bytes, ApiError> {
    let too_large = || ApiError::new(Code::TooLarge, format_args!("the body must be at most {limit} bytes"));
    let declared =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|length| length > limit) {
        return Err(too_large());
    }
    match tokio::time::timeout(app.config.times.body, Limited::new(body, limit).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(ApiError::validation("the body broke off")),
        Err(_) => Err(ApiError::new(Code::RequestTimeout, "the body did not arrive in time")),
    }
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
