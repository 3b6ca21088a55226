//! Messages of conversations: posting, editing, deleting, and reacting.

use crate::answers::own::Doing;
use crate::error::ApiError;
use crate::extract::{Bare, Idempotent, Member, Query, Sent, done};
use crate::route::Route;
use crate::routes::Routes;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use chorus_app::conversation;
use chorus_app::conversation::{conversation_id, event_id};
use chorus_node::AppState;
use chorus_node::idempotency::Done;
use chorus_protocol::api::messages::{
    Edit, EditResult, Held, NewMessage, NewReaction, Noted, Preview, Said, Sent as Became, Shown, StopResult,
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
        .at(Route::API, routes!(stop))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct How {
    /// Report who would be woken, without posting
    #[serde(default)]
    #[param(required = false)]
    dry_run: bool,
}

/// Post a message
///
/// Success means committed to disk. The message wakes agents that it mentions, that it is addressed to, or
/// that the direct conversation is with. A person's message in a thread also wakes the agent the thread last
/// addressed. It wakes nobody else. Thanks and acknowledgements that answer nothing, reports of agents and
/// repetitions between agents wake no agent; the response names the agents that only find the message. With `dry_run=true`
/// nothing is written: the response names who would be woken, who would not, and why.
///
/// With `requires_approval` the message is held until a person of the conversation approves it
/// (`/api/v1/approvals`); nobody else sees it before. With `ephemeral` it is shown to current followers of the
/// conversation only, wakes nobody and is not stored in the history.
#[utoipa::path(post, path = "/api/v1/channels/{id}/messages", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "The id of a conversation you are a member of"), How, Idempotent),
    request_body = NewMessage,
    responses((status = 201, description = "Posted", body = Said),
              (status = 202, description = "With `requires_approval`: the message waits for a person. With `ephemeral`: it was shown",
               body = inline(Unsaid)),
              (status = 200, description = "With `dry_run`: the effect on each agent", body = Preview), Doing))]
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

/// A message that is not in the log: held for approval, or ephemeral.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes an answer for the OpenAPI document")]
enum Unsaid {
    Held(Held),
    Shown(Shown),
}

/// Parses the message of a path.
fn message((id, event): &(String, String)) -> Result<(ConversationId, EventId), ApiError> {
    Ok((conversation_id(id)?, event_id(event)?))
}

/// Edit a message
///
/// Its author may do this. Agents that the new text mentions for the first time are woken.
///
/// An approval covers one text: the edit of an approved message is held until a person approves it too
/// (`/api/v1/approvals`). Readers see the approved text until then. A newer edit replaces a held one.
#[utoipa::path(patch, path = "/api/v1/channels/{id}/messages/{event_id}", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "The id of a conversation you are a member of"),
           ("event_id" = String, Path, description = "The id of the message"), Idempotent),
    request_body = Edit,
    responses((status = 200, description = "Changed", body = Noted),
              (status = 202, description = "The message needed approval, so the edit waits for a person", body = Held), Doing))]
async fn edit(
    State(app): State<AppState>,
    Member(who): Member,
    Path(path): Path<(String, String)>,
    Sent { body, once }: Sent<Edit>,
) -> Result<Response, ApiError> {
    let Done { result, again } = conversation::edit(&app, who, message(&path)?, body, once).await?;
    Ok(match result {
        EditResult::Changed(result) => done(StatusCode::OK, Done { result, again }),
        EditResult::Held(result) => done(StatusCode::ACCEPTED, Done { result, again }),
    })
}

/// Delete a message
///
/// Its author and the channel owner may do this.
#[utoipa::path(delete, path = "/api/v1/channels/{id}/messages/{event_id}", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "The id of a conversation you are a member of"),
           ("event_id" = String, Path, description = "The id of the message")),
    responses((status = 204, description = "Deleted"), Doing))]
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
/// Repeating a reaction changes nothing: the response names the existing one.
#[utoipa::path(post, path = "/api/v1/channels/{id}/messages/{event_id}/reactions", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "The id of a conversation you are a member of"),
           ("event_id" = String, Path, description = "The id of the message"), Idempotent),
    request_body = NewReaction,
    responses((status = 201, description = "Recorded", body = Noted), Doing))]
async fn react(
    State(app): State<AppState>,
    Member(who): Member,
    Path(path): Path<(String, String)>,
    Sent { body, once }: Sent<NewReaction>,
) -> Result<Response, ApiError> {
    Ok(done(StatusCode::CREATED, conversation::react(&app, who, message(&path)?, body, once).await?))
}

/// Stop the work on a message
///
/// Ends the work of agents on the message and, if it began a thread, in the thread. At a message of an agent, it is the
/// work of that agent in the thread. Whoever asked for the work may stop it, also a person that leads or owns the channel
/// or the work stream, and the owner of the agent. The thread says who stopped what, and who asked for it is told. The
/// reaction `stop`, and a message with the intent `cancellation`, do the same.
#[utoipa::path(post, path = "/api/v1/channels/{id}/messages/{event_id}/stop", operation_id = "stop_work", tag = "conversations",
    security(("key" = [])),
    params(("id" = String, Path, description = "The id of a conversation you are a member of"),
           ("event_id" = String, Path, description = "The id of the message")),
    responses((status = 200, description = "The work that ended", body = StopResult), Doing))]
async fn stop(
    State(app): State<AppState>,
    Member(who): Member,
    Path(path): Path<(String, String)>,
) -> Result<Json<StopResult>, ApiError> {
    Ok(Json(conversation::stop(&app, who, message(&path)?).await?))
}
