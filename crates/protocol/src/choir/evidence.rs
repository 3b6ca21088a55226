//! Evidence of a run: bundles of events, written by adapters, asserted or signed by callers, and read by the
//! engine.
//!
//! A bundle holds observations; the engine computes their effect. Unknown members are accepted.

use crate::faults::Faults;
use crate::schema;
use crate::words::words;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// The maximum number of events in a bundle.
pub const MAX_EVENTS: usize = 500;
/// The maximum number of warnings in a bundle.
pub const MAX_WARNINGS: usize = 100;
/// The maximum number of voices that a bundle may declare absent.
pub const MAX_ABSENT: usize = 64;
/// The longest detail of an event, in characters.
pub const MAX_DETAIL: usize = 500;
/// The longest name, id or reference, in characters.
pub const MAX_NAME: usize = 200;

words! {
    /// The schema of a bundle.
    pub enum BundleSchema {
        V1 = "choir.evidence.v1",
    }

    /// The type of an observation. The first eight types record events; the others record faults and come from
    /// callers and the engine.
    #[derive(Default)]
    pub enum EventType {
        /// A voice called a tool.
        ToolCall = "tool_call",
        /// A voice cited a source.
        EvidenceCited = "evidence_cited",
        Warning = "warning",
        Dissent = "dissent",
        /// A voice escalated to a higher authority.
        Escalation = "escalation",
        /// A voice handed work to another voice.
        Handoff = "handoff",
        /// A voice took part.
        #[default]
        VoiceEntry = "voice_entry",
        /// The ensemble produced its final output.
        FinalOutput = "final_output",
        /// A required voice stayed silent.
        MissedEntry = "missed_entry",
        /// A voice did something that its role does not allow.
        WrongNote = "wrong_note",
        /// A warning was ignored.
        IgnoredWarning = "ignored_warning",
        /// A dissent was withheld from the output.
        SuppressedDissent = "suppressed_dissent",
        /// A voice acted beyond its authority.
        AuthorityBreach = "authority_breach",
        /// A claim lacked the evidence it requires.
        UnsupportedClaim = "unsupported_claim",
        /// A required escalation did not happen.
        MissedEscalation = "missed_escalation",
        /// A handoff was not accepted.
        DroppedHandoff = "dropped_handoff",
    }

    /// The fate of a dissent or a warning.
    pub enum Disposition {
        /// It was heeded.
        Used = "used",
        /// It was noticed without effect.
        Ignored = "ignored",
        /// It was withheld.
        Suppressed = "suppressed",
    }

    /// The source of knowledge about an event.
    pub enum Basis {
        /// The writer of the bundle observed the event.
        Seen = "seen",
        /// A voice reported the event about itself. It can lower a score and never raise one.
        Declared = "declared",
    }
}

/// The program that converted a trace into a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Adapter {
    /// The adapter's id, such as `langgraph.stream.v1`.
    #[schema(min_length = 1, max_length = 200)]
    pub id: String,
    /// The adapter's version.
    #[schema(max_length = 200)]
    pub version: String,
}

/// A part of a trace that an adapter could not map, or that looked wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AdapterWarning {
    /// A stable code.
    #[schema(min_length = 1, max_length = 200)]
    pub code: String,
    /// A sentence for a person.
    #[schema(max_length = 1000)]
    pub message: String,
    /// The path in the trace; `null` if the warning concerns the whole trace.
    #[schema(max_length = 1000)]
    pub path: Option<String>,
}

/// The outcome of a scenario's expectation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = HeldExpectation)]
pub struct Held {
    /// The expectation's id.
    #[schema(min_length = 1, max_length = 200)]
    pub id: String,
    /// `true` if the expectation was met; `null` if unknown.
    pub held: Option<bool>,
}

/// An observation. Unknown members are `null`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = EvidenceEvent)]
pub struct Event {
    /// The type of observation.
    pub event_type: EventType,
    /// The voice that acted.
    #[schema(max_length = 200)]
    pub voice_name: Option<String>,
    /// The scenario; that of the bundle by default.
    #[schema(max_length = 200)]
    pub scenario_id: Option<String>,
    /// The id in the trace: of a call, an event or a source.
    #[serde(rename = "ref")]
    #[schema(max_length = 500)]
    pub reference: Option<String>,
    /// The tool or action.
    #[schema(max_length = 200)]
    pub action: Option<String>,
    /// A short explanation.
    #[schema(max_length = 500)]
    pub detail: Option<String>,
    /// The voice that the event concerns.
    #[schema(max_length = 200)]
    pub target_voice: Option<String>,
    /// For a warning, dissent or escalation: `true` if it reached the output.
    pub reached_output: Option<bool>,
    /// The fate of a dissent or a warning.
    pub disposition: Option<Disposition>,
    /// For a handoff: `true` if the other voice accepted it.
    pub acknowledged: Option<bool>,
    /// The index (from 0) of an event in this bundle that reports the same fact.
    #[schema(minimum = 0, maximum = 499)]
    pub refers_to: Option<i64>,
    /// The time of the event (RFC 3339).
    #[schema(max_length = 64)]
    pub occurred_at: Option<String>,
    /// The source of knowledge about the event.
    pub basis: Option<Basis>,
}

/// The observations of one run, or of a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ObservedEvidenceBundle)]
pub struct Bundle {
    /// The schema, `choir.evidence.v1`.
    pub schema: BundleSchema,
    /// The id of the run.
    #[schema(max_length = 200)]
    pub run_id: Option<String>,
    /// The adapter that wrote the bundle; `null` if a person did.
    pub adapter: Option<Adapter>,
    /// `true` if the bundle holds every event of the run. Only then does a voice's silence count.
    #[serde(default)]
    pub complete: bool,
    /// The scenario of events that name none.
    #[schema(max_length = 200)]
    pub scenario_id: Option<String>,
    /// The events, in chronological order.
    #[serde(default)]
    #[schema(max_items = 500)]
    pub events: Vec<Event>,
    /// The parts of the trace that the adapter could not map.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub adapter_warnings: Vec<AdapterWarning>,
    /// The outcomes of the scenario's expectations, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 32)]
    pub expectations: Option<Vec<Held>>,
    /// The voices that were left out on purpose. Their silence is excused only if the hub itself carried the
    /// run, because anybody can write this list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 64)]
    pub absent: Option<Vec<String>>,
    /// The voices that took part without an event that the bundle holds. Like a `voice_entry`, it says that they
    /// were not silent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 64)]
    pub present: Option<Vec<String>>,
    /// The hash of an earlier bundle that this one replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = r"^[0-9a-f]{64}$")]
    pub supersedes: Option<String>,
    /// The address at which the trace can be seen. `{ref}` stands for an event's `ref`, `{run_id}` for the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000, pattern = r"^https?://[^\s<>]+$")]
    pub trace_url: Option<String>,
}

impl Bundle {
    /// Creates an empty bundle.
    pub fn new(adapter: Option<Adapter>) -> Self {
        Self {
            schema: BundleSchema::V1,
            run_id: None,
            adapter,
            complete: false,
            scenario_id: None,
            events: vec![],
            adapter_warnings: vec![],
            expectations: None,
            absent: None,
            present: None,
            supersedes: None,
            trace_url: None,
        }
    }

    /// Reads a bundle, or returns all faults.
    pub fn read(value: Value) -> Result<Self, Faults> {
        let bundle: Self = schema::read(value)?;
        let mut faults = Faults::new();
        for (index, event) in bundle.events.iter().enumerate() {
            event.check(index, bundle.events.len(), &mut faults);
        }
        if faults.is_empty() { Ok(bundle) } else { Err(faults) }
    }
}

impl Event {
    /// Adds the faults that a schema cannot express: members that only some types have, and invalid
    /// references.
    fn check(&self, index: usize, count: usize, faults: &mut Faults) {
        use EventType::{Dissent, Escalation, Handoff, Warning};
        let mut only = |name: &str, said: bool, types: &[EventType]| {
            if said && !types.contains(&self.event_type) {
                let types: Vec<_> = types.iter().map(|word| word.as_str()).collect();
                let what = format!("only with event_type {}", types.join(", "));
                faults.add(&format!("events[{index}].{name}"), what);
            }
        };
        only("reached_output", self.reached_output.is_some(), &[Warning, Dissent, Escalation]);
        only("disposition", self.disposition.is_some(), &[Dissent, Warning]);
        only("acknowledged", self.acknowledged.is_some(), &[Handoff]);
        if let Some(target) = self.refers_to {
            let known = usize::try_from(target).is_ok_and(|target| target < count && target != index);
            if !known {
                faults.add(
                    &format!("events[{index}].refers_to"),
                    "must be the number of another event of this bundle, counted from 0",
                );
            }
        }
        if let Some(time) = &self.occurred_at
            && time.parse::<jiff::Timestamp>().is_err()
        {
            faults.add(&format!("events[{index}].occurred_at"), "must be a time in RFC 3339");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_bundle_needs_little_and_every_fault_is_named() {
        let bundle = Bundle::read(json!({
            "schema": "choir.evidence.v1",
            "events": [{"event_type": "warning", "voice_name": "Policy", "reached_output": false}],
        }))
        .unwrap();
        assert!(!bundle.complete);
        assert_eq!(bundle.events[0].reached_output, Some(false));

        let faults = Bundle::read(json!({
            "schema": "choir.evidence.v1",
            "events": [
                {"event_type": "tool_call", "reached_output": true, "refers_to": 0},
                {"event_type": "handoff", "disposition": "used", "refers_to": 7, "occurred_at": "noon"},
            ],
        }))
        .unwrap_err()
        .to_string();
        for fault in [
            "events[0].reached_output: only with event_type warning, dissent, escalation",
            "events[0].refers_to: must be the number of another event",
            "events[1].disposition: only with event_type dissent, warning",
            "events[1].refers_to",
            "events[1].occurred_at: must be a time in RFC 3339",
        ] {
            assert!(faults.contains(fault), "{faults}");
        }
        let faults = Bundle::read(json!({"events": [{"event_type": "harmony"}]})).unwrap_err().to_string();
        assert!(
            faults.contains("schema: is required") && faults.contains("events[0].event_type"),
            "{faults}"
        );
    }

    #[test]
    fn what_is_not_said_is_null() {
        let event = Event { event_type: EventType::ToolCall, ..Event::default() };
        let value = serde_json::to_value(&event).unwrap();
        assert_eq!(value.as_object().unwrap().len(), 13);
        assert!(value["ref"].is_null());
    }
}
