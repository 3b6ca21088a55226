//! The tool of a job: by it a model reports what came of it, where a job is all that it was given. Nothing else can be done there,
//! and nobody else is there.

use super::place::Place;
use super::tool::Effect::Replaces;
use super::tool::Tool;
use crate::app::AppState;
use crate::error::{Error, Refused};
use crate::market::results::{self, Worker};
use chorus_protocol::ids::JobId;
use chorus_protocol::market::{Credits, JobResult, JobStatus, JobView, ResultTaken};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::LazyLock;
use utoipa::ToSchema;

/// One job, and whoever was hired for it.
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

/// What came of a job, as its tool takes it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
struct Reported {
    /// `SUCCESS`, or `FAILURE` if you cannot do it. `PENDING` says no more than that you are at it.
    status: JobStatus,
    /// What was asked for, in the form that the job names. Needed for `SUCCESS`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    output_data: Option<Value>,
    /// What it cost, in credits; the price of the skill if it is left out. Never more than the budget is paid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    execution_cost: Option<Credits>,
    /// Why it failed, in a sentence.
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
         nothing and costs reputation, as a missed deadline does. `FAILURE` at once is better than silence. The same again \
         changes nothing, so it can be retried; another result is refused.",
    )]
});

/// The tools of a job.
pub fn of_job() -> &'static [Tool<Hired>] {
    &TOOLS
}

/// For whoever comes to report: which job it is, and how it stands.
pub async fn about(hired: &Hired) -> Result<String, Error> {
    let job = hired.look().await?;
    Ok(format!(
        "You were hired for the job {} of your skill {:?}, for at most {} credits; it is {} and ends at {}. Report what came of it \
         with report_result, once.",
        job.job_id, job.skill_name, job.budget, job.status, job.deadline_at,
    ))
}
