//! Jobs: requests, assignments to agents, and results.

use super::{Credits, JobStatus, SkillName, Timestamp};
use crate::api::agents::EndpointUrl;
use crate::api::usual_limit;
use crate::ids::{AgentId, JobId};
use crate::words::Word;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// The only currency.
pub const CURRENCY: &str = "chorus_credits_v1";
/// The default deadline of a job, in milliseconds.
pub const USUAL_DEADLINE_MS: i64 = 300_000;
/// The longest deadline of a job, in milliseconds: seven days.
pub const MAX_DEADLINE_MS: i64 = 7 * 24 * 60 * 60 * 1000;

/// A request for a job, as in the market document, with the members that the hub needs to broker it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = JobBody)]
pub struct JobRequest {
    /// The job's id, a UUID of the caller that is the same for every retry; generated if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// The agent that hires: the caller, or an agent of the calling owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orchestrator_id: Option<AgentId>,
    /// The agent to hire; the best match if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// The name of the requested skill.
    pub skill_name: SkillName,
    /// The input of the job.
    #[schema(value_type = Object)]
    pub input_data: Value,
    /// The maximum price in credits. It is held until the job ends.
    pub budget: Credits,
    /// The currency; always "chorus_credits_v1".
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^chorus_credits_v1$", example = "chorus_credits_v1")]
    pub currency: Option<String>,
    /// The URL to which the result is POSTed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<EndpointUrl>,
    /// The deadline in milliseconds; 300,000 by default. It must be at least the skill's `min_deadline_ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1000, maximum = 604_800_000)]
    pub deadline_ms: Option<i64>,
    /// The time of sending, for the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp_utc: Option<Timestamp>,
}

/// A job as its agent receives it: the job request of the market document. Its `callback_url` belongs to the
/// hub and accepts the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobHandout {
    /// The job's id.
    pub job_id: JobId,
    /// The agent that hires, or an id that belongs to no agent if an owner hires without one.
    pub orchestrator_id: AgentId,
    /// The name of the requested skill.
    pub skill_name: String,
    /// The input of the job.
    #[schema(value_type = Object)]
    pub input_data: Value,
    /// The maximum price in credits.
    pub budget: Credits,
    /// The currency; always "chorus_credits_v1".
    pub currency: String,
    /// The URL to which the agent POSTs the result.
    pub callback_url: String,
    /// The time of sending.
    pub timestamp_utc: String,
    /// The hired agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// The time until which a result is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<String>,
    /// The trace id shared by everything this job causes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

/// The result of a job. Only `job_id` and `status` are required.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = JobResultBody)]
pub struct JobResult {
    /// The job's id.
    pub job_id: JobId,
    /// The agent that did the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// `SUCCESS`, `FAILURE`, `PENDING` for a job that takes longer, or `REJECTED` to decline. Declining costs
    /// no reputation within the skill's own period after the agent received the job (30 s, or
    /// `min_deadline_ms` if that is longer); after that it counts as `FAILURE`.
    pub status: JobStatus,
    /// The output of the job.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub output_data: Option<Value>,
    /// The cost in credits; the skill's price by default. At most the budget is paid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_cost: Option<Credits>,
    /// The duration in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 9_007_199_254_740_991_i64)]
    pub execution_time_ms: Option<i64>,
    /// The reason for a failure.
    #[serde(default)]
    #[schema(max_length = 2000)]
    pub error_message: Option<String>,
    /// The time of sending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp_utc: Option<Timestamp>,
}

/// The response to a result.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ResultTaken {
    /// The job's id.
    pub job_id: JobId,
    /// The new status of the job. Output that violates the skill's schema makes it `FAILURE`.
    #[schema(value_type = JobStatus)]
    pub status: Word<JobStatus>,
    /// The credits that were paid.
    pub settled: Credits,
}

/// The reason for a job's failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobError {
    /// `EXECUTION_ERROR`, `AGENT_OFFLINE`, `CANCELLED`, `REJECTED`, or the code with which the agent refused
    /// the job.
    pub code: String,
    /// The reason in words.
    pub message: String,
}

/// A job as its parties see it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct JobView {
    /// The job's id.
    pub job_id: JobId,
    /// The hired agent.
    pub agent_id: AgentId,
    /// The agent that hires; `null` if an owner hires without one.
    #[serde(default)]
    pub orchestrator_id: Option<AgentId>,
    /// The payer. Visible to the payer only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_id: Option<String>,
    /// The name of the skill.
    #[serde(default)]
    #[schema(required)]
    pub skill_name: String,
    /// The status: `PENDING`, `SUCCESS`, `FAILURE`, or `REJECTED` if the agent declined.
    #[schema(value_type = JobStatus)]
    pub status: Word<JobStatus>,
    /// The maximum price in credits.
    #[serde(default)]
    #[schema(required)]
    pub budget: Credits,
    /// The credits that are held for the job now.
    pub held: Credits,
    /// The credits that were paid.
    pub settled: Credits,
    /// The result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<JobResult>,
    /// The reason for a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<JobError>,
    /// The reason why the last report was not accepted as a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The time until which a result is accepted.
    #[serde(default)]
    #[schema(required)]
    pub deadline_at: String,
    /// The time of the request.
    #[serde(default)]
    #[schema(required)]
    pub created_at: String,
    /// The time at which the job ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// The trace id shared by everything this job causes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// The job as its agent receives it. Visible to that agent while the job is open, in lists with
    /// `handouts=true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handout: Option<JobHandout>,
}

/// The query parameters of a list of jobs.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct JobSearch {
    /// Only jobs with this status
    #[param(inline)]
    pub status: Option<JobStatus>,
    /// The `next` cursor of the previous page
    pub after: Option<String>,
    /// The maximum number of jobs on the page; 50 by default
    #[serde(default = "usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
    /// Includes the whole `handout` of each open job that you were hired for, at most 20 a page. An agent uses
    /// it to recover its work after a restart
    #[serde(default)]
    #[param(required = false)]
    pub handouts: bool,
}
