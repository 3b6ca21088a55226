//! Conversations: channels and direct conversations.

use super::members::MemberView;
use super::{Name, PrincipalView, Whom, usual_limit};
use crate::c2a::Glyphs;
use crate::ids::ConversationId;
use crate::words::{ConversationKind, History, Word};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// The name of a channel: one line of text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "one line of 1 to 80 characters with something in it",
    min_length = 1,
    max_length = 80,
    pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$",
    example = "release 1.0"
)]
pub struct ChannelName(pub String);

/// A channel to create.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = NewChannelBody)]
pub struct NewChannel {
    /// The channel's name.
    pub name: ChannelName,
    /// The purpose of the channel, for people and agents.
    #[schema(max_length = 4000)]
    pub context: Option<String>,
    /// The history that members may read: `all` (the default), or messages since they `joined`.
    pub history: Option<History>,
    /// The creator's handle in the channel; derived from its name by default.
    pub handle: Option<Name>,
}

/// Changes to a channel. Absent members stay unchanged.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ChannelChangeBody)]
pub struct ChannelChange {
    /// The channel's new name.
    pub name: Option<ChannelName>,
    /// The purpose of the channel. An empty text removes it.
    #[schema(max_length = 4000)]
    pub context: Option<String>,
    /// The history that members may read: `all`, or messages since they `joined`. A change to `all` does not
    /// reveal earlier messages; it applies to messages from then on.
    pub history: Option<History>,
    /// The handle of the member that becomes the owner.
    pub owner: Option<Name>,
    /// The number of days for which messages are kept, if fewer than the hub's own limit; 0 for the hub's
    /// limit.
    #[schema(minimum = 0, maximum = 36_500)]
    pub keep_days: Option<i64>,
    /// The number of turns that two agents may take with each other without a person. After that, their
    /// messages no longer wake each other. The default is 8, and 0 means no limit of the channel's own. Values
    /// above 8, and 0, apply only between agents of the channel's owner. If one of the two works on a task
    /// that a person or a job gave it before, the limit is 40. No exchange exceeds 40 turns. Repetitive
    /// messages are stopped earlier, unless the value is 0.
    #[schema(minimum = 0, maximum = 1000)]
    pub loop_guard: Option<i64>,
    /// The time for which claims and progress of an agent move the deadline of a request, in milliseconds,
    /// counted from its first turn on it; 0 for the default of 4 hours.
    #[schema(minimum = 0, maximum = 604_800_000)]
    pub longest_task_ms: Option<i64>,
    /// The glyphs for signals that differ from the default. No two may be equal.
    pub glyphs: Option<Glyphs>,
}

// Readers require only the id; other members may be missing or newer than this version.
/// A channel or a direct conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConversationView {
    /// The conversation's id.
    #[schema(value_type = ConversationId)]
    pub id: String,
    /// The kind: `channel` or `dm`.
    #[serde(default)]
    #[schema(required, value_type = ConversationKind)]
    pub kind: Word<ConversationKind>,
    /// The conversation's name.
    #[serde(default)]
    #[schema(required)]
    pub name: String,
    /// The purpose of the conversation.
    pub context: Option<String>,
    /// The owner, who may change the conversation.
    #[serde(default)]
    #[schema(required)]
    pub owner: PrincipalView,
    /// The history that members may read: `all`, or messages since they `joined`.
    #[serde(default)]
    #[schema(required, value_type = History)]
    pub history: Word<History>,
    /// The time of creation.
    #[serde(default)]
    #[schema(required)]
    pub created_at: String,
    /// `true` if the conversation no longer accepts messages.
    #[serde(default)]
    #[schema(required)]
    pub archived: bool,
    /// The number of days for which messages are kept, if the owner has set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_days: Option<i64>,
    /// The limit of consecutive turns by agents, if the owner has set it; 0 if the guard is disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_guard: Option<i64>,
    /// The time for which claims and progress move the deadline of a request, if the owner has set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_task_ms: Option<i64>,
    /// The glyphs for signals, if the owner has set them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glyphs: Option<Glyphs>,
    /// The sequence number of the oldest event that still exists, if earlier events were deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<i64>,
}

/// A conversation with the caller's membership.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = DetailView)]
pub struct ConversationDetail {
    /// The conversation.
    #[serde(flatten)]
    pub conversation: ConversationView,
    /// The caller's membership.
    pub me: MemberView,
}

/// A conversation that was created or changed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ChangedView)]
pub struct ChangedConversation {
    /// The conversation after the change.
    #[serde(flatten)]
    pub conversation: ConversationView,
    /// The kinds of credentials that were masked in its name and purpose.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked: Vec<String>,
}

/// A direct conversation to open.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = DmBody)]
pub struct NewPair {
    /// The other party: the address or id of an agent, or the email address or id of an account.
    pub with: Whom,
}

/// The query parameters of a list of conversations.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ConversationPage {
    /// The `next` cursor of the previous page
    #[param(value_type = Option<String>, pattern = "^(ch_[0-9a-f]{32})?$")]
    pub after: Option<ConversationId>,
    /// The maximum number of conversations on the page; 50 by default
    #[serde(default = "usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
    /// Lists archived conversations instead of active ones
    #[serde(default)]
    #[param(required = false)]
    pub archived: bool,
}
