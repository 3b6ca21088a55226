//! Telling whoever hired what came of a job, at the address it gave: again and again until it is taken, for a day.

use crate::app::AppState;
use crate::delivery::limits::Cause;
use crate::delivery::outbound::{PostError, Signed, To};
use crate::webhooks;
use chorus_protocol::ids::JobId;
use chorus_protocol::market::{JobResult, JobStatus};
use chorus_protocol::time::rfc3339;
use chorus_store::market::jobs::{self, Job};
use chorus_store::{StoreError, Tx, directory};

/// How long a callback is tried.
const GIVE_UP_MS: i64 = 24 * 60 * 60 * 1000;
/// The pauses between tries: the first, doubling up to the longest.
const FIRST_PAUSE_MS: i64 = 1000;
const LONGEST_PAUSE_MS: i64 = 5 * 60 * 1000;
/// How much longer than a POST may take its lease lasts.
const LEASE_MARGIN_MS: i64 = 15_000;
/// So many are called in one step.
const STEP: i64 = 50;

/// Calls what is due.
pub async fn step(app: &AppState) -> Result<(), StoreError> {
    let now = app.now();
    let due = app
        .store
        .read::<_, StoreError, _>(move |tx: &mut dyn Tx| jobs::find_callbacks(tx, now, STEP))
        .await?;
    for id in due {
        let app = AppState::clone(app);
        app.clone().tasks.spawn(async move {
            if let Err(error) = call(&app, id).await {
                tracing::warn!(error = &error as &dyn std::error::Error, job = %id, "a callback was not recorded");
            }
        });
    }
    Ok(())
}

async fn call(app: &AppState, id: JobId) -> Result<(), StoreError> {
    let now = app.now();
    let until = now + app.config.webhook_timeout.as_millis() as i64 + LEASE_MARGIN_MS;
    let lease = move |tx: &mut dyn Tx| {
        let Some(job) = jobs::lease_callback(tx, id, now, until)? else { return Ok(None) };
        let hirer = job.agreed.orchestrator.map_or(Ok(None), |hirer| directory::by_id(tx, hirer))?;
        Ok(Some((job, hirer)))
    };
    let Some((job, hirer)) = app.store.write::<_, StoreError, _>(lease).await? else { return Ok(()) };
    let sealed = job.agreed.callback.as_deref().unwrap_or_default();
    let again_at = match app.config.master_key.open(id.as_bytes(), sealed) {
        None => None,
        Some(url) => {
            let body =
                serde_json::to_vec(&result(&job)).map_err(|error| StoreError::Unexpected(error.into()))?;
            let secrets = hirer.map(|hirer| webhooks::signing(&app.config.master_key, &hirer, now));
            let message_id = format!("msg_{}", id.0.simple());
            let message = Signed::new(&secrets.unwrap_or_default(), message_id, now, body.into(), false);
            let receiver = job.agreed.orchestrator.unwrap_or(job.agreed.agent);
            let to = To {
                url,
                receiver,
                sender: None,
                cause: Cause::Push,
                proven: !app.config.endpoint_challenge,
            };
            let posted = app.outbound.push(&to, message).await;
            again_at(app, &job, &posted)
        }
    };
    let finish = move |tx: &mut dyn Tx| jobs::finish_callback(tx, id, again_at);
    app.store.write::<_, StoreError, _>(finish).await
}

/// When it is tried again, if it is.
fn again_at(app: &AppState, job: &Job, posted: &Result<(u16, Option<String>), PostError>) -> Option<i64> {
    let now = app.now();
    let over = now >= job.ended_at.unwrap_or(now) + GIVE_UP_MS;
    let may_pass = match posted {
        Ok((200..300, _)) | Err(PostError::Blocked(_)) => false,
        Ok((408 | 425 | 429 | 500..600, _)) | Err(_) => true,
        Ok(_) => false,
    };
    let doublings = job.callback_attempts.clamp(1, 20) - 1;
    let pause = (FIRST_PAUSE_MS << doublings).min(LONGEST_PAUSE_MS);
    (may_pass && !over).then_some(now + pause)
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
        execution_time_ms: None,
        error_message: None,
        timestamp_utc: job.ended_at.map(rfc3339),
    });
    // What the hub made of it: output that breaks its schema is a failure, and what is paid is what was settled.
    (result.status, result.execution_cost) = (job.status, Some(job.paid));
    result.error_message = result.error_message.or(error);
    result
}
