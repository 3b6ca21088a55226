//! A harness that knows only the document: it initializes, acknowledges, calls tools, and exposes the host's
//! messages.

use crate::support::{SOON, TestHub};
use chorus_testkit::websocket::{Heard, WebSocket};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Duration;

/// Returns the document's own `initialize`.
pub(super) fn initialize() -> Value {
    json!({
        "jsonrpc": "2.0", "id": "1", "method": "initialize",
        "params": {
            "protocolVersion": "2026-06-02",
            "clientInfo": {"name": "pear-chat-adapter", "version": "0.1.0"},
            "capabilities": {
                "delivery": {"ack": true, "redelivery": true, "idempotency": true},
                "injection": {"immediate": true, "buffered": true, "notify": true, "tool_mailbox": true,
                              "digest": true, "interrupt": false},
                "chatTools": {"readThread": true, "sendMessage": true, "react": true, "reactionSignals": true,
                              "claim": true, "defer": true, "resolve": true},
                "utilities": {"progress": true, "cancellation": true, "logging": true}
            }
        }
    })
}

/// A connected harness.
pub(super) struct Harness {
    socket: WebSocket,
    /// Messages that arrived while another was awaited.
    waiting: VecDeque<Value>,
    calls: u64,
    /// The response to `initialize`.
    pub(super) begun: Value,
}

impl Harness {
    pub(super) async fn connect(hub: &TestHub, key: &str) -> Self {
        Self::with(hub, key, &initialize()).await
    }

    pub(super) async fn with(hub: &TestHub, key: &str, initialize: &Value) -> Self {
        let socket = WebSocket::open(&format!("{}/c2a", hub.url), key).await.expect("it opens");
        let mut harness = Self { socket, waiting: VecDeque::new(), calls: 0, begun: Value::Null };
        harness.socket.send(initialize).await;
        let answer = harness.heard().await;
        assert_eq!(answer["id"], initialize["id"], "{answer}");
        harness.begun = answer["result"].clone();
        harness
    }

    async fn heard(&mut self) -> Value {
        match self.socket.next(SOON).await {
            Some(Heard::Json(message)) => message,
            other => panic!("a message was to come, not {other:?}"),
        }
    }

    /// Returns the next request or notification of the host.
    pub(super) async fn told(&mut self) -> Value {
        match self.waiting.pop_front() {
            Some(message) => message,
            None => self.heard().await,
        }
    }

    /// Returns the next delivery as a whole request, without acknowledging it.
    pub(super) async fn request(&mut self) -> Value {
        let request = self.told().await;
        assert_eq!(
            (&request["jsonrpc"], &request["method"]),
            (&json!("2.0"), &json!("chat/deliver")),
            "{request}"
        );
        request
    }

    /// Acknowledges a delivery.
    pub(super) async fn ack(&mut self, request: &Value) {
        let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": {"status": "accepted"}});
        self.socket.send(&answer).await;
    }

    /// Acknowledges the next delivery and returns its params.
    pub(super) async fn delivered(&mut self) -> Value {
        let request = self.request().await;
        self.ack(&request).await;
        request["params"].clone()
    }

    /// Returns the next notification of this method.
    pub(super) async fn notified(&mut self, method: &str) -> Value {
        let notification = self.told().await;
        assert_eq!(notification["method"], method, "{notification}");
        assert!(notification.get("id").is_none());
        notification["params"].clone()
    }

    /// Sends any message.
    pub(super) async fn send(&mut self, message: &Value) {
        self.socket.send(message).await;
    }

    pub(super) async fn send_text(&mut self, text: &str) {
        self.socket.send_text(text).await;
    }

    pub(super) async fn notify(&mut self, method: &str, params: Value) {
        self.socket.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    /// Sends a request and returns the whole response.
    pub(super) async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let id = format!("call-{}", self.calls);
        self.socket.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        self.answer(&json!(id)).await
    }

    /// Returns the response with this id; earlier messages are queued.
    pub(super) async fn answer(&mut self, id: &Value) -> Value {
        loop {
            let message = self.heard().await;
            if message.get("method").is_none() && &message["id"] == id {
                return message;
            }
            self.waiting.push_back(message);
        }
    }

    /// Calls a tool and returns its result.
    pub(super) async fn call(&mut self, name: &str, arguments: Value) -> Value {
        let answer = self.ask("tools/call", json!({"name": name, "arguments": arguments})).await;
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    /// Calls a tool that succeeds and returns its structured content.
    pub(super) async fn done(&mut self, name: &str, arguments: Value) -> Value {
        let result = self.call(name, arguments).await;
        assert_ne!(result["isError"], json!(true), "{result}");
        result["structuredContent"].clone()
    }

    /// Calls a tool that fails and returns its error code.
    pub(super) async fn refused(&mut self, name: &str, arguments: Value) -> String {
        let result = self.call(name, arguments).await;
        assert_eq!(result["isError"], json!(true), "{result}");
        result["structuredContent"]["code"].as_str().unwrap().to_owned()
    }

    /// Asserts that nothing is delivered for a moment.
    pub(super) async fn assert_quiet(&mut self) {
        assert_eq!(self.waiting, VecDeque::<Value>::new());
        assert_eq!(self.socket.next(Duration::from_millis(200)).await, None);
    }

    /// Returns the code with which the host closes.
    pub(super) async fn closed(&mut self) -> u16 {
        loop {
            match self.socket.next(SOON).await {
                Some(Heard::Closed(code)) => return code,
                Some(Heard::Json(_)) => {}
                None => panic!("it was to close"),
            }
        }
    }
}

/// Returns the text of a delivery.
pub(super) fn text(params: &Value) -> &str {
    params["content"][0]["text"].as_str().unwrap()
}
