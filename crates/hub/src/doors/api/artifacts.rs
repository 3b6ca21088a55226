//! Documents of a conversation, in versions.

use super::answers::{Conflict, Forbidden, Invalid, Missing, Overloaded, TooFast, TooSlow, Unknown};
use super::conversation::{MemberRequest, conversation_id, fields, line, mask, query};
use super::{Items, Written, not_found, read, value};
use crate::credentials::By;
use crate::doors::relay::PageQuery;
use crate::error::{ApiError, OwnFailure};
use crate::route::{Route, Routes};
use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use chorus_app::usage::{event_bytes, room};
use chorus_app::views::PrincipalView;
use chorus_app::{App, AppState};
use chorus_protocol::faults::{Faults, Fields};
use chorus_protocol::json;
use chorus_protocol::relay::Code;
use chorus_protocol::time::rfc3339;
use chorus_store::Tx;
use chorus_store::artifacts::{self, Artifact};
use chorus_store::channel::{self, Act, ChannelError, NewArtifact};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;
use utoipa::ToSchema;
use utoipa_axum::routes;

/// What the largest body has besides the largest document, twice, because much of that may have to be escaped; and the largest
/// body where documents have no limit.
const AROUND_DOCUMENT: usize = 64 * 1024;
const MAX_DOCUMENT_BODY: usize = 64 * 1024 * 1024;
/// The longest title and slug, and the longest name of what a document is made of, in characters.
const MAX_TITLE: usize = 200;
const MAX_SLUG: usize = 64;
const MAX_TYPE: usize = 100;

pub(super) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(list, create)).at(Route::API, routes!(one, update))
}

/// A document to be made.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes a body for the OpenAPI document")]
struct NewArtifactBody {
    /// Its name in addresses.
    #[schema(pattern = "^[a-z0-9][a-z0-9-]{0,63}$", example = "release-notes")]
    slug: String,
    /// What people call it: one line; its slug, unless said.
    #[schema(
        min_length = 1,
        max_length = 200,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
    )]
    title: Option<String>,
    /// The document, at most 1 MiB unless the operator says otherwise. Credentials in it are masked.
    #[schema(max_length = 1_048_576)]
    content: String,
    /// What it is made of; `text/markdown`, unless said.
    #[schema(max_length = 100, pattern = "^[a-z0-9.+-]+/[a-z0-9.+-]+$")]
    content_type: Option<String>,
}

/// A new version of a document.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes a body for the OpenAPI document")]
struct ArtifactBody {
    /// What people call it; as before, unless said.
    #[schema(
        min_length = 1,
        max_length = 200,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
    )]
    title: Option<String>,
    /// The document, at most 1 MiB unless the operator says otherwise. Credentials in it are masked.
    #[schema(max_length = 1_048_576)]
    content: String,
    /// What it is made of; as before, unless said.
    #[schema(max_length = 100, pattern = "^[a-z0-9.+-]+/[a-z0-9.+-]+$")]
    content_type: Option<String>,
    /// The version that was changed; the newest, unless said.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_i64)]
    base_version: Option<i64>,
}

/// `TOO_LARGE`: the body is larger than twice the largest document and 64 KiB
#[derive(utoipa::IntoResponses)]
#[response(status = 413)]
#[expect(dead_code, reason = "describes an answer for the OpenAPI document")]
struct DocumentTooLarge(OwnFailure);

/// A document in one version.
#[derive(Debug, Serialize, ToSchema)]
struct ArtifactView {
    /// Its name in addresses.
    slug: String,
    /// Which version, from 1.
    version: i64,
    /// What people call it.
    title: String,
    /// What it is made of.
    content_type: String,
    /// The document; not in lists, nor in answers to who sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// Who made this version.
    author: PrincipalView,
    /// When.
    created_at: String,
    /// The kinds of credentials that were masked in it, for who sent it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    masked: Vec<&'static str>,
}

impl ArtifactView {
    fn new(artifact: Artifact) -> Self {
        Self {
            slug: artifact.slug,
            version: artifact.version,
            title: artifact.title,
            content_type: artifact.content_type,
            content: None,
            author: artifact.author.into(),
            created_at: rfc3339(artifact.created_at),
            masked: vec![],
        }
    }
}

fn is_slug(text: &str) -> bool {
    let sign = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MAX_SLUG).contains(&text.len()) && !text.starts_with('-') && text.bytes().all(sign)
}

fn is_media_type(text: &str) -> bool {
    let sign = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'+' | b'-');
    let part = |part: &str| !part.is_empty() && part.bytes().all(sign);
    text.len() <= MAX_TYPE && text.split_once('/').is_some_and(|(kind, rest)| part(kind) && part(rest))
}

/// What both bodies have, and what was masked in it.
fn document(fields: &mut Fields<'_, '_>, slug: String, base: i64) -> (NewArtifact, Vec<&'static str>) {
    let content = fields.required_text("content").unwrap_or_default();
    let content_type = fields.optional_text("content_type").map(str::to_owned);
    if content_type.as_deref().is_some_and(|kind| !is_media_type(kind)) {
        fields.fault("content_type", "must be a media type in lower case, such as text/markdown");
    }
    let (content, mut masked) = mask(content.to_owned());
    let title = line(fields, "title", MAX_TITLE).map(|title| {
        let (title, more) = mask(title);
        masked.extend(more);
        title
    });
    masked.sort_unstable();
    masked.dedup();
    (NewArtifact { slug, title, content_type, content, base }, masked)
}

/// A document to be made.
pub(crate) fn read_new(body: &Value) -> Result<(NewArtifact, Vec<&'static str>), ApiError> {
    fields(body, |fields| {
        let slug = fields.required_text("slug").unwrap_or_default().to_owned();
        if fields.get("slug").is_some_and(Value::is_string) && !is_slug(&slug) {
            fields.fault("slug", "must be 1 to 64 lower-case letters, digits and dashes, no dash first");
        }
        document(fields, slug, 0)
    })
}

/// A new version of a document; without a `base_version` its base is 0.
pub(crate) fn read_change(body: &Value, slug: String) -> Result<(NewArtifact, Vec<&'static str>), ApiError> {
    fields(body, |fields| {
        let base = fields.get("base_version").map(|base| json::whole(base).filter(|base| *base >= 1));
        if base == Some(None) {
            fields.fault("base_version", "must be an integer of 1 or more");
        }
        document(fields, slug, base.flatten().unwrap_or(0))
    })
}

/// The largest body of a request.
fn max_body(app: &App) -> usize {
    let content = usize::try_from(app.config.quotas.document_bytes).unwrap_or(MAX_DOCUMENT_BODY);
    content.saturating_mul(2).saturating_add(AROUND_DOCUMENT).min(MAX_DOCUMENT_BODY)
}

/// Makes a version of a document, as far as quotas allow; of its versions only the newest are kept.
pub(crate) fn put(
    app: &App,
    tx: &mut dyn Tx,
    act: &Act,
    new: &NewArtifact,
) -> Result<Artifact, ChannelError> {
    let quotas = &app.config.quotas;
    let artifact = channel::put_artifact(tx, act, new)?;
    let bytes = artifact.content.len();
    if bytes as u64 > quotas.document_bytes {
        room("document_bytes", bytes as i64, quotas.document_bytes)?;
    }
    if artifact.version == 1 {
        // This one is there already, and may be the last.
        room("documents", artifacts::count(tx, act.conversation)? - 1, quotas.documents)?;
    }
    app.count_bytes(tx, act.author, event_bytes(bytes) + event_bytes(0))?;
    let keep = i64::try_from(quotas.document_versions).unwrap_or(i64::MAX);
    let removed = artifacts::trim(tx, act.conversation, &artifact.slug, keep)?;
    app.usage.give_back(tx, removed);
    Ok(artifact)
}

fn written(status: StatusCode, artifact: Artifact, masked: &[&'static str]) -> Result<Written, ApiError> {
    let view = ArtifactView { masked: masked.to_vec(), ..ArtifactView::new(artifact) };
    Ok((status, value(&view)?))
}

/// List the documents
///
/// Each in its newest version, without its content, in the order of their slugs.
#[utoipa::path(get, path = "/api/v1/channels/{id}/artifacts", operation_id = "list_artifacts", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"),
           ("after" = Option<String>, Query, description = "`next` of the page before"),
           ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "50 unless said")),
    responses((status = 200, description = "A page", body = Items<ArtifactView>),
              Invalid, Unknown, Forbidden, Missing, TooFast, Overloaded))]
async fn list(
    State(app): State<AppState>,
    By(caller): By,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Json<Items<ArtifactView>>, ApiError> {
    let (who, id, query) = (caller.principal()?, conversation_id(&id)?, PageQuery::parse(&uri)?);
    let (after, limit) = (query.after.unwrap_or_default(), query.limit);
    let found = read(&app, move |tx| {
        channel::look(tx, id, who)?;
        Ok(artifacts::page(tx, id, &after, limit + 1)?)
    });
    let found = found.await?.into_iter().map(ArtifactView::new).collect();
    Ok(Json(Items::of(&app, found, limit, |last: &ArtifactView| last.slug.clone())))
}

/// Make a document
#[utoipa::path(post, path = "/api/v1/channels/{id}/artifacts", operation_id = "create_artifact", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"),
           ("Idempotency-Key" = Option<String>, Header, nullable = false, max_length = 255, pattern = r"^[!-~]([\t -~]*[!-~])?$",
            description = "The same for every retry of the same request")),
    request_body(content_type = "application/json", content = NewArtifactBody),
    responses((status = 201, description = "Made, as version 1", body = ArtifactView),
              Invalid, Unknown, Forbidden, Missing, Conflict, TooSlow, DocumentTooLarge, TooFast, Overloaded))]
async fn create(
    State(app): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let asked = MemberRequest::read(&app, request, max_body(&app)).await?;
    let (new, masked) = read_new(&asked.json()?)?;
    let (act, hub) = (asked.act(&app, conversation_id(&id)?), Arc::clone(&app));
    asked
        .write(&app, move |tx| {
            let artifact = put(&hub, tx, &act, &new).map_err(|error| match error {
                ChannelError::Stale(version) => ApiError::new(
                    Code::Conflict,
                    "there is a document of this slug already; change that with PUT, or use another slug",
                )
                .details(json!({"version": version})),
                error => error.into(),
            })?;
            written(StatusCode::CREATED, artifact, &masked)
        })
        .await
}

/// Read a document
///
/// In a channel whose members read what was said since they joined, a version is for whoever was a member while it was the
/// newest; to others it is not there.
#[utoipa::path(get, path = "/api/v1/channels/{id}/artifacts/{slug}", operation_id = "artifact", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"),
           ("slug" = String, Path, description = "Of a document there"),
           ("version" = Option<i64>, Query, minimum = 1, maximum = 999_999_999, description = "The newest, unless said")),
    responses((status = 200, description = "The document", body = ArtifactView),
              Invalid, Unknown, Forbidden, Missing, TooFast, Overloaded))]
async fn one(
    State(app): State<AppState>,
    By(caller): By,
    Path((id, slug)): Path<(String, String)>,
    uri: Uri,
) -> Result<Json<ArtifactView>, ApiError> {
    let (who, id) = (caller.principal()?, conversation_id(&id)?);
    let asked = query(&uri).find(|(name, value)| name == "version" && !value.is_empty());
    let version = asked.map(|(_, value)| {
        let version = value.parse().ok().filter(|version| (1..=999_999_999).contains(version));
        version.ok_or_else(|| Faults::one("version", "must be an integer from 1 to 999999999"))
    });
    let version: Option<i64> = version.transpose()?;
    let found = read(&app, move |tx| {
        let (conversation, _) = channel::look(tx, id, who)?;
        Ok(if is_slug(&slug) { artifacts::get_as(tx, &conversation, who, &slug, version)? } else { None })
    });
    let mut found = found.await?.ok_or_else(|| not_found("document"))?;
    let content = Some(std::mem::take(&mut found.content));
    Ok(Json(ArtifactView { content, ..ArtifactView::new(found) }))
}

/// Change a document
///
/// By naming the version that was changed: if there is a newer one, this is 409, with it in `details.version`. Without
/// `base_version` it comes on top of whatever is there.
#[utoipa::path(put, path = "/api/v1/channels/{id}/artifacts/{slug}", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"),
           ("slug" = String, Path, description = "Of a document there"),
           ("Idempotency-Key" = Option<String>, Header, nullable = false, max_length = 255, pattern = r"^[!-~]([\t -~]*[!-~])?$",
            description = "The same for every retry of the same request")),
    request_body(content_type = "application/json", content = ArtifactBody),
    responses((status = 200, description = "Changed, as a new version", body = ArtifactView),
              Invalid, Unknown, Forbidden, Missing, Conflict, TooSlow, DocumentTooLarge, TooFast, Overloaded))]
async fn update(
    State(app): State<AppState>,
    Path((id, slug)): Path<(String, String)>,
    request: Request,
) -> Result<Response, ApiError> {
    let asked = MemberRequest::read(&app, request, max_body(&app)).await?;
    let (new, masked) = read_change(&asked.json()?, slug)?;
    let (act, hub) = (asked.act(&app, conversation_id(&id)?), Arc::clone(&app));
    asked
        .write(&app, move |tx| {
            channel::enter(tx, act.conversation, act.author)?;
            if !is_slug(&new.slug) {
                return Err(not_found("document"));
            }
            let mut new = new.clone();
            if new.base == 0 {
                let newest = artifacts::newest(tx, act.conversation, &new.slug)?;
                new.base = newest.ok_or_else(|| not_found("document"))?.version;
            }
            let artifact = put(&hub, tx, &act, &new).map_err(|error| match error {
                ChannelError::Stale(0) => not_found("document"),
                error => error.into(),
            })?;
            written(StatusCode::OK, artifact, &masked)
        })
        .await
}
