//! A WebSocket client that returns the server's messages one by one.

use crate::http;
use futures_util::{SinkExt, StreamExt};
use reqwest::Upgraded;
use serde_json::Value;
use std::time::Duration;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

/// A received message.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// A text message with JSON.
    Json(Value),
    /// A close frame with this code.
    Closed(u16),
}

pub struct WebSocket(WebSocketStream<Upgraded>);

impl WebSocket {
    /// Opens a WebSocket with a key, or returns the status of the refusal.
    pub async fn open(url: &str, key: &str) -> Result<Self, u16> {
        let request = http::client()
            .get(url)
            .bearer_auth(key)
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        let response = request.send().await.expect("the server answers");
        if response.status().as_u16() != 101 {
            return Err(response.status().as_u16());
        }
        assert_eq!(response.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let upgraded = response.upgrade().await.expect("the connection is upgraded");
        Ok(Self(WebSocketStream::from_raw_socket(upgraded, Role::Client, None).await))
    }

    /// Sends a text unchanged.
    pub async fn send_text(&mut self, text: impl Into<String>) {
        // A lost connection shows in the next read.
        self.0.send(Message::text(text.into())).await.ok();
    }

    /// Sends a binary message.
    pub async fn send_bytes(&mut self, bytes: Vec<u8>) {
        self.0.send(Message::binary(bytes)).await.ok();
    }

    /// Sends a JSON message.
    pub async fn send(&mut self, message: &Value) {
        self.send_text(message.to_string()).await;
    }

    /// Returns the next message, or `None` if none arrives in time. A broken connection counts as closed with
    /// 1006.
    pub async fn next(&mut self, within: Duration) -> Option<Heard> {
        let next = async {
            loop {
                match self.0.next().await {
                    Some(Ok(Message::Text(text))) => {
                        return Heard::Json(serde_json::from_str(text.as_str()).expect("every text is JSON"));
                    }
                    Some(Ok(Message::Close(frame))) => {
                        return Heard::Closed(frame.map_or(1005, |frame| frame.code.into()));
                    }
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Heard::Closed(1006),
                }
            }
        };
        tokio::time::timeout(within, next).await.ok()
    }
}
