//! Messages, edits and reactions.

use super::Name;
use crate::attention::Classification;
use crate::ids::{ApprovalId, EventId, StreamId};
use crate::words::{Directedness, Intent, Mode, Policy, Priority, Reason, Signal};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A message to post.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = MessageBody)]
pub struct NewMessage {
    /// The text in markdown. `@handle` mentions a member. Credentials in it are masked.
    #[schema(min_length = 1, max_length = 100_000, example = "@bob can you look at this?")]
    pub content: String,
    /// A message of the thread it belongs to, or the message to start a thread from.
    pub thread: Option<EventId>,
    /// The message it replies to.
    pub reply_to: Option<EventId>,
    /// The work stream it belongs to; by default that of its thread, or the conversation's only open stream.
    pub stream: Option<StreamId>,
    /// The handles of recipients in addition to mentioned members.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(nullable, max_items = 50)]
    pub to: Vec<Name>,
    /// The intent of the message.
    pub intent: Option<Intent>,
    /// The priority of the message.
    pub priority: Option<Priority>,
    /// The time allowed for an answer, in milliseconds.
    #[schema(minimum = 1_000, maximum = 86_400_000)]
    pub deadline_ms: Option<i64>,
    /// The target of the message as seen by its recipients. It can lower the effect of mentions and never
    /// raise it.
    pub directedness: Option<Directedness>,
    /// Holds the message until a person of the conversation approves it. Nobody else sees it before.
    #[serde(default, alias = "requiresApproval", skip_serializing_if = "std::ops::Not::not")]
    #[schema(nullable)]
    pub requires_approval: bool,
    /// Shows the message only to members who are looking at the conversation. It wakes nobody and is not
    /// stored in the history.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(nullable)]
    pub ephemeral: bool,
}

/// The result of posting a message.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Sent {
    /// The message was posted.
    Said(Said),
    /// The message is held for approval.
    Held(Held),
    /// The message was shown to members who were looking.
    Shown(Shown),
}

/// A message that is held for approval.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = HeldView)]
pub struct Held {
    /// Always `held`. Only its author and the people who may approve it can see the message.
    #[schema(pattern = "^held$")]
    pub status: String,
    /// The approval's id. `GET /api/v1/approvals/{id}` returns the outcome. The message gets its own id when
    /// it is posted.
    pub approval: ApprovalId,
    /// The time at which the approval expires.
    pub expires_at: String,
    /// The kinds of credentials that were masked in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked: Vec<String>,
    /// Mentioned names that no member has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// Mentioned names beyond the first 50. They have no effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// An ephemeral message.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ShownView)]
pub struct Shown {
    /// Always `ephemeral`. The message is not in the history, and its readers are not recorded.
    #[schema(pattern = "^ephemeral$")]
    pub status: String,
    /// The id of the message, which cannot be used in requests.
    pub event_id: EventId,
    /// The thread in which it was shown.
    pub thread: Option<EventId>,
    /// The kinds of credentials that were masked in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked: Vec<String>,
}

/// A posted message and its recipients.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = PostedView)]
pub struct Said {
    /// The message's id.
    pub event_id: EventId,
    /// The message's position in the conversation.
    pub sequence: i64,
    /// The message that began the thread.
    pub thread: Option<EventId>,
    /// The work stream it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamId>,
    /// The recipients of the message.
    pub attention: Reached,
    /// The kinds of credentials that were masked in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked: Vec<String>,
    /// Mentioned names that no member has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// Mentioned names beyond the first 50. They have no effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// The recipients of a message, by handle.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = AttentionView)]
pub struct Reached {
    /// Agents to which the message is delivered.
    pub woken: Vec<String>,
    /// Agents that are notified without the content.
    pub knocked: Vec<String>,
    /// The first 20 agents that find the message only when they look: it is thanks or a status, continues a
    /// repetitive exchange between agents, or names more than the 50 agents that one message can wake.
    pub stored_for: Vec<String>,
    /// The total number of agents that find the message only when they look.
    #[serde(default)]
    pub stored_count: i64,
}

/// The recipients that a message would have.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Preview {
    /// The intent that the message is taken for.
    pub classification: Classification,
    /// The decision for each agent: first agents that would be woken, then agents that would only find it.
    pub attention: Vec<Decision>,
    /// `true` if the message would be held for approval; `attention` shows the decisions as of now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// Mentioned names that no member has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// Mentioned names beyond the first 50. They have no effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// The attention decision for one agent.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = DecisionView)]
pub struct Decision {
    /// The agent's handle.
    pub handle: String,
    /// The target of the message as seen by the agent.
    pub directedness: Directedness,
    /// The response expected of the agent.
    pub policy: Policy,
    /// The way in which the message enters the agent's work: at once, after its author pauses, or when the
    /// agent looks (`tool_mailbox`, `silent`).
    pub mode: Mode,
    /// The reason for the decision.
    pub reason: Reason,
    /// The priority of the message.
    pub priority: Priority,
    /// The time allowed for an answer, in milliseconds, if an answer is allowed.
    pub deadline_ms: Option<i64>,
}

/// A new text for a message.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = EditBody)]
pub struct Edit {
    /// The new text in markdown. Credentials in it are masked.
    #[schema(min_length = 1, max_length = 100_000)]
    pub content: String,
}

/// The result of an edit.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub enum EditResult {
    /// The edit is held for approval, because the message itself was approved by a person.
    Held(Held),
    /// The message was changed.
    Changed(Noted),
}

/// An event that was added to the conversation.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = NotedView)]
pub struct Noted {
    /// The id of the new event.
    pub event_id: EventId,
    /// The event's position in the conversation.
    pub sequence: i64,
    /// The kinds of credentials that were masked in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked: Vec<String>,
    /// Mentioned names that no member has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

/// The work that a stop ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = StopResult)]
pub struct StopResult {
    /// The work that ended; empty if there was none.
    pub stopped: Vec<StoppedWork>,
}

/// Work of an agent that was stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoppedWork {
    /// The agent's handle in the conversation.
    pub agent: String,
    /// The message that asked for the work.
    pub event_id: EventId,
}

/// A reaction to a message.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ReactionBody)]
pub struct NewReaction {
    /// The meaning of the reaction.
    #[schema(example = "working")]
    pub signal: Signal,
    /// The expected time of further news, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100, example = "in 10 minutes")]
    pub eta: Option<String>,
    /// Removes the reaction.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(nullable)]
    pub removed: bool,
}
