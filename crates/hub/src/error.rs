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
use chorus_store::channel::ChannelError;
use chorus_store::usage::Exceeded;
use serde::Serialize;
use serde_json::Value;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// An error on its way to a client.
#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    pub(crate) code: Code,
    /// For the client: what is wrong and what to do. Never a secret, never a stack.
    pub(crate) message: String,
    /// For a client that is a program: what exactly.
    pub(crate) details: Option<Value>,
    /// When the same request may succeed, in milliseconds.
    pub(crate) retry_after_ms: Option<i64>,
    /// For the log.
    pub(crate) cause: Option<Arc<dyn Error + Send + Sync>>,
}

impl ApiError {
    pub(crate) fn new(code: Code, message: impl fmt::Display) -> Self {
        Self { code, message: message.to_string(), details: None, retry_after_ms: None, cause: None }
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

    pub(crate) fn details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
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
        let advice = match error {
            StoreError::TooLong => "ask for less, or try again when the hub is less busy",
            _ => "nothing of this request was stored for certain, try again",
        };
        let mut api = Self::new(Code::Overloaded, format_args!("{error}; {advice}")).retry_after_ms(1000);
        api.cause = Some(Arc::new(error));
        api
    }
}

impl From<ChannelError> for ApiError {
    fn from(error: ChannelError) -> Self {
        match error {
            ChannelError::NotFound => {
                Self::new(Code::NotFound, "there is no such conversation, or you are not a member of it")
            }
            ChannelError::NoTarget => {
                Self::new(Code::NotFound, "there is no such message in this conversation")
            }
            ChannelError::Archived => Self::new(
                Code::Conflict,
                "this conversation is archived: it can be read, nothing can be said in it",
            ),
            ChannelError::Forbidden => Self::new(Code::Forbidden, "you may not do this here"),
            ChannelError::OwnerStays => Self::new(
                Code::Conflict,
                "the owner cannot leave: make another member the `owner` of the channel first, or archive it",
            ),
            ChannelError::NoHandle(handle) => {
                Self::new(Code::NotFound, format_args!("nobody in this conversation is called {handle:?}"))
            }
            ChannelError::HandleTaken(handle) => Self::new(
                Code::Conflict,
                format_args!(
                    "somebody else in this conversation is called {handle:?}; give another `handle`"
                ),
            ),
            ChannelError::Already(handle) => {
                Self::new(Code::Conflict, format_args!("it is a member already, as {handle:?}"))
            }
            ChannelError::Stale(version) => Self::new(
                Code::Conflict,
                format_args!("the document is at version {version}; read it and change that one"),
            )
            .details(serde_json::json!({"version": version})),
            ChannelError::Blocked => Self::new(Code::Forbidden, "the other does not want to hear from you"),
            ChannelError::Quota(exceeded) => exceeded.into(),
            ChannelError::Store(error) => error.into(),
        }
    }
}

impl From<Exceeded> for ApiError {
    fn from(exceeded: Exceeded) -> Self {
        let Exceeded { quota, used, limit } = &exceeded;
        let details = serde_json::json!({"quota": quota, "used": used, "limit": limit});
        Self::new(Code::QuotaExceeded, exceeded).details(details)
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

/// In which format a door answers errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// The relay's common format.
    Relay,
    /// The hub's own: `{"error": {"code", "message", "details"?}}`.
    Own,
}

impl Format {
    /// The format of what lies at this path.
    pub(crate) fn of(path: &str) -> Self {
        let own = ["/api/v1", "/channels/", "/inbox/", "/mcp/", "/signin", "/signout", "/tokens"];
        if own.iter().any(|prefix| path.starts_with(prefix)) { Self::Own } else { Self::Relay }
    }
}

/// An error in the hub's own format.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct OwnFailure {
    pub(crate) error: OwnError,
}

/// What went wrong.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct OwnError {
    /// A stable code: `VALIDATION`, `NOT_FOUND`, `CONFLICT`…
    pub(crate) code: &'static str,
    /// The same for a person, and what to do.
    pub(crate) message: String,
    /// The same for a program, where there is more to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub(crate) details: Option<Value>,
}

/// The response a client sees, in its door's format.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_was_stopped_says_so() {
        let error = ApiError::from(StoreError::TooLong);
        assert_eq!(
            (error.code, error.code.status(), error.retry_after_ms),
            (Code::Overloaded, 503, Some(1000))
        );
        assert!(error.message.contains("took too long") && error.message.contains("ask for less"));
        assert!(!error.message.contains("stored"), "it stored nothing: {}", error.message);
    }
}
