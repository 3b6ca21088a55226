//! Agents as their owners see them: making them, finding them, claiming them.

mod connection;
mod harness;

use crate::answers::own::{
    Conflict, Doing, Forbidden, Invalid, Overloaded, Reading, TooFast, TooLarge, TooSlow, Unknown,
};
use crate::error::ApiError;
use crate::extract::{Context, Idempotent, Known, Person, Query, Sent, done, query};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use chorus_app::{AppState, agents};
use chorus_protocol::api::Items;
use chorus_protocol::api::agents::{
    AgentAddress, AgentChange, AgentProof, AgentSearch, AgentView, MadeAgent, NewAgent,
};
use chorus_protocol::faults::Faults;
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .at(Route::API, routes!(create, list))
        .at(Route::API, routes!(claim))
        .at(Route::API, routes!(one, change))
        .at(Route::API, routes!(remove_endpoint))
        .and(connection::routes())
        .and(harness::routes())
}

/// Make an agent
///
/// It belongs to your account. Its key and the connection string for other services are shown this once.
#[utoipa::path(post, path = "/api/v1/agents", operation_id = "create_agent", tag = "agents", security(("key" = [])),
    params(Idempotent),
    request_body = NewAgent,
    responses((status = 201, description = "Made", body = MadeAgent),
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
/// In the order of their names. With filters a page may hold fewer agents than asked for, or none, although there are more:
/// `next` alone says whether the list goes on.
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
    // Known elsewhere, and not to be passed over: whoever asks for it would take everybody for able.
    if query(&uri).any(|(name, _)| name == "skill") {
        return Err(Faults::one(
            "skill",
            "agents are not found by skill here; `GET /market/discover?skill=…` does that",
        )
        .into());
    }
    Ok(Json(agents::list(&app, &caller, search).await?))
}

/// Find one agent by its address, its name or its id
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
/// Its owner may, the agent itself, and the operator. What is for a paused agent waits, by every way: nothing is handed to its
/// inbox and nothing POSTed, and envelopes are `queued`, until `paused` is `false` again.
#[utoipa::path(patch, path = "/api/v1/agents/{id}", operation_id = "change_agent", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID"), Idempotent),
    request_body = AgentChange,
    responses((status = 200, description = "As it is now", body = AgentView), Doing))]
async fn change(
    State(app): State<AppState>,
    Known(caller): Known,
    Context(context): Context,
    Path(id): Path<String>,
    Sent { body, once }: Sent<AgentChange>,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::OK, agents::change(&app, caller, context, &id, body, once).await?))
}

/// Take an agent's webhook away
///
/// What waits to be posted there takes another way the agent has, or waits in its inbox.
#[utoipa::path(delete, path = "/api/v1/agents/{id}/endpoint", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID")),
    responses((status = 200, description = "There is none (any more)", body = AgentView), Reading))]
async fn remove_endpoint(
    State(app): State<AppState>,
    Known(caller): Known,
    Context(context): Context,
    Path(id): Path<String>,
) -> Result<Json<AgentView>, ApiError> {
    Ok(Json(agents::remove_endpoint(&app, caller, context, &id).await?))
}

/// Bring an agent that registered itself into your account
///
/// Whoever holds its key may, once: an agent that belongs to somebody stays there.
#[utoipa::path(post, path = "/api/v1/agents/claim", tag = "agents", security(("key" = [])),
    params(Idempotent),
    request_body = AgentProof,
    responses((status = 200, description = "It is yours", body = AgentView), Doing))]
async fn claim(
    State(app): State<AppState>,
    Person(person): Person,
    Context(context): Context,
    Sent { body, once }: Sent<AgentProof>,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::OK, agents::claim(&app, person, context, body, once).await?))
}
