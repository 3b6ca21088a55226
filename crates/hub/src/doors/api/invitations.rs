//! Invitations of the caller to conversations, and the answers to them.

use crate::answers::own::{Conflict, Forbidden, Invalid, Missing, Overloaded, TooFast, Unknown};
use crate::error::ApiError;
use crate::extract::{Person, Query};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use chorus_app::conversation;
use chorus_node::AppState;
use chorus_protocol::api::Items;
use chorus_protocol::api::channels::ConversationView;
use chorus_protocol::api::invitations::{InvitationPage, InvitationView};
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .at(Route::API, routes!(list))
        .at(Route::API, routes!(accept))
        .at(Route::API, routes!(decline))
        .at(Route::API, routes!(block))
}

/// List your invitations
///
/// Oldest first. An invitation expires after 30 days.
#[utoipa::path(get, path = "/api/v1/me/invitations", operation_id = "list_invitations", tag = "people", security(("key" = [])),
    params(InvitationPage),
    responses((status = 200, description = "A page", body = Items<InvitationView>),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
async fn list(
    State(app): State<AppState>,
    Person(person): Person,
    Query(page): Query<InvitationPage>,
) -> Result<Json<Items<InvitationView>>, ApiError> {
    Ok(Json(conversation::list_invitations(&app, person, page).await?))
}

/// Accept an invitation
///
/// You become a member: of the channel, with the offered roles, if that is still possible; or of the direct
/// conversation, which is created now.
#[utoipa::path(post, path = "/api/v1/me/invitations/{id}/accept", operation_id = "accept_invitation", tag = "people", security(("key" = [])),
    params(("id" = String, Path, pattern = "^inv_[0-9a-f]{32}$", description = "The invitation's id")),
    responses((status = 200, description = "The joined conversation", body = ConversationView),
              Unknown, Forbidden, Missing, Conflict, TooFast, Overloaded))]
async fn accept(
    State(app): State<AppState>,
    Person(person): Person,
    Path(id): Path<String>,
) -> Result<Json<ConversationView>, ApiError> {
    Ok(Json(conversation::accept_invitation(&app, person, &id).await?))
}

/// Decline an invitation
///
/// The inviter is not notified.
#[utoipa::path(post, path = "/api/v1/me/invitations/{id}/decline", operation_id = "decline_invitation", tag = "people", security(("key" = [])),
    params(("id" = String, Path, pattern = "^inv_[0-9a-f]{32}$", description = "The invitation's id")),
    responses((status = 204, description = "Declined"),
              Unknown, Forbidden, Missing, TooFast, Overloaded))]
async fn decline(
    State(app): State<AppState>,
    Person(person): Person,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    conversation::decline_invitation(&app, person, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Decline an invitation and block the inviter
///
/// Like `POST /api/v1/me/blocks`. The inviter is not notified.
#[utoipa::path(post, path = "/api/v1/me/invitations/{id}/block", operation_id = "block_inviter", tag = "people", security(("key" = [])),
    params(("id" = String, Path, pattern = "^inv_[0-9a-f]{32}$", description = "The invitation's id")),
    responses((status = 204, description = "Declined, and the inviter is blocked"),
              Unknown, Forbidden, Missing, Conflict, TooFast, Overloaded))]
async fn block(
    State(app): State<AppState>,
    Person(person): Person,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    conversation::block_inviter(&app, person, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
