//! What the chat tools answer when they do what they were asked.

use super::event::{Addressee, Event};
use super::{Cursor, Time, WireId};
use crate::words::{ClaimState, DeliveryState, Disposition};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Events, in order: of `chat.list_events` and `chat.read_thread`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventPage {
    /// The events.
    pub events: Vec<Event>,
    /// The `after` of the next page; on the last one, where to look for more later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Cursor>,
    /// Whether there is more right now.
    #[serde(default)]
    #[schema(nullable)]
    pub more: bool,
    /// How many conversations were not looked into, because there are too many: ask for them one by one.
    #[serde(default, rename = "leftOut", skip_serializing_if = "is_zero")]
    #[schema(nullable, minimum = 0)]
    pub left_out: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &i64) -> bool {
    *count == 0
}

/// What became of a message: of `chat.send_message`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aSent)]
#[serde(rename_all = "camelCase")]
pub struct Sent {
    /// Its id; of what waits until a person agrees, what it is called as long as it does.
    pub event_id: WireId,
    /// Its place in the conversation; what is not kept there has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<i64>,
    /// The thread it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<WireId>,
    /// Whom it reaches.
    #[serde(default)]
    #[schema(nullable)]
    pub attention: Reached,
    /// What became of it where it left the hub: an answer to an envelope, or to another service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<DeliveryState>,
    /// Whether it waits until a person agrees.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(nullable)]
    pub awaits_approval: bool,
    /// Whether it was only shown to whoever looked: it is in no history.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(nullable)]
    pub ephemeral: bool,
    /// The kinds of credentials that were masked in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(nullable)]
    pub masked: Vec<String>,
    /// Names that it mentions and that are nobody's there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(nullable)]
    pub unknown: Vec<String>,
}

/// Whom a message reaches, by handle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aReached)]
#[serde(default, rename_all = "camelCase")]
pub struct Reached {
    /// Agents it is delivered to.
    #[schema(nullable)]
    pub woken: Vec<String>,
    /// Agents that are told there is something.
    #[schema(nullable)]
    pub knocked: Vec<String>,
    /// The first of the agents that find it when they look.
    #[schema(nullable)]
    pub stored_for: Vec<String>,
    /// How many these are.
    #[schema(nullable, minimum = 0)]
    pub stored_count: i64,
}

/// What is recorded of an event now: of `chat.react`, `chat.defer` and `chat.resolve`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Recorded {
    /// The event.
    pub event_id: WireId,
    /// What the agent made of it; a signal that decides nothing leaves it open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disposition: Option<Disposition>,
}

/// How a claim stands: of `chat.claim`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Claimed {
    /// What was claimed.
    pub event_id: WireId,
    /// How it stands.
    pub state: ClaimState,
    /// Whose it is.
    pub holder: Addressee,
    /// How long it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// All of the event, for whoever holds the claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<Box<Event>>,
}
