//! Messages, their edits, and reactions to them.

use super::Name;
use crate::ids::{ApprovalId, EventId, StreamId};
use crate::words::{Directedness, Intent, Mode, Policy, Priority, Reason, Signal};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Something to be said.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = MessageBody)]
pub struct NewMessage {
    /// Markdown; `@handle` mentions a member. Credentials in it are masked.
    #[schema(min_length = 1, max_length = 100_000, example = "@bob can you look at this?")]
    pub content: String,
    /// A message of the thread it belongs to, or one to begin a thread with.
    pub thread: Option<EventId>,
    /// The message it answers.
    pub reply_to: Option<EventId>,
    /// The work stream it belongs to; unless said, that of its thread, or the only one that goes on in the conversation.
    pub stream: Option<StreamId>,
    /// Handles of members it is for, besides those it mentions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(nullable, max_items = 50)]
    pub to: Vec<Name>,
    /// What it is meant as.
    pub intent: Option<Intent>,
    /// How much it matters.
    pub priority: Option<Priority>,
    /// How long an answer may take, in milliseconds.
    #[schema(minimum = 1_000, maximum = 86_400_000)]
    pub deadline_ms: Option<i64>,
    /// At whom it is aimed, seen from who gets it. It lowers what its mentions say, and never raises it.
    pub directedness: Option<Directedness>,
    /// Whether it waits until a person of the conversation agrees. Until then nobody else is told of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(nullable)]
    pub requires_approval: bool,
    /// Whether it is only for whoever looks at the conversation right now. It wakes nobody and is in no history.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(nullable)]
    pub ephemeral: bool,
}

/// What became of something that was to be said.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Sent {
    /// It was said.
    Said(Said),
    /// It waits until a person agrees.
    Held(Held),
    /// It was shown to whoever looked.
    Shown(Shown),
}

/// A message that waits until a person agrees.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = HeldView)]
pub struct Held {
    /// Always `held`: nobody but its author and the people who may agree knows of it.
    #[schema(pattern = "^held$")]
    pub status: String,
    /// What it is called while it waits: `GET /api/v1/approvals/{id}` tells what became of it. The message gets an id of its own.
    pub approval: ApprovalId,
    /// When it ends by itself.
    pub expires_at: String,
    /// The kinds of credentials that were masked in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked: Vec<String>,
    /// Names that it mentions and nobody here has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// Names that it mentions beyond the first 50, which are all that count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// A message that was shown to whoever looked.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ShownView)]
pub struct Shown {
    /// Always `ephemeral`: it is in no history, and nobody is told who saw it.
    #[schema(pattern = "^ephemeral$")]
    pub status: String,
    /// Its id, which nothing answers to.
    pub event_id: EventId,
    /// The thread it was shown in.
    pub thread: Option<EventId>,
    /// The kinds of credentials that were masked in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked: Vec<String>,
}

/// What was said, and whom it reaches.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = PostedView)]
pub struct Said {
    /// Its id.
    pub event_id: EventId,
    /// Its place in the conversation.
    pub sequence: i64,
    /// The message that began the thread it is in.
    pub thread: Option<EventId>,
    /// The work stream it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamId>,
    /// Whom it reaches.
    pub attention: Reached,
    /// The kinds of credentials that were masked in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked: Vec<String>,
    /// Names that it mentions and nobody here has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// Names that it mentions beyond the first 50, which are all that count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// Whom a message reaches, by handle.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = AttentionView)]
pub struct Reached {
    /// Agents it is delivered to.
    pub woken: Vec<String>,
    /// Agents that are told there is something.
    pub knocked: Vec<String>,
    /// Agents it is for and that only find it when they look, the first 20: it says thanks or how something stands, or goes on
    /// with what agents repeat to each other, or names more than the 50 that one message wakes.
    pub stored_for: Vec<String>,
    /// How many these are.
    #[serde(default)]
    pub stored_count: i64,
}

/// Whom a message would reach.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Preview {
    /// One for each agent that it is for: those that would be woken, then those that only find it.
    pub attention: Vec<Decision>,
    /// Whether it would wait until a person agrees; `attention` is then as it would be now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// Names that it mentions and nobody here has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// Names that it mentions beyond the first 50, which are all that count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// What is decided for one agent.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = DecisionView)]
pub struct Decision {
    /// What it is called there.
    pub handle: String,
    /// To whom it is directed.
    pub directedness: Directedness,
    /// What is expected of it.
    pub policy: Policy,
    /// When it enters the agent's work: at once, after a pause of its author, or when it looks (`tool_mailbox`, `silent`).
    pub mode: Mode,
    /// Why.
    pub reason: Reason,
    /// How much it matters.
    pub priority: Priority,
    /// How long an answer may take, in milliseconds, where one may come.
    pub deadline_ms: Option<i64>,
}

/// What a message is to say instead.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = EditBody)]
pub struct Edit {
    /// Markdown. Credentials in it are masked.
    #[schema(min_length = 1, max_length = 100_000)]
    pub content: String,
}

/// What was added to the log.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = NotedView)]
pub struct Noted {
    /// The id of the new event.
    pub event_id: EventId,
    /// Its place in the conversation.
    pub sequence: i64,
    /// The kinds of credentials that were masked in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked: Vec<String>,
    /// Names that it mentions and nobody here has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

/// What is thought of a message.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ReactionBody)]
pub struct NewReaction {
    /// What.
    #[schema(example = "working")]
    pub signal: Signal,
    /// When there will be more, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100, example = "in 10 minutes")]
    pub eta: Option<String>,
    /// Whether it is not thought any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(nullable)]
    pub removed: bool,
}
