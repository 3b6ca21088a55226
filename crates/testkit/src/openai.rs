//! A scripted chat-completions server with faults on demand, for everything that calls a model.
//!
//! It gives the next answer of its script to each request and records the request. After the script it answers
//! 500. It follows the public description of the protocol and does not check requests.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use futures_util::stream::{self, StreamExt as _};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// An answer of the script.
#[derive(Debug, Clone)]
pub enum Completion {
    /// A text, streamed in these pieces.
    Text(Vec<&'static str>),
    /// Tool calls, each a name and its arguments as the model wrote them, streamed in two pieces each.
    Calls(Vec<(&'static str, &'static str)>),
    /// A text in one JSON body, from a server that does not stream.
    Whole(&'static str),
    /// An error status, with an optional `Retry-After` in seconds.
    Status(u16, Option<u32>),
    /// Pieces of text, followed by a broken connection.
    Broken(Vec<&'static str>),
    /// Pieces of text, followed by silence on an open connection.
    Stuck(Vec<&'static str>),
    /// No response at all.
    Hang,
}

/// A recorded request.
#[derive(Debug, Clone)]
pub struct Asked {
    pub authorization: Option<String>,
    pub body: Value,
}

/// A scripted model server; see the [module](self).
#[derive(Debug, Clone)]
pub struct FakeModel {
    /// The base URL, without `/chat/completions`.
    pub url: String,
    script: Arc<Mutex<VecDeque<Completion>>>,
    asked: Arc<watch::Sender<Vec<Asked>>>,
}

impl FakeModel {
    /// Starts a server with this script in the test's runtime.
    pub async fn start(script: impl IntoIterator<Item = Completion>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("some port is free");
        let address = listener.local_addr().expect("a bound socket has an address");
        let model = Self {
            url: format!("http://{address}/v1"),
            script: Arc::new(Mutex::new(script.into_iter().collect())),
            asked: Arc::new(watch::Sender::new(Vec::new())),
        };
        let app = Router::new().route("/v1/chat/completions", post(complete)).with_state(model.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        model
    }

    /// Returns all requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.borrow().clone()
    }

    /// Waits for `n` requests and returns them. Panics after 30 s.
    pub async fn wait_for(&self, n: usize) -> Vec<Asked> {
        let mut asked = self.asked.subscribe();
        let all = tokio::time::timeout(Duration::from_secs(30), asked.wait_for(|all| all.len() >= n)).await;
        all.expect("the model is asked in time").expect("the model holds the sender").clone()
    }
}

async fn complete(State(model): State<FakeModel>, headers: HeaderMap, body: Bytes) -> Response {
    let authorization =
        headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let next = model.script.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    model.asked.send_modify(|all| all.push(Asked { authorization, body }));
    match next.unwrap_or(Completion::Status(500, None)) {
        Completion::Text(pieces) => {
            let chunks = pieces.into_iter().map(|piece| chunk(&json!({"content": piece}), None));
            events(
                chunks.chain([chunk(&json!({}), Some("stop")), "data: [DONE]\n\n".into()]).collect(),
                End::Well,
            )
        }
        Completion::Calls(calls) => events(calls_events(&calls), End::Well),
        Completion::Whole(text) => {
            let message = json!({"role": "assistant", "content": text});
            axum::Json(json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}))
                .into_response()
        }
        Completion::Status(status, after) => {
            let status = StatusCode::from_u16(status).expect("a test asks for a valid status");
            let body = axum::Json(json!({"error": {"message": "not now"}}));
            match after {
                Some(seconds) => (status, [(header::RETRY_AFTER, seconds.to_string())], body).into_response(),
                None => (status, body).into_response(),
            }
        }
        Completion::Broken(pieces) => events(
            pieces.into_iter().map(|piece| chunk(&json!({"content": piece}), None)).collect(),
            End::Broken,
        ),
        Completion::Stuck(pieces) => events(
            pieces.into_iter().map(|piece| chunk(&json!({"content": piece}), None)).collect(),
            End::Stuck,
        ),
        Completion::Hang => std::future::pending().await,
    }
}

/// The end of a stream.
enum End {
    Well,
    Broken,
    Stuck,
}

fn chunk(delta: &Value, finish: Option<&str>) -> String {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
}

fn calls_events(calls: &[(&str, &str)]) -> Vec<String> {
    let mut lines = vec![];
    for (n, (name, arguments)) in calls.iter().enumerate() {
        let (first, rest) = arguments.split_at(arguments.len() / 2);
        let begin = json!({"index": n, "id": format!("call_{n}"), "type": "function",
            "function": {"name": name, "arguments": first}});
        lines.push(chunk(&json!({"tool_calls": [begin]}), None));
        lines.push(chunk(&json!({"tool_calls": [{"index": n, "function": {"arguments": rest}}]}), None));
    }
    lines.extend([chunk(&json!({}), Some("tool_calls")), "data: [DONE]\n\n".into()]);
    lines
}

fn events(lines: Vec<String>, end: End) -> Response {
    let lines = stream::iter(lines.into_iter().map(|line| Ok(Bytes::from(line))));
    let body = match end {
        End::Well => Body::from_stream(lines),
        End::Broken => {
            let broken = async {
                // The pause lets the earlier pieces go out first.
                tokio::time::sleep(Duration::from_millis(50)).await;
                Err(io::Error::other("broken"))
            };
            Body::from_stream(lines.chain(stream::once(broken)))
        }
        End::Stuck => Body::from_stream(lines.chain(stream::pending())),
    };
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}
