//! Texts for a channel: without credentials, and cut to a limit.

use chorus_protocol::channel::{CallbackEvent, MAX_ERROR};
use chorus_protocol::redact::redact;
use serde_json::{Map, Value};

/// Creates the event that reports a failure to a channel.
pub(crate) fn error_event(why: &str, code: &str) -> CallbackEvent {
    let mut message = clean(why, MAX_ERROR);
    if message.is_empty() {
        message = "it failed".into();
    }
    CallbackEvent::Error { message, code: Some(code.to_owned()) }
}

/// Masks credentials, removes U+0000 and cuts the text to `max` characters.
pub(crate) fn clean(text: &str, max: usize) -> String {
    let text = without_nul(text.to_owned());
    let masked = redact(&text);
    cut(masked.as_ref().map_or(&text, |masked| &masked.text), max)
}

/// Removes U+0000, which a hub does not accept, from what a driver says.
pub(crate) fn without_nul(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "") } else { text }
}

/// Removes U+0000 from all texts of a tool's arguments.
pub(crate) fn arguments_without_nul(arguments: Map<String, Value>) -> Map<String, Value> {
    arguments.into_iter().map(|(name, value)| (without_nul(name), value_without_nul(value))).collect()
}

fn value_without_nul(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(without_nul(text)),
        Value::Array(values) => Value::Array(values.into_iter().map(value_without_nul).collect()),
        Value::Object(members) => Value::Object(arguments_without_nul(members)),
        value => value,
    }
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
    fn a_hub_gets_no_nul() {
        assert_eq!(clean("a\0b", 100), "ab");
        let arguments = serde_json::json!({"a\0": ["b\0", {"c": "\0"}, 7]});
        let clean = arguments_without_nul(arguments.as_object().cloned().unwrap());
        assert_eq!(Value::Object(clean), serde_json::json!({"a": ["b", {"c": ""}, 7]}));
    }

    #[test]
    fn texts_are_masked_and_cut() {
        assert_eq!(clean("key ca_0123456789abcdef0123456789abcdef", 100), "key [redacted: agent key]");
        assert_eq!((cut("abc", 3).as_str(), cut("abcd", 3).as_str()), ("abc", "ab…"));
    }
}
