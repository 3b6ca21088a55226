//! Refusals and errors in the words of C2A.

use chorus_node::{Error, Refused};
use chorus_protocol::c2a::{Refusal, RefusalCode, ToolResult, WireId};
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::ConversationId;
use chorus_protocol::rpc::RpcError;
use serde_json::json;

/// Returns the error for a request that names another conversation than the one whose address was called.
pub(crate) fn elsewhere(name: &str, place: ConversationId) -> Error {
    Faults::one(name, format_args!("must be {place}: this address is for one channel alone")).into()
}

/// Returns the refusal code of an error, for tools of every door.
pub(crate) fn code(error: &Error) -> RefusalCode {
    match (error.refused, error.code) {
        (Some(Refused::Policy), _) => RefusalCode::PolicyForbidden,
        (Some(Refused::ClaimedByOther), _) => RefusalCode::ClaimedByOther,
        (Some(Refused::OfferedToOther), _) => RefusalCode::OfferedToOther,
        (Some(Refused::NotClaimed), _) => RefusalCode::NotClaimed,
        (Some(Refused::Superseded), _) => RefusalCode::Superseded,
        (Some(Refused::NotMember), _) => RefusalCode::NotAMember,
        (Some(Refused::Archived), _) => RefusalCode::Archived,
        (Some(Refused::Blocked), _) => RefusalCode::Blocked,
        (_, Code::NotFound | Code::Gone) => RefusalCode::NotFound,
        (_, Code::Validation | Code::TooLarge) => RefusalCode::InvalidArguments,
        (_, Code::IdempotencyConflict) => RefusalCode::IdempotencyConflict,
        (_, Code::Conflict) => RefusalCode::Conflict,
        (_, Code::Forbidden) => RefusalCode::Forbidden,
        (_, Code::QuotaExceeded) => RefusalCode::QuotaExceeded,
        (_, Code::RateLimited) => RefusalCode::RateLimited,
        _ => RefusalCode::Unavailable,
    }
}

/// Returns the refusal of a tool with this message.
pub(crate) fn refusal(error: &Error, message: String) -> Refusal {
    let newest = error.details.as_ref().and_then(|details| details["newest"].as_str());
    Refusal {
        code: code(error),
        message,
        retry_after_ms: error.retry_after_ms,
        newest_event_id: newest.map(|id| WireId(id.to_owned())),
    }
}

/// The field names of the acts, and their names in C2A.
const FIELDS: [(&str, &str); 6] = [
    ("content", "text"),
    ("reply_to", "inReplyTo"),
    ("thread", "target.threadId"),
    ("stream", "target.streamId"),
    ("deadline_ms", "deadlineMs"),
    ("requires_approval", "requiresApproval"),
];

/// Returns the error message, with the field names that C2A uses.
pub(crate) fn in_own_words(error: &Error) -> String {
    if error.code != Code::Validation {
        return error.message.clone();
    }
    let renamed = error.message.split("; ").map(|fault| {
        let known = FIELDS.iter().find_map(|(field, own)| {
            let rest = fault.strip_prefix(field)?;
            rest.starts_with(':').then(|| format!("{own}{rest}"))
        });
        known.unwrap_or_else(|| fault.to_owned())
    });
    renamed.collect::<Vec<_>>().join("; ")
}

/// Returns an error as the result of a tool.
pub(super) fn result(error: &Error) -> Result<ToolResult, serde_json::Error> {
    log(error);
    ToolResult::refused(&refusal(error, in_own_words(error)))
}

/// Returns an error of JSON-RPC, for requests that cannot be understood.
pub(super) fn rpc(error: &Error) -> RpcError {
    log(error);
    let code = if error.code.retryable() { RpcError::INTERNAL } else { RpcError::INVALID_PARAMS };
    let mut data = json!({"code": error.code.short()});
    if let Some(ms) = error.retry_after_ms {
        data["retryAfterMs"] = json!(ms);
    }
    RpcError::new(code, &error.message).with(data)
}

/// Logs an error if it is internal.
fn log(error: &Error) {
    if error.code == Code::Internal {
        tracing::error!(
            cause = error.cause.as_deref().map(|cause| cause as &dyn std::error::Error),
            "a C2A request failed"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_protocol::faults::Faults;

    #[test]
    fn faults_name_what_was_given() {
        let mut faults = Faults::one("requires_approval", "nobody could agree");
        faults.add("content", "must not be empty");
        faults.add("contents", "is something else");
        let error = faults.into();
        assert_eq!(code(&error), RefusalCode::InvalidArguments);
        assert_eq!(
            in_own_words(&error),
            "requiresApproval: nobody could agree; text: must not be empty; contents: is something else"
        );
        let other = Error::new(Code::NotFound, "content: is gone");
        assert_eq!(in_own_words(&other), "content: is gone");
    }
}
