//! Error codes, the same at every door: the six of the transport document, the five of the market's, and those they leave to the
//! server.

use std::fmt;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal, $status:literal, $retry:literal;)*) => {
        /// A stable error code. Clients decide by it, people read the message beside it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[$doc])* $variant,)* }

        impl Code {
            /// Every code there is, for tests that must not miss one.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// As it stands on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The HTTP status it travels with.
            pub fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)* }
            }

            /// Whether the same request may succeed later.
            pub fn retryable(self) -> bool {
                match self { $(Self::$variant => $retry,)* }
            }
        }
    };
}

codes! {
    /// The request failed validation.
    Validation = "ERR_VALIDATION", 400, false;
    /// The sender is not registered with this server.
    SenderNotRegistered = "ERR_SENDER_NOT_REGISTERED", 400, false;
    /// The endpoint is a private address, or another one the hub must not call.
    EndpointBlocked = "ERR_ENDPOINT_BLOCKED", 400, false;
    /// The agent does not have the skill that is asked for.
    SkillMismatch = "SKILL_MISMATCH", 422, false;
    /// The budget is below what the agent asks.
    BudgetInsufficient = "BUDGET_INSUFFICIENT", 422, false;
    /// The wallet cannot cover it.
    TransferFailed = "TRANSFER_FAILED", 402, false;
    /// The agent that is to be hired shows no sign of life.
    AgentOffline = "AGENT_OFFLINE", 503, true;
    /// The agent failed while it worked.
    ExecutionError = "EXECUTION_ERROR", 502, false;
    /// Authentication is required or invalid.
    Unauthorized = "ERR_UNAUTHORIZED", 401, false;
    /// The caller is known but may not do this.
    Forbidden = "ERR_FORBIDDEN", 403, false;
    /// An agent tried to send as somebody else.
    SenderMismatch = "ERR_SENDER_MISMATCH", 403, false;
    /// The response policy of an event allows no such answer.
    PolicyForbidden = "ERR_POLICY_FORBIDDEN", 403, false;
    /// A quota is used up; the message says which, and what can be done.
    QuotaExceeded = "ERR_QUOTA_EXCEEDED", 403, false;
    /// No such agent.
    AgentNotFound = "ERR_AGENT_NOT_FOUND", 404, false;
    /// No such path.
    NotFound = "ERR_NOT_FOUND", 404, false;
    /// The path exists, the method does not.
    Method = "ERR_METHOD", 405, false;
    /// The client did not send its whole request in time.
    RequestTimeout = "ERR_REQUEST_TIMEOUT", 408, true;
    /// Somebody else holds this address.
    AgentIdTaken = "ERR_AGENT_ID_TAKEN", 409, false;
    /// The same idempotency key, or turn, with other content.
    IdempotencyConflict = "ERR_IDEMPOTENCY_CONFLICT", 409, false;
    /// The first request with this key is still being worked on.
    IdempotencyInProgress = "ERR_IDEMPOTENCY_IN_PROGRESS", 409, true;
    /// It is not as the request supposes: a name that is taken, a version that is stale.
    Conflict = "ERR_CONFLICT", 409, false;
    /// It was there and is over.
    Gone = "ERR_GONE", 410, false;
    /// The body is too large.
    TooLarge = "ERR_TOO_LARGE", 413, false;
    /// The headers are too large, or too many.
    HeadTooLarge = "ERR_HEAD_TOO_LARGE", 431, false;
    /// Too many requests.
    RateLimited = "ERR_RATE_LIMITED", 429, true;
    /// A fault of the hub itself.
    Internal = "ERR_INTERNAL", 500, true;
    /// The receiver's endpoint could not be reached.
    AgentUnreachable = "ERR_AGENT_UNREACHABLE", 502, true;
    /// The hub cannot take this now: a full queue, a full disk, a locked store.
    Overloaded = "ERR_OVERLOADED", 503, true;
    /// The receiver did not answer in time.
    Timeout = "ERR_TIMEOUT", 504, true;
}

impl Code {
    /// As it stands on paths that are not the relay's.
    pub fn short(self) -> &'static str {
        self.as_str().strip_prefix("ERR_").unwrap_or(self.as_str())
    }

    /// Reads the wire form.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_table() {
        for (text, status, retryable) in [
            ("ERR_VALIDATION", 400, false),
            ("ERR_AGENT_NOT_FOUND", 404, false),
            ("ERR_AGENT_UNREACHABLE", 502, true),
            ("ERR_TIMEOUT", 504, true),
            ("ERR_UNAUTHORIZED", 401, false),
            ("ERR_SENDER_NOT_REGISTERED", 400, false),
        ] {
            let code = Code::parse(text).unwrap();
            assert_eq!((code.status(), code.retryable()), (status, retryable), "{text}");
        }
        assert_eq!(Code::parse("ERR_NOTHING"), None);
    }
}
