//! The input of a skill as form fields: one for each property of its schema, or one for the whole object.

use crate::form::Form;
use serde_json::{Map, Value};

/// The most properties with fields of their own. A larger schema gets one field for the whole object.
const MOST_FIELDS: usize = 20;
/// The name of the field for the whole object.
const WHOLE: &str = "input";

/// One field of the form.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// The field's name in the form.
    pub(crate) name: String,
    /// The property's name in the schema.
    pub(crate) label: String,
    pub(crate) kind: Kind,
    pub(crate) required: bool,
    pub(crate) about: String,
    /// The text that the visitor submitted.
    pub(crate) value: String,
}

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Number,
    Switch,
    Json,
}

impl Field {
    pub(crate) fn is(&self, kind: &str) -> bool {
        let own = match self.kind {
            Kind::Text => "text",
            Kind::Number => "number",
            Kind::Switch => "switch",
            Kind::Json => "json",
        };
        own == kind
    }
}

/// Returns the fields for a schema: either a JSON Schema, or a plain map of names to types.
pub(crate) fn fields(schema: Option<&Value>) -> Vec<Field> {
    let names = schema.and_then(Value::as_object).filter(|names| !names.is_empty());
    let fields = names.and_then(|names| match names.get("properties").and_then(Value::as_object) {
        Some(properties) => {
            let required = names.get("required").and_then(Value::as_array);
            let is_required = |name: &String| required.is_some_and(|list| list.iter().any(|one| one == name));
            let field = |(name, inner): (&String, &Value)| {
                let about = inner.get("description").and_then(Value::as_str).unwrap_or_default();
                field(name, inner.get("type"), is_required(name), about)
            };
            Some(properties.iter().map(field).collect::<Vec<_>>())
        }
        None if names.contains_key("$schema") || names.get("type").is_some_and(|name| name == "object") => {
            None
        }
        None => Some(names.iter().map(|(name, kind)| field(name, Some(kind), true, "")).collect()),
    });
    let fields = fields.filter(|fields| (1..=MOST_FIELDS).contains(&fields.len()));
    fields.unwrap_or_else(|| {
        let about = "a JSON object".to_owned();
        let (name, label) = (WHOLE.to_owned(), "Input".to_owned());
        vec![Field { name, label, kind: Kind::Json, required: true, about, value: "{}".into() }]
    })
}

fn field(name: &str, kind: Option<&Value>, required: bool, about: &str) -> Field {
    let kind = match kind.and_then(Value::as_str) {
        Some("string") => Kind::Text,
        Some("number" | "integer") => Kind::Number,
        Some("boolean") => Kind::Switch,
        _ => Kind::Json,
    };
    Field {
        name: format!("{WHOLE}.{name}"),
        label: name.to_owned(),
        kind,
        required,
        about: about.chars().take(200).collect(),
        value: String::new(),
    }
}

/// Builds the skill's input object from the form. The submitted texts are kept in the fields.
pub(crate) fn read(fields: &mut [Field], form: &Form) -> Result<Value, String> {
    for field in fields.iter_mut() {
        field.value = form.text(&field.name);
    }
    let mut object = Map::new();
    for field in fields.iter() {
        if field.name == WHOLE {
            let whole: Value = serde_json::from_str(&field.value).map_err(|_| wrong(field))?;
            return if whole.is_object() { Ok(whole) } else { Err(wrong(field)) };
        }
        if field.value.is_empty()
            && field.kind != Kind::Switch
            && !(field.required && field.kind == Kind::Text)
        {
            continue;
        }
        let value = match field.kind {
            Kind::Text => Value::String(field.value.clone()),
            Kind::Switch => Value::Bool(!field.value.is_empty()),
            Kind::Number => {
                let number = serde_json::from_str::<serde_json::Number>(&field.value);
                Value::Number(number.map_err(|_| wrong(field))?)
            }
            Kind::Json => serde_json::from_str(&field.value).map_err(|_| wrong(field))?,
        };
        object.insert(field.label.clone(), value);
    }
    Ok(Value::Object(object))
}

fn wrong(field: &Field) -> String {
    let what = match field.kind {
        Kind::Number => "a number",
        _ if field.name == WHOLE => "a JSON object, such as {\"text\": \"…\"}",
        _ => "JSON, such as [1, 2] or \"text\"",
    };
    format!("{}: must be {what}", field.label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kinds(schema: &Value) -> Vec<(String, Kind, bool)> {
        fields(Some(schema)).into_iter().map(|field| (field.label, field.kind, field.required)).collect()
    }

    #[test]
    fn both_forms_of_a_schema_become_fields() {
        let named = |name: &str, kind, required| (name.to_owned(), kind, required);
        let simple = json!({"text": "string", "count": "integer", "loud": "boolean", "parts": "list"});
        let mut found = kinds(&simple);
        found.sort_by(|a, b| a.0.cmp(&b.0));
        let wanted = [
            named("count", Kind::Number, true),
            named("loud", Kind::Switch, true),
            named("parts", Kind::Json, true),
            named("text", Kind::Text, true),
        ];
        assert_eq!(found, wanted);
        let schema = json!({"type": "object", "properties": {"text": {"type": "string"}, "n": {"type": "number"}}, "required": ["text"]});
        let mut found = kinds(&schema);
        found.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(found, [named("n", Kind::Number, false), named("text", Kind::Text, true)]);
        // A schema that names no property gets one field for the whole object.
        for whole in [json!({}), json!({"type": "object"}), json!({"$schema": "x", "anyOf": []})] {
            assert_eq!(kinds(&whole), [named("Input", Kind::Json, true)], "{whole}");
        }
    }
}
