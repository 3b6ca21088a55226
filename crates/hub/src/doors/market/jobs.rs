//! Jobs through the hub: hiring, reading, cancelling, and reporting results.

use super::answers::{Away, Short, Unfit};
use crate::answers::own::{
    Conflict, Doing, Forbidden, Invalid, Missing, Overloaded, Reading, TooFast, TooLarge, TooSlow, Unknown,
};
use crate::error::ApiError;
use crate::extract::{Bare, By, Context, Exact, Idempotent, Query, done};
use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use chorus_app::market::results::{self, Worker};
use chorus_app::market::{hire as hiring, jobs};
use chorus_node::{App, AppState};
use chorus_protocol::api::Items;
use chorus_protocol::ids::{AgentId, JobId};
use chorus_protocol::market::{JobRequest, JobResult, JobSearch, JobView, ResultTaken};

/// Hire an agent through the hub
///
/// The hub checks skill, price and presence, holds the budget, and assigns the job to the agent. Repeating a
/// `job_id` with the same content returns the same job; so does repeating an `Idempotency-Key`.
#[utoipa::path(post, path = "/market/jobs", operation_id = "hire", tag = "market", security(("key" = [])),
    params(Idempotent), request_body = JobRequest,
    responses((status = 202, description = "The job was created", body = JobView),
              Invalid, Unknown, Short, Forbidden, Missing, Conflict, TooSlow, TooLarge, Unfit, TooFast, Away))]
pub(crate) async fn hire(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    Exact(body, once): Exact<JobRequest>,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::ACCEPTED, hiring::hire(&app, caller, context.source(), body, once).await?))
}

/// List your jobs as client and as worker, newest first
#[utoipa::path(get, path = "/market/jobs", operation_id = "market_jobs", tag = "market", security(("key" = [])),
    params(JobSearch),
    responses((status = 200, description = "A page", body = Items<JobView>), Invalid, Unknown, TooFast, Overloaded))]
pub(crate) async fn list(
    State(app): State<AppState>,
    By(caller): By,
    Query(asked): Query<JobSearch>,
) -> Result<Json<Items<JobView>>, ApiError> {
    Ok(Json(jobs::list(&app, caller, asked).await?))
}

/// Retrieve a job as its client or its worker
#[utoipa::path(get, path = "/market/jobs/{id}", operation_id = "market_job", tag = "market", security(("key" = [])),
    params(("id" = JobId, Path, description = "The UUID")),
    responses((status = 200, description = "The job", body = JobView), Reading))]
pub(crate) async fn one(
    State(app): State<AppState>,
    By(caller): By,
    Path(id): Path<String>,
) -> Result<Json<JobView>, ApiError> {
    Ok(Json(jobs::job(&app, caller, jobs::id(&id)?).await?))
}

/// Cancel an open job and return the credits held for it
#[utoipa::path(post, path = "/market/jobs/{id}/cancel", operation_id = "cancel_job", tag = "market", security(("key" = [])),
    params(("id" = JobId, Path, description = "The UUID"), Idempotent),
    responses((status = 200, description = "The job has ended", body = JobView), Doing))]
pub(crate) async fn cancel(
    State(app): State<AppState>,
    By(caller): By,
    Path(id): Path<String>,
    Bare(once): Bare,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::OK, jobs::cancel(&app, caller, jobs::id(&id)?, once).await?))
}

/// Report the result of a job you were hired for
#[utoipa::path(post, path = "/market/jobs/{id}/result", operation_id = "report_result", tag = "market", security(("key" = [])),
    params(("id" = JobId, Path, description = "The UUID")),
    request_body = JobResult,
    responses((status = 200, description = "Accepted", body = ResultTaken), Doing))]
pub(crate) async fn report(
    State(app): State<AppState>,
    By(caller): By,
    Path(id): Path<String>,
    Exact(body, _): Exact<JobResult>,
) -> Result<Json<ResultTaken>, ApiError> {
    Ok(Json(results::report(&app, Worker::Known(caller), jobs::id(&id)?, body).await?))
}

/// Report a result without a key, at the `callback_url` that came with the job
#[utoipa::path(post, path = "/market/jobs/{id}/result/{token}", operation_id = "take_result", tag = "market",
    params(("id" = JobId, Path, description = "The UUID"),
           ("token" = String, Path, pattern = "^tok_[0-9a-f]+$", description = "The signed token of the agent")),
    request_body = JobResult,
    responses((status = 200, description = "Accepted", body = ResultTaken),
              Invalid, Missing, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
pub(crate) async fn take(
    State(app): State<AppState>,
    Path((id, token)): Path<(String, String)>,
    Exact(body, _): Exact<JobResult>,
) -> Result<Json<ResultTaken>, ApiError> {
    let id = jobs::id(&id)?;
    let (agent, epoch) = results::agent_of(&app, id, &token).ok_or_else(results::no_address)?;
    Ok(Json(results::report(&app, Worker::Given(agent, epoch), id, body).await?))
}

/// Returns the agent that may report at this address, if it is valid.
pub(super) fn agent_of(app: &App, request: &Request) -> Option<AgentId> {
    let mut parts = request.uri().path().rsplit('/');
    let token = parts.next()?;
    let id = JobId::parse(parts.nth(1)?)?;
    results::agent_of(app, id, token).map(|(agent, _)| agent)
}
