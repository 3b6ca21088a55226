//! A refusal by the agent's own server, in the error format of services and markets: `{"error": {"code",
//! "message"}}`.

use super::listen::json_answer;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{HeaderName, RETRY_AFTER};
use hyper::{Response, StatusCode};
use serde_json::json;

/// The reason why a request was not accepted.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
    header: Option<(HeaderName, &'static str)>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl ToString) -> Self {
        Self { status, code, message: message.to_string(), header: None }
    }

    /// Creates a refusal that asks the sender to try again.
    pub(crate) fn busy(code: &'static str, message: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message).with(RETRY_AFTER, "1")
    }

    /// Adds a header.
    pub(crate) fn with(mut self, name: HeaderName, value: &'static str) -> Self {
        self.header = Some((name, value));
        self
    }

    /// Builds the response.
    pub(crate) fn answer(self) -> Response<Full<Bytes>> {
        let Self { status, code, message, header } = self;
        json_answer(status, header, &json!({"error": {"code": code, "message": message}}))
    }
}
