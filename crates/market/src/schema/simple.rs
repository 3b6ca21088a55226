//! The market document's own form: `{"text": "string", "entities": "list"}`. Every name is required;
//! additional members are allowed.

use chorus_protocol::faults::Faults;
use chorus_protocol::schema::{JsonType, Property, SchemaNode};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The types in the market document, with the words that complete "must be …". `any` has no type.
const TYPES: [(&str, Option<JsonType>, &str); 7] = [
    ("string", Some(JsonType::String), "a string"),
    ("number", Some(JsonType::Number), "a number"),
    ("integer", Some(JsonType::Integer), "an integer"),
    ("boolean", Some(JsonType::Boolean), "a boolean"),
    ("list", Some(JsonType::Array), "a list"),
    ("object", Some(JsonType::Object), "an object"),
    ("any", None, ""),
];

pub(super) fn read(members: &Map<String, Value>, path: &str, faults: &mut Faults) -> Option<SchemaNode> {
    let mut properties = BTreeMap::new();
    for (name, declared) in members {
        match TYPES.iter().find(|(known, ..)| declared == known) {
            Some((_, type_, expected)) => {
                let node = node((*type_).into_iter().collect(), expected);
                properties.insert(name.clone(), Property { required: true, node });
            }
            None => faults.add(
                &format!("{path}.{name}"),
                "must be string, number, integer, boolean, list, object or any; a JSON Schema says so with \"type\": \"object\"",
            ),
        }
    }
    let whole = SchemaNode { properties, ..node(vec![JsonType::Object], "an object") };
    (whole.properties.len() == members.len()).then_some(whole)
}

fn node(types: Vec<JsonType>, expected: &str) -> SchemaNode {
    SchemaNode { types, expected: expected.into(), ..SchemaNode::default() }
}
