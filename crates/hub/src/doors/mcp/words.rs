//! Converts errors of acts into MCP's format, and parameters of clients into ours.

use crate::error::ApiError;
use chorus_app::tools;
use chorus_node::Error;
use chorus_protocol::code::Code;
use chorus_protocol::rpc::RpcError;
use serde_json::{Map, Value};
use uuid::Uuid;

pub(super) type Failure = chorus_mcp::Failure<ApiError>;

/// Converts an error of an act: an authorization error ends the request, any other becomes an error of the
/// protocol.
pub(super) fn failure(error: Error) -> Failure {
    if error.keeps_out() {
        return Failure::Refused(error.into());
    }
    let trouble = log(&error) || error.code.retryable();
    let code = if trouble { RpcError::INTERNAL } else { RpcError::INVALID_PARAMS };
    RpcError::new(code, tools::sentence(&error)).into()
}

/// Logs an internal error. Returns whether it is one.
pub(super) fn log(error: &Error) -> bool {
    if error.code == Code::Internal {
        tracing::error!(
            cause = error.cause.as_deref().map(|cause| cause as &dyn std::error::Error),
            "an MCP request failed"
        );
    }
    error.code == Code::Internal
}

/// Returns a text parameter of a method.
pub(super) fn text<'p>(params: &'p Map<String, Value>, name: &str) -> Result<&'p str, RpcError> {
    let text = params.get(name).and_then(Value::as_str);
    text.ok_or_else(|| RpcError::params(format_args!("{name}: must be a text")))
}

/// Parses a session id. An invalid id names no session.
pub(super) fn session_id(session: &str) -> Option<Uuid> {
    Uuid::try_parse(session).ok()
}
