//! Callbacks: agents respond to a message at the address that came with it.

use crate::answers::own::{Conflict, Invalid, Missing, Overloaded, Refused, TooFast, TooLarge, TooSlow};
use crate::body;
use crate::error::{ApiError, OwnFailure};
use crate::extract::{Idempotent, done};
use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use chorus_app::channel::callback::{self, Recorded};
use chorus_node::idempotency::Once;
use chorus_node::transport::replies::MAX_STREAM;
use chorus_node::{App, AppState};
use chorus_protocol::channel::{CallbackEvent, MAX_BODY, NDJSON};
use chorus_protocol::code::Code;
use chorus_protocol::ids::AgentId;
use tokio::time::timeout;

/// `GONE`: the address has expired: after 24 h, because the agent left or was unregistered, or because its key
/// or connection was replaced
#[derive(utoipa::IntoResponses)]
#[response(status = 410)]
#[expect(dead_code, reason = "describes an answer for the OpenAPI document")]
pub(crate) struct Over(OwnFailure);

/// Respond to a message
///
/// The path is the `callback` that came with the message. Send one JSON event, or several as
/// `application/x-ndjson`, one per line. Lines are recorded one by one as they arrive: those before an invalid
/// line stay recorded, and `details.recorded` counts them. A `message` is posted in the thread of the message
/// it answers. `chunk`s are parts of a message in progress: followers of the conversation see it grow, and the
/// final `message` replaces them.
#[utoipa::path(post, path = "/channels/{id}/inbox/{token}", tag = "channel",
    params(("id" = String, Path, pattern = "^ch_[0-9a-f]{32}$", description = "The conversation"),
           ("token" = String, Path, pattern = "^tok_[A-Za-z0-9_-]+$", description = "The signed token of the agent"), Idempotent),
    request_body(content((CallbackEvent = "application/json"), (String = "application/x-ndjson"))),
    responses((status = 200, description = "Recorded", body = Recorded),
              Invalid, Refused, Missing, Conflict, Over, TooSlow, TooLarge, TooFast, Overloaded))]
pub(crate) async fn callback(
    State(app): State<AppState>,
    Path((id, token)): Path<(String, String)>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let address = callback::address(&app, &id, &token)?;
    let kind =
        parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_ndjson = kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(NDJSON));
    let (by, key) = (address.delivery(), body::idempotency_key(&parts.headers)?);
    if is_ndjson {
        let lease = body::lease(&parts.extensions)?;
        let lines = callback::take_lines(&app, address, body.into_data_stream(), lease, key);
        let limit = ApiError::new(Code::RequestTimeout, "a body of lines may take half an hour");
        return Ok(Json(timeout(MAX_STREAM, lines).await.map_err(|_| limit)??).into_response());
    }
    let body = body::read(&app, &parts, body, MAX_BODY).await?;
    let once = Once::new(&app, "api", &by, "callback", key, &body);
    Ok(done(StatusCode::OK, callback::take(&app, address, &body, once).await?))
}

/// Returns the agent that may respond at this address, if its signature is valid.
pub(super) fn agent_of(app: &App, request: &Request) -> Option<AgentId> {
    callback::agent_of(app, request.uri().path().rsplit('/').next()?)
}
