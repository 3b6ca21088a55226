//! The market as its clients see it: an orchestrator's calls, through the hub or straight to an agent, pipelines of jobs within a
//! budget, and serving jobs.
//!
//! A job's id and a transfer's are their idempotency, so every call here may be tried again. Answers are types of
//! `chorus_protocol::market`.

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

/// The pauses between looks at a job that is not done: the first, doubling up to the longest.
const FIRST_LOOK: Duration = Duration::from_millis(100);
const LONGEST_LOOK: Duration = Duration::from_secs(2);

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

    /// The jobs that this agent was hired for and that are open, the oldest first, as they were handed out: whoever was ended in the
    /// middle of one finds it here. No more than can wait for their turn.
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

    /// What offers there are by now.
    pub async fn offers(&self, quote: QuoteId) -> Result<QuoteView, ClientError> {
        self.market_get(&["quotes", &quote.to_string()], &[]).await
    }

    /// Answers as an agent that was asked.
    pub async fn make_offer(&self, quote: QuoteId, offer: &MakeOffer) -> Result<OfferMade, ClientError> {
        self.market_post(&["quotes", &quote.to_string(), "offer"], offer).await
    }

    /// Takes one offer: it becomes a job at its price.
    pub async fn accept(&self, quote: QuoteId, offer: &Accept) -> Result<JobView, ClientError> {
        self.market_post(&["quotes", &quote.to_string(), "accept"], offer).await
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
