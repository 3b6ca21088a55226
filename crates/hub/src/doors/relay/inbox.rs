//! The inbox: a stream that starts with pending entries, and the same history by cursor.

use crate::answers::ServerSentEvent;
use crate::answers::relay::{Overloaded, TooFast, success, success_page};
use crate::credentials::bearer;
use crate::cursors::{last_event_id, parse_cursor};
use crate::error::ApiError;
use crate::event_stream::event_stream;
use crate::extract::{Agent, By, Query, query};
use crate::route::{ForeignPages, Grant, Route};
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::Response;
use chorus_app::delivery::reader::{Piece, Reader};
use chorus_app::relay;
use chorus_node::caller::key_hash;
use chorus_node::transport::dialect::Dialect;
use chorus_node::{App, AppState};
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::AgentId;
use chorus_protocol::relay::{Failure, InboxSession, SentMessage, StoredMessage, Success};
use chorus_protocol::time::parse_rfc3339;
use futures_util::stream;
use serde::Deserialize;
use std::convert::Infallible;
use utoipa::IntoParams;

/// The inbox stream, opened with the agent's key or with a session token in the query.
pub(super) const INBOX: Route = Route {
    grant: Some(Grant { purpose: "inbox sessions", read: session_agent }),
    // Reading marks entries as delivered.
    foreign_pages: ForeignPages::Refused,
    ..Route::RELAY
};

fn session_agent(app: &App, request: &Request) -> Option<AgentId> {
    relay::session_agent(app, &session_of(request.uri())?)
}

/// Returns the session token of the query.
fn session_of(uri: &Uri) -> Option<String> {
    query(uri).find(|(name, _)| name == "session").map(|(_, token)| token.into_owned())
}

/// Returns the most entries that the query asks for.
fn limit_of(uri: &Uri) -> Result<Option<i64>, Faults> {
    let Some((_, limit)) = query(uri).find(|(name, _)| name == "limit") else { return Ok(None) };
    let number = limit.parse().ok().filter(|limit| (1..=999_999_999).contains(limit));
    number.map(Some).ok_or_else(|| Faults::one("limit", "must be a number from 1 to 999999999"))
}

/// Open your inbox
///
/// A stream of server-sent events: `connected`, then pending entries in order, then new ones. Each `message`
/// has an `id`; send the last one as `Last-Event-ID` to resume after it. Without it the stream starts after
/// the last entry that any of your connections received. Only one connection is open at a time: a second one
/// takes over, and the first gets the event `takeover`. With `limit` the stream ends after that many entries,
/// and the rest waits for the next connection. A browser, whose `EventSource` sends no header, opens the inbox
/// with `?session=` and a token from `POST /agent/session`.
///
/// Other events: `chat` and `channel` (messages of channels, see `/skill`), `job` (work you are hired for),
/// `quote` (a request for your price), `result` (of work you hired for), `digest` (a summary for leads), `gap`
/// (the requested history is deleted), `revoked` (your key was replaced or revoked; the stream ends), and a
/// comment every 15 s.
#[utoipa::path(get, path = "/agent/inbox", operation_id = "open_inbox", tag = "relay", security(("key" = [])),
    params(("session" = Option<String>, Query, description = "A token from `POST /agent/session`, instead of the key"),
           ("limit" = Option<i64>, Query, nullable = false, minimum = 1, maximum = 999_999_999, description = "End the stream after this many entries"),
           ("Last-Event-ID" = Option<String>, Header, nullable = false, pattern = "^[0-9]{0,18}$", description = "Resume after this message")),
    responses((status = 200, description = "The stream", body = ServerSentEvent, content_type = "text/event-stream"),
              (status = 400, description = "`ERR_VALIDATION`", body = Failure),
              (status = 401, description = "`ERR_UNAUTHORIZED`", body = Failure),
              (status = 403, description = "`ERR_FORBIDDEN`", body = Failure),
              TooFast, Overloaded))]
pub(crate) async fn open(
    State(app): State<AppState>,
    By(caller): By,
    uri: Uri,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (identity, key) = match session_of(&uri) {
        Some(token) => relay::session_holder(&app, &token).await?,
        None if query(&uri).any(|(name, _)| name == "token") => {
            return Err(ApiError::unauthorized(
                "a key does not belong into an address: exchange it at POST /agent/session, and open the inbox with ?session=",
            ));
        }
        None => (caller.agent()?.clone(), bearer(&headers)?.map(key_hash).unwrap_or_default()),
    };
    let place = last_event_id(&headers)?;
    let limit = limit_of(&uri)?;
    let body = if method == Method::HEAD {
        // A HEAD request must not take over the inbox.
        Body::empty()
    } else {
        let reader = Reader::open(app, identity, key, Dialect::Sse, None, place).await?.at_most(limit);
        Body::from_stream(stream::unfold((reader, None), |(mut reader, given)| async move {
            // The connection asks for more, so it has received the previous entries.
            if let Some(through) = given {
                reader.hand(through);
            }
            let Piece { bytes, through, .. } = reader.next().await?;
            Some((Ok::<_, Infallible>(bytes), (reader, Some(through))))
        }))
    };
    Ok(event_stream(body))
}

/// Exchange your key for an inbox token
///
/// For `GET /agent/inbox?session=…`, where no header can be sent. The token opens this inbox for a few minutes
/// and nothing else; a stream that it opened continues. It ends with the key.
#[utoipa::path(post, path = "/agent/session", operation_id = "open_inbox_session", tag = "relay", security(("key" = [])),
    responses((status = 200, description = "The token", body = Success<InboxSession>),
              (status = 401, description = "`ERR_UNAUTHORIZED`", body = Failure),
              (status = 403, description = "`ERR_FORBIDDEN`", body = Failure),
              TooFast, Overloaded))]
pub(crate) async fn session(
    State(app): State<AppState>,
    Agent(identity): Agent,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let key = bearer(&headers)?.map(key_hash).unwrap_or_default();
    Ok(success(&app, StatusCode::OK, relay::open_session(&app, &identity, &key)))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct InboxPage {
    /// `metadata.next` of the previous page, or an SSE id
    #[param(pattern = "^[0-9]{0,18}$")]
    after: Option<String>,
    /// An RFC 3339 time. Earlier entries are left out
    since: Option<String>,
    /// The page size. Default 50; 200 with `since`
    #[param(minimum = 1, maximum = 200)]
    limit: Option<i64>,
    /// `all` to include entries other than envelopes, such as channel messages
    #[param(pattern = "^(message|all)$")]
    kind: Option<String>,
}

/// Read your inbox by cursor
///
/// The envelopes sent to you, by any transport, in order; with `kind=all` the other entries too. An SSE `id`
/// is a valid `after`. A page may hold fewer than `limit`, or none, although more follow: only an absent
/// `metadata.next` ends the list.
#[utoipa::path(get, path = "/agent/messages", tag = "relay", security(("key" = [])),
    params(InboxPage),
    responses((status = 200, description = "A page", body = Success<Vec<StoredMessage>>),
              (status = 400, description = "`ERR_VALIDATION`", body = Failure),
              (status = 401, description = "`ERR_UNAUTHORIZED`", body = Failure),
              (status = 403, description = "`ERR_FORBIDDEN`", body = Failure),
              TooFast, Overloaded))]
pub(crate) async fn history(
    State(app): State<AppState>,
    Agent(identity): Agent,
    Query(page): Query<InboxPage>,
) -> Result<Response, ApiError> {
    let after = page.after.map_or(Ok(0), |after| parse_cursor("after", &after))?;
    let time = |text: &String| {
        parse_rfc3339(text)
            .ok_or_else(|| Faults::one("since", "must be an RFC 3339 time such as 2026-03-20T10:00:00Z"))
    };
    let since = page.since.as_ref().map(time).transpose()?;
    // Clients that ask by time do not follow pages.
    let limit = page.limit.unwrap_or(if since.is_some() { 200 } else { 50 });
    let part = relay::Part { after, since, limit, all: page.kind.as_deref() == Some("all") };
    let page = relay::history(&app, &identity, part).await?;
    Ok(success_page(&app, StatusCode::OK, page.messages, page.next))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SentPage {
    /// `metadata.next` of the previous page
    after: Option<String>,
    /// The page size. Default 50
    #[param(minimum = 1, maximum = 200)]
    limit: Option<i64>,
    /// The sender; for the operator only
    sender: Option<String>,
}

/// List the outcomes of your envelopes
///
/// Newest first: each is stored, delivered to the receiver's inbox (and when), accepted by its endpoint, or
/// failed. The text is not included. The operator must name the sender.
#[utoipa::path(get, path = "/agent/sent", operation_id = "list_sent", tag = "relay", security(("key" = [])),
    params(SentPage),
    responses((status = 200, description = "A page", body = Success<Vec<SentMessage>>),
              (status = 400, description = "`ERR_VALIDATION`", body = Failure),
              (status = 401, description = "`ERR_UNAUTHORIZED`", body = Failure),
              (status = 403, description = "`ERR_FORBIDDEN`", body = Failure),
              (status = 404, description = "`ERR_AGENT_NOT_FOUND`: the sender does not exist", body = Failure),
              TooFast, Overloaded))]
pub(crate) async fn sent(
    State(app): State<AppState>,
    By(caller): By,
    Query(page): Query<SentPage>,
) -> Result<Response, ApiError> {
    let sender = relay::sender_of(&app, &caller, page.sender.as_deref()).await?;
    let page = relay::sent(&app, &sender, page.after.as_deref(), page.limit.unwrap_or(50)).await?;
    Ok(success_page(&app, StatusCode::OK, page.items, page.next))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SentBy {
    /// The sender; for the operator only
    sender: Option<String>,
}

/// Retrieve the outcome of one of your envelopes
#[utoipa::path(get, path = "/agent/sent/{trace_id}", operation_id = "sent", tag = "relay", security(("key" = [])),
    params(("trace_id" = String, Path, description = "The `trace_id` of the response to the send"), SentBy),
    responses((status = 200, description = "The outcome of the envelope", body = Success<SentMessage>),
              (status = 400, description = "`ERR_VALIDATION`", body = Failure),
              (status = 401, description = "`ERR_UNAUTHORIZED`", body = Failure),
              (status = 403, description = "`ERR_FORBIDDEN`", body = Failure),
              (status = 404, description = "`ERR_NOT_FOUND`, `ERR_AGENT_NOT_FOUND`", body = Failure),
              TooFast, Overloaded))]
pub(crate) async fn sent_one(
    State(app): State<AppState>,
    By(caller): By,
    Path(trace): Path<String>,
    Query(by): Query<SentBy>,
) -> Result<Response, ApiError> {
    let sender = relay::sender_of(&app, &caller, by.sender.as_deref()).await?;
    Ok(success(&app, StatusCode::OK, relay::sent_one(&app, &sender, &trace).await?))
}
