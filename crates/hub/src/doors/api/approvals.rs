//! Messages that wait until a person agrees.

use crate::answers::own::{Conflict, Doing, Forbidden, Invalid, Missing, Overloaded, TooFast, Unknown};
use crate::error::ApiError;
use crate::extract::{MaybeSent, Member, Person, Query};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use chorus_app::{AppState, conversation};
use chorus_protocol::api::Items;
use chorus_protocol::api::approvals::{ApprovalPage, ApprovalView, Decline};
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .at(Route::API, routes!(list))
        .at(Route::API, routes!(look, withdraw))
        .at(Route::API, routes!(agree))
        .at(Route::API, routes!(decline))
}

/// List what waits until a person agrees
///
/// Oldest first. A person sees what waits in its conversations, an agent what it wants to say itself. A message waits for 24 hours
/// at most; it ends sooner when its author leaves or is kept out, or the conversation is archived.
#[utoipa::path(get, path = "/api/v1/approvals", operation_id = "list_approvals", tag = "conversations", security(("key" = [])),
    params(ApprovalPage),
    responses((status = 200, description = "A page", body = Items<ApprovalView>),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
async fn list(
    State(app): State<AppState>,
    Member(who): Member,
    Query(page): Query<ApprovalPage>,
) -> Result<Json<Items<ApprovalView>>, ApiError> {
    Ok(Json(conversation::list_approvals(&app, who, page).await?))
}

/// See what became of a message that waits
///
/// For its author and the people of the conversation; 30 days after it was decided it is forgotten.
#[utoipa::path(get, path = "/api/v1/approvals/{id}", operation_id = "get_approval", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, pattern = "^apr_[0-9a-f]{32}$", description = "What it is called while it waits")),
    responses((status = 200, description = "How it stands", body = ApprovalView),
              Unknown, Forbidden, Missing, TooFast, Overloaded))]
async fn look(
    State(app): State<AppState>,
    Member(who): Member,
    Path(id): Path<String>,
) -> Result<Json<ApprovalView>, ApiError> {
    Ok(Json(conversation::look_at_approval(&app, who, &id).await?))
}

/// Agree to a message
///
/// Any person of the conversation may, but not to its own; an agent never. The message is said now, by its author: whom it wakes is
/// decided now as well. Agreeing again changes nothing; what was declined or has ended is 409, and `details.state` says how it stands.
#[utoipa::path(post, path = "/api/v1/approvals/{id}/agree", operation_id = "agree_to_message", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, pattern = "^apr_[0-9a-f]{32}$", description = "What it is called while it waits")),
    responses((status = 200, description = "It was said: `event_id` is the message", body = ApprovalView),
              Unknown, Forbidden, Missing, Conflict, TooFast, Overloaded))]
async fn agree(
    State(app): State<AppState>,
    Person(person): Person,
    Path(id): Path<String>,
) -> Result<Json<ApprovalView>, ApiError> {
    Ok(Json(conversation::agree(&app, &person, &id).await?))
}

/// Decline a message
///
/// It is not said; its author is told, with the reason if there is one.
#[utoipa::path(post, path = "/api/v1/approvals/{id}/decline", operation_id = "decline_message", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, pattern = "^apr_[0-9a-f]{32}$", description = "What it is called while it waits")),
    request_body = Option<Decline>,
    responses((status = 200, description = "Declined", body = ApprovalView), Doing))]
async fn decline(
    State(app): State<AppState>,
    Person(person): Person,
    Path(id): Path<String>,
    MaybeSent { body, .. }: MaybeSent<Decline>,
) -> Result<Json<ApprovalView>, ApiError> {
    Ok(Json(conversation::decline(&app, &person, &id, body.unwrap_or_default()).await?))
}

/// Withdraw a message that waits
///
/// Its author may.
#[utoipa::path(delete, path = "/api/v1/approvals/{id}", operation_id = "withdraw_message", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, pattern = "^apr_[0-9a-f]{32}$", description = "What it is called while it waits")),
    responses((status = 204, description = "It will not be said"),
              Unknown, Forbidden, Missing, Conflict, TooFast, Overloaded))]
async fn withdraw(
    State(app): State<AppState>,
    Member(who): Member,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    conversation::withdraw(&app, who, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
