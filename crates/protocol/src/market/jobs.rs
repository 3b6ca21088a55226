//! Jobs: what is asked for, what is handed to the agent, what comes back.

use super::{Credits, JobStatus, SkillName, Timestamp};
use crate::api::agents::EndpointUrl;
use crate::api::usual_limit;
use crate::ids::{AgentId, JobId};
use crate::words::Word;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// The one currency.
pub const CURRENCY: &str = "chorus_credits_v1";
/// How long a job may take, unless said.
pub const USUAL_DEADLINE_MS: i64 = 300_000;
/// The longest that can be said: seven days.
pub const MAX_DEADLINE_MS: i64 = 7 * 24 * 60 * 60 * 1000;

/// Work that is asked for: the document's job request, and what the hub needs to broker it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = JobBody)]
pub struct JobRequest {
    /// A UUID of the caller's own, the same for every retry; one is made if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// The agent that hires: the caller, or one of the calling owner's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orchestrator_id: Option<AgentId>,
    /// The agent that is hired; the best that fits, if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// What it is to do.
    pub skill_name: SkillName,
    /// With what.
    #[schema(value_type = Object)]
    pub input_data: Value,
    /// What it may cost; it is held until the job has ended.
    pub budget: Credits,
    /// Always "chorus_credits_v1".
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^chorus_credits_v1$", example = "chorus_credits_v1")]
    pub currency: Option<String>,
    /// Where the result is POSTed to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<EndpointUrl>,
    /// How long it may take; 300,000 unless said. A skill that needs longer (`min_deadline_ms`) has to be given it here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1000, maximum = 604_800_000)]
    pub deadline_ms: Option<i64>,
    /// When this was sent, for the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp_utc: Option<Timestamp>,
}

/// A job as the agent gets it: the document's job request. Its `callback_url` is the hub's, and takes the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobHandout {
    /// Which job.
    pub job_id: JobId,
    /// Who hires; nobody's id if an owner does without an agent.
    pub orchestrator_id: AgentId,
    /// What is to be done.
    pub skill_name: String,
    /// With what.
    #[schema(value_type = Object)]
    pub input_data: Value,
    /// What it may cost.
    pub budget: Credits,
    /// Always "chorus_credits_v1".
    pub currency: String,
    /// Where the result is POSTed to.
    pub callback_url: String,
    /// When this was sent.
    pub timestamp_utc: String,
    /// Who is hired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// Until when a result counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<String>,
    /// What it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

/// What came of a job. Only `job_id` and `status` are needed; the hub knows the rest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = JobResultBody)]
pub struct JobResult {
    /// Which job.
    pub job_id: JobId,
    /// Who did it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// `SUCCESS`, `FAILURE`, or `PENDING` for one that takes longer.
    pub status: JobStatus,
    /// What was asked for.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub output_data: Option<Value>,
    /// What it cost; the skill's price, if it is left out. Paid up to the budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_cost: Option<Credits>,
    /// How long it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 9_007_199_254_740_991_i64)]
    pub execution_time_ms: Option<i64>,
    /// Why it failed.
    #[serde(default)]
    #[schema(max_length = 2000)]
    pub error_message: Option<String>,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp_utc: Option<Timestamp>,
}

/// A result was taken.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ResultTaken {
    /// Of which job.
    pub job_id: JobId,
    /// How it stands now: output that breaks the skill's schema is a `FAILURE`, whatever was said.
    #[schema(value_type = JobStatus)]
    pub status: Word<JobStatus>,
    /// What was paid.
    pub settled: Credits,
}

/// Why a job failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobError {
    /// `EXECUTION_ERROR`, `AGENT_OFFLINE` or `CANCELLED`; or the agent's own, if it refused the job with one.
    pub code: String,
    /// The same for a person.
    pub message: String,
}

/// A job as those who have to do with it see it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct JobView {
    /// Which.
    pub job_id: JobId,
    /// Who is hired.
    pub agent_id: AgentId,
    /// Who hires; none if an owner does without an agent.
    #[serde(default)]
    pub orchestrator_id: Option<AgentId>,
    /// Who pays; for the one who does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_id: Option<String>,
    /// What is to be done.
    #[serde(default)]
    #[schema(required)]
    pub skill_name: String,
    /// `PENDING`, `SUCCESS` or `FAILURE`.
    #[schema(value_type = JobStatus)]
    pub status: Word<JobStatus>,
    /// What it may cost.
    #[serde(default)]
    #[schema(required)]
    pub budget: Credits,
    /// What is held for it now.
    pub held: Credits,
    /// What was paid.
    pub settled: Credits,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<JobResult>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<JobError>,
    /// Why something that came was not taken as its result, the last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Until when a result counts.
    #[serde(default)]
    #[schema(required)]
    pub deadline_at: String,
    /// When it was asked for.
    #[serde(default)]
    #[schema(required)]
    pub created_at: String,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// What it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// The job as its agent is given it; for that agent, while the job is open, in a list with `handouts=true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handout: Option<JobHandout>,
}

/// Which jobs are looked for.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct JobSearch {
    /// How they stand
    #[param(inline)]
    pub status: Option<JobStatus>,
    /// `next` of the page before
    pub after: Option<String>,
    /// 50 unless said
    #[serde(default = "usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
    /// With the whole `handout` of each open job that you, an agent, were hired for, at most 20 a page: what you had in hand when
    /// your program ended
    #[serde(default)]
    #[param(required = false)]
    pub handouts: bool,
}
