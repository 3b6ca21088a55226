//! What is declared of an ensemble: its voices, what each may do, and the situations it must handle.
//!
//! Only what makes no sense at all is a fault (no voice, two of one name, a word that is not known). What is merely
//! missing or points nowhere is for the engine to find and to weigh.

use crate::schema;
use crate::words::words;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

words! {
    /// The version of the protocol.
    #[derive(Default)]
    pub enum ProtocolVersion {
        /// The only one there is.
        #[default]
        V01 = "0.1",
    }

    /// How bad it is if it goes wrong.
    pub enum Severity {
        /// A nuisance.
        Low = "low",
        /// Costs something.
        Medium = "medium",
        /// Must not happen.
        High = "high",
        /// Must never happen.
        Critical = "critical",
    }

    /// What a voice owes to those who read what it says.
    pub enum EvidenceRequirement {
        /// Nothing it says in the end may be without evidence.
        Required = "required",
        /// It names its sources where it has some.
        Cite = "cite",
        /// It need not.
        None = "none",
    }
}

impl Severity {
    /// Whether it counts as high-severity.
    pub fn is_high(self) -> bool {
        matches!(self, Self::High | Self::Critical)
    }
}

/// A name of something: of a voice, a scenario, an action.
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

/// What a voice may do, and what not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Authority {
    /// In words.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub limits: Vec<Label>,
    /// Tools and actions; if there are any, all others are outside.
    #[serde(default)]
    #[schema(max_items = 200)]
    pub allowed_actions: Vec<Label>,
    /// What it must never do.
    #[serde(default)]
    #[schema(max_items = 200)]
    pub forbidden_actions: Vec<Label>,
    /// What nobody else may do.
    #[serde(default)]
    #[schema(max_items = 200)]
    pub exclusive_actions: Vec<Label>,
}

/// When a voice asks somebody above it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EscalationTrigger {
    /// What scenarios call it.
    pub id: Label,
    /// When.
    #[serde(default)]
    #[schema(max_length = 2000)]
    pub condition: String,
    /// A voice, or `human:` and a desk.
    #[serde(default)]
    #[schema(max_length = 200)]
    pub to: String,
}

/// Work that a voice gives to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = DeclaredHandoff)]
pub struct Handoff {
    /// To which voice.
    pub to: Label,
    /// What must come with it.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub carries: Vec<Label>,
    /// Whether the other says that it has it.
    #[serde(default)]
    pub acknowledged: bool,
}

/// One part in the ensemble.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Voice {
    /// What it is called; no other may be called so, in whatever case.
    pub name: Label,
    /// What it is there for.
    #[serde(default)]
    #[schema(max_length = 2000)]
    pub role: String,
    /// It leads: that it speaks most is no surprise.
    #[serde(default)]
    pub conductor: bool,
    /// Work comes in here.
    #[serde(default)]
    pub entry: bool,
    /// What it says is the ensemble's output.
    #[serde(default)]
    pub final_voice: bool,
    /// Which voice looks at its output.
    #[schema(max_length = 200)]
    pub reviewed_by: Option<String>,
    /// `null`: not declared.
    pub authority: Option<Authority>,
    /// When it asks whom.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub escalation_triggers: Vec<EscalationTrigger>,
    /// `null`: not declared.
    pub evidence_requirement: Option<EvidenceRequirement>,
    /// It may disagree.
    #[serde(default)]
    pub may_dissent: bool,
    /// What it disagrees with must be seen in the output.
    #[serde(default)]
    pub dissent_must_reach_output: bool,
    /// It may go on against a dissent.
    #[serde(default)]
    pub may_override_dissent: bool,
    /// If it does, that is recorded.
    #[serde(default)]
    pub override_recorded: bool,
    /// Whom it gives work to.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub handoffs: Vec<Handoff>,
    /// What traces call it.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub aliases: Vec<Label>,
}

/// A situation that the ensemble must handle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Scenario {
    /// What evidence calls it.
    pub id: Label,
    /// In a line.
    #[serde(default)]
    #[schema(max_length = 200)]
    pub title: String,
    /// How bad it is if it goes wrong.
    pub severity: Severity,
    /// What the ensemble is asked.
    #[serde(default)]
    #[schema(max_length = 10_000)]
    pub prompt: String,
    /// Who must take part.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub required_voices: Vec<Label>,
    /// Which triggers must be pulled.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub expected_escalations: Vec<Label>,
    /// Who must bring evidence.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub expected_evidence: Vec<Label>,
    /// What nobody may do here.
    #[serde(default)]
    #[schema(max_items = 200)]
    pub forbidden_actions: Vec<Label>,
    /// How a live rehearsal sets it up.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub stage: Option<Value>,
    /// What a live rehearsal checks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>, max_items = 32)]
    pub expects: Option<Vec<Value>>,
}

/// A declared ensemble with its scenarios, as its owner writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ScoreBody)]
pub struct Score {
    /// What people call it.
    pub title: Label,
    /// `0.1`.
    #[serde(default)]
    pub protocol_version: ProtocolVersion,
    /// Counted from 1 by who keeps it.
    #[serde(default = "first")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub version: i64,
    /// Its parts.
    #[schema(min_items = 1, max_items = 64)]
    pub voices: Vec<Voice>,
    /// Pairs of voices that pull in different directions.
    #[serde(default)]
    #[schema(max_items = 200)]
    pub conflicting_mandates: Vec<Vec<Label>>,
    /// How such conflicts are settled; `null`: not declared.
    #[schema(max_length = 2000)]
    pub arbitration: Option<String>,
    /// What it must handle.
    #[schema(min_items = 1, max_items = 100)]
    pub scenarios: Vec<Scenario>,
}

fn first() -> i64 {
    1
}

impl Score {
    /// Reads what a schema can say of a Score; names are the engine's to compare.
    pub fn read(value: Value) -> Result<Self, crate::faults::Faults> {
        schema::read(value)
    }

    /// Where something that is meant as a Score has members that no Score has: they are left out. Who keeps a Score may
    /// write its id and owner into it.
    pub fn unknown_members(value: &Value) -> Vec<String> {
        let mut found = schema::unknown_members::<Self>(value);
        found.retain(|path| !matches!(path.as_str(), "id" | "owner_account"));
        found.truncate(100);
        found
    }
}
