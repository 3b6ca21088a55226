//! What the doors of conversations have in common: what paths and bodies name.

use crate::error::ApiError;
use axum::http::Uri;
pub(super) use chorus_app::conversation::{conversation_id, event_id};
use chorus_protocol::faults::{Faults, Fields};
use serde_json::Value;
use std::borrow::Cow;

/// The parts of a query, in order.
pub(super) fn query(uri: &Uri) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
}

/// Reads a body's members with `read`, or says everything that is wrong with them.
pub(super) fn fields<T>(body: &Value, read: impl FnOnce(&mut Fields<'_, '_>) -> T) -> Result<T, ApiError> {
    let mut faults = Faults::new();
    let found = Fields::of(body, "", &mut faults).map(|mut fields| read(&mut fields));
    match found {
        Some(found) if faults.is_empty() => Ok(found),
        _ => Err(faults.into()),
    }
}

/// A text of bounded length, if it is there.
pub(super) fn text(fields: &mut Fields<'_, '_>, name: &str, min: usize, max: usize) -> Option<String> {
    let text = fields.optional_text(name)?;
    fields.check_length(name, text, min, max);
    Some(text.to_owned())
}

/// The same, for what is shown in one line.
pub(super) fn line(fields: &mut Fields<'_, '_>, name: &str, max: usize) -> Option<String> {
    let line = text(fields, name, 1, max)?;
    if !line.is_empty() && (line.trim().is_empty() || line.contains(char::is_control)) {
        fields.fault(name, "must be one line with something in it");
    }
    Some(line)
}
