//! Times as people read them. The hub writes them in UTC; a script in the page makes them the reader's own.

use askama::filters::HtmlSafe;
use chorus_protocol::time::{parse_rfc3339, rfc3339};
use std::fmt;

/// A moment: its time of day, and all of it for programs.
#[derive(Debug, Clone)]
pub(crate) struct Moment(String);

impl Moment {
    /// From a time that the hub wrote.
    pub(crate) fn new(time: &str) -> Self {
        // Read and written again, so that it is a time and nothing else.
        Self(parse_rfc3339(time).map(rfc3339).unwrap_or_default())
    }

    pub(crate) fn day(&self) -> &str {
        self.0.get(..10).unwrap_or_default()
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (day, time) = (self.day(), self.0.get(11..16).unwrap_or_default());
        write!(f, r#"<time datetime="{0}" title="{day} {time} UTC">{time}</time>"#, self.0)
    }
}
impl HtmlSafe for Moment {}

/// How long ago, or for how long: the largest unit that says something.
pub(crate) fn span(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    match seconds {
        0..=59 => format!("{seconds} s"),
        60..=3599 => format!("{} min", seconds / 60),
        3600..=86_399 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// How long ago a time was that the hub wrote.
pub(crate) fn since(now: i64, time: &str) -> String {
    parse_rfc3339(time).map(|then| span(now - then)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_time_says_nothing() {
        let shown = Moment::new("2026-03-20T10:00:00Z").to_string();
        assert!(shown.contains(r#"datetime="2026-03-20T10:00:00.000Z""#) && shown.ends_with(">10:00</time>"));
        assert!(!Moment::new("<b>").to_string().contains("<b>"));
        assert_eq!(
            (span(59_999), span(61_000), span(7_200_000)),
            ("59 s".into(), "1 min".into(), "2 h".into())
        );
    }
}
