//! Arguments of tools: strict, bounded, and every fault told at once, so that a model can mend them all in one go.

use super::Failure;
use chorus_protocol::faults::{Faults, Fields};
use chorus_protocol::ids::EventId;
use serde_json::{Map, Value};

/// The largest integer that every JSON reader keeps exactly.
pub(super) const MAX_INTEGER: i64 = 9_007_199_254_740_991;

/// Reads arguments with `read`; what `schema` does not name is a fault.
pub(super) fn read<T>(
    schema: &Value,
    arguments: &Map<String, Value>,
    read: impl FnOnce(&mut Fields<'_, '_>) -> T,
) -> Result<T, Failure> {
    let mut faults = Faults::new();
    let known = schema["properties"].as_object();
    for name in arguments.keys().filter(|name| !known.is_some_and(|known| known.contains_key(*name))) {
        faults.add(name, "there is no such argument");
    }
    let whole = Value::Object(arguments.clone());
    let found = Fields::of(&whole, "", &mut faults).map(|mut fields| read(&mut fields));
    match found {
        Some(found) if faults.is_empty() => Ok(found),
        _ => Err(Failure::Tool(format!("nothing was done; mend these arguments: {faults}"))),
    }
}

/// An integer of these bounds, if it is there.
pub(super) fn integer(fields: &mut Fields<'_, '_>, name: &str, min: i64, max: i64) -> Option<i64> {
    let value = fields.get(name)?;
    let found = value.as_i64().filter(|number| (min..=max).contains(number));
    if found.is_none() {
        fields.fault(name, format_args!("must be an integer from {min} to {max}"));
    }
    found
}

/// A text of these lengths, if it is there.
pub(super) fn text(fields: &mut Fields<'_, '_>, name: &str, min: usize, max: usize) -> Option<String> {
    let text = fields.optional_text(name)?;
    fields.check_length(name, text, min, max);
    Some(text.to_owned())
}

/// The id of a message, if it is there.
pub(super) fn event(fields: &mut Fields<'_, '_>, name: &str) -> Option<EventId> {
    let text = fields.optional_text(name)?;
    let id = EventId::parse(text);
    if id.is_none() {
        fields.fault(name, "must be an event_id of a message: evt_ and 32 hex digits");
    }
    id
}

/// The kind of events, if it is there.
pub(super) fn kind(fields: &mut Fields<'_, '_>) -> Option<String> {
    let kind = text(fields, "kind", 1, 32)?;
    if !kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') {
        fields.fault("kind", "must be a kind of event, such as message");
    }
    Some(kind)
}

/// What a request is called that may be sent again, if it is there.
pub(super) fn idempotency_key(fields: &mut Fields<'_, '_>) -> Option<String> {
    text(fields, "idempotency_key", 1, 255)
}
