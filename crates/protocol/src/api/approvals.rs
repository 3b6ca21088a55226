//! Messages that wait until a person agrees.

use super::events::AuthorView;
use super::usual_limit;
use crate::ids::{ApprovalId, ConversationId, EventId};
use crate::words::ApprovalState;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A message that waits until a person agrees, or did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApprovalView {
    /// What it is called while it waits.
    pub id: ApprovalId,
    /// The conversation it is for.
    pub channel: ConversationId,
    /// What people call that.
    pub name: String,
    /// Who wants to say it.
    pub author: AuthorView,
    /// How it stands.
    pub state: ApprovalState,
    /// What it says, in markdown, as long as it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The thread it is for: a message of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<EventId>,
    /// What it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<EventId>,
    /// Whether you may agree to it or decline it.
    pub may_decide: bool,
    /// Since when it waits.
    pub created_at: String,
    /// When it ends by itself.
    pub expires_at: String,
    /// Who agreed or declined, by handle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// When it was decided, or ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<String>,
    /// Why it was declined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The message it became.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
}

/// Which page of what waits is asked for.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ApprovalPage {
    /// Only what is for this conversation
    #[param(value_type = Option<String>, pattern = "^(ch_[0-9a-f]{32})?$")]
    pub channel: Option<ConversationId>,
    /// `next` of the page before
    #[param(value_type = Option<String>, pattern = "^(apr_[0-9a-f]{32})?$")]
    pub after: Option<ApprovalId>,
    /// 50 unless said
    #[serde(default = "usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
}

/// What is said to the author of a message that is declined.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = DeclineBody)]
pub struct Decline {
    /// Why. Credentials in it are masked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 1_000)]
    pub reason: Option<String>,
}
