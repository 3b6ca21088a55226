//! Responding to a message with a stream, at the address that came with it.

use crate::answers::relay::{Overloaded, TooFast, success};
use crate::body;
use crate::error::ApiError;
use crate::route::{Credentials, Grant, Route};
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use chorus_app::relay;
use chorus_node::{App, AppState};
use chorus_protocol::ids::AgentId;
use chorus_protocol::relay::{Failure, Replied, Success};

/// Stream replies: a receiver responds at a signed address.
pub(super) const REPLIES: Route = Route {
    credentials: Credentials::Ignored,
    grant: Some(Grant { purpose: "answers", read: agent_of }),
    keeps_time: true,
    ..Route::RELAY
};

fn agent_of(app: &App, request: &Request) -> Option<AgentId> {
    relay::replier(app, request.uri().path().rsplit('/').next()?)
}

/// Respond to a message with a stream
///
/// The address comes as `reply_stream` with a message whose sender wants the response as it is made. The body
/// is lines of JSON: any number of `{"type": "chunk", "text": "…"}`, then `{"type": "done", "result": …}` or
/// `{"type": "error", "code": "…", "message": "…"}`. The address is the credential: it works once and must be
/// used within 120 s. The body is read as fast as the sender reads it.
#[utoipa::path(post, path = "/agent/replies/{token}", tag = "relay",
    params(("token" = String, Path, description = "The last part of `reply_stream`")),
    request_body(content_type = "application/x-ndjson", content = String),
    responses((status = 200, description = "The sender received everything", body = Success<Replied>),
              (status = 400, description = "`ERR_VALIDATION`: a line is invalid, or the last one is missing", body = Failure),
              (status = 404, description = "`ERR_NOT_FOUND`: the address is unknown, used or expired, or the sender has disconnected", body = Failure),
              (status = 408, description = "`ERR_REQUEST_TIMEOUT`: no line arrived in time", body = Failure),
              TooFast, Overloaded))]
pub(crate) async fn reply(
    State(app): State<AppState>,
    Path(token): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    relay::reply(&app, &token, body.into_data_stream(), body::lease(&parts.extensions)?).await?;
    Ok(success(&app, StatusCode::OK, Replied { status: "ok".into() }))
}
