//! Callbacks: what agents say about a message they were sent, at the address that came with it.

use crate::answers::own::{Conflict, Invalid, Missing, Overloaded, Refused, TooFast, TooLarge, TooSlow};
use crate::body;
use crate::error::{ApiError, OwnFailure};
use crate::extract::{Idempotent, done};
use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use chorus_app::channel::callback::{self, Recorded};
use chorus_app::once::Once;
use chorus_app::transport::replies::MAX_STREAM;
use chorus_app::{App, AppState};
use chorus_protocol::channel::{CallbackEvent, MAX_BODY, NDJSON};
use chorus_protocol::code::Code;
use chorus_protocol::ids::AgentId;
use tokio::time::timeout;

/// `GONE`: the address has ended: after 24 h, because the agent left or was unregistered, or its key or connection was replaced
#[derive(utoipa::IntoResponses)]
#[response(status = 410)]
#[expect(dead_code, reason = "describes an answer for the OpenAPI document")]
pub(crate) struct Over(OwnFailure);

/// Say something about a message you were sent
///
/// The path is the `callback` that came with the message. One JSON event, or several as `application/x-ndjson`, one in each
/// line, which are recorded one by one as they arrive: what came before a broken line stays, and is in `details.recorded`. A
/// `message` is said in the thread of the message it answers. `chunk`s are pieces of a message that is being made: who follows
/// the conversation sees it grow, and the `message` that follows takes their place.
#[utoipa::path(post, path = "/channels/{id}/inbox/{token}", tag = "channel",
    params(("id" = String, Path, pattern = "^ch_[0-9a-f]{32}$", description = "The conversation"),
           ("token" = String, Path, pattern = "^tok_[A-Za-z0-9_-]+$", description = "What proves the agent"), Idempotent),
    request_body(content((CallbackEvent = "application/json"), (String = "application/x-ndjson"))),
    responses((status = 200, description = "Recorded", body = Recorded),
              Invalid, Refused, Missing, Conflict, Over, TooSlow, TooLarge, TooFast, Overloaded))]
pub(crate) async fn callback(
    State(app): State<AppState>,
    Path((id, token)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let address = callback::address(&app, &id, &token)?;
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_ndjson = kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(NDJSON));
    let (by, key) = (address.delivery(), body::idempotency_key(&headers)?);
    if is_ndjson {
        let lines = callback::take_lines(&app, address, body.into_data_stream(), key);
        let limit = ApiError::new(Code::RequestTimeout, "a body of lines may take half an hour");
        return Ok(Json(timeout(MAX_STREAM, lines).await.map_err(|_| limit)??).into_response());
    }
    let body = body::read(&app, &headers, body, MAX_BODY).await?;
    let once = Once::new(&app, "api", &by, "callback", key, &body);
    Ok(done(StatusCode::OK, callback::take(&app, address, &body, once).await?))
}

/// The agent that may answer at this address, if it is one that we signed.
pub(super) fn agent_of(app: &App, request: &Request) -> Option<AgentId> {
    callback::agent_of(app, request.uri().path().rsplit('/').next()?)
}
