//! What an act says and what a client says, in the words of the other.

use crate::error::ApiError;
use chorus_app::{Error, tools};
use chorus_protocol::code::Code;
use chorus_protocol::rpc::RpcError;
use serde_json::{Map, Value};
use uuid::Uuid;

pub(super) type Failure = chorus_mcp::Failure<ApiError>;

/// What an act refused: who may not be here is told that alone, everybody else in the protocol's words.
pub(super) fn failure(error: Error) -> Failure {
    if error.keeps_out() {
        return Failure::Refused(error.into());
    }
    let trouble = log(&error) || error.code.retryable();
    let code = if trouble { RpcError::INTERNAL } else { RpcError::INVALID_PARAMS };
    RpcError::new(code, tools::sentence(&error)).into()
}

/// Our own mistakes go to the log; whether it is one.
pub(super) fn log(error: &Error) -> bool {
    if error.code == Code::Internal {
        tracing::error!(
            cause = error.cause.as_deref().map(|cause| cause as &dyn std::error::Error),
            "an MCP request failed"
        );
    }
    error.code == Code::Internal
}

/// A text among the parameters of a method.
pub(super) fn text<'p>(params: &'p Map<String, Value>, name: &str) -> Result<&'p str, RpcError> {
    let text = params.get(name).and_then(Value::as_str);
    text.ok_or_else(|| RpcError::params(format_args!("{name}: must be a text")))
}

/// A session that a client names. What is no id names none.
pub(super) fn session_id(session: &str) -> Option<Uuid> {
    Uuid::try_parse(session).ok()
}
