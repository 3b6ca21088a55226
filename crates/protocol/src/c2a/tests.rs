//! Tests with the document's own examples, invalid messages, and round trips between both sides.

mod bounds;
mod document;
mod written;

use super::*;
use crate::faults::Faults;
use crate::schema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Reads a value as type `T` and writes it again.
fn again<T: ToSchema + DeserializeOwned + Serialize + 'static>(value: Value) -> Result<Value, Faults> {
    schema::read::<T>(value).map(|read| json!(read))
}

fn delivery_again(value: Value) -> Result<Value, Faults> {
    Delivery::read(value).map(|read| json!(read))
}

fn call_again(value: Value) -> Result<Value, Faults> {
    let call = Call::read(schema::read(value)?).map_err(|fault| match fault {
        CallFault::Arguments(faults) => faults,
        CallFault::UnknownTool => Faults::one("name", fault),
    });
    call.map(|read| json!(read))
}

/// Returns the member at a path such as `content[0].text`.
fn member<'a>(value: &'a mut Value, path: &str) -> &'a mut Value {
    let pointer = format!("/{}", path.replace("].", "/").replace(['.', '['], "/").replace(']', ""));
    value.pointer_mut(&pointer).unwrap_or_else(|| panic!("{path}"))
}

fn with(mut value: Value, path: &str, other: impl Into<Value>) -> Value {
    *member(&mut value, path) = other.into();
    value
}
