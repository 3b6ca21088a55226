//! What can go wrong between a client and its hub, in sentences that help a person.
//!
//! A sentence never repeats its source; whoever prints it walks the chain. No variant ever holds a key.

use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use std::time::Duration;

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The input is wrong; nothing was sent.
    #[error("{0}")]
    Invalid(Faults),
    /// The hub said no.
    #[error("the hub refused: {message} ({code})")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The transport's code, or `HTTP_` and the status where the answer named none.
        code: String,
        /// The hub's own sentence.
        message: String,
        /// How long the hub asks to wait.
        retry_after: Option<Duration>,
    },
    /// No answer came.
    #[error("cannot reach the hub at {url}")]
    Unreachable {
        /// The hub's address.
        url: String,
        /// What the network said.
        #[source]
        source: reqwest::Error,
    },
    /// A stream that was open is gone; the text completes "lost the connection: …".
    #[error("lost the connection: {0}")]
    Lost(&'static str),
    /// Another connection of the same agent has this one's place; to come back would only take it in turn.
    #[error("another connection of this agent took the session over")]
    TakenOver,
    /// An answer came, but not one this protocol knows.
    #[error("{0}")]
    Protocol(String),
    /// The HTTP client could not be set up.
    #[error("cannot set up the HTTP client")]
    Setup(#[source] reqwest::Error),
}

/// The classes of failure a program's exit code tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitClass {
    /// Something else went wrong.
    Failed,
    /// The input was wrong.
    Usage,
    /// The hub said no.
    Refused,
    /// The hub did not answer.
    Unreachable,
}

impl ClientError {
    /// The class of this failure.
    pub fn exit_class(&self) -> ExitClass {
        match self {
            Self::Invalid(_) => ExitClass::Usage,
            Self::Refused { .. } => ExitClass::Refused,
            Self::Unreachable { .. } | Self::Lost(_) => ExitClass::Unreachable,
            Self::TakenOver | Self::Protocol(_) | Self::Setup(_) => ExitClass::Failed,
        }
    }

    /// The code, if the hub refused with one that this version knows.
    pub fn code(&self) -> Option<Code> {
        match self {
            // Paths that are not the relay's leave out the prefix.
            Self::Refused { code, .. } => Code::parse(code).or_else(|| Code::parse(&format!("ERR_{code}"))),
            _ => None,
        }
    }

    /// The same of a path that is beyond the relay's document: a hub that goes by that alone does not know it, and says so in the
    /// relay's words or in none. Ours answers about these paths in words of its own.
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

    /// How long to wait at least before the same request may succeed; `None` when it never will.
    pub fn transient(&self) -> Option<Duration> {
        match self {
            Self::Unreachable { source, .. } if source.is_builder() => None,
            Self::Unreachable { .. } | Self::Lost(_) => Some(Duration::ZERO),
            Self::Refused { status, retry_after, .. } => {
                // The statuses speak for proxies, which know nothing of the transport's codes.
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
