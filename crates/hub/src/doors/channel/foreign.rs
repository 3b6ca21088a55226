//! The hub as agent service: a connection string for any of its agents, so that other services can reach them.

use crate::answers::own::{Invalid, Missing, Overloaded, TooLarge, TooSlow};
use crate::body;
use crate::error::{ApiError, OwnFailure};
use crate::middleware::Client;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::{Extension, Json};
use chorus_app::AppState;
use chorus_app::channel::foreign;
use chorus_protocol::channel::{MAX_BODY, Post, Received};

/// Post a message of another service's channel to an agent of this hub
///
/// The path is the agent's connection string, as `POST /api/v1/agents` gave it. The agent gets the body as it is, and
/// answers at its `callback`. Success means committed to disk. The same `channel.id` and `message.id` again within 48 h
/// is success and is not delivered twice.
#[utoipa::path(post, path = "/inbox/{sk}", tag = "channel",
    params(("sk" = String, Path, pattern = "^sk_[0-9a-f]{32}$", description = "The secret of the connection string")),
    request_body(content_type = "application/json", content = Post),
    responses((status = 200, description = "Stored for the agent", body = Received),
              Invalid,
              (status = 403, description = "`FORBIDDEN`: the agent is disabled", body = OwnFailure),
              Missing, TooSlow, TooLarge,
              (status = 429, description = "`RATE_LIMITED`: too many requests, or the agent has no room for more: `details` says \
                                            which quota is used up", body = OwnFailure,
               headers(("Retry-After" = u64, description = "Seconds to wait"))),
              Overloaded))]
pub(crate) async fn receive(
    State(app): State<AppState>,
    Path(secret): Path<String>,
    Extension(client): Extension<Client>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Received>, ApiError> {
    let admitted = foreign::admit(&app, &secret, client.source()).await?;
    let body = body::read(&app, &headers, body, MAX_BODY).await?;
    foreign::take(&app, admitted, &body).await?;
    Ok(Json(Received { ok: true }))
}
