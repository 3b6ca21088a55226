//! Evidence of a run: a bundle of events, as adapters write it, callers assert or sign it, and the engine reads it.
//!
//! A bundle is what was said, not what it costs: that is the engine's. Members that are not known here are no fault.

use crate::faults::Faults;
use crate::schema;
use crate::words::words;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Events of one bundle.
pub const MAX_EVENTS: usize = 500;
/// Warnings of one bundle.
pub const MAX_WARNINGS: usize = 100;
/// Voices that one bundle may name whose silence means nothing.
pub const MAX_ABSENT: usize = 64;
/// Characters of an event's detail.
pub const MAX_DETAIL: usize = 500;
/// Characters of names, ids and references.
pub const MAX_NAME: usize = 200;

words! {
    /// What a bundle is written in.
    pub enum BundleSchema {
        /// The only one there is.
        V1 = "choir.evidence.v1",
    }

    /// What was observed. The first eight say what happened, the others what was wrong: those are for callers and the engine.
    #[derive(Default)]
    pub enum EventType {
        /// A tool was called.
        ToolCall = "tool_call",
        /// A source was named.
        EvidenceCited = "evidence_cited",
        /// A voice warned.
        Warning = "warning",
        /// A voice disagreed.
        Dissent = "dissent",
        /// A voice asked somebody above it.
        Escalation = "escalation",
        /// A voice gave work to another.
        Handoff = "handoff",
        /// A voice took part.
        #[default]
        VoiceEntry = "voice_entry",
        /// What the ensemble said in the end.
        FinalOutput = "final_output",
        /// A voice that was required stayed silent.
        MissedEntry = "missed_entry",
        /// A voice did what its role does not allow.
        WrongNote = "wrong_note",
        /// A warning that nobody heeded.
        IgnoredWarning = "ignored_warning",
        /// A dissent that was kept from the output.
        SuppressedDissent = "suppressed_dissent",
        /// A voice acted beyond its authority.
        AuthorityBreach = "authority_breach",
        /// A claim without the evidence it needs.
        UnsupportedClaim = "unsupported_claim",
        /// An escalation that did not come.
        MissedEscalation = "missed_escalation",
        /// A handoff that nobody took.
        DroppedHandoff = "dropped_handoff",
    }

    /// What became of a dissent or a warning.
    pub enum Disposition {
        /// It was heeded.
        Used = "used",
        /// It was heard, and nothing followed.
        Ignored = "ignored",
        /// It was kept from being heard.
        Suppressed = "suppressed",
    }

    /// How an event is known.
    pub enum Basis {
        /// Whoever wrote the bundle saw it.
        Seen = "seen",
        /// A voice said so of itself: it can cost, never earn.
        Declared = "declared",
    }
}

/// Which program made a bundle of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Adapter {
    /// Such as `langgraph.stream.v1`.
    #[schema(min_length = 1, max_length = 200)]
    pub id: String,
    /// Its version.
    #[schema(max_length = 200)]
    pub version: String,
}

/// What an adapter could not map, or what was odd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AdapterWarning {
    /// A stable word.
    #[schema(min_length = 1, max_length = 200)]
    pub code: String,
    /// A sentence for a person.
    #[schema(max_length = 1000)]
    pub message: String,
    /// Where in the trace; `null` if nowhere in particular.
    #[schema(max_length = 1000)]
    pub path: Option<String>,
}

/// Whether something that a scenario expects was so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = HeldExpectation)]
pub struct Held {
    /// The expectation.
    #[schema(min_length = 1, max_length = 200)]
    pub id: String,
    /// `null`: not known.
    pub held: Option<bool>,
}

/// One thing that was observed. What is not said is `null`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = EvidenceEvent)]
pub struct Event {
    /// What.
    pub event_type: EventType,
    /// Whose.
    #[schema(max_length = 200)]
    pub voice_name: Option<String>,
    /// In which scenario; the bundle's, unless said.
    #[schema(max_length = 200)]
    pub scenario_id: Option<String>,
    /// What the trace calls it: a call's id, an event's, a source's.
    #[serde(rename = "ref")]
    #[schema(max_length = 500)]
    pub reference: Option<String>,
    /// The tool or action.
    #[schema(max_length = 200)]
    pub action: Option<String>,
    /// A short explanation.
    #[schema(max_length = 500)]
    pub detail: Option<String>,
    /// Whom it concerns.
    #[schema(max_length = 200)]
    pub target_voice: Option<String>,
    /// Of a warning, dissent or escalation: whether it reached the output.
    pub reached_output: Option<bool>,
    /// Of a dissent or warning: what became of it.
    pub disposition: Option<Disposition>,
    /// Of a handoff: whether the other took it.
    pub acknowledged: Option<bool>,
    /// The event of this bundle, counted from 0, that tells the same fact.
    #[schema(minimum = 0, maximum = 499)]
    pub refers_to: Option<i64>,
    /// When, in RFC 3339.
    #[schema(max_length = 64)]
    pub occurred_at: Option<String>,
    /// How it is known.
    pub basis: Option<Basis>,
}

/// What was observed of one run, or of a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ObservedEvidenceBundle)]
pub struct Bundle {
    /// `choir.evidence.v1`.
    pub schema: BundleSchema,
    /// The run.
    #[schema(max_length = 200)]
    pub run_id: Option<String>,
    /// What made the bundle; `null` if a person did.
    pub adapter: Option<Adapter>,
    /// Whether everything that happened is in it: only then does silence mean something.
    #[serde(default)]
    pub complete: bool,
    /// The scenario that was run, where events name none.
    #[schema(max_length = 200)]
    pub scenario_id: Option<String>,
    /// In the order in which they happened.
    #[serde(default)]
    #[schema(max_items = 500)]
    pub events: Vec<Event>,
    /// What the adapter could not map.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub adapter_warnings: Vec<AdapterWarning>,
    /// What became of the scenario's expectations, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 32)]
    pub expectations: Option<Vec<Held>>,
    /// Voices whose silence means nothing: kept away on purpose, or seen in a trace that holds no event of theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 64)]
    pub absent: Option<Vec<String>>,
}

impl Bundle {
    /// An empty bundle of this adapter.
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
        }
    }

    /// Reads a bundle, or says everything that is wrong with it.
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
    /// Notes what a schema cannot say: members that only some events have, and what they point to.
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
