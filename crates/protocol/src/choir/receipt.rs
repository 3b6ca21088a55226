//! The receipt of a rehearsal: the declaration, the observations, the conclusions, and a hash over all of
//! them.
//!
//! The hash covers only `payload`, so nothing that differs between two issues of the same receipt, such as an
//! id or a time, may be in the payload. All numbers are integers.

mod section;

pub use section::*;

use super::score::{Scenario, Severity, Voice, Waiver};
use crate::words::words;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

words! {
    /// The measured dimensions, each from 0 to 100.
    pub enum Dimension {
        /// Voices keep to their roles.
        RoleDiscipline = "role_discipline",
        /// Required escalations happen.
        EscalationFidelity = "escalation_fidelity",
        /// Disagreement is preserved.
        DissonancePreservation = "dissonance_preservation",
        /// Handed-over work arrives.
        HandoffReliability = "handoff_reliability",
        /// Every expected situation has a voice to handle it.
        Coverage = "coverage",
    }

    /// The readiness of the ensemble, from best to worst.
    pub enum Verdict {
        /// No objection was found.
        Ready = "ready",
        /// Questions are open.
        Conditional = "conditional",
        /// The declaration is incomplete.
        Retune = "retune",
        /// Observations contradict the declaration.
        NotReady = "not_ready",
    }

    /// The level of the false-harmony risk.
    pub enum Band {
        /// A risk below 20.
        Low = "low",
        /// A risk from 20 to 39.
        Elevated = "elevated",
        /// A risk from 40 to 69.
        High = "high",
        /// A risk of 70 or more.
        Severe = "severe",
    }

    /// The kind of claim that a receipt makes.
    pub enum ReceiptLabel {
        /// No evidence was given. Receipts of engine 1.0 have the shorter words.
        #[serde(alias = "Draft Choir Receipt")]
        Draft = "Draft Choir Receipt (declared only)",
        /// The evidence is asserted by its owner.
        Observed = "Observed Choir Receipt",
        /// The evidence was signed, or the hub observed the run.
        Verified = "Verified Observed Choir Receipt",
    }

    /// The degree to which the origin of evidence is verified, from weakest to strongest.
    pub enum VerificationStatus {
        /// The owner asserts it.
        UserAsserted = "user_asserted",
        /// The holder of the Score's secret signed it.
        SignatureValid = "signature_valid",
        /// The hub carried the run.
        HubAttested = "hub_attested",
    }

    /// The outcome of one scenario.
    pub enum ScenarioOutcome {
        /// An observation of it cost points.
        Failed = "failed",
        /// A complete bundle shows it, and nothing about it is open.
        Passed = "passed",
        /// Something of it was seen, but not all, or a question is open.
        Warned = "warned",
        NotObserved = "not_observed",
    }

    /// The list of the Score that a tool call broke.
    pub enum BrokenList {
        /// The action is exclusive to another voice.
        Exclusive = "exclusive_actions",
        /// The action is forbidden to the voice.
        Forbidden = "forbidden_actions",
        /// The action is forbidden in the scenario.
        Scenario = "scenario.forbidden_actions",
        /// The voice's list of allowed actions does not have the action.
        Allowed = "allowed_actions",
    }
}

/// The values of the five dimensions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Dimensions {
    /// Voices keep to their roles: 0 to 100.
    pub role_discipline: i64,
    /// Required escalations happen: 0 to 100.
    pub escalation_fidelity: i64,
    /// Disagreement is preserved: 0 to 100.
    pub dissonance_preservation: i64,
    /// Handed-over work arrives: 0 to 100.
    pub handoff_reliability: i64,
    /// Every expected situation has a voice to handle it: 0 to 100.
    pub coverage: i64,
}

impl Dimensions {
    /// Returns the value of one dimension.
    pub fn get(&self, dimension: Dimension) -> i64 {
        match dimension {
            Dimension::RoleDiscipline => self.role_discipline,
            Dimension::EscalationFidelity => self.escalation_fidelity,
            Dimension::DissonancePreservation => self.dissonance_preservation,
            Dimension::HandoffReliability => self.handoff_reliability,
            Dimension::Coverage => self.coverage,
        }
    }

    /// Builds the values with a function of the dimension.
    pub fn each(mut value: impl FnMut(Dimension) -> i64) -> Self {
        Self {
            role_discipline: value(Dimension::RoleDiscipline),
            escalation_fidelity: value(Dimension::EscalationFidelity),
            dissonance_preservation: value(Dimension::DissonancePreservation),
            handoff_reliability: value(Dimension::HandoffReliability),
            coverage: value(Dimension::Coverage),
        }
    }

    /// Returns the lowest value.
    pub fn lowest(&self) -> i64 {
        Dimension::ALL.iter().map(|dimension| self.get(*dimension)).min().unwrap_or_default()
    }
}

/// A weakness of the design.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = StructuralFinding)]
pub struct Finding {
    /// The rule that found it.
    pub rule_id: String,
    /// The dimension it lowers.
    pub dimension: Dimension,
    /// The points it costs.
    pub points: i64,
    /// The voices or scenarios it is about.
    pub subjects: Vec<String>,
    /// The highest severity of the rule.
    pub severity: Severity,
    /// The finding in words.
    pub message: String,
    /// The advice.
    pub retune: String,
}

/// The effect of an observation on a dimension.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adjustment {
    /// The rule that applies.
    pub rule_id: String,
    /// The dimension that changes.
    pub dimension: Dimension,
    /// The change in points.
    pub delta: i64,
    /// The reason in words.
    pub reason: String,
    /// The indexes of the events that cause it.
    pub source_event_indices: Vec<usize>,
}

/// A contradiction between declaration and observation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// The kind of contradiction.
    pub id: String,
    /// The declaration in the Score.
    pub declared: String,
    /// The observed behaviour.
    pub observed: String,
    /// The indexes of the events that show it.
    pub source_event_indices: Vec<usize>,
    /// The advice.
    pub retune: String,
    /// For a breach of authority: the action; `null` if the breach was asserted without one.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub action: Option<Option<String>>,
    /// For a breach of authority: the list that it broke; `null` if the breach was asserted.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub broke: Option<Option<BrokenList>>,
}

/// Reads a member that may be absent or `null`, which differ in the canonical form.
#[expect(clippy::option_option, reason = "absent and null differ in the canonical form")]
fn present<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// The outcome of a scenario of the Score.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScenarioResult {
    pub scenario_id: String,
    pub result: ScenarioOutcome,
}

/// A remark that changes no number: a dominant voice, a gap or an open question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// A stable code.
    pub kind: String,
    /// The voice it is about, if any.
    pub voice: Option<String>,
    /// The scenario it is about, if any.
    pub scenario_id: Option<String>,
    /// The remark in words.
    pub text: String,
    /// The indexes of the events that it rests on.
    pub source_event_indices: Vec<usize>,
}

/// A copy of the Score without its owner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScoreSnapshot {
    /// The title.
    pub title: String,
    /// The version number.
    pub version: i64,
    /// The voices.
    pub voices: Vec<Voice>,
    /// The pairs of voices with conflicting mandates.
    pub conflicting_mandates: Vec<Vec<String>>,
    /// The rule that settles conflicts.
    pub arbitration: Option<String>,
    /// The findings that the owner accepts for a time. They change no number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waivers: Vec<Waiver>,
}

/// A copy of a scenario. The parts for live rehearsals are given by their hashes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScenarioSnapshot {
    /// The scenario.
    #[serde(flatten)]
    pub scenario: Scenario,
    /// The hash of the setup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage_sha256: Option<String>,
    /// The hash of the expectations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expects_sha256: Option<String>,
}

/// The conclusions from the Score alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Structure {
    /// The dimensions without observations.
    pub base_dimensions: Dimensions,
    /// The weaknesses of the design.
    pub findings: Vec<Finding>,
}

/// The contribution of one voice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoiceReport {
    /// The voice's name.
    pub name: String,
    /// The number of scenarios in which the voice is required.
    pub expected_entries: i64,
    /// The number of the voice's own events.
    pub observed_entries: i64,
    /// Its share of all voices' events, in percent.
    pub share_percent: i64,
    /// The rules with findings about it.
    pub findings: Vec<String>,
    /// The scenarios in which it was not heard.
    pub missed_entries: Vec<String>,
    /// The voices that masked it.
    pub masked_by: Vec<String>,
}

/// The number of times that one voice disagreed with another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// The voice that disagreed.
    pub from: String,
    /// The voice it disagreed with.
    pub to: String,
    /// The number of dissents.
    pub count: i64,
}

/// A final voice whose output follows an unheeded signal of another voice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Masking {
    /// The final voice.
    pub final_voice: String,
    /// The voice that was not heard.
    pub voice: String,
    /// The indexes of the signal and of the output.
    pub source_event_indices: Vec<usize>,
}

/// The fate of disagreement, as indexes of events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dissonance {
    /// Dissents that were heeded.
    pub used: Vec<usize>,
    /// Dissents that were noticed without effect.
    pub ignored: Vec<usize>,
    /// Dissents that were withheld.
    pub suppressed: Vec<usize>,
    /// Dissents of unknown fate.
    pub not_attested: Vec<usize>,
    /// The dissents between pairs of voices.
    pub pairwise: Vec<Pair>,
    /// The voices that masked others.
    pub masking: Vec<Masking>,
    /// The share, in percent, of signals of known fate that did not reach the output.
    pub internal_external_gap_percent: Option<i64>,
}

/// A contribution to the false-harmony risk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RiskTerm {
    /// A stable code.
    pub kind: String,
    /// The points it adds.
    pub points: i64,
    /// The indexes of the events that cause it.
    pub source_event_indices: Vec<usize>,
}

/// The risk that a smooth output conceals faults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FalseHarmony {
    /// The risk from 0 to 100.
    pub risk: i64,
    /// The level of the risk.
    pub band: Band,
    /// The part that follows from the dimensions.
    pub base: i64,
    /// The part that follows from concealed signals.
    pub concealed: i64,
    /// The terms of the concealed part.
    pub terms: Vec<RiskTerm>,
}

/// A piece of advice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retune {
    /// The rule that gives it.
    pub rule_id: String,
    /// The advice in words.
    pub text: String,
    /// The indexes of the events that it rests on.
    pub source_event_indices: Vec<usize>,
}

/// The hashed part of a receipt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Payload {
    /// The version of the protocol.
    pub protocol_version: String,
    /// The version of the engine.
    pub engine_version: String,
    /// The digest of the rules.
    pub rules_digest: String,
    /// The kind of claim.
    pub label: ReceiptLabel,
    /// The declared Score.
    pub score: ScoreSnapshot,
    /// The declared scenarios.
    pub scenarios: Vec<ScenarioSnapshot>,
    /// The conclusions from the Score alone.
    pub structural: Structure,
    /// The evidence; `null` in a draft.
    pub evidence: Option<EvidenceSection>,
    /// The evidence of this version of the Score that the receipt does not rest on. Receipts of engine 1.0 say
    /// nothing of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
    /// The outcome of each scenario, in the order of the Score. Empty in receipts of engine 1.0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ScenarioResult>,
    /// The contribution of each voice.
    pub voices: Vec<VoiceReport>,
    /// The fate of disagreement.
    pub dissonance: Dissonance,
    /// The effects of the observations.
    pub adjustments: Vec<Adjustment>,
    /// The resulting dimensions.
    pub dimensions: Dimensions,
    /// The contradictions between Score and observations.
    pub mismatches: Vec<Mismatch>,
    /// The voices that dominate.
    pub dominant_voice_warnings: Vec<Note>,
    /// The situations that no voice handled or that were not observed.
    pub coverage_gaps: Vec<Note>,
    /// The questions to the owner.
    pub open_items: Vec<Note>,
    /// The false-harmony risk.
    pub false_harmony: FalseHarmony,
    /// The verdict.
    pub verdict: Verdict,
    /// The reasons for the verdict.
    pub verdict_reasons: Vec<String>,
    /// The advice.
    pub retune: Vec<Retune>,
    /// A statement of what a receipt does not prove.
    pub disclaimer: String,
}

/// A receipt. Only `payload` is hashed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ChoirReceipt)]
pub struct Receipt {
    /// The id for verification; `null` if the receipt was not issued.
    pub receipt_id: Option<String>,
    /// The time of issue.
    pub generated_at: Option<String>,
    /// The SHA-256 hash of the canonical form of `payload`.
    pub payload_hash: String,
    /// The hashed part.
    #[schema(value_type = Object)]
    pub payload: Value,
    /// The position in the transparency log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub log: Option<Value>,
    /// The signed attestation in in-toto form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub attestation: Option<Value>,
}
