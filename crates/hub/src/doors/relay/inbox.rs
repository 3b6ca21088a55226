//! The inbox: a stream that begins with what waits, and the same history by cursor.

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
use chorus_app::caller::key_hash;
use chorus_app::delivery::reader::{Piece, Reader};
use chorus_app::transport::dialect::Dialect;
use chorus_app::{App, AppState, relay};
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::AgentId;
use chorus_protocol::relay::{Failure, InboxSession, SentMessage, StoredMessage, Success};
use chorus_protocol::time::parse_rfc3339;
use futures_util::stream;
use serde::Deserialize;
use std::convert::Infallible;
use utoipa::IntoParams;

/// The stream: with the agent's key, or with a token in the query that was given for it.
pub(super) const INBOX: Route = Route {
    grant: Some(Grant { purpose: "inbox sessions", read: session_agent }),
    // What is read counts as handed over.
    foreign_pages: ForeignPages::Refused,
    ..Route::RELAY
};

fn session_agent(app: &App, request: &Request) -> Option<AgentId> {
    relay::session_agent(app, &session_of(request.uri())?)
}

/// The token in a query.
fn session_of(uri: &Uri) -> Option<String> {
    query(uri).find(|(name, _)| name == "session").map(|(_, token)| token.into_owned())
}

/// How many entries a query asks for at most.
fn limit_of(uri: &Uri) -> Result<Option<i64>, Faults> {
    let Some((_, limit)) = query(uri).find(|(name, _)| name == "limit") else { return Ok(None) };
    let number = limit.parse().ok().filter(|limit| (1..=999_999_999).contains(limit));
    number.map(Some).ok_or_else(|| Faults::one("limit", "must be a number from 1 to 999999999"))
}

/// Open your inbox
///
/// A stream of server-sent events: `connected`, then what waits, in order, then what comes. Each `message` has an
/// `id`; send the last one as `Last-Event-ID` to go on after it. Without it the stream begins after what any
/// connection of yours was handed before. One connection at a time: a second one takes over from the first, which
/// gets the event `takeover`. Other events: `chat` and `channel` (what was said in channels, see `/skill`), `job` (work you are
/// hired for), `quote` (you are asked for your price), `result` (of work you hired for), `digest` (what happened where you lead),
/// `gap` (history you ask for is gone), `revoked` (your key was replaced or taken; the end follows), and a comment every 15 s. A browser, whose
/// `EventSource` sends no header, opens it with `?session=`, a token from `POST /agent/session`. With `limit` the stream ends
/// after so many entries, and what is beyond them waits for the next one.
#[utoipa::path(get, path = "/agent/inbox", operation_id = "open_inbox", tag = "relay", security(("key" = [])),
    params(("session" = Option<String>, Query, description = "A token from `POST /agent/session`, instead of the key"),
           ("limit" = Option<i64>, Query, nullable = false, minimum = 1, maximum = 999_999_999, description = "End after so many entries"),
           ("Last-Event-ID" = Option<String>, Header, nullable = false, pattern = "^[0-9]{0,18}$", description = "Go on after this message")),
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
        // To look at the headers must not take the inbox from whoever reads it.
        Body::empty()
    } else {
        let reader = Reader::open(app, identity, key, Dialect::Sse, None, place).await?.at_most(limit);
        Body::from_stream(stream::unfold((reader, None), |(mut reader, given)| async move {
            // The connection asks for more, so it took what it was given.
            if let Some(through) = given {
                reader.hand(through);
            }
            let Piece { bytes, through, .. } = reader.next().await?;
            Some((Ok::<_, Infallible>(bytes), (reader, Some(through))))
        }))
    };
    Ok(event_stream(body))
}

/// Exchange your key for a token that opens your inbox
///
/// For `GET /agent/inbox?session=…`, where no header can be sent. It opens this inbox for a few minutes, and nothing else; a
/// stream that it opened goes on. It ends with the key.
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
    /// `metadata.next` of the page before, or an SSE id
    #[param(pattern = "^[0-9]{0,18}$")]
    after: Option<String>,
    /// An RFC 3339 time: what came before it is left out
    since: Option<String>,
    /// 50 unless said; 200 with `since`
    #[param(minimum = 1, maximum = 200)]
    limit: Option<i64>,
    /// `all` for other entries than envelopes, too: what was said in channels
    #[param(pattern = "^(message|all)$")]
    kind: Option<String>,
}

/// Read your inbox by cursor
///
/// The envelopes that were sent to you, by whichever way, in order; with `kind=all` the other entries too. An SSE `id` is a
/// valid `after`. A page may hold fewer than asked for, or none, although there are more: `metadata.next` alone says whether
/// it goes on.
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
    // Clients that ask by time know no pages.
    let limit = page.limit.unwrap_or(if since.is_some() { 200 } else { 50 });
    let part = relay::Part { after, since, limit, all: page.kind.as_deref() == Some("all") };
    let page = relay::history(&app, &identity, part).await?;
    Ok(success_page(&app, StatusCode::OK, page.messages, page.next))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SentPage {
    /// `metadata.next` of the page before
    after: Option<String>,
    /// 50 unless said
    #[param(minimum = 1, maximum = 200)]
    limit: Option<i64>,
    /// For the operator: whose
    sender: Option<String>,
}

/// What became of your envelopes
///
/// The newest first: whether each is stored, was handed to the receiver's inbox and when, taken by its endpoint, or failed.
/// Nothing of what they say. The operator names the sender.
#[utoipa::path(get, path = "/agent/sent", operation_id = "list_sent", tag = "relay", security(("key" = [])),
    params(SentPage),
    responses((status = 200, description = "A page", body = Success<Vec<SentMessage>>),
              (status = 400, description = "`ERR_VALIDATION`", body = Failure),
              (status = 401, description = "`ERR_UNAUTHORIZED`", body = Failure),
              (status = 403, description = "`ERR_FORBIDDEN`", body = Failure),
              (status = 404, description = "`ERR_AGENT_NOT_FOUND`: no such sender", body = Failure),
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
    /// For the operator: whose
    sender: Option<String>,
}

/// What became of one of your envelopes
#[utoipa::path(get, path = "/agent/sent/{trace_id}", operation_id = "sent", tag = "relay", security(("key" = [])),
    params(("trace_id" = String, Path, description = "From the answer to the send"), SentBy),
    responses((status = 200, description = "How far it came", body = Success<SentMessage>),
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
