//! A stored message, as far as rules read it.

use crate::StoreError;
use chorus_attention::{Event, classify, intent};
use chorus_protocol::ids::EventId;
use chorus_protocol::mentions::mentions;
use chorus_protocol::words::{Directedness, Intent, Priority};
use serde_json::Value;

/// The body of a stored message.
pub(super) struct StoredMessage(Value);

impl StoredMessage {
    pub(super) fn read(body: &str) -> Result<Self, StoreError> {
        serde_json::from_str(body).map(Self).map_err(StoreError::unexpected)
    }

    pub(super) fn text(&self) -> &str {
        self.word("content").unwrap_or_default()
    }

    fn word(&self, name: &str) -> Option<&str> {
        self.0[name].as_str()
    }

    /// Returns `true` if the body has this member.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.get(name).is_some()
    }

    /// Returns the handles that the message is addressed to besides its mentions.
    pub(super) fn recipients(&self) -> Vec<&str> {
        self.0["to"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Returns the names that the message mentions or is addressed to.
    pub(super) fn names(&self) -> Vec<&str> {
        mentions(self.text()).into_iter().chain(self.recipients()).collect()
    }

    /// Returns the intent that the author declared, or else the one of the text.
    pub(super) fn intent(&self) -> Intent {
        let text = self.text();
        let names_somebody = !mentions(text).is_empty();
        classify(Event { names_somebody, ..self.declared(Event { text, ..Event::default() }) }).intent
    }

    /// Returns the intent as it matters to those that answer the message.
    pub(super) fn answered_intent(&self) -> Intent {
        let intent = self.intent();
        if self.has("intent") { intent } else { intent::of_answered(self.text(), intent) }
    }

    /// Returns the message that this one answers without naming it (see [`crate::conversation::Draft`]).
    pub(super) fn answered(&self) -> Option<EventId> {
        EventId::parse(self.word("answers")?)
    }

    /// Returns an event with everything that the author declared of this message.
    pub(super) fn declared<'a>(&self, event: Event<'a>) -> Event<'a> {
        Event {
            intent: self.word("intent").and_then(Intent::parse),
            directedness: self.word("directedness").and_then(Directedness::parse),
            priority: self.word("priority").and_then(Priority::parse),
            deadline_ms: self.0["deadline_ms"].as_i64(),
            ..event
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_intent_of_an_earlier_message_is_as_it_was_meant() {
        let intent = |body: &str| StoredMessage::read(body).unwrap().intent();
        assert_eq!(intent(r#"{"content": "Shall I deploy it?"}"#), Intent::ApprovalRequest);
        assert_eq!(intent(r#"{"content": "Shall I?", "intent": "chat"}"#), Intent::Chat);
        assert_eq!(intent(r#"{"content": "@bob fix the parser"}"#), Intent::Assignment);
    }

    #[test]
    fn an_offer_waits_for_an_answer_unless_it_is_declared_to_be_something_else() {
        let intent = |body: &str| StoredMessage::read(body).unwrap().answered_intent();
        assert_eq!(intent(r#"{"content": "Tell me if you want that."}"#), Intent::ApprovalRequest);
        assert_eq!(intent(r#"{"content": "Tell me if you want that.", "intent": "status"}"#), Intent::Status);
        assert_eq!(intent(r#"{"content": "Fixed."}"#), Intent::Chat);
    }
}
