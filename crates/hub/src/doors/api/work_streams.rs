//! Work streams: pieces of work in channels, with their owners.

use crate::answers::own::{Doing, Forbidden, Invalid, Overloaded, Reading, TooFast, Unknown};
use crate::error::ApiError;
use crate::extract::{Bare, Context, Idempotent, Member, Query, Sent, done};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use chorus_app::work_streams::{self, stream_id};
use chorus_node::AppState;
use chorus_protocol::api::Items;
use chorus_protocol::api::streams::{NewStream, StreamChange, StreamPage, StreamView};
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .at(Route::API, routes!(list, create))
        .at(Route::API, routes!(one, replace, change, close))
        .at(Route::API, routes!(join))
        .at(Route::API, routes!(leave))
}

/// Create a work stream
///
/// A piece of work in channels that you own or lead. A message there that names nobody knocks at its owners.
#[utoipa::path(post, path = "/api/v1/streams", operation_id = "create_stream", tag = "streams", security(("key" = [])),
    params(Idempotent),
    request_body = NewStream,
    responses((status = 201, description = "Created", body = StreamView), Doing))]
async fn create(
    State(app): State<AppState>,
    Member(who): Member,
    Context(context): Context,
    Sent { body, once }: Sent<NewStream>,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::CREATED, work_streams::make_stream(&app, who, context, body, once).await?))
}

/// List work streams
///
/// The open ones in your channels.
#[utoipa::path(get, path = "/api/v1/streams", operation_id = "list_streams", tag = "streams", security(("key" = [])),
    params(StreamPage),
    responses((status = 200, description = "A page", body = Items<StreamView>),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
async fn list(
    State(app): State<AppState>,
    Member(who): Member,
    Query(page): Query<StreamPage>,
) -> Result<Json<Items<StreamView>>, ApiError> {
    Ok(Json(work_streams::list_streams(&app, who, page).await?))
}

/// Retrieve a work stream
#[utoipa::path(get, path = "/api/v1/streams/{id}", operation_id = "stream", tag = "streams", security(("key" = [])),
    params(("id" = String, Path, description = "The id of a work stream in one of your channels", example = "stream_0190a3c4d5e67f8090a1b2c3d4e5f607")),
    responses((status = 200, description = "The work stream", body = StreamView), Reading))]
async fn one(
    State(app): State<AppState>,
    Member(who): Member,
    Path(id): Path<String>,
) -> Result<Json<StreamView>, ApiError> {
    Ok(Json(work_streams::look_at_stream(&app, who, stream_id(&id)?).await?))
}

/// Change a work stream
///
/// Its owners and the owners of its channels may do this. Absent fields stay as they are.
#[utoipa::path(patch, path = "/api/v1/streams/{id}", operation_id = "change_stream", tag = "streams", security(("key" = [])),
    params(("id" = String, Path, description = "The id of a work stream in one of your channels"), Idempotent),
    request_body = StreamChange,
    responses((status = 200, description = "The work stream after the change", body = StreamView), Doing))]
async fn change(
    State(app): State<AppState>,
    Member(who): Member,
    Context(context): Context,
    Path(id): Path<String>,
    Sent { body, once }: Sent<StreamChange>,
) -> Result<Response, ApiError> {
    Ok(done(
        StatusCode::OK,
        work_streams::change_stream(&app, who, context, stream_id(&id)?, body, once).await?,
    ))
}

/// Replace a work stream
///
/// Like changing it, with all fields.
#[utoipa::path(put, path = "/api/v1/streams/{id}", operation_id = "put_stream", tag = "streams", security(("key" = [])),
    params(("id" = String, Path, description = "The id of a work stream in one of your channels"), Idempotent),
    request_body = NewStream,
    responses((status = 200, description = "The work stream after the change", body = StreamView), Doing))]
async fn replace(
    State(app): State<AppState>,
    Member(who): Member,
    Context(context): Context,
    Path(id): Path<String>,
    Sent { body, once }: Sent<NewStream>,
) -> Result<Response, ApiError> {
    let NewStream { name, conversations, owners, participants, lead } = body;
    let change = StreamChange {
        name: Some(name),
        conversations: Some(conversations),
        // An empty list keeps the current owners.
        owners: Some(owners).filter(|owners| !owners.is_empty()),
        participants: Some(participants),
        lead,
    };
    Ok(done(
        StatusCode::OK,
        work_streams::change_stream(&app, who, context, stream_id(&id)?, change, once).await?,
    ))
}

/// Close a work stream
///
/// Anybody who may change it may do this. Later messages do not belong to it, and its claims are offered
/// again.
#[utoipa::path(delete, path = "/api/v1/streams/{id}", operation_id = "close_stream", tag = "streams", security(("key" = [])),
    params(("id" = String, Path, description = "The id of a work stream in one of your channels")),
    responses((status = 200, description = "The stream is closed", body = StreamView), Doing))]
async fn close(
    State(app): State<AppState>,
    Member(who): Member,
    Context(context): Context,
    Path(id): Path<String>,
    Bare(once): Bare,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::OK, work_streams::close_stream(&app, who, context, stream_id(&id)?, once).await?))
}

/// Join a work stream
#[utoipa::path(post, path = "/api/v1/streams/{id}/join", operation_id = "join_stream", tag = "streams", security(("key" = [])),
    params(("id" = String, Path, description = "The id of a work stream in one of your channels")),
    responses((status = 200, description = "The work stream after the change", body = StreamView), Doing))]
async fn join(
    State(app): State<AppState>,
    Member(who): Member,
    Context(context): Context,
    Path(id): Path<String>,
    Bare(once): Bare,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::OK, work_streams::join_stream(&app, who, context, stream_id(&id)?, once).await?))
}

/// Leave a work stream
#[utoipa::path(post, path = "/api/v1/streams/{id}/leave", operation_id = "leave_stream", tag = "streams", security(("key" = [])),
    params(("id" = String, Path, description = "The id of a work stream in one of your channels")),
    responses((status = 200, description = "The work stream after the change", body = StreamView), Doing))]
async fn leave(
    State(app): State<AppState>,
    Member(who): Member,
    Context(context): Context,
    Path(id): Path<String>,
    Bare(once): Bare,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::OK, work_streams::leave_stream(&app, who, context, stream_id(&id)?, once).await?))
}
