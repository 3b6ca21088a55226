//! A person's unread conversations.

use crate::answers::own::{Doing, Forbidden, Invalid, Overloaded, TooFast, Unknown};
use crate::error::ApiError;
use crate::extract::{MaybeSent, Person, Query};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, State};
use chorus_app::conversation::{self, conversation_id};
use chorus_node::AppState;
use chorus_protocol::api::Items;
use chorus_protocol::api::unread::{ReadThrough, Reading, Unread, UnreadPage};
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(unread)).at(Route::API, routes!(read))
}

/// List unread conversations
///
/// Your conversations with messages of others after your read position. A page may hold fewer than `limit`, or
/// none, although more follow: only an absent `next` ends the list.
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

/// Mark a conversation as read
///
/// All of it, or up to a message. The read position never moves back.
#[utoipa::path(post, path = "/api/v1/channels/{id}/read", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "The id of a conversation you are a member of")),
    request_body = Option<Reading>,
    responses((status = 200, description = "The new read position", body = ReadThrough), Doing))]
async fn read(
    State(app): State<AppState>,
    Person(person): Person,
    Path(id): Path<String>,
    MaybeSent { body, .. }: MaybeSent<Reading>,
) -> Result<Json<ReadThrough>, ApiError> {
    let id = conversation_id(&id)?;
    Ok(Json(conversation::mark_read(&app, &person, id, body.unwrap_or_default()).await?))
}
