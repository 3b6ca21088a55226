//! The result of a job, as POSTed to the hirer's callback address. The pusher delivers it.

use bytes::Bytes;
use chorus_node::App;
use chorus_protocol::market::{JobHandout, JobResult, JobStatus, Timestamp};
use chorus_protocol::time::rfc3339;
use chorus_store::directory::Agent;
use chorus_store::market::agents;
use chorus_store::market::jobs::{self, Job};
use chorus_store::push::Due;
use chorus_store::{StoreError, Tx, conversations};
use serde_json::value::RawValue;

/// A callback to the hirer of a job.
pub struct JobCallback {
    pub url: String,
    /// The JSON of the result.
    pub body: Bytes,
    /// True if an agent hired. An agent that has left gets no callback.
    pub by_agent: bool,
}

/// Returns the due callback, or the reason why there is none.
pub fn pushed(
    tx: &mut dyn Tx,
    app: &App,
    due: &Due,
) -> Result<Result<JobCallback, &'static str>, StoreError> {
    let Some(event) = conversations::event_by_id(tx, due.event)? else {
        return Ok(Err("the job is not kept any more"));
    };
    let Some(job) = of_body(tx, &event.body)? else { return Ok(Err("the job is not kept any more")) };
    let Some(sealed) = job.agreed.callback.as_deref() else {
        return Ok(Err("the callback_url was removed with the agent's old key"));
    };
    let Some(url) = app.config.master_key.open(job.agreed.id.as_bytes(), sealed) else {
        return Ok(Err("the callback_url cannot be read with this hub's master key"));
    };
    let body = serde_json::to_vec(&result(&job)).map_err(|error| StoreError::Unexpected(error.into()))?;
    Ok(Ok(JobCallback { url, body: body.into(), by_agent: job.agreed.orchestrator.is_some() }))
}

/// Returns the agent with the callback URL as its endpoint. If endpoints must be proven, only the proven one
/// counts.
pub fn as_hirer(agent: Agent, url: &str) -> Agent {
    let proven = agent.proven && agent.endpoint.as_deref() == Some(url);
    agents::as_hirer(Agent { proven, ..agent }, url.to_owned())
}

/// Returns the result for the history.
pub fn kept(tx: &mut dyn Tx, body: &str) -> Result<Option<Box<RawValue>>, StoreError> {
    let told = of_body(tx, body)?.map(|job| serde_json::value::to_raw_value(&result(&job)));
    told.transpose().map_err(|error| StoreError::Unexpected(error.into()))
}

/// Returns the job of this event.
pub fn of_body(tx: &mut dyn Tx, body: &str) -> Result<Option<Job>, StoreError> {
    let handout: JobHandout =
        serde_json::from_str(body).map_err(|error| StoreError::Unexpected(error.into()))?;
    jobs::by_id(tx, handout.job_id)
}

/// Returns the document's result, even for a job whose agent gave none.
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
    // The hub's verdict wins: output that breaks its schema is a failure, and the cost is the settled payment.
    (result.status, result.execution_cost) = (job.status, Some(job.paid));
    result.error_message = result.error_message.or(error);
    result
}
