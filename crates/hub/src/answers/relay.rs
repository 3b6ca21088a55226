//! The relay's format: success, and errors for the OpenAPI document.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use chorus_node::App;
use chorus_protocol::relay::{Failure, Metadata, Success};
use chorus_protocol::time::rfc3339;
use serde::Serialize;
use utoipa::IntoResponses;

/// Renders a success in the relay's common format.
pub(crate) fn success<T: Serialize>(app: &App, status: StatusCode, data: T) -> Response {
    success_page(app, status, data, None)
}

/// Renders a page of a list in the relay's common format.
pub(crate) fn success_page<T: Serialize>(
    app: &App,
    status: StatusCode,
    data: T,
    next: Option<String>,
) -> Response {
    let metadata = Metadata { timestamp: rfc3339(app.now()), next };
    (status, Json(Success { success: true, data, metadata })).into_response()
}

/// `ERR_REQUEST_TIMEOUT`: the body did not arrive in time
#[derive(IntoResponses)]
#[response(status = 408)]
#[expect(dead_code, reason = "describes an answer for the OpenAPI document")]
pub(crate) struct TooSlow(Failure);

/// `ERR_TOO_LARGE`: the body is larger than 256 KiB
#[derive(IntoResponses)]
#[response(status = 413)]
#[expect(dead_code, reason = "describes an answer for the OpenAPI document")]
pub(crate) struct TooLarge(Failure);

/// `ERR_RATE_LIMITED`: too many requests. Try again after `Retry-After` seconds
#[derive(IntoResponses)]
#[response(status = 429, headers(("Retry-After" = u64, description = "The seconds to wait before a retry")))]
#[expect(dead_code, reason = "describes an answer for the OpenAPI document")]
pub(crate) struct TooFast(Failure);

/// `ERR_OVERLOADED`: the request was not confirmed as stored. Try again
#[derive(IntoResponses)]
#[response(status = 503, headers(("Retry-After" = u64, description = "The seconds to wait before a retry")))]
#[expect(dead_code, reason = "describes an answer for the OpenAPI document")]
pub(crate) struct Overloaded(Failure);
