//! Types for content without credentials. Only these types can be stored, so no text of a member is stored
//! unmasked.

use super::redact;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use std::fmt::{self, Display};
use std::ops::Deref;

/// A JSON object with every credential masked. The only constructors mask, so an unmasked object cannot be
/// stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Masked {
    object: Value,
    json: String,
    kinds: Vec<&'static str>,
}

impl Masked {
    /// Masks the credentials in all texts of an object at any depth. The member `masked` lists their kinds.
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

    /// Reads a stored object and adds members. It is masked again, and the stored list of masked kinds is
    /// kept.
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

    /// Creates an empty object.
    pub fn nothing() -> Self {
        Self::new(Map::new())
    }

    /// Returns a copy with one more member, an id that the hub has created.
    #[must_use]
    pub fn with_id(&self, name: &str, id: impl Display) -> Self {
        let mut object = self.object.clone();
        object[name] = id.to_string().into();
        Self { json: object.to_string(), object, kinds: self.kinds.clone() }
    }

    /// Returns a text member; empty if it is absent or not a text.
    pub fn text(&self, name: &str) -> &str {
        self.object.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns a text member as a text to store, or `None` if it is absent or not a text.
    pub fn masked_text(&self, name: &str) -> Option<MaskedText> {
        self.object.get(name).and_then(Value::as_str).map(|text| MaskedText::stored(text.to_owned()))
    }

    /// Returns an integer member.
    pub fn integer(&self, name: &str) -> Option<i64> {
        self.object.get(name).and_then(Value::as_i64)
    }

    /// Returns `true` if a member is `true`.
    pub fn is_true(&self, name: &str) -> bool {
        self.object.get(name) == Some(&Value::Bool(true))
    }

    /// Returns the masked kinds, without repetition, in order of appearance.
    pub fn kinds(&self) -> &[&'static str] {
        &self.kinds
    }

    /// Returns the JSON to store.
    pub fn json(&self) -> &str {
        &self.json
    }
}

/// A text with every credential masked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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

    /// Wraps a text that was masked before, such as a column's.
    pub fn stored(text: String) -> Self {
        Self { text, kinds: vec![] }
    }

    /// Returns the masked text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the masked kinds, without repetition, in order of appearance.
    pub fn kinds(&self) -> &[&'static str] {
        &self.kinds
    }
}

impl Deref for MaskedText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl Display for MaskedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for MaskedText {
    fn serialize<S: Serializer>(&self, writer: S) -> Result<S::Ok, S::Error> {
        writer.serialize_str(&self.text)
    }
}

impl From<String> for MaskedText {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for MaskedText {
    fn from(text: &str) -> Self {
        Self::new(text.to_owned())
    }
}

impl From<MaskedText> for String {
    fn from(masked: MaskedText) -> Self {
        masked.text
    }
}

/// A document to store: a masked text, or bytes that are not text and are not searched.
///
/// Bytes that form a text are stored as text, so that no credential escapes masking by its encoding.
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

    /// Masks the credentials in bytes that form a text. Bytes with U+0000 count as binary, because databases
    /// reject it in texts.
    pub fn bytes(bytes: Vec<u8>) -> Self {
        if bytes.contains(&0) {
            return Self(Kept::Bytes(bytes));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Self::text(text),
            Err(error) => Self(Kept::Bytes(error.into_bytes())),
        }
    }

    /// Returns the text, or the bytes as the error.
    pub fn get(&self) -> Result<&str, &[u8]> {
        match &self.0 {
            Kept::Text(text) => Ok(text.as_str()),
            Kept::Bytes(bytes) => Err(bytes),
        }
    }

    /// Returns the masked kinds, without repetition, in order of appearance.
    pub fn kinds(&self) -> &[&'static str] {
        match &self.0 {
            Kept::Text(text) => text.kinds(),
            Kept::Bytes(_) => &[],
        }
    }
}

/// Masks the credentials in all texts of a value. Returns the value and the masked kinds, without repetition,
/// in order of appearance.
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
        let stored = MaskedText::stored("use [redacted: agent key]".into());
        assert_eq!((masked.masked_text("content"), masked.masked_text("args")), (Some(stored), None));
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
