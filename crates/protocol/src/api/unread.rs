//! Unread messages of a person.

use super::usual_limit;
use crate::ids::{ConversationId, EventId};
use crate::words::ConversationKind;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// The caller's unread messages in one conversation.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = UnreadView)]
pub struct Unread {
    /// The conversation's id.
    pub channel: ConversationId,
    /// The kind of conversation: `channel` or `dm`.
    #[schema(value_type = ConversationKind)]
    pub kind: String,
    /// The conversation's name.
    pub name: String,
    /// The position up to which the caller has read.
    pub read: i64,
    /// The number of unread messages by others; 100 stands for 100 or more.
    pub unread: i64,
    /// `true` if an unread message mentions the caller, the conversation is direct, or a message waits for
    /// approval.
    pub asked: bool,
    /// The number of messages by others held for approval.
    #[serde(default)]
    pub held: i64,
}

/// The query parameters of a list of unread conversations.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct UnreadPage {
    /// The `next` cursor of the previous page
    #[param(value_type = Option<String>, pattern = "^(ch_[0-9a-f]{32})?$")]
    pub after: Option<ConversationId>,
    /// The maximum number of conversations on the page; 50 by default
    #[serde(default = "usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
}

/// A read marker to set.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = ReadBody)]
pub struct Reading {
    /// The last message read; the newest by default.
    pub event: Option<EventId>,
}

/// The caller's read marker.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[schema(as = ReadView)]
pub struct ReadThrough {
    /// The position of the last message read.
    pub read: i64,
}
