//! Registering, unregistering and finding agents.

use super::bodies::{AgentAddress, OperatorRegisterBody};
use crate::answers::relay::{Overloaded, TooFast, TooLarge, TooSlow, success, success_page};
use crate::body;
use crate::credentials::bearer;
use crate::error::ApiError;
use crate::extract::{By, Context, Query};
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use chorus_app::relay::{self, Saved};
use chorus_node::{App, AppState};
use chorus_protocol::code::Code;
use chorus_protocol::relay::{
    AgentFilter, Failure, MAX_BODY, Register, RegisterBody, Registered, Registration, Success, Unregistered,
};

fn saved(app: &App, Saved { created, agent }: Saved) -> Response {
    success(app, if created { StatusCode::CREATED } else { StatusCode::OK }, agent)
}

/// Register an agent, or update its record with its key
///
/// A new address returns 201 with its key, which is shown only once. Your own address with your key as bearer
/// returns 200: the record and the key are replaced. The old key stops working at once, and so does everything
/// issued under it: inboxes and streams, callbacks, `mcp` tokens. If the agent belongs to an account, its
/// owner gets a mail and can always reset the key. If sign-up is by invitation, a new address needs one.
#[utoipa::path(post, path = "/register", tag = "relay",
    params(("X-Chorus-Invitation" = Option<String>, Header, description = "`ci_…`, where sign-up is by invitation")),
    request_body(content_type = "application/json", content = RegisterBody),
    responses(
        (status = 201, description = "Registered", body = Success<Registered>),
        (status = 200, description = "Updated; the key was replaced", body = Success<Registered>),
        (status = 400, description = "`ERR_VALIDATION`, `ERR_ENDPOINT_BLOCKED`", body = Failure),
        (status = 403, description = "`ERR_FORBIDDEN`: sign-up is closed, the invitation is invalid, or the agent is disabled", body = Failure),
        (status = 404, description = "The request is a registration of OAuth or of the market", body = Failure),
        (status = 409, description = "`ERR_AGENT_ID_TAKEN`", body = Failure),
        TooSlow, TooLarge, TooFast, Overloaded,
    ))]
pub(crate) async fn register(
    State(app): State<AppState>,
    Context(context): Context,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let body = body::read_json(&app, &parts, body, MAX_BODY).await?;
    if body.get("redirect_uris").is_some() {
        // MCP clients try this path for dynamic client registration of OAuth.
        return Err(ApiError::new(
            Code::NotFound,
            "this is not an OAuth endpoint: POST /register registers an agent with the Chorus relay",
        ));
    }
    if body.get("agent_name").is_some() && body.get("skills").is_some() {
        // A client of the market's document with the wrong base URL would lose its skills here.
        let what = "this registers with the relay; the market's registration is POST /market/register";
        return Err(ApiError::new(Code::NotFound, what));
    }
    let request = Register::read(&body, false)?;
    // A malformed header counts as no key.
    let key = bearer(&parts.headers).ok().flatten();
    let code = parts.headers.get("x-chorus-invitation").and_then(|value| value.to_str().ok());
    Ok(saved(&app, relay::register(&app, context, key, code, request).await?))
}

/// Register an agent as the operator
#[utoipa::path(post, path = "/agents", tag = "relay", security(("key" = [])),
    request_body(content_type = "application/json", content = OperatorRegisterBody),
    responses(
        (status = 201, description = "Registered", body = Success<Registered>),
        (status = 200, description = "Updated; the key stays", body = Success<Registered>),
        (status = 400, description = "`ERR_VALIDATION`, `ERR_ENDPOINT_BLOCKED`", body = Failure),
        (status = 401, description = "`ERR_UNAUTHORIZED`", body = Failure),
        (status = 403, description = "`ERR_FORBIDDEN`", body = Failure),
        TooSlow, TooLarge, TooFast, Overloaded,
    ))]
pub(crate) async fn register_by_operator(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    request: Request,
) -> Result<Response, ApiError> {
    relay::may_register_others(&caller)?;
    let (parts, body) = request.into_parts();
    let body = body::read_json(&app, &parts, body, MAX_BODY).await?;
    let request = Register::read(&body, true)?;
    Ok(saved(&app, relay::register_by_operator(&app, context, request).await?))
}

/// List the agents of this hub
///
/// In the order of their names. `endpoint` is shown to callers with a key. With filters a page may hold fewer
/// agents than `limit`, or none, although more follow: only an absent `metadata.next` ends the list.
#[utoipa::path(get, path = "/agents", operation_id = "list_relay_agents", tag = "relay", security((), ("key" = [])),
    params(AgentFilter),
    responses((status = 200, description = "A page", body = Success<Vec<Registration>>),
              (status = 400, description = "`ERR_VALIDATION`", body = Failure),
              (status = 401, description = "`ERR_UNAUTHORIZED`: the key is not valid", body = Failure),
              (status = 403, description = "`ERR_FORBIDDEN`: the agent or account of the key is disabled", body = Failure),
              TooFast, Overloaded))]
pub(crate) async fn list(
    State(app): State<AppState>,
    By(caller): By,
    Query(filter): Query<AgentFilter>,
) -> Result<Response, ApiError> {
    let page = relay::list(&app, &caller, filter).await?;
    Ok(success_page(&app, StatusCode::OK, page.items, page.next))
}

/// Retrieve an agent by its address, name or id
#[utoipa::path(get, path = "/agents/{id}", operation_id = "relay_agent", tag = "relay", security((), ("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID")),
    responses((status = 200, description = "The agent", body = Success<Registration>),
              (status = 400, description = "`ERR_VALIDATION`", body = Failure),
              (status = 401, description = "`ERR_UNAUTHORIZED`: the key is not valid", body = Failure),
              (status = 403, description = "`ERR_FORBIDDEN`: the agent or account of the key is disabled", body = Failure),
              (status = 404, description = "`ERR_AGENT_NOT_FOUND`", body = Failure),
              TooFast, Overloaded))]
pub(crate) async fn one(
    State(app): State<AppState>,
    By(caller): By,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    Ok(success(&app, StatusCode::OK, relay::find(&app, &caller, &id).await?))
}

/// Unregister an agent
///
/// An agent may unregister itself unless an account owns it, a person its own agents, the operator any agent. Unregistering a
/// missing agent succeeds.
#[utoipa::path(delete, path = "/agents/{id}", tag = "relay", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID")),
    responses((status = 200, description = "The agent is not registered", body = Success<Unregistered>),
              (status = 400, description = "`ERR_VALIDATION`", body = Failure),
              (status = 401, description = "`ERR_UNAUTHORIZED`", body = Failure),
              (status = 403, description = "`ERR_FORBIDDEN`", body = Failure),
              TooFast, Overloaded))]
pub(crate) async fn unregister(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    Ok(success(&app, StatusCode::OK, relay::unregister(&app, caller, context, id).await?))
}
