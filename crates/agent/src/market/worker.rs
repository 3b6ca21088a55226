//! Does jobs in parallel and reports their results.
//!
//! A job that has ended at the hub, because it was cancelled or its time is over, is not started, and is
//! cancelled if it is running. Nothing is stored here: jobs left by a process that died are requested from the
//! hub when its inbox is open again, and done once. The caller provides the work.

use super::queue::{TurnedAway, WorkQueue};
use crate::seen::{REMEMBERED, Seen};
use crate::{Client, ClientError, InboxItem};
use chorus_protocol::ids::JobId;
use chorus_protocol::market::{JobHandout, JobResult, JobStatus, ResultTaken};
use chorus_protocol::words::EntryKind;
use futures_util::future::BoxFuture;
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The interval for checking whether a running job has ended at the hub.
const LOOK: Duration = Duration::from_secs(1);
/// The longest reason that is reported, in characters.
const MAX_REASON: usize = 2000;

/// An event of a worker.
#[derive(Debug)]
pub enum WorkerEvent<'a> {
    Listening,
    /// A job has started.
    Began(&'a JobHandout),
    /// A result was reported. Contains the new state of the job.
    Reported(&'a ResultTaken),
    /// The hub did not accept the result: the job has ended, or is not this agent's.
    Refused(JobId, &'a ClientError),
    /// The worker stopped a job that has ended at the hub.
    Left(JobId),
    /// The worker has the result of a job requested at its own address.
    Answered(&'a JobResult),
    /// A job takes longer than its request waits. Its result goes to the `callback_url`.
    Deferred(JobId),
    /// A result could not be sent to its `callback_url`, and why. A repeated request returns it.
    NotCalledBack(JobId, &'a str),
    /// The open jobs could not be requested. They are taken after the next reconnection.
    NotAsked(&'a ClientError),
    /// A job was not taken because too many wait. It ends by its deadline.
    TooMany(JobId),
}

/// A function that produces the output data of a job, or the reason of its failure.
type Work = dyn Fn(JobHandout) -> BoxFuture<'static, Result<Value, String>> + Send + Sync;

/// A worker that does jobs.
#[derive(Clone)]
pub struct JobWorker {
    pub(super) hub: Client,
    pub(super) work: Arc<Work>,
    pub(super) tell: Arc<dyn Fn(WorkerEvent<'_>) + Send + Sync>,
    pub(super) queue: WorkQueue,
    pub(super) at_once: usize,
    /// The ids of jobs that are in progress or done, to drop duplicates.
    seen: Arc<Mutex<Seen>>,
}

impl JobWorker {
    /// Creates a worker that does `at_once` jobs in parallel with `work`, and the future that must be polled
    /// for that.
    pub fn new<F>(
        hub: &Client,
        at_once: usize,
        work: impl Fn(JobHandout) -> F + Send + Sync + 'static,
        tell: impl Fn(WorkerEvent<'_>) + Send + Sync + 'static,
    ) -> (Self, impl Future<Output = ()> + Send)
    where
        F: Future<Output = Result<Value, String>> + Send + 'static,
    {
        let (queue, serve) = WorkQueue::start(at_once);
        let work: Arc<Work> = Arc::new(move |job| Box::pin(work(job)));
        let seen = Arc::new(Mutex::new(Seen::new(REMEMBERED)));
        (Self { hub: hub.clone(), work, tell: Arc::new(tell), queue, at_once, seen }, serve)
    }

    /// Takes the jobs that come to the agent's inbox, until the inbox ends.
    pub async fn serve_inbox(&self) -> Result<(), ClientError> {
        let mut inbox = self.hub.inbox(None)?;
        while let Some(item) = inbox.next().await {
            match item? {
                InboxItem::Connected { .. } => {
                    (self.tell)(WorkerEvent::Listening);
                    // This runs beside new jobs. If the queue is full, its jobs are done first.
                    self.queue.put(self.clone().take_open()).ok();
                }
                InboxItem::Other { event, data, .. } if EntryKind::parse(&event) == Some(EntryKind::Job) => {
                    // Data that is not a valid job is ignored.
                    let Ok(job) = serde_json::from_str::<JobHandout>(&data) else { continue };
                    self.take(job);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes the jobs that are open at the hub, such as those left by a process that died.
    async fn take_open(self) {
        match self.hub.open_jobs().await {
            Ok(open) => open.into_iter().for_each(|job| self.take(job)),
            Err(error) => (self.tell)(WorkerEvent::NotAsked(&error)),
        }
    }

    fn take(&self, job: JobHandout) {
        if !self.seen.lock().unwrap_or_else(PoisonError::into_inner).is_new(&job.job_id.to_string()) {
            return;
        }
        let (worker, id) = (self.clone(), job.job_id);
        let work = async move { worker.hub.do_job(&job, || (worker.work)(job.clone()), &*worker.tell).await };
        match self.queue.put(work) {
            Err(TurnedAway::Full) => (self.tell)(WorkerEvent::TooMany(id)),
            Ok(()) | Err(TurnedAway::Ended) => {}
        }
    }
}

impl Client {
    /// Does a job of this hub and reports its result, unless it has ended there.
    pub(crate) async fn do_job<F>(
        &self,
        job: &JobHandout,
        work: impl FnOnce() -> F,
        tell: impl Fn(WorkerEvent<'_>),
    ) where
        F: Future<Output = Result<Value, String>>,
    {
        let work = || {
            tell(WorkerEvent::Began(job));
            work()
        };
        let Some(done) = self.unless_ended(job.job_id, work).await else {
            return tell(WorkerEvent::Left(job.job_id));
        };
        match self.report_result(&result(job, done)).await {
            Ok(taken) => tell(WorkerEvent::Reported(&taken)),
            Err(error) => tell(WorkerEvent::Refused(job.job_id, &error)),
        }
    }

    /// Runs `work` and returns its result. Returns `None` if the job has ended at the hub, or ends before the
    /// work does; the work is dropped then.
    pub(super) async fn unless_ended<F: Future>(
        &self,
        id: JobId,
        work: impl FnOnce() -> F,
    ) -> Option<F::Output> {
        if self.has_ended(id).await {
            return None;
        }
        let ended = async {
            loop {
                tokio::time::sleep(LOOK).await;
                if self.has_ended(id).await {
                    return;
                }
            }
        };
        tokio::select! {
            done = work() => Some(done),
            () = ended => None,
        }
    }

    /// Checks whether a job has ended at the hub. An unreachable hub counts as no.
    async fn has_ended(&self, id: JobId) -> bool {
        self.job(id).await.is_ok_and(|job| job.status.known() != Some(JobStatus::Pending))
    }

    /// Reports the result of a job.
    pub async fn report_result(&self, result: &JobResult) -> Result<ResultTaken, ClientError> {
        self.market_post(&["jobs", &result.job_id.to_string(), "result"], result).await
    }
}

/// Builds the report of a job. The hub knows its cost and duration.
pub(super) fn result(job: &JobHandout, done: Result<Value, String>) -> JobResult {
    let (status, output_data, error_message) = match done {
        Ok(output) => (JobStatus::Success, Some(output), None),
        Err(why) => (JobStatus::Failure, None, Some(why.chars().take(MAX_REASON).collect())),
    };
    JobResult {
        job_id: job.job_id,
        agent_id: job.agent_id,
        status,
        output_data,
        execution_cost: None,
        execution_time_ms: None,
        error_message,
        timestamp_utc: None,
    }
}
