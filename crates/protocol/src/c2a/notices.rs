//! What either end tells the other without being asked, and without an answer.

use super::WireId;
use super::event::Addressee;
use crate::words::{Disposition, words};
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType};
use utoipa::openapi::{RefOr, Type};

/// `notifications/injected`: which events entered a turn of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Injected {
    /// The events.
    #[schema(min_items = 1, max_items = 1000)]
    pub event_ids: Vec<WireId>,
    /// What the harness calls the turn.
    pub turn_id: WireId,
}

/// `notifications/disposition`: what the harness made of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disposed {
    /// The event.
    pub event_id: WireId,
    /// What it made of it.
    pub disposition: Disposition,
    /// Why, for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
}

/// `notifications/progress`: how far something came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// What: an event that was delivered, or a job.
    pub progress_token: WireId,
    /// How far.
    #[schema(value_type = f64)]
    pub progress: Number,
    /// Of how much, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub total: Option<Number>,
    /// What was done last, for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub message: Option<String>,
}

/// `notifications/cancelled`: something is not wanted any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cancelled {
    /// The id of the request that asked for it: a text or an integer, as JSON-RPC has them.
    #[schema(schema_with = request_id)]
    pub request_id: Value,
    /// The event it was about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<WireId>,
    /// Why, for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
}

fn request_id() -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(SchemaType::Array(vec![Type::String, Type::Integer]))
        .min_length(Some(1))
        .max_length(Some(256))
        .into()
}

/// `notifications/typing`: somebody is writing. It is said again every few seconds, and holds no longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Typing {
    /// Where.
    pub conversation_id: WireId,
    /// In which thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<WireId>,
    /// Who; whoever tells it, unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<Addressee>,
}

/// `notifications/message`: something for the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LogMessage {
    /// How grave it is.
    pub level: LogLevel,
    /// What part of the harness says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub logger: Option<String>,
    /// What it says: a text, or anything.
    pub data: Value,
}

/// The longest text of a log message, in characters.
const MAX_LOG: usize = 10_000;

impl LogMessage {
    /// What it says, in words, and no longer than a log takes.
    pub fn text(&self) -> String {
        let text = match &self.data {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        text.chars().take(MAX_LOG).collect()
    }
}

words! {
    /// How grave a log message is, from least to most.
    pub enum LogLevel {
        /// For who looks for a fault.
        Debug = "debug",
        /// As usual.
        Info = "info",
        /// As usual, but worth a look.
        Notice = "notice",
        /// Something may be wrong.
        Warning = "warning",
        /// Something is.
        Error = "error",
        /// Some part does not work.
        Critical = "critical",
        /// Somebody has to act at once.
        Alert = "alert",
        /// Nothing works.
        Emergency = "emergency",
    }
}
