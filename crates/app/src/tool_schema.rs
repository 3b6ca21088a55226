//! The schema of a type as a model's client reads it: whole in itself, and closed where nothing else may go in.

use chorus_protocol::c2a::{Refusal, Snake};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use utoipa::ToSchema;

/// What is said to readers of the API's description only.
const UNSAID: [&str; 4] = ["title", "format", "example", "examples"];
/// No type here refers to others deeper than this.
const MAX_REFERENCES: usize = 8;

/// The JSON Schema of a type; a closed one has no other members than these.
pub(crate) fn schema_of<T: ToSchema>(closed: bool) -> Value {
    let mut named = vec![];
    T::schemas(&mut named);
    let named = named.into_iter().map(|(name, schema)| (name, json!(schema))).collect();
    let mut shown = whole(json!(T::schema()), &named, 0);
    // What the type is called is the tool's business.
    shown.remove("description");
    if closed {
        shown.insert("additionalProperties".into(), false.into());
    }
    shown.entry("properties").or_insert_with(|| json!({}));
    shown.entry("required").or_insert_with(|| json!([]));
    shown.into()
}

/// The JSON Schema of what a tool answers: its result, or why there is none. Clients hold a refusal against the schema too.
pub(crate) fn schema_of_answer<T: ToSchema>() -> Value {
    let refusal = schema_of::<Snake<Refusal>>(false);
    json!({"type": "object", "anyOf": [schema_of::<T>(false), refusal]})
}

/// A schema with what it refers to in it.
fn whole(schema: Value, named: &HashMap<String, Value>, depth: usize) -> Map<String, Value> {
    let Value::Object(mut schema) = schema else { return Map::new() };
    // Doc comments have lines, sentences have none.
    let description = schema.get("description").and_then(Value::as_str).map(|text| text.replace('\n', " "));
    if let Some(Value::Array(any)) = schema.remove("oneOf") {
        // An optional reference is one of nothing and the reference.
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
            // What may be left out need not be null.
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

/// Two objects in one, as those are that a struct holds flattened.
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

/// What is said of it where it stands comes before what its type says of itself.
fn described(mut schema: Map<String, Value>, description: Option<String>) -> Map<String, Value> {
    schema.extend(description.map(|description| ("description".to_owned(), description.into())));
    schema
}
