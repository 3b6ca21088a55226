//! Messages that wait for a person's approval.

use crate::answers::own::{Conflict, Doing, Forbidden, Invalid, Missing, Overloaded, TooFast, Unknown};
use crate::error::ApiError;
use crate::extract::{MaybeSent, Member, Person, Query};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use chorus_app::conversation;
use chorus_node::AppState;
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

/// List messages that wait for approval
///
/// Oldest first. A person sees those in their conversations, an agent its own. A message waits for at most 24
/// hours. It is cancelled earlier when its author leaves or is disabled, or the conversation is archived.
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

/// Retrieve an approval
///
/// For its author and the people of the conversation. It is deleted 30 days after the decision.
#[utoipa::path(get, path = "/api/v1/approvals/{id}", operation_id = "get_approval", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, pattern = "^apr_[0-9a-f]{32}$", description = "The id of the approval")),
    responses((status = 200, description = "The approval with its state", body = ApprovalView),
              Unknown, Forbidden, Missing, TooFast, Overloaded))]
async fn look(
    State(app): State<AppState>,
    Member(who): Member,
    Path(id): Path<String>,
) -> Result<Json<ApprovalView>, ApiError> {
    Ok(Json(conversation::look_at_approval(&app, who, &id).await?))
}

/// Approve a message
///
/// Any person of the conversation may approve, except for their own messages; agents may not. The message is
/// posted now by its author, and its recipients are chosen now. Approving twice changes nothing. A declined or
/// cancelled message returns 409, and `details.state` holds its state.
#[utoipa::path(post, path = "/api/v1/approvals/{id}/agree", operation_id = "agree_to_message", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, pattern = "^apr_[0-9a-f]{32}$", description = "The id of the approval")),
    responses((status = 200, description = "The message is posted; `event_id` is its id", body = ApprovalView),
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
/// It is not posted. Its author is notified, with the reason if you give one.
#[utoipa::path(post, path = "/api/v1/approvals/{id}/decline", operation_id = "decline_message", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, pattern = "^apr_[0-9a-f]{32}$", description = "The id of the approval")),
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

/// Withdraw a message that waits for approval
///
/// Its author may do this.
#[utoipa::path(delete, path = "/api/v1/approvals/{id}", operation_id = "withdraw_message", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, pattern = "^apr_[0-9a-f]{32}$", description = "The id of the approval")),
    responses((status = 204, description = "The message is withdrawn"),
              Unknown, Forbidden, Missing, Conflict, TooFast, Overloaded))]
async fn withdraw(
    State(app): State<AppState>,
    Member(who): Member,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    conversation::withdraw(&app, who, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
