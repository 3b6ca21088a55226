//! Agents from their owners' view: creating, finding and claiming them.

mod allowance;
mod connection;
mod harness;

use crate::answers::own::{
    Conflict, Doing, Forbidden, Invalid, Missing, Overloaded, Reading, TooFast, TooLarge, TooSlow, Unknown,
};
use crate::error::ApiError;
use crate::extract::{Context, Idempotent, Known, Person, Query, Sent, done, query};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use chorus_app::agents;
use chorus_app::conversation;
use chorus_node::AppState;
use chorus_protocol::api::Items;
use chorus_protocol::api::agents::{
    AgentAddress, AgentChange, AgentProof, AgentSearch, AgentView, MadeAgent, NewAgent,
};
use chorus_protocol::api::messages::StopResult;
use chorus_protocol::faults::Faults;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .at(Route::API, routes!(create, list))
        .at(Route::API, routes!(claim))
        .at(Route::API, routes!(one, change))
        .at(Route::API, routes!(remove_endpoint))
        .at(Route::API, routes!(stop))
        .and(allowance::routes())
        .and(connection::routes())
        .and(harness::routes())
}

/// Create an agent
///
/// It belongs to your account. Its key and its connection string for other services are shown only once.
#[utoipa::path(post, path = "/api/v1/agents", operation_id = "create_agent", tag = "agents", security(("key" = [])),
    params(Idempotent),
    request_body = NewAgent,
    responses((status = 201, description = "Created", body = MadeAgent),
              Invalid, Unknown, Forbidden, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
async fn create(
    State(app): State<AppState>,
    Person(person): Person,
    Context(context): Context,
    Sent { body, once }: Sent<NewAgent>,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::CREATED, agents::make(&app, &person, context, body, once).await?))
}

/// List the agents of this hub
///
/// In the order of their names. With filters a page may hold fewer agents than `limit`, or none, although more
/// follow: only an absent `next` ends the list.
#[utoipa::path(get, path = "/api/v1/agents", operation_id = "list_agents", tag = "agents", security(("key" = [])),
    params(AgentSearch),
    responses((status = 200, description = "A page", body = Items<AgentView>),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
async fn list(
    State(app): State<AppState>,
    Known(caller): Known,
    Query(search): Query<AgentSearch>,
    uri: Uri,
) -> Result<Json<Items<AgentView>>, ApiError> {
    // The market's parameter is refused here: ignoring it would list agents that lack the skill.
    if query(&uri).any(|(name, _)| name == "skill") {
        return Err(Faults::one(
            "skill",
            "agents are not found by skill here; `GET /market/discover?skill=…` does that",
        )
        .into());
    }
    Ok(Json(agents::list(&app, &caller, search).await?))
}

/// Retrieve an agent by its address, name or id
#[utoipa::path(get, path = "/api/v1/agents/{id}", operation_id = "agent", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID")),
    responses((status = 200, description = "The agent", body = AgentView), Reading))]
async fn one(
    State(app): State<AppState>,
    Known(caller): Known,
    Path(id): Path<String>,
) -> Result<Json<AgentView>, ApiError> {
    Ok(Json(agents::agent(&app, caller, &id).await?))
}

/// Change an agent
///
/// Its owner, the agent itself and the operator may do this. Deliveries to a paused agent wait, whatever its
/// transport: nothing goes to its inbox, nothing is POSTed, and envelopes are `queued`, until `paused` is
/// `false` again.
#[utoipa::path(patch, path = "/api/v1/agents/{id}", operation_id = "change_agent", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID"), Idempotent),
    request_body = AgentChange,
    responses((status = 200, description = "The agent after the change", body = AgentView), Doing))]
async fn change(
    State(app): State<AppState>,
    Known(caller): Known,
    Context(context): Context,
    Path(id): Path<String>,
    Sent { body, once }: Sent<AgentChange>,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::OK, agents::change(&app, caller, context, &id, body, once).await?))
}

/// Remove an agent's webhook
///
/// Pending deliveries use another transport of the agent, or wait in its inbox.
#[utoipa::path(delete, path = "/api/v1/agents/{id}/endpoint", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID")),
    responses((status = 200, description = "Removed", body = AgentView), Reading))]
async fn remove_endpoint(
    State(app): State<AppState>,
    Known(caller): Known,
    Context(context): Context,
    Path(id): Path<String>,
) -> Result<Json<AgentView>, ApiError> {
    Ok(Json(agents::remove_endpoint(&app, caller, context, &id).await?))
}

/// Claim an agent that registered itself
///
/// The holder of its key may move it into an account, once. An agent that belongs to an account stays there.
#[utoipa::path(post, path = "/api/v1/agents/claim", tag = "agents", security(("key" = [])),
    params(Idempotent),
    request_body = AgentProof,
    responses((status = 200, description = "The agent belongs to your account", body = AgentView), Doing))]
async fn claim(
    State(app): State<AppState>,
    Person(person): Person,
    Context(context): Context,
    Sent { body, once }: Sent<AgentProof>,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::OK, agents::claim(&app, person, context, body, once).await?))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct StopQuery {
    /// Stop only the work on this message
    #[serde(default)]
    #[param(required = false)]
    event_id: Option<String>,
}

/// Stop the work of an agent
///
/// The agent's owner may do this, in all conversations of the agent. The threads say so, and whoever asked for the work is
/// told.
#[utoipa::path(post, path = "/api/v1/agents/{id}/stop", operation_id = "stop_agent", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID"), StopQuery),
    responses((status = 200, description = "The work that ended", body = StopResult),
              Invalid, Unknown, Forbidden, Missing, TooFast, Overloaded))]
async fn stop(
    State(app): State<AppState>,
    Known(caller): Known,
    Path(id): Path<String>,
    Query(query): Query<StopQuery>,
) -> Result<Json<StopResult>, ApiError> {
    let event = query.event_id.as_deref().map(conversation::event_id).transpose()?;
    Ok(Json(conversation::stop_agent(&app, caller, &id, event).await?))
}
