//! Doing jobs side by side, and reporting what came of each.
//!
//! A job that has ended at the hub, because whoever hired took it back or its time is over, is not begun, and ends its work if it ends
//! meanwhile. Nothing is kept here: what died with the process is asked for at the hub when its inbox is open again, and done once. What
//! the work is, is given to the worker.

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

/// How often a running job is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// So many characters of a reason are told.
const MAX_REASON: usize = 2000;

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
    Refused(JobId, &'a ClientError),
    /// It does not go on with a job that has ended at the hub.
    Left(JobId),
    /// It has a result for whoever asked at its own address.
    Answered(&'a JobResult),
    /// It could not bring a result to its `callback_url`, and why; whoever asks again gets it.
    NotCalledBack(JobId, &'a str),
    /// It could not ask which jobs are open; those that were in hand before wait until it is connected anew.
    NotAsked(&'a ClientError),
    /// It did not take a job, because too many wait; it ends by its deadline.
    TooMany(JobId),
}

/// What makes the output data of a job, or says why it failed.
type Work = dyn Fn(JobHandout) -> BoxFuture<'static, Result<Value, String>> + Send + Sync;

/// Whoever does jobs.
#[derive(Clone)]
pub struct JobWorker {
    pub(super) hub: Client,
    pub(super) work: Arc<Work>,
    pub(super) tell: Arc<dyn Fn(WorkerEvent<'_>) + Send + Sync>,
    pub(super) queue: WorkQueue,
    pub(super) at_once: usize,
    /// What comes again is being done, or was.
    seen: Arc<Mutex<Seen>>,
}

impl JobWorker {
    /// A worker that does so many jobs at once with `work`, and what must be awaited beside so that it does.
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

    /// Takes the jobs that come to the agent's inbox, until that ends.
    pub async fn serve_inbox(&self) -> Result<(), ClientError> {
        let mut inbox = self.hub.inbox(None)?;
        while let Some(item) = inbox.next().await {
            match item? {
                InboxItem::Connected { .. } => {
                    (self.tell)(WorkerEvent::Listening);
                    // Beside what comes meanwhile. If too much waits even for this question, that is done first.
                    self.queue.put(self.clone().take_open()).ok();
                }
                InboxItem::Other { event, data, .. } if EntryKind::parse(&event) == Some(EntryKind::Job) => {
                    // What is no job of the document's form is nobody's work.
                    let Ok(job) = serde_json::from_str::<JobHandout>(&data) else { continue };
                    self.take(job);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes the jobs that are open at the hub: what was in hand when the process before ended.
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

    /// What comes of `work`; nothing if the job has ended at the hub, or does before the work: that is dropped then.
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

    /// Whether a job has ended at the hub, as far as it says so: one that is away now will be there later.
    async fn has_ended(&self, id: JobId) -> bool {
        self.job(id).await.is_ok_and(|job| job.status.known() != Some(JobStatus::Pending))
    }

    /// Reports the result of a job.
    pub async fn report_result(&self, result: &JobResult) -> Result<ResultTaken, ClientError> {
        self.market_post(&["jobs", &result.job_id.to_string(), "result"], result).await
    }
}

/// What is reported of a job. What it cost and how long it took is known to the hub.
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
