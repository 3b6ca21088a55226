//! Errors at the edge: one type, one place where it becomes HTTP, one format per door.
//!
//! A handler returns an [`ApiError`]; it travels as an extension of an empty response to the `frame`, which knows the
//! time and the door and renders it with [`render`]. What a client may read and what the log gets are two fields.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use chorus_protocol::faults::Faults;
use chorus_protocol::relay::{Code, ErrorBody, Failure, Metadata};
use chorus_protocol::time::rfc3339;
use chorus_store::StoreError;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// An error on its way to a client.
#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    pub(crate) code: Code,
    /// For the client: what is wrong and what to do. Never a secret, never a stack.
    pub(crate) message: String,
    /// When the same request may succeed, in milliseconds.
    pub(crate) retry_after_ms: Option<i64>,
    /// For the log.
    pub(crate) cause: Option<Arc<dyn Error + Send + Sync>>,
}

impl ApiError {
    pub(crate) fn new(code: Code, message: impl fmt::Display) -> Self {
        Self { code, message: message.to_string(), retry_after_ms: None, cause: None }
    }

    pub(crate) fn validation(what: impl fmt::Display) -> Self {
        Self::new(Code::Validation, what)
    }

    pub(crate) fn unauthorized(what: &str) -> Self {
        Self::new(Code::Unauthorized, what)
    }

    pub(crate) fn internal(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let mut error = Self::new(Code::Internal, "the hub made a mistake; it is in its log");
        error.cause = Some(cause.into().into());
        error
    }

    pub(crate) fn retry_after_ms(mut self, ms: i64) -> Self {
        self.retry_after_ms = Some(ms);
        self
    }

    /// For answers that were not made by us: an unknown path, a method a path does not have.
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

impl From<Faults> for ApiError {
    fn from(faults: Faults) -> Self {
        Self::validation(faults)
    }
}

impl From<StoreError> for ApiError {
    /// Nothing was acknowledged: whatever hindered the store, the client may try again.
    fn from(error: StoreError) -> Self {
        if matches!(error, StoreError::Unexpected(_) | StoreError::Panicked) {
            return Self::internal(error);
        }
        let mut api = Self::new(
            Code::Overloaded,
            format_args!("{error}; nothing of this request was stored for certain, try again"),
        )
        .retry_after_ms(1000);
        api.cause = Some(Arc::new(error));
        api
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

/// The response a client sees, in the relay's common format.
pub(crate) fn render(error: &ApiError, mut response: Response, now: i64) -> Response {
    let failure = Failure {
        success: false,
        error: ErrorBody { code: error.code.as_str().into(), message: error.message.clone() },
        metadata: Metadata { timestamp: rfc3339(now), next: None },
    };
    let body = serde_json::to_vec(&failure).unwrap_or_default();
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
