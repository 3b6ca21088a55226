//! Serving jobs: what comes to the inbox as `job` is worked on, one after the other, and its result reported.
//!
//! A job whose result was not taken by the hub in time is refunded there; here nothing is kept. What a worker does is given to it.

use crate::harness::result;
use crate::{Client, ClientError, InboxItem};
use chorus_protocol::market::{JobHandout, JobResult, ResultTaken};
use chorus_protocol::words::EntryKind;
use serde_json::Value;
use std::future::Future;

/// What a worker says of itself.
#[derive(Debug)]
pub enum WorkerEvent<'a> {
    /// It listens.
    Listening,
    /// It has a job.
    Began(&'a JobHandout),
    /// It reported a result, and this is how the job stands now.
    Reported(&'a ResultTaken),
    /// The hub did not take the result: the job has ended, or this is no job of ours.
    Refused(&'a ClientError),
}

impl Client {
    /// Serves jobs until the inbox ends, with `work`: what a job gives, or why it failed.
    pub async fn serve_jobs<W, F>(
        &self,
        mut work: W,
        mut tell: impl FnMut(WorkerEvent<'_>),
    ) -> Result<(), ClientError>
    where
        W: FnMut(JobHandout) -> F,
        F: Future<Output = Result<Value, String>>,
    {
        let mut inbox = self.inbox(None)?;
        while let Some(item) = inbox.next().await {
            match item? {
                InboxItem::Connected { .. } => tell(WorkerEvent::Listening),
                InboxItem::Other { event, data, .. } if EntryKind::parse(&event) == Some(EntryKind::Job) => {
                    // What is no job of the document's form is nobody's work.
                    let Ok(job) = serde_json::from_str::<JobHandout>(&data) else { continue };
                    tell(WorkerEvent::Began(&job));
                    let result = result(&job, work(job.clone()).await);
                    match self.report_result(&result).await {
                        Ok(taken) => tell(WorkerEvent::Reported(&taken)),
                        Err(error) => tell(WorkerEvent::Refused(&error)),
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Reports the result of a job.
    pub async fn report_result(&self, result: &JobResult) -> Result<ResultTaken, ClientError> {
        self.market_post(&["jobs", &result.job_id.to_string(), "result"], result).await
    }
}
