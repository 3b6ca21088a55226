//! Snake-case spelling of arguments, which MCP clients expect: `in_reply_to` for the document's `inReplyTo`.
//!
//! One type serves both spellings. Its schema is respelled, so that faults name members as the caller wrote
//! them, and the value is respelled back after validation. This works only for types whose members are all
//! known, since foreign JSON inside a value would be respelled too.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::borrow::Cow;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ArrayItems, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A type read in snake_case.
#[derive(Debug, Clone, PartialEq)]
pub struct Snake<T>(pub T);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Snake<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = to_camel(Value::deserialize(deserializer)?);
        serde_json::from_value(value).map(Self).map_err(D::Error::custom)
    }
}

impl<T: ToSchema> PartialSchema for Snake<T> {
    fn schema() -> RefOr<Schema> {
        respelled(T::schema())
    }
}

impl<T: ToSchema> ToSchema for Snake<T> {
    fn name() -> Cow<'static, str> {
        format!("{}InSnakeCase", T::name()).into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        let mut own = vec![];
        T::schemas(&mut own);
        schemas.extend(own.into_iter().map(|(name, schema)| (name, respelled(schema))));
    }
}

fn respelled(mut schema: RefOr<Schema>) -> RefOr<Schema> {
    respell(&mut schema);
    schema
}

fn respell(schema: &mut RefOr<Schema>) {
    match schema {
        RefOr::T(Schema::Object(object)) => {
            for name in &mut object.required {
                *name = snake(name);
            }
            let members = std::mem::take(&mut object.properties).into_iter();
            object.properties = members.map(|(name, schema)| (snake(&name), respelled(schema))).collect();
        }
        RefOr::T(Schema::Array(array)) => {
            if let ArrayItems::RefOrSchema(items) = &mut array.items {
                respell(items);
            }
        }
        RefOr::T(Schema::OneOf(any)) => any.items.iter_mut().for_each(respell),
        // No protocol type uses the other forms, and referenced schemas are respelled where they are defined.
        RefOr::T(_) | RefOr::Ref(_) => {}
    }
}

/// Converts `inReplyTo` to `in_reply_to`.
pub fn snake(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 2);
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// Converts `in_reply_to` to `inReplyTo`.
fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at_checked(1).unwrap_or((word, ""));
        camel.push_str(&first.to_ascii_uppercase());
        camel.push_str(rest);
    }
    camel
}

/// Converts all member names to camelCase. A name that is not in snake_case was not validated and is dropped,
/// since it could be mistaken for one that was.
fn to_camel(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().filter_map(|(name, value)| {
                let camel = camel(&name);
                (snake(&camel) == name).then(|| (camel, to_camel(value)))
            });
            Value::Object(members.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.into_iter().map(to_camel).collect(),
        other => other,
    }
}

/// Converts all member names to snake_case.
pub fn to_snake(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().map(|(name, value)| (snake(&name), to_snake(value)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.into_iter().map(to_snake).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Claim, SendMessage};
    use super::*;
    use crate::schema;
    use serde_json::json;

    #[test]
    fn names_there_and_back() {
        for (camel_name, snake_name) in
            [("inReplyTo", "in_reply_to"), ("ttlMs", "ttl_ms"), ("text", "text"), ("", "")]
        {
            assert_eq!((snake(camel_name).as_str(), camel(snake_name).as_str()), (snake_name, camel_name));
        }
    }

    #[test]
    fn faults_name_members_as_they_were_written() {
        let faults = schema::read::<Snake<SendMessage>>(json!({
            "target": {"conversationId": "c", "thread_id": 1}, "idempotencyKey": "k", "visibility": "dm",
            "directedness": "to_me", "text": "x"
        }));
        assert_eq!(
            faults.unwrap_err().to_string(),
            "idempotency_key: is required; target.conversation_id: is required; \
             target.thread_id: must be a string, not a number"
        );
    }

    #[test]
    fn what_was_not_checked_is_not_read() {
        let read = |value| schema::read::<Snake<Claim>>(value).map(|Snake(claim)| claim);
        let claim = read(json!({"event_id": "e", "ttl_ms": 20_000, "eventId": "", "ttlMs": 1, "ttl__ms": 2}))
            .unwrap();
        assert_eq!((claim.event_id.0.as_str(), claim.ttl_ms), ("e", 20_000));
        assert_eq!(read(json!({"eventId": "e"})).unwrap_err().to_string(), "event_id: is required");
    }
}
