//! Deliveries from their owners' view: pending ones, dead letters, replay, and the ladder of an event.

mod ladder;

use super::Items;
use crate::answers::own::{
    Conflict, Forbidden, Invalid, Missing, Overloaded, TooFast, TooLarge, TooSlow, Unknown,
};
use crate::body;
use crate::error::ApiError;
use crate::extract::{By, Context, Query, query};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, Uri};
use chorus_app::agents::AgentRef;
use chorus_app::deliveries::{self, Asked};
use chorus_node::{App, AppState};
use chorus_protocol::api::agents::AgentAddress;
use chorus_protocol::api::deliveries::{AttemptView, DeliveryView, ReplayView, ReplayedView};
use chorus_protocol::api::usual_limit;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::ConversationId;
use chorus_protocol::relay::MAX_BODY;
use chorus_protocol::time::parse_rfc3339;
use chorus_protocol::words::DeliveryState;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .at(Route::API, routes!(list))
        .at(Route::API, routes!(replay_all))
        .at(Route::API, routes!(replay))
        .at(Route::API, routes!(attempts))
        .and(ladder::routes())
}

/// Applies one query parameter, or records its fault.
fn take(asked: &mut Asked, app: &App, name: &str, value: &str, faults: &mut Faults) {
    match name {
        "state" => match DeliveryState::parse(value) {
            Some(state) => asked.state = Some(state),
            None => faults.add(name, "must be a state of a delivery, such as dead"),
        },
        "agent" => match AgentRef::parse(app, value) {
            Ok(agent) => asked.agent = Some(agent),
            Err(_) => faults.add(name, "must be an agent's address or id"),
        },
        "channel" => match ConversationId::parse(value) {
            Some(id) => asked.conversation = Some(id),
            None => faults.add(name, "must be the id of a conversation: ch_…"),
        },
        "since" | "until" => match parse_rfc3339(value) {
            Some(time) if name == "since" => asked.since = time,
            Some(time) => asked.until = Some(time),
            None => faults.add(name, "must be a time such as 2026-03-20T10:00:00Z"),
        },
        _ => {}
    }
}

/// Parses the filter. A state must be one of `of`, unless `of` is empty. This is done by hand, because more
/// states are accepted than the document lists, and an empty agent name must not select every agent.
fn asked(app: &App, uri: &Uri, of: &[DeliveryState]) -> Result<Asked, Faults> {
    let (mut asked, mut faults) = (Asked::default(), Faults::new());
    for (name, value) in query(uri) {
        take(&mut asked, app, &name, &value, &mut faults);
    }
    if asked.state.is_some_and(|state| !of.is_empty() && !of.contains(&state)) {
        let states: Vec<_> = of.iter().map(|state| state.as_str()).collect();
        faults.add("state", format_args!("must be {}", states.join(" or ")));
    }
    if faults.is_empty() { Ok(asked) } else { Err(faults) }
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeliveryPage {
    /// `next` of the previous page
    #[param(pattern = r"^([0-9]{1,18}\.dlv_[0-9a-f]{32}_[0-9]{1,18})?$")]
    after: Option<String>,
    /// The page size. Default 50
    #[serde(default = "usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    limit: i64,
}

/// List deliveries
///
/// In chronological order: those to the agents of your account; for an agent, its own; for the operator, all.
/// Envelopes are not included, because their senders already got the outcome.
#[utoipa::path(get, path = "/api/v1/deliveries", operation_id = "list_deliveries", tag = "deliveries", security(("key" = [])),
    params(("state" = Option<String>, Query, pattern = "^(queued|delivered_sse|waiting|delivered|failed|dead)$",
            description = "Return only deliveries in this state"),
           ("agent" = Option<AgentAddress>, Query, description = "Return only deliveries to this agent"),
           ("channel" = Option<String>, Query, pattern = "^ch_[0-9a-f]{32}$", description = "Return only deliveries of this conversation"),
           ("since" = Option<String>, Query, format = "date-time", description = "Return only deliveries stored since this time"),
           ("until" = Option<String>, Query, format = "date-time", description = "Return only deliveries stored before this time"),
           DeliveryPage),
    responses((status = 200, description = "A page", body = Items<DeliveryView>),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
pub(crate) async fn list(
    State(app): State<AppState>,
    By(caller): By,
    Query(page): Query<DeliveryPage>,
    uri: Uri,
) -> Result<Json<Items<DeliveryView>>, ApiError> {
    let asked = asked(&app, &uri, &[])?;
    Ok(Json(deliveries::list(&app, caller, asked, page.after.as_deref(), page.limit).await?))
}

/// List the attempts of a delivery
///
/// In chronological order, including those before a replay, each with its start and outcome; at most 300.
#[utoipa::path(get, path = "/api/v1/deliveries/{id}/attempts", operation_id = "list_attempts", tag = "deliveries", security(("key" = [])),
    params(("id" = String, Path, pattern = "^dlv_[0-9a-f]{32}_[0-9]{1,18}$", description = "The delivery")),
    responses((status = 200, description = "The complete list", body = Items<AttemptView>),
              Unknown, Forbidden, Missing, TooFast, Overloaded))]
pub(crate) async fn attempts(
    State(app): State<AppState>,
    By(caller): By,
    Path(id): Path<String>,
) -> Result<Json<Items<AttemptView>>, ApiError> {
    let items = deliveries::attempts(&app, caller, &id).await?;
    Ok(Json(Items { items, next: None }))
}

/// Replay a dead or failed delivery
///
/// It is posted at once, or in its turn if others of its conversation wait.
#[utoipa::path(post, path = "/api/v1/deliveries/{id}/replay", tag = "deliveries", security(("key" = [])),
    params(("id" = String, Path, pattern = "^dlv_[0-9a-f]{32}_[0-9]{1,18}$", description = "The delivery")),
    responses((status = 202, description = "The attempt has started", body = ReplayView),
              Unknown, Forbidden, Missing, Conflict, TooFast, Overloaded))]
pub(crate) async fn replay(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<ReplayView>), ApiError> {
    Ok((StatusCode::ACCEPTED, Json(deliveries::replay(&app, caller, context, &id).await?)))
}

/// Replay all dead or failed deliveries of a period
///
/// Oldest first, at most 1000. The query selects them; a body with content is refused.
#[utoipa::path(post, path = "/api/v1/deliveries/replay", tag = "deliveries", security(("key" = [])),
    params(("state" = Option<String>, Query, pattern = "^(dead|failed)$", description = "`dead` or `failed`. Default: both"),
           ("agent" = Option<AgentAddress>, Query, description = "Return only deliveries to this agent"),
           ("channel" = Option<String>, Query, pattern = "^ch_[0-9a-f]{32}$", description = "Return only deliveries of this conversation"),
           ("since" = Option<String>, Query, format = "date-time", description = "Return only deliveries stored since this time"),
           ("until" = Option<String>, Query, format = "date-time", description = "Return only deliveries stored before this time")),
    responses((status = 202, description = "The attempts have started", body = ReplayedView),
              Invalid, Unknown, Forbidden, TooSlow, TooLarge, TooFast, Overloaded))]
pub(crate) async fn replay_all(
    State(app): State<AppState>,
    By(caller): By,
    Context(context): Context,
    uri: Uri,
    request: Request,
) -> Result<(StatusCode, Json<ReplayedView>), ApiError> {
    deliveries::may_replay(&caller)?;
    let (parts, body) = request.into_parts();
    let body = body::read(&app, &parts, body, MAX_BODY).await?;
    if !matches!(body.trim_ascii(), b"" | b"{}") {
        return Err(Faults::one("body", "must be empty; which are replayed is said in the query").into());
    }
    let asked = asked(&app, &uri, &[DeliveryState::Dead, DeliveryState::Failed])?;
    Ok((StatusCode::ACCEPTED, Json(deliveries::replay_all(&app, caller, context, asked).await?)))
}
