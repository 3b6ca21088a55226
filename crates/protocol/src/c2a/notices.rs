//! Notifications: messages of either side that have no response.

use super::WireId;
use super::event::Addressee;
use crate::words::{Disposition, words};
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType};
use utoipa::openapi::{RefOr, Type};

/// The params of `notifications/injected`: the events that entered a turn of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Injected {
    /// The ids of the events.
    #[schema(min_items = 1, max_items = 1000)]
    pub event_ids: Vec<WireId>,
    /// The harness's id of the turn.
    pub turn_id: WireId,
}

/// The params of `notifications/disposition`: the harness's handling of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disposed {
    /// The event's id.
    pub event_id: WireId,
    /// The disposition.
    pub disposition: Disposition,
    /// The reason, for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
}

/// The params of `notifications/progress`: the progress of an event or a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// The id of the delivered event or of the job.
    pub progress_token: WireId,
    /// The amount done so far.
    #[schema(value_type = f64)]
    pub progress: Number,
    /// The total amount, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub total: Option<Number>,
    /// The latest step, for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub message: Option<String>,
}

/// The params of `notifications/cancelled`: a request or event that is no longer wanted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cancelled {
    /// The JSON-RPC id of the request: a text or an integer.
    #[schema(schema_with = request_id)]
    pub request_id: Value,
    /// The event that the request was about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<WireId>,
    /// The reason, for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
    /// Somebody stopped the work on the event. The harness ends a running turn, even if it has used tools.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(nullable)]
    pub stopped: bool,
}

fn request_id() -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(SchemaType::Array(vec![Type::String, Type::Integer]))
        .min_length(Some(1))
        .max_length(Some(256))
        .into()
}

/// The params of `notifications/typing`: someone is writing. It is repeated every few seconds and expires soon
/// after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Typing {
    /// The conversation's id.
    pub conversation_id: WireId,
    /// The thread's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<WireId>,
    /// The person or agent who is writing; the sender of the notification if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<Addressee>,
}

/// The params of `notifications/message`: an entry for the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LogMessage {
    /// The severity.
    pub level: LogLevel,
    /// The component of the harness that wrote the entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub logger: Option<String>,
    /// The entry: a text or any JSON value.
    pub data: Value,
}

/// The longest text of a log entry, in characters.
const MAX_LOG: usize = 10_000;

impl LogMessage {
    /// Returns the entry as text, cut to the maximum length.
    pub fn text(&self) -> String {
        let text = match &self.data {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        text.chars().take(MAX_LOG).collect()
    }
}

words! {
    /// The severity of a log entry, from lowest to highest.
    pub enum LogLevel {
        /// Details for debugging.
        Debug = "debug",
        Info = "info",
        /// Normal operation that deserves attention.
        Notice = "notice",
        /// A possible problem.
        Warning = "warning",
        Error = "error",
        /// A component does not work.
        Critical = "critical",
        /// Someone must act at once.
        Alert = "alert",
        /// The program is unusable.
        Emergency = "emergency",
    }
}
