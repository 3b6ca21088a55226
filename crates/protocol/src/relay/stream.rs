//! What goes between a hub and an endpoint or a receiver besides messages: notices, a streamed reply, and a challenge.

use crate::json;
use crate::words::words;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

words! {
    /// What a receiver says while its sender listens: the name of the server-sent event, and the `type` of a line.
    pub enum ReplyKind {
        /// A piece of its output.
        Chunk = "chunk",
        /// It is done.
        Done = "done",
        /// It failed.
        Error = "error",
    }
}

words! {
    /// What is said on a stream about the stream itself: the name of the server-sent event.
    pub enum Notice {
        /// It begins.
        Connected = "connected",
        /// What was asked for is gone.
        Gap = "gap",
        /// Another connection took its place.
        Takeover = "takeover",
        /// What it was opened with is good no longer.
        Revoked = "revoked",
        /// Somebody is writing.
        Typing = "typing",
        /// A message is being made, and is so far.
        Growing = "growing",
        /// Something is said to whoever looks now, and kept in no log.
        Ephemeral = "ephemeral",
        /// Something waits until a person agrees, or waits no longer: told to people, without a word of it.
        Approvals = "approvals",
        /// Who holds an event, or was knocked about it, is not what it was: told to people, who ask for the rest.
        Attention = "attention",
    }
}

/// One line of a reply that a receiver POSTs while it is made. The last one is `done` or `error`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ReplyLine {
    /// A piece of the answer.
    Chunk {
        /// What it says.
        text: String,
    },
    /// The end.
    Done {
        /// The whole answer.
        result: Value,
    },
    /// There is no answer.
    Error {
        /// Why, for a program.
        code: String,
        /// Why, for a person.
        message: String,
    },
}

impl ReplyLine {
    /// What it is.
    pub fn kind(&self) -> ReplyKind {
        match self {
            Self::Chunk { .. } => ReplyKind::Chunk,
            Self::Done { .. } => ReplyKind::Done,
            Self::Error { .. } => ReplyKind::Error,
        }
    }

    /// Reads a line, or says what is wrong with it.
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

    /// The same as the data of a server-sent event, whose name says its kind.
    pub fn data(&self) -> String {
        let data = match self {
            Self::Chunk { text } => json!({"text": text}),
            Self::Done { result } => json!({"result": result}),
            Self::Error { code, message } => json!({"code": code, "message": message}),
        };
        data.to_string()
    }
}

/// What a hub asks of an endpoint, before it sends it anything else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EndpointQuestion {
    /// Whether it wants what the hub sends: it answers with the challenge.
    Challenge(Challenge),
}

/// A challenge, and the same as an answer to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Challenge {
    /// What is to be said back.
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
