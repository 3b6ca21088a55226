//! What the chat tools answer: their results, and refusals, which are results too.

use super::event::{Addressee, Event};
use super::{Cursor, Time, WireId};
use crate::words::{ClaimState, DeliveryState, Disposition, words};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
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
}

/// What became of a message: of `chat.send_message`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aSent)]
#[serde(rename_all = "camelCase")]
pub struct Sent {
    /// Its id.
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

words! {
    /// Why a tool does not do what it was asked.
    pub enum RefusalCode {
        /// Policy forbids an answer.
        PolicyForbidden = "policy_forbidden",
        /// Somebody else answers.
        ClaimedByOther = "claimed_by_other",
        /// Somebody else is asked first.
        OfferedToOther = "offered_to_other",
        /// There is no claim of the agent's to renew or release.
        NotClaimed = "not_claimed",
        /// The agent is not in the conversation.
        NotAMember = "not_a_member",
        /// There is nothing of this id, for this agent.
        NotFound = "not_found",
        /// The arguments are wrong.
        InvalidArguments = "invalid_arguments",
        /// The same key with another message.
        IdempotencyConflict = "idempotency_conflict",
        /// The conversation takes nothing any more.
        Archived = "archived",
        /// Somebody the message is for does not want it.
        Blocked = "blocked",
        /// A quota is used up.
        QuotaExceeded = "quota_exceeded",
        /// Too much at once.
        RateLimited = "rate_limited",
        /// Not now.
        Unavailable = "unavailable",
    }
}

impl RefusalCode {
    /// Whether the same call may succeed later.
    pub const fn is_retryable(self) -> bool {
        matches!(self, Self::OfferedToOther | Self::RateLimited | Self::Unavailable)
    }
}

/// Why a tool did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{message}")]
pub struct Refusal {
    /// For a program.
    pub code: RefusalCode,
    /// For a model or a person: what is wrong, and what can be done.
    #[schema(max_length = 10_000)]
    pub message: String,
    /// When the same call may succeed, in milliseconds from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub retry_after_ms: Option<i64>,
}

impl Refusal {
    /// A refusal that stands.
    pub fn new(code: RefusalCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after_ms: None }
    }

    /// The event is offered to somebody else for so long.
    pub fn offered_to_other(retry_after_ms: i64) -> Self {
        let message = format!("this is offered to another agent first; ask again in {retry_after_ms} ms");
        Self { code: RefusalCode::OfferedToOther, message, retry_after_ms: Some(retry_after_ms) }
    }
}

/// The answer to `tools/list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aToolList)]
pub struct ToolList {
    /// The tools.
    #[schema(max_items = 1000)]
    pub tools: Vec<ToolInfo>,
}

/// What a tool is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aToolInfo)]
#[serde(rename_all = "camelCase")]
pub struct ToolInfo {
    /// Its name.
    #[schema(min_length = 1, max_length = 256)]
    pub name: String,
    /// What it does, for a model.
    #[schema(max_length = 10_000)]
    pub description: String,
    /// The JSON Schema of its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub input_schema: Option<Map<String, Value>>,
    /// What may be done with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<ToolHints>,
}

/// What a harness may do with a tool. What is not said is not certain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aToolHints)]
#[serde(default, rename_all = "camelCase")]
pub struct ToolHints {
    /// It changes nothing.
    #[schema(nullable)]
    pub read_only_hint: bool,
    /// The same call again changes nothing more, so that it may be tried again.
    #[schema(nullable)]
    pub idempotent_hint: bool,
}
