//! The errors of a POST, for its sender and for retries.

use crate::transport::outbound_limits::{Limited, Verdict};
use chorus_outbound::Blocked;
use chorus_protocol::c2a::NOT_INITIALIZED;
use chorus_protocol::code::Code;
use chorus_protocol::rpc::RpcError;
use std::time::Duration;

/// Instructions for the owner of an unproven endpoint.
const WHAT_TO_DO: &str = "the receiver's endpoint has not answered this hub's challenge: it must answer the \
     POST {\"type\": \"challenge\", \"challenge\": …} with 200 and {\"challenge\": …}; try again";

/// The reason why an answer of a harness is no acknowledgement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    #[error("the harness did not answer with a JSON-RPC response to this request")]
    NoResponse,
    #[error("the harness answered with the JSON-RPC error {code}: {message}")]
    Refused { code: i64, message: String },
    #[error("the harness answered initialize without protocolVersion and capabilities: {0}")]
    Unclear(String),
    #[error("the harness speaks another version of C2A: {0}")]
    Version(String),
}

impl NotTaken {
    /// Returns whether a retry would get the same answer, because the request itself is wrong.
    pub fn is_final(&self) -> bool {
        const WRONG: [i64; 4] = [
            RpcError::PARSE,
            RpcError::INVALID_REQUEST,
            RpcError::METHOD_NOT_FOUND,
            RpcError::INVALID_PARAMS,
        ];
        matches!(self, Self::Refused { code, .. } if WRONG.contains(code))
    }

    /// Returns whether the harness has no session and needs a new handshake.
    pub fn wants_to_begin(&self) -> bool {
        matches!(self, Self::Refused { code: NOT_INITIALIZED, .. })
    }
}

/// The error of a POST.
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    #[error("the endpoint is not allowed: {0}")]
    Blocked(#[from] Blocked),
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error("{WHAT_TO_DO}")]
    Unproven,
    #[error("receiver did not respond within {}", seconds(*.0))]
    Timeout(Duration),
    #[error("receiver took no connection within {}", seconds(*.0))]
    NoConnection(Duration),
    #[error("receiver answered HTTP {0}")]
    Status(u16),
    #[error(transparent)]
    NotTaken(#[from] NotTaken),
    #[error("receiver could not be reached: {0}")]
    Unreachable(String),
    /// It took the connection, and may have what was sent.
    #[error("receiver could not be reached: it broke off ({0})")]
    BrokenOff(String),
    #[error("the hub stopped waiting for the answer, because too many requests are open")]
    Displaced,
    #[error("the job ended before the receiver answered")]
    JobOver,
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

impl PostError {
    pub fn code(&self) -> Code {
        match self {
            Self::Blocked(_) => Code::EndpointBlocked,
            Self::Timeout(_) | Self::NoConnection(_) => Code::Timeout,
            Self::Status(_)
            | Self::NotTaken(_)
            | Self::Unreachable(_)
            | Self::BrokenOff(_)
            | Self::Displaced
            | Self::JobOver
            | Self::Limited(_)
            | Self::Unproven => Code::AgentUnreachable,
        }
    }

    /// Returns whether the receiver may have got the request nevertheless.
    pub fn may_have_arrived(&self) -> bool {
        matches!(
            self,
            Self::Timeout(_)
                | Self::BrokenOff(_)
                | Self::Displaced
                | Self::JobOver
                | Self::NotTaken(NotTaken::NoResponse)
        )
    }

    /// Returns the verdict on the endpoint, if the error allows one.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        match self {
            Self::Status(_) | Self::NotTaken(_) => Some(Verdict::Refused),
            Self::Timeout(_) | Self::NoConnection(_) | Self::Unreachable(_) | Self::BrokenOff(_) => {
                Some(Verdict::Silent)
            }
            Self::Blocked(_) | Self::Limited(_) | Self::Unproven | Self::Displaced | Self::JobOver => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_the_request_is_wrong_for_ever() {
        for (code, is_final, begins) in [
            (-32700, true, false),
            (-32600, true, false),
            (-32601, true, false),
            (-32602, true, false),
            (-32603, false, false),
            (-32000, false, false),
            (NOT_INITIALIZED, false, true),
            (17, false, false),
        ] {
            let why = NotTaken::Refused { code, message: String::new() };
            assert_eq!((why.is_final(), why.wants_to_begin()), (is_final, begins), "{code}");
        }
        assert!(!NotTaken::NoResponse.is_final());
    }
}
