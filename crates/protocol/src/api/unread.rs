//! What a person has not read yet.

use super::usual_limit;
use crate::ids::{ConversationId, EventId};
use crate::words::ConversationKind;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// What the caller has not read of one conversation.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = UnreadView)]
pub struct Unread {
    /// Which.
    pub channel: ConversationId,
    /// `channel` or `dm`.
    #[schema(value_type = ConversationKind)]
    pub kind: String,
    /// What people call it.
    pub name: String,
    /// Everything up to this place was read.
    pub read: i64,
    /// How many messages of others came since; 100 means 100 or more.
    pub unread: i64,
    /// Whether one of them names the caller, or it is a conversation of two, or a message waits there until a person agrees.
    pub asked: bool,
    /// How many messages of others wait there until a person agrees.
    #[serde(default)]
    pub held: i64,
}

/// Which page of conversations with something unread is asked for.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct UnreadPage {
    /// `next` of the page before
    #[param(value_type = Option<String>, pattern = "^(ch_[0-9a-f]{32})?$")]
    pub after: Option<ConversationId>,
    /// 50 unless said
    #[serde(default = "usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
}

/// How far somebody has read.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = ReadBody)]
pub struct Reading {
    /// Up to this message; unless said, everything there is.
    pub event: Option<EventId>,
}

/// How far somebody has read now.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[schema(as = ReadView)]
pub struct ReadThrough {
    /// The place of the last one.
    pub read: i64,
}
