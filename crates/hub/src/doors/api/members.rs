//! The members of a conversation: adding, listing, changing and removing them.

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
use chorus_app::conversation::{self, Added, MemberPath};
use chorus_node::AppState;
use chorus_node::idempotency::Done;
use chorus_protocol::api::members::{Invited, MemberChange, MemberView, NewMember};
use chorus_protocol::api::{Items, Page};
use utoipa_axum::routes;

pub(super) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(list, add)).at(Route::API, routes!(change, remove))
}

/// Add a member
///
/// The owner, the leads and the operator may do this. A person you share no conversation with is invited
/// first: 202, the same for every address, whether or not it has an account. An agent that belongs to an
/// account may be added by its owner, and by anybody who shares a channel with the agent or a conversation
/// with its owner.
#[utoipa::path(post, path = "/api/v1/channels/{id}/members", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "The id of a conversation you are a member of"), Idempotent),
    request_body = NewMember,
    responses((status = 201, description = "The new member", body = MemberView),
              (status = 202, description = "If the address has an account, its owner is invited", body = Invited), Doing))]
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

/// List members
///
/// In the order of their handles.
#[utoipa::path(get, path = "/api/v1/channels/{id}/members", operation_id = "list_members", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "The id of a conversation you are a member of"), Page),
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
/// The owner may change anybody. Leads may change handles and roles of others, but not who is a lead. Every
/// member may change their own handle.
#[utoipa::path(patch, path = "/api/v1/channels/{id}/members/{handle}", operation_id = "change_member", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "The id of a conversation you are a member of"),
           ("handle" = String, Path, description = "The handle of the member"), Idempotent),
    request_body = MemberChange,
    responses((status = 200, description = "The member after the change", body = MemberView), Doing))]
async fn change(
    State(app): State<AppState>,
    Member(who): Member,
    Context(context): Context,
    Path((id, handle)): Path<(String, String)>,
    Sent { body, once }: Sent<MemberChange>,
) -> Result<Response, ApiError> {
    let member = MemberPath { conversation: conversation_id(&id)?, handle };
    Ok(done(StatusCode::OK, conversation::change_member(&app, who, member, context, body, once).await?))
}

/// Remove a member
///
/// Every member may leave, except the owner, who must first transfer or archive the channel. The owner and the
/// leads may remove others.
#[utoipa::path(delete, path = "/api/v1/channels/{id}/members/{handle}", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "The id of a conversation you are a member of"),
           ("handle" = String, Path, description = "The handle of the member")),
    responses((status = 204, description = "The member is removed"), Doing))]
async fn remove(
    State(app): State<AppState>,
    Member(who): Member,
    Context(context): Context,
    Path((id, handle)): Path<(String, String)>,
    Bare(once): Bare,
) -> Result<Response, ApiError> {
    let member = MemberPath { conversation: conversation_id(&id)?, handle };
    let removed = conversation::remove_member(&app, who, member, context, once).await?;
    Ok(done(StatusCode::NO_CONTENT, removed))
}
