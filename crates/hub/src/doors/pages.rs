//! Pages that are the same for everybody: the first one, the API's reference, and what pages refer to.

use super::reference::{Operation, operations};
use crate::credentials::session_cookie;
use crate::error::ApiError;
use crate::html::{STYLE, STYLE_NAME, page};
use crate::route::Route;
use crate::routes::Routes;
use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use chorus_app::authenticate::of_browser;
use chorus_app::caller::Shown;
use chorus_app::{AppState, agents};
use std::sync::{Arc, LazyLock};

/// What is told of the routes themselves.
#[derive(Clone)]
struct Reference {
    document: Bytes,
    operations: Arc<Vec<Operation>>,
}

/// Made when somebody first asks for it: a hub that nobody asks does without the memory it takes.
static REFERENCE: LazyLock<Reference> = LazyLock::new(|| {
    let document = serde_json::to_value(crate::openapi()).unwrap_or_default();
    let operations = Arc::new(operations(&document));
    Reference { document: document.to_string().into(), operations }
});

pub(crate) fn routes() -> Routes {
    let pages = Router::new()
        .route("/api", get(api))
        .route("/api/openapi.json", get(openapi))
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

/// The first page: what this is, and what to do next.
async fn home(State(app): State<AppState>, headers: HeaderMap) -> Result<Response, ApiError> {
    let person = match session_cookie(&headers) {
        Some(session) => of_browser(&app, &Shown::session(session)).await?,
        None => None,
    };
    let agents = agents::count(&app).await?;
    page(&Home {
        style: &STYLE_NAME,
        host: app.config.host_name.clone(),
        url: app.config.public_url.clone(),
        agents,
        open: app.live.open_inboxes(),
        person: person.map(|person| person.name),
    })
}

/// The API, for reading.
async fn api(State(app): State<AppState>) -> Result<Response, ApiError> {
    page(&Api {
        style: &STYLE_NAME,
        host: app.config.host_name.clone(),
        operations: Arc::clone(&REFERENCE.operations),
    })
}

/// The API, for programs.
async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], REFERENCE.document.clone()).into_response()
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
