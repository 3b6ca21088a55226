//! Pipelines: a sequence of jobs, each with the output of the one before, within a total budget.
//!
//! The budget of a step is the remaining amount, or less if the step says so. The hub reserves it and returns
//! the unused part. Therefore the total is never exceeded: a step that nobody does for the remaining amount is
//! not started.

use crate::{Client, ClientError};
use chorus_protocol::code::Code;
use chorus_protocol::ids::{AgentId, JobId};
use chorus_protocol::market::{Credits, JobRequest, JobStatus, JobView, SkillName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The limit of steps in one pipeline.
const MOST_STEPS: usize = 100;

/// A sequence of jobs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pipeline {
    /// The total budget.
    pub budget: Credits,
    /// The input of the first step.
    #[serde(default)]
    pub input_data: Value,
    pub steps: Vec<Step>,
}

/// One job of a pipeline.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub skill_name: SkillName,
    /// The agent to hire. `None` hires the best match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// The budget of this step. `None` allows all that is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Credits>,
    /// The deadline, in milliseconds. `None` uses the market's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
}

/// The result of a pipeline.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Finished {
    /// The output of the last step.
    pub output_data: Value,
    /// The total cost.
    pub cost: Credits,
    /// The jobs, in order.
    pub jobs: Vec<JobView>,
}

/// The reason why a pipeline was not completed.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// A request to the hub failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The number of steps is not valid.
    #[error("a pipeline has 1 to {MOST_STEPS} steps")]
    Steps,
    /// A step failed.
    #[error("the step {step} ({skill}) failed: {why}; {spent} credits were paid")]
    Failed {
        /// The number of the step, from 1.
        step: usize,
        skill: String,
        why: String,
        /// The cost of the earlier steps.
        spent: Credits,
    },
    /// The remaining budget does not pay for the next step.
    #[error(
        "stopped before step {step} ({skill}): nobody does it for the {left} credits that are left; {spent} were paid"
    )]
    Budget {
        /// The number of the step, from 1.
        step: usize,
        skill: String,
        left: Credits,
        /// The cost of the earlier steps.
        spent: Credits,
    },
}

impl Client {
    /// Runs a pipeline until the last job is done, one fails, or the budget does not pay for the next.
    pub async fn pipeline(&self, pipeline: &Pipeline) -> Result<Finished, PipelineError> {
        if !(1..=MOST_STEPS).contains(&pipeline.steps.len()) {
            return Err(PipelineError::Steps);
        }
        let (mut data, mut left, mut jobs) = (pipeline.input_data.clone(), pipeline.budget, vec![]);
        for (step, wanted) in (1..).zip(&pipeline.steps) {
            let (skill, spent) = (wanted.skill_name.0.clone(), pipeline.budget.minus(left));
            let job = JobRequest {
                job_id: Some(JobId(self.environment().uuid_v4())),
                orchestrator_id: None,
                agent_id: wanted.agent_id,
                skill_name: wanted.skill_name.clone(),
                input_data: data,
                budget: wanted.budget.unwrap_or(left).min(left),
                currency: None,
                callback_url: None,
                deadline_ms: wanted.deadline_ms,
                timestamp_utc: None,
            };
            let hired = match self.hire(&job).await {
                Err(error) if error.code() == Some(Code::BudgetInsufficient) => {
                    return Err(PipelineError::Budget { step, skill, left: job.budget, spent });
                }
                hired => hired?,
            };
            let ended = self.await_job(hired.job_id).await?;
            if ended.status.known() != Some(JobStatus::Success) {
                let why = ended.error.map_or_else(|| "it gave no reason".into(), |error| error.message);
                return Err(PipelineError::Failed { step, skill, why, spent });
            }
            left = left.minus(ended.settled);
            data = ended.result.as_ref().and_then(|result| result.output_data.clone()).unwrap_or_default();
            jobs.push(ended);
        }
        Ok(Finished { output_data: data, cost: pipeline.budget.minus(left), jobs })
    }
}
