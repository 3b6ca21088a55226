//! A conversation as a stream: its log, typing notices, and ephemeral messages.

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
use chorus_app::conversation::{Follower, conversation_id, event_id, show_typing};
use chorus_node::AppState;
use chorus_node::caller::Shown;
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
    /// Start after this sequence number
    #[param(pattern = "^[0-9]{0,18}$")]
    after: Option<String>,
}

/// Follow a conversation
///
/// A stream of server-sent events, the same as in the log: `id` is the sequence number, `event` the kind. Send
/// the last `id` as `Last-Event-ID` to resume after it, or pass a sequence number as `after`; without either
/// the stream starts with the next event. The first event is `connected`, with the position it starts `after`.
/// A comment every 15 s keeps the connection alive. The stream ends when you are no longer a member, and when
/// your key, token or session is revoked.
///
/// Further events have no `id`: `typing` names who is typing. `growing` carries an answer in progress
/// (`event_id` is its future id; an empty `content` withdraws it). `ephemeral` is a message for current
/// followers that is not in the log (`event_id`, `author`, `content`, `thread`, `created_at`). `approvals`
/// tells people, not agents, that the set of messages waiting for approval changed: call `GET
/// /api/v1/approvals`. `attention` tells people, not agents, that the claims or knocks of an event changed
/// (`event_id`): call `GET /api/v1/events/{event_id}`.
#[utoipa::path(get, path = "/api/v1/channels/{id}/stream", operation_id = "open_stream", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "The id of a conversation you are a member of"),
           Place,
           ("Last-Event-ID" = Option<String>, Header, nullable = false, pattern = "^[0-9]{0,18}$", description = "Resume after this event")),
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
    // A reconnecting browser sends the header along with its original query.
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

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct TypingPlace {
    /// The thread in which the caller is typing
    thread: Option<String>,
}

/// Send a typing notice
///
/// Current followers of the conversation see it. It is not stored.
#[utoipa::path(post, path = "/api/v1/channels/{id}/typing", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "The id of a conversation you are a member of"), TypingPlace),
    responses((status = 204, description = "Posted"),
              Invalid, Unknown, Forbidden, Missing, TooFast, Overloaded))]
async fn typing(
    State(app): State<AppState>,
    Member(who): Member,
    Path(id): Path<String>,
    Query(TypingPlace { thread }): Query<TypingPlace>,
) -> Result<StatusCode, ApiError> {
    let thread = thread.as_deref().map(event_id).transpose()?;
    show_typing(&app, who, conversation_id(&id)?, thread).await?;
    Ok(StatusCode::NO_CONTENT)
}
