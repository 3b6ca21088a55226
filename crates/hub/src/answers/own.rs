//! Errors in the hub's own format, for the OpenAPI document.
#![expect(dead_code, reason = "describes answers for the OpenAPI document")]

use crate::error::OwnFailure;
use std::collections::BTreeMap;
use utoipa::IntoResponses;
use utoipa::openapi::{RefOr, Response};

/// `VALIDATION`: the request is invalid. `details` lists all problems at once
#[derive(IntoResponses)]
#[response(status = 400)]
pub(crate) struct Invalid(OwnFailure);

/// `UNAUTHORIZED`: this needs a valid key, token or session
#[derive(IntoResponses)]
#[response(status = 401)]
pub(crate) struct Unknown(OwnFailure);

/// `FORBIDDEN`: the caller may not do this, or a browser's session was used on a request from another site.
/// `QUOTA_EXCEEDED`: `details` names the quota, the amount used and the limit
#[derive(IntoResponses)]
#[response(status = 403)]
pub(crate) struct Forbidden(OwnFailure);

/// `QUOTA_EXCEEDED`: `details` names the quota, the amount used and the limit. `FORBIDDEN`: the recipient does
/// not accept this, or is disabled
#[derive(IntoResponses)]
#[response(status = 403)]
pub(crate) struct Refused(OwnFailure);

/// `NOT_FOUND`: it does not exist, or the caller may not see it
#[derive(IntoResponses)]
#[response(status = 404)]
pub(crate) struct Missing(OwnFailure);

/// `CONFLICT`: it contradicts the current state. `IDEMPOTENCY_CONFLICT`: the `Idempotency-Key` was used for
/// another request
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

/// `RATE_LIMITED`: too many requests. Try again after `Retry-After` seconds
#[derive(IntoResponses)]
#[response(status = 429, headers(("Retry-After" = u64, description = "The seconds to wait before a retry")))]
pub(crate) struct TooFast(OwnFailure);

/// `OVERLOADED`: the request was not confirmed as stored. Try again
#[derive(IntoResponses)]
#[response(status = 503, headers(("Retry-After" = u64, description = "The seconds to wait before a retry")))]
pub(crate) struct Overloaded(OwnFailure);

/// The errors that every read operation may return.
pub(crate) struct Reading;

/// The errors that every write operation may return.
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
