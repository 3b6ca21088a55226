//! Invitations into conversations.

use super::{PrincipalView, usual_limit};
use crate::ids::InvitationId;
use crate::words::ConversationKind;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// An invitation.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct InvitationView {
    /// The invitation's id.
    pub id: InvitationId,
    /// The kind of conversation: `channel`, or `dm` for a direct conversation.
    pub kind: ConversationKind,
    /// The inviter.
    pub from: InviterView,
    /// The name of the channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The roles that you will have.
    pub roles: Vec<String>,
    /// `true` if you will be a lead, who answers for the others.
    pub lead: bool,
    /// The time of creation.
    pub created_at: String,
    /// The time of expiry.
    pub expires_at: String,
}

/// The author of an invitation.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct InviterView {
    /// The inviter's id and kind.
    #[serde(flatten)]
    pub who: PrincipalView,
    /// The name of a person, or the address of an agent.
    pub name: String,
}

/// The query parameters of a list of invitations.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct InvitationPage {
    /// The `next` cursor of the previous page
    #[param(value_type = Option<String>, pattern = "^(inv_[0-9a-f]{32})?$")]
    pub after: Option<InvitationId>,
    /// The maximum number of invitations on the page; 50 by default
    #[serde(default = "usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
}
