//! Jobs through the hub: asking for one, looking at it, taking it back, and its result.

use super::answers::{Away, Short, Unfit};
use crate::answers::own::{
    Conflict, Doing, Forbidden, Invalid, Missing, Overloaded, Reading, TooFast, TooLarge, TooSlow, Unknown,
};
use crate::error::ApiError;
use crate::extract::{Bare, By, Exact, Query};
use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use chorus_app::market::results::{self, Worker};
use chorus_app::market::{hire as hiring, jobs};
use chorus_app::{App, AppState};
use chorus_protocol::api::Items;
use chorus_protocol::ids::{AgentId, JobId};
use chorus_protocol::market::{JobRequest, JobResult, JobSearch, JobView, ResultTaken};

/// Hire an agent through the hub
///
/// Skill, price and presence are checked, the budget is held, and the job is handed to the agent. The same `job_id` with the same
/// content is the same job, however often it is sent.
#[utoipa::path(post, path = "/market/jobs", operation_id = "hire", tag = "market", security(("key" = [])),
    request_body = JobRequest,
    responses((status = 202, description = "The agent is hired", body = JobView),
              Invalid, Unknown, Short, Forbidden, Missing, Conflict, TooSlow, TooLarge, Unfit, TooFast, Away))]
pub(crate) async fn hire(
    State(app): State<AppState>,
    By(caller): By,
    Exact(body, _): Exact<JobRequest>,
) -> Result<(StatusCode, Json<JobView>), ApiError> {
    Ok((StatusCode::ACCEPTED, Json(hiring::hire(&app, caller, body).await?)))
}

/// List your jobs, the newest first: those you asked for and those you were asked for
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

/// One job, for whoever hires or is hired
#[utoipa::path(get, path = "/market/jobs/{id}", operation_id = "market_job", tag = "market", security(("key" = [])),
    params(("id" = JobId, Path, description = "Its UUID")),
    responses((status = 200, description = "The job", body = JobView), Reading))]
pub(crate) async fn one(
    State(app): State<AppState>,
    By(caller): By,
    Path(id): Path<String>,
) -> Result<Json<JobView>, ApiError> {
    Ok(Json(jobs::job(&app, caller, jobs::id(&id)?).await?))
}

/// Take a job back while it is open; what is held for it goes back
#[utoipa::path(post, path = "/market/jobs/{id}/cancel", operation_id = "cancel_job", tag = "market", security(("key" = [])),
    params(("id" = JobId, Path, description = "Its UUID")),
    responses((status = 200, description = "It has ended", body = JobView), Doing))]
pub(crate) async fn cancel(
    State(app): State<AppState>,
    By(caller): By,
    Path(id): Path<String>,
    _: Bare,
) -> Result<Json<JobView>, ApiError> {
    Ok(Json(jobs::cancel(&app, caller, jobs::id(&id)?).await?))
}

/// Report the result of a job you were hired for
#[utoipa::path(post, path = "/market/jobs/{id}/result", operation_id = "report_result", tag = "market", security(("key" = [])),
    params(("id" = JobId, Path, description = "Its UUID")),
    request_body = JobResult,
    responses((status = 200, description = "Taken", body = ResultTaken), Doing))]
pub(crate) async fn report(
    State(app): State<AppState>,
    By(caller): By,
    Path(id): Path<String>,
    Exact(body, _): Exact<JobResult>,
) -> Result<Json<ResultTaken>, ApiError> {
    Ok(Json(results::report(&app, Worker::Known(caller), jobs::id(&id)?, body).await?))
}

/// The same without a key, at the `callback_url` that came with the job
#[utoipa::path(post, path = "/market/jobs/{id}/result/{token}", operation_id = "take_result", tag = "market",
    params(("id" = JobId, Path, description = "Its UUID"),
           ("token" = String, Path, pattern = "^tok_[0-9a-f]+$", description = "What proves the agent")),
    request_body = JobResult,
    responses((status = 200, description = "Taken", body = ResultTaken),
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

/// The agent that may report at this address, if it is one that we made.
pub(super) fn agent_of(app: &App, request: &Request) -> Option<AgentId> {
    let mut parts = request.uri().path().rsplit('/');
    let token = parts.next()?;
    let id = JobId::parse(parts.nth(1)?)?;
    results::agent_of(app, id, token).map(|(agent, _)| agent)
}
