//! The evidence of a receipt: the bundles that it rests on, their events, and the evidence that it leaves out.

use super::VerificationStatus;
use crate::choir::evidence::{Adapter, AdapterWarning, Event};
use crate::words::words;
use serde::{Deserialize, Serialize};
use serde_json::Value;

words! {
    /// The reason why a receipt does not rest on a bundle.
    pub enum LeftOutReason {
        /// The owner chose other evidence.
        NotChosen = "not_chosen",
        /// Evidence of a stronger class was taken.
        WeakerClass = "weaker_class",
        /// A later bundle replaces it.
        Superseded = "superseded",
    }
}

/// An event as counted by the engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedEvent {
    /// The observation, with names as the Score spells them.
    #[serde(flatten)]
    pub event: Event,
    /// The index of its bundle. Receipts of engine 1.0 do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<usize>,
    /// `true` if a part of it was filled in by an answer.
    #[serde(default, skip_serializing_if = "is_false")]
    pub answered: bool,
    /// `true` if the engine derived the event from others.
    pub derived: bool,
    /// The rule that derived it.
    pub rule: Option<String>,
    /// The indexes of the events it was derived from.
    pub source_event_indices: Vec<usize>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// A reference to a bundle of evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleReference {
    /// The hash of its canonical form, as received.
    pub bundle_sha256: String,
    /// The adapter that wrote it.
    pub adapter: Option<Adapter>,
    /// The id of the run.
    pub run_id: Option<String>,
    /// `true` if the bundle holds every event of the run.
    pub complete: bool,
    /// The scenario of events that name none.
    #[serde(default)]
    pub scenario_id: Option<String>,
    /// The voices that the bundle calls absent. They count as absent only if the hub carried the run.
    #[serde(default)]
    pub absent: Vec<String>,
    /// The voices that took part without an event.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub present: Vec<String>,
    /// The hash of the bundle that it replaces.
    #[serde(default)]
    pub supersedes: Option<String>,
    /// The address of the trace, with `{ref}` and `{run_id}` for the parts that differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_url: Option<String>,
}

/// A warning about a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleWarning {
    #[serde(flatten)]
    pub warning: AdapterWarning,
    /// The index of the bundle. Receipts of engine 1.0 do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<usize>,
}

/// A reference to a record of answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswersReference {
    /// The hash of the record's canonical form, as received.
    pub answers_sha256: String,
    /// The bundle whose questions it answers.
    pub bundle_sha256: String,
    /// The indexes of the events that it filled in.
    pub events: Vec<usize>,
}

/// The outcome of an expectation of a scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectationReport {
    pub scenario_id: String,
    pub id: String,
    /// The expectation in words, as the Score has it.
    pub title: Option<String>,
    /// `true` if the expectation was met; `null` if unknown.
    pub held: Option<bool>,
}

/// The evidence of a receipt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvidenceSection {
    /// The degree to which its origin is verified.
    pub verification_status: VerificationStatus,
    /// The bundles, ordered by hash.
    pub bundles: Vec<BundleReference>,
    /// The hashes of the bundles that these replace.
    #[serde(default)]
    pub superseded: Vec<String>,
    /// The records that answered open items.
    #[serde(default)]
    pub answers: Vec<AnswersReference>,
    /// The events. Other members refer to them by index.
    pub events: Vec<CountedEvent>,
    /// The outcomes of expectations.
    #[serde(default)]
    pub expectations: Vec<ExpectationReport>,
    /// The parts of traces that could not be mapped.
    pub adapter_warnings: Vec<BundleWarning>,
    /// A statement of what the evidence proves and what it does not.
    pub statement: String,
    /// The hub's record, if the hub carried the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub: Option<Value>,
}

/// A bundle that a receipt does not rest on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOutBundle {
    pub bundle_sha256: String,
    pub verification_status: VerificationStatus,
    pub why: LeftOutReason,
}

/// The evidence of a version of a Score that a receipt does not rest on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The number of bundles.
    pub count: usize,
    /// The first of them, ordered by hash; at most 20.
    pub bundles: Vec<LeftOutBundle>,
    /// The number of live rehearsals of this version that were begun.
    pub rehearsals: i64,
}
