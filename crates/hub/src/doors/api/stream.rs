//! A conversation as it goes on: its log as a stream, who is typing, and what is only for who looks.

use crate::answers::ServerSentEvent;
use crate::answers::own::{Forbidden, Invalid, Missing, Overloaded, TooFast, Unknown};
use crate::cursors::{last_event_id, parse_cursor};
use crate::error::ApiError;
use crate::event_stream::event_stream;
use crate::extract::{Member, Query};
use crate::route::Route;
use crate::routes::Routes;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use chorus_app::AppState;
use chorus_app::caller::Shown;
use chorus_app::conversation::{Follower, conversation_id, show_typing};
use futures_util::stream;
use serde::Deserialize;
use std::convert::Infallible;
use utoipa::IntoParams;
use utoipa_axum::routes;

pub(super) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(open)).at(Route::API, routes!(typing))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Place {
    /// Begin after this sequence number
    #[param(pattern = "^[0-9]{0,18}$")]
    after: Option<String>,
}

/// Follow a conversation
///
/// A stream of server-sent events, the same as in the log: `id` is the sequence number, `event` the kind. Send the last
/// `id` as `Last-Event-ID` to go on after it, or a sequence number as `after` to begin with; without either it begins with
/// what comes next. The first event is `connected`, with the place it begins `after`. Besides, `typing` says who is
/// typing, and `growing` how far an answer has come that is being made (`event_id` is the id it will have; an empty `content` takes
/// it back); `ephemeral` is what is said to whoever follows now, and is in no log (`event_id`, `author`, `content`, `thread`,
/// `created_at`); `approvals` tells a person, and no agent, that something waits until somebody agrees, or waits no longer: ask
/// `GET /api/v1/approvals`; `attention` tells a person, and no agent, that who holds an event or was knocked about it changed
/// (`event_id`): ask `GET /api/v1/events/{event_id}`. None of them has an `id`. A comment shows every 15 s that it lives. It
/// ends when you are no member any more, and when your key, token or session is taken back.
#[utoipa::path(get, path = "/api/v1/channels/{id}/stream", operation_id = "open_stream", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"),
           Place,
           ("Last-Event-ID" = Option<String>, Header, nullable = false, pattern = "^[0-9]{0,18}$", description = "Go on after this event")),
    responses((status = 200, description = "The stream", body = ServerSentEvent, content_type = "text/event-stream"),
              Invalid, Unknown, Forbidden, Missing, TooFast, Overloaded))]
async fn open(
    State(app): State<AppState>,
    Member(who): Member,
    Path(id): Path<String>,
    Query(Place { after }): Query<Place>,
    request: Request,
) -> Result<Response, ApiError> {
    let id = conversation_id(&id)?;
    let after = after.map(|after| parse_cursor("after", &after)).transpose()?;
    // A browser that connects again sends the header, and the query it began with.
    let place = last_event_id(request.headers())?.or(after);
    let shown = request.extensions().get::<Shown>().copied();
    let shown = shown.ok_or_else(|| ApiError::internal("a caller who shows nothing"))?;
    let follower = Follower::open(app, id, who, shown, place).await?;
    let body = if request.method() == Method::HEAD {
        Body::empty()
    } else {
        Body::from_stream(stream::unfold(follower, |mut follower| async move {
            let bytes = follower.next().await?;
            Some((Ok::<_, Infallible>(bytes), follower))
        }))
    };
    Ok(event_stream(body))
}

/// Say that you are typing
///
/// Those who follow the conversation just then see it; it is kept nowhere.
#[utoipa::path(post, path = "/api/v1/channels/{id}/typing", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of")),
    responses((status = 204, description = "Said"),
              Invalid, Unknown, Forbidden, Missing, TooFast, Overloaded))]
async fn typing(
    State(app): State<AppState>,
    Member(who): Member,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    show_typing(&app, who, conversation_id(&id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}
