//! Parses the code and the message that an agent gives for not doing a job.

use chorus_protocol::json;
use serde_json::Value;

/// Characters of an agent's message that are kept.
pub(super) const MAX_WORDS: usize = 500;

/// An agent's own reason not to do a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnWords {
    /// The agent's code, if it is spelled like one of the protocol's.
    pub(super) code: Option<String>,
    /// Empty if the agent gave a code only.
    pub(super) message: String,
}

impl OwnWords {
    /// Parses `{"error": {"code", "message"}}`, a job result, or plain text.
    pub(super) fn read(answer: &[u8]) -> Option<Self> {
        let value = json::parse(answer).unwrap_or_else(|_| String::from_utf8_lossy(answer).into());
        let text = |path: &str| value.pointer(path).and_then(Value::as_str);
        let code =
            ["/error/code", "/error_code", "/code"].into_iter().find_map(text).filter(|code| is_code(code));
        let messages = ["/error/message", "/error_message", "/message", "/detail", "/error", ""];
        let message = messages.into_iter().find_map(text).unwrap_or_default();
        let message: String = message.chars().filter(|sign| !sign.is_control()).take(MAX_WORDS).collect();
        let code = code.map(str::to_owned);
        (code.is_some() || !message.trim().is_empty()).then_some(Self { code, message })
    }
}

/// Returns whether a text is spelled like the protocol's codes.
fn is_code(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|sign: char| sign.is_ascii_uppercase())
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}
