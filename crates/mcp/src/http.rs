//! Streamable HTTP: what a request to the one URL becomes, in both revisions.
//!
//! A POST is one message. It is answered with JSON, unless something is said before the result: then with a stream of
//! its own. With sessions, GET opens the stream of a session's notices and DELETE ends it; without, `subscriptions/listen`
//! is such a stream. Whoever hangs up cancels what he asked for: its future is dropped.
//!
//! It knows no channels and no store: those are a [`Service`]'s.

use crate::revision::{self, Revision, WITH_SESSIONS};
use crate::rpc::{Message, RpcError, object};
use crate::service::{Ask, Notices, Outlet, Refusal, Request, Service, Wants};
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use chorus_protocol::sse;
use futures_util::stream::{self, StreamExt};
use serde_json::{Map, Value, json};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::mpsc;

/// The header that names a session.
const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
/// So many messages before a result may wait for a slow client.
const MAX_SAID: usize = 16;
/// How long lists that change only with a new version of the hub may be kept, in milliseconds.
const LASTING_MS: u64 = 300_000;

/// Answers a request.
pub async fn answer<S: Service>(service: Arc<S>, request: Request) -> Result<Response, Refusal> {
    let session = request.headers.get(SESSION_HEADER).map(|id| id.to_str().unwrap_or_default().to_owned());
    // A tool looks up its caller itself, where it reads what it answers: one visit to the store instead of two.
    let looks =
        session.is_none() && request.headers.get("mcp-method").is_some_and(|name| name == "tools/call");
    let known = !looks && service.enter(session.as_deref()).await?;
    let exchange = Exchange { service: Arc::clone(&service), headers: request.headers, session, known };
    let answered = match request.method {
        Method::POST => exchange.post(&request.body).await,
        Method::GET => exchange.get().await,
        Method::DELETE => exchange.delete().await,
        _ => Err(no_method()),
    };
    let response = answered.unwrap_or_else(IntoResponse::into_response);
    // Nothing else, and no failure, is told to who may not be here.
    if looks && response.extensions().get::<Looked>().is_none() {
        service.enter(None).await?;
    }
    Ok(response)
}

/// Marks the result of a tool that did what it was asked, and so found its caller a member.
#[derive(Debug, Clone, Copy)]
struct Looked;

/// An answer that ends the matter.
#[derive(Debug)]
struct Refused {
    status: StatusCode,
    /// None where the path does not take the method.
    response: Option<Value>,
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        match self.response {
            Some(response) => (self.status, axum::Json(response)).into_response(),
            None => (self.status, [(header::ALLOW, "POST, GET, DELETE")]).into_response(),
        }
    }
}

fn refused(status: StatusCode, id: Option<&Value>, error: &RpcError) -> Refused {
    Refused { status, response: Some(error.response(id)) }
}

fn bad_request(id: Option<&Value>, error: &RpcError) -> Refused {
    refused(StatusCode::BAD_REQUEST, id, error)
}

fn invalid(status: StatusCode, id: Option<&Value>, what: &str) -> Refused {
    refused(status, id, &RpcError::new(RpcError::INVALID_REQUEST, what))
}

fn no_method() -> Refused {
    Refused { status: StatusCode::METHOD_NOT_ALLOWED, response: None }
}

/// Our own trouble, where there is no result to put it into.
fn trouble(id: Option<&Value>, error: &RpcError) -> Refused {
    let status =
        if error.code == RpcError::INTERNAL { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    refused(status, id, error)
}

/// A list of media types that a client takes; one that says nothing takes everything.
fn accepts(headers: &HeaderMap, wanted: &str) -> bool {
    let any_of = wanted.split_once('/').map_or(wanted, |(kind, _)| kind);
    let mut values = headers.get_all(header::ACCEPT).iter().peekable();
    values.peek().is_none()
        || values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).any(|range| {
            let range = range.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            range == wanted || range == "*/*" || range.strip_suffix("/*") == Some(any_of)
        })
}

struct Exchange<S> {
    service: Arc<S>,
    headers: HeaderMap,
    session: Option<String>,
    /// Whether that is a session of the caller's.
    known: bool,
}

impl<S: Service> Exchange<S> {
    /// The session that this request must have.
    fn session(&self, id: Option<&Value>) -> Result<&str, Refused> {
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

    /// The session of a request that is no message.
    fn session_of_stream(&self) -> Result<&str, Refused> {
        match revision::of(&self.headers, false) {
            Ok(Revision::WithSessions) => self.session(None),
            Ok(Revision::Stateless) => Err(no_method()),
            Err(error) => Err(bad_request(None, &error)),
        }
    }

    async fn get(self) -> Result<Response, Refused> {
        let id = self.session_of_stream()?.to_owned();
        if !accepts(&self.headers, "text/event-stream") {
            return Err(invalid(StatusCode::NOT_ACCEPTABLE, None, "Accept: must hold text/event-stream"));
        }
        let after = self.headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
        let notices = self.service.notices(Wants::Session { id, after }).await;
        let notices = notices.map_err(|error| trouble(None, &error))?;
        Ok(notice_stream(&*self.service, notices, None))
    }

    async fn delete(self) -> Result<Response, Refused> {
        let id = self.session_of_stream()?;
        self.service.end(id).await.map_err(|error| trouble(None, &error))?;
        Ok(StatusCode::NO_CONTENT.into_response())
    }

    async fn post(self, body: &Bytes) -> Result<Response, Refused> {
        let kind =
            self.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")) {
            let what = "Content-Type: must be application/json";
            return Err(invalid(StatusCode::UNSUPPORTED_MEDIA_TYPE, None, what));
        }
        if !accepts(&self.headers, "application/json") {
            let what = "Accept: must hold application/json and text/event-stream";
            return Err(invalid(StatusCode::NOT_ACCEPTABLE, None, what));
        }
        let message = Message::read(body).map_err(|(id, error)| bad_request(id.as_ref(), &error))?;
        let (id, told) = match &message {
            Message::Request { id, method, params } => (Some(id), revision::is_told(method, params)),
            Message::Notification { .. } | Message::Response(_) => (None, false),
        };
        let revision = revision::of(&self.headers, told).map_err(|error| bad_request(id, &error))?;
        match (message, revision) {
            (Message::Request { id, method, params }, Revision::Stateless) => {
                self.stateless(id, method, params).await
            }
            (Message::Request { id, method, params }, Revision::WithSessions) => {
                self.with_session(id, method, params).await
            }
            (Message::Notification { method }, revision) => {
                if revision == Revision::WithSessions {
                    self.session(None)?;
                }
                tracing::trace!(method, "a notification of an MCP client");
                Ok(StatusCode::ACCEPTED.into_response())
            }
            (Message::Response(response), Revision::WithSessions) => {
                self.service.heard(self.session(None)?, response);
                Ok(StatusCode::ACCEPTED.into_response())
            }
            (Message::Response(_), Revision::Stateless) => Err(invalid(
                StatusCode::BAD_REQUEST,
                None,
                "a client is asked nothing, so it has nothing to answer",
            )),
        }
    }

    async fn stateless(
        self,
        id: Value,
        method: String,
        params: Map<String, Value>,
    ) -> Result<Response, Refused> {
        let checked = revision::check(&self.headers, &method, &params);
        let capabilities = checked.map_err(|error| bad_request(Some(&id), &error))?;
        match &*method {
            "server/discover" => {
                let about = self.service.about().await.map_err(|error| trouble(Some(&id), &error))?;
                let result = json!({
                    "supportedVersions": revision::supported(),
                    "capabilities": about.capabilities,
                    "instructions": about.instructions,
                });
                let result = complete(&method, result, self.service.info());
                Ok(axum::Json(result_response(&id, result)).into_response())
            }
            "subscriptions/listen" => self.listen(id, params).await,
            "initialize" | "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => {
                Err(refused(StatusCode::NOT_FOUND, Some(&id), &RpcError::method(&method)))
            }
            _ => {
                let revision = Revision::Stateless;
                self.call(id, Ask { revision, session: None, method, params, capabilities }).await
            }
        }
    }

    async fn listen(self, id: Value, params: Map<String, Value>) -> Result<Response, Refused> {
        if !accepts(&self.headers, "text/event-stream") {
            return Err(invalid(
                StatusCode::NOT_ACCEPTABLE,
                Some(&id),
                "Accept: must hold text/event-stream",
            ));
        }
        let filter = match params.get("notifications") {
            Some(Value::Object(filter)) => filter.clone(),
            _ => return Err(bad_request(Some(&id), &RpcError::params("notifications: must be an object"))),
        };
        let notices = self.service.notices(Wants::Filter(filter)).await;
        let notices = notices.map_err(|error| trouble(Some(&id), &error))?;
        Ok(notice_stream(&*self.service, notices, Some(id)))
    }

    async fn with_session(
        self,
        id: Value,
        method: String,
        params: Map<String, Value>,
    ) -> Result<Response, Refused> {
        if method == "initialize" {
            return self.initialize(&id, &params).await;
        }
        let session = Some(self.session(Some(&id))?.to_owned());
        match &*method {
            "ping" => Ok(axum::Json(result_response(&id, json!({}))).into_response()),
            "subscriptions/listen" => Err(refused(StatusCode::OK, Some(&id), &RpcError::method(&method))),
            _ => {
                let (revision, capabilities) = (Revision::WithSessions, Value::Null);
                self.call(id, Ask { revision, session, method, params, capabilities }).await
            }
        }
    }

    async fn initialize(self, id: &Value, params: &Map<String, Value>) -> Result<Response, Refused> {
        let Some(asked) = params.get("protocolVersion").and_then(Value::as_str) else {
            return Err(bad_request(Some(id), &RpcError::params("protocolVersion: must be a text")));
        };
        // Who asks for another is offered the newest that has sessions.
        let version = WITH_SESSIONS.into_iter().find(|version| *version == asked).unwrap_or(WITH_SESSIONS[0]);
        let about = self.service.about().await.map_err(|error| trouble(Some(id), &error))?;
        let session = self.service.begin().await.map_err(|error| trouble(Some(id), &error))?;
        let result = json!({
            "protocolVersion": version,
            "capabilities": about.capabilities,
            "serverInfo": self.service.info(),
            "instructions": about.instructions,
        });
        let mut response = axum::Json(result_response(id, result)).into_response();
        if let Ok(session) = HeaderValue::from_str(&session) {
            response.headers_mut().insert(SESSION_HEADER, session);
        }
        Ok(response)
    }

    /// Runs a request, and answers with a stream only if something is said before the result.
    async fn call(self, id: Value, ask: Ask) -> Result<Response, Refused> {
        let (out, mut said) = mpsc::channel(MAX_SAID);
        let streams = accepts(&self.headers, "text/event-stream");
        let tool = ask.method == "tools/call";
        let mut work: Work = Box::pin(answered(self.service, id, ask, Outlet(out)));
        let first = tokio::select! {
            biased;
            (status, response) = &mut work => match said.try_recv() {
                Ok(first) if streams => {
                    let rest = std::iter::from_fn(|| said.try_recv().ok()).chain([response]);
                    let frames: Vec<_> = std::iter::once(first).chain(rest).map(|message| Ok::<_, Infallible>(frame(&message))).collect();
                    return Ok(event_stream(Body::from_stream(stream::iter(frames))));
                }
                _ => {
                    let done = tool && response.pointer("/result/isError") == Some(&Value::Bool(false));
                    let mut response = (status, axum::Json(response)).into_response();
                    if done {
                        response.extensions_mut().insert(Looked);
                    }
                    return Ok(response);
                }
            },
            Some(first) = said.recv() => first,
        };
        if !streams {
            // Nobody would hear it; the queue must not fill up with it either.
            drop(said);
            let (status, response) = work.await;
            return Ok((status, axum::Json(response)).into_response());
        }
        let rest = stream::unfold(Some((work, said)), |open| async move {
            let (mut work, mut said) = open?;
            tokio::select! {
                biased;
                Some(message) = said.recv() => Some((frame(&message), Some((work, said)))),
                (_, response) = &mut work => {
                    let mut frames: Vec<u8> = vec![];
                    while let Ok(message) = said.try_recv() {
                        frames.extend_from_slice(&frame(&message));
                    }
                    frames.extend_from_slice(&frame(&response));
                    Some((frames.into(), None))
                }
            }
        });
        let frames = stream::once(std::future::ready(frame(&first))).chain(rest).map(Ok::<_, Infallible>);
        Ok(event_stream(Body::from_stream(frames)))
    }
}

/// A request on its way to its response.
type Work = Pin<Box<dyn Future<Output = (StatusCode, Value)> + Send>>;

async fn answered<S: Service>(service: Arc<S>, id: Value, ask: Ask, out: Outlet) -> (StatusCode, Value) {
    let (method, revision) = (ask.method.clone(), ask.revision);
    let stateless = revision == Revision::Stateless;
    let result = service.call(ask, out).await;
    let result = match result {
        Ok(result) if stateless => Ok(complete(&method, result, service.info())),
        result => result,
    };
    match result {
        Ok(result) => (StatusCode::OK, result_response(&id, result)),
        Err(error) => {
            let status = match error.code {
                RpcError::METHOD_NOT_FOUND if stateless => StatusCode::NOT_FOUND,
                RpcError::MISSING_CAPABILITY => StatusCode::BAD_REQUEST,
                _ => StatusCode::OK,
            };
            (status, error.response(Some(&id)))
        }
    }
}

fn result_response(id: &Value, result: Value) -> Value {
    object([("jsonrpc", "2.0".into()), ("id", id.clone()), ("result", result)])
}

/// What every result of a stateless server has besides: its type, who answers, and how long it may be kept.
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

fn frame(message: &Value) -> Bytes {
    sse::encode("message", None, &message.to_string()).into()
}

fn event_stream(body: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // Proxies that buffer would hold notices back.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (StatusCode::OK, headers, body).into_response()
}

/// The stream of a session, or of the `subscriptions/listen` with this id.
fn notice_stream<S: Service>(service: &S, notices: Notices, listening: Option<Value>) -> Response {
    let subscription = |meta: &mut Map<String, Value>, id: &Value| {
        meta.insert("_meta".into(), json!({"io.modelcontextprotocol/subscriptionId": id}));
    };
    let first = match &listening {
        Some(id) => {
            let mut params = Map::from_iter([("notifications".to_owned(), notices.accepted)]);
            subscription(&mut params, id);
            frame(
                &json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}),
            )
        }
        // So that the client sees at once that the stream is there.
        None => Bytes::from_static(sse::PING),
    };
    let last = listening.as_ref().map(|id| {
        let mut result = Map::from_iter([("resultType".to_owned(), json!("complete"))]);
        subscription(&mut result, id);
        frame(&result_response(id, Value::Object(result)))
    });
    let (ping, stopping) = (service.ping(), service.stopping());
    let rest = stream::unfold((notices.stream, false), move |(mut stream, over)| {
        let (stopping, listening, last) = (stopping.clone(), listening.clone(), last.clone());
        async move {
            if over {
                return None;
            }
            let next = tokio::select! {
                biased;
                () = stopping.cancelled() => None,
                next = stream.next() => next,
                () = tokio::time::sleep(ping) => return Some((Bytes::from_static(sse::PING), (stream, false))),
            };
            let Some(mut notice) = next else { return last.map(|last| (last, (stream, true))) };
            if let Some(id) = &listening {
                subscription(&mut notice.params, id);
            }
            let message = json!({"jsonrpc": "2.0", "method": notice.method, "params": notice.params});
            // Streams of the stateless revision have no ids: they are not resumed.
            let place = notice.id.filter(|_| listening.is_none());
            Some((sse::encode("message", place, &message.to_string()).into(), (stream, false)))
        }
    });
    let frames = stream::once(std::future::ready(first)).chain(rest).map(Ok::<_, Infallible>);
    event_stream(Body::from_stream(frames))
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
