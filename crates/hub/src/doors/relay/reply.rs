//! Answering a message with a stream, at the address that came with it.

use crate::answers::relay::{Overloaded, TooFast, success};
use crate::error::ApiError;
use crate::route::{Credentials, Grant, Route};
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use chorus_app::{App, AppState, relay};
use chorus_protocol::ids::AgentId;
use chorus_protocol::relay::{Failure, Replied, Success};

/// Where a receiver answers with a stream: at an address that we signed.
pub(super) const REPLIES: Route = Route {
    credentials: Credentials::Ignored,
    grant: Some(Grant { purpose: "answers", read: agent_of }),
    keeps_time: true,
    ..Route::RELAY
};

fn agent_of(app: &App, request: &Request) -> Option<AgentId> {
    relay::replier(app, request.uri().path().rsplit('/').next()?)
}

/// Answer a message with a stream
///
/// The address comes with a message whose sender wants to see the answer as it is made: `reply_stream`. The body is
/// lines of JSON: `{"type": "chunk", "text": "…"}` as often as you like, then `{"type": "done", "result": …}` or
/// `{"type": "error", "code": "…", "message": "…"}`. It can be used once and must be begun within 120 s; the address is
/// the credential. The body is read as fast as the sender takes it.
#[utoipa::path(post, path = "/agent/replies/{token}", tag = "relay",
    params(("token" = String, Path, description = "From `reply_stream`")),
    request_body(content_type = "application/x-ndjson", content = String),
    responses((status = 200, description = "The sender has it all", body = Success<Replied>),
              (status = 400, description = "`ERR_VALIDATION`: a line is wrong, or the last one is missing", body = Failure),
              (status = 404, description = "`ERR_NOT_FOUND`: unknown, used, too late, or the sender has gone", body = Failure),
              (status = 408, description = "`ERR_REQUEST_TIMEOUT`: no line for too long", body = Failure),
              TooFast, Overloaded))]
pub(crate) async fn reply(
    State(app): State<AppState>,
    Path(token): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    relay::reply(&app, &token, body.into_data_stream()).await?;
    Ok(success(&app, StatusCode::OK, Replied { status: "ok".into() }))
}
