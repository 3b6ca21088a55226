//! What surrounds every request: an id, a caller, a rate, an end in time, one format for errors, one line in the log.

use crate::app::{App, AppState};
use crate::audit::RequestContext;
use crate::caller::{Caller, Recalled, Shown, key_hash};
use crate::doors::{channel, mcp};
use crate::error::{ApiError, Format, render};
use crate::origin;
use crate::rate::{Source, rate_key};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use chorus_protocol::ids::{AgentId, ConversationId, Principal};
use chorus_protocol::relay::Code;
use chorus_store::directory::KeyHash;
use futures_util::FutureExt;
use std::net::{IpAddr, Ipv4Addr};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// What a request may take beyond the time a webhook may take.
const BEYOND_WEBHOOK: Duration = Duration::from_mins(1);

/// Where a receiver answers with a stream.
const REPLIES: &str = "/agent/replies/{token}";

/// Routes that are the same for everybody. A stale key is no reason to refuse them: who wants to register again has
/// just that, and the door of `/register` looks at the key itself.
const KEYLESS: &[&str] = &[
    REPLIES,
    channel::CALLBACK,
    "/register",
    "/api/v1/signin",
    "/health",
    "/.well-known/chorus.json",
    "/skill",
    "/llms.txt",
    "/",
    "/api",
    "/api/openapi.json",
    "/assets/{name}",
    "/signin",
    "/signin/{token}",
];

/// Routes that keep time themselves, because they last as long as their peer has something to say.
const UNTIMED: &[&str] = &[REPLIES];

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

/// Marks an answer that is an error and says so to a person, on a page: it is left as it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForPeople;

/// The frame around every request.
pub(crate) async fn around(State(app): State<AppState>, mut request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let id = request_id(&app, &request);
    let method = request.method().clone();
    // The pattern, never the path: paths may hold secrets.
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let peer = request.extensions().get::<Peer>().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0);
    let client = Client(app.config.trusted_proxies.client(peer, request.headers()));
    request.extensions_mut().insert(client);
    request.extensions_mut().insert(RequestContext { request_id: Arc::clone(&id), client: client.0 });

    // Who calls, for the log: the kind, and the id of whoever has one.
    let (mut kind, mut who) = (Caller::Nobody.kind(), None);
    let format = Format::of(request.uri().path());
    let shown = Shown::by(&app, &request);
    let ours = origin::check(&app, &route, &request);
    let admitted = match ours.map(|()| mcp::Ticket::by(&app, &route, request.headers())) {
        Err(refused) => Err(refused),
        // Its door looks up the rest: it is good for the tools of one channel only.
        Ok(Some(ticket)) => {
            request.extensions_mut().insert(ticket);
            who = Some(ticket.agent().into());
            pay(&app, ticket.payer()).map(|()| Caller::Nobody)
        }
        Ok(None) => match answering(&app, &route, request.uri().path()) {
            Some(agent) => {
                who = Some(agent.into());
                pay(&app, payer("answers", agent)).map(|()| Caller::Nobody)
            }
            None => admit(&app, shown, &route, client).await,
        },
    };
    let response = match admitted {
        Ok(caller) => {
            kind = who.map_or(caller.kind(), Principal::kind);
            who = who.or_else(|| caller.id());
            request.extensions_mut().insert(caller);
            answer(&app, &route, request, next).await
        }
        Err(error) => error.into_response(),
    };
    let mut response = finish(&app, response, format, &id, &method);

    let (status, elapsed) = (response.status().as_u16(), begun.elapsed());
    app.metrics.request(method.as_str(), &route, status, elapsed.as_secs_f64());
    tracing::info!(
        method = %method, route, status, duration_ms = elapsed.as_secs_f64() * 1000.0,
        caller = kind, caller_id = who.map(tracing::field::display), peer = %client.0, request_id = &*id, "request"
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
    given.filter(harmless).map_or_else(|| app.sources.uuid_v7().simple().to_string().into(), Arc::from)
}

/// The agent that may answer at this address, if it is one that we signed. It is known without a look-up, and its calls
/// count for the agent: those of many agents may come through one proxy.
fn answering(app: &App, route: &str, path: &str) -> Option<AgentId> {
    let token = path.rsplit('/').next()?;
    match route {
        channel::CALLBACK => Some(app.config.master_key.read_callback_token(token)?.delivery.agent),
        REPLIES => Some(app.config.master_key.read_reply_token(token)?.0),
        _ => None,
    }
}

/// Finds out who calls and whether it may call now. Whoever shows a valid key pays with its key, everybody else
/// with its address. A secret is looked up before it is judged: wrong ones never keep a right one out.
async fn admit(
    app: &App,
    shown: Result<Option<Shown>, ApiError>,
    route: &str,
    client: Client,
) -> Result<Caller, ApiError> {
    if route == channel::INLET {
        // Its door looks up the secret, and who pays.
        return Ok(Caller::Nobody);
    }
    // Monitors must see a hub that is busy with others.
    let anonymous = app.anonymous_rate.as_ref().filter(|_| !matches!(route, "/health" | "/metrics"));
    let pay_by_address =
        || anonymous.map_or(Ok(()), |limiter| limited(app, limiter.take(client.source(), app.elapsed())));
    let shown = match shown {
        _ if KEYLESS.contains(&route) => None,
        Ok(shown) => shown,
        Err(error) => return guess(app, client).and(Err(error)),
    };
    let Some(shown) = shown else { return pay_by_address().map(|()| Caller::Nobody) };
    let caller = match app.callers.recall(app, &shown) {
        Recalled::Fresh(caller) => caller,
        recalled => {
            let turn = match recalled {
                Recalled::Never => Some(app.look_ups.turn(client.source()).await?),
                Recalled::Fresh(_) | Recalled::Stale => None,
            };
            let found = app.callers.look_up(app, &shown, app.now()).await;
            drop(turn);
            match found {
                // A browser whose session has ended is somebody who is not signed in.
                Err(error) if error.code == Code::Unauthorized && shown.is_session() => {
                    guess(app, client)?;
                    return pay_by_address().map(|()| Caller::Nobody);
                }
                Err(error) if error.code == Code::Unauthorized => return guess(app, client).and(Err(error)),
                // A right key of somebody who is kept out: no guess, and not for nothing either.
                Err(error) if error.code == Code::Forbidden => return pay(app, shown.hash).and(Err(error)),
                found => found?,
            }
        }
    };
    pay(app, shown.hash).map(|()| caller)
}

/// Whose rate a call counts for that shows a secret an agent was given for this purpose.
pub(crate) fn payer(purpose: &str, agent: AgentId) -> KeyHash {
    key_hash(&format!("{purpose} of {agent}"))
}

/// Counts a call for whoever's secret it showed.
pub(crate) fn pay(app: &App, payer: KeyHash) -> Result<(), ApiError> {
    app.keyed_rate.as_ref().map_or(Ok(()), |limiter| limited(app, limiter.take(payer, app.elapsed())))
}

/// Counts a secret that was wrong. Past the limit that is all its owner is told.
pub(crate) fn guess(app: &App, client: Client) -> Result<(), ApiError> {
    app.guess_rate
        .as_ref()
        .map_or(Ok(()), |limiter| limited(app, limiter.take(client.source(), app.elapsed())))
}

/// Whether somebody may say so many things in a conversation now. People say what they like; what agents say wakes other
/// agents, and is limited for each conversation. Ask for members only: what others name may not even be there.
pub(crate) fn may_say(
    app: &App,
    who: Principal,
    conversation: ConversationId,
    messages: u32,
) -> Result<(), ApiError> {
    let Some((limiter, agent)) = app.say_rate.as_ref().zip(who.agent()) else { return Ok(()) };
    limited(app, limiter.take_several((agent, conversation), messages, app.elapsed()))
}

fn limited(app: &App, taken: Result<(), i64>) -> Result<(), ApiError> {
    taken.map_err(|wait_ms| {
        app.metrics.rate_limited.inc();
        ApiError::new(Code::RateLimited, "too many requests; wait as long as Retry-After says")
            .retry_after_ms(wait_ms)
    })
}

/// Runs the door, within a time, and survives its panic.
async fn answer(app: &App, route: &str, request: Request, next: Next) -> Response {
    let timed = app.config.webhook_timeout + app.config.times.body + BEYOND_WEBHOOK;
    let limit = if UNTIMED.contains(&route) { Duration::MAX } else { timed };
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
    if failed && response.extensions().get::<ForPeople>().is_none() {
        let error = response.extensions_mut().remove().unwrap_or_else(|| ApiError::of_status(status));
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
