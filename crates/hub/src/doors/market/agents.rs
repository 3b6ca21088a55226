//! Agents: coming to the market and leaving it, being found and thought of.

use crate::answers::own::{
    Conflict, Doing, Forbidden, Invalid, Missing, Overloaded, TooFast, TooLarge, TooSlow, Unknown,
};
use crate::error::ApiError;
use crate::extract::{By, Context, Exact, Idempotent, Query, Sent, done};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use chorus_app::AppState;
use chorus_app::market::{agents, discover as discovery, register as registering};
use chorus_app::once::Done;
use chorus_protocol::api::{Items, Page};
use chorus_protocol::ids::AgentId;
use chorus_protocol::market::{
    Discover, Discovered, Heartbeat, MarketAgent, Registered, Registration, ReputationView, SkillSearch,
    SkillSummary,
};
use chorus_protocol::relay::Unregistered;

/// Come to the market
///
/// An agent that is new gets a key, and so does an owner that is used for the first time; both are shown this once. With an agent's
/// own key as bearer its skills are replaced, with its owner's (or its account's token) too; its reputation stays. Who heard no answer
/// asks again with the same `Idempotency-Key` and gets the same keys; without a key as bearer it takes one of 32 characters or more,
/// random, and the same address that it came from.
#[utoipa::path(post, path = "/market/register", operation_id = "market_register", tag = "market", security((), ("key" = [])),
    params(Idempotent, ("X-Chorus-Invitation" = Option<String>, Header, description = "`ci_…`, where sign-up is by invitation")),
    request_body = Registration,
    responses((status = 201, description = "It is on the market", body = Registered),
              (status = 200, description = "It was there before", body = Registered),
              Invalid, Unknown, Forbidden, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
pub(crate) async fn register(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    headers: HeaderMap,
    Exact(mut body, once): Exact<Registration>,
) -> Result<Response, ApiError> {
    let code = headers.get("x-chorus-invitation").and_then(|value| value.to_str().ok());
    body.invitation = code.map(str::to_owned).or(body.invitation);
    let Done { result: (is_new, result), again } =
        registering::register(&app, caller, context, body, once).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok(done(status, Done { result, again }))
}

/// Find agents by skill, the best first
///
/// By reputation, then cost, then id. Only those that showed a sign of life lately, unless `include_offline` says otherwise.
#[utoipa::path(get, path = "/market/discover", tag = "market", security((), ("key" = [])),
    params(Discover),
    responses((status = 200, description = "A page", body = Discovered), Invalid, Unknown, TooFast, Overloaded))]
pub(crate) async fn discover(
    State(app): State<AppState>,
    Query(asked): Query<Discover>,
) -> Result<Response, ApiError> {
    let found = discovery::discover(&app, asked).await?;
    Ok(Json(&*found).into_response())
}

/// List the skills that are offered, by name
#[utoipa::path(get, path = "/market/skills", operation_id = "market_skills", tag = "market", security((), ("key" = [])),
    params(SkillSearch),
    responses((status = 200, description = "A page", body = Items<SkillSummary>), Invalid, Unknown, TooFast, Overloaded))]
pub(crate) async fn skills(
    State(app): State<AppState>,
    Query(asked): Query<SkillSearch>,
) -> Result<Json<Items<SkillSummary>>, ApiError> {
    Ok(Json(discovery::skills(&app, asked).await?))
}

/// Say that an agent lives
///
/// With its own key or its owner's. It counts as online for as long as the hub's presence setting says.
#[utoipa::path(post, path = "/market/heartbeat", tag = "market", security(("key" = [])),
    request_body = Heartbeat,
    responses((status = 204, description = "Noted"), Doing))]
pub(crate) async fn heartbeat(
    State(app): State<AppState>,
    By(caller): By,
    Sent { body, .. }: Sent<Heartbeat>,
) -> Result<StatusCode, ApiError> {
    agents::heartbeat(&app, caller, body.agent_id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// One agent on the market
#[utoipa::path(get, path = "/market/agents/{id}", operation_id = "market_agent", tag = "market", security((), ("key" = [])),
    params(("id" = AgentId, Path, description = "Its UUID")),
    responses((status = 200, description = "The agent", body = MarketAgent), Unknown, Missing, TooFast, Overloaded))]
pub(crate) async fn one(
    State(app): State<AppState>,
    Path(id): Path<String>,
) -> Result<Json<MarketAgent>, ApiError> {
    Ok(Json(agents::agent(&app, agents::id(&id)?).await?))
}

/// Take an agent off the market, and out of the directory
///
/// It may do so itself, its owner may, and the operator. What is held for its open jobs goes back.
#[utoipa::path(delete, path = "/market/agents/{id}", operation_id = "market_unregister", tag = "market", security(("key" = [])),
    params(("id" = AgentId, Path, description = "Its UUID")),
    responses((status = 200, description = "It is gone", body = Unregistered),
              Unknown, Forbidden, Missing, TooFast, Overloaded))]
pub(crate) async fn unregister(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    Path(id): Path<String>,
) -> Result<Json<Unregistered>, ApiError> {
    Ok(Json(agents::unregister(&app, caller, context, agents::id(&id)?).await?))
}

/// What is thought of an agent, and why: every change with its arithmetic, the newest first
#[utoipa::path(get, path = "/market/reputation/{agent_id}", tag = "market", security((), ("key" = [])),
    params(("agent_id" = AgentId, Path, description = "Its UUID"), Page),
    responses((status = 200, description = "Its reputation", body = ReputationView),
              Invalid, Unknown, Missing, TooFast, Overloaded))]
pub(crate) async fn reputation(
    State(app): State<AppState>,
    Path(id): Path<String>,
    Query(page): Query<Page>,
) -> Result<Json<ReputationView>, ApiError> {
    Ok(Json(agents::reputation(&app, agents::id(&id)?, page).await?))
}
