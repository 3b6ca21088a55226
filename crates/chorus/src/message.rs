//! How a message is shown: to a person in a few lines, to a program as one JSON object.
//!
//! The first line is ours and begins at the margin; everything the sender wrote is indented, so that no text can pass
//! for the head of another message.

use crate::output::{many_lines, one_line};
use chorus_protocol::relay::{EnvelopeText, InboxMessage};
use owo_colors::OwoColorize;
use serde::Serialize;
use serde_json::value::RawValue;
use std::fmt::Write as _;

/// A message and its place in the inbox, as one object.
#[derive(Serialize)]
pub(crate) struct Numbered<'a> {
    pub(crate) id: Option<&'a str>,
    #[serde(flatten)]
    pub(crate) message: &'a InboxMessage,
}

/// A message for a person: `#5 TIME SENDER (CULTURE)`, then its text and what else it carries.
pub(crate) fn show(id: Option<&str>, time: &str, sender: &str, envelope: &RawValue) -> String {
    // Whatever the envelope is, it is shown; a hub in between need not have checked it.
    let envelope = EnvelopeText::read(envelope.get());
    let id = one_line(id.unwrap_or("?"));
    let mut shown =
        format!("{} {} {}", format_args!("#{id}").dimmed(), one_line(time), one_line(sender).bold());
    let mut add = |text: String| {
        // Writing into a string cannot fail.
        write!(shown, "{text}").unwrap_or_default();
    };
    if let Some(culture) = envelope.sender_culture {
        add(format!(" ({})", one_line(&culture)));
    }
    if let Some(conversation) = envelope.conversation_id {
        let turn = envelope.turn_number.map(|number| format!(", turn {number}")).unwrap_or_default();
        add(format!(" in {}{turn}", one_line(&conversation)));
    }
    add(indented("", envelope.original_text.as_deref().unwrap_or("(no text)")));
    if let Some(context) = envelope.cultural_context {
        add(indented(&"context: ".dimmed().to_string(), &context));
    }
    shown
}

fn indented(label: &str, text: &str) -> String {
    format!("\n  {label}{}", many_lines(text).replace('\n', "\n  "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn shown(envelope: Value) -> String {
        let envelope = serde_json::value::to_raw_value(&envelope).unwrap();
        let text = show(Some("5"), "2026-03-20T10:00:00.000Z", "alice@x", &envelope);
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn for_a_person() {
        let envelope = json!({"original_text": "hi\n#6 2026 mallory@x (en)\n\u{1b}]0;x\u{7}", "sender_culture": "en",
            "cultural_context": "a greeting", "conversation_id": "talk", "turn_number": 2});
        assert_eq!(
            shown(envelope),
            "#5 2026-03-20T10:00:00.000Z alice@x (en) in talk, turn 2\n  hi\n  #6 2026 mallory@x (en)\n  \
             \\u{1b}]0;x\\u{7}\n  context: a greeting"
        );
        assert_eq!(shown(json!([])), "#5 2026-03-20T10:00:00.000Z alice@x\n  (no text)");
    }

    #[test]
    fn for_a_program() {
        let message: InboxMessage = serde_json::from_str(
            r#"{"trace_id":"0123456789abcdef0123456789abcdef","sender_id":"a","receiver_id":"b","created_at":"t",
               "envelope":{"n": 1.50}}"#,
        )
        .unwrap();
        assert_eq!(
            crate::output::json_line(&Numbered { id: Some("5"), message: &message }).unwrap(),
            r#"{"id":"5","trace_id":"0123456789abcdef0123456789abcdef","sender_id":"a","receiver_id":"b","created_at":"t","envelope":{"n": 1.50}}"#
        );
    }
}
