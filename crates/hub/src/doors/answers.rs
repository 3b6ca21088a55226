//! Answers that many doors have in common, for the OpenAPI document.
#![expect(dead_code, reason = "describes answers for the OpenAPI document")]

use chorus_protocol::relay::Failure;

/// `ERR_REQUEST_TIMEOUT`: the body did not arrive in time
#[derive(utoipa::IntoResponses)]
#[response(status = 408)]
pub(crate) struct TooSlow(Failure);

/// `ERR_TOO_LARGE`: the body is larger than 256 KiB
#[derive(utoipa::IntoResponses)]
#[response(status = 413)]
pub(crate) struct TooLarge(Failure);

/// `ERR_RATE_LIMITED`
#[derive(utoipa::IntoResponses)]
#[response(status = 429, headers(("Retry-After" = u64, description = "Seconds to wait")))]
pub(crate) struct TooFast(Failure);

/// `ERR_OVERLOADED`: nothing was stored for certain; try again
#[derive(utoipa::IntoResponses)]
#[response(status = 503, headers(("Retry-After" = u64, description = "Seconds to wait")))]
pub(crate) struct Overloaded(Failure);

/// One event of a stream.
#[derive(utoipa::ToSchema)]
pub(crate) struct ServerSentEvent {
    /// Its kind.
    event: String,
    /// Its place in the inbox.
    id: Option<String>,
    /// JSON.
    data: String,
}
