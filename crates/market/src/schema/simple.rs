//! The document's own form: `{"text": "string", "entities": "list"}`. Every name is required; others may be there as well.

use chorus_protocol::faults::{Faults, kind};
use serde_json::{Map, Value};

/// The names, each with its type.
#[derive(Debug)]
pub struct Simple(Vec<(String, Type)>);

/// The types of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    String,
    Number,
    Integer,
    Boolean,
    List,
    Object,
    Any,
}

const TYPES: [(&str, Type); 7] = [
    ("string", Type::String),
    ("number", Type::Number),
    ("integer", Type::Integer),
    ("boolean", Type::Boolean),
    ("list", Type::List),
    ("object", Type::Object),
    ("any", Type::Any),
];

impl Simple {
    pub(super) fn read(members: &Map<String, Value>, path: &str, faults: &mut Faults) -> Option<Self> {
        let mut fields = vec![];
        for (name, declared) in members {
            let found = TYPES.iter().find(|(known, _)| declared == known);
            match found {
                Some((_, found)) => fields.push((name.clone(), *found)),
                None => faults.add(
                    &format!("{path}.{name}"),
                    "must be string, number, integer, boolean, list, object or any; a JSON Schema says so with \"type\": \"object\"",
                ),
            }
        }
        (fields.len() == members.len()).then_some(Self(fields))
    }

    pub(super) fn check(&self, data: &Value, path: &str, faults: &mut Faults) {
        let Value::Object(members) = data else {
            return faults.add(path, format_args!("must be an object, not {}", kind(data)));
        };
        for (name, declared) in &self.0 {
            let path = format!("{path}.{name}");
            match members.get(name) {
                None => faults.add(&path, "is required"),
                Some(value) if !declared.fits(value) => {
                    faults.add(&path, format_args!("must be {}, not {}", declared.words(), kind(value)));
                }
                Some(_) => {}
            }
        }
    }
}

impl Type {
    fn fits(self, value: &Value) -> bool {
        match self {
            Self::String => value.is_string(),
            Self::Number => value.is_number(),
            Self::Integer => is_integer(value),
            Self::Boolean => value.is_boolean(),
            Self::List => value.is_array(),
            Self::Object => value.is_object(),
            Self::Any => true,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::String => "a string",
            Self::Number => "a number",
            Self::Integer => "an integer",
            Self::Boolean => "a boolean",
            Self::List => "a list",
            Self::Object => "an object",
            Self::Any => "there",
        }
    }
}

/// A whole number, also one that is written `3.0`.
pub(super) fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
}
