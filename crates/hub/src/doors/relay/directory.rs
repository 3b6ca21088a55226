//! Registering, unregistering and finding agents.

use super::bodies::{AgentAddress, OperatorRegisterBody, RegisterBody};
use super::{AgentRef, PageQuery, card_fits, filter};
use super::{success, success_page};
use crate::credentials::bearer;
use crate::doors::answers::{Overloaded, TooFast, TooLarge, TooSlow};
use crate::doors::api::recovery;
use crate::doors::body;
use crate::error::ApiError;
use crate::extract::{By, Context};
use crate::middleware::Client;
use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use chorus_app::Signup;
use chorus_app::audit::RequestContext;
use chorus_app::caller::{Caller, disabled, is_operator, key_hash};
use chorus_app::delivery::challenge;
use chorus_app::registrations;
use chorus_app::webhooks;
use chorus_app::{App, AppState};
use chorus_protocol::address::MAX_LEN;
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{AgentId, TraceId, is_id};
use chorus_protocol::page;
use chorus_protocol::relay::{Code, Failure, MAX_BODY, Register, Registered, Registration, Success};
use chorus_protocol::time::rfc3339;
use chorus_store::accounts::{self, CredentialKind};
use chorus_store::audit::{Action, Actor, Subject};
use chorus_store::directory::{self as agents, Agent, KeyHash, Record};
use chorus_store::relay::{self, RegisterError, Registrar};
use chorus_store::{StoreError, Tx};
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;
use tokio::runtime::Handle;

fn registration(app: &App, agent: Agent, show_endpoint: bool) -> Registration {
    Registration {
        id: agent.id,
        agent_id: app.address(&agent.name),
        endpoint: agent.endpoint.filter(|_| show_endpoint),
        agent_card: agent.card.and_then(|card| serde_json::from_str(&card).ok()),
        online: agent.open_until > app.now(),
        registered_at: rfc3339(agent.registered_at),
        updated_at: rfc3339(agent.updated_at),
    }
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
        (status = 404, description = "An OAuth client tried to register here", body = Failure),
        (status = 409, description = "`ERR_AGENT_ID_TAKEN`", body = Failure),
        TooSlow, TooLarge, TooFast, Overloaded,
    ))]
pub(crate) async fn register(
    State(app): State<AppState>,
    Extension(client): Extension<Client>,
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
    let request = Register::read(&body, false)?;
    // A malformed header is no key.
    let key = bearer(&headers).ok().flatten().map(key_hash);
    let operator = key.is_some_and(|key| is_operator(&app, &key));
    let admission = match app.config.signup {
        _ if operator => Admission::Everybody,
        Signup::Open => Admission::Everybody,
        Signup::Invite => Admission::Invited(invitation(&headers, &request).map(key_hash)),
        Signup::Closed => Admission::Nobody,
    };
    if !operator {
        count_new(&app, &request, key, client).await?;
    }
    let newcomer = if operator { Actor::Operator } else { Actor::Nobody };
    save(&app, &context, newcomer, request, Registrar::Itself(key), admission).await
}

/// Counts a registration if it would be a new agent's. Who has not got the key of a name that is taken is refused here,
/// before anything it names is looked up.
async fn count_new(
    app: &App,
    request: &Register,
    key: Option<KeyHash>,
    client: Client,
) -> Result<(), ApiError> {
    let Some(name) = request.agent.local_name(&app.config.host_name).map(str::to_owned) else {
        return Ok(());
    };
    let find = move |tx: &mut dyn Tx| {
        let Some(agent) = agents::by_name(tx, &name)? else { return Ok(None) };
        let holder = key.map_or(Ok(None), |key| agents::by_key(tx, &key))?;
        Ok(Some(holder.is_some_and(|holder| holder.id == agent.id)))
    };
    match app.store.read::<_, StoreError, _>(find).await? {
        None => registrations::count(app, client.source()).map_err(Into::into),
        Some(true) => Ok(()),
        Some(false) => Err(refusal(RegisterError::Taken)),
    }
}

/// The invitation a registration comes with, in its header or its body.
fn invitation<'a>(headers: &'a HeaderMap, request: &'a Register) -> Option<&'a str> {
    let header = headers.get("x-chorus-invitation").and_then(|value| value.to_str().ok());
    header.or(request.invitation.as_deref())
}

/// Who may be new here.
#[derive(Debug, Clone, Copy)]
enum Admission {
    Everybody,
    /// Whoever has an invitation; what was shown.
    Invited(Option<KeyHash>),
    Nobody,
}

impl Admission {
    /// Lets one new agent in, and uses its invitation up.
    fn admit(self, tx: &mut dyn Tx, now: i64) -> Result<(), ApiError> {
        let why = match self {
            Self::Everybody => return Ok(()),
            Self::Invited(Some(shown)) => {
                // One that was sent to a person is not for an agent.
                let invited = accounts::peek(tx, CredentialKind::Invitation, &shown, now)?;
                if invited.is_some_and(|invited| invited.email.is_none())
                    && accounts::redeem(tx, CredentialKind::Invitation, &shown, now)?.is_some()
                {
                    return Ok(());
                }
                "this invitation is used, over or not for agents; ask for another one"
            }
            Self::Invited(None) => {
                "sign-up is by invitation on this hub: send one as X-Chorus-Invitation: ci_…"
            }
            Self::Nobody => "sign-up is not open on this hub; ask its operator for an agent",
        };
        Err(ApiError::new(Code::Forbidden, why))
    }
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
    match caller {
        Caller::Operator => {}
        Caller::Agent(_) | Caller::Account(_) => {
            return Err(ApiError::new(
                Code::Forbidden,
                "only the operator registers others; register yourself at POST /register",
            ));
        }
        Caller::Nobody => return Err(ApiError::unauthorized("this needs the operator's key")),
    }
    let body = body::read_json(&app, &headers, body, MAX_BODY).await?;
    let request = Register::read(&body, true)?;
    save(&app, &context, Actor::Operator, request, Registrar::Operator, Admission::Everybody).await
}

/// Saves an agent that is there, or a new one if that is let in.
async fn save(
    app: &AppState,
    context: &RequestContext,
    newcomer: Actor,
    request: Register,
    registrar: Registrar,
    admission: Admission,
) -> Result<Response, ApiError> {
    let host = &app.config.host_name;
    let name = request.agent.local_name(host).ok_or_else(|| {
        Faults::one(
            "agent_id",
            format_args!("the host must be {host} or chorus: this hub speaks for no other"),
        )
    })?;
    if app.address(name).len() > MAX_LEN {
        // Nobody could write to the address it would get.
        let what = format_args!("must be at most {MAX_LEN} characters together with @{host}");
        return Err(Faults::one("agent_id", what).into());
    }
    if is_id(name) {
        return Err(Faults::one("agent_id", "must not have the form of an id").into());
    }
    if let Some(endpoint) = &request.endpoint {
        let checked = app.outbound.policy().check_url(endpoint).await;
        checked
            .map_err(|blocked| ApiError::new(Code::EndpointBlocked, format_args!("endpoint: {blocked}")))?;
    }
    let too_large = request.card.as_ref().and_then(|card| card_fits(app, card).err());
    let record = Record {
        name: name.to_owned(),
        endpoint: request.endpoint.map(Into::into),
        card: request.card.map(|card| card.to_string()),
    };
    let secret = app.sources.secret(SecretKind::AgentKey);
    let new = relay::Registration {
        record,
        registrar,
        id: AgentId(app.sources.uuid_v4()),
        key: key_hash(&secret),
        trace: TraceId(app.sources.uuid_v7()),
        now: app.now(),
    };
    let (hub, context, runtime) = (Arc::clone(app), context.clone(), Handle::current());
    let register = move |tx: &mut dyn Tx| {
        let everybody = matches!(admission, Admission::Everybody);
        if !everybody && agents::by_name(tx, &new.record.name)?.is_none() {
            admission.admit(tx, new.now)?;
        }
        if let Some(fault) = &too_large {
            // Who has it from before may go on saying it.
            let known = agents::by_name(tx, &new.record.name)?;
            if known.is_none_or(|known| known.card != new.record.card) {
                return Err(Faults::one("agent_card", fault).into());
            }
        }
        let registered = relay::register(tx, &new).map_err(refusal)?;
        let agent = &registered.agent;
        let (action, actor) = match registrar {
            _ if registered.created => (Action::AgentRegistered, newcomer),
            Registrar::Operator => (Action::AgentUpdated, Actor::Operator),
            Registrar::Itself(_) => (Action::KeyRotated, Actor::Principal(agent.id.into())),
        };
        if action == Action::KeyRotated {
            recovery::tell_owner(tx, &hub, &runtime, agent)?;
        }
        let detail = json!({"name": agent.name, "endpoint": recovery::host(agent.endpoint.as_deref())});
        context.record_as(tx, &hub, actor, action, Subject::Agent(agent.id), detail)?;
        Ok(registered)
    };
    let registered = app.store.write::<_, ApiError, _>(register).await?;
    let status = if registered.created { StatusCode::CREATED } else { StatusCode::OK };
    let endpoint_proven = challenge::ask(app, &registered.agent).await;
    let data = Registered {
        agent_id: app.address(&registered.agent.name),
        api_key: registered.keyed.then_some(secret),
        webhook_secret: registered
            .agent
            .endpoint
            .as_ref()
            .map(|_| webhooks::secret(&app.config.master_key, &registered.agent).printed()),
        endpoint_proven,
        registration: registration(app, registered.agent, true),
    };
    Ok(success(&app, status, data))
}

fn refusal(error: RegisterError) -> ApiError {
    match error {
        RegisterError::Taken => ApiError::new(
            Code::AgentIdTaken,
            "this agent_id belongs to somebody else; if it is yours, send its key as Authorization: Bearer",
        ),
        RegisterError::Disabled => disabled("agent").into(),
        RegisterError::Store(error) => error.into(),
    }
}

/// List the agents of this hub
///
/// In the order of their names. `endpoint` is shown to callers with a key. With filters a page may hold fewer agents
/// than asked for, or none, although there are more: `metadata.next` alone says whether the list goes on.
#[utoipa::path(get, path = "/agents", operation_id = "list_relay_agents", tag = "relay", security((), ("key" = [])),
    params(("after" = Option<String>, Query, description = "`metadata.next` of the page before"),
           ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "50 unless said"),
           ("q" = Option<String>, Query, description = "A part of the name"),
           ("culture" = Option<String>, Query, description = "Their user's culture: `zh` finds `zh-CN` too"),
           ("language" = Option<String>, Query, description = "A language they support"),
           ("online" = Option<bool>, Query, description = "Whether their inbox is open")),
    responses((status = 200, description = "A page", body = Success<Vec<Registration>>),
              (status = 400, description = "`ERR_VALIDATION`", body = Failure),
              (status = 401, description = "`ERR_UNAUTHORIZED`: a key was sent, and it is not valid", body = Failure),
              (status = 403, description = "`ERR_FORBIDDEN`: a key was sent, and its agent or account is disabled", body = Failure),
              TooFast, Overloaded))]
pub(crate) async fn list(
    State(app): State<AppState>,
    By(caller): By,
    uri: Uri,
) -> Result<Response, ApiError> {
    let (query, search) = (PageQuery::parse(&uri)?, filter::parse(&uri)?);
    let (after, limit, now) = (query.after.unwrap_or_default(), query.limit, app.now());
    let max_bytes = app.config.quotas.page_bytes;
    let find = move |tx: &mut dyn Tx| agents::search(tx, &search, now, &after, limit, max_bytes as usize);
    let found = app.store.read::<_, StoreError, _>(find).await?;
    let names: Vec<_> = found.agents.iter().map(|agent| agent.name.clone()).collect();
    let (mut page, mut next) = (vec![], found.next);
    page.extend(found.agents.into_iter().map(|agent| registration(&app, agent, caller.is_known())));
    if page::cut(&mut page, max_bytes) {
        next = names.into_iter().nth(page.len() - 1);
    }
    Ok(success_page(&app, StatusCode::OK, page, next))
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
    let agent = AgentRef::parse(&app, &id)?;
    let found = app.store.read::<_, StoreError, _>(move |tx: &mut dyn Tx| agent.find(tx)).await?;
    let found = found
        .ok_or_else(|| ApiError::new(Code::AgentNotFound, "no agent of this address is registered here"))?;
    Ok(success(&app, StatusCode::OK, registration(&app, found, caller.is_known())))
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
    if !caller.is_known() {
        return Err(ApiError::unauthorized("this needs the agent's key or the operator's"));
    }
    let agent = AgentRef::parse(&app, &id)?;
    let (hub, now) = (Arc::clone(&app), app.now());
    let delete = move |tx: &mut dyn Tx| {
        let Some(found) = agent.find(tx)? else { return Ok(None) };
        let allowed = match &caller {
            Caller::Operator => true,
            Caller::Agent(identity) => identity.id == found.id,
            Caller::Account(person) => found.owner == Some(person.id),
            Caller::Nobody => false,
        };
        if !allowed {
            return Err(ApiError::new(
                Code::Forbidden,
                "an agent can unregister only itself, and a person only its own agents",
            ));
        }
        agents::delete(tx, found.id, now, &|| hub.sources.uuid_v7())?;
        let (subject, detail) = (Subject::Agent(found.id), json!({"name": found.name}));
        context.record(tx, &hub, &caller, Action::AgentUnregistered, subject, detail)?;
        Ok(Some(found))
    };
    let deleted = app.store.write(delete).await?;
    let agent_id = deleted.as_ref().map_or(id, |agent| app.address(&agent.name));
    Ok(success(&app, StatusCode::OK, Unregistered { agent_id, removed: deleted.is_some() }))
}

/// The answer to unregistering.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct Unregistered {
    /// Who.
    agent_id: String,
    /// Whether there was something to remove.
    removed: bool,
}
