//! A service written from the protocol document alone: it POSTs messages and listens at callbacks.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use chorus_testkit::http;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

/// A request to a callback.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    pub(crate) token: String,
    pub(crate) content_type: String,
    pub(crate) key: Option<String>,
    pub(crate) authorization: bool,
    pub(crate) body: String,
}

impl Output {
    /// Returns the events in it, one for each line.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// A status and its `Retry-After`.
type Answer = (u16, Option<&'static str>);

#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) origin: String,
    outputs: Arc<watch::Sender<Vec<Output>>>,
    /// The next answers. After the last one, 200.
    answers: Arc<Mutex<VecDeque<Answer>>>,
}

impl Service {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let service = Self {
            origin: format!("http://{}", listener.local_addr().unwrap()),
            outputs: Arc::new(watch::Sender::new(Vec::new())),
            answers: Arc::default(),
        };
        let app =
            Router::new().route("/channels/c1/inbox/{token}", post(callback)).with_state(service.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        service
    }

    /// Sets the answers to the next callbacks.
    pub(crate) fn answer(&self, answers: impl IntoIterator<Item = Answer>) {
        self.answers.lock().unwrap().extend(answers);
    }

    pub(crate) fn callback(&self, token: &str) -> String {
        format!("{}/channels/c1/inbox/{token}", self.origin)
    }

    /// Returns the body of a delivery, as section 2 of the document shows it.
    pub(crate) fn message(&self, id: &str, content: &str) -> Value {
        json!({
            "channel": {"id": "c1", "name": "ops-team", "service": "Example"},
            "message": {"id": id, "sender": "alice", "content": content},
            "callback": self.callback(&format!("tok_{id}")),
            "mcp": {"url": format!("{}/mcp/c1", self.origin), "headers": {"Authorization": "Bearer eyJ..."}}
        })
    }

    /// Waits for `n` callbacks and returns all of them.
    pub(crate) async fn outputs(&self, n: usize) -> Vec<Output> {
        let mut outputs = self.outputs.subscribe();
        let all = tokio::time::timeout(Duration::from_secs(20), outputs.wait_for(|all| all.len() >= n)).await;
        all.expect("callbacks come").unwrap().clone()
    }
}

/// POSTs a message to a connection string. By the protocol only the status counts; the body is for people.
pub(crate) async fn deliver(connection_string: String, body: String) -> (u16, Value) {
    deliver_with(connection_string, body, vec![]).await
}

pub(crate) async fn deliver_with(
    connection_string: String,
    body: String,
    headers: Vec<(&'static str, String)>,
) -> (u16, Value) {
    let mut request =
        http::client().post(connection_string).header("content-type", "application/json").body(body);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

async fn callback(
    State(service): State<Service>,
    Path(token): Path<String>,
    headers: HeaderMap,
    body: String,
) -> Response {
    let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let output = Output {
        token,
        content_type: header("content-type").unwrap_or_default(),
        key: header("idempotency-key"),
        authorization: headers.contains_key("authorization"),
        body,
    };
    let (status, retry_after) = service.answers.lock().unwrap().pop_front().unwrap_or((200, None));
    service.outputs.send_modify(|all| all.push(output));
    let status = StatusCode::from_u16(status).unwrap();
    match retry_after {
        Some(seconds) => (status, [("retry-after", seconds)], "").into_response(),
        None => status.into_response(),
    }
}
