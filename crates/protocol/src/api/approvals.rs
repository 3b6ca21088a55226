//! Messages held for a person's approval.

use super::events::AuthorView;
use super::usual_limit;
use crate::ids::{ApprovalId, ConversationId, EventId};
use crate::words::ApprovalState;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A message held for approval, or its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApprovalView {
    /// The approval's id.
    pub id: ApprovalId,
    /// The conversation of the message.
    pub channel: ConversationId,
    /// The name of the conversation.
    pub name: String,
    /// The author of the message.
    pub author: AuthorView,
    /// The state of the approval.
    pub state: ApprovalState,
    /// The message's text in markdown. Absent once the approval has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// A message of the thread it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<EventId>,
    /// The message it replies to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<EventId>,
    /// The message whose text it replaces after approval. Readers see the old text until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edit_of: Option<EventId>,
    /// `true` if you may approve or decline it.
    pub may_decide: bool,
    /// The time at which the message was held.
    pub created_at: String,
    /// The time at which the approval expires.
    pub expires_at: String,
    /// The handle of the person who approved or declined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// The time of the decision, or of the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<String>,
    /// The reason for declining.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The resulting event: the message or the edit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
}

/// The query parameters of a list of approvals.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ApprovalPage {
    /// Only approvals of this conversation
    #[param(value_type = Option<String>, pattern = "^(ch_[0-9a-f]{32})?$")]
    pub channel: Option<ConversationId>,
    /// The `next` cursor of the previous page
    #[param(value_type = Option<String>, pattern = "^(apr_[0-9a-f]{32})?$")]
    pub after: Option<ApprovalId>,
    /// The maximum number of approvals on the page; 50 by default
    #[serde(default = "usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
}

/// The decision to decline a message.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = DeclineBody)]
pub struct Decline {
    /// The reason, shown to the author. Credentials in it are masked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 1_000)]
    pub reason: Option<String>,
}
