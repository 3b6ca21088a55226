//! Work streams: a piece of work that goes on in one or more channels, and whose it is.

use super::channels::ChannelName;
use super::{Name, usual_limit};
use crate::ids::{ConversationId, StreamId};
use crate::words::{PrincipalKind, Word};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A work stream to be made, or to be put in place of what one was.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = NewStreamBody)]
pub struct NewStream {
    /// What people call it: one line.
    pub name: ChannelName,
    /// The channels it goes on in. You own or lead those that you add.
    #[schema(min_items = 1, max_items = 50)]
    pub conversations: Vec<ConversationId>,
    /// Handles, in one of its channels, of those whose work it is; unless said, the caller alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(nullable, max_items = 20)]
    pub owners: Vec<Name>,
    /// Handles of others who take part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(nullable, max_items = 100)]
    pub participants: Vec<Name>,
    /// The handle of the one of them that answers for the others, and is told what happens in it.
    pub lead: Option<Name>,
}

/// What is to be changed of a work stream. What is not said stays.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = StreamChangeBody)]
pub struct StreamChange {
    /// What people call it: one line.
    pub name: Option<ChannelName>,
    /// The channels it goes on in from now on. You own or lead those that you add.
    #[schema(min_items = 1, max_items = 50)]
    pub conversations: Option<Vec<ConversationId>>,
    /// Handles of those whose work it is from now on.
    #[schema(min_items = 1, max_items = 20)]
    pub owners: Option<Vec<Name>>,
    /// Handles of others who take part from now on.
    #[schema(max_items = 100)]
    pub participants: Option<Vec<Name>>,
    /// The handle of the one of them that answers for the others.
    pub lead: Option<Name>,
}

/// Somebody who has a part in a work stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StreamMemberView {
    /// The id of an account or an agent.
    pub id: String,
    /// `account` or `agent`.
    #[schema(value_type = String)]
    pub kind: Word<PrincipalKind>,
    /// What it is called in a channel of the stream that the caller is in.
    pub handle: String,
}

/// A work stream, as far as the channels go that the caller is in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StreamView {
    /// Its id.
    #[schema(value_type = StreamId)]
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Whose work it is.
    pub owners: Vec<StreamMemberView>,
    /// Who takes part besides.
    pub participants: Vec<StreamMemberView>,
    /// Who answers for the others.
    pub lead: Option<StreamMemberView>,
    /// Those of its channels that the caller is in.
    #[schema(value_type = Vec<ConversationId>)]
    pub conversations: Vec<String>,
    /// When it was made.
    pub created_at: String,
    /// When it was closed; nothing that is said later belongs to it.
    pub closed_at: Option<String>,
}

/// Which page of work streams is asked for.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct StreamPage {
    /// `next` of the page before
    #[param(value_type = Option<String>, pattern = "^(stream_[0-9a-f]{32})?$")]
    pub after: Option<StreamId>,
    /// 50 unless said
    #[serde(default = "usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
}
