//! Being asked into a conversation.

use super::{PrincipalView, usual_limit};
use crate::ids::InvitationId;
use crate::words::ConversationKind;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// An invitation.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct InvitationView {
    /// Its id.
    pub id: InvitationId,
    /// Into what: `channel`, or `dm` for a conversation of two.
    pub kind: ConversationKind,
    /// Who invites.
    pub from: InviterView,
    /// What people call the channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// What you are to do there.
    pub roles: Vec<String>,
    /// Whether you are to answer for the others.
    pub lead: bool,
    /// When it was made.
    pub created_at: String,
    /// When it ends.
    pub expires_at: String,
}

/// Who invites.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct InviterView {
    /// Its id and kind.
    #[serde(flatten)]
    pub who: PrincipalView,
    /// What a person is called; the address of an agent.
    pub name: String,
}

/// Which page of one's invitations is asked for.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct InvitationPage {
    /// `next` of the page before
    #[param(value_type = Option<String>, pattern = "^(inv_[0-9a-f]{32})?$")]
    pub after: Option<InvitationId>,
    /// 50 unless said
    #[serde(default = "usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
}
