//! Times as people read them. The hub writes UTC; a script in the page converts them to the reader's time
//! zone.

use askama::filters::HtmlSafe;
use chorus_protocol::time::{parse_rfc3339, rfc3339};
use std::fmt;

/// A moment, shown as its time of day, with the full time in an attribute.
#[derive(Debug, Clone)]
pub(crate) struct Moment(String);

impl Moment {
    /// Parses a time written by the hub.
    pub(crate) fn new(time: &str) -> Self {
        // The time is parsed and formatted again, so that the result needs no escaping.
        Self(parse_rfc3339(time).map(rfc3339).unwrap_or_default())
    }

    /// Returns the moment in milliseconds, for scripts.
    pub(crate) fn ms(&self) -> i64 {
        parse_rfc3339(&self.0).unwrap_or_default()
    }

    /// Returns the moment with its day. Both are one element, so that a script converts them together.
    pub(crate) fn with_day(&self) -> Written {
        Written { class: "dated", text: format!("{} {}", self.day(), self.time()), at: self.0.clone() }
    }

    /// Returns the day of the moment.
    pub(crate) fn date(&self) -> Written {
        Written { class: "date", text: self.day().to_owned(), at: self.0.clone() }
    }

    fn time(&self) -> &str {
        self.0.get(11..16).unwrap_or_default()
    }

    pub(crate) fn day(&self) -> &str {
        self.0.get(..10).unwrap_or_default()
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (day, time) = (self.day(), self.time());
        write!(f, r#"<time datetime="{0}" title="{day} {time} UTC">{time}</time>"#, self.0)
    }
}
impl HtmlSafe for Moment {}

/// A moment in a longer form than its time of day.
pub(crate) struct Written {
    class: &'static str,
    text: String,
    at: String,
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { class, text, at } = self;
        write!(f, r#"<time class="{class}" datetime="{at}" title="{text} UTC">{text}</time>"#)
    }
}
impl HtmlSafe for Written {}

/// Formats a duration in its largest useful unit.
pub(crate) fn span(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    match seconds {
        0..=59 => format!("{seconds} s"),
        60..=3599 => format!("{} min", seconds / 60),
        3600..=86_399 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Formats the time that has passed since `time`.
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
        // Day and time are one element, so that a script converts both.
        let whole = Moment::new("2026-03-20T23:30:00Z").with_day().to_string();
        assert!(whole.starts_with("<time") && whole.contains(">2026-03-20 23:30</time>"), "{whole}");
        assert_eq!(
            (span(59_999), span(61_000), span(7_200_000)),
            ("59 s".into(), "1 min".into(), "2 h".into())
        );
    }
}
