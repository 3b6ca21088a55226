//! The inbox: a stream that begins with what waits, and the same history by cursor.

use crate::answers::ServerSentEvent;
use crate::answers::relay::{Overloaded, TooFast, success};
use crate::credentials::bearer;
use crate::error::ApiError;
use crate::event_stream::event_stream;
use crate::extract::{Agent, Query};
use crate::places::{last_event_id, parse_place};
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use chorus_app::caller::key_hash;
use chorus_app::delivery::dialect::Dialect;
use chorus_app::delivery::reader::{Piece, Reader};
use chorus_app::{AppState, relay};
use chorus_protocol::api::usual_limit;
use chorus_protocol::relay::{Failure, Page, Success};
use futures_util::stream;
use serde::Deserialize;
use std::convert::Infallible;
use utoipa::IntoParams;

/// Open your inbox
///
/// A stream of server-sent events: `connected`, then what waits, in order, then what comes. Each `message` has an
/// `id`; send the last one as `Last-Event-ID` to go on after it. Without it the stream begins after what any
/// connection of yours was handed before. One connection at a time: a second one takes over from the first, which
/// gets the event `takeover`. Other events: `gap` (history you ask for is gone), and a comment every 15 s.
#[utoipa::path(get, path = "/agent/inbox", operation_id = "open_inbox", tag = "relay", security(("key" = [])),
    params(("Last-Event-ID" = Option<String>, Header, nullable = false, pattern = "^[0-9]{0,18}$", description = "Go on after this message")),
    responses((status = 200, description = "The stream", body = ServerSentEvent, content_type = "text/event-stream"),
              (status = 400, description = "`ERR_VALIDATION`", body = Failure),
              (status = 401, description = "`ERR_UNAUTHORIZED`", body = Failure),
              (status = 403, description = "`ERR_FORBIDDEN`", body = Failure),
              TooFast, Overloaded))]
pub(crate) async fn open(
    State(app): State<AppState>,
    Agent(identity): Agent,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let key = bearer(&headers)?.map(key_hash).unwrap_or_default();
    let place = last_event_id(&headers)?;
    let body = if method == Method::HEAD {
        // To look at the headers must not take the inbox from whoever reads it.
        Body::empty()
    } else {
        let reader = Reader::open(app, identity, key, Dialect::Sse, place).await?;
        Body::from_stream(stream::unfold((reader, None), |(mut reader, given)| async move {
            // The connection asks for more, so it took what it was given.
            if let Some(through) = given {
                reader.hand(through);
            }
            let Piece { bytes, through } = reader.next().await?;
            Some((Ok::<_, Infallible>(bytes), (reader, Some(through))))
        }))
    };
    Ok(event_stream(body))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct InboxPage {
    /// `next` of the page before, or an SSE id
    #[param(pattern = "^[0-9]{0,18}$")]
    after: Option<String>,
    /// 50 unless said
    #[serde(default = "usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    limit: i64,
}

/// Read your inbox by cursor
///
/// All that was sent to you, by whichever way, in order. An SSE `id` is a valid `after`.
#[utoipa::path(get, path = "/agent/messages", tag = "relay", security(("key" = [])),
    params(InboxPage),
    responses((status = 200, description = "A page", body = Success<Page>),
              (status = 400, description = "`ERR_VALIDATION`", body = Failure),
              (status = 401, description = "`ERR_UNAUTHORIZED`", body = Failure),
              (status = 403, description = "`ERR_FORBIDDEN`", body = Failure),
              TooFast, Overloaded))]
pub(crate) async fn history(
    State(app): State<AppState>,
    Agent(identity): Agent,
    Query(page): Query<InboxPage>,
) -> Result<Response, ApiError> {
    let after = page.after.map_or(Ok(0), |after| parse_place("after", &after))?;
    let page = relay::history(&app, &identity, after, page.limit).await?;
    Ok(success(&app, StatusCode::OK, page))
}
