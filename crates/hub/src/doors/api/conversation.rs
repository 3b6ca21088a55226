//! What the doors of conversations have in common: what paths and bodies name.

use crate::error::ApiError;
use axum::http::Uri;
use chorus_protocol::ids::{ConversationId, EventId};
use chorus_store::channel::ChannelError;
use std::borrow::Cow;

/// The conversation a path names. What is no id names none, as far as anybody may know.
pub(super) fn conversation_id(text: &str) -> Result<ConversationId, ApiError> {
    ConversationId::parse(text).ok_or_else(|| ChannelError::NotFound.into())
}

/// The message a path names.
pub(super) fn event_id(text: &str) -> Result<EventId, ApiError> {
    EventId::parse(text).ok_or_else(|| ChannelError::NoTarget.into())
}

/// The parts of a query, in order.
pub(super) fn query(uri: &Uri) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
}
