//! What a route is: said in one value beside it, read by the middleware.

use crate::error::{ApiError, Format};
use crate::middleware::{Guard, around};
use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use chorus_app::{App, AppState};
use chorus_mcp::guard::Names;
use chorus_protocol::ids::AgentId;
use std::sync::Arc;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

/// What holds for a route before its door is reached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Route {
    /// In which format errors go out.
    pub(crate) format: Format,
    /// Which credentials it takes.
    pub(crate) credentials: Credentials,
    /// What an agent may show besides: something it was given for this route.
    pub(crate) grant: Option<Grant>,
    /// Whether it keeps time itself, because it lasts as long as its peer has something to say.
    pub(crate) keeps_time: bool,
    /// Whether other sites' pages may not even read it.
    pub(crate) own_pages_only: bool,
    /// Whether it costs nothing: monitors must see a hub that is busy with others.
    pub(crate) free: bool,
}

/// Which credentials a route takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Credentials {
    /// A key, a token or a browser's session, if one is shown; its door says who may.
    Any,
    /// None: it is the same for everybody, or its door looks at the key itself. A stale key is no reason to refuse it.
    Ignored,
    /// A secret in its path that its door looks up, and charges.
    Door,
}

/// A secret that we grant: whose it is follows without a look-up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grant {
    /// What it is for; calls are charged to its agent for this.
    pub(crate) purpose: &'static str,
    /// The agent it was given to, if it is good.
    pub(crate) read: fn(&App, &Request) -> Option<AgentId>,
}

impl Route {
    /// A route of the hub's own API.
    pub(crate) const API: Self = Self {
        format: Format::Own,
        credentials: Credentials::Any,
        grant: None,
        keeps_time: false,
        own_pages_only: false,
        free: false,
    };
    /// A route of the relay.
    pub(crate) const RELAY: Self = Self { format: Format::Relay, ..Self::API };
    /// A page, or something else that is the same for everybody.
    pub(crate) const PUBLIC: Self = Self { credentials: Credentials::Ignored, ..Self::RELAY };
}

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
        let nothing = Router::new().fallback(async move |uri: Uri| nothing_at(&unknown, &uri));
        let known = self.routes.into_iter().map(|(route, routes)| guard(route, routes.into()));
        known.fold(guard(Route::RELAY, nothing), Router::merge)
    }
}

/// The answer about a path that is none, marked with its format.
fn nothing_at(unknown: &[(&'static str, Format)], uri: &Uri) -> Response {
    let door = unknown.iter().find(|(prefix, _)| uri.path().starts_with(prefix));
    let mut response = ApiError::of_status(StatusCode::NOT_FOUND).into_response();
    if let Some((_, format)) = door {
        response.extensions_mut().insert(*format);
    }
    response
}
