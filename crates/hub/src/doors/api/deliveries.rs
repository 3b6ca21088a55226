//! Deliveries as owners see them: what is on its way, dead letters, replay; and the ladder of an event.

mod ladder;

use super::Items;
use super::answers::{
    Conflict, Forbidden, Invalid, Missing, Overloaded, TooFast, TooLarge, TooSlow, Unknown,
};
use crate::doors::body;
use crate::doors::relay::{AgentRef, PageQuery};
use crate::error::ApiError;
use crate::extract::{By, Context};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use chorus_app::agents::may_manage;
use chorus_app::caller::Caller;
use chorus_app::{App, AppState, Error};
use chorus_protocol::api::agents::AgentAddress;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{ConversationId, DeliveryId};
use chorus_protocol::relay::{Code, Delivery, MAX_BODY};
use chorus_protocol::time::{parse_rfc3339, rfc3339};
use chorus_store::audit::{Action, Subject};
use chorus_store::push::{self, Cursor, Filter, Record};
use chorus_store::{Tx, directory};
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;
use utoipa_axum::routes;

/// The most deliveries one call replays.
const MAX_REPLAYED: i64 = 1000;
/// How many of them in one transaction.
const REPLAYED_TOGETHER: usize = 100;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .at(Route::API, routes!(list))
        .at(Route::API, routes!(replay_all))
        .at(Route::API, routes!(replay))
        .and(ladder::routes())
}

/// A delivery.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct DeliveryView {
    /// Its id.
    #[schema(example = "dlv_0190a3c4d5e67f8090a1b2c3d4e5f607_12")]
    id: String,
    /// Of which event.
    event_id: String,
    /// In which conversation.
    channel: String,
    /// To whom.
    agent: RecipientAgent,
    /// `chat`, or `channel` for another service's message.
    kind: String,
    /// `inbox`, `webhook` or `channel`.
    transport: &'static str,
    /// `queued`, `delivered_sse`, `waiting`, `delivered`, `failed` or `dead`.
    state: &'static str,
    /// Why it goes to this agent.
    reason: Option<String>,
    /// How often it was tried, since it was replayed if it was.
    attempts: i64,
    /// When it is tried next.
    next_try: Option<String>,
    /// What went wrong last.
    error: Option<String>,
    /// When it was stored.
    created_at: String,
    /// Its place in the list.
    #[serde(skip)]
    cursor: String,
}

/// To whom.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct RecipientAgent {
    /// The agent's id.
    id: String,
    /// Its address.
    address: String,
}

fn view(app: &App, record: &Record) -> DeliveryView {
    DeliveryView {
        id: record.id.to_string(),
        event_id: record.event.to_string(),
        channel: record.conversation.to_string(),
        agent: RecipientAgent { id: record.id.agent.to_string(), address: app.address(&record.agent) },
        kind: record.kind.as_str().into(),
        transport: record.transport.as_str(),
        state: record.state.as_str(),
        reason: Some(record.attention.reason.as_str().into()),
        attempts: record.attempt,
        next_try: record.due_at.map(rfc3339),
        error: record.detail.clone(),
        created_at: rfc3339(record.created_at),
        cursor: print_cursor(record),
    }
}

/// What is asked of a list, in a query.
#[derive(Debug, Clone, Default)]
struct Asked {
    filter: Filter,
    agent: Option<AgentRef>,
}

impl Asked {
    /// Notes one member of a query, or what is wrong with it.
    fn take(&mut self, app: &App, name: &str, value: &str, faults: &mut Faults) {
        match name {
            "state" => match Delivery::parse(value) {
                Some(state) => self.filter.state = Some(state),
                None => faults.add(name, "must be a state of a delivery, such as dead"),
            },
            "agent" => match AgentRef::parse(app, value) {
                Ok(agent) => self.agent = Some(agent),
                Err(_) => faults.add(name, "must be an agent's address or id"),
            },
            "channel" => match ConversationId::parse(value) {
                Some(id) => self.filter.conversation = Some(id),
                None => faults.add(name, "must be the id of a conversation: ch_…"),
            },
            "since" | "until" => match parse_rfc3339(value) {
                Some(time) if name == "since" => self.filter.since = time,
                Some(time) => self.filter.until = Some(time),
                None => faults.add(name, "must be a time such as 2026-03-20T10:00:00Z"),
            },
            _ => {}
        }
    }

    /// Everything that a query says; the state, if there is one, must be in `of`, unless that is empty.
    fn of_query(app: &App, uri: &Uri, of: &[Delivery]) -> Result<Self, Faults> {
        let (mut asked, mut faults) = (Self::default(), Faults::new());
        for (name, value) in url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
            asked.take(app, &name, &value, &mut faults);
        }
        if asked.filter.state.is_some_and(|state| !of.is_empty() && !of.contains(&state)) {
            let states: Vec<_> = of.iter().map(|state| state.as_str()).collect();
            faults.add("state", format_args!("must be {}", states.join(" or ")));
        }
        if faults.is_empty() { Ok(asked) } else { Err(faults) }
    }

    /// What this caller may see of it; nothing if it asks for an agent that is not there.
    fn filter(&self, tx: &mut dyn Tx, caller: &Caller) -> Result<Option<Filter>, ApiError> {
        let mut filter = self.filter.clone();
        match caller {
            Caller::Operator => {}
            Caller::Account(person) => filter.owner = Some(person.id),
            Caller::Agent(identity) => filter.agent = Some(identity.id),
            Caller::Nobody => return Err(unknown()),
        }
        if let Some(agent) = &self.agent {
            match agent.find(tx)? {
                Some(agent) if may_manage(caller, &agent) => filter.agent = Some(agent.id),
                _ => return Ok(None),
            }
        }
        Ok(Some(filter))
    }
}

fn unknown() -> ApiError {
    ApiError::unauthorized("this needs an account's token, an agent's key or the operator's")
}

/// A place in the list: the time of a delivery, and the delivery.
fn print_cursor(record: &Record) -> String {
    format!("{}.{}", record.created_at, record.id)
}

fn parse_cursor(text: &str) -> Result<Cursor, Faults> {
    let parse = || {
        let (time, id) = text.split_once('.')?;
        Some((time.parse().ok()?, DeliveryId::parse(id)?))
    };
    parse().ok_or_else(|| Faults::one("after", "must be `next` of the page before"))
}

/// List deliveries
///
/// In the order of time: those to the agents of your account; for an agent, its own; for the operator, all. Envelopes
/// are not among them: their senders were told their outcome.
#[utoipa::path(get, path = "/api/v1/deliveries", operation_id = "list_deliveries", tag = "deliveries", security(("key" = [])),
    params(("state" = Option<String>, Query, pattern = "^(queued|delivered_sse|waiting|delivered|failed|dead)$",
            description = "Only those in this state"),
           ("agent" = Option<AgentAddress>, Query, description = "Only those to this agent"),
           ("channel" = Option<String>, Query, pattern = "^ch_[0-9a-f]{32}$", description = "Only those of this conversation"),
           ("since" = Option<String>, Query, format = "date-time", description = "Only those stored since"),
           ("until" = Option<String>, Query, format = "date-time", description = "Only those stored before"),
           ("after" = Option<String>, Query, pattern = r"^([0-9]{1,18}\.dlv_[0-9a-f]{32}_[0-9]{1,18})?$",
            description = "`next` of the page before"),
           ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "50 unless said")),
    responses((status = 200, description = "A page", body = Items<DeliveryView>),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
pub(crate) async fn list(
    State(app): State<AppState>,
    By(caller): By,
    uri: Uri,
) -> Result<Json<Items<DeliveryView>>, ApiError> {
    let (page, asked) = (PageQuery::parse(&uri)?, Asked::of_query(&app, &uri, &[])?);
    let after = page.after.as_deref().map(parse_cursor).transpose()?;
    let limit = page.limit;
    let find = move |tx: &mut dyn Tx| match asked.filter(tx, &caller)? {
        Some(filter) => Ok(push::list(tx, &filter, after, limit + 1)?),
        None => Ok(vec![]),
    };
    let found = super::read(&app, find).await?;
    let items = found.iter().map(|record| view(&app, record)).collect();
    Ok(Json(super::page(&app, items, limit, |last: &DeliveryView| last.cursor.clone())))
}

/// A delivery that is tried anew.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ReplayView {
    /// Which.
    id: String,
    /// `waiting`.
    state: &'static str,
}

/// Try a delivery anew that was given up or refused
///
/// It is posted at once, or in its turn if others of its conversation wait.
#[utoipa::path(post, path = "/api/v1/deliveries/{id}/replay", tag = "deliveries", security(("key" = [])),
    params(("id" = String, Path, pattern = "^dlv_[0-9a-f]{32}_[0-9]{1,18}$", description = "The delivery")),
    responses((status = 202, description = "It is tried", body = ReplayView),
              Unknown, Forbidden, Missing, Conflict, TooFast, Overloaded))]
pub(crate) async fn replay(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<ReplayView>), ApiError> {
    if !caller.is_known() {
        return Err(unknown());
    }
    let missing = || ApiError::from(Error::not_found("delivery"));
    let id = DeliveryId::parse(&id).ok_or_else(missing)?;
    let (hub, now) = (Arc::clone(&app), app.now());
    let replay = move |tx: &mut dyn Tx| {
        let agent = directory::by_id(tx, id.agent)?.filter(|agent| may_manage(&caller, agent));
        agent.ok_or_else(missing)?;
        let record = push::get(tx, id)?.ok_or_else(missing)?;
        if !push::replay(tx, id, now)? {
            let state = record.state.as_str();
            let what = format_args!("only what is dead or failed can be replayed; this delivery is {state}");
            return Err(ApiError::new(Code::Conflict, what));
        }
        if caller == Caller::Operator {
            let (subject, detail) = (Subject::Agent(id.agent), json!({"delivery": id.to_string()}));
            context.record(tx, &hub, &caller, Action::DeliveriesReplayed, subject, detail)?;
        }
        hub.push_after(tx);
        Ok(())
    };
    app.store.write::<_, ApiError, _>(replay).await?;
    let answer = ReplayView { id: id.to_string(), state: Delivery::Waiting.as_str() };
    Ok((StatusCode::ACCEPTED, Json(answer)))
}

/// How many deliveries are tried anew.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ReplayedView {
    /// So many.
    replayed: u64,
    /// Whether there are more: at most 1000 are replayed at a time.
    more: bool,
}

/// Try all deliveries anew that were given up or refused in a time
///
/// The oldest first, at most 1000 of them. Which, is said in the query: a body that says something is refused.
#[utoipa::path(post, path = "/api/v1/deliveries/replay", tag = "deliveries", security(("key" = [])),
    params(("state" = Option<String>, Query, pattern = "^(dead|failed)$", description = "`dead` or `failed`; both unless said"),
           ("agent" = Option<AgentAddress>, Query, description = "Only those to this agent"),
           ("channel" = Option<String>, Query, pattern = "^ch_[0-9a-f]{32}$", description = "Only those of this conversation"),
           ("since" = Option<String>, Query, format = "date-time", description = "Only those stored since"),
           ("until" = Option<String>, Query, format = "date-time", description = "Only those stored before")),
    responses((status = 202, description = "They are tried", body = ReplayedView),
              Invalid, Unknown, Forbidden, TooSlow, TooLarge, TooFast, Overloaded))]
pub(crate) async fn replay_all(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<ReplayedView>), ApiError> {
    if !caller.is_known() {
        return Err(unknown());
    }
    let body = body::read(&app, &headers, body, MAX_BODY).await?;
    if !matches!(body.trim_ascii(), b"" | b"{}") {
        return Err(Faults::one("body", "must be empty; which are replayed is said in the query").into());
    }
    let asked = Asked::of_query(&app, &uri, &[Delivery::Dead, Delivery::Failed])?;
    // Found before it is written, and written in parts: everybody who writes waits for whoever writes.
    let who = caller.clone();
    let find = move |tx: &mut dyn Tx| match asked.filter(tx, &who)? {
        Some(filter) => Ok(push::find_replayable(tx, &filter, MAX_REPLAYED)?),
        None => Ok((vec![], false)),
    };
    let (found, more) = super::read(&app, find).await?;
    let mut replayed = 0;
    for some in found.chunks(REPLAYED_TOGETHER) {
        let (hub, now, some) = (Arc::clone(&app), app.now(), some.to_vec());
        let (caller, context) = (caller.clone(), context.clone());
        let replay = move |tx: &mut dyn Tx| {
            hub.push_after(tx);
            let replayed = push::replay_all(tx, &some, now)?;
            if caller == Caller::Operator {
                let detail = json!({"replayed": replayed});
                context.record(tx, &hub, &caller, Action::DeliveriesReplayed, Subject::Hub, detail)?;
            }
            Ok(replayed)
        };
        replayed += app.store.write::<_, ApiError, _>(replay).await?;
    }
    Ok((StatusCode::ACCEPTED, Json(ReplayedView { replayed, more })))
}
