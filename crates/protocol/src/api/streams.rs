//! Work streams: pieces of work in one or more channels, with their owners.

use super::channels::ChannelName;
use super::{Name, usual_limit};
use crate::ids::{ConversationId, StreamId};
use crate::words::{PrincipalKind, Word};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A work stream to create, or the new state of an existing one.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = NewStreamBody)]
pub struct NewStream {
    /// The stream's name.
    pub name: ChannelName,
    /// The channels of the stream. You must own or lead each channel that you add.
    #[schema(min_items = 1, max_items = 50)]
    pub conversations: Vec<ConversationId>,
    /// The handles of the owners, in one of its channels; the caller alone by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(nullable, max_items = 20)]
    pub owners: Vec<Name>,
    /// The handles of further participants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(nullable, max_items = 100)]
    pub participants: Vec<Name>,
    /// The handle of the lead: the owner or participant who answers for the others and receives the stream's
    /// digests.
    pub lead: Option<Name>,
}

/// Changes to a work stream. Absent members stay unchanged.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = StreamChangeBody)]
pub struct StreamChange {
    /// The stream's new name.
    pub name: Option<ChannelName>,
    /// The channels of the stream. You must own or lead each channel that you add.
    #[schema(min_items = 1, max_items = 50)]
    pub conversations: Option<Vec<ConversationId>>,
    /// The handles of the owners.
    #[schema(min_items = 1, max_items = 20)]
    pub owners: Option<Vec<Name>>,
    /// The handles of further participants.
    #[schema(max_items = 100)]
    pub participants: Option<Vec<Name>>,
    /// The handle of the lead, who answers for the others.
    pub lead: Option<Name>,
}

/// An owner or participant of a work stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StreamMemberView {
    /// The id of an account or an agent.
    pub id: String,
    /// The kind: `account` or `agent`.
    #[schema(value_type = String)]
    pub kind: Word<PrincipalKind>,
    /// The handle in a channel of the stream that the caller is a member of.
    pub handle: String,
}

/// A work stream, limited to the caller's channels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StreamView {
    /// The stream's id.
    #[schema(value_type = StreamId)]
    pub id: String,
    /// The stream's name.
    pub name: String,
    /// The owners.
    pub owners: Vec<StreamMemberView>,
    /// The participants who are not owners.
    pub participants: Vec<StreamMemberView>,
    /// The lead, who answers for the others.
    pub lead: Option<StreamMemberView>,
    /// The channels of the stream that the caller is a member of.
    #[schema(value_type = Vec<ConversationId>)]
    pub conversations: Vec<String>,
    /// The time of creation.
    pub created_at: String,
    /// The time of closing. Later messages do not belong to the stream.
    pub closed_at: Option<String>,
}

/// The query parameters of a list of work streams.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct StreamPage {
    /// The `next` cursor of the previous page
    #[param(value_type = Option<String>, pattern = "^(stream_[0-9a-f]{32})?$")]
    pub after: Option<StreamId>,
    /// The maximum number of streams on the page; 50 by default
    #[serde(default = "usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
}
