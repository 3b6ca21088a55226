//! Validation of envelopes and agent cards.

use super::{CARD_VERSION, CHORUS_VERSION, MAX_LANGUAGE_TAG};
use crate::address::Address;
use crate::faults::{Faults, Fields, kind};
use crate::json;
use oxilangtag::LanguageTag;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The parts of a valid envelope that the transport needs. The envelope itself is relayed unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    pub sender: Address,
    /// The conversation id and turn number, if the envelope has both.
    pub turn: Option<(String, i64)>,
}

/// The number of replies to replies after which agents stop answering each other.
pub const MAX_REPLY_DEPTH: u64 = 8;

/// The parts of an envelope that a reader needs. The hub may not have validated it, so invalid members count
/// as absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct EnvelopeText {
    /// The text in the sender's language.
    #[serde(default, deserialize_with = "json::known")]
    pub original_text: Option<String>,
    /// The language and culture of the sender.
    #[serde(default, deserialize_with = "json::known")]
    pub sender_culture: Option<String>,
    /// Context for readers of another culture.
    #[serde(default, deserialize_with = "json::known")]
    pub cultural_context: Option<String>,
    /// The id of the exchange.
    #[serde(default, deserialize_with = "json::known")]
    pub conversation_id: Option<String>,
    /// The position in the exchange.
    #[serde(default, deserialize_with = "read_turn_number")]
    pub turn_number: Option<i64>,
    // This member is an extension of the transport document.
    /// The number of replies to replies before this one, as counted by the senders.
    #[serde(default, deserialize_with = "json::known")]
    pub reply_depth: Option<u64>,
}

impl EnvelopeText {
    /// Reads an envelope leniently; invalid JSON gives an empty one.
    pub fn read(envelope: &str) -> Self {
        serde_json::from_str(envelope).unwrap_or_default()
    }

    /// Returns `true` if the chain of replies has reached [`MAX_REPLY_DEPTH`], so the envelope must not be
    /// answered.
    pub fn is_too_deep(&self) -> bool {
        self.depth() >= MAX_REPLY_DEPTH
    }

    /// Returns the number of replies to replies before this one.
    pub fn depth(&self) -> u64 {
        self.reply_depth.unwrap_or(0)
    }

    /// Returns the conversation id and turn number, if the envelope has both.
    pub fn turn(&self) -> Option<(&str, i64)> {
        self.conversation_id.as_deref().zip(self.turn_number)
    }
}

fn read_turn_number<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<i64>, D::Error> {
    Ok(turn_number(&Value::deserialize(reader)?))
}

/// Validates an envelope and adds every fault.
pub fn check_envelope(value: &Value, path: &str, faults: &mut Faults) -> Option<Envelope> {
    let mut fields = Fields::of(value, path, faults)?;
    if let Some(version) = fields.required_text("chorus_version")
        && version != CHORUS_VERSION
    {
        fields.fault("chorus_version", format_args!("must be \"{CHORUS_VERSION}\""));
    }
    let sender = address(&mut fields, "sender_id");
    if let Some(text) = fields.required_text("original_text") {
        fields.check_length("original_text", text, 1, 10_000);
    }
    if let Some(culture) = fields.required_text("sender_culture") {
        check_language(&mut fields, "sender_culture", culture);
    }
    if let Some(context) = fields.optional_text("cultural_context") {
        fields.check_length("cultural_context", context, 10, 500);
    }
    let conversation = fields.optional_text("conversation_id");
    if let Some(conversation) = conversation {
        fields.check_length("conversation_id", conversation, 1, 64);
    }
    let turn_number = fields.get("turn_number").and_then(|value| {
        let number = turn_number(value);
        if number.is_none() {
            fields.fault("turn_number", "must be an integer of 1 or more");
        }
        number
    });
    let turn = conversation.map(str::to_owned).zip(turn_number);
    sender.map(|sender| Envelope { sender, turn })
}

/// Reads a turn number: an integer of 1 or more, also if written with a fraction of zero (`3.0`).
pub fn turn_number(value: &Value) -> Option<i64> {
    json::whole(value).filter(|number| *number >= 1)
}

/// Validates an agent card and adds every fault.
pub fn check_card(value: &Value, path: &str, faults: &mut Faults) {
    let Some(mut fields) = Fields::of(value, path, faults) else {
        return;
    };
    if fields.get("chorus_version").is_some() && fields.get("card_version").is_none() {
        fields.fault(
            "chorus_version",
            format_args!("was renamed in card version 0.3: use card_version \"{CARD_VERSION}\""),
        );
    } else if let Some(version) = fields.required_text("card_version")
        && version != CARD_VERSION
    {
        fields.fault("card_version", format_args!("must be \"{CARD_VERSION}\""));
    }
    if let Some(culture) = fields.required_text("user_culture") {
        check_language(&mut fields, "user_culture", culture);
    }
    match fields.required("supported_languages") {
        Some(Value::Array(languages)) if languages.is_empty() => {
            fields.fault("supported_languages", "must name at least one language");
        }
        Some(Value::Array(languages)) if languages.len() > 100 => {
            fields.fault("supported_languages", "must name at most 100 languages");
        }
        Some(Value::Array(languages)) => {
            for (n, language) in languages.iter().enumerate() {
                let name = format!("supported_languages[{n}]");
                match language.as_str() {
                    Some(tag) => check_language(&mut fields, &name, tag),
                    None => fields.fault(&name, format_args!("must be a string, not {}", kind(language))),
                }
            }
        }
        Some(other) => {
            fields.fault("supported_languages", format_args!("must be an array, not {}", kind(other)));
        }
        None => {}
    }
}

/// Reads a required address.
pub(super) fn address(fields: &mut Fields<'_, '_>, name: &str) -> Option<Address> {
    let text = fields.required_text(name)?;
    Address::parse(text).map_err(|fault| fields.fault(name, fault)).ok()
}

fn check_language(fields: &mut Fields<'_, '_>, name: &str, tag: &str) {
    if tag.len() > MAX_LANGUAGE_TAG {
        fields.fault(
            name,
            format_args!(
                "must be a language tag of at most {MAX_LANGUAGE_TAG} characters, such as \"zh-CN\""
            ),
        );
    } else if LanguageTag::parse(tag).is_err() {
        fields.fault(name, "must be a BCP 47 language tag such as \"en\" or \"zh-CN\"");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn faults_of(value: &Value) -> String {
        let mut faults = Faults::new();
        check_envelope(value, "envelope", &mut faults);
        faults.to_string()
    }

    #[test]
    fn what_is_read_of_an_envelope_that_nobody_checked() {
        let odd = EnvelopeText::read(
            r#"{"original_text": "hi", "sender_culture": 1, "turn_number": 3.0, "x": {}}"#,
        );
        assert_eq!((odd.original_text.as_deref(), odd.sender_culture), (Some("hi"), None));
        assert_eq!(odd.turn_number, Some(3));
        let turn = EnvelopeText::read(r#"{"conversation_id": "c", "turn_number": 1}"#);
        assert_eq!(turn.turn(), Some(("c", 1)));
        assert_eq!(EnvelopeText::read(r#"{"conversation_id": "c", "turn_number": 0}"#).turn(), None);
        assert_eq!(EnvelopeText::read("[]"), EnvelopeText::default());
    }

    #[test]
    fn the_documents_envelope() {
        let envelope = json!({
            "chorus_version": "0.4",
            "sender_id": "alice@chorus.example",
            "original_text": "下午一起喝杯咖啡?",
            "sender_culture": "zh-CN",
            "cultural_context": "中国同事之间用「喝咖啡」作为非正式交流的邀请,表达善意和亲近,不一定真的要喝咖啡"
        });
        let mut faults = Faults::new();
        let checked = check_envelope(&envelope, "envelope", &mut faults).unwrap();
        assert_eq!(faults.to_string(), "");
        assert_eq!(checked.sender.to_string(), "alice@chorus.example");
        assert_eq!(checked.turn, None);
    }

    #[test]
    fn every_fault_at_once() {
        assert_eq!(
            faults_of(&json!({
                "chorus_version": "0.3", "sender_id": "a b", "original_text": "", "sender_culture": "en_US",
                "cultural_context": "short", "conversation_id": "c".repeat(65), "turn_number": 0
            })),
            "envelope.chorus_version: must be \"0.4\"; \
             envelope.sender_id: must be an address like name@host or the short form name (letters, digits, '.', '_' and '-'; a port may follow the host); \
             envelope.original_text: must be 1 to 10000 characters, not 0; \
             envelope.sender_culture: must be a BCP 47 language tag such as \"en\" or \"zh-CN\"; \
             envelope.cultural_context: must be 10 to 500 characters, not 5; \
             envelope.conversation_id: must be 1 to 64 characters, not 65; \
             envelope.turn_number: must be an integer of 1 or more"
        );
        assert_eq!(
            faults_of(&json!({})),
            "envelope.chorus_version: is required; envelope.sender_id: is required; \
             envelope.original_text: is required; envelope.sender_culture: is required"
        );
        assert_eq!(faults_of(&json!([])), "envelope: must be an object, not an array");
    }

    #[test]
    fn bounds_are_code_points_and_inclusive() {
        let with = |text: String| {
            faults_of(
                &json!({"chorus_version": "0.4", "sender_id": "a", "original_text": text, "sender_culture": "en"}),
            )
        };
        assert_eq!(with("字".repeat(10_000)), "");
        assert_ne!(with("字".repeat(10_001)), "");
    }

    #[test]
    fn a_culture_has_an_end() {
        let with = |culture: &str| {
            faults_of(
                &json!({"chorus_version": "0.4", "sender_id": "a", "original_text": "x", "sender_culture": culture}),
            )
        };
        assert_eq!(with("zh-cmn-Hans-CN-variant1-x-private-a"), "");
        assert_eq!(
            with(&format!("x{}", "-a".repeat(4000))),
            "envelope.sender_culture: must be a language tag of at most 35 characters, such as \"zh-CN\""
        );
    }

    #[test]
    fn turns_are_integers_from_one() {
        for (turn, good) in [
            (json!(1), true),
            (json!(i64::MAX), true),
            (json!(3.0), true),
            (json!(1e18), true),
            (json!(1e19), false),
            (json!(u64::MAX), false),
            (json!(0.0), false),
            (json!(-3.0), false),
            (json!(1.5), false),
            (json!("1"), false),
            (json!(-1), false),
            (json!(null), true),
        ] {
            let faults = faults_of(&json!({
                "chorus_version": "0.4", "sender_id": "a", "original_text": "x", "sender_culture": "en", "turn_number": turn
            }));
            assert_eq!(faults.is_empty(), good, "{turn}");
        }
    }

    #[test]
    fn the_old_card_learns_the_new_name() {
        let mut faults = Faults::new();
        check_card(
            &json!({"chorus_version": "0.2", "user_culture": "en", "supported_languages": ["en"]}),
            "agent_card",
            &mut faults,
        );
        assert_eq!(
            faults.to_string(),
            "agent_card.chorus_version: was renamed in card version 0.3: use card_version \"0.3\""
        );
    }

    #[test]
    fn cards() {
        let (longest, long) = ("zh-cmn-Hans-CN-variant1-x-private-a", "zh-cmn-Hans-CN-variant1-x-private-ab");
        for (card, expected) in [
            (
                json!({"card_version": "0.3", "user_culture": "zh-CN", "supported_languages": ["zh-CN", "en"]}),
                "",
            ),
            (
                json!({"card_version": "0.3", "user_culture": "en", "supported_languages": []}),
                "agent_card.supported_languages: must name at least one language",
            ),
            (
                json!({"card_version": "0.3", "user_culture": "en", "supported_languages": [1, "e_n"]}),
                "agent_card.supported_languages[0]: must be a string, not a number; \
                 agent_card.supported_languages[1]: must be a BCP 47 language tag such as \"en\" or \"zh-CN\"",
            ),
            (
                json!({"card_version": "0.3", "user_culture": long, "supported_languages": [longest, long]}),
                "agent_card.user_culture: must be a language tag of at most 35 characters, such as \"zh-CN\"; \
                 agent_card.supported_languages[1]: must be a language tag of at most 35 characters, such as \"zh-CN\"",
            ),
        ] {
            let mut faults = Faults::new();
            check_card(&card, "agent_card", &mut faults);
            assert_eq!(faults.to_string(), expected);
        }
    }
}
