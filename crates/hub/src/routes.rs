//! Routes with what they are, and the middleware around each.

use crate::error::{ApiError, Format};
use crate::middleware::{Guard, around};
use crate::route::Route;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use chorus_app::AppState;
use chorus_mcp::guard::Names;
use chorus_web::nothing;
use std::sync::Arc;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

/// Routes, each with what it is.
#[derive(Default)]
pub(crate) struct Routes {
    routes: Vec<(Route, OpenApiRouter<AppState>)>,
    /// In which format errors go out about paths that are none, by how these begin.
    unknown: Vec<(&'static str, Format)>,
}

impl Routes {
    /// The methods of one path, in the OpenAPI document.
    pub(crate) fn at(self, route: Route, methods: UtoipaMethodRouter<AppState>) -> Self {
        self.group(route, OpenApiRouter::new().routes(methods))
    }

    /// Several of one kind.
    pub(crate) fn group(mut self, route: Route, routes: impl Into<OpenApiRouter<AppState>>) -> Self {
        self.routes.push((route, routes.into()));
        self
    }

    /// Paths that begin like this are this door's also where there is nothing.
    pub(crate) fn under(mut self, prefix: &'static str, route: Route) -> Self {
        self.unknown.push((prefix, route.format));
        self
    }

    /// These and others.
    pub(crate) fn and(mut self, others: Self) -> Self {
        self.routes.extend(others.routes);
        self.unknown.extend(others.unknown);
        self
    }

    /// In which format errors go out about paths that begin so.
    pub(crate) fn formats(&self) -> &[(&'static str, Format)] {
        &self.unknown
    }

    /// What the OpenAPI document says of them.
    pub(crate) fn document(self, document: OpenApi) -> OpenApi {
        let all = OpenApiRouter::with_openapi(document);
        self.routes.into_iter().fold(all, |all, (_, routes)| all.merge(routes)).into_openapi()
    }

    /// All of them, each behind its guard, and an answer for paths that are none.
    pub(crate) fn guarded(self, app: &AppState, names: &Arc<Names>) -> Router<AppState> {
        let guard = |route, routes: Router<AppState>| {
            let guard = Guard { app: Arc::clone(app), names: Arc::clone(names), route };
            routes.layer(from_fn_with_state(guard, around))
        };
        let unknown = self.unknown;
        let answer =
            async move |State(app): State<AppState>, method: Method, uri: Uri, headers: HeaderMap| {
                if looks(&method, &headers) {
                    return nothing::show(&app, &headers, uri.path()).await.into_response();
                }
                nothing_at(&unknown, &uri)
            };
        let nothing = Router::new().fallback(answer);
        let known = self.routes.into_iter().map(|(route, routes)| guard(route, routes.into()));
        // There is nothing to be let in to: a bad key is no reason to answer in another door's format.
        known.fold(guard(Route::PUBLIC, nothing), Router::merge)
    }
}

/// Whether somebody looks for a page, as browsers do.
fn looks(method: &Method, headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let html = accepted.is_some_and(|kinds| kinds.to_ascii_lowercase().contains("text/html"));
    html && (method == Method::GET || method == Method::HEAD)
}

/// The answer about a path that is none, for a program, marked with its format.
fn nothing_at(unknown: &[(&'static str, Format)], uri: &Uri) -> Response {
    let path = uri.path();
    let is_under = |prefix: &str| path.starts_with(prefix) || path == prefix.trim_end_matches('/');
    let door = unknown.iter().find(|(prefix, _)| is_under(prefix));
    let mut response = ApiError::of_status(StatusCode::NOT_FOUND).into_response();
    if let Some((_, format)) = door {
        response.extensions_mut().insert(*format);
    }
    response
}
