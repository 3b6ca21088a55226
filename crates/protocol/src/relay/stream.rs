//! Stream notices, streamed replies and endpoint challenges.

use crate::json;
use crate::words::words;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

words! {
    /// The kind of a line in a streamed reply: the name of the server-sent event, and the `type` of the line.
    pub enum ReplyKind {
        /// A piece of the output.
        Chunk = "chunk",
        /// The end of the reply.
        Done = "done",
        /// A failure of the recipient.
        Error = "error",
    }
}

words! {
    /// A notice about the stream itself, which is the name of its server-sent event.
    pub enum Notice {
        Connected = "connected",
        /// Part of the requested history no longer exists.
        Gap = "gap",
        /// Another connection replaced this one.
        Takeover = "takeover",
        /// The credential of the stream was revoked.
        Revoked = "revoked",
        Typing = "typing",
        /// A message in progress has grown.
        Growing = "growing",
        /// An ephemeral message, which is not stored.
        Ephemeral = "ephemeral",
        /// A message was held for approval, or the approval ended. Sent to people, without the content.
        Approvals = "approvals",
        /// The holder or the recipients of an event have changed. Sent to people, who request the details.
        Attention = "attention",
    }
}

/// A line of a streamed reply. The last line is `done` or `error`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ReplyLine {
    /// A piece of the answer.
    Chunk {
        /// The text to append.
        text: String,
    },
    /// The end of the answer.
    Done {
        /// The whole answer.
        result: Value,
    },
    /// A failure.
    Error {
        /// The error code for a program.
        code: String,
        /// The error message for a person.
        message: String,
    },
}

impl ReplyLine {
    /// Returns the kind of the line.
    pub fn kind(&self) -> ReplyKind {
        match self {
            Self::Chunk { .. } => ReplyKind::Chunk,
            Self::Done { .. } => ReplyKind::Done,
            Self::Error { .. } => ReplyKind::Error,
        }
    }

    /// Parses a line, or returns the fault.
    pub fn read(line: &[u8]) -> Result<Self, String> {
        let mut value = json::parse(line).map_err(|error| error.to_string())?;
        let kind = value["type"].as_str().and_then(ReplyKind::parse);
        let kind = kind.ok_or_else(|| "type: must be chunk, done or error".to_owned())?;
        let text = |name: &str| {
            value[name].as_str().map(str::to_owned).ok_or_else(|| format!("{name}: must be a string"))
        };
        Ok(match kind {
            ReplyKind::Chunk => Self::Chunk { text: text("text")? },
            ReplyKind::Error => Self::Error { code: text("code")?, message: text("message")? },
            ReplyKind::Done => Self::Done { result: value["result"].take() },
        })
    }

    /// Returns the data of the server-sent event. Its name carries the kind.
    pub fn data(&self) -> String {
        let data = match self {
            Self::Chunk { text } => json!({"text": text}),
            Self::Done { result } => json!({"result": result}),
            Self::Error { code, message } => json!({"code": code, "message": message}),
        };
        data.to_string()
    }
}

/// A request of the hub to an endpoint before it sends anything else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EndpointQuestion {
    /// Asks the endpoint to confirm that it wants the hub's requests, by echoing the challenge.
    Challenge(Challenge),
}

/// A challenge, and the response to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Challenge {
    /// The text to echo.
    pub challenge: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_are_written() {
        let chunk = ReplyLine::Chunk { text: "a".into() };
        let done = ReplyLine::Done { result: json!({"n": 1}) };
        let error = ReplyLine::Error { code: "x".into(), message: "why".into() };
        for (line, written, data) in [
            (chunk, json!({"type": "chunk", "text": "a"}), json!({"text": "a"})),
            (done, json!({"type": "done", "result": {"n": 1}}), json!({"result": {"n": 1}})),
            (
                error,
                json!({"type": "error", "code": "x", "message": "why"}),
                json!({"code": "x", "message": "why"}),
            ),
        ] {
            assert_eq!(json!(line), written);
            assert_eq!(serde_json::from_str::<Value>(&line.data()).unwrap(), data);
            assert_eq!(ReplyLine::read(written.to_string().as_bytes()), Ok(line));
        }
        assert_eq!(ReplyLine::read(br#"{"type": "done"}"#), Ok(ReplyLine::Done { result: Value::Null }));
        for (line, wrong) in [
            (r#"{"type": "end"}"#, "type: must be chunk, done or error"),
            ("7", "type: must be chunk, done or error"),
            (r#"{"type": "chunk", "text": 1}"#, "text: must be a string"),
            (r#"{"type": "error", "code": "x"}"#, "message: must be a string"),
        ] {
            assert_eq!(ReplyLine::read(line.as_bytes()).unwrap_err(), wrong);
        }
    }

    #[test]
    fn a_challenge_is_a_question_and_its_own_answer() {
        let challenge = Challenge { challenge: "c".into() };
        let question = EndpointQuestion::Challenge(challenge.clone());
        assert_eq!(json!(question), json!({"type": "challenge", "challenge": "c"}));
        assert_eq!(serde_json::from_value::<EndpointQuestion>(json!(question)).unwrap(), question);
        assert_eq!(json!(challenge), json!({"challenge": "c"}));
        assert!(
            serde_json::from_value::<EndpointQuestion>(json!({"type": "ping", "challenge": "c"})).is_err()
        );
    }
}
