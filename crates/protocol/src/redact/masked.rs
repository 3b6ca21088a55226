//! Objects without credentials, as a type: what members say is kept as nothing else.

use super::redact;
use serde_json::{Map, Value};

/// What may be kept of a conversation: a JSON object in whose texts every credential is masked. There is no other way to make
/// one than to mask it, so that nothing else can be kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Masked {
    members: Map<String, Value>,
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
        Self { members, kinds }
    }

    /// A member that is a text; empty if it is none.
    pub fn text(&self, name: &str) -> &str {
        self.members.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The kinds of what was masked, each once, in order.
    pub fn kinds(&self) -> &[&'static str] {
        &self.kinds
    }

    /// As it is kept.
    pub fn to_json(&self) -> String {
        serde_json::to_string(&self.members).unwrap_or_default()
    }
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
        let kept: Value = serde_json::from_str(&masked.to_json()).unwrap();
        assert_eq!(kept["args"], json!({"list": [1, "[redacted: agent key]", null], "deep": {"x": HEX}}));
        assert_eq!((&kept["masked"], &kept["id"]), (&json!(["agent key"]), &json!("tc_1")));
        assert_eq!(Masked::new(Map::new()).to_json(), "{}");
    }
}
