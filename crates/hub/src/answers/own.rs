//! Refusals in the hub's own format, for the OpenAPI document.
#![expect(dead_code, reason = "describes answers for the OpenAPI document")]

use crate::error::OwnFailure;
use std::collections::BTreeMap;
use utoipa::IntoResponses;
use utoipa::openapi::{RefOr, Response};

/// `VALIDATION`: everything that is wrong with the request, at once
#[derive(IntoResponses)]
#[response(status = 400)]
pub(crate) struct Invalid(OwnFailure);

/// `UNAUTHORIZED`: this needs a key, a token or a session that is valid
#[derive(IntoResponses)]
#[response(status = 401)]
pub(crate) struct Unknown(OwnFailure);

/// `FORBIDDEN`: not this caller; or a browser's session on a request from another site. `QUOTA_EXCEEDED`: `details` says which
/// quota, how much of it is used and how much there is
#[derive(IntoResponses)]
#[response(status = 403)]
pub(crate) struct Forbidden(OwnFailure);

/// `QUOTA_EXCEEDED`: `details` says which quota, how much of it is used and how much there is. `FORBIDDEN`: whoever this is for
/// does not want it, or is disabled
#[derive(IntoResponses)]
#[response(status = 403)]
pub(crate) struct Refused(OwnFailure);

/// `NOT_FOUND`: there is none, or the caller may not see it
#[derive(IntoResponses)]
#[response(status = 404)]
pub(crate) struct Missing(OwnFailure);

/// `CONFLICT`, or `IDEMPOTENCY_CONFLICT`: the `Idempotency-Key` was used for something else
#[derive(IntoResponses)]
#[response(status = 409)]
pub(crate) struct Conflict(OwnFailure);

/// `REQUEST_TIMEOUT`: the body did not arrive in time
#[derive(IntoResponses)]
#[response(status = 408)]
pub(crate) struct TooSlow(OwnFailure);

/// `TOO_LARGE`: the body is larger than 256 KiB
#[derive(IntoResponses)]
#[response(status = 413)]
pub(crate) struct TooLarge(OwnFailure);

/// `RATE_LIMITED`
#[derive(IntoResponses)]
#[response(status = 429, headers(("Retry-After" = u64, description = "Seconds to wait")))]
pub(crate) struct TooFast(OwnFailure);

/// `OVERLOADED`: nothing was stored for certain; try again
#[derive(IntoResponses)]
#[response(status = 503, headers(("Retry-After" = u64, description = "Seconds to wait")))]
pub(crate) struct Overloaded(OwnFailure);

/// What every request to read something may be refused with.
pub(crate) struct Reading;

/// What every request to do something may be refused with.
pub(crate) struct Doing;

macro_rules! refusals {
    ($($name:ident: $($answer:ident),+;)+) => {$(
        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, RefOr<Response>> {
                let mut all = BTreeMap::new();
                $(all.extend($answer::responses());)+
                all
            }
        }
    )+};
}

refusals! {
    Reading: Invalid, Unknown, Forbidden, Missing, TooFast, Overloaded;
    Doing: Invalid, Unknown, Forbidden, Missing, Conflict, TooSlow, TooLarge, TooFast, Overloaded;
}
