//! Routes with their properties and their middleware.

use crate::error::{ApiError, Format};
use crate::middleware::{Guard, around};
use crate::route::Route;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use chorus_mcp::guard::Names;
use chorus_node::AppState;
use chorus_web::nothing;
use std::sync::Arc;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

/// Routes, each group with its properties.
#[derive(Default)]
pub(crate) struct Routes {
    routes: Vec<(Route, OpenApiRouter<AppState>)>,
    /// The error formats of unknown paths, by prefix.
    unknown: Vec<(&'static str, Format)>,
}

impl Routes {
    /// Adds the methods of one documented path.
    pub(crate) fn at(self, route: Route, methods: UtoipaMethodRouter<AppState>) -> Self {
        self.group(route, OpenApiRouter::new().routes(methods))
    }

    /// Adds a group of routes with the same properties.
    pub(crate) fn group(mut self, route: Route, routes: impl Into<OpenApiRouter<AppState>>) -> Self {
        self.routes.push((route, routes.into()));
        self
    }

    /// Claims unknown paths with this prefix for the door.
    pub(crate) fn under(mut self, prefix: &'static str, route: Route) -> Self {
        self.unknown.push((prefix, route.format));
        self
    }

    /// Adds the routes of `others`.
    pub(crate) fn and(mut self, others: Self) -> Self {
        self.routes.extend(others.routes);
        self.unknown.extend(others.unknown);
        self
    }

    /// Removes the documentation, which takes far more memory than the routes.
    pub(crate) fn without_documents(mut self) -> Self {
        let routes = self.routes.into_iter();
        self.routes = routes.map(|(route, routes)| (route, Router::from(routes).into())).collect();
        self
    }

    /// Returns the error formats of path prefixes.
    pub(crate) fn formats(&self) -> &[(&'static str, Format)] {
        &self.unknown
    }

    /// Returns the OpenAPI document of the routes.
    pub(crate) fn document(self, document: OpenApi) -> OpenApi {
        let all = OpenApiRouter::with_openapi(document);
        self.routes.into_iter().fold(all, |all, (_, routes)| all.merge(routes)).into_openapi()
    }

    /// Returns all routes, each behind its guard, with an error response for unknown paths.
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
        // An unknown path needs no authentication: a bad key must not change the error format.
        known.fold(guard(Route::PUBLIC, nothing), Router::merge)
    }
}

/// Returns whether the request looks like a browser's request for a page.
fn looks(method: &Method, headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let html = accepted.is_some_and(|kinds| kinds.to_ascii_lowercase().contains("text/html"));
    html && (method == Method::GET || method == Method::HEAD)
}

/// Returns the error for an unknown path, marked with the format of its prefix.
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
