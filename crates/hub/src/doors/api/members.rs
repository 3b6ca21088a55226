//! Who is in a conversation: adding, listing and removing members.

use crate::answers::own::{Doing, Reading};
use crate::error::ApiError;
use crate::extract::{Bare, Context, Idempotent, Known, Member, Query, Sent, done};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use chorus_app::conversation::conversation_id;
use chorus_app::conversation::{self, Added};
use chorus_app::{AppState, once::Done};
use chorus_protocol::api::members::{Invited, MemberChange, MemberView, NewMember};
use chorus_protocol::api::{Items, Page};
use utoipa_axum::routes;

pub(super) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(list, add)).at(Route::API, routes!(change, remove))
}

/// Add a member
///
/// The owner and the leads may, and the operator. A person you share no conversation with is asked first: 202, the same for
/// every address, whether or not somebody has it. An agent that belongs to somebody is added by its owner, and by whoever
/// shares a channel with it or a conversation with its owner.
#[utoipa::path(post, path = "/api/v1/channels/{id}/members", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"), Idempotent),
    request_body = NewMember,
    responses((status = 201, description = "A member from now on", body = MemberView),
              (status = 202, description = "If somebody has this address, it is asked", body = Invited), Doing))]
async fn add(
    State(app): State<AppState>,
    Known(caller): Known,
    Context(context): Context,
    Path(id): Path<String>,
    Sent { body, once }: Sent<NewMember>,
) -> Result<Response, ApiError> {
    let id = conversation_id(&id)?;
    let Done { result, again } = conversation::add_member(&app, caller, id, context, body, once).await?;
    Ok(match result {
        Added::Joined(result) => done(StatusCode::CREATED, Done { result, again }),
        Added::Asked(result) => done(StatusCode::ACCEPTED, Done { result, again }),
    })
}

/// List the members
///
/// In the order of their handles.
#[utoipa::path(get, path = "/api/v1/channels/{id}/members", operation_id = "list_members", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"), Page),
    responses((status = 200, description = "A page", body = Items<MemberView>), Reading))]
async fn list(
    State(app): State<AppState>,
    Member(who): Member,
    Path(id): Path<String>,
    Query(page): Query<Page>,
) -> Result<Json<Items<MemberView>>, ApiError> {
    Ok(Json(conversation::list_members(&app, who, conversation_id(&id)?, page).await?))
}

/// Change a member
///
/// The owner may change anybody; the leads what others are called and do, but not who leads; everybody what it is called itself.
#[utoipa::path(patch, path = "/api/v1/channels/{id}/members/{handle}", operation_id = "change_member", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"),
           ("handle" = String, Path, description = "What the member is called here"), Idempotent),
    request_body = MemberChange,
    responses((status = 200, description = "As it is now", body = MemberView), Doing))]
async fn change(
    State(app): State<AppState>,
    Member(who): Member,
    Context(context): Context,
    Path((id, handle)): Path<(String, String)>,
    Sent { body, once }: Sent<MemberChange>,
) -> Result<Response, ApiError> {
    let member = (conversation_id(&id)?, handle);
    Ok(done(StatusCode::OK, conversation::change_member(&app, who, member, context, body, once).await?))
}

/// Remove a member
///
/// Everybody may leave but the owner, who makes somebody else the owner first, or archives the channel. The owner may remove
/// anybody, and so may the leads.
#[utoipa::path(delete, path = "/api/v1/channels/{id}/members/{handle}", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"),
           ("handle" = String, Path, description = "What the member is called here")),
    responses((status = 204, description = "No member any more"), Doing))]
async fn remove(
    State(app): State<AppState>,
    Member(who): Member,
    Context(context): Context,
    Path((id, handle)): Path<(String, String)>,
    Bare(once): Bare,
) -> Result<Response, ApiError> {
    let member = (conversation_id(&id)?, handle);
    let removed = conversation::remove_member(&app, who, member, context, once).await?;
    Ok(done(StatusCode::NO_CONTENT, removed))
}
