//! An agent that receives webhooks: it records every request and answers as configured, with faults on demand.
//!
//! It has its own runtime, so that it answers while the test blocks, uses real time when the test pauses its
//! clock, and closes all connections when dropped. It does not check what it receives.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

/// The answer of a [`FakeAgent`].
#[derive(Debug, Clone)]
pub enum Reply {
    /// This status with a JSON body.
    Json(u16, Value),
    /// This status with plain text.
    Text(u16, String),
    /// A `307` redirect to this URL.
    Redirect(String),
    /// No answer.
    Hang,
    /// A connection closed without a byte.
    DropConnection,
    /// Another answer after a pause.
    Slow(Duration, Box<Reply>),
    /// `200` with a JSON body of blanks that never ends.
    Endless,
    /// `200` with an event stream of these bytes.
    Events(String),
    /// `200` with an endless event stream of `chunk`s of one KiB each, which are counted.
    EndlessEvents(Arc<AtomicUsize>),
}

/// A recorded request.
#[derive(Debug, Clone)]
pub struct Received {
    /// The path, without the query.
    pub path: String,
    pub headers: HeaderMap,
    /// The body as JSON; `null` if it is not JSON.
    pub body: Value,
    /// The body as received.
    pub raw: Bytes,
}

#[derive(Debug)]
struct Shared {
    reply: Mutex<Reply>,
    requests: watch::Sender<Vec<Received>>,
}

/// A fake agent; see the [module](self).
#[derive(Debug)]
pub struct FakeAgent {
    addr: SocketAddr,
    shared: Arc<Shared>,
    /// The runtime; `None` only while the agent is dropped.
    runtime: Option<Runtime>,
}

impl FakeAgent {
    /// Starts an agent that answers `200 {"status": "ok"}`.
    pub async fn start() -> Self {
        let runtime =
            Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime starts");
        let bound = runtime.spawn(TcpListener::bind("127.0.0.1:0")).await.expect("binding does not panic");
        let listener = bound.expect("some port is free");
        let addr = listener.local_addr().expect("a bound socket has an address");
        let reply = Mutex::new(Reply::Json(200, json!({"status": "ok"})));
        let shared = Arc::new(Shared { reply, requests: watch::Sender::new(Vec::new()) });
        let router =
            Router::new().fallback(receive).layer(DefaultBodyLimit::disable()).with_state(shared.clone());
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { addr, shared, runtime: Some(runtime) }
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the URL of its webhook. Every other path works too.
    pub fn url(&self) -> String {
        format!("http://{}/receive", self.addr)
    }

    /// Sets the answer for all requests from now on.
    pub fn set(&self, reply: Reply) {
        *self.shared.reply.lock().unwrap_or_else(PoisonError::into_inner) = reply;
    }

    /// Returns all requests so far, in the order in which they were read completely.
    pub fn requests(&self) -> Vec<Received> {
        self.shared.requests.borrow().clone()
    }

    /// Waits for `n` requests and returns them. Panics after `timeout`.
    pub async fn wait_for(&self, n: usize, timeout: Duration) -> Vec<Received> {
        let mut requests = self.shared.requests.subscribe();
        let Ok(all) = tokio::time::timeout(timeout, requests.wait_for(|all| all.len() >= n)).await else {
            panic!("{} of {n} requests came within {timeout:?}", self.requests().len());
        };
        all.expect("the agent holds the sender").clone()
    }
}

impl Drop for FakeAgent {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Dropping a runtime would block, which is forbidden inside the runtime of a test.
            runtime.shutdown_background();
        }
    }
}

async fn receive(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap, raw: Bytes) -> Response {
    let body = serde_json::from_slice(&raw).unwrap_or_default();
    // The answer is taken before the request is recorded, so that a test that saw the request may already set
    // the next answer.
    let reply = shared.reply.lock().unwrap_or_else(PoisonError::into_inner).clone();
    shared.requests.send_modify(|all| all.push(Received { path: uri.path().to_owned(), headers, body, raw }));
    answer(reply).await
}

async fn answer(mut reply: Reply) -> Response {
    while let Reply::Slow(pause, then) = reply {
        tokio::time::sleep(pause).await;
        reply = *then;
    }
    let json = [(header::CONTENT_TYPE, "application/json")];
    match reply {
        Reply::Json(code, body) => (status(code), json, body.to_string()).into_response(),
        Reply::Text(code, body) => (status(code), body).into_response(),
        Reply::Redirect(url) => {
            (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, url)], "").into_response()
        }
        Reply::Endless => {
            let piece = Ok::<_, Infallible>(Bytes::from_static(&[b' '; 1024]));
            (json, Body::from_stream(futures_util::stream::repeat(piece))).into_response()
        }
        Reply::Events(events) => ([(header::CONTENT_TYPE, "text/event-stream")], events).into_response(),
        Reply::EndlessEvents(made) => {
            let piece = Bytes::from(format!("event: chunk\ndata: {}\n\n", "x".repeat(1024)));
            let pieces = futures_util::stream::repeat_with(move || {
                made.fetch_add(1, Ordering::Relaxed);
                Ok::<_, Infallible>(piece.clone())
            });
            ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(pieces)).into_response()
        }
        Reply::Hang | Reply::Slow(..) => std::future::pending().await,
        // Unwinding ends the connection's task and so closes the connection. Unlike a panic it prints nothing.
        Reply::DropConnection => resume_unwind(Box::new("the connection is dropped")),
    }
}

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).expect("a test asks for a valid status")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::client;

    const SOON: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn records_what_it_gets() {
        let agent = FakeAgent::start().await;
        let answer =
            client().post(agent.url()).header("x-a", "b").json(&json!({"n": 1})).send().await.unwrap();
        assert_eq!(answer.json::<Value>().await.unwrap(), json!({"status": "ok"}));
        client().post(format!("{}/x?y", agent.url())).body("not json").send().await.unwrap();
        let requests = agent.wait_for(2, SOON).await;
        assert_eq!((requests[0].path.as_str(), &requests[0].body), ("/receive", &json!({"n": 1})));
        assert_eq!(requests[0].headers["x-a"], "b");
        assert_eq!((requests[1].path.as_str(), &requests[1].body), ("/receive/x", &Value::Null));
        assert_eq!(&requests[1].raw[..], b"not json");
    }

    #[tokio::test]
    async fn answers_as_told() {
        let agent = FakeAgent::start().await;
        let get = || client().get(agent.url()).timeout(Duration::from_millis(500)).send();
        agent.set(Reply::Slow(Duration::from_millis(50), Box::new(Reply::Text(503, "later".into()))));
        let answer = get().await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.text().await.unwrap().as_str()), (503, "later"));
        agent.set(Reply::Redirect("http://elsewhere/".into()));
        assert_eq!(get().await.unwrap().headers()["location"], "http://elsewhere/");
        agent.set(Reply::Hang);
        assert!(get().await.unwrap_err().is_timeout());
        agent.set(Reply::DropConnection);
        assert!(!get().await.unwrap_err().is_timeout());
        agent.set(Reply::Endless);
        assert!(get().await.unwrap().bytes().await.unwrap_err().is_timeout());
    }

    #[tokio::test]
    async fn a_dropped_agent_leaves_no_connection() {
        let agent = FakeAgent::start().await;
        let (client, url) = (client(), agent.url());
        client.get(&url).send().await.unwrap().bytes().await.unwrap();
        drop(agent);
        client.get(&url).send().await.unwrap_err();
    }
}
