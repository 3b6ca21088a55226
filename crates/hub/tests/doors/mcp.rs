//! MCP at `/mcp/{channel}` and `/mcp`, used by a client that knows only the protocol, in both revisions.

mod access;
mod agent;
mod attention;
mod notices;
mod protocol;
mod tools;

use crate::channel_fixture::ChannelFixture;
use crate::support::{Answer, SOON, TestHub};
use chorus_protocol::sse::{Item, Parser};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Duration;

pub(crate) const STATELESS: &str = "2026-07-28";
pub(crate) const WITH_SESSIONS: &str = "2025-11-25";

/// A hub with anna, her channel, and its agents `ben` and `cora`.
struct McpFixture {
    base: ChannelFixture,
    ben: String,
    cora: String,
}

impl McpFixture {
    async fn start() -> Self {
        Self::with(ChannelFixture::start().await).await
    }

    async fn with(base: ChannelFixture) -> Self {
        let mut keys = vec![];
        for name in ["ben", "cora"] {
            let made = base.agent(&json!({"name": name})).await;
            keys.push(made["api_key"].as_str().unwrap().to_owned());
            base.join(&base.channel, name).await;
        }
        let [ben, cora] = keys.try_into().unwrap();
        Self { base, ben, cora }
    }

    /// Returns ben's client, without sessions.
    fn ben(&self) -> Client<'_> {
        Client::new(&self.base.hub, &self.base.channel, &self.ben)
    }

    fn cora(&self) -> Client<'_> {
        Client::new(&self.base.hub, &self.base.channel, &self.cora)
    }

    /// Returns a client of ben's own server, in all its conversations.
    fn ben_himself(&self) -> Client<'_> {
        Client::new(&self.base.hub, "", &self.ben)
    }
}

/// A client of one channel, or of the agent's own server if the channel is empty. With a session it speaks the older revision, otherwise the newer.
#[derive(Clone)]
struct Client<'h> {
    hub: &'h TestHub,
    channel: String,
    key: String,
    session: Option<String>,
}

impl<'h> Client<'h> {
    fn new(hub: &'h TestHub, channel: &str, key: &str) -> Self {
        Self { hub, channel: channel.to_owned(), key: key.to_owned(), session: None }
    }

    /// Opens a session and returns a client with it.
    async fn with_session(&self) -> Self {
        let answer = self.initialize(WITH_SESSIONS).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let client = Self { session: Some(answer.header("mcp-session-id").to_owned()), ..self.clone() };
        let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(client.send(&told).await.status, 202);
        client
    }

    async fn initialize(&self, version: &str) -> Answer {
        let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        Answer::of(self.post().json(&body)).await
    }

    fn request(&self, method: Method) -> RequestBuilder {
        let path = if self.channel.is_empty() { "/mcp".into() } else { format!("/mcp/{}", self.channel) };
        let request = self.hub.request(method, &path, Some(&self.key));
        let request = request.header("accept", "application/json, text/event-stream");
        match &self.session {
            Some(session) => {
                request.header("mcp-session-id", session).header("mcp-protocol-version", WITH_SESSIONS)
            }
            None => request,
        }
    }

    fn post(&self) -> RequestBuilder {
        self.request(Method::POST)
    }

    /// Sends a message unchanged.
    async fn send(&self, message: &Value) -> Answer {
        Answer::of(self.post().json(message)).await
    }

    /// Builds a request with everything its revision requires.
    fn ask(&self, method: &str, mut params: Value) -> RequestBuilder {
        let mut request = self.post();
        if self.session.is_none() {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": STATELESS,
                "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            request = request.header("mcp-protocol-version", STATELESS).header("mcp-method", method);
            if let Some(name) = params.get("name").or(params.get("uri")).and_then(Value::as_str) {
                request = request.header("mcp-name", name);
            }
        }
        request.json(&json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}))
    }

    async fn rpc(&self, method: &str, params: Value) -> Answer {
        Answer::of(self.ask(method, params)).await
    }

    /// Returns the result of a successful request.
    async fn result(&self, method: &str, params: Value) -> Value {
        let answer = self.rpc(method, params).await;
        assert_eq!((answer.status, &answer.body["id"]), (200, &json!(7)), "{method}: {}", answer.text);
        assert_eq!(answer.header("content-type"), "application/json");
        let result = answer.body["result"].clone();
        assert!(result.is_object(), "{method}: {}", answer.text);
        result
    }

    /// Returns the result of a tool.
    async fn tool(&self, name: &str, arguments: Value) -> Value {
        let result = self.result("tools/call", json!({"name": name, "arguments": arguments})).await;
        assert_eq!(result["isError"], false, "{name}: {result}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(text).unwrap(),
            result["structuredContent"],
            "both say the same"
        );
        result["structuredContent"].clone()
    }

    /// Returns the error text of a tool.
    async fn fault(&self, name: &str, arguments: Value) -> String {
        let result = self.result("tools/call", json!({"name": name, "arguments": arguments})).await;
        assert_eq!(result["isError"], true, "{name}: {result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    async fn say(&self, content: &str) -> Value {
        self.tool("chat_send_message", json!({"content": content})).await
    }

    /// Opens the stream of the session.
    async fn stream(&self, last_id: Option<&str>) -> Stream {
        let mut request = self.request(Method::GET);
        if let Some(id) = last_id {
            request = request.header("last-event-id", id);
        }
        Stream::open(request).await
    }
}

/// An open stream of messages.
struct Stream {
    response: reqwest::Response,
    parser: Parser,
    ready: VecDeque<(Option<String>, Value)>,
    ended: bool,
}

impl Stream {
    async fn open(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, parser: Parser::new(), ready: VecDeque::new(), ended: false }
    }

    /// Returns the next message and its id, if one arrives in time.
    async fn next_within(&mut self, time: Duration) -> Option<(Option<String>, Value)> {
        let read = async {
            while self.ready.is_empty() {
                let Ok(Some(piece)) = self.response.chunk().await else {
                    self.ended = true;
                    return None;
                };
                for item in self.parser.push(&piece).unwrap() {
                    if let Item::Event(event) = item {
                        assert_eq!(event.event, "message");
                        self.ready.push_back((event.id, serde_json::from_str(&event.data).unwrap()));
                    }
                }
            }
            self.ready.pop_front()
        };
        tokio::time::timeout(time, read).await.ok()?
    }

    async fn next(&mut self) -> Value {
        self.next_within(SOON).await.expect("a message comes").1
    }

    /// Asserts that the stream ends without another message.
    async fn end(&mut self) {
        let more = self.next_within(SOON).await;
        assert!(more.is_none() && self.ended, "{more:?}");
    }

    async fn assert_quiet(&mut self) {
        let more = self.next_within(Duration::from_millis(300)).await;
        assert!(more.is_none() && !self.ended, "{more:?}");
    }
}
