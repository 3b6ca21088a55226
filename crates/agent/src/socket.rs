//! A WebSocket to the hub for C2A, with one JSON-RPC message in each text frame.
//!
//! It is opened by the same HTTP client as every other request, so that certificates are checked alike, and
//! carries the same key. A silent peer is pinged, and given up if it does not answer. The size of frames is
//! bounded.
//!
//! The socket does not interpret the messages. [`crate::harness`] does, or a program behind `chorus
//! c2a-stdio`.

use crate::client::{REQUEST_LIMIT, http_1_client};
use crate::{Client, ClientError, answer};
use chorus_protocol::c2a::TAKEN_OVER;
use data_encoding::BASE64;
use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use reqwest::{Method, StatusCode, Upgraded};
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Message};

/// The hub's path for C2A.
const PATH: &str = "/c2a";

/// The largest message, in bytes. It allows for a page of events.
pub(crate) const MAX_FRAME: usize = 4 * 1024 * 1024;

/// The size of one read, in bytes. The buffer is zeroed before each read.
const READ_BUFFER: usize = 16 * 1024;

/// The silence after which the hub is pinged. After the same time without an answer the connection is given
/// up.
const QUIET: Duration = Duration::from_secs(20);

/// The time limit for writing a message.
const WRITE_LIMIT: Duration = Duration::from_secs(30);

/// A C2A connection; see the [module](self).
#[derive(Debug)]
pub struct Socket {
    stream: WebSocketStream<Upgraded>,
    /// The time of the next ping, or of giving up if a ping is unanswered.
    due: Instant,
    asked: bool,
}

impl Client {
    /// Opens a C2A connection without sending anything on it.
    pub async fn open_c2a(&self) -> Result<Socket, ClientError> {
        let url = self.url(PATH)?;
        let key = BASE64.encode(&self.environment().bytes::<16>());
        // A WebSocket begins as an HTTP/1.1 request.
        let http = http_1_client(url.as_str()).map_err(ClientError::Setup)?;
        let request = self.authorized(http.request(Method::GET, url));
        let request = request.header(CONNECTION, "Upgrade").header(UPGRADE, "websocket");
        let request = request.header(SEC_WEBSOCKET_VERSION, "13").header(SEC_WEBSOCKET_KEY, &key);
        let opening = timeout(REQUEST_LIMIT, request.send()).await;
        let response = opening.map_err(|_| ClientError::Lost("the hub did not open the session in 60 s"))?;
        let response = response.map_err(|source| self.unreachable(source))?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let none = || ClientError::Protocol("the hub does not speak C2A at /c2a".into());
            return Err(if response.status().is_success() {
                none()
            } else {
                answer::refusal(response).await
            });
        }
        let accepted = response.headers().get(SEC_WEBSOCKET_ACCEPT).map(|value| value.as_bytes().to_vec());
        if accepted.as_deref() != Some(derive_accept_key(key.as_bytes()).as_bytes()) {
            return Err(ClientError::Protocol("what answers at /c2a is no WebSocket".into()));
        }
        let upgraded = response.upgrade().await.map_err(|source| self.unreachable(source))?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_FRAME))
            .max_frame_size(Some(MAX_FRAME))
            .read_buffer_size(READ_BUFFER);
        let stream = WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config)).await;
        Ok(Socket { stream, due: Instant::now() + QUIET, asked: false })
    }
}

impl Socket {
    /// Waits for the next message. Returns `None` when the hub closed the session, and an error when another
    /// connection took it over. Dropping the future loses no message.
    pub async fn next(&mut self) -> Result<Option<String>, ClientError> {
        loop {
            let Ok(message) = timeout_at(self.due, self.stream.next()).await else {
                if std::mem::replace(&mut self.asked, true) {
                    return Err(ClientError::Lost("the hub gives no sign of life"));
                }
                self.due = Instant::now() + QUIET;
                self.write(Message::Ping(Bytes::new())).await?;
                continue;
            };
            (self.due, self.asked) = (Instant::now() + QUIET, false);
            match message {
                Some(Ok(Message::Text(text))) => return Ok(Some(text.as_str().to_owned())),
                Some(Ok(Message::Close(Some(frame)))) if u16::from(frame.code) == TAKEN_OVER => {
                    return Err(ClientError::TakenOver);
                }
                Some(Ok(Message::Close(_))) | None => return Ok(None),
                // The library answers pings. Other frames carry no message.
                Some(Ok(_)) => {}
                Some(Err(_)) => return Err(ClientError::Lost("the session broke off")),
            }
        }
    }

    /// Sends one message.
    pub async fn send(&mut self, message: String) -> Result<(), ClientError> {
        self.write(Message::text(message)).await
    }

    async fn write(&mut self, message: Message) -> Result<(), ClientError> {
        match timeout(WRITE_LIMIT, self.stream.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(ClientError::Lost("the session broke off")),
            Err(_) => Err(ClientError::Lost("the hub takes nothing any more")),
        }
    }

    /// Closes the sending side. Messages of the hub can be read until it closes too.
    pub async fn finish(&mut self) -> Result<(), ClientError> {
        self.write(Message::Close(None)).await
    }
}
