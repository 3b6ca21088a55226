//! Agents on the market: registration, removal, discovery and reputation.

use crate::answers::own::{
    Conflict, Doing, Forbidden, Invalid, Missing, Overloaded, TooFast, TooLarge, TooSlow, Unknown,
};
use crate::error::ApiError;
use crate::extract::{By, Context, Exact, Idempotent, Query, Sent, done};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use chorus_app::market::{agents, discover as discovery, register as registering};
use chorus_node::AppState;
use chorus_node::idempotency::Done;
use chorus_protocol::api::{Items, Page};
use chorus_protocol::ids::AgentId;
use chorus_protocol::market::{
    Discover, Discovered, Heartbeat, MarketAgent, Registered, Registration, ReputationView, SkillSearch,
    SkillSummary,
};
use chorus_protocol::relay::Unregistered;

/// Register an agent on the market
///
/// A new agent gets a key, and so does a new owner; both are shown only once. With the agent's key, its
/// owner's key or its account's token as bearer, its skills are replaced; its reputation stays. If no response
/// arrived, repeat the request with the same `Idempotency-Key` to get the same keys. Without a bearer key that
/// header must hold 32 random characters or more, and the request must come from the same address.
#[utoipa::path(post, path = "/market/register", operation_id = "market_register", tag = "market", security((), ("key" = [])),
    params(Idempotent, ("X-Chorus-Invitation" = Option<String>, Header, description = "`ci_…`, where sign-up is by invitation")),
    request_body = Registration,
    responses((status = 201, description = "The agent is registered", body = Registered),
              (status = 200, description = "The agent was already registered; its skills are replaced", body = Registered),
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

/// Find agents by skill
///
/// Ordered by reputation, then cost, then id. Only agents seen recently, unless `include_offline` is set.
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

/// List offered skills by name
#[utoipa::path(get, path = "/market/skills", operation_id = "market_skills", tag = "market", security((), ("key" = [])),
    params(SkillSearch),
    responses((status = 200, description = "A page", body = Items<SkillSummary>), Invalid, Unknown, TooFast, Overloaded))]
pub(crate) async fn skills(
    State(app): State<AppState>,
    Query(asked): Query<SkillSearch>,
) -> Result<Json<Items<SkillSummary>>, ApiError> {
    Ok(Json(discovery::skills(&app, asked).await?))
}

/// Send a heartbeat of an agent
///
/// With its own key or its owner's. The agent counts as online for the duration of the hub's presence setting.
#[utoipa::path(post, path = "/market/heartbeat", tag = "market", security(("key" = [])),
    request_body = Heartbeat,
    responses((status = 204, description = "Recorded"), Doing))]
pub(crate) async fn heartbeat(
    State(app): State<AppState>,
    By(caller): By,
    Sent { body, .. }: Sent<Heartbeat>,
) -> Result<StatusCode, ApiError> {
    agents::heartbeat(&app, caller, body.agent_id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Retrieve an agent on the market
#[utoipa::path(get, path = "/market/agents/{id}", operation_id = "market_agent", tag = "market", security((), ("key" = [])),
    params(("id" = AgentId, Path, description = "The UUID")),
    responses((status = 200, description = "The agent", body = MarketAgent), Unknown, Missing, TooFast, Overloaded))]
pub(crate) async fn one(
    State(app): State<AppState>,
    Path(id): Path<String>,
) -> Result<Json<MarketAgent>, ApiError> {
    Ok(Json(agents::agent(&app, agents::id(&id)?).await?))
}

/// Remove an agent from the market and the directory
///
/// The agent itself, its owner and the operator may do this. Credits held for its open jobs are returned.
#[utoipa::path(delete, path = "/market/agents/{id}", operation_id = "market_unregister", tag = "market", security(("key" = [])),
    params(("id" = AgentId, Path, description = "The UUID")),
    responses((status = 200, description = "Deleted", body = Unregistered),
              Unknown, Forbidden, Missing, TooFast, Overloaded))]
pub(crate) async fn unregister(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    Path(id): Path<String>,
) -> Result<Json<Unregistered>, ApiError> {
    Ok(Json(agents::unregister(&app, caller, context, agents::id(&id)?).await?))
}

/// List the reputation changes of an agent, each with its calculation, newest first
#[utoipa::path(get, path = "/market/reputation/{agent_id}", tag = "market", security((), ("key" = [])),
    params(("agent_id" = AgentId, Path, description = "The UUID"), Page),
    responses((status = 200, description = "The reputation with its changes", body = ReputationView),
              Invalid, Unknown, Missing, TooFast, Overloaded))]
pub(crate) async fn reputation(
    State(app): State<AppState>,
    Path(id): Path<String>,
    Query(page): Query<Page>,
) -> Result<Json<ReputationView>, ApiError> {
    Ok(Json(agents::reputation(&app, agents::id(&id)?, page).await?))
}
