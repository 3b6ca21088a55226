//! Clients of the market: an orchestrator's calls through the hub or straight to an agent, pipelines of jobs
//! within a budget, and a worker that serves jobs.
//!
//! The ids of jobs and transfers serve as idempotency keys, so every call may be retried. Responses are types
//! of `chorus_protocol::market`.

mod book;
mod direct;
mod listen;
mod pipeline;
mod queue;
mod worker;

pub use direct::{amount_due, ask_directly};
pub use listen::{JobListen, JobServer};
pub use pipeline::{Finished, Pipeline, PipelineError, Step};
use queue::WAITING;
pub(crate) use queue::WorkQueue;
pub use worker::{JobWorker, WorkerEvent};

use crate::{Client, ClientError, Method};
use chorus_protocol::api::Items;
use chorus_protocol::ids::{AgentId, JobId, QuoteId};
use chorus_protocol::market::{
    Accept, Discovered, JobHandout, JobRequest, JobStatus, JobView, MakeOffer, OfferMade, QuoteRequest,
    QuoteView,
};
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// The pauses between polls of an open job: the first, doubling up to the longest.
const FIRST_LOOK: Duration = Duration::from_millis(100);
const LONGEST_LOOK: Duration = Duration::from_secs(2);

impl Client {
    /// Returns the agents that offer a skill, best first.
    pub async fn discover(&self, query: &[(&str, &str)]) -> Result<Discovered, ClientError> {
        self.market_get(&["discover"], query).await
    }

    /// Hires an agent through the hub. Repeating the request returns the same job.
    pub async fn hire(&self, job: &JobRequest) -> Result<JobView, ClientError> {
        self.market_post(&["jobs"], job).await
    }

    /// Returns a job.
    pub async fn job(&self, id: JobId) -> Result<JobView, ClientError> {
        self.market_get(&["jobs", &id.to_string()], &[]).await
    }

    /// Returns the open jobs of this agent, oldest first, in the form in which they were handed out, so that a
    /// restarted worker can continue them. Stops at the number of jobs that may wait in a worker's queue.
    pub async fn open_jobs(&self) -> Result<Vec<JobHandout>, ClientError> {
        let (mut open, mut after) = (vec![], None::<String>);
        loop {
            let mut query = vec![("status", JobStatus::Pending.as_str()), ("handouts", "true")];
            query.extend(after.as_deref().map(|after| ("after", after)));
            let page: Items<JobView> = self.market_get(&["jobs"], &query).await?;
            open.extend(page.items.into_iter().filter_map(|job| job.handout));
            after = page.next;
            if after.is_none() || open.len() >= WAITING {
                open.reverse();
                return Ok(open);
            }
        }
    }

    /// Asks several agents of a skill for a price and a time.
    pub async fn quote(&self, ask: &QuoteRequest) -> Result<QuoteView, ClientError> {
        self.market_post(&["quotes"], ask).await
    }

    /// Returns a request for quotes with the offers made so far.
    pub async fn offers(&self, quote: QuoteId) -> Result<QuoteView, ClientError> {
        self.market_get(&["quotes", &quote.to_string()], &[]).await
    }

    /// Makes an offer as an agent that was asked for one.
    pub async fn make_offer(&self, quote: QuoteId, offer: &MakeOffer) -> Result<OfferMade, ClientError> {
        self.market_post(&["quotes", &quote.to_string(), "offer"], offer).await
    }

    /// Accepts one offer, which creates a job at its price.
    pub async fn accept(&self, quote: QuoteId, offer: &Accept) -> Result<JobView, ClientError> {
        self.market_post(&["quotes", &quote.to_string(), "accept"], offer).await
    }

    /// Waits until a job has ended, which is by its deadline at the latest.
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

    /// Sends an agent's heartbeat.
    pub async fn heartbeat(&self, agent: AgentId) -> Result<(), ClientError> {
        let body = serde_json::json!({"agent_id": agent});
        self.market_post::<_, Option<Value>>(&["heartbeat"], &body).await.map(drop)
    }

    /// Sends a GET request to the market's API.
    pub async fn market_get<T: serde::de::DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, ClientError> {
        self.read_at("/market", path, query).await
    }

    /// Sends a POST request to the market's API.
    pub async fn market_post<B: Serialize, T: serde::de::DeserializeOwned>(
        &self,
        path: &[&str],
        body: &B,
    ) -> Result<T, ClientError> {
        let body = serde_json::to_value(body).map_err(|error| ClientError::Protocol(error.to_string()))?;
        self.write_at("/market", Method::POST, path, &[], Some(&body)).await
    }
}
