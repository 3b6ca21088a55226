//! Taking what came of a job: from its agent, by its key or by the address it was given; at once as the answer to the POST, or
//! later. A job ends once: what comes too late moves nothing, what comes twice is the same.

use super::jobs::{self as views, Part};
use super::settle::{self, Ended};
use super::who;
use crate::app::{App, AppState};
use crate::caller::Caller;
use crate::error::Error;
use crate::usage::event_bytes;
use chorus_market::escrow::Verdict;
use chorus_market::schema;
use chorus_protocol::channel::CallbackEvent;
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AgentId, JobId};
use chorus_protocol::market::{JobHandout, JobResult, JobStatus, ResultTaken};
use chorus_protocol::schema::read_exact;
use chorus_protocol::time::rfc3339;
use chorus_store::market::jobs::{self, Job};
use chorus_store::push::Due;
use chorus_store::{Tx, conversations};
use serde_json::Value;
use std::sync::{Arc, Weak};

/// As much of the answer to a job is read as its result.
pub const MAX_ANSWER: usize = 256 * 1024;

/// The agent that may report a job's result at an address that ends like this.
pub fn agent_of(app: &App, job: JobId, token: &str) -> Option<AgentId> {
    app.config.master_key.read_job_token(job, token)
}

/// An address that is none of ours.
pub fn no_address() -> Error {
    Error::new(
        Code::NotFound,
        "there is no such address; post to the `callback_url` that came with the job, as it is",
    )
}

/// Takes a result from whoever is hired, or its owner.
pub async fn report(
    app: &AppState,
    caller: Caller,
    id: JobId,
    result: JobResult,
) -> Result<ResultTaken, Error> {
    if !caller.is_known() {
        return Err(who::no_key());
    }
    let hub = Arc::clone(app);
    let work = move |tx: &mut dyn Tx| {
        let job = jobs::by_id(tx, id)?.ok_or_else(views::unknown)?;
        match views::part(tx, &caller, &job)? {
            Some(Part::Worker) => {}
            // Whoever hires itself is both.
            Some(Part::Hirer) if job.agreed.payer == job.agreed.payee => {}
            Some(Part::Hirer) => {
                return Err(Error::new(Code::Forbidden, "only the agent that is hired reports the result"));
            }
            None => return Err(views::unknown()),
        }
        take(tx, &hub, &job, &result)
    };
    app.store.write::<_, Error, _>(work).await
}

/// Takes a result from the agent that was given the job.
pub async fn take_from(
    app: &AppState,
    agent: AgentId,
    id: JobId,
    result: JobResult,
) -> Result<ResultTaken, Error> {
    let hub = Arc::clone(app);
    let work = move |tx: &mut dyn Tx| {
        let job = jobs::by_id(tx, id)?.filter(|job| job.agreed.agent == agent).ok_or_else(views::unknown)?;
        take(tx, &hub, &job, &result)
    };
    app.store.write::<_, Error, _>(work).await
}

/// Takes a result in this transaction.
pub fn take(tx: &mut dyn Tx, app: &App, job: &Job, result: &JobResult) -> Result<ResultTaken, Error> {
    let agreed = &job.agreed;
    let mut faults = Faults::new();
    if result.job_id != agreed.id {
        faults.add("job_id", "is another job's");
    }
    if result.agent_id.is_some_and(|agent| agent != agreed.agent) {
        faults.add("agent_id", "is another agent's");
    }
    if !faults.is_empty() {
        return Err(faults.into());
    }
    let taken =
        |job: &Job| ResultTaken { job_id: job.agreed.id, status: job.status.into(), settled: job.paid };
    if result.status == JobStatus::Pending {
        return Ok(taken(job));
    }
    let again = |job: &Job| if is_same(job, result) { Ok(taken(job)) } else { Err(late()) };
    if job.status != JobStatus::Pending {
        return again(job);
    }
    let now = app.now();
    if now >= agreed.deadline_at {
        return Err(late());
    }
    let (verdict, mut ended) = judge(job, result);
    let filled = filled(job, result, now);
    let size = serde_json::to_string(&filled).map_err(Error::internal)?.len();
    app.count_bytes(tx, agreed.agent.into(), event_bytes(size))?;
    ended.result = Some(filled);
    let settled = settle::settle(tx, app, job, verdict, &ended)?;
    let job = jobs::by_id(tx, agreed.id)?.ok_or_else(views::unknown)?;
    // Otherwise the same may have come by another node in the meantime.
    if settled { Ok(taken(&job)) } else { again(&job) }
}

fn late() -> Error {
    Error::new(Code::Conflict, "the job has ended: this result comes too late, and nothing was moved")
}

/// What a result means.
fn judge(job: &Job, result: &JobResult) -> (Verdict, Ended) {
    if result.status == JobStatus::Failure {
        let message = result.error_message.clone().unwrap_or_else(|| "the agent reported a failure".into());
        return (Verdict::Failed, Ended::because(Code::ExecutionError.as_str(), message));
    }
    let declared = super::discover::declared(job.agreed.output_schema.as_deref());
    let output = result.output_data.as_ref().unwrap_or(&Value::Null);
    match schema::check(declared.as_ref(), output, "output_data") {
        Ok(()) => (Verdict::Done(result.execution_cost), Ended::default()),
        Err(faults) => {
            let message = format!("the output is not what the skill declares: {faults}");
            (Verdict::BrokenOutput, Ended::because(Code::ExecutionError.as_str(), message))
        }
    }
}

/// The result with what the hub knows of it.
fn filled(job: &Job, result: &JobResult, now: i64) -> JobResult {
    JobResult {
        agent_id: Some(job.agreed.agent),
        execution_cost: result
            .execution_cost
            .or((result.status == JobStatus::Success).then_some(job.agreed.price)),
        execution_time_ms: result.execution_time_ms.or(Some(now - job.agreed.created_at)),
        timestamp_utc: result.timestamp_utc.clone().or_else(|| Some(rfc3339(now))),
        ..result.clone()
    }
}

/// Whether a job ended by this very result.
fn is_same(job: &Job, result: &JobResult) -> bool {
    let kept: Option<JobResult> = job.result.as_deref().and_then(|kept| serde_json::from_str(kept).ok());
    kept.is_some_and(|kept| {
        let again = filled(job, result, 0);
        let said = |result: &JobResult| {
            (result.status, result.output_data.clone(), result.execution_cost, result.error_message.clone())
        };
        said(&kept) == said(&again)
    })
}

/// What an agent that knows the Channel Protocol only says back: an object, or a text.
pub fn of_text(job: JobId, text: &str) -> JobResult {
    let output = serde_json::from_str(text.trim()).ok().filter(Value::is_object);
    let output = output.unwrap_or_else(|| serde_json::json!({"text": text}));
    JobResult {
        job_id: job,
        agent_id: None,
        status: JobStatus::Success,
        output_data: Some(output),
        execution_cost: None,
        execution_time_ms: None,
        error_message: None,
        timestamp_utc: None,
    }
}

/// What an agent answered to the POST of a job, if that is a result; anything else says no more than that it took the job.
pub async fn answered(app: &AppState, agent: AgentId, answer: &[u8]) {
    let Ok(result) = read_exact::<JobResult>(answer) else { return };
    let id = result.job_id;
    if let Err(error) = take_from(app, agent, id, result).await {
        tracing::info!(job = %id, error = error.message, "an answer to a job was not taken as its result");
    }
}

/// The agent will never take this job: it fails at once.
pub fn refused(tx: &mut dyn Tx, app: &Weak<App>, due: &Due, why: Option<&str>) -> Result<(), Error> {
    let Some(app) = app.upgrade() else { return Ok(()) };
    let Some(event) = conversations::event_by_id(tx, due.event)? else { return Ok(()) };
    let handout: JobHandout = serde_json::from_str(&event.body).map_err(Error::internal)?;
    let Some(job) = jobs::by_id(tx, handout.job_id)? else { return Ok(()) };
    let why = format!("the agent did not take the job: {}", why.unwrap_or("it refused"));
    settle::settle(tx, &app, &job, Verdict::Failed, &Ended::because(Code::ExecutionError.as_str(), why))?;
    Ok(())
}

/// What an agent says by its callback about a job that came as a channel message: a text is the result, an error is a failure.
pub fn said(tx: &mut dyn Tx, app: &App, handout: &str, event: &CallbackEvent) -> Result<(), Error> {
    let handout: JobHandout = serde_json::from_str(handout).map_err(Error::internal)?;
    let result = match event {
        CallbackEvent::Message { content } => of_text(handout.job_id, content),
        CallbackEvent::Error { message, .. } => JobResult {
            status: JobStatus::Failure,
            output_data: None,
            error_message: Some(message.chars().take(2000).collect()),
            ..of_text(handout.job_id, "")
        },
        // What it does meanwhile is nobody's business.
        _ => return Ok(()),
    };
    let job = jobs::by_id(tx, handout.job_id)?.ok_or_else(views::unknown)?;
    take(tx, app, &job, &result).map(drop)
}
