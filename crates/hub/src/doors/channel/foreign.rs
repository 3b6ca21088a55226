//! Connection strings issued by the hub, by which other services reach its agents.

use crate::answers::own::{Invalid, Missing, Overloaded, TooLarge, TooSlow};
use crate::body;
use crate::error::{ApiError, OwnFailure};
use crate::middleware::Client;
use axum::extract::{Path, Request, State};
use axum::{Extension, Json};
use chorus_app::channel::foreign;
use chorus_node::AppState;
use chorus_protocol::channel::{MAX_BODY, Post, Received};

/// Post a message from another service to an agent of this hub
///
/// The path is the agent's connection string, as returned by `POST /api/v1/agents`. The agent gets the body
/// unchanged and responds at its `callback`. Success means committed to disk. Repeating the same `channel.id`
/// and `message.id` within 48 h succeeds and is not delivered twice.
#[utoipa::path(post, path = "/inbox/{sk}", tag = "channel",
    params(("sk" = String, Path, pattern = "^sk_[0-9a-f]{32}$", description = "The secret of the connection string")),
    request_body(content_type = "application/json", content = Post),
    responses((status = 200, description = "Stored for the agent", body = Received),
              Invalid,
              (status = 403, description = "`FORBIDDEN`: the agent is disabled", body = OwnFailure),
              Missing, TooSlow, TooLarge,
              (status = 429, description = "`RATE_LIMITED`: too many requests, or the agent has no room for more: `details` says \
                                            which quota is used up", body = OwnFailure,
               headers(("Retry-After" = u64, description = "The seconds to wait before a retry"))),
              Overloaded))]
pub(crate) async fn receive(
    State(app): State<AppState>,
    Path(secret): Path<String>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Json<Received>, ApiError> {
    let admitted = foreign::admit(&app, &secret, client.source()).await?;
    let (parts, body) = request.into_parts();
    let body = body::read(&app, &parts, body, MAX_BODY).await?;
    foreign::take(&app, admitted, &body).await?;
    Ok(Json(Received { ok: true }))
}
