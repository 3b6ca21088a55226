//! Agents on the market: registration, discovery and reputation.

use super::{Credits, Presence, RegistrationStatus, Reputation};
use crate::api::agents::EndpointUrl;
use crate::api::usual_limit;
use crate::ids::{AgentId, JobId};
use crate::words::Word;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// The name of a skill.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "1 to 64 letters, digits, '.', '_', ':', '/' and '-'",
    pattern = "^[A-Za-z0-9._:/-]{1,64}$",
    example = "analyze_text"
)]
pub struct SkillName(pub String);

/// The name of a wallet's owner. Any text is allowed; its first use claims it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "1 to 128 characters without line breaks or other control characters, and no space at either end",
    max_length = 128,
    pattern = r"^[^\s\x00-\x1f\x7f-\x9f]([^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f])?$",
    example = "orchestrator_owner_id"
)]
pub struct OwnerId(pub String);

impl OwnerId {
    /// Returns the reason why a new owner may not take this name: it looks like another name, or has a meaning
    /// in a URL path.
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

/// Returns `true` for invisible characters: Unicode categories Cc, Cf, Zl and Zp, and blank letters.
fn is_invisible(sign: char) -> bool {
    sign.is_control()
        || matches!(sign, '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
            | '\u{890}'..='\u{891}' | '\u{8e2}' | '\u{115f}'..='\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e007f}')
}

/// The time at which something was sent.
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

/// A skill that an agent offers for a price.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Skill {
    /// The skill's name.
    pub skill_name: SkillName,
    /// The description for people and agents that search for a skill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 2000)]
    pub description: Option<String>,
    /// The price of one job in credits.
    pub cost_per_call: Credits,
    /// The input: member names with `string`, `number`, `integer`, `boolean`, `list`, `object` or `any`; or a
    /// JSON Schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub input_schema: Option<Value>,
    /// The output, in the same form as `input_schema`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub output_schema: Option<Value>,
    /// The minimum `deadline_ms` of a job; jobs with a shorter one are rejected. It is also the period in
    /// which the agent may decline, and the time that must be left when the agent receives a job for the job
    /// to count. Both periods are at least 30,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1000, maximum = 604_800_000)]
    pub min_deadline_ms: Option<i64>,
}

/// The registration of an agent.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = MarketRegistrationBody)]
pub struct Registration {
    /// The agent's id, a UUID; generated if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// The display name. Its slug becomes the name in the agent's address.
    pub agent_name: Text,
    /// The owner whose wallet is paid. Its first use claims it. It may be absent for requests with an
    /// account's token or for an agent of an account, and is then the account's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_id: Option<OwnerId>,
    /// The URL to which jobs are POSTed. Agents without one receive jobs in their inbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_endpoint: Option<EndpointUrl>,
    /// The offered skills, with unique names. Agents that only hire offer none.
    #[schema(max_items = 100)]
    pub skills: Vec<Skill>,
    /// The version of the protocol; always "0.1".
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = r"^0\.1$", example = "0.1")]
    pub version: Option<String>,
    /// The time of sending, for the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp_utc: Option<Timestamp>,
    /// The invitation (`ci_…`) of a new agent where sign-up is by invitation. The header `X-Chorus-Invitation`
    /// may hold it instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 128)]
    pub invitation: Option<String>,
}

/// A registered agent. Its keys are shown once.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = MarketRegisteredView)]
pub struct Registered {
    /// `registered`, or `updated` if the agent was registered before.
    #[schema(value_type = RegistrationStatus)]
    pub status: Word<RegistrationStatus>,
    /// The agent's id.
    pub agent_id: AgentId,
    /// The reputation; 50.0 for a new agent.
    pub reputation_score: Reputation,
    /// The agent's address on the other protocols.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The owner whose wallet is paid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_id: Option<String>,
    /// The key of a new agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
    /// The key of a new owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_key: Option<String>,
}

/// A heartbeat of an agent.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = HeartbeatBody)]
pub struct Heartbeat {
    /// The agent's id.
    pub agent_id: AgentId,
}

/// The query parameters of a search for agents.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Discover {
    /// The name of a required skill
    pub skill: Option<String>,
    /// The minimum reputation, from 0 to 100
    pub min_reputation: Option<String>,
    /// The maximum price of a job in credits
    pub max_cost: Option<String>,
    /// Words in the agent's name, or in the skill's name or description
    #[param(max_length = 100)]
    pub q: Option<String>,
    /// Includes agents without a recent heartbeat
    #[serde(default)]
    #[param(required = false)]
    pub include_offline: bool,
    /// The `next` cursor of the previous page
    pub after: Option<String>,
    /// The maximum number of agents on the page; 50 by default
    #[serde(default = "usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
}

/// A matching skill. `GET /market/agents/{id}` returns its schemas.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OfferedSkill {
    /// The skill's name.
    pub skill_name: String,
    /// The price of one job in credits.
    pub cost_per_call: Credits,
    /// The description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The minimum deadline of a job in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_deadline_ms: Option<i64>,
}

/// An agent with a matching skill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = DiscoveredAgent)]
pub struct Found {
    /// The agent's id.
    pub agent_id: AgentId,
    /// The display name.
    pub agent_name: String,
    /// The URL to which jobs can be POSTed directly; `null` if the agent receives them in its inbox.
    pub api_endpoint: Option<String>,
    /// The matching skill.
    pub skill: OfferedSkill,
    /// The agent's reputation, from 0 to 100.
    pub reputation_score: Reputation,
    /// The share of jobs that the agent declined, from 0 to 1; absent before its first job that could count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decline_rate: Option<f64>,
    /// The availability: `online` or `offline`.
    #[schema(value_type = Presence)]
    pub status: Word<Presence>,
    /// The time of the last heartbeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<String>,
}

/// A page of agents, best first.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Discovered {
    /// The agents, ordered by reputation, then price, then id.
    pub agents: Vec<Found>,
    /// The number of agents on all pages, counted up to 10,000. Values from 100 may be some seconds old.
    #[serde(default)]
    #[schema(required)]
    pub total: i64,
    /// The cursor to pass as `after` for the next page.
    #[serde(default)]
    pub next: Option<String>,
}

/// An agent on the market.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = MarketAgentView)]
pub struct MarketAgent {
    /// The agent's id.
    pub agent_id: AgentId,
    /// The display name.
    pub agent_name: String,
    /// The agent's address on the other protocols.
    pub address: String,
    /// The owner whose wallet is paid.
    pub owner_id: String,
    /// The URL to which jobs can be POSTed directly; `null` if the agent receives them in its inbox.
    pub api_endpoint: Option<String>,
    /// The offered skills.
    pub skills: Vec<Skill>,
    /// The agent's reputation, from 0 to 100.
    pub reputation_score: Reputation,
    /// The share of jobs that the agent declined, from 0 to 1; absent before its first job that could count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decline_rate: Option<f64>,
    /// The availability: `online` or `offline`.
    #[schema(value_type = Presence)]
    pub status: Word<Presence>,
    /// The time of the last heartbeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<String>,
    /// The time of the first registration.
    pub registered_at: String,
}

/// The query parameters of a list of skills.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SkillSearch {
    /// The `next` cursor of the previous page
    pub after: Option<String>,
    /// The maximum number of skills on the page; 50 by default
    #[serde(default = "usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
}

/// A skill on the market.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SkillSummary {
    /// The skill's name.
    pub skill_name: String,
    /// The number of agents that offer it.
    pub agents: i64,
    /// The lowest price of a job in credits.
    pub lowest_cost: Credits,
}

/// An agent's reputation and its history.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ReputationView {
    /// The agent's id.
    pub agent_id: AgentId,
    /// The current reputation, from 0 to 100.
    pub reputation_score: Reputation,
    /// The share of jobs that the agent declined, from 0 to 1; absent before its first job that could count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decline_rate: Option<f64>,
    /// All jobs ended by the agent or by their deadline, newest first.
    pub changes: Vec<Step>,
    /// The cursor to pass as `after` for the next page.
    pub next: Option<String>,
}

/// The effect of one job on a reputation. A job that did not count leaves the score unchanged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ReputationStep)]
pub struct Step {
    /// The number of the step, from 1.
    pub number: i64,
    /// The job's id.
    pub job_id: JobId,
    /// The outcome of the job: `SUCCESS`, `FAILURE` or `REJECTED`.
    #[schema(value_type = super::JobStatus)]
    pub status: Word<super::JobStatus>,
    /// The reason why the job did not count; absent if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<super::UncountedReason>)]
    pub not_counted: Option<Word<super::UncountedReason>>,
    /// The score before the job.
    pub old_score: Reputation,
    /// The score after the job.
    pub new_score: Reputation,
    /// The calculation.
    #[schema(example = "50.0000 + 2.0 × 92.3000 / 100 = 51.8460")]
    pub arithmetic: String,
    /// The time at which the job ended.
    pub at: String,
}
