//! Documents of a conversation, in versions, and their raw bytes for viewing and downloading.
//!
//! The bytes come from a member but are served from our own host. Browsers therefore display only images and
//! plain text; everything else is offered as a download, whatever its declared type.

use crate::answers::own::{
    Conflict, Doing, Forbidden, Invalid, Missing, Overloaded, Reading, TooFast, TooSlow, Unknown,
};
use crate::error::{ApiError, OwnFailure};
use crate::extract::{Bare, BodyLimit, Idempotent, Member, Query, Sent, done};
use crate::route::Route;
use crate::routes::Routes;
use axum::extract::{Path, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use chorus_app::conversation;
use chorus_app::conversation::conversation_id;
use chorus_node::{App, AppState};
use chorus_protocol::api::documents::{
    Document, DocumentChange, Encoding, NewDocument, ending_of, is_picture,
};
use chorus_protocol::api::{Items, Page};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The room for a body's other fields. A body may hold twice the largest document, because much of it may be
/// escaped. The second value is the largest body where documents have no limit.
const AROUND_DOCUMENT: usize = 64 * 1024;
const MAX_DOCUMENT_BODY: usize = 64 * 1024 * 1024;

/// The response header that says which pages may embed the bytes.
const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

pub(super) fn routes() -> Routes {
    let routes = OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(one, update, delete))
        .routes(routes!(raw));
    Routes::default().group(Route::API, routes.layer(Extension(BodyLimit(max_body))))
}

/// Returns the largest request body, in bytes.
fn max_body(app: &App) -> usize {
    let content = usize::try_from(app.config.quotas.document_bytes).unwrap_or(MAX_DOCUMENT_BODY);
    content.saturating_mul(2).saturating_add(AROUND_DOCUMENT).min(MAX_DOCUMENT_BODY)
}

/// `TOO_LARGE`: the body is larger than twice the largest document plus 64 KiB
#[derive(utoipa::IntoResponses)]
#[response(status = 413)]
#[expect(dead_code, reason = "describes an answer for the OpenAPI document")]
struct DocumentTooLarge(OwnFailure);

/// List documents
///
/// Each in its newest version, without content, in the order of their slugs.
#[utoipa::path(get, path = "/api/v1/channels/{id}/artifacts", operation_id = "list_artifacts", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "The id of a conversation you are a member of"), Page),
    responses((status = 200, description = "A page", body = Items<Document>), Reading))]
async fn list(
    State(app): State<AppState>,
    Member(who): Member,
    Path(id): Path<String>,
    Query(page): Query<Page>,
) -> Result<Json<Items<Document>>, ApiError> {
    Ok(Json(conversation::list_documents(&app, who, conversation_id(&id)?, page).await?))
}

/// Create a document
#[utoipa::path(post, path = "/api/v1/channels/{id}/artifacts", operation_id = "create_artifact", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "The id of a conversation you are a member of"), Idempotent),
    request_body = NewDocument,
    responses((status = 201, description = "Created, as version 1", body = Document),
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
    /// The version number. Default: the newest
    #[param(minimum = 1, maximum = 999_999_999)]
    version: Option<i64>,
}

/// Retrieve a document
///
/// In a channel whose members see only the history since they joined, a version is visible to those who were
/// members while it was the newest. Others get 404.
#[utoipa::path(get, path = "/api/v1/channels/{id}/artifacts/{slug}", operation_id = "artifact", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "The id of a conversation you are a member of"),
           ("slug" = String, Path, description = "The slug of the document"), Which),
    responses((status = 200, description = "The document", body = Document), Reading))]
async fn one(
    State(app): State<AppState>,
    Member(who): Member,
    Path((id, slug)): Path<(String, String)>,
    Query(Which { version }): Query<Which>,
) -> Result<Json<Document>, ApiError> {
    Ok(Json(conversation::read_document(&app, who, (conversation_id(&id)?, slug), version).await?))
}

/// Download a document
///
/// The raw bytes with their media type. Images (PNG, JPEG, GIF, WebP) and plain text may be displayed by a
/// browser; anything else is served as a download (`Content-Disposition: attachment`).
#[utoipa::path(get, path = "/api/v1/channels/{id}/artifacts/{slug}/raw", operation_id = "artifact_bytes", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "The id of a conversation you are a member of"),
           ("slug" = String, Path, description = "The slug of the document"), Which),
    responses((status = 200, description = "The bytes, with the document's media type", content_type = "*/*", body = Vec<u8>), Reading))]
async fn raw(
    State(app): State<AppState>,
    Member(who): Member,
    Path((id, slug)): Path<(String, String)>,
    Query(Which { version }): Query<Which>,
) -> Result<Response, ApiError> {
    let place = (conversation_id(&id)?, slug);
    let (document, bytes) = conversation::read_document_bytes(&app, who, place, version).await?;
    let headers = [
        (header::CONTENT_TYPE, content_type(&document)),
        (header::CONTENT_DISPOSITION, disposition(&document)),
        // If a browser shows it anyway, it runs and loads nothing and has no origin.
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox".to_owned()),
        (CROSS_ORIGIN_RESOURCE_POLICY, "same-origin".to_owned()),
    ];
    Ok((headers, bytes).into_response())
}

/// Returns the media type for browsers. Texts are UTF-8.
fn content_type(document: &Document) -> String {
    let is_text = document.encoding == Encoding::Text && document.content_type.starts_with("text/");
    if is_text { format!("{}; charset=utf-8", document.content_type) } else { document.content_type.clone() }
}

/// Returns whether a browser displays or downloads the document, and its file name. A slug needs no escaping
/// here.
fn disposition(document: &Document) -> String {
    let shown = is_picture(&document.content_type) || document.content_type == "text/plain";
    let how = if shown { "inline" } else { "attachment" };
    match ending_of(&document.content_type) {
        Some(ending) => format!("{how}; filename=\"{}.{ending}\"", document.slug),
        None => format!("{how}; filename=\"{}\"", document.slug),
    }
}

/// Change a document
///
/// Pass the version you edited as `base_version`. If a newer one exists, the response is 409 and
/// `details.version` holds it. Without `base_version` the new version is added unconditionally.
#[utoipa::path(put, path = "/api/v1/channels/{id}/artifacts/{slug}", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "The id of a conversation you are a member of"),
           ("slug" = String, Path, description = "The slug of the document"), Idempotent),
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

/// Delete a document
///
/// With all its versions. Its creator and the channel owner may do this. The log keeps the fact that it
/// existed and who deleted it.
#[utoipa::path(delete, path = "/api/v1/channels/{id}/artifacts/{slug}", operation_id = "delete_artifact", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "The id of a conversation you are a member of"),
           ("slug" = String, Path, description = "The slug of the document")),
    responses((status = 204, description = "Removed"), Doing))]
async fn delete(
    State(app): State<AppState>,
    Member(who): Member,
    Path((id, slug)): Path<(String, String)>,
    Bare(once): Bare,
) -> Result<Response, ApiError> {
    let removed = conversation::delete_document(&app, who, (conversation_id(&id)?, slug), once).await?;
    Ok(done(StatusCode::NO_CONTENT, removed))
}
