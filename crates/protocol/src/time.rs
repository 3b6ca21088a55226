//! Times on the wire: RFC 3339, UTC, with milliseconds. In memory a time is an `i64` of milliseconds since
//! 1970.

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;

static PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));

/// Formats a time as `2026-03-20T10:00:00.000Z`. Times beyond the supported range become the nearest supported
/// time.
pub fn rfc3339(ms: i64) -> String {
    let time =
        Timestamp::from_millisecond(ms).unwrap_or(if ms < 0 { Timestamp::MIN } else { Timestamp::MAX });
    PRINTER.timestamp_to_string(&time)
}

/// Parses an RFC 3339 time into milliseconds since 1970.
pub fn parse_rfc3339(text: &str) -> Option<i64> {
    text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_documents_print_it() {
        assert_eq!(rfc3339(1_774_000_800_000), "2026-03-20T10:00:00.000Z");
        assert_eq!(parse_rfc3339("2026-03-20T10:00:00.000Z"), Some(1_774_000_800_000));
        assert_eq!(parse_rfc3339("2026-03-20"), None);
        assert!(rfc3339(i64::MAX).starts_with("9999"));
    }
}
