//! Envelopes inside an A2A message, as a data part in the forms of A2A 1.0 and 0.3.
//!
//! This module knows only as much of A2A as it needs to find the envelope. In 1.0 a part has a media type; in
//! 0.3 its metadata does.

use crate::faults::Fields;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The media type of the part that holds the envelope.
pub const ENVELOPE_MEDIA_TYPE: &str = "application/vnd.chorus.envelope+json";

/// Returns `true` for an A2A message, as opposed to an envelope.
pub(super) fn is_message(value: &Value) -> bool {
    value.get("parts").is_some_and(Value::is_array) && value.get("chorus_version").is_none()
}

/// Returns the index of the part that holds the envelope, and the envelope. `name` is the member that holds
/// the message.
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
    // Parameters such as a charset may follow the media type.
    let essence = media_type.and_then(|text| text.split(';').next()).map(str::trim);
    part.get("data").is_some() && essence.is_some_and(|text| text.eq_ignore_ascii_case(ENVELOPE_MEDIA_TYPE))
}

/// Returns the envelope in the part at `place`, byte for byte.
pub(super) fn raw(message: &RawValue, place: usize) -> serde_json::Result<Option<Box<RawValue>>> {
    #[derive(Deserialize)]
    struct Message {
        /// The other parts may have any form.
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
