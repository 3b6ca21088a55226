//! Errors at the edge: turns errors of [`chorus_app`] into HTTP, in the relay's format or the hub's own. The
//! MCP door and the pages render their errors themselves.
//!
//! A handler returns an [`ApiError`]. It travels as an extension of an empty response to the middleware, which
//! knows the time and the route and renders it with [`render`].

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use chorus_node::Error;
use chorus_protocol::code::Code;
use chorus_protocol::relay::{ErrorBody, Failure, Metadata};
use chorus_protocol::time::rfc3339;
use serde::Serialize;
use serde_json::Value;
use std::error::Error as StdError;
use std::fmt;
use std::ops::Deref;

/// An error on its way to a client.
#[derive(Debug, Clone)]
pub(crate) struct ApiError(pub(crate) Error);

impl<E: Into<Error>> From<E> for ApiError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl Deref for ApiError {
    type Target = Error;

    fn deref(&self) -> &Error {
        &self.0
    }
}

impl ApiError {
    pub(crate) fn new(code: Code, message: impl fmt::Display) -> Self {
        Self(Error::new(code, message))
    }

    pub(crate) fn validation(what: impl fmt::Display) -> Self {
        Self(Error::validation(what))
    }

    pub(crate) fn unauthorized(what: &str) -> Self {
        Self(Error::unauthorized(what))
    }

    pub(crate) fn internal(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self(Error::internal(cause))
    }

    pub(crate) fn retry_after_ms(self, ms: i64) -> Self {
        Self(self.0.retry_after_ms(ms))
    }

    /// Returns the error for a response of the HTTP framework: an unknown path, or a method that a path does
    /// not have.
    pub(crate) fn of_status(status: StatusCode) -> Self {
        match status {
            StatusCode::NOT_FOUND => {
                Self::new(Code::NotFound, "there is nothing at this path; GET /api lists what there is")
            }
            StatusCode::METHOD_NOT_ALLOWED => {
                Self::new(Code::Method, "this path does not take this method; see the Allow header")
            }
            StatusCode::PAYLOAD_TOO_LARGE => Self::new(Code::TooLarge, "the body is too large"),
            status if status.is_client_error() => {
                Self::new(Code::Validation, "the request's path or query is malformed")
            }
            status => Self::internal(format!("an unexpected status {status}")),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// The error format of a door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// The relay's common format.
    Relay,
    /// The hub's own format: `{"error": {"code", "message", "details"?}}`.
    Own,
}

/// An error in the hub's own format.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct OwnFailure {
    pub(crate) error: OwnError,
}

/// The error of a failed request.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct OwnError {
    /// A stable code, such as `VALIDATION`, `NOT_FOUND` or `CONFLICT`.
    pub(crate) code: &'static str,
    /// An explanation for people: what is wrong and what to do.
    pub(crate) message: String,
    /// Machine-readable details. Absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub(crate) details: Option<Value>,
}

/// Renders an error in its door's format.
pub(crate) fn render(error: &ApiError, format: Format, mut response: Response, now: i64) -> Response {
    let body = match format {
        Format::Relay => serde_json::to_vec(&Failure {
            success: false,
            error: ErrorBody { code: error.code.as_str().into(), message: error.message.clone() },
            metadata: Metadata { timestamp: rfc3339(now), next: None },
        }),
        Format::Own => serde_json::to_vec(&OwnFailure {
            error: OwnError {
                code: error.code.short(),
                message: error.message.clone(),
                details: error.details.clone(),
            },
        }),
    };
    let body = body.unwrap_or_default();
    *response.body_mut() = body.into();
    *response.status_mut() =
        StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(ms) = error.retry_after_ms {
        headers.insert(header::RETRY_AFTER, HeaderValue::from((ms.max(1) as u64).div_ceil(1000)));
    }
    if error.code == Code::Unauthorized {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"chorus\""));
    }
    response
}
