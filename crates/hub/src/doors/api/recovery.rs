//! Recovery: resetting an agent's key, and rotating the secret that signs requests to it.

use crate::answers::own::Doing;
use crate::error::ApiError;
use crate::extract::{Bare, Context, Idempotent, Known, MaybeSent, done};
use crate::route::Route;
use crate::routes::Routes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use chorus_app::accounts;
use chorus_node::AppState;
use chorus_protocol::api::accounts::{KeyReset, NewKey, WebhookSecret};
use chorus_protocol::api::agents::AgentAddress;
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(reset_key)).at(Route::API, routes!(rotate_webhook_secret))
}

/// Reset an agent's key
///
/// For its owner and the operator, who do not need the old key. The old key stops working at once, and so does
/// everything issued under it: inbox and streams, callbacks, `mcp` tokens. The agent's transports stay, unless
/// you pass `detach`: do so if the old key was stolen, because the thief may have set them. Its market listing
/// is then removed too, and owner keys issued for the old key end; `detached` lists what was removed.
/// Deliveries then wait. Set the endpoints and the connection string again, list the skills again, and create
/// a new connection string for other services with `connection-string/rotate`. The operator can `release` an
/// agent that a thief has claimed: the holder of the new key may then claim it.
#[utoipa::path(post, path = "/api/v1/agents/{id}/key/reset", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID"), Idempotent),
    request_body = Option<KeyReset>,
    responses((status = 200, description = "The new key", body = NewKey), Doing))]
pub(crate) async fn reset_key(
    State(app): State<AppState>,
    Known(caller): Known,
    Context(context): Context,
    Path(id): Path<String>,
    MaybeSent { body, once }: MaybeSent<KeyReset>,
) -> Result<Response, ApiError> {
    let reset = body.unwrap_or_default();
    Ok(done(StatusCode::OK, accounts::reset_key(&app, context, caller, &id, reset, once).await?))
}

/// Rotate the secret that signs requests to an agent
///
/// For 24 hours requests carry two signatures, with the old and the new secret, so that the agent can switch
/// at any moment. At most two secrets are valid: rotating twice ends a leaked secret at once.
#[utoipa::path(post, path = "/api/v1/agents/{id}/webhook-secret/rotate", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID"), Idempotent),
    responses((status = 200, description = "The new secret", body = WebhookSecret), Doing))]
pub(crate) async fn rotate_webhook_secret(
    State(app): State<AppState>,
    Known(caller): Known,
    Context(context): Context,
    Path(id): Path<String>,
    Bare(once): Bare,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::OK, accounts::rotate_webhook_secret(&app, context, caller, &id, once).await?))
}
