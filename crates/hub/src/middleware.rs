//! The middleware around every request: request id, authentication, rate limit, timeout, error format and log
//! line.
//!
//! It knows no path. The properties of a route (error format, credentials, timeout, price) stand beside the
//! route in a [`Route`], and a [`Guard`] wraps each group of routes.

use crate::credentials::shown;
use crate::error::{ApiError, Format, render};
use crate::origin;
use crate::route::{Credentials, ForeignPages, Route};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use chorus_mcp::guard::{Names, Page};
use chorus_node::audit::RequestContext;
use chorus_node::authentication;
use chorus_node::caches::callers::Recalled;
use chorus_node::caller::{Caller, Shown};
use chorus_node::limits::accounting::purpose_key;
use chorus_node::source::{Source, rate_key};
use chorus_node::{App, AppState};
use chorus_protocol::code::Code;
use chorus_protocol::ids::Principal;
use chorus_web::{OwnPage, Rendered};
use futures_util::FutureExt;
use std::net::{IpAddr, Ipv4Addr};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The response header that repeats the client's own request id.
const CLIENT_REQUEST_ID: HeaderName = HeaderName::from_static("x-client-request-id");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// The time a request may take beyond the webhook timeout.
const BEYOND_WEBHOOK: Duration = Duration::from_mins(1);

/// The address of the TCP peer, set by the accept loop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// The address of the client: the peer's, or the one that a trusted proxy reports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client(pub(crate) IpAddr);

impl Client {
    /// Returns the source that limits count.
    pub(crate) fn source(self) -> Source {
        rate_key(self.0)
    }
}

/// The middleware of one group of routes.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) app: AppState,
    /// The host names of the hub, for refusing DNS rebinding.
    pub(crate) names: Arc<Names>,
    pub(crate) route: Route,
}

/// Passes a request to its door and the response back.
pub(crate) async fn around(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let Guard { app, names, route } = &guard;
    let open = route.foreign_pages == ForeignPages::Allowed;
    #[expect(clippy::disallowed_methods, reason = "it is only measured")]
    let begun = Instant::now();
    let id: Arc<str> = app.environment.uuid_v7().simple().to_string().into();
    let given_id = client_request_id(&request);
    let method = request.method().clone();
    // The log contains the pattern and never the path, because paths may hold secrets.
    let pattern = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let peer = request.extensions().get::<Peer>().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0);
    let forwarded = request.headers().get_all(FORWARDED_FOR).into_iter().map(|value| value.to_str().ok());
    let client = Client(app.config.trusted_proxies.client(peer, forwarded));
    request.extensions_mut().insert(client);
    // The lease lasts until the response is ready, because the body stays in memory until then in some form.
    let lease = app.limits.bodies.lease(client.source());
    request.extensions_mut().insert(lease.clone());
    request.extensions_mut().insert(RequestContext {
        request_id: Arc::clone(&id),
        client_request_id: given_id.clone(),
        client: client.0,
    });

    // The caller for the log: its kind, and its id if it has one.
    let (mut kind, mut who) = (Caller::Nobody.kind(), None);
    let granted = route.grant.and_then(|grant| Some((grant.purpose, (grant.read)(app, &request)?)));
    let admitted = match (origin::check(names, *route, &request), granted) {
        (Err(refused), _) => Err(refused),
        // A granted secret needs no look-up. Its calls count for the agent, because many agents may share one
        // proxy.
        (Ok(_), Some((purpose, agent))) => {
            who = Some(agent.into());
            app.limits.charge(purpose_key(purpose, agent)).map(|()| Caller::Nobody).map_err(Into::into)
        }
        (Ok(page), None) => {
            request.extensions_mut().insert(OwnPage(page == Page::Ours));
            let shown = shown(request.headers(), &method, page);
            if let Ok(Some(shown)) = &shown {
                request.extensions_mut().insert(*shown);
            }
            admit(app, shown, *route, client.source()).await
        }
    };
    let response = match admitted {
        Ok(caller) => {
            kind = who.map_or(caller.kind(), Principal::kind);
            who = who.or_else(|| caller.id());
            request.extensions_mut().insert(caller);
            if open && origin::is_preflight(&request) {
                StatusCode::NO_CONTENT.into_response()
            } else {
                answer(app, *route, request, next).await
            }
        }
        Err(error) => error.into_response(),
    };
    drop(lease);
    let mut response = finish(app, response, route.format, &id, &method);
    if open {
        origin::allow_every_page(response.headers_mut());
    }

    let (status, elapsed) = (response.status().as_u16(), begun.elapsed());
    app.telemetry.metrics.request(method.as_str(), &pattern, status, elapsed.as_secs_f64());
    tracing::info!(
        method = %method, route = pattern, status, duration_ms = elapsed.as_secs_f64() * 1000.0,
        caller = kind.as_str(), caller_id = who.map(tracing::field::display), peer = %client.0, request_id = &*id,
        client_request_id = given_id.as_deref(), "request"
    );
    for (name, id) in [(REQUEST_ID, Some(&id)), (CLIENT_REQUEST_ID, given_id.as_ref())] {
        if let Some(Ok(value)) = id.map(|id| HeaderValue::from_str(id)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// Returns the client's own request id if it is short and harmless. It is logged beside the hub's id.
fn client_request_id(request: &Request) -> Option<Arc<str>> {
    let given = request.headers().get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let harmless = |id: &&str| {
        (1..=64).contains(&id.len())
            && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
    };
    given.filter(harmless).map(Arc::from)
}

/// Authenticates the caller and checks its rate limit. A caller with a valid key is charged by key, any other
/// by address. A secret is looked up before it is charged, so that wrong keys of others never lock out a valid
/// one.
async fn admit(
    app: &App,
    shown: Result<Option<Shown>, ApiError>,
    route: Route,
    source: Source,
) -> Result<Caller, ApiError> {
    let charge_address = || if route.free { Ok(()) } else { app.limits.charge_source(source) };
    let shown = match route.credentials {
        // The door looks up the secret and charges its owner.
        Credentials::Door => return Ok(Caller::Nobody),
        Credentials::Ignored => None,
        Credentials::Any => match shown {
            Ok(shown) => shown,
            Err(error) => return app.limits.count_bad_secret(source).map_err(Into::into).and(Err(error)),
        },
    };
    let Some(shown) = shown else { return Ok(charge_address().map(|()| Caller::Nobody)?) };
    let caller = match authentication::recall(app, &shown) {
        Recalled::Fresh(caller) => caller,
        recalled => {
            let turn = match recalled {
                Recalled::Never => Some(app.limits.credential_lookups.turn(source).await?),
                Recalled::Fresh(_) | Recalled::Stale => None,
            };
            let found = authentication::look_up(app, &shown).await;
            drop(turn);
            match found {
                // A browser with an expired session counts as not signed in.
                Err(error) if error.code == Code::Unauthorized && shown.is_session() => {
                    app.limits.count_bad_secret(source)?;
                    return Ok(charge_address().map(|()| Caller::Nobody)?);
                }
                Err(error) if error.code == Code::Unauthorized => {
                    return Err(app.limits.count_bad_secret(source).err().unwrap_or(error).into());
                }
                // A valid key of a disabled caller is not a guess, but it is charged.
                Err(error) if error.code == Code::Forbidden => {
                    return Err(app.limits.charge(shown.hash).err().unwrap_or(error).into());
                }
                found => found?,
            }
        }
    };
    Ok(app.limits.charge(shown.hash).map(|()| caller)?)
}

/// Runs the door within its timeout, and turns a panic into an error.
async fn answer(app: &App, route: Route, request: Request, next: Next) -> Response {
    let timed = app.config.webhook_timeout + app.config.times.body + BEYOND_WEBHOOK;
    let limit = if route.keeps_time { Duration::MAX } else { timed };
    let work = AssertUnwindSafe(next.run(request)).catch_unwind();
    match tokio::time::timeout(limit, work).await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => ApiError::internal("a handler panicked").into_response(),
        Err(_) => ApiError::new(Code::Overloaded, "the request took too long; it may still be done")
            .retry_after_ms(1000)
            .into_response(),
    }
}

/// Renders errors in their door's format and adds the common headers.
fn finish(app: &App, mut response: Response, format: Format, id: &str, method: &Method) -> Response {
    let status = response.status();
    let failed = status.is_client_error() || status.is_server_error();
    if failed && response.extensions().get::<Rendered>().is_none() {
        let format = response.extensions().get().copied().unwrap_or(format);
        let error: ApiError =
            response.extensions_mut().remove().unwrap_or_else(|| ApiError::of_status(status));
        // The store logs its own failure once for all requests; this logs all other internal errors.
        if let Some(cause) = error.cause.as_ref().filter(|_| error.code == Code::Internal) {
            tracing::error!(error = &**cause as &dyn std::error::Error, request_id = id, "a request failed");
        }
        if let Some(quota) = error.details.as_ref().and_then(|details| details["quota"].as_str()) {
            app.telemetry.metrics.quota_refused(quota);
        }
        response = render(&error, format, response, app.now());
        if method == Method::HEAD {
            *response.body_mut() = axum::body::Body::empty();
        }
    }
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
