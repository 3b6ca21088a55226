//! The market as its clients see it: an orchestrator's calls, and pipelines of jobs within a budget.
//!
//! A job's id and a transfer's are their idempotency, so every call here may be tried again. Answers are types of
//! `chorus_protocol::market`.

mod program;
mod worker;

pub use program::WorkProgram;
pub use worker::WorkerEvent;

use crate::{Client, ClientError, Method};
use chorus_protocol::ids::{AgentId, JobId};
use chorus_protocol::market::{
    Credits, Discovered, JobRequest, JobStatus, JobView, QuoteRequest, QuoteView, SkillName,
    USUAL_DEADLINE_MS,
};
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// The pauses between looks at a job that is not done: the first, doubling up to the longest.
const FIRST_LOOK: Duration = Duration::from_millis(100);
const LONGEST_LOOK: Duration = Duration::from_secs(2);

/// Why a pipeline did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// The hub could not be asked, or refused.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A step failed: its job says why.
    #[error("the step {step} ({skill}) failed: {why}")]
    Failed {
        /// Which, from 1.
        step: usize,
        /// Of what.
        skill: String,
        /// Why.
        why: String,
    },
    /// What is left of the budget does not pay for the next step.
    #[error("the budget is used up before step {step}")]
    Budget {
        /// Which, from 1.
        step: usize,
    },
}

impl Client {
    /// Agents that offer a skill, the best first.
    pub async fn discover(&self, query: &[(&str, &str)]) -> Result<Discovered, ClientError> {
        self.market_get(&["discover"], query).await
    }

    /// Hires an agent through the hub. The same job again is the same job.
    pub async fn hire(&self, job: &JobRequest) -> Result<JobView, ClientError> {
        self.market_post(&["jobs"], job).await
    }

    /// How a job stands.
    pub async fn job(&self, id: JobId) -> Result<JobView, ClientError> {
        self.market_get(&["jobs", &id.to_string()], &[]).await
    }

    /// Asks several agents of a skill for a price and a time.
    pub async fn quote(&self, ask: &QuoteRequest) -> Result<QuoteView, ClientError> {
        self.market_post(&["quotes"], ask).await
    }

    /// Waits until a job has ended, at the latest by its deadline.
    pub async fn await_job(&self, id: JobId) -> Result<JobView, ClientError> {
        let mut pause = FIRST_LOOK;
        loop {
            let job = self.job(id).await?;
            if job.status.known() != Some(JobStatus::Pending) {
                return Ok(job);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_LOOK);
        }
    }

    /// Does one job after the other, each with what the one before gave, for no more than `budget` altogether.
    pub async fn pipeline(
        &self,
        skills: &[SkillName],
        input: Value,
        budget: Credits,
    ) -> Result<(Value, Vec<JobView>), PipelineError> {
        let (mut data, mut left, mut done) = (input, budget, vec![]);
        for (step, skill) in (1..).zip(skills) {
            if step > 1 && left.is_zero() {
                return Err(PipelineError::Budget { step });
            }
            let job = JobRequest {
                job_id: Some(JobId(self.environment().uuid_v4())),
                orchestrator_id: None,
                agent_id: None,
                skill_name: skill.clone(),
                input_data: data,
                budget: left,
                currency: None,
                callback_url: None,
                deadline_ms: Some(USUAL_DEADLINE_MS),
                timestamp_utc: None,
            };
            let hired = self.hire(&job).await?;
            let ended = self.await_job(hired.job_id).await?;
            if ended.status.known() != Some(JobStatus::Success) {
                let why = ended.error.map_or_else(|| "it gave no reason".into(), |error| error.message);
                return Err(PipelineError::Failed { step, skill: skill.0.clone(), why });
            }
            left = left.minus(ended.settled);
            data = ended.result.as_ref().and_then(|result| result.output_data.clone()).unwrap_or_default();
            done.push(ended);
        }
        Ok((data, done))
    }

    /// An agent lives.
    pub async fn heartbeat(&self, agent: AgentId) -> Result<(), ClientError> {
        let body = serde_json::json!({"agent_id": agent});
        self.market_post::<_, Option<Value>>(&["heartbeat"], &body).await.map(drop)
    }

    /// Reads something of the market.
    pub async fn market_get<T: serde::de::DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, ClientError> {
        self.read_at("/market", path, query).await
    }

    /// Does something on the market.
    pub async fn market_post<B: Serialize, T: serde::de::DeserializeOwned>(
        &self,
        path: &[&str],
        body: &B,
    ) -> Result<T, ClientError> {
        let body = serde_json::to_value(body).map_err(|error| ClientError::Protocol(error.to_string()))?;
        self.write_at("/market", Method::POST, path, &[], Some(&body)).await
    }
}
