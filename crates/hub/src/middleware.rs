//! What surrounds every request: an id, a caller, a rate, an end in time, one format for errors, one line in the log.
//!
//! It knows no path. What a route is (its errors, the credentials it takes, its time, its price) is said beside the route,
//! in a [`Route`], and a [`Guard`] of it is around each group of routes.

use crate::credentials::shown;
use crate::error::{ApiError, Format, render};
use crate::origin;
use crate::route::{Credentials, ForeignPages, Route};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use chorus_app::audit::RequestContext;
use chorus_app::authenticate;
use chorus_app::caller::{Caller, Shown};
use chorus_app::callers::Recalled;
use chorus_app::charge::{charge, charge_source, count_bad_secret, purpose_key};
use chorus_app::rate::{Source, rate_key};
use chorus_app::{App, AppState};
use chorus_mcp::guard::{Names, Page};
use chorus_protocol::code::Code;
use chorus_protocol::ids::Principal;
use chorus_web::{OwnPage, Rendered};
use futures_util::FutureExt;
use std::net::{IpAddr, Ipv4Addr};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// What a request may take beyond the time a webhook may take.
const BEYOND_WEBHOOK: Duration = Duration::from_mins(1);

/// The address at the other end, put into each request by the accept loop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// The address of whoever calls: the peer's, or what a trusted proxy says of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client(pub(crate) IpAddr);

impl Client {
    /// What limits count.
    pub(crate) fn source(self) -> Source {
        rate_key(self.0)
    }
}

/// What stands before the routes of one kind.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) app: AppState,
    /// What the hub is called, against pages that call it by others.
    pub(crate) names: Arc<Names>,
    pub(crate) route: Route,
}

/// Lets a request through to its door, and its answer back.
pub(crate) async fn around(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let Guard { app, names, route } = &guard;
    let open = route.foreign_pages == ForeignPages::Allowed;
    #[expect(clippy::disallowed_methods, reason = "it is only measured")]
    let begun = Instant::now();
    let id = request_id(app, &request);
    let method = request.method().clone();
    // The pattern, never the path: paths may hold secrets.
    let pattern = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let peer = request.extensions().get::<Peer>().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0);
    let forwarded = request.headers().get_all(FORWARDED_FOR).into_iter().map(|value| value.to_str().ok());
    let client = Client(app.config.trusted_proxies.client(peer, forwarded));
    request.extensions_mut().insert(client);
    request.extensions_mut().insert(RequestContext { request_id: Arc::clone(&id), client: client.0 });

    // Who calls, for the log: the kind, and the id of whoever has one.
    let (mut kind, mut who) = (Caller::Nobody.kind(), None);
    let granted = route.grant.and_then(|grant| Some((grant.purpose, (grant.read)(app, &request)?)));
    let admitted = match (origin::check(names, *route, &request), granted) {
        (Err(refused), _) => Err(refused),
        // Known without a look-up, and its calls count for the agent: those of many agents may come through one proxy.
        (Ok(_), Some((purpose, agent))) => {
            who = Some(agent.into());
            charge(app, purpose_key(purpose, agent)).map(|()| Caller::Nobody).map_err(Into::into)
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
    let mut response = finish(app, response, route.format, &id, &method);
    if open {
        origin::allow_every_page(response.headers_mut());
    }

    let (status, elapsed) = (response.status().as_u16(), begun.elapsed());
    app.metrics.request(method.as_str(), &pattern, status, elapsed.as_secs_f64());
    tracing::info!(
        method = %method, route = pattern, status, duration_ms = elapsed.as_secs_f64() * 1000.0,
        caller = kind.as_str(), caller_id = who.map(tracing::field::display), peer = %client.0, request_id = &*id, "request"
    );
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// The id a client gave, if it is harmless, or a new one.
fn request_id(app: &App, request: &Request) -> Arc<str> {
    let given = request.headers().get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let harmless = |id: &&str| {
        (1..=64).contains(&id.len())
            && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
    };
    given.filter(harmless).map_or_else(|| app.environment.uuid_v7().simple().to_string().into(), Arc::from)
}

/// Finds out who calls and whether it may call now. Whoever shows a valid key is charged by its key, everybody else
/// by its address. A secret is looked up before it is judged: wrong ones never keep a right one out.
async fn admit(
    app: &App,
    shown: Result<Option<Shown>, ApiError>,
    route: Route,
    source: Source,
) -> Result<Caller, ApiError> {
    let charge_address = || if route.free { Ok(()) } else { charge_source(app, source) };
    let shown = match route.credentials {
        // Its door looks up the secret, and whom to charge.
        Credentials::Door => return Ok(Caller::Nobody),
        Credentials::Ignored => None,
        Credentials::Any => match shown {
            Ok(shown) => shown,
            Err(error) => return count_bad_secret(app, source).map_err(Into::into).and(Err(error)),
        },
    };
    let Some(shown) = shown else { return Ok(charge_address().map(|()| Caller::Nobody)?) };
    let caller = match authenticate::recall(app, &shown) {
        Recalled::Fresh(caller) => caller,
        recalled => {
            let turn = match recalled {
                Recalled::Never => Some(app.look_ups.turn(source).await?),
                Recalled::Fresh(_) | Recalled::Stale => None,
            };
            let found = authenticate::look_up(app, &shown).await;
            drop(turn);
            match found {
                // A browser whose session has ended is somebody who is not signed in.
                Err(error) if error.code == Code::Unauthorized && shown.is_session() => {
                    count_bad_secret(app, source)?;
                    return Ok(charge_address().map(|()| Caller::Nobody)?);
                }
                Err(error) if error.code == Code::Unauthorized => {
                    return Err(count_bad_secret(app, source).err().unwrap_or(error).into());
                }
                // A right key of somebody who is kept out: no guess, and not for nothing either.
                Err(error) if error.code == Code::Forbidden => {
                    return Err(charge(app, shown.hash).err().unwrap_or(error).into());
                }
                found => found?,
            }
        }
    };
    Ok(charge(app, shown.hash).map(|()| caller)?)
}

/// Runs the door, within a time, and survives its panic.
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

/// Errors into their door's format; headers that hold for every answer.
fn finish(app: &App, mut response: Response, format: Format, id: &str, method: &Method) -> Response {
    let status = response.status();
    let failed = status.is_client_error() || status.is_server_error();
    if failed && response.extensions().get::<Rendered>().is_none() {
        let format = response.extensions().get().copied().unwrap_or(format);
        let error: ApiError =
            response.extensions_mut().remove().unwrap_or_else(|| ApiError::of_status(status));
        // The store tells of its own trouble once for all requests it fails; this is for what is told nowhere else.
        if let Some(cause) = error.cause.as_ref().filter(|_| error.code == Code::Internal) {
            tracing::error!(error = &**cause as &dyn std::error::Error, request_id = id, "a request failed");
        }
        if let Some(quota) = error.details.as_ref().and_then(|details| details["quota"].as_str()) {
            app.metrics.quota_refused(quota);
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
