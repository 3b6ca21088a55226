//! A scripted hub: it records every request and gives the next answer of its list.

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use futures_util::stream::{self, StreamExt};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

#[derive(Clone)]
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
    /// Leaves the stream open after the body.
    open: bool,
}

/// A success in the common format.
pub(crate) fn success(status: u16, data: Value) -> Reply {
    json_reply(status, &json!({"success": true, "data": data, "metadata": {"timestamp": "t", "next": "7"}}))
}

/// A failure in the common format.
pub(crate) fn failure(status: u16, code: &str) -> Reply {
    let error = json!({"code": code, "message": "because"});
    json_reply(status, &json!({"success": false, "error": error, "metadata": {"timestamp": "t"}}))
}

/// An event stream that stays open after `text`, or ends with it.
pub(crate) fn stream(text: &str, open: bool) -> Reply {
    Reply { open, ..plain(200, text) }.header("content-type", "text/event-stream")
}

/// An answer in any other format.
pub(crate) fn plain(status: u16, body: &str) -> Reply {
    Reply { status, headers: vec![], body: body.into(), open: false }
}

pub(crate) fn json_reply(status: u16, body: &Value) -> Reply {
    plain(status, &body.to_string()).header("content-type", "application/json")
}

impl Reply {
    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// A recorded request.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) line: String,
    pub(crate) headers: axum::http::HeaderMap,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

#[derive(Clone, Default)]
pub(crate) struct FakeHub {
    pub(crate) url: String,
    script: Arc<Mutex<VecDeque<Reply>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl FakeHub {
    /// Starts a hub without a discovery document.
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let replies = replies.into_iter();
        Self::scripted(std::iter::once(failure(404, "ERR_NOT_FOUND")).chain(replies)).await
    }

    /// Starts a hub with a script of all answers, beginning with the discovery document.
    pub(crate) async fn scripted(replies: impl IntoIterator<Item = Reply>) -> Self {
        // The provider may have been installed before; it is the same one.
        rustls::crypto::ring::default_provider().install_default().ok();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let hub =
            Self { url, script: Arc::new(Mutex::new(replies.into_iter().collect())), ..Self::default() };
        let app = axum::Router::new().fallback(answer).with_state(hub.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        hub
    }

    /// Returns an address without a listener.
    pub(crate) async fn nobody() -> Self {
        let hub = Self::start([]).await;
        let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        Self { url: format!("http://{free}"), ..hub }
    }

    /// Returns all requests except the one for the discovery document.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|seen| !seen.line.contains("well-known")).cloned().collect()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|seen| seen.line.clone()).collect()
    }
}

async fn answer(State(hub): State<FakeHub>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let line = format!("{} {}", head.method, head.uri);
    let body = String::from_utf8(body.to_vec()).unwrap();
    hub.seen.lock().unwrap().push(Seen { line, headers: head.headers, body });
    let reply = hub.script.lock().unwrap().pop_front().unwrap_or_else(|| plain(500, "the script is over"));
    let first = stream::iter([Ok::<_, std::io::Error>(Bytes::from(reply.body))]);
    let body =
        if reply.open { Body::from_stream(first.chain(stream::pending())) } else { Body::from_stream(first) };
    let mut response = Response::builder().status(StatusCode::from_u16(reply.status).unwrap());
    for (name, value) in reply.headers {
        response = response.header(name, value);
    }
    response.body(body).unwrap()
}
