//! Envelopes that travel inside an A2A message, as a data part, in the shapes of A2A 1.0 and 0.3.
//!
//! Only as much of A2A as it takes to find the envelope. In 1.0 a part names its media type itself; in 0.3, whose
//! parts have no such member, its metadata does.

use crate::faults::Fields;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The media type that marks the part.
pub const ENVELOPE_MEDIA_TYPE: &str = "application/vnd.chorus.envelope+json";

/// Whether this is an A2A message rather than an envelope.
pub(super) fn is_message(value: &Value) -> bool {
    value.get("parts").is_some_and(Value::is_array) && value.get("chorus_version").is_none()
}

/// The one part that holds the envelope: its place and the envelope. `name` is the member that holds the message.
pub(super) fn find<'v>(
    message: &'v Value,
    fields: &mut Fields<'v, '_>,
    name: &str,
) -> Option<(usize, &'v Value)> {
    let parts = message["parts"].as_array()?;
    let mut found = parts.iter().enumerate().filter(|(_, part)| is_envelope(part));
    let one = found.next().map(|(place, part)| (place, &part["data"]));
    if one.is_none() || found.next().is_some() {
        fields.fault(
            &format!("{name}.parts"),
            format_args!("must hold exactly one data part of media type {ENVELOPE_MEDIA_TYPE}"),
        );
        return None;
    }
    one
}

fn is_envelope(part: &Value) -> bool {
    let media_type = [&part["mediaType"], &part["metadata"]["mediaType"]].into_iter().find_map(Value::as_str);
    // Parameters such as a charset may follow.
    let essence = media_type.and_then(|text| text.split(';').next()).map(str::trim);
    part.get("data").is_some() && essence.is_some_and(|text| text.eq_ignore_ascii_case(ENVELOPE_MEDIA_TYPE))
}

/// The envelope in the part at `place`, byte for byte.
pub(super) fn raw(message: &RawValue, place: usize) -> serde_json::Result<Option<Box<RawValue>>> {
    #[derive(Deserialize)]
    struct Message {
        /// Whatever the others are: only one of them is ours.
        parts: Vec<Box<RawValue>>,
    }
    #[derive(Deserialize)]
    struct Part {
        data: Option<Box<RawValue>>,
    }
    let message: Message = serde_json::from_str(message.get())?;
    let Some(part) = message.parts.get(place) else { return Ok(None) };
    Ok(serde_json::from_str::<Part>(part.get())?.data)
}
