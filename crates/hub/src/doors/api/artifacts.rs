//! Documents of a conversation, in versions.

use crate::answers::own::{
    Conflict, Forbidden, Invalid, Missing, Overloaded, Reading, TooFast, TooSlow, Unknown,
};
use crate::error::{ApiError, OwnFailure};
use crate::extract::{BodyLimit, Idempotent, Member, Query, Sent, done};
use crate::route::Route;
use crate::routes::Routes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::{Extension, Json};
use chorus_app::conversation::conversation_id;
use chorus_app::{App, AppState, conversation};
use chorus_protocol::api::documents::{Document, DocumentChange, NewDocument};
use chorus_protocol::api::{Items, Page};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// What the largest body has besides the largest document, twice, because much of that may have to be escaped; and the largest
/// body where documents have no limit.
const AROUND_DOCUMENT: usize = 64 * 1024;
const MAX_DOCUMENT_BODY: usize = 64 * 1024 * 1024;

pub(super) fn routes() -> Routes {
    let routes = OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(one, update));
    Routes::default().group(Route::API, routes.layer(Extension(BodyLimit(max_body))))
}

/// The largest body of a request.
fn max_body(app: &App) -> usize {
    let content = usize::try_from(app.config.quotas.document_bytes).unwrap_or(MAX_DOCUMENT_BODY);
    content.saturating_mul(2).saturating_add(AROUND_DOCUMENT).min(MAX_DOCUMENT_BODY)
}

/// `TOO_LARGE`: the body is larger than twice the largest document and 64 KiB
#[derive(utoipa::IntoResponses)]
#[response(status = 413)]
#[expect(dead_code, reason = "describes an answer for the OpenAPI document")]
struct DocumentTooLarge(OwnFailure);

/// List the documents
///
/// Each in its newest version, without its content, in the order of their slugs.
#[utoipa::path(get, path = "/api/v1/channels/{id}/artifacts", operation_id = "list_artifacts", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"), Page),
    responses((status = 200, description = "A page", body = Items<Document>), Reading))]
async fn list(
    State(app): State<AppState>,
    Member(who): Member,
    Path(id): Path<String>,
    Query(page): Query<Page>,
) -> Result<Json<Items<Document>>, ApiError> {
    Ok(Json(conversation::list_documents(&app, who, conversation_id(&id)?, page).await?))
}

/// Make a document
#[utoipa::path(post, path = "/api/v1/channels/{id}/artifacts", operation_id = "create_artifact", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"), Idempotent),
    request_body = NewDocument,
    responses((status = 201, description = "Made, as version 1", body = Document),
              Invalid, Unknown, Forbidden, Missing, Conflict, TooSlow, DocumentTooLarge, TooFast, Overloaded))]
async fn create(
    State(app): State<AppState>,
    Member(who): Member,
    Path(id): Path<String>,
    Sent { body, once }: Sent<NewDocument>,
) -> Result<Response, ApiError> {
    let made = conversation::make_document(&app, who, conversation_id(&id)?, body, once).await?;
    Ok(done(StatusCode::CREATED, made))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Which {
    /// The newest, unless said
    #[param(minimum = 1, maximum = 999_999_999)]
    version: Option<i64>,
}

/// Read a document
///
/// In a channel whose members read what was said since they joined, a version is for whoever was a member while it was the
/// newest; to others it is not there.
#[utoipa::path(get, path = "/api/v1/channels/{id}/artifacts/{slug}", operation_id = "artifact", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"),
           ("slug" = String, Path, description = "Of a document there"), Which),
    responses((status = 200, description = "The document", body = Document), Reading))]
async fn one(
    State(app): State<AppState>,
    Member(who): Member,
    Path((id, slug)): Path<(String, String)>,
    Query(Which { version }): Query<Which>,
) -> Result<Json<Document>, ApiError> {
    Ok(Json(conversation::read_document(&app, who, (conversation_id(&id)?, slug), version).await?))
}

/// Change a document
///
/// By naming the version that was changed: if there is a newer one, this is 409, with it in `details.version`. Without
/// `base_version` it comes on top of whatever is there.
#[utoipa::path(put, path = "/api/v1/channels/{id}/artifacts/{slug}", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"),
           ("slug" = String, Path, description = "Of a document there"), Idempotent),
    request_body = DocumentChange,
    responses((status = 200, description = "Changed, as a new version", body = Document),
              Invalid, Unknown, Forbidden, Missing, Conflict, TooSlow, DocumentTooLarge, TooFast, Overloaded))]
async fn update(
    State(app): State<AppState>,
    Member(who): Member,
    Path((id, slug)): Path<(String, String)>,
    Sent { body, once }: Sent<DocumentChange>,
) -> Result<Response, ApiError> {
    let changed = conversation::change_document(&app, who, (conversation_id(&id)?, slug), body, once).await?;
    Ok(done(StatusCode::OK, changed))
}
