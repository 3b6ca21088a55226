//! Conversations: creating, listing and changing channels, and direct conversations.

use super::{artifacts, events, members, search, stream};
use crate::answers::own::{
    Conflict, Doing, Forbidden, Invalid, Overloaded, Reading, TooFast, TooLarge, TooSlow, Unknown,
};
use crate::error::ApiError;
use crate::extract::{Bare, By, Context, Idempotent, Member, Query, Sent, done};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use chorus_app::conversation::conversation_id;
use chorus_app::conversation::{self, Talk};
use chorus_node::AppState;
use chorus_node::idempotency::Done;
use chorus_protocol::api::Items;
use chorus_protocol::api::channels::{
    ChangedConversation, ChannelChange, ConversationDetail, ConversationPage, ConversationView, NewChannel,
    NewPair,
};
use chorus_protocol::api::members::Invited;
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .at(Route::API, routes!(list, create))
        .at(Route::API, routes!(one, change, archive))
        .at(Route::API, routes!(restore))
        .at(Route::API, routes!(dm))
        .and(members::routes())
        .and(events::routes())
        .and(stream::routes())
        .and(artifacts::routes())
        .and(search::routes())
}

/// Create a channel
///
/// Its creator is its owner and first member.
#[utoipa::path(post, path = "/api/v1/channels", operation_id = "create_channel", tag = "conversations", security(("key" = [])),
    params(Idempotent),
    request_body = NewChannel,
    responses((status = 201, description = "Created", body = ChangedConversation),
              Invalid, Unknown, Forbidden, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
async fn create(
    State(app): State<AppState>,
    _: Member,
    By(caller): By,
    Sent { body, once }: Sent<NewChannel>,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::CREATED, conversation::make_channel(&app, &caller, body, once).await?))
}

/// List your conversations
///
/// The active ones that you are a member of; with `archived=true`, only archived ones.
#[utoipa::path(get, path = "/api/v1/channels", operation_id = "list_channels", tag = "conversations", security(("key" = [])),
    params(ConversationPage),
    responses((status = 200, description = "A page", body = Items<ConversationView>),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
async fn list(
    State(app): State<AppState>,
    Member(who): Member,
    Query(page): Query<ConversationPage>,
) -> Result<Json<Items<ConversationView>>, ApiError> {
    Ok(Json(conversation::list_conversations(&app, who, page).await?))
}

/// Retrieve a conversation
#[utoipa::path(get, path = "/api/v1/channels/{id}", operation_id = "channel", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "The id of a conversation you are a member of", example = "ch_0190a3c4d5e67f8090a1b2c3d4e5f607")),
    responses((status = 200, description = "The conversation", body = ConversationDetail), Reading))]
async fn one(
    State(app): State<AppState>,
    Member(who): Member,
    Path(id): Path<String>,
) -> Result<Json<ConversationDetail>, ApiError> {
    Ok(Json(conversation::look_at(&app, who, conversation_id(&id)?).await?))
}

/// Change a channel
///
/// Its owner may do this, and transfers it by naming another `owner`.
#[utoipa::path(patch, path = "/api/v1/channels/{id}", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "The id of a conversation you are a member of"), Idempotent),
    request_body = ChannelChange,
    responses((status = 200, description = "The conversation after the change", body = ChangedConversation), Doing))]
async fn change(
    State(app): State<AppState>,
    Member(who): Member,
    Context(context): Context,
    Path(id): Path<String>,
    Sent { body, once }: Sent<ChannelChange>,
) -> Result<Response, ApiError> {
    let changed = conversation::change_channel(&app, who, conversation_id(&id)?, context, body, once);
    Ok(done(StatusCode::OK, changed.await?))
}

/// Archive a channel
///
/// Its owner may do this. It can still be read, but nobody can post in it.
#[utoipa::path(delete, path = "/api/v1/channels/{id}", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "The id of a conversation you are a member of")),
    responses((status = 204, description = "The channel is archived"), Doing))]
async fn archive(
    State(app): State<AppState>,
    Member(who): Member,
    Path(id): Path<String>,
    Bare(once): Bare,
) -> Result<Response, ApiError> {
    let archived = conversation::archive(&app, who, conversation_id(&id)?, once).await?;
    Ok(done(StatusCode::NO_CONTENT, archived))
}

/// Restore an archived channel
///
/// Its owner may do this.
#[utoipa::path(post, path = "/api/v1/channels/{id}/restore", operation_id = "restore_channel", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "The id of a conversation you are a member of")),
    responses((status = 200, description = "The conversation after the change", body = ConversationView), Doing))]
async fn restore(
    State(app): State<AppState>,
    Member(who): Member,
    Path(id): Path<String>,
    Bare(once): Bare,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::OK, conversation::restore(&app, who, conversation_id(&id)?, once).await?))
}

/// Open a direct conversation with one agent or person
///
/// There is one conversation for each pair, whoever opens it first. Every message in it wakes the other side
/// if that is an agent. A person you share no conversation with is invited first: 202, the same for every
/// address, whether or not it has an account. The conversation is created when the person accepts.
#[utoipa::path(post, path = "/api/v1/dms", tag = "conversations", security(("key" = [])),
    params(Idempotent),
    request_body = NewPair,
    responses((status = 201, description = "Created", body = ConversationView),
              (status = 200, description = "The existing conversation", body = ConversationView),
              (status = 202, description = "If the address has an account, its owner is invited", body = Invited), Doing))]
async fn dm(
    State(app): State<AppState>,
    _: Member,
    By(caller): By,
    Context(context): Context,
    Sent { body, once }: Sent<NewPair>,
) -> Result<Response, ApiError> {
    let Done { result, again } = conversation::talk_to(&app, &caller, context, body, once).await?;
    Ok(match result {
        Talk::Made(result) => done(StatusCode::CREATED, Done { result, again }),
        Talk::Known(result) => done(StatusCode::OK, Done { result, again }),
        Talk::Asked(result) => done(StatusCode::ACCEPTED, Done { result, again }),
    })
}
