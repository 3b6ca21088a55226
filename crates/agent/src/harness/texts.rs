//! Texts for a channel: without credentials, and cut to a limit.

use chorus_protocol::channel::{CallbackEvent, MAX_ERROR};
use chorus_protocol::redact::redact;

/// Creates the event that reports a failure to a channel.
pub(crate) fn error_event(why: &str, code: &str) -> CallbackEvent {
    let mut message = clean(why, MAX_ERROR);
    if message.is_empty() {
        message = "it failed".into();
    }
    CallbackEvent::Error { message, code: Some(code.to_owned()) }
}

/// Masks credentials and cuts the text to `max` characters.
pub(crate) fn clean(text: &str, max: usize) -> String {
    let masked = redact(text);
    cut(masked.as_ref().map_or(text, |masked| &masked.text), max)
}

/// Cuts a text to `max` characters, with an ellipsis at the end.
pub(crate) fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some(_) => text.chars().take(max.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_masked_and_cut() {
        assert_eq!(clean("key ca_0123456789abcdef0123456789abcdef", 100), "key [redacted: agent key]");
        assert_eq!((cut("abc", 3).as_str(), cut("abcd", 3).as_str()), ("abc", "ab…"));
    }
}
