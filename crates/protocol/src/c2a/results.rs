//! The results of successful calls of the chat tools.

use super::event::{Addressee, Event};
use super::{Cursor, Time, WireId};
use crate::words::{ClaimState, DeliveryState, Disposition};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The result of `chat.list_events` and `chat.read_thread`: events in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventPage {
    /// The events of this page.
    pub events: Vec<Event>,
    /// The cursor to pass as `after` for the next page. On the last page it can be used later to read new
    /// events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Cursor>,
    /// `true` if there are more events now.
    #[serde(default)]
    #[schema(nullable)]
    pub more: bool,
    /// The number of conversations that were skipped because there are too many. Request them one by one.
    #[serde(default, rename = "leftOut", skip_serializing_if = "is_zero")]
    #[schema(nullable, minimum = 0)]
    pub left_out: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &i64) -> bool {
    *count == 0
}

/// The result of `chat.send_message`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aSent)]
#[serde(rename_all = "camelCase")]
pub struct Sent {
    /// The message's id, or the approval's id if the message is held for approval.
    pub event_id: WireId,
    /// The message's position in the conversation; absent for messages that are not stored there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<i64>,
    /// The thread of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<WireId>,
    /// The recipients of the message.
    #[serde(default)]
    #[schema(nullable)]
    pub attention: Reached,
    /// The state of the delivery of an answer that left the hub: to an envelope or to another service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<DeliveryState>,
    /// `true` if the message is held for approval.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(nullable)]
    pub awaits_approval: bool,
    /// `true` if the message was only shown to members who were looking and is not stored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(nullable)]
    pub ephemeral: bool,
    /// The kinds of credentials that were masked in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(nullable)]
    pub masked: Vec<String>,
    /// Mentioned names that no member has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(nullable)]
    pub unknown: Vec<String>,
}

/// The recipients of a message, by handle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aReached)]
#[serde(default, rename_all = "camelCase")]
pub struct Reached {
    /// Agents to which the message is delivered.
    #[schema(nullable)]
    pub woken: Vec<String>,
    /// Agents that are notified without the content.
    #[schema(nullable)]
    pub knocked: Vec<String>,
    /// The first agents that find the message only when they look.
    #[schema(nullable)]
    pub stored_for: Vec<String>,
    /// The total number of agents that find the message only when they look.
    #[schema(nullable, minimum = 0)]
    pub stored_count: i64,
}

/// The result of `chat.react`, `chat.defer` and `chat.resolve`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Recorded {
    /// The event's id.
    pub event_id: WireId,
    /// The recorded disposition; absent if the signal does not settle the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disposition: Option<Disposition>,
}

/// The result of `chat.claim`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Claimed {
    /// The id of the claimed event.
    pub event_id: WireId,
    /// The state of the claim.
    pub state: ClaimState,
    /// The holder of the claim.
    pub holder: Addressee,
    /// The time at which the claim expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// The whole event, for the holder of the claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<Box<Event>>,
}
