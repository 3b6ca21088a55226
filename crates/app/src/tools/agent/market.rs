//! The market for a model: finding agents, hiring them, and reporting the results of own jobs.

use super::AgentContext;
use crate::market::results::{self, Worker};
use crate::market::{discover, hire, jobs};
use chorus_node::Error;
use chorus_node::idempotency::Once;
use chorus_protocol::ids::{AgentId, JobId};
use chorus_protocol::market::{
    Credits, Discover, Discovered, JobRequest, JobResult, JobSearch, JobStatus, JobView, ResultTaken,
    SkillName,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

fn ten() -> i64 {
    10
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct AgentQuery {
    /// The name of a required skill.
    #[schema(max_length = 64)]
    skill: Option<String>,
    /// Words in the agent's name, or in the skill's name or description.
    #[schema(max_length = 100)]
    query: Option<String>,
    /// The maximum price of a job in credits.
    #[schema(max_length = 32)]
    max_cost: Option<String>,
    /// The minimum reputation, from 0 to 100.
    #[schema(max_length = 8)]
    min_reputation: Option<String>,
    /// Include agents without a recent heartbeat.
    #[serde(default)]
    #[schema(default = false)]
    include_offline: bool,
    /// `next` of the page before.
    #[schema(max_length = 256)]
    after: Option<String>,
    /// The maximum number of agents.
    #[serde(default = "ten")]
    #[schema(minimum = 1, maximum = 100, default = ten)]
    limit: i64,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct HireRequest {
    /// The name of the requested skill.
    skill_name: SkillName,
    /// The input of the job, in the form that the skill declares.
    #[schema(value_type = Object)]
    input_data: Value,
    /// The maximum price in credits. It is held until the job ends.
    budget: Credits,
    /// The agent to hire; the best match by default.
    agent_id: Option<AgentId>,
    /// The deadline in milliseconds; five minutes by default.
    #[schema(minimum = 1000, maximum = 604_800_000)]
    deadline_ms: Option<i64>,
    /// A UUID that is the same for every retry of the same job, and a new one for a new job.
    job_id: Option<JobId>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct JobsQuery {
    /// Only jobs with this status.
    status: Option<JobStatus>,
    /// Include the whole `handout` of each open job that you were hired for, at most 20 a page.
    #[serde(default)]
    #[schema(default = false)]
    detail: bool,
    /// `next` of the page before.
    #[schema(max_length = 256)]
    after: Option<String>,
    /// The maximum number of jobs.
    #[serde(default = "ten")]
    #[schema(minimum = 1, maximum = 100, default = ten)]
    limit: i64,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct OneJob {
    /// The id of the job.
    job_id: JobId,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct OwnResult {
    /// The job that you were hired for.
    job_id: JobId,
    /// `SUCCESS`, `FAILURE` if you cannot do it, or `REJECTED` if you do not take it. `PENDING` only says that
    /// you are working on it.
    status: JobStatus,
    /// The requested output, in the form that the job names. Required for `SUCCESS`.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    output_data: Option<Value>,
    /// The cost in credits; the price of the skill by default. The payment never exceeds the budget.
    execution_cost: Option<Credits>,
    /// The reason for the failure, in a sentence.
    #[schema(max_length = 2000)]
    error_message: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct OwnJobs {
    /// Your jobs as client and as worker, the newest first.
    jobs: Vec<JobView>,
    /// The `after` of the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

pub(super) async fn find(context: AgentContext, asked: AgentQuery) -> Result<Discovered, Error> {
    let asked = Discover {
        skill: asked.skill,
        min_reputation: asked.min_reputation,
        max_cost: asked.max_cost,
        q: asked.query,
        include_offline: asked.include_offline,
        after: asked.after,
        limit: asked.limit,
    };
    Ok((*discover::discover(&context.app, asked).await?).clone())
}

pub(super) async fn hire(context: AgentContext, asked: HireRequest) -> Result<JobView, Error> {
    let HireRequest { skill_name, input_data, budget, agent_id, deadline_ms, job_id } = asked;
    let request = JobRequest {
        job_id,
        orchestrator_id: None,
        agent_id,
        skill_name,
        input_data,
        budget,
        currency: None,
        callback_url: None,
        deadline_ms,
        timestamp_utc: None,
    };
    // The job's id makes a retry safe.
    Ok(hire::hire(&context.app, context.caller(), context.source, request, Once::NO_KEY).await?.result)
}

pub(super) async fn list(context: AgentContext, asked: JobsQuery) -> Result<OwnJobs, Error> {
    let JobsQuery { status, detail: handouts, after, limit } = asked;
    let search = JobSearch { status, after, limit, handouts };
    let found = jobs::list(&context.app, context.caller(), search).await?;
    Ok(OwnJobs { jobs: found.items, next: found.next })
}

pub(super) async fn look(context: AgentContext, OneJob { job_id }: OneJob) -> Result<JobView, Error> {
    jobs::job(&context.app, context.caller(), job_id).await
}

pub(super) async fn cancel(context: AgentContext, OneJob { job_id }: OneJob) -> Result<JobView, Error> {
    Ok(jobs::cancel(&context.app, context.caller(), job_id, Once::NO_KEY).await?.result)
}

pub(super) async fn report(context: AgentContext, said: OwnResult) -> Result<ResultTaken, Error> {
    let result = JobResult {
        job_id: said.job_id,
        agent_id: None,
        status: said.status,
        output_data: said.output_data,
        execution_cost: said.execution_cost,
        execution_time_ms: None,
        error_message: said.error_message,
        timestamp_utc: None,
    };
    results::report(&context.app, Worker::Known(context.caller()), said.job_id, result).await
}
