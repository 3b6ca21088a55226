//! Streamable HTTP: handles requests to the one URL, in both kinds of revisions.
//!
//! A POST is one message. The response is JSON, or a stream if messages precede the result. With sessions, GET
//! opens the stream of a session's notices and DELETE ends the session; without sessions,
//! `subscriptions/listen` is such a stream. A client that disconnects cancels its request, because the future
//! is dropped.
//!
//! A stateless request goes to the service at once, which authorizes the caller in the same transaction that
//! reads the answer. All other responses are sent after the caller was admitted.

use crate::code;
use crate::revision::{self, Revision, WITH_SESSIONS};
use crate::service::{Ask, Failure, Outlet, Request, Service, Wants};
use crate::stream::{event_stream, frame, notice_stream};
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response as HttpResponse};
use bytes::Bytes;
use chorus_protocol::rpc::{self, Id, Message, Response, RpcError};
use futures_util::stream::{self, StreamExt};
use serde_json::{Map, Value, json};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::mpsc;

/// The header with the session id.
const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
/// The number of messages before a result that may wait for a slow client.
const MAX_SAID: usize = 16;
/// The cache lifetime, in milliseconds, of lists that change only with a new version of the hub.
const LASTING_MS: u64 = 300_000;

/// Handles a request. Returns the service's refusal if the caller is not admitted.
pub async fn answer<S: Service>(service: Arc<S>, request: Request) -> Result<HttpResponse, S::Refusal> {
    let Request { method, headers, body } = request;
    let session = headers.get(SESSION_HEADER).map(|id| id.to_str().unwrap_or_default().to_owned());
    let answered = match Wanted::read(&method, &headers, &body) {
        Ok(Wanted::Call(ask, id)) => call(service, id, ask, accepts(&headers, "text/event-stream")).await,
        Ok(Wanted::Step(step)) => Exchange::admit(service, headers, session).await?.take(step).await,
        Err(answer) => {
            // A caller that is not admitted learns nothing, not even the faults of its message.
            Exchange::admit(service, headers, session).await?;
            Err(Stop::Answer(answer))
        }
    };
    match answered {
        Ok(response) => Ok(response),
        Err(Stop::Answer(answer)) => Ok(answer.into_response()),
        Err(Stop::Refused(refusal)) => Err(refusal),
    }
}

/// The kind of a request, as far as it is known before the caller is admitted.
#[derive(Debug)]
enum Wanted {
    /// A stateless request for the service.
    Call(Ask, Id),
    /// A step for an admitted caller.
    Step(Step),
}

#[derive(Debug)]
enum Step {
    Discover(Id),
    Listen(Id, Map<String, Value>),
    WithSession(rpc::Request),
    Told(Revision),
    Heard(Response),
    /// Opens the stream of a session's notices.
    Hear,
    End,
}

impl Wanted {
    fn read(method: &Method, headers: &HeaderMap, body: &Bytes) -> Result<Self, Answer> {
        let step = match *method {
            Method::POST => return Self::read_message(headers, body),
            Method::GET => Step::Hear,
            Method::DELETE => Step::End,
            _ => return Err(no_method("POST, GET, DELETE")),
        };
        match revision::of(headers, false) {
            Ok(Revision::WithSessions) => Ok(Self::Step(step)),
            Ok(Revision::Stateless) => Err(no_method("POST")),
            Err(error) => Err(bad_request(None, error)),
        }
    }

    fn read_message(headers: &HeaderMap, body: &Bytes) -> Result<Self, Answer> {
        let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")) {
            let what = "Content-Type: must be application/json";
            return Err(invalid(StatusCode::UNSUPPORTED_MEDIA_TYPE, None, what));
        }
        if !accepts(headers, "application/json") {
            let what = "Accept: must hold application/json and text/event-stream";
            return Err(invalid(StatusCode::NOT_ACCEPTABLE, None, what));
        }
        let message = Message::read(body).map_err(|wrong| bad_request(wrong.id, wrong.error))?;
        let (id, told) = match &message {
            Message::Request(rpc::Request { id, method, params }) => {
                (Some(id), revision::is_told(method, params))
            }
            Message::Notification(_) | Message::Response(_) => (None, false),
        };
        let revision = revision::of(headers, told).map_err(|error| bad_request(id.cloned(), error))?;
        match (message, revision) {
            (Message::Request(request), Revision::Stateless) => Self::read_stateless(headers, request),
            (Message::Request(request), Revision::WithSessions) => Ok(Self::Step(Step::WithSession(request))),
            (Message::Notification(told), revision) => {
                tracing::trace!(method = told.method, "a notification of an MCP client");
                Ok(Self::Step(Step::Told(revision)))
            }
            (Message::Response(response), Revision::WithSessions) => Ok(Self::Step(Step::Heard(response))),
            (Message::Response(_), Revision::Stateless) => Err(invalid(
                StatusCode::BAD_REQUEST,
                None,
                "a client is asked nothing, so it has nothing to answer",
            )),
        }
    }

    fn read_stateless(headers: &HeaderMap, request: rpc::Request) -> Result<Self, Answer> {
        let rpc::Request { id, method, params } = request;
        let capabilities = match revision::check(headers, &method, &params) {
            Ok(capabilities) => capabilities,
            Err(error) => return Err(bad_request(Some(id), error)),
        };
        match &*method {
            "server/discover" => Ok(Self::Step(Step::Discover(id))),
            "subscriptions/listen" => {
                must_stream(headers, Some(&id))?;
                match params.get("notifications") {
                    Some(Value::Object(filter)) => Ok(Self::Step(Step::Listen(id, filter.clone()))),
                    _ => Err(bad_request(Some(id), RpcError::params("notifications: must be an object"))),
                }
            }
            "initialize" | "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => {
                Err(answered_with(StatusCode::NOT_FOUND, Some(id), RpcError::method(&method)))
            }
            _ => {
                let revision = Revision::Stateless;
                Ok(Self::Call(Ask { revision, session: None, method, params, capabilities }, id))
            }
        }
    }
}

/// The reasons for ending a request without a result.
#[derive(Debug)]
enum Stop<R> {
    /// The caller is not admitted.
    Refused(R),
    /// This answer is sent instead.
    Answer(Answer),
}

impl<R> From<Answer> for Stop<R> {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

/// A final answer.
#[derive(Debug)]
struct Answer {
    status: StatusCode,
    /// The response, or the allowed methods if the path does not support the method.
    response: Result<Response, &'static str>,
}

impl IntoResponse for Answer {
    fn into_response(self) -> HttpResponse {
        match self.response {
            // Unlike JSON-RPC, MCP never uses a null id: an answer to an unreadable message has none.
            Ok(Response { id: None, outcome: Err(error) }) => {
                let error = json!({"jsonrpc": "2.0", "error": error});
                (self.status, axum::Json(error)).into_response()
            }
            Ok(response) => (self.status, axum::Json(response)).into_response(),
            Err(allowed) => (self.status, [(header::ALLOW, allowed)]).into_response(),
        }
    }
}

fn answered_with(status: StatusCode, id: Option<Id>, error: RpcError) -> Answer {
    Answer { status, response: Ok(Response { id, outcome: Err(error) }) }
}

fn bad_request(id: Option<Id>, error: RpcError) -> Answer {
    answered_with(StatusCode::BAD_REQUEST, id, error)
}

fn invalid(status: StatusCode, id: Option<&Id>, what: &str) -> Answer {
    answered_with(status, id.cloned(), RpcError::new(RpcError::INVALID_REQUEST, what))
}

fn no_method(allowed: &'static str) -> Answer {
    Answer { status: StatusCode::METHOD_NOT_ALLOWED, response: Err(allowed) }
}

/// Converts a failure that cannot be put into a result.
fn failed<R>(id: Option<&Id>) -> impl FnOnce(Failure<R>) -> Stop<R> {
    move |failure| match failure {
        Failure::Refused(refusal) => Stop::Refused(refusal),
        Failure::Rpc(error) => {
            let trouble = error.code == RpcError::INTERNAL;
            let status = if trouble { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
            answered_with(status, id.cloned(), error).into()
        }
    }
}

/// Rejects a client that does not accept a stream.
fn must_stream(headers: &HeaderMap, id: Option<&Id>) -> Result<(), Answer> {
    if accepts(headers, "text/event-stream") {
        return Ok(());
    }
    Err(invalid(StatusCode::NOT_ACCEPTABLE, id, "Accept: must hold text/event-stream"))
}

/// Returns `true` if the client accepts this media type. A client without `Accept` accepts everything.
fn accepts(headers: &HeaderMap, wanted: &str) -> bool {
    let any_of = wanted.split_once('/').map_or(wanted, |(kind, _)| kind);
    let mut values = headers.get_all(header::ACCEPT).iter().peekable();
    values.peek().is_none()
        || values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).any(|range| {
            let range = range.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            range == wanted || range == "*/*" || range.strip_suffix("/*") == Some(any_of)
        })
}

/// A request of an admitted caller.
struct Exchange<S> {
    service: Arc<S>,
    headers: HeaderMap,
    session: Option<String>,
    /// Set if the session belongs to the caller.
    known: bool,
}

type Answered<S> = Result<HttpResponse, Stop<<S as Service>::Refusal>>;

impl<S: Service> Exchange<S> {
    async fn admit(service: Arc<S>, headers: HeaderMap, session: Option<String>) -> Result<Self, S::Refusal> {
        let known = service.check_session(session.as_deref()).await?;
        Ok(Self { service, headers, session, known })
    }

    /// Returns the session of this request, or the error for a missing or unknown one.
    fn session(&self, id: Option<&Id>) -> Result<&str, Answer> {
        match &self.session {
            Some(session) if self.known => Ok(session),
            Some(_) => Err(invalid(
                StatusCode::NOT_FOUND,
                id,
                "you have no such session here (any more); send initialize again",
            )),
            None => Err(invalid(
                StatusCode::BAD_REQUEST,
                id,
                "Mcp-Session-Id: must be sent; initialize gives one. Or speak 2026-07-28, which needs none",
            )),
        }
    }

    async fn take(self, step: Step) -> Answered<S> {
        match step {
            Step::Discover(id) => self.discover(id).await,
            Step::Listen(id, filter) => {
                let notices = self.service.notices(Wants::Filter(filter)).await.map_err(failed(Some(&id)))?;
                Ok(notice_stream(&*self.service, notices, Some(id)))
            }
            Step::WithSession(request) => self.with_session(request).await,
            Step::Told(revision) => {
                if revision == Revision::WithSessions {
                    self.session(None)?;
                }
                Ok(StatusCode::ACCEPTED.into_response())
            }
            Step::Heard(response) => {
                self.service.heard(self.session(None)?, response);
                Ok(StatusCode::ACCEPTED.into_response())
            }
            Step::Hear => self.hear().await,
            Step::End => {
                self.service.end(self.session(None)?).await.map_err(failed(None))?;
                Ok(StatusCode::NO_CONTENT.into_response())
            }
        }
    }

    async fn hear(self) -> Answered<S> {
        let id = self.session(None)?.to_owned();
        must_stream(&self.headers, None)?;
        let after = self.headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
        let notices = self.service.notices(Wants::Session { id, after }).await.map_err(failed(None))?;
        Ok(notice_stream(&*self.service, notices, None))
    }

    async fn discover(self, id: Id) -> Answered<S> {
        let about = self.service.about().await.map_err(failed(Some(&id)))?;
        let result = json!({
            "supportedVersions": revision::supported(),
            "capabilities": about.capabilities,
            "instructions": about.instructions,
        });
        let result = complete("server/discover", result, self.service.info());
        Ok(axum::Json(response(id, result)).into_response())
    }

    async fn with_session(self, request: rpc::Request) -> Answered<S> {
        let rpc::Request { id, method, params } = request;
        if method == "initialize" {
            return self.initialize(id, &params).await;
        }
        let session = Some(self.session(Some(&id))?.to_owned());
        match &*method {
            "ping" => Ok(axum::Json(response(id, json!({}))).into_response()),
            "subscriptions/listen" => {
                Err(answered_with(StatusCode::OK, Some(id), RpcError::method(&method)).into())
            }
            _ => {
                let (revision, capabilities) = (Revision::WithSessions, Value::Null);
                let streams = accepts(&self.headers, "text/event-stream");
                call(self.service, id, Ask { revision, session, method, params, capabilities }, streams).await
            }
        }
    }

    async fn initialize(self, id: Id, params: &Map<String, Value>) -> Answered<S> {
        let Some(asked) = params.get("protocolVersion").and_then(Value::as_str) else {
            return Err(bad_request(Some(id), RpcError::params("protocolVersion: must be a text")).into());
        };
        // A client that requests another version is offered the newest one with sessions.
        let version = WITH_SESSIONS.into_iter().find(|version| *version == asked).unwrap_or(WITH_SESSIONS[0]);
        let about = self.service.about().await.map_err(failed(Some(&id)))?;
        let session = self.service.begin().await.map_err(failed(Some(&id)))?;
        let result = json!({
            "protocolVersion": version,
            "capabilities": about.capabilities,
            "serverInfo": self.service.info(),
            "instructions": about.instructions,
        });
        let mut response = axum::Json(response(id, result)).into_response();
        if let Ok(session) = HeaderValue::from_str(&session) {
            response.headers_mut().insert(SESSION_HEADER, session);
        }
        Ok(response)
    }
}

/// A request in progress.
type Work<R> = Pin<Box<dyn Future<Output = Result<(StatusCode, Response), R>> + Send>>;

/// Runs a request. It answers with a stream only if a message precedes the result.
async fn call<S: Service>(service: Arc<S>, id: Id, ask: Ask, streams: bool) -> Answered<S> {
    let (out, mut said) = mpsc::channel(MAX_SAID);
    let mut work: Work<S::Refusal> = Box::pin(answered(service, id.clone(), ask, Outlet(out)));
    let first = tokio::select! {
        biased;
        done = &mut work => {
            let (status, response) = done.map_err(Stop::Refused)?;
            return Ok(match said.try_recv() {
                Ok(first) if streams => {
                    let rest = std::iter::from_fn(|| said.try_recv().ok());
                    let frames = std::iter::once(first).chain(rest).map(|message| frame(&message));
                    let frames: Vec<_> = frames.chain([frame(&response)]).map(Ok::<_, Infallible>).collect();
                    event_stream(Body::from_stream(stream::iter(frames)))
                }
                _ => (status, axum::Json(response)).into_response(),
            });
        }
        Some(first) = said.recv() => first,
    };
    if !streams {
        // Nobody would receive these messages, and they must not fill the queue.
        drop(said);
        let (status, response) = work.await.map_err(Stop::Refused)?;
        return Ok((status, axum::Json(response)).into_response());
    }
    let rest = stream::unfold(Some((work, said, id)), |open| async move {
        let (mut work, mut said, id) = open?;
        tokio::select! {
            biased;
            Some(message) = said.recv() => Some((frame(&message), Some((work, said, id)))),
            done = &mut work => {
                let mut frames: Vec<u8> = vec![];
                while let Ok(message) = said.try_recv() {
                    frames.extend_from_slice(&frame(&message));
                }
                // The status has been sent already.
                let gone = || Response {
                    id: Some(id),
                    outcome: Err(RpcError::new(RpcError::INTERNAL, "you may not be here any more")),
                };
                let response = done.map_or_else(|_| gone(), |(_, response)| response);
                frames.extend_from_slice(&frame(&response));
                Some((frames.into(), None))
            }
        }
    });
    let frames = stream::once(std::future::ready(frame(&first))).chain(rest).map(Ok::<_, Infallible>);
    Ok(event_stream(Body::from_stream(frames)))
}

async fn answered<S: Service>(
    service: Arc<S>,
    id: Id,
    ask: Ask,
    out: Outlet,
) -> Result<(StatusCode, Response), S::Refusal> {
    let (method, stateless) = (ask.method.clone(), ask.revision == Revision::Stateless);
    match service.call(ask, out).await {
        Ok(result) if stateless => {
            Ok((StatusCode::OK, response(id, complete(&method, result, service.info()))))
        }
        Ok(result) => Ok((StatusCode::OK, response(id, result))),
        Err(Failure::Refused(refusal)) => Err(refusal),
        Err(Failure::Rpc(error)) => {
            let status = match error.code {
                RpcError::METHOD_NOT_FOUND if stateless => StatusCode::NOT_FOUND,
                code::MISSING_CAPABILITY => StatusCode::BAD_REQUEST,
                _ => StatusCode::OK,
            };
            Ok((status, Response { id: Some(id), outcome: Err(error) }))
        }
    }
}

fn response(id: Id, result: Value) -> Response {
    Response { id: Some(id), outcome: Ok(result) }
}

/// Adds the members of every stateless result: its type, the server's name and the cache lifetime.
fn complete(method: &str, mut result: Value, info: Value) -> Value {
    let Some(fields) = result.as_object_mut() else { return result };
    fields.entry("resultType").or_insert_with(|| json!("complete"));
    let whole = fields.get("resultType") == Some(&json!("complete"));
    let meta = fields.entry("_meta").or_insert_with(|| json!({}));
    meta["io.modelcontextprotocol/serverInfo"] = info;
    let ttl = match method {
        "server/discover" | "tools/list" | "prompts/list" | "resources/templates/list" => LASTING_MS,
        "resources/list" | "resources/read" => 0,
        _ => return result,
    };
    if whole {
        fields.entry("ttlMs").or_insert_with(|| json!(ttl));
        fields.entry("cacheScope").or_insert_with(|| json!("private"));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_takes() {
        for (accept, json, stream) in [
            (None, true, true),
            (Some("application/json, text/event-stream"), true, true),
            (Some("*/*"), true, true),
            (Some("application/*"), true, false),
            (Some("Text/Event-Stream; q=0.5"), false, true),
            (Some("text/html"), false, false),
            (Some(""), false, false),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(header::ACCEPT, accept.parse().unwrap());
            }
            let found = (accepts(&headers, "application/json"), accepts(&headers, "text/event-stream"));
            assert_eq!(found, (json, stream), "{accept:?}");
        }
    }

    #[test]
    fn results_tell_how_long_they_may_be_kept() {
        let info = json!({"name": "n", "version": "1"});
        let listed = complete("tools/list", json!({"tools": []}), info.clone());
        assert_eq!(listed["_meta"]["io.modelcontextprotocol/serverInfo"], info);
        assert_eq!((&listed["resultType"], &listed["ttlMs"]), (&json!("complete"), &json!(LASTING_MS)));
        assert_eq!(listed["cacheScope"], "private");
        let asked = complete("resources/read", json!({"resultType": "input_required"}), info.clone());
        assert_eq!((&asked["resultType"], &asked["ttlMs"]), (&json!("input_required"), &Value::Null));
        assert_eq!(complete("tools/call", json!({}), info)["ttlMs"], Value::Null);
    }
}
