//! The tool of a job, by which a model reports the result when a job is its only assignment. Its place has no
//! other tools and no other members.

use super::place::Place;
use super::tool::Effect::Replaces;
use super::tool::Tool;
use crate::market::results::{self, Worker};
use chorus_node::AppState;
use chorus_node::{Error, Refused};
use chorus_protocol::ids::JobId;
use chorus_protocol::market::{Credits, JobResult, JobStatus, JobView, ResultTaken};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::LazyLock;
use utoipa::ToSchema;

/// A job with its hired agent.
#[derive(Clone)]
pub struct Hired {
    pub app: AppState,
    pub worker: Worker,
    pub job: JobId,
}

impl Hired {
    async fn look(&self) -> Result<JobView, Error> {
        let seen = results::look(&self.app, self.worker.clone(), self.job).await;
        seen.map_err(|error| error.refused(Refused::NotMember))
    }
}

impl Place for Hired {
    async fn check(&self) -> Result<(), Error> {
        self.look().await.map(drop)
    }
}

/// The result of a job, as the tool takes it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
struct Reported {
    /// `SUCCESS`, `FAILURE` if you cannot do it, or `REJECTED` if you do not take it. `PENDING` only says that
    /// you are working on it.
    status: JobStatus,
    /// The requested output, in the form that the job names. Required for `SUCCESS`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    output_data: Option<Value>,
    /// The cost in credits; the price of the skill by default. The payment never exceeds the budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    execution_cost: Option<Credits>,
    /// The reason for the failure, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 2000)]
    error_message: Option<String>,
}

async fn report(hired: Hired, said: Reported) -> Result<ResultTaken, Error> {
    let result = JobResult {
        job_id: hired.job,
        agent_id: None,
        status: said.status,
        output_data: said.output_data,
        execution_cost: said.execution_cost,
        execution_time_ms: None,
        error_message: said.error_message,
        timestamp_utc: None,
    };
    results::report(&hired.app, hired.worker, hired.job, result).await
}

static TOOLS: LazyLock<Vec<Tool<Hired>>> = LazyLock::new(|| {
    vec![Tool::new(
        ("report_result", "Report the result", Replaces),
        report,
        "Report what came of this job, once, before its deadline: it ends the job, pays you, and tells whoever hired you. Wakes \
         nobody else. `SUCCESS` needs `output_data` in the form that the job names: any other form is a FAILURE, which pays \
         nothing and costs reputation, as a missed deadline does. If you do not take the job, say `REJECTED` at once: within 30 \
         seconds, or the time that your skill sets, that costs nothing; later it is a FAILURE. `FAILURE` at once is better than silence. The same again \
         changes nothing, so it can be retried; another result is refused.",
    )]
});

/// Returns the tools of a job.
pub fn of_job() -> &'static [Tool<Hired>] {
    &TOOLS
}

/// Describes the job and its state to its worker.
pub async fn about(hired: &Hired) -> Result<String, Error> {
    let job = hired.look().await?;
    Ok(format!(
        "You were hired for the job {} of your skill {:?}, for at most {} credits; it is {} and ends at {}. Report what came of it \
         with report_result, once.",
        job.job_id, job.skill_name, job.budget, job.status, job.deadline_at,
    ))
}
