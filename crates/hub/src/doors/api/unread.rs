//! What a person has not read yet.

use crate::answers::own::{Doing, Forbidden, Invalid, Overloaded, TooFast, Unknown};
use crate::error::ApiError;
use crate::extract::{MaybeSent, Person, Query};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, State};
use chorus_app::AppState;
use chorus_app::conversation::{self, conversation_id};
use chorus_protocol::api::Items;
use chorus_protocol::api::unread::{ReadThrough, Reading, Unread, UnreadPage};
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(unread)).at(Route::API, routes!(read))
}

/// What you have not read yet
///
/// Those of your conversations that hold messages of others after the place you have read up to. A page may hold fewer than
/// asked for, or none, although there are more: `next` alone says whether the list goes on.
#[utoipa::path(get, path = "/api/v1/unread", tag = "conversations", security(("key" = [])),
    params(UnreadPage),
    responses((status = 200, description = "A page", body = Items<Unread>),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
async fn unread(
    State(app): State<AppState>,
    Person(person): Person,
    Query(page): Query<UnreadPage>,
) -> Result<Json<Items<Unread>>, ApiError> {
    Ok(Json(conversation::unread(&app, &person, page).await?))
}

/// Say that you have read a conversation
///
/// All of it, or up to a message. It never goes back.
#[utoipa::path(post, path = "/api/v1/channels/{id}/read", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of")),
    request_body = Option<Reading>,
    responses((status = 200, description = "How far you have read", body = ReadThrough), Doing))]
async fn read(
    State(app): State<AppState>,
    Person(person): Person,
    Path(id): Path<String>,
    MaybeSent { body, .. }: MaybeSent<Reading>,
) -> Result<Json<ReadThrough>, ApiError> {
    let id = conversation_id(&id)?;
    Ok(Json(conversation::mark_read(&app, &person, id, body.unwrap_or_default()).await?))
}
