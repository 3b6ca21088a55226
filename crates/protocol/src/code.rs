//! Error codes shared by all doors: six from the transport document, five from the market document, and the
//! hub's own.

use std::fmt;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal, $status:literal, $retry:literal;)*) => {
        /// A stable error code. Clients act on the code; people read the message beside it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[$doc])* $variant,)* }

        impl Code {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the code as written on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// Returns the HTTP status that goes with the code.
            pub fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)* }
            }

            /// Returns `true` if the same request may succeed later.
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
    /// The endpoint has a private address or another address that the hub must not call.
    EndpointBlocked = "ERR_ENDPOINT_BLOCKED", 400, false;
    /// The agent does not offer the requested skill.
    SkillMismatch = "SKILL_MISMATCH", 422, false;
    /// The budget is below the agent's price.
    BudgetInsufficient = "BUDGET_INSUFFICIENT", 422, false;
    /// The wallet's balance is too low.
    TransferFailed = "TRANSFER_FAILED", 402, false;
    /// The agent to be hired has sent no heartbeat recently.
    AgentOffline = "AGENT_OFFLINE", 503, true;
    /// The agent failed during its work.
    ExecutionError = "EXECUTION_ERROR", 502, false;
    /// Authentication is required or invalid.
    Unauthorized = "ERR_UNAUTHORIZED", 401, false;
    /// The caller is authenticated but not allowed to do this.
    Forbidden = "ERR_FORBIDDEN", 403, false;
    /// An agent tried to send in another agent's name.
    SenderMismatch = "ERR_SENDER_MISMATCH", 403, false;
    /// The event's response policy does not allow this answer.
    PolicyForbidden = "ERR_POLICY_FORBIDDEN", 403, false;
    /// A quota is used up. The message names the quota and the remedy.
    QuotaExceeded = "ERR_QUOTA_EXCEEDED", 403, false;
    /// The agent does not exist.
    AgentNotFound = "ERR_AGENT_NOT_FOUND", 404, false;
    /// The path or object does not exist.
    NotFound = "ERR_NOT_FOUND", 404, false;
    /// The path does not support this method.
    Method = "ERR_METHOD", 405, false;
    /// The client did not send its whole request in time.
    RequestTimeout = "ERR_REQUEST_TIMEOUT", 408, true;
    /// Another agent holds this address.
    AgentIdTaken = "ERR_AGENT_ID_TAKEN", 409, false;
    /// The idempotency key or turn was used before with other content.
    IdempotencyConflict = "ERR_IDEMPOTENCY_CONFLICT", 409, false;
    /// The first request with this key is still being processed.
    IdempotencyInProgress = "ERR_IDEMPOTENCY_IN_PROGRESS", 409, true;
    /// The state is not as the request assumes, for example a taken name or a stale version.
    Conflict = "ERR_CONFLICT", 409, false;
    /// The object existed and has ended.
    Gone = "ERR_GONE", 410, false;
    TooLarge = "ERR_TOO_LARGE", 413, false;
    /// The headers are too large or too many.
    HeadTooLarge = "ERR_HEAD_TOO_LARGE", 431, false;
    RateLimited = "ERR_RATE_LIMITED", 429, true;
    /// An internal error of the hub.
    Internal = "ERR_INTERNAL", 500, true;
    /// The receiver's endpoint could not be reached.
    AgentUnreachable = "ERR_AGENT_UNREACHABLE", 502, true;
    /// The hub cannot accept the request now, for example because of a full queue, a full disk or a locked
    /// store.
    Overloaded = "ERR_OVERLOADED", 503, true;
    /// The receiver did not answer in time.
    Timeout = "ERR_TIMEOUT", 504, true;
}

impl Code {
    /// Returns the code without `ERR_`, as used by all doors but the relay.
    pub fn short(self) -> &'static str {
        self.as_str().strip_prefix("ERR_").unwrap_or(self.as_str())
    }

    /// Parses the wire form.
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
