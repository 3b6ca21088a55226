//! The chat tools: their names, and what each is called with.
//!
//! Under its dotted name a tool takes the document's camelCase; under the name with underscores, which MCP lists, and the
//! bare one of the channel document it takes snake_case. What the tools do, and who may, is not known here.

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

/// How long a claim holds unless said.
pub const CLAIM_TTL_MS: i64 = 300_000;

words! {
    /// A chat tool, by the document's name.
    pub enum ChatTool {
        /// Reads events that are there for the agent.
        ListEvents = "chat.list_events",
        /// Reads a thread, or a window of a conversation.
        ReadThread = "chat.read_thread",
        /// Says something.
        SendMessage = "chat.send_message",
        /// Answers with a signal.
        React = "chat.react",
        /// Takes on an event.
        Claim = "chat.claim",
        /// Says that an answer comes later.
        Defer = "chat.defer",
        /// Says that something is done.
        Resolve = "chat.resolve",
    }
}

/// How the names of arguments are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// `inReplyTo`.
    Camel,
    /// `in_reply_to`.
    Snake,
}

impl ChatTool {
    /// The tool of this name, and how its arguments are written under it.
    pub fn named(name: &str) -> Option<(Self, Spelling)> {
        if let Some(tool) = Self::parse(name) {
            return Some((tool, Spelling::Camel));
        }
        let bare = name.strip_prefix("chat_").unwrap_or(name);
        let tool = Self::ALL.iter().find(|tool| tool.bare() == bare)?;
        Some((*tool, Spelling::Snake))
    }

    /// Its name as MCP lists it: many clients refuse dots.
    pub fn underscored(self) -> String {
        self.as_str().replace('.', "_")
    }

    fn bare(self) -> &'static str {
        self.as_str().trim_start_matches("chat.")
    }
}

/// What `chat.list_events` is called with: what is not said is not asked for.
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
    /// Only from this time on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Only before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Cursor>,
    /// How many at most.
    #[serde(default = "usual_limit")]
    #[schema(nullable, minimum = 1, maximum = 200, default = 50)]
    pub limit: i64,
}

/// What `chat.read_thread` is called with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadThread {
    /// The conversation.
    pub conversation_id: WireId,
    /// The thread in it; all of the conversation, unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<WireId>,
    /// `next` of the page before; the newest, unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Cursor>,
    /// How many at most.
    #[serde(default = "usual_limit")]
    #[schema(nullable, minimum = 1, maximum = 200, default = 50)]
    pub limit: i64,
}

fn usual_limit() -> i64 {
    50
}

/// What `chat.send_message` is called with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SendMessage {
    /// Where to.
    pub target: Destination,
    /// The event it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<WireId>,
    /// The same for every retry of the same message; a new one only for a new one.
    pub idempotency_key: IdempotencyKey,
    /// Who sees it.
    pub visibility: Visibility,
    /// At whom it is aimed. It may lower what its mentions say, never raise it.
    pub directedness: Directedness,
    /// Markdown; `@handle` mentions a member. Credentials in it are masked.
    #[schema(min_length = 1, max_length = 100_000)]
    pub text: String,
    /// What it is meant as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intent: Option<Intent>,
    /// How much it matters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// How long an answer may take, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1_000, maximum = 86_400_000)]
    pub deadline_ms: Option<i64>,
    /// Whether it waits until a person agrees.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(nullable)]
    pub requires_approval: bool,
}

/// Where a message goes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Destination {
    /// The conversation.
    pub conversation_id: WireId,
    /// The thread in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<WireId>,
    /// The work stream it belongs to; unless said, that of its thread, or the only one there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_id: Option<WireId>,
}

/// What `chat.react` is called with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct React {
    /// The event.
    pub in_reply_to: WireId,
    /// What is made of it.
    pub signal: Signal,
    /// When there will be more, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100)]
    pub eta: Option<String>,
    /// Whether the reaction is taken back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(nullable)]
    pub removed: bool,
}

/// What `chat.claim` is called with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The event, or the one that began the thread.
    pub event_id: WireId,
    /// How long it is to hold, in milliseconds; again before it ends renews it.
    #[serde(default = "usual_ttl")]
    #[schema(nullable, minimum = 10_000, maximum = 86_400_000, default = 300_000)]
    pub ttl_ms: i64,
    /// Whether it is given back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(nullable)]
    pub release: bool,
}

fn usual_ttl() -> i64 {
    CLAIM_TTL_MS
}

/// What `chat.defer` is called with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Defer {
    /// The event.
    pub event_id: WireId,
    /// Why it has to wait.
    #[schema(min_length = 1, max_length = 1000)]
    pub reason: String,
    /// When there will be more, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100)]
    pub eta: Option<String>,
}

/// What `chat.resolve` is called with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resolve {
    /// The event, the one that began the thread, or the assignment.
    pub event_id: WireId,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
}

/// A call of a chat tool, as a harness makes it and a host has read it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "name", content = "arguments")]
pub enum Call {
    /// Reads events that are there for the agent.
    #[serde(rename = "chat.list_events")]
    ListEvents(ListEvents),
    /// Reads a thread, or a window of a conversation.
    #[serde(rename = "chat.read_thread")]
    ReadThread(ReadThread),
    /// Says something.
    #[serde(rename = "chat.send_message")]
    SendMessage(SendMessage),
    /// Answers with a signal.
    #[serde(rename = "chat.react")]
    React(React),
    /// Takes on an event.
    #[serde(rename = "chat.claim")]
    Claim(Claim),
    /// Says that an answer comes later.
    #[serde(rename = "chat.defer")]
    Defer(Defer),
    /// Says that something is done.
    #[serde(rename = "chat.resolve")]
    Resolve(Resolve),
}

/// Why a call cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallFault {
    /// It is not one of the chat tools.
    #[error("there is no chat tool of this name")]
    UnknownTool,
    /// Its arguments are wrong.
    #[error("{0}")]
    Arguments(Faults),
}

impl Call {
    /// Reads and checks a call, in the spelling that goes with its name.
    pub fn read(call: ToolCall) -> Result<Self, CallFault> {
        let (tool, spelling) = ChatTool::named(&call.name).ok_or(CallFault::UnknownTool)?;
        let arguments = Value::Object(call.arguments);
        let read = match tool {
            // A filter that is overlooked would answer another question.
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

    /// The tool.
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

/// Reads arguments in one spelling or the other.
pub fn read_as<T>(arguments: Value, spelling: Spelling) -> Result<T, Faults>
where
    T: ToSchema + DeserializeOwned + 'static,
{
    match spelling {
        Spelling::Camel => schema::read(arguments),
        Spelling::Snake => schema::read(arguments).map(|Snake(arguments)| arguments),
    }
}

/// The same, and members that nobody knows are faults.
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
