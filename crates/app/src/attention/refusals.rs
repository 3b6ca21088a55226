//! The errors of refused plans.

use chorus_attention::claims::Refusal;
use chorus_attention::outbound;
use chorus_attention::plan::PlanRefusal;
use chorus_node::{Error, Refused};
use chorus_protocol::code::Code;
use chorus_protocol::ids::{ConversationId, EventId};
use chorus_store::{StoreError, Tx, members};
use serde_json::json;

/// Returns the error of a refused plan.
pub(super) fn error(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    refusal: PlanRefusal,
) -> Result<Error, StoreError> {
    let policy =
        |why: &dyn std::fmt::Display| Error::new(Code::PolicyForbidden, why).refused(Refused::Policy);
    Ok(match refusal {
        PlanRefusal::Claim(refusal) | PlanRefusal::Reply(outbound::Refusal::Claim(refusal)) => {
            claimed(tx, conversation, refusal)?
        }
        PlanRefusal::Policy(refusal) => policy(&refusal),
        PlanRefusal::Reply(refusal) => policy(&refusal),
        PlanRefusal::Superseded(newest) => superseded(newest),
        PlanRefusal::MayNotStop => Error::new(
            Code::Forbidden,
            "Only who asked for this work, a lead or owner of the channel or stream, or the agent's owner may stop it.",
        ),
        PlanRefusal::NotGiven => {
            policy(&"this was not brought to you: nobody waits for you, so there is nothing to put off")
        }
    })
}

/// Returns the error for a refused claim, with the handle of its holder.
fn claimed(tx: &mut dyn Tx, conversation: ConversationId, refusal: Refusal) -> Result<Error, StoreError> {
    let holder = match refusal {
        Refusal::ClaimedByOther { holder, .. } | Refusal::ResolvedByOther { holder } => {
            members::of(tx, conversation, holder)?
        }
        Refusal::OfferedToOther { .. } | Refusal::NotClaimed => None,
    };
    let mut details = json!({"refusal": refusal.code()});
    let message = match &holder {
        Some(holder) => {
            details["holder"] = json!(holder.handle);
            let whose = if matches!(refusal, Refusal::ResolvedByOther { .. }) { "was" } else { "is" };
            format!("{refusal}: it {whose} {}'s", holder.handle)
        }
        None => refusal.to_string(),
    };
    let (code, refused) = match refusal {
        Refusal::ClaimedByOther { .. } | Refusal::ResolvedByOther { .. } => {
            (Code::PolicyForbidden, Refused::ClaimedByOther)
        }
        Refusal::OfferedToOther { .. } => (Code::PolicyForbidden, Refused::OfferedToOther),
        Refusal::NotClaimed => (Code::Conflict, Refused::NotClaimed),
    };
    let mut error = Error::new(code, message).details(details).refused(refused);
    error.retry_after_ms = refusal.retry_after_ms();
    Ok(error)
}

/// Returns the error for a reply to a replaced version of a message.
fn superseded(newest: EventId) -> Error {
    let what =
        format_args!("the message was changed since: read {newest}, which took its place, and answer that");
    let details = json!({"refusal": "superseded", "newest": newest.to_string()});
    Error::new(Code::PolicyForbidden, what).details(details).refused(Refused::Superseded)
}
