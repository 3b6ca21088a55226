//! How agents are reached by the Channel Protocol.
//!
//! An agent has up to two connection strings: one of its own, which its owner pastes so that the hub can reach it, and one
//! that the hub issues, so that other services can. The first is kept sealed, the second as a hash.

use super::{AgentView, check_url, inlet, known, managed, seal, url_of, view};
use crate::doors::api::answers::{
    Conflict, Forbidden, Invalid, Missing, Overloaded, TooFast, TooLarge, TooSlow, Unknown,
};
use crate::doors::api::recovery::host;
use crate::doors::api::{Written, not_found, value, write};
use crate::doors::body;
use crate::doors::relay::AgentRef;
use crate::doors::relay::bodies::{AgentAddress, EndpointUrl};
use crate::error::ApiError;
use crate::extract::{By, Context};
use crate::route::{Route, Routes};
use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use bytes::Bytes;
use chorus_app::AppState;
use chorus_app::caller::{Caller, key_hash};
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::faults::{Faults, Fields};
use chorus_protocol::relay::MAX_BODY;
use chorus_store::audit::{Action, Subject};
use chorus_store::directory::{self, Agent};
use chorus_store::{Tx, push};
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;
use utoipa_axum::routes;

pub(super) fn routes() -> Routes {
    Routes::default()
        .at(Route::API, routes!(connect, disconnect))
        .at(Route::API, routes!(mend))
        .at(Route::API, routes!(rotate))
}

/// Where an agent is reached by the Channel Protocol.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "describes a body for the OpenAPI document")]
pub(crate) struct ConnectionBody {
    /// A secret: it is kept sealed and never shown again.
    connection_string: EndpointUrl,
}

/// Set an agent's own connection string
///
/// Messages for it are POSTed there while it has neither an open inbox nor a webhook. What waited because the former one
/// was broken is posted to this one at once; callbacks that were given out before end.
#[utoipa::path(put, path = "/api/v1/agents/{id}/connection", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID")),
    request_body(content_type = "application/json", content = ConnectionBody),
    responses((status = 200, description = "Set", body = AgentView),
              Invalid, Unknown, Forbidden, Missing, TooSlow, TooLarge, TooFast, Overloaded))]
pub(crate) async fn connect(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<AgentView>, ApiError> {
    known(&caller)?;
    let agent = AgentRef::parse(&app, &id)?;
    let body = body::read_json(&app, &headers, body, MAX_BODY).await?;
    let mut faults = Faults::new();
    let url = Fields::of(&body, "", &mut faults)
        .and_then(|mut fields| url_of(&mut fields, "connection_string", true));
    let url = url.ok_or(faults)?;
    check_url(&app, "connection_string", Some(&url)).await?;
    let (hub, who) = (Arc::clone(&app), caller.clone());
    change(&app, caller, agent, move |tx, agent| {
        let sealed = seal(&hub, agent.id, &url)?;
        let (subject, detail) = (Subject::Agent(agent.id), json!({"connection": host(Some(url.as_str()))}));
        context.record(tx, &hub, &who, Action::ConnectionSet, subject, detail)?;
        directory::set_connection(tx, agent.id, Some(&sealed), hub.now())?;
        push::mend(tx, agent.id, hub.now())?;
        Ok(())
    })
    .await
}

/// Take an agent's own connection string away
///
/// What waits to be posted to it takes another way the agent has, or waits for one until it is given up.
#[utoipa::path(delete, path = "/api/v1/agents/{id}/connection", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID")),
    responses((status = 200, description = "There is none (any more)", body = AgentView),
              Invalid, Unknown, Forbidden, Missing, TooFast, Overloaded))]
pub(crate) async fn disconnect(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    Path(id): Path<String>,
) -> Result<Json<AgentView>, ApiError> {
    known(&caller)?;
    let (agent, now) = (AgentRef::parse(&app, &id)?, app.now());
    let (hub, who) = (Arc::clone(&app), caller.clone());
    let remove = move |tx: &mut dyn Tx, agent: &Agent| {
        if agent.connection.is_some() {
            let subject = Subject::Agent(agent.id);
            context.record(tx, &hub, &who, Action::ConnectionRemoved, subject, json!({}))?;
        }
        Ok(directory::set_connection(tx, agent.id, None, now)?)
    };
    change(&app, caller, agent, remove).await
}

/// Try a broken connection again
///
/// Whatever waits for the agent is tried at once.
#[utoipa::path(post, path = "/api/v1/agents/{id}/connection/mend", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID")),
    responses((status = 200, description = "It is tried", body = AgentView),
              Invalid, Unknown, Forbidden, Missing, TooFast, Overloaded))]
pub(crate) async fn mend(
    State(app): State<AppState>,
    By(caller): By,
    Path(id): Path<String>,
) -> Result<Json<AgentView>, ApiError> {
    known(&caller)?;
    let (agent, now) = (AgentRef::parse(&app, &id)?, app.now());
    let mend = move |tx: &mut dyn Tx, agent: &Agent| Ok(push::mend(tx, agent.id, now).map(drop)?);
    change(&app, caller, agent, mend).await
}

/// Changes how an agent is reached, and shows it as it is then.
async fn change(
    app: &AppState,
    caller: Caller,
    agent: AgentRef,
    work: impl Fn(&mut dyn Tx, &Agent) -> Result<(), ApiError> + Send + 'static,
) -> Result<Json<AgentView>, ApiError> {
    let hub = Arc::clone(app);
    let change = move |tx: &mut dyn Tx| {
        let found = managed(tx, &caller, &agent)?;
        // Whoever pushes to it meanwhile holds it, or finds it changed.
        tx.lock(found.id.0)?;
        work(tx, &found)?;
        hub.push_after(tx);
        let changed = directory::by_id(tx, found.id)?.ok_or_else(|| not_found("agent"))?;
        Ok(view(&hub, &caller, &changed))
    };
    app.store.write::<_, ApiError, _>(change).await.map(Json)
}

/// A connection string that the hub issues.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct InletView {
    /// For other services: whoever has it can post to the agent. It is shown this once.
    connection_string: String,
}

/// Replace the connection string that the hub issues for an agent
///
/// The old one stops at once, and so do callbacks that were given out before. An agent that registered itself gets its first one
/// this way.
#[utoipa::path(post, path = "/api/v1/agents/{id}/connection-string/rotate", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID"),
           ("Idempotency-Key" = Option<String>, Header, nullable = false, max_length = 255, pattern = r"^[!-~]([\t -~]*[!-~])?$",
            description = "The same for every retry of the same request")),
    responses((status = 200, description = "The new one", body = InletView),
              Invalid, Unknown, Forbidden, Missing, Conflict, TooFast, Overloaded))]
pub(crate) async fn rotate(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    known(&caller)?;
    let (agent, now) = (AgentRef::parse(&app, &id)?, app.now());
    let secret = app.sources.secret(SecretKind::ConnectionString);
    let answer = value(&InletView { connection_string: inlet(&app, &secret) })?;
    let (hash, who, hub) = (key_hash(&secret), caller.clone(), Arc::clone(&app));
    let rotate = move |tx: &mut dyn Tx| -> Result<Written, ApiError> {
        let agent = managed(tx, &who, &agent)?;
        directory::set_foreign_secret(tx, agent.id, &hash, now)?;
        let subject = Subject::Agent(agent.id);
        context.record(tx, &hub, &who, Action::ConnectionStringRotated, subject, json!({}))?;
        Ok((StatusCode::OK, answer.clone()))
    };
    write(&app, &caller, &headers, uri.path(), &Bytes::new(), rotate).await
}
