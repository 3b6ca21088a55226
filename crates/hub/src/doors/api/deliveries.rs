//! Deliveries as owners see them: the ladder of an event, dead letters, replay.
//!
//! A rung is shown only when it was reached, and with its time only where that was noted.

use super::Items;
use super::agents::may_manage;
use super::answers::{
    Conflict, Forbidden, Invalid, Missing, Overloaded, TooFast, TooLarge, TooSlow, Unknown,
};
use crate::app::{App, AppState};
use crate::caller::Caller;
use crate::doors::body;
use crate::doors::relay::bodies::AgentAddress;
use crate::doors::relay::{AgentRef, PageQuery};
use crate::error::ApiError;
use crate::views::{self, EventView};
use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use chorus_protocol::faults::{Faults, Fields};
use chorus_protocol::ids::{ConversationId, DeliveryId, EventId};
use chorus_protocol::json;
use chorus_protocol::relay::{Code, Delivery, MAX_BODY};
use chorus_protocol::time::{parse_rfc3339, rfc3339};
use chorus_store::deliveries::Transport;
use chorus_store::members::Stay;
use chorus_store::push::{self, Cursor, Filter, Record};
use chorus_store::{Tx, channel, conversations, directory, log, members};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The most deliveries one call replays.
const MAX_REPLAYED: i64 = 1000;
/// The most deliveries and tries that are shown of one event.
const MAX_DELIVERIES: i64 = 200;
const MAX_ATTEMPTS: i64 = 500;

pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(replay_all))
        .routes(routes!(replay))
        .routes(routes!(event))
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
    /// How often it was tried.
    attempts: i64,
    /// When it is tried next.
    next_try: Option<String>,
    /// What went wrong last.
    error: Option<String>,
    /// When it was stored.
    created_at: String,
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
        kind: record.kind.clone(),
        transport: record.transport.as_str(),
        state: record.state.as_str(),
        reason: record.reason.clone(),
        attempts: record.attempt,
        next_try: record.due_at.map(rfc3339),
        error: record.detail.clone(),
        created_at: rfc3339(record.created_at),
    }
}

/// What is asked of a list: in a query or in a body.
#[derive(Debug, Clone, Default)]
struct Asked {
    filter: Filter,
    agent: Option<AgentRef>,
}

impl Asked {
    /// Notes one member of a query or a body, or what is wrong with it.
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

    fn of_query(app: &App, uri: &Uri) -> Result<Self, Faults> {
        let (mut asked, mut faults) = (Self::default(), Faults::new());
        for (name, value) in url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
            asked.take(app, &name, &value, &mut faults);
        }
        if faults.is_empty() { Ok(asked) } else { Err(faults) }
    }

    fn of_body(app: &App, body: &Value) -> Result<Self, Faults> {
        let (mut asked, mut faults) = (Self::default(), Faults::new());
        let mut texts = vec![];
        if let Some(mut fields) = Fields::of(body, "", &mut faults) {
            for name in ["state", "agent", "channel", "since", "until"] {
                texts.extend(fields.optional_text(name).map(|text| (name, text)));
            }
            if let Some((name, _)) =
                texts.iter().find(|(name, text)| *name == "state" && !matches!(*text, "dead" | "failed"))
            {
                fields.fault(name, "must be dead or failed");
            }
        }
        for (name, text) in texts {
            asked.take(app, name, text, &mut faults);
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
#[utoipa::path(get, path = "/api/v1/deliveries", tag = "deliveries", security(("key" = [])),
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
    caller: Caller,
    uri: Uri,
) -> Result<Json<Items<DeliveryView>>, ApiError> {
    let (page, asked) = (PageQuery::parse(&uri)?, Asked::of_query(&app, &uri)?);
    let after = page.after.as_deref().map(parse_cursor).transpose()?;
    let limit = page.limit;
    let find = move |tx: &mut dyn Tx| match asked.filter(tx, &caller)? {
        Some(filter) => Ok(push::list(tx, &filter, after, limit + 1)?),
        None => Ok(vec![]),
    };
    let found = Items::of(super::read(&app, find).await?, limit, print_cursor);
    let items = found.items.iter().map(|record| view(&app, record)).collect();
    Ok(Json(Items { items, next: found.next }))
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
    caller: Caller,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<ReplayView>), ApiError> {
    if !caller.is_known() {
        return Err(unknown());
    }
    let missing = || super::not_found("delivery");
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
        hub.push_after(tx);
        Ok(())
    };
    app.store.write::<_, ApiError, _>(replay).await?;
    let answer = ReplayView { id: id.to_string(), state: Delivery::Waiting.as_str() };
    Ok((StatusCode::ACCEPTED, Json(answer)))
}

/// Which deliveries are replayed.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "describes a body for the OpenAPI document")]
pub(crate) struct ReplayBody {
    /// `dead` or `failed`; both unless said.
    #[schema(pattern = "^(dead|failed)$")]
    state: Option<String>,
    /// Only those to this agent.
    agent: Option<AgentAddress>,
    /// Only those of this conversation.
    #[schema(pattern = "^ch_[0-9a-f]{32}$")]
    channel: Option<String>,
    /// Only those stored since.
    #[schema(format = "date-time")]
    since: Option<String>,
    /// Only those stored before.
    #[schema(format = "date-time")]
    until: Option<String>,
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
/// The oldest first, at most 1000 of them.
#[utoipa::path(post, path = "/api/v1/deliveries/replay", tag = "deliveries", security(("key" = [])),
    request_body(content_type = "application/json", content = ReplayBody),
    responses((status = 202, description = "They are tried", body = ReplayedView),
              Invalid, Unknown, Forbidden, TooSlow, TooLarge, TooFast, Overloaded))]
pub(crate) async fn replay_all(
    State(app): State<AppState>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<ReplayedView>), ApiError> {
    if !caller.is_known() {
        return Err(unknown());
    }
    let body = body::read(&app, &headers, body, MAX_BODY).await?;
    let asked = Asked::of_body(&app, &json::parse(&body).map_err(ApiError::validation)?)?;
    let (hub, now) = (Arc::clone(&app), app.now());
    let replay = move |tx: &mut dyn Tx| {
        let Some(filter) = asked.filter(tx, &caller)? else { return Ok((0, false)) };
        hub.push_after(tx);
        Ok(push::replay_all(tx, &filter, now, MAX_REPLAYED)?)
    };
    let (replayed, more) = app.store.write::<_, ApiError, _>(replay).await?;
    Ok((StatusCode::ACCEPTED, Json(ReplayedView { replayed, more })))
}

/// An event and what became of it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct LadderView {
    /// The event.
    event: EventView,
    /// To whom it went.
    deliveries: Vec<LadderDelivery>,
    /// Who took it on.
    #[schema(value_type = Vec<Object>)]
    claims: [(); 0],
}

/// How far an event came on its way to one agent.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct LadderDelivery {
    /// Its id.
    id: String,
    /// To whom.
    recipient: Recipient,
    /// `inbox`, `webhook` or `channel`.
    transport: &'static str,
    /// Why it goes to this agent.
    reason: Option<String>,
    /// How it stands.
    state: &'static str,
    /// The rungs it has reached, in order.
    rungs: Vec<StepView>,
    /// The tries, the first first.
    attempts: Vec<AttemptView>,
    /// What the agent made of it: `responded`, `failed` or `ignored`.
    disposition: Option<String>,
}

/// To whom, as its conversation knows it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Recipient {
    /// The agent's id.
    id: String,
    /// What it is called there.
    handle: String,
}

/// A rung of the ladder.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct StepView {
    /// `stored`, `handed`, `acked`, `dispositioned`, `failed` or `dead`.
    rung: &'static str,
    /// When, if that was noted.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// A try.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct AttemptView {
    /// When it began.
    at: String,
    /// What the receiver answered.
    status: Option<i64>,
    /// How long it took.
    latency_ms: i64,
    /// Why it did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

fn rungs(record: &Record) -> Vec<StepView> {
    let rung = |rung, at: Option<i64>, reason: Option<&str>| StepView {
        rung,
        at: at.map(rfc3339),
        reason: reason.map(str::to_owned),
    };
    let mut rungs = vec![rung("stored", Some(record.created_at), None)];
    if record.handed {
        rungs.push(rung("handed", record.handed_at, None));
    }
    match record.state {
        Delivery::Delivered if record.transport != Transport::Inbox => {
            rungs.push(rung("acked", record.handed_at, None));
        }
        Delivery::Failed | Delivery::Dead => {
            rungs.push(rung(record.state.as_str(), Some(record.updated_at), record.detail.as_deref()));
        }
        _ => {}
    }
    if let Some((disposition, at)) = &record.disposition {
        rungs.push(rung("dispositioned", Some(*at), Some(disposition)));
    }
    rungs
}

/// See what became of an event
///
/// For members of its conversation who may read it: to whom it went, why, how, and how far it came.
#[utoipa::path(get, path = "/api/v1/events/{event_id}", tag = "deliveries", security(("key" = [])),
    params(("event_id" = String, Path, pattern = "^evt_[0-9a-f]{32}$", description = "The event")),
    responses((status = 200, description = "The event", body = LadderView),
              Unknown, Forbidden, Missing, TooFast, Overloaded))]
pub(crate) async fn event(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<LadderView>, ApiError> {
    let who = caller.principal()?;
    let missing = || super::not_found("event");
    let id = EventId::parse(&id).ok_or_else(missing)?;
    let read = move |tx: &mut dyn Tx| {
        let event = conversations::event_by_id(tx, id)?.ok_or_else(missing)?;
        let (conversation, _) = channel::look(tx, event.conversation, who).map_err(|_| missing())?;
        let stays = log::readable(tx, &conversation, who)?;
        // What has no place in the conversation is nobody's to read here.
        if event.seq == conversations::UNPLACED || !Stay::any_holds(&stays, event.seq) {
            return Err(missing());
        }
        let events = [event];
        let standing = log::stand(tx, &conversation, who, &stays, &events)?;
        let event = views::events(&events, &standing.changes, &standing.replies).remove(0);
        let mut deliveries = vec![];
        for record in push::of_event(tx, id, MAX_DELIVERIES)? {
            deliveries.push(ladder(tx, record)?);
        }
        Ok(LadderView { event, deliveries, claims: [] })
    };
    super::read(&app, read).await.map(Json)
}

fn ladder(tx: &mut dyn Tx, record: Record) -> Result<LadderDelivery, ApiError> {
    let member = members::of(tx, record.conversation, record.id.agent.into())?;
    let attempts = push::attempts(tx, record.id, MAX_ATTEMPTS)?;
    let attempts = attempts.into_iter().map(|attempt| AttemptView {
        at: rfc3339(attempt.at),
        status: attempt.status,
        latency_ms: attempt.latency_ms,
        error: attempt.error,
    });
    Ok(LadderDelivery {
        id: record.id.to_string(),
        recipient: Recipient {
            id: record.id.agent.to_string(),
            handle: member.map_or_else(|| record.agent.clone(), |member| member.handle),
        },
        transport: record.transport.as_str(),
        state: record.state.as_str(),
        rungs: rungs(&record),
        attempts: attempts.collect(),
        disposition: record.disposition.map(|(disposition, _)| disposition),
        reason: record.reason,
    })
}
