//! Cursors in inboxes and logs: the number of an event.

use crate::error::ApiError;
use axum::http::HeaderMap;
use chorus_protocol::faults::Faults;

/// Parses a cursor, which is an SSE id.
pub(crate) fn parse_cursor(name: &str, text: &str) -> Result<i64, ApiError> {
    // Eighteen digits always fit into an `i64`.
    let digits = text.len() <= 18 && text.bytes().all(|byte| byte.is_ascii_digit());
    let cursor = text.parse().ok().filter(|_| digits);
    cursor.ok_or_else(|| Faults::one(name, "must be the id of a message in this inbox").into())
}

/// Returns the `Last-Event-ID` that a reconnecting client sends.
pub(crate) fn last_event_id(headers: &HeaderMap) -> Result<Option<i64>, ApiError> {
    // A value that is not text cannot be an id.
    let id = headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?"));
    id.filter(|id| !id.is_empty()).map(|id| parse_cursor("Last-Event-ID", id)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_digits() {
        for (text, cursor) in
            [("0", Some(0)), ("0012", Some(12)), ("999999999999999999", Some(999_999_999_999_999_999))]
        {
            assert_eq!(parse_cursor("after", text).ok(), cursor, "{text}");
        }
        for text in ["", "+5", "-1", "1.0", " 1", "1000000000000000000", "٣"] {
            assert!(parse_cursor("after", text).is_err(), "{text}");
        }
    }
}
