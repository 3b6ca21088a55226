//! Approvals that the agent waits for, and asking for one.

use super::arguments::{ApprovalQuestion, ApprovalsQuery, OneApproval};
use super::{AgentContext, DOOR};
use crate::conversation;
use chorus_node::Error;
use chorus_node::idempotency::Once;
use chorus_protocol::api::approvals::{ApprovalPage, ApprovalView};
use chorus_protocol::api::messages::{NewMessage, Sent};
use chorus_protocol::words::Intent;
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct OwnApprovals {
    /// Your messages that wait for a person, the oldest first.
    approvals: Vec<ApprovalView>,
    /// The `after` of the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ApprovalAsked {
    /// The question. The person's reaction to it is the decision: agree or declined.
    event_id: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ApprovalWithdrawn {
    id: String,
}

pub(super) async fn list(context: AgentContext, asked: ApprovalsQuery) -> Result<OwnApprovals, Error> {
    let page = ApprovalPage { channel: asked.conversation_id, after: asked.after, limit: asked.limit };
    let found = conversation::list_approvals(&context.app, context.who(), page).await?;
    Ok(OwnApprovals { approvals: found.items, next: found.next })
}

pub(super) async fn look(context: AgentContext, asked: OneApproval) -> Result<ApprovalView, Error> {
    conversation::look_at_approval(&context.app, context.who(), &asked.id.to_string()).await
}

pub(super) async fn withdraw(context: AgentContext, asked: OneApproval) -> Result<ApprovalWithdrawn, Error> {
    conversation::withdraw(&context.app, context.who(), &asked.id.to_string()).await?;
    Ok(ApprovalWithdrawn { id: asked.id.to_string() })
}

pub(super) async fn ask(context: AgentContext, asked: ApprovalQuestion) -> Result<ApprovalAsked, Error> {
    let words = serde_json::to_vec(&asked).map_err(Error::internal)?;
    let key = asked.idempotency_key.as_ref().map(|key| key.0.as_str());
    let what = format!("{} approval_ask", asked.conversation_id);
    let once = Once::new(&context.app, DOOR, &context.who(), &what, key, &words);
    let new = NewMessage {
        content: asked.text,
        thread: asked.thread_id,
        reply_to: None,
        stream: None,
        to: vec![asked.to],
        intent: Some(Intent::ApprovalRequest),
        priority: None,
        deadline_ms: asked.deadline_ms,
        directedness: None,
        requires_approval: false,
        ephemeral: false,
    };
    let sent = conversation::send(&context.app, context.who(), asked.conversation_id, new, once).await?;
    Ok(ApprovalAsked {
        event_id: match sent.result {
            Sent::Said(said) => said.event_id.to_string(),
            Sent::Held(held) => held.approval.to_string(),
            Sent::Shown(shown) => shown.event_id.to_string(),
        },
    })
}
