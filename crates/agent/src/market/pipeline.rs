//! Pipelines: one job after the other, each with what the one before gave, for no more than a budget altogether.
//!
//! What a step may cost is what is left, or less if it says so; the hub holds it and gives back what it did not cost. So the budget
//! cannot be passed: a step that nobody does for what is left is not begun.

use crate::{Client, ClientError};
use chorus_protocol::code::Code;
use chorus_protocol::ids::{AgentId, JobId};
use chorus_protocol::market::{Credits, JobRequest, JobStatus, JobView, SkillName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The most steps of one pipeline.
const MOST_STEPS: usize = 100;

/// Jobs that are done one after the other.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pipeline {
    /// What it may cost altogether.
    pub budget: Credits,
    /// What the first step is given.
    #[serde(default)]
    pub input_data: Value,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One job of a pipeline.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What is to be done.
    pub skill_name: SkillName,
    /// Whom to hire; the best that fits, unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// What it may cost; what is left, unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Credits>,
    /// How long it may take, in milliseconds; as long as any job, unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
}

/// What came of a pipeline.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Finished {
    /// What the last step gave.
    pub output_data: Value,
    /// What it cost altogether.
    pub cost: Credits,
    /// The jobs, in order.
    pub jobs: Vec<JobView>,
}

/// Why a pipeline did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// The hub could not be asked, or refused.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// It has no steps, or too many.
    #[error("a pipeline has 1 to {MOST_STEPS} steps")]
    Steps,
    /// A step failed: its job says why.
    #[error("the step {step} ({skill}) failed: {why}; {spent} credits were paid")]
    Failed {
        /// Which, from 1.
        step: usize,
        /// Of what.
        skill: String,
        /// Why.
        why: String,
        /// What the steps before cost.
        spent: Credits,
    },
    /// What is left of the budget does not pay for the next step.
    #[error(
        "stopped before step {step} ({skill}): nobody does it for the {left} credits that are left; {spent} were paid"
    )]
    Budget {
        /// Which, from 1.
        step: usize,
        /// Of what.
        skill: String,
        /// What is left.
        left: Credits,
        /// What the steps before cost.
        spent: Credits,
    },
}

impl Client {
    /// Does the jobs of a pipeline, until the last is done, one fails, or the budget does not pay for the next.
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
