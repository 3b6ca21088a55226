//! What is said in conversations: messages, their edits and deletions, and reactions to them.

use crate::answers::own::Doing;
use crate::error::ApiError;
use crate::extract::{Bare, Idempotent, Member, Query, Sent, done};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use chorus_app::conversation::{conversation_id, event_id};
use chorus_app::once::Done;
use chorus_app::{AppState, conversation};
use chorus_protocol::api::messages::{
    Edit, Held, NewMessage, NewReaction, Noted, Preview, Said, Sent as Became, Shown,
};
use chorus_protocol::ids::{ConversationId, EventId};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .at(Route::API, routes!(post))
        .at(Route::API, routes!(edit, delete))
        .at(Route::API, routes!(react))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct How {
    /// Only ask whom it would wake
    #[serde(default)]
    #[param(required = false)]
    dry_run: bool,
}

/// Say something
///
/// Success means committed to disk. Agents that are mentioned, that it is for, or that the conversation is with are woken, and by
/// what a person goes on with in a thread the agent it was about last; nobody else is. Thanks, acknowledgements and reports of how
/// something stands wake no agent, nor does what agents repeat to each other: the answer says who only finds it. With
/// `dry_run=true` nothing is written: the answer says who would be woken, who would not, and why.
///
/// With `requires_approval` it is held until a person of the conversation agrees (`/api/v1/approvals`); nobody else is told of it
/// before. With `ephemeral` it is shown to whoever follows the conversation at that moment, wakes nobody and is in no history.
#[utoipa::path(post, path = "/api/v1/channels/{id}/messages", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"), How, Idempotent),
    request_body = NewMessage,
    responses((status = 201, description = "Said", body = Said),
              (status = 202, description = "With `requires_approval`: it waits for a person; with `ephemeral`: it was shown",
               body = inline(Unsaid)),
              (status = 200, description = "With `dry_run`: what it would mean for each agent it is for", body = Preview), Doing))]
async fn post(
    State(app): State<AppState>,
    Member(who): Member,
    Path(id): Path<String>,
    Query(how): Query<How>,
    Sent { body, once }: Sent<NewMessage>,
) -> Result<Response, ApiError> {
    let id = conversation_id(&id)?;
    if how.dry_run {
        return Ok(Json(conversation::preview(&app, who, id, body).await?).into_response());
    }
    let Done { result, again } = conversation::send(&app, who, id, body, once).await?;
    Ok(match result {
        Became::Said(result) => done(StatusCode::CREATED, Done { result, again }),
        Became::Held(result) => done(StatusCode::ACCEPTED, Done { result, again }),
        Became::Shown(result) => done(StatusCode::ACCEPTED, Done { result, again }),
    })
}

/// What is in no log, yet or at all.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes an answer for the OpenAPI document")]
enum Unsaid {
    Held(Held),
    Shown(Shown),
}

/// The message that a path names.
fn message((id, event): &(String, String)) -> Result<(ConversationId, EventId), ApiError> {
    Ok((conversation_id(id)?, event_id(event)?))
}

/// Change what a message says
///
/// Its author may. Whom it mentions now is not woken.
#[utoipa::path(patch, path = "/api/v1/channels/{id}/messages/{event_id}", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"),
           ("event_id" = String, Path, description = "Of a message there"), Idempotent),
    request_body = Edit,
    responses((status = 200, description = "Changed", body = Noted), Doing))]
async fn edit(
    State(app): State<AppState>,
    Member(who): Member,
    Path(path): Path<(String, String)>,
    Sent { body, once }: Sent<Edit>,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::OK, conversation::edit(&app, who, message(&path)?, body, once).await?))
}

/// Take a message back
///
/// Its author may, and the owner of the channel.
#[utoipa::path(delete, path = "/api/v1/channels/{id}/messages/{event_id}", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"),
           ("event_id" = String, Path, description = "Of a message there")),
    responses((status = 204, description = "Taken back"), Doing))]
async fn delete(
    State(app): State<AppState>,
    Member(who): Member,
    Path(path): Path<(String, String)>,
    Bare(once): Bare,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::NO_CONTENT, conversation::delete(&app, who, message(&path)?, once).await?))
}

/// React to a message
///
/// The same reaction again, while it stands, changes nothing: the answer names the one there is.
#[utoipa::path(post, path = "/api/v1/channels/{id}/messages/{event_id}/reactions", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"),
           ("event_id" = String, Path, description = "Of a message there"), Idempotent),
    request_body = NewReaction,
    responses((status = 201, description = "Noted", body = Noted), Doing))]
async fn react(
    State(app): State<AppState>,
    Member(who): Member,
    Path(path): Path<(String, String)>,
    Sent { body, once }: Sent<NewReaction>,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::CREATED, conversation::react(&app, who, message(&path)?, body, once).await?))
}
