//! The receipt of a rehearsal: what was declared, what was observed, what follows, and the hash over all of it.
//!
//! The hash covers `payload` and nothing else, so nothing that differs between two issues of the same (an id, a time) may
//! be in there. All numbers are integers.

use super::evidence::{Adapter, AdapterWarning, Event};
use super::score::{Scenario, Severity, Voice};
use crate::words::words;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

words! {
    /// What is measured, each from 0 to 100.
    pub enum Dimension {
        /// Voices keep to their parts.
        RoleDiscipline = "role_discipline",
        /// What must be asked is asked.
        EscalationFidelity = "escalation_fidelity",
        /// Disagreement is kept, not smoothed over.
        DissonancePreservation = "dissonance_preservation",
        /// Work arrives where it is sent.
        HandoffReliability = "handoff_reliability",
        /// What can happen has somebody to handle it.
        Coverage = "coverage",
    }

    /// Whether the ensemble is ready. From best to worst.
    pub enum Verdict {
        /// Nothing stands against it.
        Ready = "ready",
        /// With open questions.
        Conditional = "conditional",
        /// It is incomplete.
        Retune = "retune",
        /// What was declared was contradicted.
        NotReady = "not_ready",
    }

    /// How large the risk of false harmony is.
    pub enum Band {
        /// Below 20.
        Low = "low",
        /// Below 40.
        Elevated = "elevated",
        /// Below 70.
        High = "high",
        /// From 70.
        Severe = "severe",
    }

    /// What a receipt claims to be.
    pub enum ReceiptLabel {
        /// Nothing was observed.
        Draft = "Draft Choir Receipt",
        /// Somebody says what was observed.
        Observed = "Observed Choir Receipt",
        /// What was observed was signed, or the hub saw it.
        Verified = "Verified Observed Choir Receipt",
    }

    /// What is known of where evidence comes from. From weakest to strongest.
    pub enum VerificationStatus {
        /// Its owner says so.
        UserAsserted = "user_asserted",
        /// Whoever holds the Score's secret signed it.
        SignatureValid = "signature_valid",
        /// The hub carried the run.
        HubAttested = "hub_attested",
    }
}

/// The five numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Dimensions {
    /// Voices keep to their parts.
    pub role_discipline: i64,
    /// What must be asked is asked.
    pub escalation_fidelity: i64,
    /// Disagreement is kept.
    pub dissonance_preservation: i64,
    /// Work arrives.
    pub handoff_reliability: i64,
    /// What can happen has somebody to handle it.
    pub coverage: i64,
}

impl Dimensions {
    /// One of them.
    pub fn get(&self, dimension: Dimension) -> i64 {
        match dimension {
            Dimension::RoleDiscipline => self.role_discipline,
            Dimension::EscalationFidelity => self.escalation_fidelity,
            Dimension::DissonancePreservation => self.dissonance_preservation,
            Dimension::HandoffReliability => self.handoff_reliability,
            Dimension::Coverage => self.coverage,
        }
    }

    /// Each made by a function of its name.
    pub fn each(mut value: impl FnMut(Dimension) -> i64) -> Self {
        Self {
            role_discipline: value(Dimension::RoleDiscipline),
            escalation_fidelity: value(Dimension::EscalationFidelity),
            dissonance_preservation: value(Dimension::DissonancePreservation),
            handoff_reliability: value(Dimension::HandoffReliability),
            coverage: value(Dimension::Coverage),
        }
    }

    /// The worst of them.
    pub fn lowest(&self) -> i64 {
        Dimension::ALL.iter().map(|dimension| self.get(*dimension)).min().unwrap_or_default()
    }
}

/// What is fragile by design.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = StructuralFinding)]
pub struct Finding {
    /// By which rule.
    pub rule_id: String,
    /// What it weighs on.
    pub dimension: Dimension,
    /// What it costs.
    pub points: i64,
    /// Whom or what it is about.
    pub subjects: Vec<String>,
    /// How bad the rule is at its worst.
    pub severity: Severity,
    /// In words.
    pub message: String,
    /// What to do about it.
    pub retune: String,
}

/// What an observation changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adjustment {
    /// By which rule.
    pub rule_id: String,
    /// What it changes.
    pub dimension: Dimension,
    /// By how much.
    pub delta: i64,
    /// In words.
    pub reason: String,
    /// Because of which events.
    pub source_event_indices: Vec<usize>,
}

/// What was declared and what was observed contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// Which kind.
    pub id: String,
    /// What the Score says.
    pub declared: String,
    /// What happened.
    pub observed: String,
    /// Because of which events.
    pub source_event_indices: Vec<usize>,
    /// What to do about it.
    pub retune: String,
}

/// Something worth knowing that moves no number: a dominant voice, a gap, an open question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// A stable word.
    pub kind: String,
    /// The voice, if it is about one.
    pub voice: Option<String>,
    /// The scenario, if it is about one.
    pub scenario_id: Option<String>,
    /// In words.
    pub text: String,
    /// Because of which events.
    pub source_event_indices: Vec<usize>,
}

/// An event as it was counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedEvent {
    /// As it was observed, names as the Score spells them.
    #[serde(flatten)]
    pub event: Event,
    /// The engine concluded it.
    pub derived: bool,
    /// By which rule.
    pub rule: Option<String>,
    /// From which events.
    pub source_event_indices: Vec<usize>,
}

/// Which bundle evidence came in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleReference {
    /// The hash of its canonical form, as received.
    pub bundle_sha256: String,
    /// What made it.
    pub adapter: Option<Adapter>,
    /// Of which run.
    pub run_id: Option<String>,
    /// Whether silence means something.
    pub complete: bool,
}

/// What was observed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvidenceSection {
    /// What is known of where it comes from.
    pub verification_status: VerificationStatus,
    /// In order of their hashes.
    pub bundles: Vec<BundleReference>,
    /// Each has its place as its number.
    pub events: Vec<CountedEvent>,
    /// What could not be mapped.
    pub adapter_warnings: Vec<AdapterWarning>,
    /// What this proves, and what not.
    pub statement: String,
    /// Of a run that the hub carried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub: Option<Value>,
}

/// The Score as it was, without who owns it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScoreSnapshot {
    /// What people call it.
    pub title: String,
    /// Which version.
    pub version: i64,
    /// Its parts.
    pub voices: Vec<Voice>,
    /// Who pulls in different directions.
    pub conflicting_mandates: Vec<Vec<String>>,
    /// How that is settled.
    pub arbitration: Option<String>,
}

/// A scenario as it was; what a live rehearsal needs of it only by its hash.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScenarioSnapshot {
    /// The scenario.
    #[serde(flatten)]
    pub scenario: Scenario,
    /// How it was set up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage_sha256: Option<String>,
    /// What was checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expects_sha256: Option<String>,
}

/// What follows from the Score alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Structure {
    /// Before anything was observed.
    pub base_dimensions: Dimensions,
    /// What is fragile by design.
    pub findings: Vec<Finding>,
}

/// What one voice contributed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoiceReport {
    /// Which.
    pub name: String,
    /// In how many scenarios it must enter.
    pub expected_entries: i64,
    /// How many events are its own.
    pub observed_entries: i64,
    /// Of all voices' events.
    pub share_percent: i64,
    /// Rules that concern it.
    pub findings: Vec<String>,
    /// Scenarios where it was not heard.
    pub missed_entries: Vec<String>,
    /// Voices that spoke over it.
    pub masked_by: Vec<String>,
}

/// How often one voice disagreed with another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// Who.
    pub from: String,
    /// With whom.
    pub to: String,
    /// How often.
    pub count: i64,
}

/// A final voice whose output follows what another said in vain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Masking {
    /// Who spoke in the end.
    pub final_voice: String,
    /// Who was not heard.
    pub voice: String,
    /// What was said, and the output.
    pub source_event_indices: Vec<usize>,
}

/// What became of disagreement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dissonance {
    /// Heeded.
    pub used: Vec<usize>,
    /// Heard, and nothing followed.
    pub ignored: Vec<usize>,
    /// Kept from being heard.
    pub suppressed: Vec<usize>,
    /// Nobody says.
    pub not_attested: Vec<usize>,
    /// Who disagreed with whom.
    pub pairwise: Vec<Pair>,
    /// Who spoke over whom.
    pub masking: Vec<Masking>,
    /// Of signals whose fate is known, those that nobody outside saw.
    pub internal_external_gap_percent: Option<i64>,
}

/// What adds to the risk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RiskTerm {
    /// A stable word.
    pub kind: String,
    /// How much.
    pub points: i64,
    /// Because of which events.
    pub source_event_indices: Vec<usize>,
}

/// The risk that a smooth output conceals what went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FalseHarmony {
    /// From 0 to 100.
    pub risk: i64,
    /// In a word.
    pub band: Band,
    /// What the dimensions give.
    pub base: i64,
    /// What was concealed.
    pub concealed: i64,
    /// What that is made of.
    pub terms: Vec<RiskTerm>,
}

/// Advice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retune {
    /// Because of which rule.
    pub rule_id: String,
    /// What to do.
    pub text: String,
    /// Because of which events.
    pub source_event_indices: Vec<usize>,
}

/// What is hashed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Payload {
    /// Of the protocol.
    pub protocol_version: String,
    /// Of the engine.
    pub engine_version: String,
    /// Of the rules it went by.
    pub rules_digest: String,
    /// What it claims to be.
    pub label: ReceiptLabel,
    /// What was declared.
    pub score: ScoreSnapshot,
    /// For which situations.
    pub scenarios: Vec<ScenarioSnapshot>,
    /// What follows from that alone.
    pub structural: Structure,
    /// What was observed; `null` in a draft.
    pub evidence: Option<EvidenceSection>,
    /// What each voice contributed.
    pub voices: Vec<VoiceReport>,
    /// What became of disagreement.
    pub dissonance: Dissonance,
    /// What observation changed.
    pub adjustments: Vec<Adjustment>,
    /// The outcome.
    pub dimensions: Dimensions,
    /// What contradicts the Score.
    pub mismatches: Vec<Mismatch>,
    /// Voices that spoke most.
    pub dominant_voice_warnings: Vec<Note>,
    /// What nobody handles or nobody saw.
    pub coverage_gaps: Vec<Note>,
    /// What its owner should answer.
    pub open_items: Vec<Note>,
    /// Whether it sounds better than it is.
    pub false_harmony: FalseHarmony,
    /// The answer.
    pub verdict: Verdict,
    /// Why.
    pub verdict_reasons: Vec<String>,
    /// What to do.
    pub retune: Vec<Retune>,
    /// What a receipt does not prove.
    pub disclaimer: String,
}

/// A receipt as it is passed on. Only `payload` is hashed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ChoirReceipt)]
pub struct Receipt {
    /// Where it can be verified; `null` if nobody issued it.
    pub receipt_id: Option<String>,
    /// When it was issued.
    pub generated_at: Option<String>,
    /// SHA-256 of the canonical form of `payload`.
    pub payload_hash: String,
    /// What was found.
    #[schema(value_type = Object)]
    pub payload: Value,
    /// Its place in the transparency log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub log: Option<Value>,
    /// Signed, in the form of in-toto.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub attestation: Option<Value>,
}
