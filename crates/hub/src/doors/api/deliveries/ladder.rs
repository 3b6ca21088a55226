//! The ladder of an event: to whom it went, why, how, and how far it came.
//!
//! A rung is shown only when it was reached, and with its time only where that was noted.

use crate::doors::api::answers::{Forbidden, Missing, Overloaded, TooFast, Unknown};
use crate::doors::api::read;
use crate::error::ApiError;
use crate::extract::By;
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, State};
use chorus_app::views::{self, EventView};
use chorus_app::{AppState, Error};
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::EventId;
use chorus_protocol::relay::Delivery;
use chorus_protocol::time::rfc3339;
use chorus_store::deliveries::Transport;
use chorus_store::members::MembershipInterval;
use chorus_store::push::{self, Record};
use chorus_store::{Tx, conversation, conversations, log, members};
use serde::Serialize;
use utoipa_axum::routes;

/// The most deliveries and tries that are shown of one event.
const MAX_DELIVERIES: i64 = 200;
const MAX_ATTEMPTS: i64 = 500;

pub(super) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(event))
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
    /// To whom it is directed: `to_me`.
    directedness: &'static str,
    /// What is expected of the agent: `must_respond`.
    policy: &'static str,
    /// When it enters the agent's work: `immediate`.
    mode: &'static str,
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
        rungs.push(rung("dispositioned", Some(*at), Some(disposition.as_str())));
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
    By(caller): By,
    Path(id): Path<String>,
) -> Result<Json<LadderView>, ApiError> {
    let who = caller.principal()?;
    let missing = || ApiError::from(Error::not_found("event"));
    let id = EventId::parse(&id).ok_or_else(missing)?;
    let show = move |tx: &mut dyn Tx| {
        let event = conversations::event_by_id(tx, id)?.ok_or_else(missing)?;
        let (conversation, _) =
            conversation::as_reader(tx, event.conversation, who).map_err(|_| missing())?;
        let stays = log::readable(tx, &conversation, who)?;
        // What has no place in the conversation is nobody's to read here.
        if event.seq == conversations::UNPLACED || !MembershipInterval::any_holds(&stays, event.seq) {
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
    read(&app, show).await.map(Json)
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
    let Attention { directedness, policy, mode, reason, .. } = record.attention;
    Ok(LadderDelivery {
        directedness: directedness.as_str(),
        policy: policy.as_str(),
        mode: mode.as_str(),
        id: record.id.to_string(),
        recipient: Recipient {
            id: record.id.agent.to_string(),
            handle: member.map_or_else(|| record.agent.clone(), |member| member.handle),
        },
        transport: record.transport.as_str(),
        state: record.state.as_str(),
        rungs: rungs(&record),
        attempts: attempts.collect(),
        disposition: record.disposition.map(|(disposition, _)| disposition.as_str().into()),
        reason: Some(reason.as_str().into()),
    })
}
