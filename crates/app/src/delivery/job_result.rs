//! What whoever hired is told of a job, at the address it gave: the document's result. That it gets there is the pusher's business.

use crate::app::App;
use bytes::Bytes;
use chorus_protocol::market::{JobHandout, JobResult, JobStatus, Timestamp};
use chorus_protocol::time::rfc3339;
use chorus_store::directory::Agent;
use chorus_store::market::agents;
use chorus_store::market::jobs::{self, Job};
use chorus_store::push::Due;
use chorus_store::{StoreError, Tx, conversations};
use serde_json::value::RawValue;

/// What is POSTed to whoever hired, and where.
pub struct Callback {
    /// The address.
    pub url: String,
    /// The result.
    pub body: Bytes,
    /// Whether an agent hired: one that is gone by now is called nowhere.
    pub by_agent: bool,
}

/// The callback whose turn it is, or why there is none.
pub fn pushed(tx: &mut dyn Tx, app: &App, due: &Due) -> Result<Result<Callback, &'static str>, StoreError> {
    let Some(event) = conversations::event_by_id(tx, due.event)? else {
        return Ok(Err("the job is not kept any more"));
    };
    let Some(job) = of_body(tx, &event.body)? else { return Ok(Err("the job is not kept any more")) };
    let sealed = job.agreed.callback.as_deref().unwrap_or_default();
    let Some(url) = app.config.master_key.open(job.agreed.id.as_bytes(), sealed) else {
        return Ok(Err("the callback_url cannot be read with this hub's master key"));
    };
    let body = serde_json::to_vec(&result(&job)).map_err(|error| StoreError::Unexpected(error.into()))?;
    Ok(Ok(Callback { url, body: body.into(), by_agent: job.agreed.orchestrator.is_some() }))
}

/// The agent as it is called back. Where endpoints must be proven, only the one that was is.
pub fn as_hirer(agent: Agent, url: &str) -> Agent {
    let proven = agent.proven && agent.endpoint.as_deref() == Some(url);
    agents::as_hirer(Agent { proven, ..agent }, url.to_owned())
}

/// The same as the history shows it.
pub fn kept(tx: &mut dyn Tx, body: &str) -> Result<Option<Box<RawValue>>, StoreError> {
    let told = of_body(tx, body)?.map(|job| serde_json::value::to_raw_value(&result(&job)));
    told.transpose().map_err(|error| StoreError::Unexpected(error.into()))
}

/// The job whose event has this body.
pub fn of_body(tx: &mut dyn Tx, body: &str) -> Result<Option<Job>, StoreError> {
    let handout: JobHandout =
        serde_json::from_str(body).map_err(|error| StoreError::Unexpected(error.into()))?;
    jobs::by_id(tx, handout.job_id)
}

/// The document's result, also of a job for which its agent gave none.
fn result(job: &Job) -> JobResult {
    let given = job.result.as_deref().and_then(|given| serde_json::from_str::<JobResult>(given).ok());
    let error = job.error.as_ref().map(|(code, message)| format!("{code}: {message}"));
    let mut result = given.unwrap_or(JobResult {
        job_id: job.agreed.id,
        agent_id: Some(job.agreed.agent),
        status: JobStatus::Failure,
        output_data: None,
        execution_cost: None,
        execution_time_ms: job.ended_at.map(|ended| ended - job.agreed.created_at),
        error_message: None,
        timestamp_utc: job.ended_at.map(rfc3339).map(Timestamp),
    });
    // What the hub made of it: output that breaks its schema is a failure, and what is paid is what was settled.
    (result.status, result.execution_cost) = (job.status, Some(job.paid));
    result.error_message = result.error_message.or(error);
    result
}
