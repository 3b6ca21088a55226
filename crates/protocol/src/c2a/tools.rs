//! The chat tools: their names and arguments.
//!
//! Under its dotted name a tool takes the document's camelCase. Under its name with underscores, which MCP
//! lists, and under the bare name of the channel document it takes snake_case. Permissions and effects are not
//! decided here.

use super::calling::ToolCall;
use super::spelling::Snake;
use super::{Cursor, IdempotencyKey, Time, WireId};
use crate::faults::Faults;
use crate::schema;
use crate::words::{Directedness, Intent, Policy, Priority, Signal, Visibility, words};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

/// The default lifetime of a claim, in milliseconds.
pub const CLAIM_TTL_MS: i64 = 300_000;

words! {
    /// A chat tool, by its name in the protocol document.
    pub enum ChatTool {
        /// Lists events available to the agent.
        ListEvents = "chat.list_events",
        /// Reads a thread, or a window of a conversation.
        ReadThread = "chat.read_thread",
        /// Sends a message.
        SendMessage = "chat.send_message",
        /// Reacts with a signal.
        React = "chat.react",
        /// Claims an event.
        Claim = "chat.claim",
        /// Defers the answer to an event.
        Defer = "chat.defer",
        /// Marks an event as resolved.
        Resolve = "chat.resolve",
    }
}

/// The spelling of argument names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// `inReplyTo`.
    Camel,
    /// `in_reply_to`.
    Snake,
}

impl ChatTool {
    /// Returns the tool of this name and the spelling of its arguments under that name.
    pub fn named(name: &str) -> Option<(Self, Spelling)> {
        if let Some(tool) = Self::parse(name) {
            return Some((tool, Spelling::Camel));
        }
        let bare = name.strip_prefix("chat_").unwrap_or(name);
        let tool = Self::ALL.iter().find(|tool| tool.bare() == bare)?;
        Some((*tool, Spelling::Snake))
    }

    /// Returns the tool's name for MCP, without a dot, since many clients reject dots.
    pub fn underscored(self) -> String {
        self.as_str().replace('.', "_")
    }

    fn bare(self) -> &'static str {
        self.as_str().trim_start_matches("chat.")
    }
}

/// The arguments of `chat.list_events`. Absent filters do not apply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListEvents {
    /// Only events of this work stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_id: Option<WireId>,
    /// Only events of this conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<WireId>,
    /// Only events with this policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// Only events at or after this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Only events before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// The `next` cursor of the previous page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Cursor>,
    /// The maximum number of events.
    #[serde(default = "usual_limit")]
    #[schema(nullable, minimum = 1, maximum = 200, default = 50)]
    pub limit: i64,
}

/// The arguments of `chat.read_thread`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadThread {
    /// The conversation's id.
    pub conversation_id: WireId,
    /// The thread's id; the whole conversation if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<WireId>,
    /// The `next` cursor of the previous page; the newest events if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Cursor>,
    /// The maximum number of events.
    #[serde(default = "usual_limit")]
    #[schema(nullable, minimum = 1, maximum = 200, default = 50)]
    pub limit: i64,
}

fn usual_limit() -> i64 {
    50
}

/// The arguments of `chat.send_message`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SendMessage {
    /// The destination of the message.
    pub target: Destination,
    /// The event that the message answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<WireId>,
    /// A key that is the same for every retry of one message. Use a new key only for a new message.
    pub idempotency_key: IdempotencyKey,
    /// The readers of the message.
    pub visibility: Visibility,
    /// The target of the message. It can lower the effect of mentions and never raise it.
    pub directedness: Directedness,
    /// The text in markdown. `@handle` mentions a member. Credentials in it are masked.
    #[schema(min_length = 1, max_length = 100_000)]
    pub text: String,
    /// The intent of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intent: Option<Intent>,
    /// The priority of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// The time allowed for an answer, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1_000, maximum = 86_400_000)]
    pub deadline_ms: Option<i64>,
    /// Holds the message until a person approves it.
    #[serde(default, alias = "requires_approval", skip_serializing_if = "std::ops::Not::not")]
    #[schema(nullable)]
    pub requires_approval: bool,
}

/// The destination of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Destination {
    /// The conversation's id.
    pub conversation_id: WireId,
    /// The thread's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<WireId>,
    /// The id of the work stream it belongs to; by default that of its thread, or the conversation's only open
    /// stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_id: Option<WireId>,
}

/// The arguments of `chat.react`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct React {
    /// The event to react to.
    pub in_reply_to: WireId,
    /// The signal.
    pub signal: Signal,
    /// The expected time of further news, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100)]
    pub eta: Option<String>,
    /// Removes the reaction.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(nullable)]
    pub removed: bool,
}

/// The arguments of `chat.claim`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The event, or the first event of its thread.
    pub event_id: WireId,
    /// The lifetime of the claim in milliseconds. Claiming again before it ends renews the claim.
    #[serde(default = "usual_ttl")]
    #[schema(nullable, minimum = 10_000, maximum = 86_400_000, default = 300_000)]
    pub ttl_ms: i64,
    /// Releases the claim.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(nullable)]
    pub release: bool,
}

fn usual_ttl() -> i64 {
    CLAIM_TTL_MS
}

/// The arguments of `chat.defer`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Defer {
    /// The event to defer.
    pub event_id: WireId,
    /// The reason for deferring.
    #[schema(min_length = 1, max_length = 1000)]
    pub reason: String,
    /// The expected time of further news, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100)]
    pub eta: Option<String>,
}

/// The arguments of `chat.resolve`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resolve {
    /// The event, the first event of its thread, or the assignment.
    pub event_id: WireId,
    /// The outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
}

/// A validated call of a chat tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "name", content = "arguments")]
pub enum Call {
    #[serde(rename = "chat.list_events")]
    ListEvents(ListEvents),
    #[serde(rename = "chat.read_thread")]
    ReadThread(ReadThread),
    #[serde(rename = "chat.send_message")]
    SendMessage(SendMessage),
    #[serde(rename = "chat.react")]
    React(React),
    #[serde(rename = "chat.claim")]
    Claim(Claim),
    #[serde(rename = "chat.defer")]
    Defer(Defer),
    #[serde(rename = "chat.resolve")]
    Resolve(Resolve),
}

/// The reasons why a call is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallFault {
    /// The name is not that of a chat tool.
    #[error("there is no chat tool of this name")]
    UnknownTool,
    #[error("{0}")]
    Arguments(Faults),
}

impl Call {
    /// Reads and validates a call in the spelling that goes with its name.
    pub fn read(call: ToolCall) -> Result<Self, CallFault> {
        let (tool, spelling) = ChatTool::named(&call.name).ok_or(CallFault::UnknownTool)?;
        let arguments = Value::Object(call.arguments);
        let read = match tool {
            // Unknown arguments are errors here, because an ignored filter would return the wrong events.
            ChatTool::ListEvents => read_strictly(arguments, spelling).map(Self::ListEvents),
            ChatTool::ReadThread => read_strictly(arguments, spelling).map(Self::ReadThread),
            ChatTool::SendMessage => read_as(arguments, spelling).map(Self::SendMessage),
            ChatTool::React => read_as(arguments, spelling).map(Self::React),
            ChatTool::Claim => read_as(arguments, spelling).map(Self::Claim),
            ChatTool::Defer => read_as(arguments, spelling).map(Self::Defer),
            ChatTool::Resolve => read_as(arguments, spelling).map(Self::Resolve),
        };
        read.map_err(CallFault::Arguments)
    }

    /// Returns the tool that is called.
    pub fn tool(&self) -> ChatTool {
        match self {
            Self::ListEvents(_) => ChatTool::ListEvents,
            Self::ReadThread(_) => ChatTool::ReadThread,
            Self::SendMessage(_) => ChatTool::SendMessage,
            Self::React(_) => ChatTool::React,
            Self::Claim(_) => ChatTool::Claim,
            Self::Defer(_) => ChatTool::Defer,
            Self::Resolve(_) => ChatTool::Resolve,
        }
    }
}

/// Reads arguments in the given spelling.
pub fn read_as<T>(arguments: Value, spelling: Spelling) -> Result<T, Faults>
where
    T: ToSchema + DeserializeOwned + 'static,
{
    match spelling {
        Spelling::Camel => schema::read(arguments),
        Spelling::Snake => schema::read(arguments).map(|Snake(arguments)| arguments),
    }
}

/// Reads arguments in the given spelling and rejects unknown ones.
fn read_strictly<T>(arguments: Value, spelling: Spelling) -> Result<T, Faults>
where
    T: ToSchema + DeserializeOwned + 'static,
{
    let schema = match spelling {
        Spelling::Camel => T::schema(),
        Spelling::Snake => Snake::<T>::schema(),
    };
    let mut unknown = Faults::new();
    if let (RefOr::T(Schema::Object(known)), Some(given)) = (schema, arguments.as_object()) {
        for name in given.keys().filter(|name| !known.properties.contains_key(*name)) {
            unknown.add(name, "there is no such argument");
        }
    }
    if unknown.is_empty() { read_as(arguments, spelling) } else { Err(unknown) }
}
