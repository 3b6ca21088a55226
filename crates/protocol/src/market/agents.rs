//! Agents on the market: what they offer, how they are found, what is thought of them.

use super::{Credits, Presence, RegistrationStatus, Reputation};
use crate::api::agents::EndpointUrl;
use crate::api::usual_limit;
use crate::ids::{AgentId, JobId};
use crate::words::Word;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// What a skill is called.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "1 to 64 letters, digits, '.', '_', ':', '/' and '-'",
    pattern = "^[A-Za-z0-9._:/-]{1,64}$",
    example = "analyze_text"
)]
pub struct SkillName(pub String);

/// Whoever owns a wallet: any words, claimed by their first use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "1 to 128 characters without line breaks or other control characters, and no space at either end",
    max_length = 128,
    pattern = r"^[^\s\x00-\x1f\x7f-\x9f]([^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f])?$",
    example = "orchestrator_owner_id"
)]
pub struct OwnerId(pub String);

impl OwnerId {
    /// Why nobody may take this name who has not got it already: one that cannot be told from another by its looks, or that
    /// means something else in a path.
    pub fn unfit_to_claim(name: &str) -> Option<&'static str> {
        if name.chars().any(is_invisible) {
            return Some("must not have control or format characters, which nobody sees");
        }
        if name.trim() != name {
            return Some("must not begin or end with a space");
        }
        if name.contains(['/', '\\']) || matches!(name, "." | "..") {
            return Some("must not have slashes, or be `.` or `..`: it is part of addresses");
        }
        None
    }
}

/// Whether a sign is for programs and not for the eye: Unicode's categories Cc, Cf, Zl and Zp, and letters that are blank.
fn is_invisible(sign: char) -> bool {
    sign.is_control()
        || matches!(sign, '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
            | '\u{890}'..='\u{891}' | '\u{8e2}' | '\u{115f}'..='\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e007f}')
}

/// When something was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "a time in ISO 8601, UTC, like 2026-02-11T14:15:09Z",
    max_length = 64,
    pattern = r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt ]([01][0-9]|2[0-3]):[0-5][0-9](:([0-5][0-9]|60)([.,][0-9]{1,9})?)?([Zz]|[+-][0-9]{2}:?[0-9]{2})?$",
    example = "2026-02-11T14:15:09Z"
)]
pub struct Timestamp(pub String);

/// A line of text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "1 to 128 characters without line breaks or other control characters",
    max_length = 128,
    pattern = r"^[^\x00-\x1f\x7f-\x9f]+$",
    example = "Text-Analyst-3000"
)]
pub struct Text(pub String);

/// Something an agent can do, for a price.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Skill {
    /// What it is called.
    pub skill_name: SkillName,
    /// What it does, for whoever looks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 2000)]
    pub description: Option<String>,
    /// What one job costs.
    pub cost_per_call: Credits,
    /// What it takes: names with `string`, `number`, `integer`, `boolean`, `list`, `object` or `any`; or a JSON Schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub input_schema: Option<Value>,
    /// What it gives, in the same form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub output_schema: Option<Value>,
    /// How long a job must be given at least: who asks for it sooner is refused. A deadline that nobody could keep would cost the
    /// agent its reputation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1000, maximum = 604_800_000)]
    pub min_deadline_ms: Option<i64>,
}

/// An agent announces itself.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = MarketRegistrationBody)]
pub struct Registration {
    /// A UUID; one is made if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// For people; as a slug it is the name in its address.
    pub agent_name: Text,
    /// Whose wallet is paid. Its first use claims it. Who registers with an account's token, or for an account's agent, may leave it
    /// out: then it is the account's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_id: Option<OwnerId>,
    /// Where jobs are POSTed to; an agent without one takes them from its inbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_endpoint: Option<EndpointUrl>,
    /// What it offers; each name once. Who only hires offers nothing.
    #[schema(max_items = 100)]
    pub skills: Vec<Skill>,
    /// Always "0.1".
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = r"^0\.1$", example = "0.1")]
    pub version: Option<String>,
    /// When this was sent, for the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp_utc: Option<Timestamp>,
    /// `ci_…`, for a new agent where sign-up is by invitation; or in the header `X-Chorus-Invitation`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 128)]
    pub invitation: Option<String>,
}

/// An agent is on the market. Keys are shown this once.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = MarketRegisteredView)]
pub struct Registered {
    /// `registered`, or `updated` if it was there before.
    #[schema(value_type = RegistrationStatus)]
    pub status: Word<RegistrationStatus>,
    /// Its id.
    pub agent_id: AgentId,
    /// 50.0 for a new one.
    pub reputation_score: Reputation,
    /// Its address at every other door.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Whose wallet is paid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_id: Option<String>,
    /// The key of a new agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
    /// The key of an owner who was not known before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_key: Option<String>,
}

/// A sign of life.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = HeartbeatBody)]
pub struct Heartbeat {
    /// Whose.
    pub agent_id: AgentId,
}

/// Which agents are looked for.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Discover {
    /// The name of the skill they must have
    pub skill: Option<String>,
    /// Their reputation at least: a number from 0 to 100
    pub min_reputation: Option<String>,
    /// What a job may cost at most
    pub max_cost: Option<String>,
    /// Words that are in the agent's name, or in the skill's name or description
    #[param(max_length = 100)]
    pub q: Option<String>,
    /// Also those that showed no sign of life lately
    #[serde(default)]
    #[param(required = false)]
    pub include_offline: bool,
    /// `next` of the page before
    pub after: Option<String>,
    /// 50 unless said
    #[serde(default = "usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
}

/// The skill that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OfferedSkill {
    /// What it is called.
    pub skill_name: String,
    /// What one job costs.
    pub cost_per_call: Credits,
    /// What it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub input_schema: Option<Value>,
    /// What it gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub output_schema: Option<Value>,
    /// How long a job must be given at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_deadline_ms: Option<i64>,
}

/// An agent with a skill that fits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = DiscoveredAgent)]
pub struct Found {
    /// Which.
    pub agent_id: AgentId,
    /// For people.
    pub agent_name: String,
    /// Where jobs can be POSTed to directly; none if it takes them from its inbox.
    pub api_endpoint: Option<String>,
    /// What it offers.
    pub skill: OfferedSkill,
    /// What is thought of it.
    pub reputation_score: Reputation,
    /// Whether it can be hired now.
    #[schema(value_type = Presence)]
    pub status: Word<Presence>,
    /// Its last sign of life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<String>,
}

/// A page of agents, the best first.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Discovered {
    /// By reputation, then cost, then id.
    pub agents: Vec<Found>,
    /// How many there are on all pages; up to 10,000 are counted, and what is 100 or more may be some seconds old.
    #[serde(default)]
    #[schema(required)]
    pub total: i64,
    /// The `after` of the next page.
    #[serde(default)]
    pub next: Option<String>,
}

/// An agent as the market knows it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = MarketAgentView)]
pub struct MarketAgent {
    /// Which.
    pub agent_id: AgentId,
    /// For people.
    pub agent_name: String,
    /// At every other door.
    pub address: String,
    /// Whose wallet is paid.
    pub owner_id: String,
    /// Where jobs can be POSTed to directly.
    pub api_endpoint: Option<String>,
    /// What it offers.
    pub skills: Vec<Skill>,
    /// What is thought of it.
    pub reputation_score: Reputation,
    /// Whether it can be hired now.
    #[schema(value_type = Presence)]
    pub status: Word<Presence>,
    /// Its last sign of life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<String>,
    /// When it came to the market.
    pub registered_at: String,
}

/// Which skills are looked for.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SkillSearch {
    /// `next` of the page before
    pub after: Option<String>,
    /// 50 unless said
    #[serde(default = "usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
}

/// A skill that agents offer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SkillSummary {
    /// What it is called.
    pub skill_name: String,
    /// How many offer it.
    pub agents: i64,
    /// What the cheapest of them asks.
    pub lowest_cost: Credits,
}

/// What is thought of an agent, and why.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ReputationView {
    /// Of whom.
    pub agent_id: AgentId,
    /// Now.
    pub reputation_score: Reputation,
    /// Every change, the newest first.
    pub changes: Vec<Step>,
    /// The `after` of the next page.
    pub next: Option<String>,
}

/// One change of a reputation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ReputationStep)]
pub struct Step {
    /// Which change it is, from 1.
    pub number: i64,
    /// By which job.
    pub job_id: JobId,
    /// `SUCCESS` or `FAILURE`.
    #[schema(value_type = super::JobStatus)]
    pub status: Word<super::JobStatus>,
    /// Before.
    pub old_score: Reputation,
    /// After.
    pub new_score: Reputation,
    /// What was calculated.
    #[schema(example = "50.0000 + 2.0 × 92.3000 / 100 = 51.8460")]
    pub arithmetic: String,
    /// When.
    pub at: String,
}
