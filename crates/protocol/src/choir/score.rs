//! Scores: declared ensembles with their voices, authorities and scenarios.
//!
//! Only a meaningless Score is invalid (no voice, two voices of one name, an unknown word). Missing parts and
//! dangling references are left to the engine, which finds and weighs them.

use crate::schema;
use crate::words::words;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

words! {
    /// The version of the protocol.
    #[derive(Default)]
    pub enum ProtocolVersion {
        #[default]
        V01 = "0.1",
    }

    /// The severity of a failure.
    pub enum Severity {
        /// A failure is a nuisance.
        Low = "low",
        /// A failure has a cost.
        Medium = "medium",
        /// A failure must not happen.
        High = "high",
        /// A failure must never happen.
        Critical = "critical",
    }

    /// The evidence that a voice owes for its claims.
    pub enum EvidenceRequirement {
        /// Every claim in its final output needs evidence.
        Required = "required",
        /// It cites sources if it has any.
        Cite = "cite",
        /// It owes none.
        None = "none",
    }
}

impl Severity {
    /// Returns `true` for `high` and `critical`.
    pub fn is_high(self) -> bool {
        matches!(self, Self::High | Self::Critical)
    }
}

/// A name of a voice, a scenario or an action.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "one line of 1 to 200 characters with something in it",
    min_length = 1,
    max_length = 200,
    pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
)]
pub struct Label(pub String);

impl std::ops::Deref for Label {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// The authority of a voice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Authority {
    /// The limits in words.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub limits: Vec<Label>,
    /// The allowed tools and actions. If the list is not empty, all others are forbidden.
    #[serde(default)]
    #[schema(max_items = 200)]
    pub allowed_actions: Vec<Label>,
    /// The forbidden actions.
    #[serde(default)]
    #[schema(max_items = 200)]
    pub forbidden_actions: Vec<Label>,
    /// The actions that only this voice may do.
    #[serde(default)]
    #[schema(max_items = 200)]
    pub exclusive_actions: Vec<Label>,
}

/// A condition for escalating.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EscalationTrigger {
    /// The id that scenarios refer to.
    pub id: Label,
    /// The condition in words.
    #[serde(default)]
    #[schema(max_length = 2000)]
    pub condition: String,
    /// The target: a voice, or `human:` and a desk.
    #[serde(default)]
    #[schema(max_length = 200)]
    pub to: String,
}

/// A handover of work to another voice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = DeclaredHandoff)]
pub struct Handoff {
    /// The receiving voice.
    pub to: Label,
    /// The items that must come with the work.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub carries: Vec<Label>,
    /// `true` if the receiving voice acknowledges it.
    #[serde(default)]
    pub acknowledged: bool,
}

/// A voice of the ensemble.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Voice {
    /// The name, unique without regard to case.
    pub name: Label,
    /// The purpose.
    #[serde(default)]
    #[schema(max_length = 2000)]
    pub role: String,
    /// `true` if the voice leads. A leading voice may dominate.
    #[serde(default)]
    pub conductor: bool,
    /// `true` if work enters the ensemble at this voice.
    #[serde(default)]
    pub entry: bool,
    /// `true` if its output is the output of the ensemble.
    #[serde(default)]
    pub final_voice: bool,
    /// The voice that reviews its output.
    #[schema(max_length = 200)]
    pub reviewed_by: Option<String>,
    /// The authority; `null` if not declared.
    pub authority: Option<Authority>,
    /// The conditions for escalating.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub escalation_triggers: Vec<EscalationTrigger>,
    /// The evidence it owes; `null` if not declared.
    pub evidence_requirement: Option<EvidenceRequirement>,
    /// `true` if it may disagree.
    #[serde(default)]
    pub may_dissent: bool,
    /// `true` if its dissent must be visible in the output.
    #[serde(default)]
    pub dissent_must_reach_output: bool,
    /// `true` if it may proceed against a dissent.
    #[serde(default)]
    pub may_override_dissent: bool,
    /// `true` if such a decision is recorded.
    #[serde(default)]
    pub override_recorded: bool,
    /// The handovers to other voices.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub handoffs: Vec<Handoff>,
    /// The names that traces use for it.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub aliases: Vec<Label>,
}

/// A situation that the ensemble must handle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Scenario {
    /// The id that evidence refers to.
    pub id: Label,
    /// The title.
    #[serde(default)]
    #[schema(max_length = 200)]
    pub title: String,
    /// The severity of a failure.
    pub severity: Severity,
    /// The request to the ensemble.
    #[serde(default)]
    #[schema(max_length = 10_000)]
    pub prompt: String,
    /// The voices that must take part.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub required_voices: Vec<Label>,
    /// The ids of the escalation triggers that must fire.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub expected_escalations: Vec<Label>,
    /// The voices that must give evidence.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub expected_evidence: Vec<Label>,
    /// The actions that are forbidden in this scenario.
    #[serde(default)]
    #[schema(max_items = 200)]
    pub forbidden_actions: Vec<Label>,
    /// The setup of a live rehearsal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub stage: Option<Value>,
    /// The expectations of a live rehearsal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>, max_items = 32)]
    pub expects: Option<Vec<Value>>,
}

/// A finding that the owner accepts for a time. It changes no number and no verdict; it is shown beside the
/// finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ScoreWaiver)]
pub struct Waiver {
    /// The rule, such as `O-HND-001` or `M-WARN`.
    pub rule_id: Label,
    /// The scenario; every scenario if `null`.
    #[schema(max_length = 200)]
    pub scenario_id: Option<String>,
    /// The voice; every voice if `null`.
    #[schema(max_length = 200)]
    pub voice: Option<String>,
    /// The person who accepts it.
    pub by: Label,
    /// The reason.
    #[schema(min_length = 1, max_length = 2000)]
    pub reason: String,
    /// The last day on which it holds.
    #[schema(pattern = r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$")]
    pub until: String,
}

/// A declared ensemble with its scenarios.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ScoreBody)]
pub struct Score {
    /// The title.
    pub title: Label,
    /// The version of the protocol; `0.1`.
    #[serde(default)]
    pub protocol_version: ProtocolVersion,
    /// The version of the Score, counted from 1 by the hub or file that stores it.
    #[serde(default = "first")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub version: i64,
    /// The voices.
    #[schema(min_items = 1, max_items = 64)]
    pub voices: Vec<Voice>,
    /// The pairs of voices with conflicting mandates.
    #[serde(default)]
    #[schema(max_items = 200)]
    pub conflicting_mandates: Vec<Vec<Label>>,
    /// The rule that settles conflicts; `null` if not declared.
    #[schema(max_length = 2000)]
    pub arbitration: Option<String>,
    /// The findings that the owner accepts for a time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub waivers: Vec<Waiver>,
    /// The situations that the ensemble must handle.
    #[schema(min_items = 1, max_items = 100)]
    pub scenarios: Vec<Scenario>,
}

fn first() -> i64 {
    1
}

impl Score {
    /// Reads a Score and checks it against its schema. The engine compares names.
    pub fn read(value: Value) -> Result<Self, crate::faults::Faults> {
        schema::read(value)
    }

    /// Returns the paths of members that are unknown to a Score and will be dropped. Members for the id and
    /// the owner are allowed.
    pub fn unknown_members(value: &Value) -> Vec<String> {
        let mut found = schema::unknown_members::<Self>(value);
        found.retain(|path| !matches!(path.as_str(), "id" | "owner_account"));
        found.truncate(100);
        found
    }
}
