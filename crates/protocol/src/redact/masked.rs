//! What is without credentials, as types: what members say is kept as nothing else.

use super::redact;
use serde_json::{Map, Value};
use std::fmt::Display;

/// What may be kept of a conversation: a JSON object in whose texts every credential is masked. There is no other way to make
/// one than to mask it, so that nothing else can be kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Masked {
    object: Value,
    json: String,
    kinds: Vec<&'static str>,
}

impl Masked {
    /// Masks the credentials in all texts of this object, wherever they stand. What they were is noted in its member `masked`.
    pub fn new(mut members: Map<String, Value>) -> Self {
        let mut kinds = vec![];
        members.remove("masked");
        members.values_mut().for_each(|value| mask(value, &mut kinds));
        if !kinds.is_empty() {
            members.insert("masked".into(), kinds.clone().into());
        }
        let object = Value::Object(members);
        Self { json: object.to_string(), object, kinds }
    }

    /// What was kept before, read again with members more. It is masked once more; what was masked then stays noted.
    pub fn kept(json: &str, more: Map<String, Value>) -> Result<Self, serde_json::Error> {
        let mut members: Map<String, Value> = serde_json::from_str(json)?;
        let noted = members.remove("masked");
        members.extend(more);
        let mut masked = Self::new(members);
        if let Some(noted) = noted {
            masked.object["masked"] = noted;
            masked.json = masked.object.to_string();
        }
        Ok(masked)
    }

    /// An object without members.
    pub fn nothing() -> Self {
        Self::new(Map::new())
    }

    /// The same with a member more, which the hub itself has made.
    #[must_use]
    pub fn with_id(&self, name: &str, id: impl Display) -> Self {
        let mut object = self.object.clone();
        object[name] = id.to_string().into();
        Self { json: object.to_string(), object, kinds: self.kinds.clone() }
    }

    /// A member that is a text; empty if it is none.
    pub fn text(&self, name: &str) -> &str {
        self.object.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// A member that is a whole number.
    pub fn integer(&self, name: &str) -> Option<i64> {
        self.object.get(name).and_then(Value::as_i64)
    }

    /// Whether a member is `true`.
    pub fn is_true(&self, name: &str) -> bool {
        self.object.get(name) == Some(&Value::Bool(true))
    }

    /// The kinds of what was masked, each once, in order.
    pub fn kinds(&self) -> &[&'static str] {
        &self.kinds
    }

    /// As it is kept.
    pub fn json(&self) -> &str {
        &self.json
    }
}

/// A text that may be kept: every credential in it is masked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskedText {
    text: String,
    kinds: Vec<&'static str>,
}

impl MaskedText {
    /// Masks the credentials in a text.
    pub fn new(text: String) -> Self {
        match redact(&text) {
            Some(redacted) => Self { text: redacted.text, kinds: redacted.masked },
            None => Self { text, kinds: vec![] },
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The kinds of what was masked, each once, in order.
    pub fn kinds(&self) -> &[&'static str] {
        &self.kinds
    }
}

/// A document as it may be kept: a text without credentials, or bytes that are no text, in which none is looked for.
///
/// Bytes that are a text are kept as that text, so that no credential passes by being spelled otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskedContent(Kept);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kept {
    Text(MaskedText),
    Bytes(Vec<u8>),
}

impl MaskedContent {
    /// Masks the credentials in a text.
    pub fn text(text: String) -> Self {
        Self(Kept::Text(MaskedText::new(text)))
    }

    /// The same for bytes that are one. U+0000 is in no text of ours: databases do not take it.
    pub fn bytes(bytes: Vec<u8>) -> Self {
        if bytes.contains(&0) {
            return Self(Kept::Bytes(bytes));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Self::text(text),
            Err(error) => Self(Kept::Bytes(error.into_bytes())),
        }
    }

    /// The text, or the bytes that are none.
    pub fn get(&self) -> Result<&str, &[u8]> {
        match &self.0 {
            Kept::Text(text) => Ok(text.as_str()),
            Kept::Bytes(bytes) => Err(bytes),
        }
    }

    /// The kinds of what was masked, each once, in order.
    pub fn kinds(&self) -> &[&'static str] {
        match &self.0 {
            Kept::Text(text) => text.kinds(),
            Kept::Bytes(_) => &[],
        }
    }
}

/// A value in whose texts every credential is masked, and the kinds of what was masked, each once, in order.
pub fn masked(mut value: Value) -> (Value, Vec<&'static str>) {
    let mut kinds = vec![];
    mask(&mut value, &mut kinds);
    (value, kinds)
}

fn mask(value: &mut Value, kinds: &mut Vec<&'static str>) {
    match value {
        Value::String(text) => {
            if let Some(redacted) = redact(text) {
                *text = redacted.text;
                let new =
                    redacted.masked.into_iter().filter(|kind| !kinds.contains(kind)).collect::<Vec<_>>();
                kinds.extend(new);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| mask(value, kinds)),
        Value::Object(members) => members.values_mut().for_each(|value| mask(value, kinds)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const HEX: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn bytes_that_are_a_text_are_masked_as_one() {
        let key = format!("use ca_{HEX}");
        let masked = MaskedContent::bytes(key.clone().into_bytes());
        assert_eq!(masked.get(), Ok("use [redacted: agent key]"));
        assert_eq!(masked, MaskedContent::text(key));
        assert_eq!(masked.kinds(), ["agent key"]);
        for bytes in [&b"\x89PNG\r\n"[..], b"text\0", b"\xff\xfe"] {
            let kept = MaskedContent::bytes(bytes.to_vec());
            assert_eq!((kept.get(), kept.kinds()), (Err(bytes), &[][..]));
        }
        assert_eq!(MaskedContent::bytes(vec![]).get(), Ok(""));
    }

    #[test]
    fn an_object_is_masked_wherever_it_has_texts() {
        let Value::Object(members) = json!({
            "content": format!("use ca_{HEX}"), "args": {"list": [1, format!("ca_{HEX}"), null], "deep": {"x": HEX}},
            "masked": ["made up"], "id": "tc_1"
        }) else {
            unreachable!()
        };
        let masked = Masked::new(members);
        assert_eq!((masked.text("content"), masked.text("args")), ("use [redacted: agent key]", ""));
        assert_eq!(masked.kinds(), ["agent key"]);
        let kept: Value = serde_json::from_str(masked.json()).unwrap();
        assert_eq!(kept["args"], json!({"list": [1, "[redacted: agent key]", null], "deep": {"x": HEX}}));
        assert_eq!((&kept["masked"], &kept["id"]), (&json!(["agent key"]), &json!("tc_1")));
        let text = MaskedText::new(format!("use ca_{HEX}"));
        assert_eq!((text.as_str(), text.kinds()), ("use [redacted: agent key]", ["agent key"].as_slice()));
        let text = MaskedText::new("nothing to hide".into());
        assert_eq!((text.as_str(), text.kinds()), ("nothing to hide", [].as_slice()));
        assert_eq!(Masked::nothing().json(), "{}");
        let (value, kinds) = super::masked(json!([{"detail": format!("ca_{HEX}")}, 1]));
        assert_eq!((value, kinds), (json!([{"detail": "[redacted: agent key]"}, 1]), vec!["agent key"]));
    }
}
