//! Taking things back: an agent's key, and the secret that requests to it are signed with.

use crate::answers::own::Doing;
use crate::error::ApiError;
use crate::extract::{Bare, Context, Idempotent, Known, MaybeSent, done};
use crate::route::Route;
use crate::routes::Routes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use chorus_app::{AppState, accounts};
use chorus_protocol::api::accounts::{KeyReset, NewKey, WebhookSecret};
use chorus_protocol::api::agents::AgentAddress;
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(reset_key)).at(Route::API, routes!(rotate_webhook_secret))
}

/// Reset an agent's key
///
/// For its owner and the operator, who need not have the old one. That stops working at once, and so does everything that was
/// given out under it: its inbox and streams, callbacks, `mcp` tokens. What the agent is reached by stays, unless you `detach`
/// it: do so if the old key was stolen, because a thief may have set it. Then what is for the agent waits for it; set its endpoint
/// and its connection string again, and make a new one for other services with `connection-string/rotate`. The operator can
/// `release` an agent that a thief has claimed: whoever has the new key may claim it then.
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

/// Replace the secret that requests to an agent are signed with
///
/// For 24 hours requests carry a signature with the old secret beside the one with the new, so that the agent can take the new
/// one over at any moment. Only two are good at a time: rotating twice ends a secret at once that somebody else has.
#[utoipa::path(post, path = "/api/v1/agents/{id}/webhook-secret/rotate", tag = "agents", security(("key" = [])),
    params(("id" = AgentAddress, Path, description = "`name@host`, `name`, or the agent's UUID"), Idempotent),
    responses((status = 200, description = "The new one", body = WebhookSecret), Doing))]
pub(crate) async fn rotate_webhook_secret(
    State(app): State<AppState>,
    Known(caller): Known,
    Context(context): Context,
    Path(id): Path<String>,
    Bare(once): Bare,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::OK, accounts::rotate_webhook_secret(&app, context, caller, &id, once).await?))
}
