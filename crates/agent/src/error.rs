//! Errors between a client and its hub, with messages for people.
//!
//! A message never repeats its source; the printer walks the chain of sources. No variant ever holds a key.

use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use std::time::Duration;

/// The reason why a request to a hub failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The input is wrong; nothing was sent.
    #[error("{0}")]
    Invalid(Faults),
    /// The hub refused the request.
    #[error("the hub refused: {message} ({code})")]
    Refused {
        status: u16,
        /// The protocol's error code, or `HTTP_` and the status if the response named none.
        code: String,
        /// The hub's own message.
        message: String,
        /// The pause that the hub asks for.
        retry_after: Option<Duration>,
    },
    #[error("cannot reach the hub at {url}")]
    Unreachable {
        url: String,
        #[source]
        source: reqwest::Error,
    },
    /// An open stream was lost. The text completes "lost the connection: …".
    #[error("lost the connection: {0}")]
    Lost(&'static str),
    /// Another connection of the same agent took over. Reconnecting would only take the session back and
    /// forth.
    #[error("another connection of this agent took the session over")]
    TakenOver,
    /// A response came that is not part of the protocol.
    #[error("{0}")]
    Protocol(String),
    /// The HTTP client could not be set up.
    #[error("cannot set up the HTTP client")]
    Setup(#[source] reqwest::Error),
}

/// The classes of failure that a program's exit code distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitClass {
    /// Any other failure.
    Failed,
    /// The input was wrong.
    Usage,
    /// The hub refused.
    Refused,
    /// The hub did not answer.
    Unreachable,
}

impl ClientError {
    /// Returns the exit class of this error.
    pub fn exit_class(&self) -> ExitClass {
        match self {
            Self::Invalid(_) => ExitClass::Usage,
            Self::Refused { .. } => ExitClass::Refused,
            Self::Unreachable { .. } | Self::Lost(_) => ExitClass::Unreachable,
            Self::TakenOver | Self::Protocol(_) | Self::Setup(_) => ExitClass::Failed,
        }
    }

    /// Returns the error code if the hub refused with one that this version knows.
    pub fn code(&self) -> Option<Code> {
        match self {
            // Codes outside the relay's paths have no `ERR_` prefix.
            Self::Refused { code, .. } => Code::parse(code).or_else(|| Code::parse(&format!("ERR_{code}"))),
            _ => None,
        }
    }

    /// Rewrites the error for a path that is not part of the relay protocol. A hub that implements only the
    /// relay answers 404 or 405 there, with a relay code or none; our own hub uses codes without the `ERR_`
    /// prefix.
    pub(crate) fn beyond_relay(self) -> Self {
        match self {
            Self::Refused { status: status @ (404 | 405), code, retry_after, .. }
                if code.starts_with("ERR_") || code.starts_with("HTTP_") =>
            {
                let message = "this hub knows only the relay, and this needs more".to_owned();
                Self::Refused { status, code, message, retry_after }
            }
            other => other,
        }
    }

    /// Returns the minimum pause before a retry. `None` if a retry cannot succeed.
    pub fn transient(&self) -> Option<Duration> {
        match self {
            Self::Unreachable { source, .. } if source.is_builder() => None,
            Self::Unreachable { .. } | Self::Lost(_) => Some(Duration::ZERO),
            Self::Refused { status, retry_after, .. } => {
                // The statuses also cover proxies, which do not use the protocol's codes.
                let again =
                    matches!(status, 408 | 429 | 502..=504) || self.code().is_some_and(Code::retryable);
                again.then(|| retry_after.unwrap_or_default())
            }
            Self::Invalid(_) | Self::TakenOver | Self::Protocol(_) | Self::Setup(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, code: &str) -> ClientError {
        let retry_after = Some(Duration::from_secs(2));
        ClientError::Refused { status, code: code.into(), message: "no".into(), retry_after }
    }

    #[test]
    fn only_what_may_pass_is_transient() {
        for (status, code, again) in [
            (400, "ERR_VALIDATION", false),
            (401, "ERR_UNAUTHORIZED", false),
            (404, "ERR_AGENT_NOT_FOUND", false),
            (409, "ERR_IDEMPOTENCY_CONFLICT", false),
            (409, "ERR_IDEMPOTENCY_IN_PROGRESS", true),
            (429, "ERR_RATE_LIMITED", true),
            (500, "HTTP_500", false),
            (502, "HTTP_502", true),
            (503, "ERR_OVERLOADED", true),
        ] {
            let expected = again.then_some(Duration::from_secs(2));
            assert_eq!(refused(status, code).transient(), expected, "{code}");
        }
        assert_eq!(ClientError::Protocol("?".into()).transient(), None);
        assert_eq!(ClientError::Invalid(Faults::new()).transient(), None);
    }

    #[test]
    fn a_hub_that_knows_only_the_relay_is_called_that() {
        for (status, code, plain) in [
            (404, "HTTP_404", true),
            (404, "ERR_NOT_FOUND", true),
            (405, "ERR_METHOD", true),
            (404, "NOT_FOUND", false),
            (403, "ERR_FORBIDDEN", false),
        ] {
            let told = refused(status, code).beyond_relay().to_string();
            assert_eq!(told.contains("knows only the relay"), plain, "{status} {code}: {told}");
        }
    }

    #[test]
    fn classes() {
        assert_eq!(refused(404, "ERR_NOT_FOUND").exit_class(), ExitClass::Refused);
        assert_eq!(ClientError::Lost("gone").exit_class(), ExitClass::Unreachable);
    }
}
