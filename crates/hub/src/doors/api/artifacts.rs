//! Documents of a conversation, in versions; and their bytes as they are, for who would save or show them.
//!
//! Those bytes are what some member wrote, served from our own name: a browser draws pictures and shows plain text, and only
//! saves everything else, whatever it is said to be.

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
use chorus_app::conversation::conversation_id;
use chorus_app::{App, AppState, conversation};
use chorus_protocol::api::documents::{
    Document, DocumentChange, Encoding, NewDocument, ending_of, is_picture,
};
use chorus_protocol::api::{Items, Page};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// What the largest body has besides the largest document, twice, because much of that may have to be escaped; and the largest
/// body where documents have no limit.
const AROUND_DOCUMENT: usize = 64 * 1024;
const MAX_DOCUMENT_BODY: usize = 64 * 1024 * 1024;

/// By which pages a browser lets it be taken in.
const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

pub(super) fn routes() -> Routes {
    let routes = OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(one, update, delete))
        .routes(routes!(raw));
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

/// Read a document's bytes
///
/// As they are, with their type. Pictures (PNG, JPEG, GIF, WebP) and plain text are for a browser to show; anything else is for
/// saving only (`Content-Disposition: attachment`).
#[utoipa::path(get, path = "/api/v1/channels/{id}/artifacts/{slug}/raw", operation_id = "artifact_bytes", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"),
           ("slug" = String, Path, description = "Of a document there"), Which),
    responses((status = 200, description = "The bytes, of the type that the document has", content_type = "*/*", body = Vec<u8>), Reading))]
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
        // If it is shown after all: it runs nothing, loads nothing, and is of no origin.
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox".to_owned()),
        (CROSS_ORIGIN_RESOURCE_POLICY, "same-origin".to_owned()),
    ];
    Ok((headers, bytes).into_response())
}

/// The type of a document, as a browser is told. Texts are UTF-8, whatever it would guess.
fn content_type(document: &Document) -> String {
    let is_text = document.encoding == Encoding::Text && document.content_type.starts_with("text/");
    if is_text { format!("{}; charset=utf-8", document.content_type) } else { document.content_type.clone() }
}

/// Whether a browser shows or saves it, and under which name. A slug has no sign in it that would mean something here.
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

/// Remove a document
///
/// With all its versions: who began it may, and the owner of the channel. That it was there, and who removed it, stays in the log.
#[utoipa::path(delete, path = "/api/v1/channels/{id}/artifacts/{slug}", operation_id = "delete_artifact", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"),
           ("slug" = String, Path, description = "Of a document there")),
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
