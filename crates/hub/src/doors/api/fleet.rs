//! The fleet: agents with their state and activity, as a list and as a stream.

use crate::answers::ServerSentEvent;
use crate::answers::own::{Forbidden, Invalid, Overloaded, Reading, TooFast, Unknown};
use crate::error::ApiError;
use crate::event_stream::event_stream;
use crate::extract::{Known, Query};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::response::Response;
use chorus_app::fleet::{self, Watcher};
use chorus_node::caller::Shown;
use chorus_node::{AppState, Error};
use chorus_protocol::api::fleet::FleetAgent;
use chorus_protocol::api::{Items, Page, usual_limit};
use futures_util::stream;
use serde::Deserialize;
use std::convert::Infallible;
use utoipa::IntoParams;
use utoipa_axum::routes;

pub(super) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(list)).at(Route::API, routes!(watch))
}

/// List agents with their activity
///
/// Your agents and those you share a conversation with; for the operator, all. Each with its state, its
/// current task, place and start, its activity in the last hour, today's spent and saved model turns, and its
/// transport. Agents that need attention come first. Activity in conversations you are not a member of is
/// shown as `busy`.
#[utoipa::path(get, path = "/api/v1/fleet", operation_id = "list_fleet", tag = "agents", security(("key" = [])),
    params(Page),
    responses((status = 200, description = "A page", body = Items<FleetAgent>), Reading))]
async fn list(
    State(app): State<AppState>,
    Known(caller): Known,
    Query(asked): Query<Page>,
) -> Result<Json<Items<FleetAgent>>, ApiError> {
    Ok(Json(fleet::list(&app, &caller, asked).await?))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Watched {
    /// The number of agents to watch, from the start of the list. Default 50
    #[serde(default = "usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    limit: i64,
}

/// Watch agents and their activity
///
/// A stream of server-sent events: `fleet` with the first page, then `agent` for each agent that changed or
/// entered it, and `gone` with the `agent_id` of each that left it. The events have no ids: a new connection
/// starts over.
#[utoipa::path(get, path = "/api/v1/fleet/stream", operation_id = "watch_fleet", tag = "agents", security(("key" = [])),
    params(Watched),
    responses((status = 200, description = "The stream", body = ServerSentEvent, content_type = "text/event-stream"),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
async fn watch(
    State(app): State<AppState>,
    Known(caller): Known,
    Query(Watched { limit }): Query<Watched>,
    request: Request,
) -> Result<Response, ApiError> {
    let shown = request.extensions().get::<Shown>().copied();
    let shown = shown.ok_or_else(|| Error::internal("a caller who shows nothing"))?;
    let watcher = Watcher::open(app, caller, shown, limit).await?;
    let body = if request.method() == Method::HEAD {
        Body::empty()
    } else {
        Body::from_stream(stream::unfold(watcher, |mut watcher| async move {
            let bytes = watcher.next().await?;
            Some((Ok::<_, Infallible>(bytes), watcher))
        }))
    };
    Ok(event_stream(body))
}
