//! An MCP server written from the specification: one tool that adds, one that posts; JSON or event streams.

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Shared {
    /// The called methods; for a tool call also the tool.
    calls: Mutex<Vec<String>>,
    /// `true` to forget the session once, and the number of sessions.
    sessions: Mutex<(bool, usize)>,
    streams: bool,
}

#[derive(Clone)]
pub(crate) struct FakeMcp {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

impl FakeMcp {
    /// Starts a server that answers with event streams or with JSON.
    pub(crate) async fn start(streams: bool) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp/ch_1", listener.local_addr().unwrap());
        let mcp = Self { url, shared: Arc::new(Shared { streams, ..Shared::default() }) };
        let app = Router::new().route("/mcp/ch_1", post(answer).delete(async || "")).with_state(mcp.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        mcp
    }

    /// Returns the recorded calls.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.shared.calls.lock().unwrap().clone()
    }

    /// Forgets the session once, as a restarted server does.
    pub(crate) fn forget(&self) {
        self.shared.sessions.lock().unwrap().0 = true;
    }
}

async fn answer(State(mcp): State<FakeMcp>, headers: HeaderMap, body: axum::Json<Value>) -> Response {
    let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(header("authorization").as_deref(), Some("Bearer eyJ"));
    assert!(header("accept").unwrap().contains("text/event-stream"));
    let method = body["method"].as_str().unwrap();
    let mut name = method.to_owned();
    if let Some(tool) = body["params"]["name"].as_str() {
        name = format!("{method} {tool}");
    }
    let session = {
        let mut sessions = mcp.shared.sessions.lock().unwrap();
        if method == "initialize" {
            sessions.1 += 1;
        } else {
            assert_eq!(header("mcp-protocol-version").as_deref(), Some("2025-06-18"));
            assert_eq!(header("mcp-session-id"), Some(format!("s{}", sessions.1)));
            if method == "tools/call" && std::mem::take(&mut sessions.0) {
                return StatusCode::NOT_FOUND.into_response();
            }
        }
        format!("s{}", sessions.1)
    };
    mcp.shared.calls.lock().unwrap().push(name);
    let result = match method {
        "initialize" => {
            json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "f"}})
        }
        "tools/list" => json!({"tools": [
            {"name": "add", "description": "Adds", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
            {"name": "chat_send_message", "inputSchema": {"type": "object"}}]}),
        "tools/call" if body["params"]["name"] == "add" => {
            let args = &body["params"]["arguments"];
            let sum = args["a"].as_i64().unwrap() + args["b"].as_i64().unwrap();
            json!({"content": [{"type": "text", "text": sum.to_string()}]})
        }
        "tools/call" => json!({"content": [{"type": "text", "text": "said"}]}),
        _ => return StatusCode::ACCEPTED.into_response(),
    };
    let answer = json!({"jsonrpc": "2.0", "id": body["id"], "result": result});
    let session = [("mcp-session-id", session)];
    if !mcp.shared.streams {
        return (session, axum::Json(answer)).into_response();
    }
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/progress"});
    let events = format!("event: message\ndata: {notice}\n\nevent: message\ndata: {answer}\n\n");
    (session, [("content-type", "text/event-stream")], events).into_response()
}
