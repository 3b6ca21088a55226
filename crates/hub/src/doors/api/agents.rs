//! Agents as their owners see them: making them, finding them, claiming them.

mod connection;

use super::answers::{
    Conflict, Forbidden, Invalid, Missing, Overloaded, TooFast, TooLarge, TooSlow, Unknown,
};
use super::recovery::host;
use super::{Items, Written};
use crate::doors::body;
use crate::doors::relay::bodies::{AgentAddress, AgentCard, EndpointUrl};
use crate::doors::relay::{AgentRef, PageQuery, card_fits};
use crate::error::ApiError;
use crate::extract::{By, Context};
use crate::middleware::Client;
use crate::route::{Route, Routes};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use axum::{Extension, Json};
use chorus_app::caller::{Caller, disabled, key_hash};
use chorus_app::delivery::challenge;
use chorus_app::registrations;
use chorus_app::usage::room;
use chorus_app::{App, AppState};
use chorus_protocol::address::{Address, MAX_LEN};
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::faults::{Faults, Fields};
use chorus_protocol::ids::{AgentId, TraceId, is_id};
use chorus_protocol::relay::{Code, MAX_BODY, check_card, check_endpoint};
use chorus_protocol::time::rfc3339;
use chorus_store::Tx;
use chorus_store::audit::{Action, Subject};
use chorus_store::directory::{self, Agent, Record, Search};
use chorus_store::usage;
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::runtime::Handle;
use url::Url;
use utoipa_axum::routes;

/// The longest description, in characters.
const MAX_DESCRIPTION: usize = 1000;
/// The longest text that is looked for, in characters.
const MAX_SEARCH: usize = 100;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .at(Route::API, routes!(create, list))
        .at(Route::API, routes!(claim))
        .at(Route::API, routes!(one))
        .and(connection::routes())
}

/// An agent.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct AgentView {
    /// Its id.
    #[schema(example = "0190a3c4-d5e6-7f80-90a1-b2c3d4e5f607")]
    agent_id: String,
    /// Its address.
    #[schema(example = "timber@chorus.example")]
    address: String,
    /// Its name.
    name: String,
    /// What it is, for people.
    description: Option<String>,
    /// What it says of itself.
    #[schema(value_type = Option<Object>)]
    card: Option<Value>,
    /// The account it belongs to; for its owner, itself and the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    /// Whether its inbox is open now.
    online: bool,
    /// Its last sign of life, as far as that is known: its inbox was open, or its key used, to the minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_seen: Option<String>,
    /// How its own connection string is; for its owner, itself and the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    connection: Option<ConnectionView>,
    /// Since when it is kept out by the operator, if it is; for its owner, itself and the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    disabled_since: Option<String>,
}

/// How an agent's own connection string is.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ConnectionView {
    /// `none`, `ok`, or `broken`: nothing is posted to it until it is mended.
    state: &'static str,
    /// Where it leads: the name of its host alone. The rest is secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    /// Why it is broken.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
}

impl ConnectionView {
    fn of(app: &App, agent: &Agent) -> Self {
        let (state, broken) = match (&agent.connection, &agent.broken) {
            (None, _) => ("none", None),
            (Some(_), None) => ("ok", None),
            (Some(_), Some(broken)) => ("broken", Some(broken)),
        };
        let opened = agent
            .connection
            .as_ref()
            .and_then(|sealed| app.config.master_key.open(agent.id.as_bytes(), sealed));
        Self {
            state,
            host: host(opened.as_deref()),
            reason: broken.map(|(why, _)| why.clone()),
            since: broken.map(|(_, since)| rfc3339(*since)),
        }
    }
}

pub(super) fn view(app: &App, caller: &Caller, agent: &Agent) -> AgentView {
    let (now, presence) = (app.now(), app.config.presence.as_millis() as i64);
    // An open inbox is a lease that was last renewed so long before its end.
    let renewed = (agent.open_until > 0).then(|| (agent.open_until - presence).min(now));
    // Nobody was seen in the future: the clock was set back since.
    let seen = renewed.max((agent.seen_at > 0).then_some(agent.seen_at.min(now)));
    AgentView {
        agent_id: agent.id.to_string(),
        address: app.address(&agent.name),
        name: agent.name.clone(),
        description: agent.description.clone(),
        card: agent.card.as_deref().and_then(|card| serde_json::from_str(card).ok()),
        owner: agent.owner.filter(|_| may_manage(caller, agent)).map(|owner| owner.to_string()),
        online: agent.open_until > now,
        last_seen: seen.map(rfc3339),
        connection: may_manage(caller, agent).then(|| ConnectionView::of(app, agent)),
        disabled_since: agent.disabled_at.filter(|_| may_manage(caller, agent)).map(rfc3339),
    }
}

/// Its owner, itself, and the operator.
pub(super) fn may_manage(caller: &Caller, agent: &Agent) -> bool {
    match caller {
        Caller::Operator => true,
        Caller::Agent(identity) => identity.id == agent.id,
        Caller::Account(person) => agent.owner == Some(person.id),
        Caller::Nobody => false,
    }
}

/// The agent, if the caller may change it.
pub(super) fn managed(tx: &mut dyn Tx, caller: &Caller, agent: &AgentRef) -> Result<Agent, ApiError> {
    let agent = agent.find(tx)?.ok_or_else(|| super::not_found("agent"))?;
    if !may_manage(caller, &agent) {
        return Err(ApiError::new(
            Code::Forbidden,
            "this is for the agent's owner, and for the agent itself",
        ));
    }
    Ok(agent)
}

pub(super) fn known(caller: &Caller) -> Result<(), ApiError> {
    if caller.is_known() {
        return Ok(());
    }
    Err(ApiError::unauthorized(
        "this needs an account's token or an agent's key: Authorization: Bearer ct_… or ca_…",
    ))
}

/// A connection string that the hub issues.
fn inlet(app: &App, secret: &str) -> String {
    format!("{}/inbox/{secret}", app.config.public_url)
}

/// An agent to be made.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "describes a body for the OpenAPI document")]
pub(crate) struct NewAgentBody {
    /// Its name; with the host of this hub it is its address.
    #[schema(pattern = r"^\.*[A-Za-z0-9_-][A-Za-z0-9._-]*$", example = "timber")]
    name: String,
    /// What it is, for people.
    #[schema(max_length = 1000)]
    description: Option<String>,
    /// What it says of itself.
    card: Option<AgentCard>,
    /// Its own connection string, if it has one: where messages for it are POSTed by the Channel Protocol.
    connection_string: Option<EndpointUrl>,
    /// Its webhook, if it has one: where envelopes and `chat` events are POSTed.
    endpoint: Option<EndpointUrl>,
}

/// A new agent and its secrets, which are shown this once.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct NewAgentView {
    /// Its id.
    agent_id: String,
    /// Its address.
    address: String,
    /// Its key.
    #[schema(example = "ca_0123456789abcdef0123456789abcdef")]
    api_key: String,
    /// For other services: whoever has it can post to the agent.
    #[schema(example = "https://chorus.example/inbox/sk_0123456789abcdef0123456789abcdef")]
    connection_string: String,
    /// With which requests to the agent are signed (Standard Webhooks).
    webhook_secret: String,
    /// `false` where its endpoint must echo the hub's challenge before anything else is sent to it; it is asked now.
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint_proven: Option<bool>,
}

/// An agent to be made, checked.
struct NewAgent {
    record: Record,
    description: Option<String>,
    connection: Option<Url>,
    endpoint: Option<Url>,
}

impl NewAgent {
    fn read(app: &App, body: &Value) -> Result<Self, Faults> {
        let mut faults = Faults::new();
        let mut read = || {
            let mut fields = Fields::of(body, "", &mut faults)?;
            let name = fields
                .required_text("name")
                .and_then(|name| local_name(app, name).map_err(|what| fields.fault("name", what)).ok());
            let description = fields.optional_text("description");
            if let Some(description) = description {
                fields.check_length("description", description, 0, MAX_DESCRIPTION);
            }
            let card = fields.get("card");
            if let Some(card) = card {
                check_card(card, "card", fields.faults());
                if let Err(fault) = card_fits(app, card) {
                    fields.fault("card", fault);
                }
            }
            let connection = url_of(&mut fields, "connection_string", false);
            let endpoint = url_of(&mut fields, "endpoint", false);
            Some(Self {
                record: Record {
                    name: name?,
                    endpoint: endpoint.as_ref().map(ToString::to_string),
                    card: card.map(ToString::to_string),
                },
                description: description.map(str::to_owned),
                connection,
                endpoint,
            })
        };
        let new = read();
        new.filter(|_| faults.is_empty()).ok_or(faults)
    }
}

/// The name of an agent that would live here.
fn local_name(app: &App, text: &str) -> Result<String, String> {
    let address = Address::parse(text).map_err(|fault| fault.to_string())?;
    let host = &app.config.host_name;
    let name = address.local_name(host).ok_or_else(|| format!("must be a name alone, or one at {host}"))?;
    if app.address(name).len() > MAX_LEN {
        return Err(format!("must be at most {MAX_LEN} characters together with @{host}"));
    }
    if is_id(name) {
        return Err("must not have the form of an id".into());
    }
    Ok(name.to_owned())
}

fn url_of(fields: &mut Fields<'_, '_>, name: &str, required: bool) -> Option<Url> {
    let text = if required { fields.required_text(name) } else { fields.optional_text(name) }?;
    check_endpoint(text).map_err(|what| fields.fault(name, what)).ok()
}

/// Whether the hub may call it, as far as that can be known now.
async fn check_url(app: &App, name: &str, url: Option<&Url>) -> Result<(), ApiError> {
    let Some(url) = url else { return Ok(()) };
    let checked = app.outbound.policy().check_url(url).await;
    checked.map_err(|blocked| ApiError::new(Code::EndpointBlocked, format_args!("{name}: {blocked}")))
}

fn seal(app: &App, agent: AgentId, url: &Url) -> Result<Vec<u8>, ApiError> {
    let sealed = app.config.master_key.seal(app.sources.bytes(), agent.as_bytes(), url.as_str());
    sealed.ok_or_else(|| ApiError::internal("a connection string could not be sealed"))
}

/// Make an agent
///
/// It belongs to your account. Its key and the connection string for other services are shown this once.
#[utoipa::path(post, path = "/api/v1/agents", operation_id = "create_agent", tag = "agents", security(("key" = [])),
    params(("Idempotency-Key" = Option<String>, Header, nullable = false, max_length = 255, pattern = r"^[!-~]([\t -~]*[!-~])?$",
            description = "The same for every retry of the same request")),
    request_body(content_type = "application/json", content = NewAgentBody),
    responses((status = 201, description = "Made", body = NewAgentView),
              Invalid, Unknown, Forbidden, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
pub(crate) async fn create(
    State(app): State<AppState>,
    Extension(client): Extension<Client>,
    By(caller): By,
    Context(context): Context,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let owner = caller.person()?.id;
    let body = body::read(&app, &headers, body, MAX_BODY).await?;
    let new = NewAgent::read(&app, &chorus_protocol::json::parse(&body).map_err(ApiError::validation)?)?;
    check_url(&app, "connection_string", new.connection.as_ref()).await?;
    check_url(&app, "endpoint", new.endpoint.as_ref()).await?;
    let (id, trace) = (AgentId(app.sources.uuid_v4()), TraceId(app.sources.uuid_v7()));
    let (key, secret, now) = (
        app.sources.secret(SecretKind::AgentKey),
        app.sources.secret(SecretKind::ConnectionString),
        app.now(),
    );
    let sealed = new.connection.as_ref().map(|url| seal(&app, id, url)).transpose()?;
    let answer = super::value(&NewAgentView {
        agent_id: id.to_string(),
        address: app.address(&new.record.name),
        connection_string: inlet(&app, &secret),
        webhook_secret: app.config.master_key.webhook_secret(id.as_bytes(), 0).printed(),
        api_key: key.clone(),
        endpoint_proven: new.endpoint.as_ref().filter(|_| app.config.endpoint_challenge).map(|_| false),
    })?;
    let (hub, runtime, who) = (Arc::clone(&app), Handle::current(), caller.clone());
    let make = move |tx: &mut dyn Tx| -> Result<Written, ApiError> {
        // In here, because what is only asked again is no new agent.
        registrations::count(&hub, client.source())?;
        if directory::by_name(tx, &new.record.name)?.is_some() {
            return Err(ApiError::new(Code::Conflict, "an agent of this name is registered here already"));
        }
        room("agents", usage::agents(tx, owner)?, hub.config.quotas.agents)?;
        directory::insert(tx, id, &new.record, &key_hash(&key), trace, now)?;
        directory::set_owner(tx, id, Some(owner), new.description.as_deref())?;
        directory::set_foreign_secret(tx, id, &key_hash(&secret), now)?;
        if let Some(sealed) = &sealed {
            directory::set_connection(tx, id, Some(sealed), now)?;
        }
        let endpoint = host(new.record.endpoint.as_deref());
        let detail = json!({"name": new.record.name, "endpoint": endpoint, "connection": sealed.is_some()});
        context.record(tx, &hub, &who, Action::AgentRegistered, Subject::Agent(id), detail)?;
        if let Some(endpoint) = new.record.endpoint.clone() {
            let (hub, runtime) = (Arc::clone(&hub), runtime.clone());
            tx.after_commit(Box::new(move || challenge::ask_again(&hub, &runtime, id, endpoint)));
        }
        Ok((StatusCode::CREATED, answer.clone()))
    };
    super::write(&app, &caller, &headers, uri.path(), &body, make).await
}

/// List the agents of this hub
///
/// In the order of their names. With filters a page may hold fewer agents than asked for, or none, although there are more:
/// `next` alone says whether the list goes on.
#[utoipa::path(get, path = "/api/v1/agents", operation_id = "list_agents", tag = "agents", security(("key" = [])),
    params(("after" = Option<String>, Query, description = "`next` of the page before"),
           ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "50 unless said"),
           ("q" = Option<String>, Query, max_length = 100, description = "A part of the name or the description"),
           ("online" = Option<bool>, Query, description = "Whether their inbox is open"),
           ("mine" = Option<bool>, Query, description = "Only those of your account")),
    responses((status = 200, description = "A page", body = Items<AgentView>),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
pub(crate) async fn list(
    State(app): State<AppState>,
    By(caller): By,
    uri: Uri,
) -> Result<Json<Items<AgentView>>, ApiError> {
    known(&caller)?;
    let page = PageQuery::parse(&uri)?;
    let search = read_search(&caller, &uri)?;
    let (now, limit, after) = (app.now(), page.limit, page.after.unwrap_or_default());
    let max_bytes = app.config.quotas.page_bytes as usize;
    let find = move |tx: &mut dyn Tx| Ok(directory::search(tx, &search, now, &after, limit, max_bytes)?);
    let found = super::read(&app, find).await?;
    let items = found.agents.iter().map(|agent| view(&app, &caller, agent)).collect();
    Ok(Json(super::fitting(&app, items, found.next, |last: &AgentView| last.name.clone())))
}

fn read_search(caller: &Caller, uri: &Uri) -> Result<Search, ApiError> {
    let (mut search, mut faults, mut mine) =
        (Search { described: true, ..Search::default() }, Faults::new(), false);
    for (name, value) in url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
        let flag = match &*value {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        };
        match (&*name, flag) {
            ("q", _) if value.contains('\0') => faults.add("q", "must not contain U+0000"),
            ("q", _) if value.chars().count() > MAX_SEARCH => {
                faults.add("q", format_args!("must be at most {MAX_SEARCH} characters"));
            }
            ("q", _) => search.text = Some(value.into_owned()),
            ("online", Some(online)) => search.online = Some(online),
            ("mine", Some(only)) => mine = only,
            ("online" | "mine", None) => faults.add(&name, "must be true or false"),
            ("skill", _) => faults.add("skill", "agents have no skills here yet; leave it out"),
            _ => {}
        }
    }
    if !faults.is_empty() {
        return Err(faults.into());
    }
    if mine {
        search.owner = Some(caller.person()?.id);
    }
    Ok(search)
}

/// Find one agent by its address, its name or its id
#[utoipa::path(get, path = "/api/v1/agents/{id}", operation_id = "agent", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID")),
    responses((status = 200, description = "The agent", body = AgentView),
              Invalid, Unknown, Forbidden, Missing, TooFast, Overloaded))]
pub(crate) async fn one(
    State(app): State<AppState>,
    By(caller): By,
    Path(id): Path<String>,
) -> Result<Json<AgentView>, ApiError> {
    known(&caller)?;
    let (agent, hub) = (AgentRef::parse(&app, &id)?, Arc::clone(&app));
    let find = move |tx: &mut dyn Tx| {
        let agent = agent.find(tx)?.ok_or_else(|| super::not_found("agent"))?;
        Ok(view(&hub, &caller, &agent))
    };
    super::read(&app, find).await.map(Json)
}

/// What proves an agent.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "describes a body for the OpenAPI document")]
pub(crate) struct ClaimBody {
    /// The agent's key.
    #[schema(min_length = 1, max_length = 256, example = "ca_0123456789abcdef0123456789abcdef")]
    api_key: String,
}

/// Bring an agent that registered itself into your account
///
/// Whoever holds its key may, once: an agent that belongs to somebody stays there.
#[utoipa::path(post, path = "/api/v1/agents/claim", tag = "agents", security(("key" = [])),
    params(("Idempotency-Key" = Option<String>, Header, nullable = false, max_length = 255, pattern = r"^[!-~]([\t -~]*[!-~])?$",
            description = "The same for every retry of the same request")),
    request_body(content_type = "application/json", content = ClaimBody),
    responses((status = 200, description = "It is yours", body = AgentView),
              Invalid, Unknown, Forbidden, Missing, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
pub(crate) async fn claim(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let owner = caller.person()?.id;
    let body = body::read(&app, &headers, body, MAX_BODY).await?;
    let value = chorus_protocol::json::parse(&body).map_err(ApiError::validation)?;
    let mut faults = Faults::new();
    let key = Fields::of(&value, "", &mut faults).and_then(|mut fields| fields.required_text("api_key"));
    let key = key_hash(key.ok_or(faults)?);
    let (hub, who) = (Arc::clone(&app), caller.clone());
    let claim = move |tx: &mut dyn Tx| -> Result<Written, ApiError> {
        let agent = directory::by_key(tx, &key)?
            .ok_or_else(|| ApiError::new(Code::NotFound, "api_key: no agent here has this key"))?;
        // Of two that hold the key one comes first.
        tx.lock(agent.id.0)?;
        let agent = directory::by_id(tx, agent.id)?.ok_or_else(|| super::not_found("agent"))?;
        if agent.disabled_at.is_some() {
            return Err(disabled("agent").into());
        }
        if agent.owner.is_some() {
            return Err(ApiError::new(Code::Conflict, "this agent belongs to an account already"));
        }
        room("agents", usage::agents(tx, owner)?, hub.config.quotas.agents)?;
        directory::set_owner(tx, agent.id, Some(owner), None)?;
        let (subject, detail) = (Subject::Agent(agent.id), json!({"name": agent.name}));
        context.record(tx, &hub, &who, Action::AgentClaimed, subject, detail)?;
        let (again, id) = (Arc::clone(&hub), agent.id);
        tx.after_commit(Box::new(move || chorus_app::usage::forget(&again, id, owner)));
        let agent = Agent { owner: Some(owner), ..agent };
        Ok((StatusCode::OK, super::value(&view(&hub, &who, &agent))?))
    };
    super::write(&app, &caller, &headers, uri.path(), &body, claim).await
}
