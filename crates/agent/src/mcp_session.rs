//! The agent's own MCP server at `/mcp`, over HTTP: one JSON-RPC message for each request.
//!
//! The session keeps the headers that Streamable HTTP wants and a client on standard input and output does not
//! have: the session id and the revision. Both kinds of revisions pass.

use crate::client::CONNECT_LIMIT;
use crate::{Client, ClientError, answer};
use chorus_protocol::rpc::{Response as RpcResponse, RpcError};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, RequestBuilder};
use serde_json::{Map, Value, json};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const PATH: &str = "/mcp";
const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
/// The member of `_meta` that makes a request stateless.
const TOLD_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The revision of the calls that are made here.
const STATELESS: &str = "2026-07-28";
/// The time limit of a request. The longest wait of a tool is a minute.
const LIMIT: Duration = Duration::from_secs(90);

/// An MCP session of one agent. A restart of the hub ends none.
#[derive(Debug)]
pub struct McpSession {
    client: Client,
    /// The session id and the revision of the last `initialize`.
    opened: Mutex<Option<(HeaderValue, HeaderValue)>>,
}

impl McpSession {
    pub fn new(client: Client) -> Self {
        Self { client, opened: Mutex::new(None) }
    }

    fn opened(&self) -> MutexGuard<'_, Option<(HeaderValue, HeaderValue)>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends one message once. Returns the response, which is `None` for a notification.
    pub async fn send(&self, message: &Value) -> Result<Option<Value>, ClientError> {
        let url = self.client.url(PATH)?;
        let request = self.client.request(Method::POST, url).header(CONTENT_TYPE, "application/json");
        let request = self.with_headers(request.header(ACCEPT, "application/json"), message);
        let sending = request.timeout(LIMIT + CONNECT_LIMIT).body(message.to_string()).send().await;
        let response = sending.map_err(|source| self.client.unreachable(source))?;
        let session = response.headers().get(SESSION).cloned();
        if !response.status().is_success() {
            return answer::rpc_refusal(response).await.map(Some);
        }
        let told = answer::read_any::<Value>(response).await?;
        if let (Some(session), Some(version)) = (session, told.pointer("/result/protocolVersion")) {
            let version = HeaderValue::from_str(version.as_str().unwrap_or_default());
            *self.opened() = version.ok().map(|version| (session, version));
        }
        Ok(Some(told).filter(|told| !told.is_null()))
    }

    fn with_headers(&self, request: RequestBuilder, message: &Value) -> RequestBuilder {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let params = &message["params"];
        if let Some(version) = text(params["_meta"].get(TOLD_VERSION)) {
            let name = text(params.get("name").or(params.get("uri")));
            let named =
                [(VERSION, Some(version)), ("mcp-method", text(message.get("method"))), ("mcp-name", name)];
            let named = named.into_iter().filter_map(|(name, value)| Some((name, value?)));
            return named.fold(request, |request, (name, value)| request.header(name, value));
        }
        match &*self.opened() {
            Some((session, version)) if message["method"] != "initialize" => {
                request.header(SESSION, session).header(VERSION, version)
            }
            _ => request,
        }
    }

    /// Calls a tool of the agent, and returns its structured result. A refusal is an error with the tool's
    /// sentence.
    pub async fn call_tool(&self, name: &str, arguments: Value) -> Result<Map<String, Value>, ClientError> {
        let meta = json!({TOLD_VERSION: STATELESS, "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "chorus", "version": env!("CARGO_PKG_VERSION")}});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": name, "arguments": arguments, "_meta": meta}});
        let told = self.send(&call).await?.and_then(RpcResponse::read);
        let refused = |why: String| ClientError::Protocol(format!("the hub refused {name}: {why}"));
        let mut result = match told.map(|told| told.outcome) {
            Some(Ok(result)) => result,
            Some(Err(RpcError { message, .. })) => return Err(refused(message)),
            None => return Err(refused("the answer is no JSON-RPC response".to_owned())),
        };
        if result["isError"] == true {
            let said = result.pointer("/content/0/text").and_then(Value::as_str).unwrap_or_default();
            return Err(refused(said.to_owned()));
        }
        match result.get_mut("structuredContent").map(Value::take) {
            Some(Value::Object(structured)) => Ok(structured),
            _ => Err(refused("the result is no object".to_owned())),
        }
    }
}
