//! What the doors of conversations have in common: what paths and bodies name.

use axum::http::Uri;
pub(super) use chorus_app::conversation::{conversation_id, event_id};
use std::borrow::Cow;

/// The parts of a query, in order.
pub(super) fn query(uri: &Uri) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
}
