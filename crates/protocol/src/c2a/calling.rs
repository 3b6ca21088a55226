//! `tools/list` and `tools/call`, whichever tools there are: what a tool is, a call, its result.
//!
//! A tool that does not do what it was asked says so in its result: `isError`, with a sentence for the model and a
//! [`Refusal`] for the harness. JSON-RPC's errors are for what cannot be called at all.

use super::WireId;
use crate::faults::Faults;
use crate::schema;
use crate::words::words;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

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

/// `tools/call`: a tool, and what it is called with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aToolCall)]
pub struct ToolCall {
    /// Its name.
    #[schema(min_length = 1, max_length = 256, example = "chat.react")]
    pub name: String,
    /// By name.
    #[serde(default)]
    #[schema(nullable, value_type = Object)]
    pub arguments: Map<String, Value>,
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = C2aToolResult)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// For a model, in pieces of any type. As long as it has to be: a page of events is longer than any message.
    #[serde(default)]
    #[schema(nullable, max_items = 100, value_type = Vec<Object>)]
    pub content: Vec<Value>,
    /// The same for a program.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub structured_content: Option<Map<String, Value>>,
    /// Whether it did not do what it was asked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(nullable)]
    pub is_error: bool,
}

/// Why a tool gave no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolFailure {
    /// It refused, and said why.
    #[error(transparent)]
    Refused(Refusal),
    /// It failed, and said so in words only.
    #[error("{0}")]
    Failed(String),
    /// It answered something else than expected.
    #[error("the tool's result cannot be read: {0}")]
    Unreadable(Faults),
}

impl ToolResult {
    /// What a tool did, from one of its results.
    pub fn done(result: &impl Serialize) -> Result<Self, serde_json::Error> {
        Self::new(serde_json::to_string(result)?, result, false)
    }

    /// That a tool did not.
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

    /// The code of what it refused, if it did.
    pub fn refusal(&self) -> Option<String> {
        let code = self.structured_content.as_ref().filter(|_| self.is_error)?.get("code")?;
        code.as_str().map(str::to_owned)
    }

    /// All its words: pieces are paragraphs.
    pub fn to_text(&self) -> String {
        let texts = self.content.iter().filter_map(|part| part["text"].as_str());
        texts.collect::<Vec<_>>().join("\n\n")
    }

    /// What it did, as the type that its tool answers with.
    pub fn outcome<T: ToSchema + DeserializeOwned + 'static>(self) -> Result<T, ToolFailure> {
        let text = self.to_text();
        let structured = self.structured_content.map_or(Value::Null, Value::Object);
        if !self.is_error {
            return schema::read(structured).map_err(ToolFailure::Unreadable);
        }
        // Another host's tools may have codes of their own, or none; their words are there for the model.
        Err(schema::read(structured).map_or(ToolFailure::Failed(text), ToolFailure::Refused))
    }
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
        /// A newer version took the place of what is answered: answer that.
        Superseded = "superseded",
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
        /// The caller may not do this.
        Forbidden = "forbidden",
        /// It is not as the call takes it to be, or not any more.
        Conflict = "conflict",
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
    /// The event that took the place of the one that was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest_event_id: Option<WireId>,
}

impl Refusal {
    /// A refusal that stands.
    pub fn new(code: RefusalCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after_ms: None, newest_event_id: None }
    }

    /// The event is offered to somebody else for so long.
    pub fn offered_to_other(retry_after_ms: i64) -> Self {
        let message = format!("this is offered to another agent first; ask again in {retry_after_ms} ms");
        Self { retry_after_ms: Some(retry_after_ms), ..Self::new(RefusalCode::OfferedToOther, message) }
    }
}
