//! The encodings of deliveries on a connection: the one place that turns an entry into the bytes of a frame.
//!
//! A session uses one dialect for its lifetime, and a commit for it encodes the frame in that dialect. In C2A
//! an entry is the JSON-RPC request `chat/deliver`, alone in its WebSocket message; other information about
//! the stream (gone entries, the reason for the end) is sent as notifications. A dialect does not know whether
//! a frame arrived: only the connection does.

use bytes::Bytes;
use chorus_protocol::c2a::Method;
use chorus_protocol::relay::Notice;
use chorus_protocol::sse;
use chorus_protocol::words::EntryKind;
use serde::Serialize;

/// The prefix of the id of a request that carries an entry. The entry's sequence number follows.
const DELIVER: &str = "deliver-";

/// The encoding of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Server-sent events, for the relay's inbox.
    Sse,
    /// Messages of JSON-RPC, as a C2A harness reads them.
    C2a,
}

/// The reason why a session ends although its connection works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Another connection opened this inbox.
    TakenOver,
    /// The agent's key was replaced, or the agent unregistered.
    Revoked,
}

impl Dialect {
    pub const ALL: [Self; 2] = [Self::Sse, Self::C2a];

    /// Returns whether several frames may be sent as one.
    pub fn joins(self) -> bool {
        self == Self::Sse
    }

    /// An entry of an inbox; `data` is JSON.
    pub fn entry(self, kind: EntryKind, seq: i64, data: &str) -> Bytes {
        match self {
            Self::Sse => sse::encode(kind.as_str(), Some(seq), data).into(),
            Self::C2a => {
                let method = Method::Deliver.as_str();
                let request = format!(
                    r#"{{"jsonrpc":"2.0","id":"{DELIVER}{seq}","method":"{method}","params":{data}}}"#
                );
                request.into()
            }
        }
    }

    /// An event of a conversation's log; `data` is JSON.
    pub fn event(self, kind: &str, seq: i64, data: &str) -> Bytes {
        match self {
            Self::Sse => sse::encode(kind, Some(seq), data).into(),
            Self::C2a => notification(kind, data),
        }
    }

    /// Something about the stream itself, or that passes by: it has no place, and is not kept.
    pub fn notice(self, notice: Notice, data: &impl Serialize) -> Result<Bytes, serde_json::Error> {
        let data = serde_json::to_string(data)?;
        match self {
            Self::Sse => Ok(sse::encode(notice.as_str(), None, &data).into()),
            Self::C2a => Ok(notification(notice.as_str(), &data)),
        }
    }

    /// Returns whether a stream begins with a greeting. In C2A the answer to `initialize` takes its place.
    pub fn greets(self) -> bool {
        self == Self::Sse
    }

    /// The last thing that is said.
    pub fn farewell(self, end: End) -> Bytes {
        match (self, end) {
            (Self::Sse, End::TakenOver) => sse::encode(
                Notice::Takeover.as_str(),
                None,
                r#"{"reason":"another connection opened this inbox"}"#,
            )
            .into(),
            (Self::Sse, End::Revoked) => sse::encode(
                Notice::Revoked.as_str(),
                None,
                r#"{"reason":"the key this inbox was opened with is not valid any more"}"#,
            )
            .into(),
            // The close frame says it.
            (Self::C2a, End::TakenOver | End::Revoked) => Bytes::new(),
        }
    }

    /// A sign of life.
    pub fn ping(self) -> Bytes {
        match self {
            Self::Sse => Bytes::from_static(sse::PING),
            // WebSockets have pings of their own.
            Self::C2a => Bytes::new(),
        }
    }
}

fn notification(name: &str, data: &str) -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/{name}","params":{data}}}"#).into()
}

/// The same entry for a harness that does not acknowledge: a notification, which has no id.
pub fn told(request: &Bytes, seq: i64) -> Bytes {
    let id = format!(r#""id":"{}","#, delivery_id(seq));
    match request.windows(id.len()).position(|window| window == id.as_bytes()) {
        Some(at) => [&request[..at], &request[at + id.len()..]].concat().into(),
        None => request.clone(),
    }
}

/// Returns whether a frame is a cancellation.
pub fn is_cancellation(frame: &[u8]) -> bool {
    let cancels = format!(r#"{{"jsonrpc":"2.0","method":"{}","#, Method::Cancelled);
    frame.starts_with(cancels.as_bytes())
}

/// The place in an inbox of the entry that a C2A request of this id brought.
pub fn delivered(id: &str) -> Option<i64> {
    let seq = id.strip_prefix(DELIVER)?.parse().ok()?;
    (id == delivery_id(seq)).then_some(seq)
}

/// The id of the request that brings the entry at this place.
pub fn delivery_id(seq: i64) -> String {
    format!("{DELIVER}{seq}")
}
