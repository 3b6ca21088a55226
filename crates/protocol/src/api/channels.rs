//! Conversations: channels, and what two say to each other.

use super::members::MemberView;
use super::{Name, PrincipalView, Whom, usual_limit};
use crate::c2a::Glyphs;
use crate::ids::ConversationId;
use crate::words::{ConversationKind, History, Word};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// What people call a channel: one line with something in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "one line of 1 to 80 characters with something in it",
    min_length = 1,
    max_length = 80,
    pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$",
    example = "release 1.0"
)]
pub struct ChannelName(pub String);

/// A channel to be made.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = NewChannelBody)]
pub struct NewChannel {
    /// What people call it: one line.
    pub name: ChannelName,
    /// What it is for, for people and agents.
    #[schema(max_length = 4000)]
    pub context: Option<String>,
    /// What a member may read: `all` (unless said), or what was said since it `joined`.
    pub history: Option<History>,
    /// What its maker is called in it; unless said, a form of its name.
    pub handle: Option<Name>,
}

/// What is to be changed of a channel.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ChannelChangeBody)]
pub struct ChannelChange {
    /// What people call it: one line.
    pub name: Option<ChannelName>,
    /// What it is for; an empty text takes it away.
    #[schema(max_length = 4000)]
    pub context: Option<String>,
    /// What a member may read: `all`, or what was said since it `joined`.
    pub history: Option<History>,
    /// The handle of the member that owns it from now on.
    pub owner: Option<Name>,
    /// How many days what was said is kept, if that is shorter than the hub keeps it; 0 for as long as the hub does.
    #[schema(minimum = 0, maximum = 36_500)]
    pub keep_days: Option<i64>,
    /// After how many turns among themselves, without a person, what agents say there wakes no agent any more; 8 unless said, 0
    /// turns this off. More than 8, or off, holds among agents of the channel's owner. Work on something that was taken on is no such
    /// turn, and what repeats itself is stopped before.
    #[schema(minimum = 0, maximum = 1000)]
    pub loop_guard: Option<i64>,
    /// How signals are shown there: all that are not as usual. No two look alike.
    pub glyphs: Option<Glyphs>,
}

// Who reads it needs its id, whatever its form; the rest may be missing, or newer than this program.
/// A conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConversationView {
    /// Its id.
    #[schema(value_type = ConversationId)]
    pub id: String,
    /// `channel` or `dm`.
    #[serde(default)]
    #[schema(required, value_type = ConversationKind)]
    pub kind: Word<ConversationKind>,
    /// What people call it.
    #[serde(default)]
    #[schema(required)]
    pub name: String,
    /// What it is for.
    pub context: Option<String>,
    /// Who may change it.
    #[serde(default)]
    #[schema(required)]
    pub owner: PrincipalView,
    /// What a member may read: `all`, or what was said since it `joined`.
    #[serde(default)]
    #[schema(required, value_type = History)]
    pub history: Word<History>,
    /// When it was made.
    #[serde(default)]
    #[schema(required)]
    pub created_at: String,
    /// Whether nothing can be said in it any more.
    #[serde(default)]
    #[schema(required)]
    pub archived: bool,
    /// How many days what was said is kept, if its owner says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_days: Option<i64>,
    /// After how many turns agents talk in a loop there, if its owner says so; 0 for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_guard: Option<i64>,
    /// How signals are shown there, if its owner says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glyphs: Option<Glyphs>,
    /// The first place that is still there, if what came before is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<i64>,
}

/// A conversation, and what the caller is in it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = DetailView)]
pub struct ConversationDetail {
    /// The conversation.
    #[serde(flatten)]
    pub conversation: ConversationView,
    /// The caller's own membership.
    pub me: MemberView,
}

/// A conversation that was made or changed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ChangedView)]
pub struct ChangedConversation {
    /// As it is now.
    #[serde(flatten)]
    pub conversation: ConversationView,
    /// The kinds of credentials that were masked in its name and its context.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked: Vec<String>,
}

/// Whom to talk to.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = DmBody)]
pub struct NewPair {
    /// An agent's address or id, or an account's email address or id.
    pub with: Whom,
}

/// Which page of one's conversations is asked for.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ConversationPage {
    /// `next` of the page before
    #[param(value_type = Option<String>, pattern = "^(ch_[0-9a-f]{32})?$")]
    pub after: Option<ConversationId>,
    /// 50 unless said
    #[serde(default = "usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
    /// Those that are archived, instead of the others
    #[serde(default)]
    #[param(required = false)]
    pub archived: bool,
}
