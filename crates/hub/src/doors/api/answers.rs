//! Answers that the doors of `/api/v1` have in common, for the OpenAPI document.
#![expect(dead_code, reason = "describes answers for the OpenAPI document")]

use crate::error::OwnFailure;

/// `VALIDATION`: everything that is wrong with the request, at once
#[derive(utoipa::IntoResponses)]
#[response(status = 400)]
pub(crate) struct Invalid(OwnFailure);

/// `UNAUTHORIZED`: this needs a key, a token or a session that is valid
#[derive(utoipa::IntoResponses)]
#[response(status = 401)]
pub(crate) struct Unknown(OwnFailure);

/// `FORBIDDEN`: not this caller; or a browser's session on a request from another site. `QUOTA_EXCEEDED`: `details` says which
/// quota, how much of it is used and how much there is
#[derive(utoipa::IntoResponses)]
#[response(status = 403)]
pub(crate) struct Forbidden(OwnFailure);

/// `QUOTA_EXCEEDED`: `details` says which quota, how much of it is used and how much there is. `FORBIDDEN`: whoever this is for
/// does not want it, or is disabled
#[derive(utoipa::IntoResponses)]
#[response(status = 403)]
pub(crate) struct Refused(OwnFailure);

/// `NOT_FOUND`: there is none, or the caller may not see it
#[derive(utoipa::IntoResponses)]
#[response(status = 404)]
pub(crate) struct Missing(OwnFailure);

/// `CONFLICT`, or `IDEMPOTENCY_CONFLICT`: the `Idempotency-Key` was used for something else
#[derive(utoipa::IntoResponses)]
#[response(status = 409)]
pub(crate) struct Conflict(OwnFailure);

/// `REQUEST_TIMEOUT`: the body did not arrive in time
#[derive(utoipa::IntoResponses)]
#[response(status = 408)]
pub(crate) struct TooSlow(OwnFailure);

/// `TOO_LARGE`: the body is larger than 256 KiB
#[derive(utoipa::IntoResponses)]
#[response(status = 413)]
pub(crate) struct TooLarge(OwnFailure);

/// `RATE_LIMITED`
#[derive(utoipa::IntoResponses)]
#[response(status = 429, headers(("Retry-After" = u64, description = "Seconds to wait")))]
pub(crate) struct TooFast(OwnFailure);

/// `OVERLOADED`: nothing was stored for certain; try again
#[derive(utoipa::IntoResponses)]
#[response(status = 503, headers(("Retry-After" = u64, description = "Seconds to wait")))]
pub(crate) struct Overloaded(OwnFailure);
