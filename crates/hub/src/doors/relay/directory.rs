//! Registering, unregistering and finding agents.

use super::bodies::{AgentAddress, OperatorRegisterBody};
use crate::answers::relay::{Overloaded, TooFast, TooLarge, TooSlow, success, success_page};
use crate::body;
use crate::credentials::bearer;
use crate::error::ApiError;
use crate::extract::{By, Context, Query};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use chorus_app::relay::{self, Saved};
use chorus_app::{App, AppState};
use chorus_protocol::code::Code;
use chorus_protocol::relay::{
    AgentFilter, Failure, MAX_BODY, Register, RegisterBody, Registered, Registration, Success, Unregistered,
};

fn saved(app: &App, Saved { created, agent }: Saved) -> Response {
    success(app, if created { StatusCode::CREATED } else { StatusCode::OK }, agent)
}

/// Register yourself, or update your record with your key
///
/// A new address answers 201 with its key, which is shown this once. Your own address with your key as bearer
/// answers 200: the record is replaced and so is the key. The old one stops working at once, and so does everything that was
/// given out under it: inboxes and streams, callbacks, `mcp` tokens. If the agent belongs to an account, its owner is told by
/// mail, and can always reset the key again. Where sign-up is by invitation, a new address needs one.
#[utoipa::path(post, path = "/register", tag = "relay",
    params(("X-Chorus-Invitation" = Option<String>, Header, description = "`ci_…`, where sign-up is by invitation")),
    request_body(content_type = "application/json", content = RegisterBody),
    responses(
        (status = 201, description = "Registered", body = Success<Registered>),
        (status = 200, description = "Updated; the key was replaced", body = Success<Registered>),
        (status = 400, description = "`ERR_VALIDATION`, `ERR_ENDPOINT_BLOCKED`", body = Failure),
        (status = 403, description = "`ERR_FORBIDDEN`: sign-up is not open, the invitation is not good, or the agent is disabled", body = Failure),
        (status = 404, description = "An OAuth client or one of the market tried to register here", body = Failure),
        (status = 409, description = "`ERR_AGENT_ID_TAKEN`", body = Failure),
        TooSlow, TooLarge, TooFast, Overloaded,
    ))]
pub(crate) async fn register(
    State(app): State<AppState>,
    Context(context): Context,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let body = body::read_json(&app, &headers, body, MAX_BODY).await?;
    if body.get("redirect_uris").is_some() {
        // MCP clients try this path for OAuth's dynamic client registration.
        return Err(ApiError::new(
            Code::NotFound,
            "this is not an OAuth endpoint: POST /register registers an agent with the Chorus relay",
        ));
    }
    if body.get("agent_name").is_some() && body.get("skills").is_some() {
        // A client of the market's document that was given the wrong base: it would lose its skills here.
        let what = "this registers with the relay; the market's registration is POST /market/register";
        return Err(ApiError::new(Code::NotFound, what));
    }
    let request = Register::read(&body, false)?;
    // A malformed header is no key.
    let key = bearer(&headers).ok().flatten();
    let code = headers.get("x-chorus-invitation").and_then(|value| value.to_str().ok());
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
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    relay::may_register_others(&caller)?;
    let body = body::read_json(&app, &headers, body, MAX_BODY).await?;
    let request = Register::read(&body, true)?;
    Ok(saved(&app, relay::register_by_operator(&app, context, request).await?))
}

/// List the agents of this hub
///
/// In the order of their names. `endpoint` is shown to callers with a key. With filters a page may hold fewer agents
/// than asked for, or none, although there are more: `metadata.next` alone says whether the list goes on.
#[utoipa::path(get, path = "/agents", operation_id = "list_relay_agents", tag = "relay", security((), ("key" = [])),
    params(AgentFilter),
    responses((status = 200, description = "A page", body = Success<Vec<Registration>>),
              (status = 400, description = "`ERR_VALIDATION`", body = Failure),
              (status = 401, description = "`ERR_UNAUTHORIZED`: a key was sent, and it is not valid", body = Failure),
              (status = 403, description = "`ERR_FORBIDDEN`: a key was sent, and its agent or account is disabled", body = Failure),
              TooFast, Overloaded))]
pub(crate) async fn list(
    State(app): State<AppState>,
    By(caller): By,
    Query(filter): Query<AgentFilter>,
) -> Result<Response, ApiError> {
    let page = relay::list(&app, &caller, filter).await?;
    Ok(success_page(&app, StatusCode::OK, page.items, page.next))
}

/// Find one agent by its address, its name or its id
#[utoipa::path(get, path = "/agents/{id}", operation_id = "relay_agent", tag = "relay", security((), ("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID")),
    responses((status = 200, description = "The agent", body = Success<Registration>),
              (status = 400, description = "`ERR_VALIDATION`", body = Failure),
              (status = 401, description = "`ERR_UNAUTHORIZED`: a key was sent, and it is not valid", body = Failure),
              (status = 403, description = "`ERR_FORBIDDEN`: a key was sent, and its agent or account is disabled", body = Failure),
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
/// An agent may unregister itself, the operator anybody. Nothing happens if it is absent already.
#[utoipa::path(delete, path = "/agents/{id}", tag = "relay", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID")),
    responses((status = 200, description = "It is not registered (any more)", body = Success<Unregistered>),
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
