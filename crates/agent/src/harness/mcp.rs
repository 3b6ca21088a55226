//! A minimal MCP client: lists a server's tools and calls them, over Streamable HTTP.
//!
//! JSON-RPC by POST, answered as JSON or as an event stream. The session's id is kept. A session that the
//! server has forgotten is opened again, once. Everything is bounded. A tool call is never repeated, since the
//! server may have executed it. Resources, prompts and requests from the server are not supported.

use crate::Reach;
use crate::answer::collect;
use crate::reach::Http;
use chorus_outbound::Blocked;
use chorus_protocol::channel::McpServer;
use chorus_protocol::rpc::{Notification, Request, Response};
use chorus_protocol::sse::{Item, Parser};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response as HttpResponse, Url};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::time::Duration;
use tokio::time::timeout;

/// The requested version of MCP.
const VERSION: &str = "2025-11-25";

/// The time limit of a request, including its response.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);

/// The time limit of a tool call. `wait_for_events` of a hub waits for up to 60 s; the turn has its own limit.
const CALL_LIMIT: Duration = Duration::from_secs(90);

/// The largest response, in bytes.
const MAX_ANSWER: usize = 1024 * 1024;

/// The number of pages of tools that are read.
const MAX_PAGES: usize = 10;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The reason why a request to a server failed. It contains neither the URL nor the headers, which are
/// secrets.
#[derive(Debug, thiserror::Error)]
pub(crate) enum McpError {
    #[error("the tool server cannot be used: {0}")]
    Setup(&'static str),
    #[error("the tool server is not called: {0}")]
    Blocked(#[from] Blocked),
    #[error("the tool server did not answer in time")]
    Late,
    #[error("the tool server cannot be reached")]
    Unreachable,
    #[error("the tool server answered HTTP {0}")]
    Status(u16),
    #[error("the tool server did not answer as one does: {0}")]
    Protocol(&'static str),
    #[error("{0}")]
    Refused(String),
}

/// A tool that a server offers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    /// The JSON Schema of the arguments.
    pub(crate) schema: Value,
    /// `true` if repeating a call has no further effect.
    pub(crate) harmless: bool,
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) text: String,
    pub(crate) ok: bool,
}

/// An initialized connection to a server.
pub(crate) struct Mcp {
    http: Http,
    url: Url,
    /// The headers that the service requires, then the session and the version.
    headers: HeaderMap,
    next_id: i64,
}

impl Mcp {
    /// Initializes a connection to the server.
    pub(crate) async fn open(server: &McpServer, reach: &Reach) -> Result<Self, McpError> {
        let url = Url::parse(&server.url).map_err(|_| McpError::Setup("its URL is none"))?;
        let http = reach.http(&url).map_err(|_| McpError::Setup("no HTTP client"))?;
        let mut headers = HeaderMap::new();
        for (name, value) in &server.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| McpError::Setup("a header"))?;
            let mut value = HeaderValue::from_str(value).map_err(|_| McpError::Setup("a header"))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let mut mcp = Self { http, url, headers, next_id: 1 };
        mcp.greet().await?;
        Ok(mcp)
    }

    async fn greet(&mut self) -> Result<(), McpError> {
        self.headers.remove(SESSION);
        self.headers.remove(PROTOCOL);
        let client = json!({"name": "chorus-agent", "version": env!("CARGO_PKG_VERSION")});
        let params = [
            ("protocolVersion", VERSION.into()),
            ("capabilities", Map::new().into()),
            ("clientInfo", client),
        ];
        let (result, session) = self.once("initialize", named(params)).await?;
        let version = result["protocolVersion"].as_str().unwrap_or(VERSION);
        let version =
            HeaderValue::from_str(version).map_err(|_| McpError::Protocol("its version is none"))?;
        self.headers.insert(PROTOCOL, version);
        if let Some(session) = session {
            self.headers.insert(SESSION, session);
        }
        let told = Notification { method: "notifications/initialized".into(), params: Map::new() };
        let response = timeout(REQUEST_LIMIT, self.post(&told)).await.map_err(|_| McpError::Late)??;
        if response.status().is_success() {
            Ok(())
        } else {
            Err(McpError::Status(response.status().as_u16()))
        }
    }

    /// Returns all tools of the server.
    pub(crate) async fn tools(&mut self) -> Result<Vec<Tool>, McpError> {
        let (mut tools, mut cursor) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let params =
                cursor.take().map(|cursor: Value| ("cursor".to_owned(), cursor)).into_iter().collect();
            let mut result = self.call("tools/list", params).await?;
            let Value::Array(page) = result["tools"].take() else {
                return Err(McpError::Protocol("its list of tools is none"));
            };
            tools.extend(page.into_iter().filter_map(read_tool));
            match result["nextCursor"].take() {
                next @ Value::String(_) => cursor = Some(next),
                _ => break,
            }
        }
        Ok(tools)
    }

    pub(crate) async fn call_tool(
        &mut self,
        name: &str,
        args: &Map<String, Value>,
    ) -> Result<Given, McpError> {
        let result = self
            .call("tools/call", named([("name", name.into()), ("arguments", args.clone().into())]))
            .await?;
        Ok(read_given(&result))
    }

    /// Ends the session. A server that does not answer is ignored.
    pub(crate) async fn close(self) {
        if self.headers.contains_key(SESSION) {
            let Ok(request) = self.http.request(Method::DELETE, self.url) else { return };
            request.headers(self.headers).timeout(Duration::from_secs(2)).send().await.ok();
        }
    }

    /// Makes one request. A session that the server has forgotten is opened again, because the request had no
    /// effect then.
    async fn call(&mut self, method: &str, params: Map<String, Value>) -> Result<Value, McpError> {
        match self.once(method, params.clone()).await {
            Err(McpError::Status(404)) if self.headers.contains_key(SESSION) => {
                self.greet().await?;
                Ok(self.once(method, params).await?.0)
            }
            answered => Ok(answered?.0),
        }
    }

    async fn once(
        &mut self,
        method: &str,
        params: Map<String, Value>,
    ) -> Result<(Value, Option<HeaderValue>), McpError> {
        let id = self.next_id;
        self.next_id += 1;
        let request = Request { id: id.into(), method: method.to_owned(), params };
        let exchange = async {
            let response = self.post(&request).await?;
            if !response.status().is_success() {
                return Err(McpError::Status(response.status().as_u16()));
            }
            let session = response.headers().get(SESSION).cloned();
            Ok((read_answer(response, id).await?, session))
        };
        timeout(limit(method), exchange).await.map_err(|_| McpError::Late)?
    }

    async fn post(&self, message: &impl Serialize) -> Result<HttpResponse, McpError> {
        let request = self.http.request(Method::POST, self.url.clone())?.headers(self.headers.clone());
        let request = request.header(ACCEPT, "application/json, text/event-stream");
        let request = request.header(CONTENT_TYPE, "application/json").body(json!(message).to_string());
        request.send().await.map_err(|error| match Blocked::cause_of(&error) {
            Some(blocked) => blocked.clone().into(),
            None => McpError::Unreachable,
        })
    }
}

/// Builds named parameters.
fn named<const N: usize>(params: [(&str, Value); N]) -> Map<String, Value> {
    params.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
}

fn limit(method: &str) -> Duration {
    if method == "tools/call" { CALL_LIMIT } else { REQUEST_LIMIT }
}

/// Reads the result of the request `id` from a JSON or event stream response.
async fn read_answer(mut response: HttpResponse, id: i64) -> Result<Value, McpError> {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.starts_with("text/event-stream") {
        let body = collect(response, MAX_ANSWER).await;
        let body = body.map_err(|_| McpError::Protocol("its answer is too large or broke off"))?;
        let answer =
            serde_json::from_slice(&body).map_err(|_| McpError::Protocol("its answer is no JSON"))?;
        return result(answer, id).ok_or(McpError::Protocol("it answered something else"))?;
    }
    let (mut parser, mut read) = (Parser::new(), 0);
    while let Some(piece) = response.chunk().await.map_err(|_| McpError::Unreachable)? {
        read += piece.len();
        let items = parser.push(&piece).map_err(|_| McpError::Protocol("an event is too large"))?;
        for item in items {
            // Other messages of the server on this stream are ignored.
            let Item::Event(event) = item else { continue };
            let Ok(answer) = serde_json::from_str(&event.data) else { continue };
            if let Some(result) = result(answer, id) {
                return result;
            }
        }
        if read > MAX_ANSWER {
            return Err(McpError::Protocol("its answer is too large"));
        }
    }
    Err(McpError::Protocol("its stream ended without an answer"))
}

/// Returns the result if the response belongs to the request `id`.
fn result(answer: Value, id: i64) -> Option<Result<Value, McpError>> {
    let answer = Response::read(answer).filter(|answer| answer.id == Some(id.into()))?;
    Some(match answer.outcome {
        Ok(Value::Null) => Err(McpError::Protocol("it gave neither a result nor an error")),
        Ok(result) => Ok(result),
        Err(error) => Err(McpError::Refused(error.message)),
    })
}

fn read_tool(mut tool: Value) -> Option<Tool> {
    let name = tool["name"].as_str()?.to_owned();
    let hint = |hint: &str| tool["annotations"][hint] == true;
    let harmless = hint("readOnlyHint") || hint("idempotentHint");
    let description = tool["description"].as_str().map(str::to_owned);
    let schema = match tool["inputSchema"].take() {
        schema @ Value::Object(_) => schema,
        _ => json!({"type": "object"}),
    };
    Some(Tool { name, description, schema, harmless })
}

/// Returns the texts of a result. Other content is shown by its type.
fn read_given(result: &Value) -> Given {
    let parts = result["content"].as_array().map_or(&[][..], Vec::as_slice);
    let texts = parts.iter().map(|part| match (part["type"].as_str(), part["text"].as_str()) {
        (Some("text") | None, Some(text)) => text.to_owned(),
        (kind, _) => format!("[{}]", kind.unwrap_or("something")),
    });
    let mut text = texts.collect::<Vec<_>>().join("\n");
    if text.is_empty() && !result["structuredContent"].is_null() {
        text = result["structuredContent"].to_string();
    }
    Given { text, ok: result["isError"] != true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results() {
        assert_eq!(result(json!({"id": 2, "result": {}}), 1).map(|_| ()), None);
        assert_eq!(result(json!({"id": 1, "method": "sampling/createMessage"}), 1).map(|_| ()), None);
        assert_eq!(result(json!({"id": 1, "result": {"a": 1}}), 1).unwrap().unwrap(), json!({"a": 1}));
        let refused = result(json!({"id": 1, "error": {"code": -32602, "message": "unknown tool"}}), 1);
        assert_eq!(refused.unwrap().unwrap_err().to_string(), "unknown tool");
        assert!(result(json!({"id": 1}), 1).unwrap().is_err());
    }

    #[test]
    fn a_tool_that_waits_for_a_minute_has_the_time_to_say_so() {
        assert!(limit("tools/call") > Duration::from_mins(1));
        assert!(limit("tools/list") < Duration::from_mins(1));
    }

    #[test]
    fn what_a_tool_gave() {
        for (result, text, ok) in [
            (
                json!({"content": [{"type": "text", "text": "a"}, {"type": "image", "data": "x"}]}),
                "a\n[image]",
                true,
            ),
            (json!({"content": [{"type": "text", "text": "no"}], "isError": true}), "no", false),
            (json!({"content": [], "structuredContent": {"n": 1}}), r#"{"n":1}"#, true),
            (json!({}), "", true),
        ] {
            assert_eq!(read_given(&result), Given { text: text.into(), ok });
        }
    }

    #[test]
    fn tools() {
        let tool = read_tool(json!({"name": "t", "annotations": {"readOnlyHint": true}})).unwrap();
        assert!(tool.harmless && tool.schema == json!({"type": "object"}));
        assert!(!read_tool(json!({"name": "t"})).unwrap().harmless);
        assert!(read_tool(json!({"name": 1})).is_none());
    }
}
