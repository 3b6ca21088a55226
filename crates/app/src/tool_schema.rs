//! Derives the JSON Schema of a type for a model's client: without references, and closed if no other members
//! are allowed.

use chorus_protocol::c2a::{Refusal, Snake};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use utoipa::ToSchema;

/// Keywords that are only for readers of the API description.
const UNSAID: [&str; 4] = ["title", "format", "example", "examples"];
/// The greatest depth of references between the types here.
const MAX_REFERENCES: usize = 8;

/// Returns the JSON Schema of a type. A closed schema allows no other members.
pub(crate) fn schema_of<T: ToSchema>(closed: bool) -> Value {
    let mut named = vec![];
    T::schemas(&mut named);
    let named = named.into_iter().map(|(name, schema)| (name, json!(schema))).collect();
    let mut shown = whole(json!(T::schema()), &named, 0);
    // The tool has its own description, so the type's is removed.
    shown.remove("description");
    if closed {
        shown.insert("additionalProperties".into(), false.into());
    }
    shown.entry("properties").or_insert_with(|| json!({}));
    shown.entry("required").or_insert_with(|| json!([]));
    shown.into()
}

/// Returns the JSON Schema of a tool's answer: its result or a refusal. Clients validate refusals against the
/// schema too.
pub(crate) fn schema_of_answer<T: ToSchema>() -> Value {
    let refusal = schema_of::<Snake<Refusal>>(false);
    json!({"type": "object", "anyOf": [schema_of::<T>(false), refusal]})
}

/// Replaces references in a schema by their targets.
fn whole(schema: Value, named: &HashMap<String, Value>, depth: usize) -> Map<String, Value> {
    let Value::Object(mut schema) = schema else { return Map::new() };
    // Joins the lines of a doc comment into one description.
    let description = schema.get("description").and_then(Value::as_str).map(|text| text.replace('\n', " "));
    if let Some(Value::Array(any)) = schema.remove("oneOf") {
        // An optional reference is a `oneOf` of null and the reference.
        let one = any.into_iter().find(|one| one["type"] != "null").unwrap_or_default();
        return described(whole(one, named, depth), description);
    }
    if let Some(Value::String(reference)) = schema.remove("$ref") {
        let name = reference.rsplit('/').next().unwrap_or_default();
        let found = named.get(name).filter(|_| depth < MAX_REFERENCES).cloned().unwrap_or_default();
        return described(whole(found, named, depth + 1), description);
    }
    if let Some(Value::Array(all)) = schema.remove("allOf") {
        return all.into_iter().map(|one| whole(one, named, depth)).fold(schema, together);
    }
    schema.retain(|name, _| !UNSAID.contains(&&**name));
    if let Some(items) = schema.remove("items") {
        let mut items = whole(items, named, depth);
        items.remove("description");
        schema.insert("items".into(), items.into());
    }
    let required = schema.get("required").cloned().unwrap_or_default();
    if let Some(Value::Object(properties)) = schema.remove("properties") {
        let is_required =
            |name: &String| required.as_array().is_some_and(|all| all.iter().any(|one| one == name));
        let shown = properties.into_iter().map(|(name, property)| {
            let mut property = whole(property, named, depth);
            // An optional member need not be null as well.
            if !is_required(&name)
                && let Some(Value::Array(types)) = property.get("type")
            {
                let only = types.iter().find(|one| *one != "null").cloned().unwrap_or_default();
                property.insert("type".into(), only);
            }
            (name, Value::from(property))
        });
        let shown: Map<_, _> = shown.collect();
        schema.insert("properties".into(), shown.into());
    }
    described(schema, description)
}

/// Merges two objects, such as a struct and its flattened member.
fn together(mut one: Map<String, Value>, other: Map<String, Value>) -> Map<String, Value> {
    for (name, value) in other {
        match (one.get_mut(&name), value) {
            (Some(Value::Object(members)), Value::Object(more)) => members.extend(more),
            (Some(Value::Array(items)), Value::Array(more)) => items.extend(more),
            (_, value) => drop(one.insert(name, value)),
        }
    }
    one
}

/// Sets the description of the member, which takes precedence over that of its type.
fn described(mut schema: Map<String, Value>, description: Option<String>) -> Map<String, Value> {
    schema.extend(description.map(|description| ("description".to_owned(), description.into())));
    schema
}
