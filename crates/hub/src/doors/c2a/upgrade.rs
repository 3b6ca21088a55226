//! The WebSocket handshake of RFC 6455, by means of hyper and ring.

use super::MAX_MESSAGE;
use super::counted_stream::CountedStream;
use crate::error::ApiError;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use chorus_node::limits::body_budget::BodyLease;
use data_encoding::BASE64;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

/// A WebSocket over an upgraded connection.
pub(super) type Socket = WebSocketStream<CountedStream<TokioIo<Upgraded>>>;

/// The constant of RFC 6455 that the accept key is computed with.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The read buffer in bytes. It is small, because most frames are acknowledgements and it is zeroed before
/// each read.
const READ_BUFFER: usize = 4 * 1024;
/// The write buffer in bytes, and the most that may wait in it.
const WRITE_BUFFER: usize = 64 * 1024;
const MAX_WRITE_BUFFER: usize = 4 * MAX_MESSAGE;

/// Returns the response to a handshake, and the future connection.
pub(super) fn accept(request: &mut Request) -> Result<(Response, OnUpgrade), ApiError> {
    let headers = request.headers();
    if !has(headers, &header::CONNECTION, "upgrade") || !has(headers, &header::UPGRADE, "websocket") {
        return Err(ApiError::validation(
            "this is a WebSocket: ask for Connection: Upgrade, Upgrade: websocket",
        ));
    }
    if !has(headers, &header::SEC_WEBSOCKET_VERSION, "13") {
        return Err(ApiError::validation("Sec-WebSocket-Version: must be 13"));
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).map(|key| key.as_bytes().trim_ascii().to_owned());
    let is_key = |key: &Vec<u8>| BASE64.decode(key).is_ok_and(|bytes| bytes.len() == 16);
    let key = key
        .filter(is_key)
        .ok_or_else(|| ApiError::validation("Sec-WebSocket-Key: must be sixteen bytes in base64"))?;
    let answer = [
        (header::CONNECTION, "upgrade".to_owned()),
        (header::UPGRADE, "websocket".to_owned()),
        (header::SEC_WEBSOCKET_ACCEPT, accept_key(&key)),
    ];
    let upgraded = hyper::upgrade::on(request);
    Ok(((StatusCode::SWITCHING_PROTOCOLS, answer).into_response(), upgraded))
}

fn accept_key(key: &[u8]) -> String {
    let mut digest = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    digest.update(key);
    digest.update(GUID);
    BASE64.encode(digest.finish().as_ref())
}

/// Returns whether a comma-separated header contains this word.
fn has(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|one| one.trim().eq_ignore_ascii_case(word))
}

/// Returns the WebSocket, or `None` if its peer has gone away.
pub(super) async fn open(upgraded: OnUpgrade, lease: BodyLease) -> Option<Socket> {
    let stream = match upgraded.await {
        Ok(stream) => CountedStream::new(TokioIo::new(stream), lease),
        Err(error) => {
            tracing::debug!(%error, "a connection was not upgraded");
            return None;
        }
    };
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE))
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        .max_write_buffer_size(MAX_WRITE_BUFFER);
    Some(WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 6455.
    #[test]
    fn the_answer_to_a_key() {
        assert_eq!(accept_key(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn words_of_a_list() {
        let headers = HeaderMap::from_iter([(header::CONNECTION, "keep-alive, Upgrade".parse().unwrap())]);
        assert!(has(&headers, &header::CONNECTION, "upgrade"));
        assert!(!has(&headers, &header::CONNECTION, "keep"));
        assert!(!has(&headers, &header::UPGRADE, "websocket"));
    }
}
