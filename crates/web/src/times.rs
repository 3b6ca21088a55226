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

    /// In milliseconds, for scripts.
    pub(crate) fn ms(&self) -> i64 {
        parse_rfc3339(&self.0).unwrap_or_default()
    }

    /// With its day: both the reader's own, and never one of each.
    pub(crate) fn with_day(&self) -> Written {
        Written { class: "dated", text: format!("{} {}", self.day(), self.time()), at: self.0.clone() }
    }

    /// The day it was.
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

/// A moment, written longer than by its time of day.
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
        // A day and a time of day are one element, so that a script makes both the reader's.
        let whole = Moment::new("2026-03-20T23:30:00Z").with_day().to_string();
        assert!(whole.starts_with("<time") && whole.contains(">2026-03-20 23:30</time>"), "{whole}");
        assert_eq!(
            (span(59_999), span(61_000), span(7_200_000)),
            ("59 s".into(), "1 min".into(), "2 h".into())
        );
    }
}
