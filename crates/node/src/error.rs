//! The error of an act: one type for every door. The door decides its form on the wire.
//!
//! The text for the caller and the cause for the log are two fields.

use chorus_market::money;
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_store::StoreError;
use chorus_store::conversation::ConversationError;
use chorus_store::usage::Exceeded;
use serde_json::Value;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// A refusal by a conversation, for doors that explain the remedy in their own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The caller is no member, or the conversation does not exist. Callers cannot tell which.
    NotMember,
    /// There is no such message.
    NoMessage,
    /// No member has this handle.
    NoHandle,
    /// There is no such document.
    NoDocument,
    /// There is a document of this slug.
    SlugTaken,
    /// The document has moved on.
    Stale,
    /// The response policy of an event allows no such answer.
    Policy,
    /// Somebody else holds the claim.
    ClaimedByOther,
    /// Somebody else is asked first.
    OfferedToOther,
    /// There is no claim to give back.
    NotClaimed,
    /// A newer version superseded the answered message.
    Superseded,
    /// Nothing can be said there any more.
    Archived,
    /// The other does not want to hear from the caller.
    Blocked,
}

/// The error of an act.
#[derive(Debug, Clone)]
pub struct Error {
    pub code: Code,
    /// The refusal, if a conversation refused the act.
    pub refused: Option<Refused>,
    /// The text for the client: the fault, then the remedy. Never a secret or a stack trace.
    pub message: String,
    /// For a client that is a program: what exactly.
    pub details: Option<Value>,
    /// The time after which the same request may succeed, in milliseconds.
    pub retry_after_ms: Option<i64>,
    /// The cause, for the log only.
    pub cause: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    pub fn new(code: Code, message: impl fmt::Display) -> Self {
        let message = message.to_string();
        Self { code, refused: None, message, details: None, retry_after_ms: None, cause: None }
    }

    pub fn validation(what: impl fmt::Display) -> Self {
        Self::new(Code::Validation, what)
    }

    pub fn unauthorized(what: &str) -> Self {
        Self::new(Code::Unauthorized, what)
    }

    /// Nothing is there, as far as this caller may know.
    pub fn not_found(what: &str) -> Self {
        Self::new(Code::NotFound, format_args!("there is no such {what}, or you may not see it"))
    }

    pub fn internal(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let mut error = Self::new(Code::Internal, "the hub made a mistake; it is in its log");
        error.cause = Some(cause.into().into());
        error
    }

    pub fn refused(mut self, what: Refused) -> Self {
        self.refused = Some(what);
        self
    }

    /// Returns whether the caller has no access at all, so that it must learn nothing else.
    pub fn keeps_out(&self) -> bool {
        self.code == Code::Unauthorized || self.refused == Some(Refused::NotMember)
    }

    pub fn details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    pub fn retry_after_ms(mut self, ms: i64) -> Self {
        self.retry_after_ms = Some(ms);
        self
    }
}

impl From<Faults> for Error {
    fn from(faults: Faults) -> Self {
        Self::validation(faults)
    }
}

impl From<StoreError> for Error {
    /// Nothing was acknowledged: whatever hindered the store, the client may try again.
    fn from(error: StoreError) -> Self {
        let error = match error {
            StoreError::Quota(exceeded) => return exceeded.into(),
            error => error,
        };
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

impl From<ConversationError> for Error {
    fn from(error: ConversationError) -> Self {
        match error {
            ConversationError::NotFound => {
                Self::new(Code::NotFound, "there is no such conversation, or you are not a member of it")
                    .refused(Refused::NotMember)
            }
            ConversationError::NoTarget => {
                Self::new(Code::NotFound, "there is no such message in this conversation")
                    .refused(Refused::NoMessage)
            }
            ConversationError::NoStream => Self::new(
                Code::NotFound,
                "there is no such work stream in this conversation, or it is closed",
            ),
            ConversationError::Archived => Self::new(
                Code::Conflict,
                "this conversation is archived: it can be read, nothing can be said in it",
            )
            .refused(Refused::Archived),
            ConversationError::Forbidden => Self::new(Code::Forbidden, "you may not do this here"),
            ConversationError::OwnerStays => Self::new(
                Code::Conflict,
                "the owner cannot leave: make another member the `owner` of the channel first, or archive it",
            ),
            ConversationError::NoHandle(handle) => {
                Self::new(Code::NotFound, format_args!("nobody in this conversation is called {handle:?}"))
                    .refused(Refused::NoHandle)
            }
            ConversationError::HandleTaken(handle) => Self::new(
                Code::Conflict,
                format_args!(
                    "somebody else in this conversation is called {handle:?}; give another `handle`"
                ),
            ),
            ConversationError::HandleReserved(handle) => Self::new(
                Code::Conflict,
                format_args!(
                    "{handle:?} would be taken for a role of this conversation, for everybody in it or for the hub; \
                     give another `handle`"
                ),
            ),
            ConversationError::Already(handle) => {
                Self::new(Code::Conflict, format_args!("it is a member already, as {handle:?}"))
            }
            ConversationError::Stale(version) => Self::new(
                Code::Conflict,
                format_args!("the document is at version {version}; read it and change that one"),
            )
            .details(serde_json::json!({"version": version}))
            .refused(Refused::Stale),
            ConversationError::Blocked => {
                Self::new(Code::Forbidden, "the other does not want to hear from you")
                    .refused(Refused::Blocked)
            }
            ConversationError::Quota(exceeded) => exceeded.into(),
            ConversationError::Store(error) => error.into(),
        }
    }
}

impl From<money::Refused> for Error {
    fn from(refused: money::Refused) -> Self {
        match refused {
            money::Refused::Short { .. } => Self::new(Code::TransferFailed, refused),
            money::Refused::Nothing | money::Refused::TooMany => Faults::one("amount", refused).into(),
            money::Refused::Same => Faults::one("to_owner", refused).into(),
        }
    }
}

impl From<Exceeded> for Error {
    fn from(exceeded: Exceeded) -> Self {
        let Exceeded { quota, used, limit } = &exceeded;
        let details = serde_json::json!({"quota": quota, "used": used, "limit": limit});
        Self::new(Code::QuotaExceeded, exceeded).details(details)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_was_stopped_says_so() {
        let error = Error::from(StoreError::TooLong);
        assert_eq!(
            (error.code, error.code.status(), error.retry_after_ms),
            (Code::Overloaded, 503, Some(1000))
        );
        assert!(error.message.contains("took too long") && error.message.contains("ask for less"));
        assert!(!error.message.contains("stored"), "it stored nothing: {}", error.message);
    }
}
