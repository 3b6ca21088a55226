//! A client that knows only the protocol: requests, responses, inboxes and streams.

use super::{OPERATOR, SOON, TestHub, eventually};
use chorus_protocol::code::Code;
use chorus_protocol::sse::Event;
use chorus_protocol::time::{parse_rfc3339, rfc3339};
use chorus_testkit::sse::SseClient;
use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use std::time::Duration;

impl TestHub {
    pub(crate) fn request(&self, method: Method, path: &str, key: Option<&str>) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.url));
        match key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    pub(crate) async fn get(&self, path: &str, key: Option<&str>) -> Answer {
        Answer::of(self.request(Method::GET, path, key)).await
    }

    pub(crate) async fn delete(&self, path: &str, key: Option<&str>) -> Answer {
        Answer::of(self.request(Method::DELETE, path, key)).await
    }

    pub(crate) async fn post(&self, path: &str, key: Option<&str>, body: &Value) -> Answer {
        Answer::of(self.request(Method::POST, path, key).json(body)).await
    }

    /// Registers an agent with only an inbox and returns its key.
    pub(crate) async fn register(&self, name: &str) -> String {
        self.registered(&json!({"agent_id": name})).await
    }

    /// Registers an agent with a webhook and returns its key.
    pub(crate) async fn register_webhook(&self, name: &str, endpoint: &str) -> String {
        self.registered(&json!({"agent_id": name, "endpoint": endpoint})).await
    }

    async fn registered(&self, body: &Value) -> String {
        let answer = self.post("/register", None, body).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        answer.data()["api_key"].as_str().unwrap().to_owned()
    }

    /// Sends a text and returns the response.
    pub(crate) async fn send(&self, key: &str, from: &str, to: &str, text: &str) -> Answer {
        self.send_envelope(key, to, &envelope(from, text)).await
    }

    pub(crate) async fn send_envelope(&self, key: &str, to: &str, envelope: &Value) -> Answer {
        self.post("/messages", Some(key), &json!({"receiver_id": to, "envelope": envelope})).await
    }

    /// Opens an inbox and reads its first event.
    pub(crate) async fn inbox(&self, key: &str, last_id: Option<&str>) -> Inbox {
        let sse = SseClient::open(&format!("{}/agent/inbox", self.url), key, last_id).await;
        let mut inbox = Inbox { sse: sse.expect("the inbox opens"), after: 0, revoked: false };
        let connected = inbox.event("connected").await;
        inbox.after = connected["after"].as_i64().unwrap();
        inbox
    }

    /// Returns all messages sent to an agent, by cursor.
    pub(crate) async fn history(&self, key: &str) -> Vec<Value> {
        let (mut messages, mut path) = (vec![], "/agent/messages?kind=all".to_owned());
        loop {
            let page = self.get(&path, Some(key)).await;
            messages.extend(page.data().as_array().unwrap().clone());
            let Some(next) = page.body["metadata"]["next"].as_str() else { return messages };
            path = format!("/agent/messages?kind=all&after={next}");
        }
    }

    pub(crate) async fn online(&self, name: &str) -> bool {
        self.get(&format!("/agents/{name}"), None).await.data()["online"] == true
    }

    /// Creates an account for this address and returns its token.
    pub(crate) async fn account(&self, email: &str) -> String {
        let answer = self.post("/api/v1/accounts", Some(OPERATOR), &json!({"email": email})).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        answer.body["api_token"].as_str().unwrap().to_owned()
    }

    /// Asserts that the hub serves and its store writes.
    pub(crate) async fn assert_healthy(&self) {
        let answer = self.get("/health", None).await;
        assert_eq!((answer.status, &answer.data()["status"]), (200, &json!("ok")), "{}", answer.text);
    }
}

/// Operations on conversations.
impl TestHub {
    /// Sends a request with a JSON body.
    /// Waits until the background work has looked twice at everything that is due: once at the latest before the call,
    /// once after it.
    pub(crate) async fn background_round(&self) {
        let before = self.background_rounds().await;
        let passed = |now: &[u64; 3]| now.iter().zip(before).all(|(now, before)| *now >= before + 2);
        eventually(async || self.background_rounds().await, passed).await;
    }

    /// Returns how often each kind of background work has looked for something due.
    async fn background_rounds(&self) -> [u64; 3] {
        let metrics = self.get("/metrics", Some(OPERATOR)).await.text;
        ["ticks", "push", "market"].map(|work| {
            let series = format!("chorus_background_rounds_total{{work=\"{work}\"}} ");
            let line = metrics.lines().find_map(|line| line.strip_prefix(&series));
            line.map_or(0, |count| count.parse().unwrap())
        })
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, key: Option<&str>, body: &Value) -> Answer {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        Answer::of(self.request(method, path, key).json(body)).await
    }

    /// Creates a channel and returns its path.
    pub(crate) async fn channel(&self, key: &str, body: &Value) -> String {
        let made = self.post("/api/v1/channels", Some(key), body).await;
        assert_eq!(made.status, 201, "{}", made.text);
        format!("/api/v1/channels/{}", made.body["id"].as_str().unwrap())
    }

    /// Adds a member and returns its handle. People are added by the operator, because others would have to
    /// invite them.
    pub(crate) async fn add(&self, channel: &str, key: &str, body: &Value) -> String {
        let key = if body.get("account").is_some() { OPERATOR } else { key };
        let added = self.post(&format!("{channel}/members"), Some(key), body).await;
        assert_eq!(added.status, 201, "{}", added.text);
        added.body["handle"].as_str().unwrap().to_owned()
    }

    /// Posts a message in a channel.
    pub(crate) async fn say(&self, channel: &str, key: &str, body: &Value) -> Value {
        let said = self.post(&format!("{channel}/messages"), Some(key), body).await;
        assert_eq!(said.status, 201, "{}", said.text);
        said.body
    }

    /// Returns a page of a channel's log.
    pub(crate) async fn log(&self, channel: &str, key: &str, query: &str) -> Vec<Value> {
        let page = self.get(&format!("{channel}/events?{query}"), Some(key)).await;
        assert_eq!(page.status, 200, "{}", page.text);
        page.body["items"].as_array().unwrap().clone()
    }

    /// Follows a channel as a stream.
    pub(crate) async fn follow(&self, channel: &str, key: &str, last_id: Option<&str>) -> Inbox {
        let sse = SseClient::open(&format!("{}{channel}/stream", self.url), key, last_id).await;
        let mut stream = Inbox { sse: sse.expect("the stream opens"), after: 0, revoked: false };
        let connected = stream.event("connected").await;
        assert!(channel.ends_with(connected["channel"].as_str().unwrap()), "{connected}");
        stream.after = connected["after"].as_i64().unwrap();
        stream
    }
}

/// A response of the hub.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    /// `null` if the response is not JSON.
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) async fn of(request: RequestBuilder) -> Self {
        Self::read(request.send().await.expect("the hub answers")).await
    }

    pub(crate) async fn read(response: reqwest::Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.expect("the answer is whole");
        let body = serde_json::from_str(&text).unwrap_or_default();
        Self { status, headers, text, body }
    }

    /// Returns the data of a success in the common format.
    pub(crate) fn data(&self) -> &Value {
        let body = &self.body;
        assert!((200..300).contains(&self.status), "{} {}", self.status, self.text);
        assert_eq!((members(body), &body["success"]), (vec!["data", "metadata", "success"], &json!(true)));
        check_metadata(&body["metadata"]);
        &body["data"]
    }

    /// Returns the message of an error with this code, in the common format.
    pub(crate) fn failure(&self, code: Code) -> &str {
        assert_eq!(self.header("content-type"), "application/json");
        assert_eq!(self.status, code.status(), "{}", self.text);
        failure(&self.body, code)
    }

    /// Returns the message of an error with this code. Asserts that it is exactly in the hub's own format.
    #[track_caller]
    pub(crate) fn own_failure(&self, code: Code) -> &str {
        assert_eq!(
            (self.status, self.header("content-type")),
            (code.status(), "application/json"),
            "{}",
            self.text
        );
        assert_eq!(members(&self.body), ["error"], "{}", self.text);
        assert_eq!(self.body["error"]["code"], code.short(), "{}", self.text);
        self.body["error"]["message"].as_str().filter(|message| !message.is_empty()).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Returns the outcome of a send: HTTP status and delivery.
    pub(crate) fn outcome(&self) -> (u16, &str) {
        let data = self.data();
        assert_eq!(data["trace_id"].as_str().unwrap().len(), 32, "{}", self.text);
        (self.status, data["delivery"].as_str().unwrap())
    }
}

/// Returns the message of an error with this code. Asserts that it is exactly in the common format.
pub(crate) fn failure(body: &Value, code: Code) -> &str {
    assert_eq!(members(body), ["error", "metadata", "success"], "{body}");
    assert_eq!((members(&body["error"]), &body["success"]), (vec!["code", "message"], &json!(false)));
    assert_eq!(body["error"]["code"], code.as_str(), "{body}");
    check_metadata(&body["metadata"]);
    let message = body["error"]["message"].as_str().unwrap();
    assert!(!message.is_empty());
    message
}

fn check_metadata(metadata: &Value) {
    let timestamp = metadata["timestamp"].as_str().unwrap();
    assert_eq!(parse_rfc3339(timestamp).map(rfc3339).as_deref(), Some(timestamp), "UTC with milliseconds");
}

/// Returns the sorted names of an object's members.
pub(crate) fn members(value: &Value) -> Vec<&str> {
    let mut names: Vec<_> = value.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names
}

/// Returns an envelope with its required members.
pub(crate) fn envelope(from: &str, text: &str) -> Value {
    json!({"chorus_version": "0.4", "sender_id": from, "original_text": text, "sender_culture": "en"})
}

/// An open inbox or stream.
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(crate) sse: SseClient,
    /// The position that the first event names.
    pub(crate) after: i64,
    /// True if the stream was told that its credential is revoked.
    pub(crate) revoked: bool,
}

impl Inbox {
    /// Returns the data of the next event, which must be of this kind.
    pub(crate) async fn event(&mut self, kind: &str) -> Value {
        let event = self.sse.next(SOON).await.unwrap_or_else(|| panic!("no event {kind} came"));
        assert_eq!(event.event, kind, "{event:?}");
        serde_json::from_str(&event.data).unwrap()
    }

    /// Returns the next event, which must be a message with an id.
    pub(crate) async fn message(&mut self) -> (i64, Value) {
        let message = self.event("message").await;
        let id = self.sse.last_id().expect("a message has an id").parse().unwrap();
        (id, message)
    }

    /// Returns the texts of the next `count` messages.
    pub(crate) async fn texts(&mut self, count: usize) -> Vec<String> {
        let mut texts = vec![];
        for _ in 0..count {
            texts.push(text_of(&self.message().await.1));
        }
        texts
    }

    /// Returns all events until the stream ends. A `revoked` event is not included.
    pub(crate) async fn rest(&mut self) -> Vec<Event> {
        let mut events = vec![];
        while let Some(event) = self.sse.next(SOON).await {
            if event.event == "revoked" {
                assert!(event.data.contains("key"), "{event:?}");
                self.revoked = true;
            } else {
                events.push(event);
            }
        }
        assert!(self.sse.ended(), "the stream goes on; so far {events:?}");
        events
    }

    /// Asserts that nothing arrives for a moment.
    pub(crate) async fn assert_quiet(&mut self) {
        let event = self.sse.next(Duration::from_millis(200)).await;
        assert!(event.is_none() && !self.sse.ended(), "{event:?}, ended: {}", self.sse.ended());
    }
}

/// Returns the text of a message from the inbox or the history.
pub(crate) fn text_of(message: &Value) -> String {
    message["envelope"]["original_text"].as_str().unwrap().to_owned()
}

/// Calls an MCP tool with this key in this channel and returns its result.
pub(crate) async fn mcp_tool(hub: &TestHub, channel: &str, key: &str, name: &str, arguments: Value) -> Value {
    let params = json!({"name": name, "arguments": arguments, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }});
    let path = format!("/mcp/{}", channel.rsplit('/').next().unwrap());
    let request = hub
        .request(Method::POST, &path, Some(key))
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", name);
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let answer = Answer::of(request.json(&call)).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body["result"].clone()
}
