//! Pages for people: server-rendered, every asset embedded, a strict Content-Security-Policy, no internet needed.

use super::reference::{Operation, operations};
use crate::credentials::session_cookie;
use crate::error::ApiError;
use crate::route::{Route, Routes};
use askama::Template;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use bytes::Bytes;
use chorus_app::AppState;
use chorus_app::caller::{Shown, of_browser};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use std::sync::{Arc, LazyLock};
use utoipa::openapi::OpenApi;

const STYLE: &str = include_str!("../../assets/chorus.css");
/// Scripts, styles and images from ourselves only, none inline, no framing.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The style sheet's name changes with its content, so that it can be cached for ever.
static STYLE_NAME: LazyLock<String> = LazyLock::new(|| {
    let hash = HEXLOWER.encode(&Sha256::digest(STYLE)[..6]);
    format!("chorus-{hash}.css")
});

/// What is told of the routes themselves.
#[derive(Clone)]
struct Reference {
    document: Bytes,
    operations: Arc<Vec<Operation>>,
}

/// All pages.
pub(crate) fn routes(document: &OpenApi) -> Routes {
    let document = serde_json::to_value(document).unwrap_or_default();
    let operations = Arc::new(operations(&document));
    let reference = Reference { document: document.to_string().into(), operations };
    let pages = Router::new()
        .route("/api", get(api))
        .route("/api/openapi.json", get(openapi))
        // Before the rest, which does without.
        .layer(Extension(reference))
        .route("/", get(home))
        .route("/assets/{name}", get(asset));
    Routes::default().group(Route::PUBLIC, pages)
}

#[derive(Template)]
#[template(path = "home.html")]
struct Home {
    style: &'static str,
    host: String,
    url: String,
    agents: i64,
    open: usize,
    /// The name of who is signed in.
    person: Option<String>,
}

#[derive(Template)]
#[template(path = "api.html")]
struct Api {
    style: &'static str,
    host: String,
    operations: Arc<Vec<Operation>>,
}

/// What every page names its style sheet.
pub(crate) fn style() -> &'static str {
    &STYLE_NAME
}

/// A page, guarded.
pub(crate) fn page(template: &impl Template) -> Result<Response, ApiError> {
    let html = template.render().map_err(ApiError::internal)?;
    let headers = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        // To nobody else. Without any, browsers would not say either that a form was sent from our own page.
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ];
    Ok((headers, Html(html)).into_response())
}

/// The first page: what this is, and what to do next.
async fn home(State(app): State<AppState>, headers: HeaderMap) -> Result<Response, ApiError> {
    let person = match session_cookie(&headers) {
        Some(session) => of_browser(&app, &Shown::session(session)).await?,
        None => None,
    };
    let agents = app.store.read::<_, chorus_store::StoreError, _>(chorus_store::directory::count).await?;
    page(&Home {
        style: &STYLE_NAME,
        host: app.config.host_name.clone(),
        url: app.config.public_url.clone(),
        agents,
        open: app.live.len(),
        person: person.map(|person| person.name),
    })
}

/// The API, for reading.
async fn api(
    State(app): State<AppState>,
    Extension(reference): Extension<Reference>,
) -> Result<Response, ApiError> {
    page(&Api { style: &STYLE_NAME, host: app.config.host_name.clone(), operations: reference.operations })
}

/// The API, for programs.
async fn openapi(Extension(reference): Extension<Reference>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], reference.document).into_response()
}

/// What pages refer to.
async fn asset(Path(name): Path<String>) -> Response {
    if name != *STYLE_NAME {
        return ApiError::of_status(StatusCode::NOT_FOUND).into_response();
    }
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/css; charset=utf-8")),
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
    ];
    (headers, STYLE).into_response()
}
