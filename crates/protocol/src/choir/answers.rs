//! Answers to open items: facts that a bundle leaves open, filled in later through the doors of evidence.

use super::evidence::Disposition;
use crate::faults::Faults;
use crate::schema;
use crate::words::words;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

words! {
    /// The schema of a record of answers.
    pub enum AnswersSchema {
        V1 = "choir.answers.v1",
    }
}

/// An answer about one event. It fills members that are `null`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventAnswer {
    /// The index of the event in the bundle, from 0.
    #[schema(minimum = 0, maximum = 499)]
    pub event: i64,
    /// `true` if the warning, dissent or escalation reached the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached_output: Option<bool>,
    /// The fate of the dissent or warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disposition: Option<Disposition>,
    /// The voice that acted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200)]
    pub voice_name: Option<String>,
    /// The scenario that was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200)]
    pub scenario_id: Option<String>,
}

/// Answers about the events of one bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AnswersRecord {
    /// The schema, `choir.answers.v1`.
    pub schema: AnswersSchema,
    /// The hash of the bundle.
    #[schema(pattern = r"^[0-9a-f]{64}$")]
    pub bundle_sha256: String,
    #[schema(min_items = 1, max_items = 500)]
    pub answers: Vec<EventAnswer>,
}

impl AnswersRecord {
    /// Returns `true` if a value claims to be a record of answers, so that one door can take both.
    pub fn is_claimed_by(value: &Value) -> bool {
        value["schema"] == AnswersSchema::V1.as_str()
    }

    /// Reads a record, or returns all faults.
    pub fn read(value: Value) -> Result<Self, Faults> {
        schema::read(value)
    }
}
