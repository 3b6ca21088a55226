//! How what is delivered is said on a connection: the one place where something becomes the bytes of a frame.
//!
//! A session speaks one dialect as long as it lasts, and whoever commits something for it encodes the frame in that one.
//! C2A joins here: an entry becomes the JSON-RPC request `chat/deliver`, alone in its WebSocket message, and what a
//! stream says besides (where it begins, what is gone, why it ends) its own notifications and close codes. What a dialect
//! does not say is whether a frame arrived: only who carries it knows.

use bytes::Bytes;
use chorus_protocol::relay::Notice;
use chorus_protocol::sse;
use chorus_protocol::words::EntryKind;
use serde::Serialize;

/// What a session speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Server-sent events.
    Sse,
}

/// Why a session ends although its connection is well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Another connection opened this inbox.
    TakenOver,
    /// The agent's key was replaced, or the agent unregistered.
    Revoked,
}

impl Dialect {
    /// All there are.
    pub const ALL: [Self; 1] = [Self::Sse];

    /// An entry of an inbox; `data` is JSON.
    pub fn entry(self, kind: EntryKind, seq: i64, data: &str) -> Bytes {
        match self {
            Self::Sse => sse::encode(kind.as_str(), Some(seq), data).into(),
        }
    }

    /// An event of a conversation's log; `data` is JSON.
    pub fn event(self, kind: &str, seq: i64, data: &str) -> Bytes {
        match self {
            Self::Sse => sse::encode(kind, Some(seq), data).into(),
        }
    }

    /// Something about the stream itself, or that passes by: it has no place, and is not kept.
    pub fn notice(self, notice: Notice, data: &impl Serialize) -> Result<Bytes, serde_json::Error> {
        let data = serde_json::to_string(data)?;
        match self {
            Self::Sse => Ok(sse::encode(notice.as_str(), None, &data).into()),
        }
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
        }
    }

    /// A sign of life.
    pub fn ping(self) -> Bytes {
        match self {
            Self::Sse => Bytes::from_static(sse::PING),
        }
    }
}
