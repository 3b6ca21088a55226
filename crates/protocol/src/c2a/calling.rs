//! `tools/list` and `tools/call`: tools, calls and results.
//!
//! A tool that refuses a call says so in its result: `isError`, with a sentence for the model and a
//! [`Refusal`] for the harness. JSON-RPC errors are for calls that cannot be made at all.

use super::WireId;
use crate::faults::Faults;
use crate::schema;
use crate::words::words;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

/// The result of `tools/list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aToolList)]
pub struct ToolList {
    /// The available tools.
    #[schema(max_items = 1000)]
    pub tools: Vec<ToolInfo>,
}

/// A tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aToolInfo)]
#[serde(rename_all = "camelCase")]
pub struct ToolInfo {
    /// The tool's name.
    #[schema(min_length = 1, max_length = 256)]
    pub name: String,
    /// The description for a model.
    #[schema(max_length = 10_000)]
    pub description: String,
    /// The JSON Schema of the arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub input_schema: Option<Map<String, Value>>,
    /// Hints about the effect of a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<ToolHints>,
}

/// Hints about the effect of a tool. Absent hints are `false`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aToolHints)]
#[serde(default, rename_all = "camelCase")]
pub struct ToolHints {
    /// The tool changes nothing.
    #[schema(nullable)]
    pub read_only_hint: bool,
    /// Repeating a call has no further effect, so it may be retried.
    #[schema(nullable)]
    pub idempotent_hint: bool,
}

/// The params of `tools/call`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aToolCall)]
pub struct ToolCall {
    /// The tool's name.
    #[schema(min_length = 1, max_length = 256, example = "chat.react")]
    pub name: String,
    /// The arguments by name.
    #[serde(default)]
    #[schema(nullable, value_type = Object)]
    pub arguments: Map<String, Value>,
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aToolResult)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// The result for a model, in parts of any type. Its length is not limited, since a page of events may be
    /// long.
    #[serde(default)]
    #[schema(nullable, max_items = 100, value_type = Vec<Object>)]
    pub content: Vec<Value>,
    /// The same result for a program.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub structured_content: Option<Map<String, Value>>,
    /// `true` if the tool failed or refused the call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(nullable)]
    pub is_error: bool,
}

/// The reasons why a tool call gave no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolFailure {
    /// The tool refused the call with a code.
    #[error(transparent)]
    Refused(Refusal),
    /// The tool failed with a message only.
    #[error("{0}")]
    Failed(String),
    /// The result has an unexpected form.
    #[error("the tool's result cannot be read: {0}")]
    Unreadable(Faults),
}

impl ToolResult {
    /// Creates the result of a successful call.
    pub fn done(result: &impl Serialize) -> Result<Self, serde_json::Error> {
        Self::new(serde_json::to_string(result)?, result, false)
    }

    /// Creates the result of a refused call.
    pub fn refused(refusal: &Refusal) -> Result<Self, serde_json::Error> {
        Self::new(refusal.message.clone(), refusal, true)
    }

    fn new(text: String, structured: &impl Serialize, is_error: bool) -> Result<Self, serde_json::Error> {
        let structured_content = match serde_json::to_value(structured)? {
            Value::Object(members) => Some(members),
            _ => None,
        };
        Ok(Self { content: vec![json!({"type": "text", "text": text})], structured_content, is_error })
    }

    /// Returns the code of a refusal, if there is one.
    pub fn refusal(&self) -> Option<String> {
        let code = self.structured_content.as_ref().filter(|_| self.is_error)?.get("code")?;
        code.as_str().map(str::to_owned)
    }

    /// Joins all text parts as paragraphs.
    pub fn to_text(&self) -> String {
        let texts = self.content.iter().filter_map(|part| part["text"].as_str());
        texts.collect::<Vec<_>>().join("\n\n")
    }

    /// Returns the structured result as the type of the tool.
    pub fn outcome<T: ToSchema + DeserializeOwned + 'static>(self) -> Result<T, ToolFailure> {
        let text = self.to_text();
        let structured = self.structured_content.map_or(Value::Null, Value::Object);
        if !self.is_error {
            return schema::read(structured).map_err(ToolFailure::Unreadable);
        }
        // The tools of another host may have other codes, or none; their text is passed on to the model.
        Err(schema::read(structured).map_or(ToolFailure::Failed(text), ToolFailure::Refused))
    }
}

words! {
    /// The reasons for refusing a tool call.
    pub enum RefusalCode {
        /// The event's policy forbids an answer.
        PolicyForbidden = "policy_forbidden",
        /// Another agent holds the claim.
        ClaimedByOther = "claimed_by_other",
        /// The event is offered to another agent first.
        OfferedToOther = "offered_to_other",
        /// A newer version replaced the event; answer that one.
        Superseded = "superseded",
        /// The agent holds no claim to renew or release.
        NotClaimed = "not_claimed",
        /// The agent is not a member of the conversation.
        NotAMember = "not_a_member",
        /// The id does not exist or is not visible to the agent.
        NotFound = "not_found",
        InvalidArguments = "invalid_arguments",
        /// The idempotency key was used before with another message.
        IdempotencyConflict = "idempotency_conflict",
        /// The conversation is archived.
        Archived = "archived",
        /// A recipient has blocked the agent.
        Blocked = "blocked",
        /// The caller is not allowed to do this.
        Forbidden = "forbidden",
        /// The state is not, or no longer, as the call assumes.
        Conflict = "conflict",
        QuotaExceeded = "quota_exceeded",
        RateLimited = "rate_limited",
        /// The hub cannot handle the call now.
        Unavailable = "unavailable",
    }
}

impl RefusalCode {
    /// Returns `true` if the same call may succeed later.
    pub const fn is_retryable(self) -> bool {
        matches!(self, Self::OfferedToOther | Self::RateLimited | Self::Unavailable)
    }
}

/// The refusal of a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{message}")]
pub struct Refusal {
    /// The code for programs.
    pub code: RefusalCode,
    /// The message for a model or a person: the problem and the remedy.
    #[schema(max_length = 10_000)]
    pub message: String,
    /// The time after which the same call may succeed, in milliseconds from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub retry_after_ms: Option<i64>,
    /// The event that replaced the one that was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest_event_id: Option<WireId>,
}

impl Refusal {
    /// Creates a refusal without a time to retry.
    pub fn new(code: RefusalCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after_ms: None, newest_event_id: None }
    }

    /// Creates the refusal for an event that another agent is offered for the given time.
    pub fn offered_to_other(retry_after_ms: i64) -> Self {
        let message = format!("this is offered to another agent first; ask again in {retry_after_ms} ms");
        Self { retry_after_ms: Some(retry_after_ms), ..Self::new(RefusalCode::OfferedToOther, message) }
    }
}
