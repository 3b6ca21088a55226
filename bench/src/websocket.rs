//! A C2A session of the load: it acknowledges every delivery.

use crate::target::Target;
use anyhow::{Context, bail, ensure};
use futures_util::stream::{ReadyChunks, SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async};

/// The most messages that are acknowledged with one write.
const BATCH: usize = 64;
/// The prefix of a delivery's id.
const DELIVERY: &str = "deliver-";

type Socket = WebSocketStream<TcpStream>;

/// An open session.
#[derive(Debug)]
pub(crate) struct Session {
    messages: ReadyChunks<SplitStream<Socket>>,
    replies: SplitSink<Socket, Message>,
}

impl Session {
    /// Opens a session of the agent with this key, and returns once the hub has accepted it.
    pub(crate) async fn open(target: &Target, key: &str) -> anyhow::Result<Self> {
        let mut request = target.websocket_url("/c2a").into_client_request()?;
        request.headers_mut().insert(http::header::AUTHORIZATION, format!("Bearer {key}").try_into()?);
        let stream = TcpStream::connect(target.address).await?;
        stream.set_nodelay(true)?;
        let (socket, _) = client_async(request, stream).await?;
        let (replies, messages) = socket.split();
        let mut session = Self { messages: messages.ready_chunks(BATCH), replies };
        let all = json!({"immediate": true, "buffered": true, "notify": true, "tool_mailbox": true});
        let initialize = json!({
            "jsonrpc": "2.0", "id": "1", "method": "initialize",
            "params": {
                "protocolVersion": "2026-06-02",
                "clientInfo": {"name": "bench", "version": "1"},
                "capabilities": {"delivery": {"ack": true, "redelivery": true, "idempotency": true}, "injection": all},
            },
        });
        session.replies.send(Message::text(initialize.to_string())).await?;
        let answer = session.next().await?.into_iter().next().context("the session was not answered")?;
        ensure!(answer.contains(r#""result""#), "the session was refused: {answer}");
        Ok(session)
    }

    /// Waits for messages, acknowledges the deliveries among them, and returns all that have arrived.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Vec<Utf8Bytes>> {
        let mut texts = vec![];
        while texts.is_empty() {
            for message in self.messages.next().await.context("the hub closed the connection")? {
                match message.context("cannot read a message")? {
                    Message::Text(text) => texts.push(text),
                    Message::Close(frame) => bail!("the hub closed the session: {frame:?}"),
                    _ => {}
                }
            }
        }
        for reply in texts.iter().filter_map(|text| acknowledgement(text)) {
            self.replies.feed(Message::text(reply)).await.context("cannot acknowledge")?;
        }
        self.replies.flush().await.context("cannot acknowledge")?;
        Ok(texts)
    }
}

/// Returns the reply to a delivery, and `None` for every other message.
fn acknowledgement(message: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Envelope {
        id: Value,
    }
    let Envelope { id } = serde_json::from_str(message).ok()?;
    let is_delivery = id.as_str().is_some_and(|id| id.starts_with(DELIVERY));
    is_delivery.then(|| json!({"jsonrpc": "2.0", "id": id, "result": {"status": "accepted"}}).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_deliveries_are_acknowledged() {
        for other in [
            r#"{"jsonrpc":"2.0","id":"1","result":{}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/gap","params":{}}"#,
        ] {
            assert_eq!(acknowledgement(other), None);
        }
        let delivery = r#"{"jsonrpc":"2.0","id":"deliver-17","method":"chat/deliver","params":{}}"#;
        let reply: Value = serde_json::from_str(&acknowledgement(delivery).unwrap()).unwrap();
        assert_eq!(reply, json!({"jsonrpc": "2.0", "id": "deliver-17", "result": {"status": "accepted"}}));
    }
}
