//! The icons of the pages, drawn in the colour of the surrounding text.

use askama::filters::HtmlSafe;
use std::fmt;

pub(crate) struct Icon(&'static str);

/// Returns the icon of this name, or an empty one for an unknown name.
pub(crate) fn icon(name: &str) -> Icon {
    Icon(match name {
        "mark" => r#"<path d="M2 6.5v3M5 3.5v9M8 5.5v5M11 2v12M14 6v4"/>"#,
        "search" => r#"<circle cx="7" cy="7" r="4.5"/><path d="m10.5 10.5 3.5 3.5"/>"#,
        "inbox" => r#"<path d="M2 9h3.5l1 2h3l1-2H14M3.5 3h9L14 9v4H2V9Z"/>"#,
        "fleet" => r#"<path d="M2.5 13V9M6 13V5M9.5 13V7.5M13 13V3"/>"#,
        "streams" => r#"<path d="M2 4c4 0 4 4 8 4h4M2 12c4 0 4-4 8-4M11.500 5.500 14 8l-2.500 2.500"/>"#,
        "agents" => {
            r#"<rect x="2.5" y="2.5" width="11" height="11" rx="3"/><path d="M6 7v2M8 5.5v5M10 7v2"/>"#
        }
        "market" => {
            r#"<path d="M2.5 6.500 3.500 3h9l1 3.500M3 6.500v7h10v-7M2.500 6.500h11M6.500 13.500V9.500h3v4"/>"#
        }
        "operator" => {
            r#"<circle cx="8" cy="8" r="2.2"/><path d="M8 1.5v2.3M8 12.2v2.3M1.5 8h2.3M12.2 8h2.3M3.4 3.4 5 5M11 11l1.6 1.6M3.4 12.6 5 11M11 5l1.6-1.6"/>"#
        }
        "scores" => {
            r#"<path d="M2 4h12M2 8h12M2 12h12"/><circle cx="6" cy="4" r="1.4"/><circle cx="11" cy="8" r="1.4"/><circle cx="4.5" cy="12" r="1.4"/>"#
        }
        "settings" => {
            r#"<path d="M2 4.500h6M12 4.500h2M2 11.500h2M8 11.500h6"/><circle cx="10" cy="4.500" r="1.800"/><circle cx="6" cy="11.500" r="1.800"/>"#
        }
        "plus" => r#"<path d="M8 3v10M3 8h10"/>"#,
        "up" => r#"<path d="M8 10.500V2.500M4.500 6 8 2.500 11.500 6M2.500 13.500h11"/>"#,
        "back" => r#"<path d="m10 3-5 5 5 5"/>"#,
        "side" => r#"<rect x="2" y="3" width="12" height="10" rx="2"/><path d="M10 3v10"/>"#,
        "check" => r#"<path d="m3 8.5 3.5 3.5L13 4.5"/>"#,
        "cross" => r#"<path d="m4 4 8 8m0-8-8 8"/>"#,
        "ring" => r#"<circle cx="8" cy="8" r="5.5"/>"#,
        "arc" => r#"<path d="M8 2.5A5.5 5.5 0 1 1 2.5 8"/>"#,
        "terminal" => {
            r#"<rect x="2" y="3" width="12" height="10" rx="2"/><path d="m4.5 6.5 2 1.5-2 1.5M8.5 10h3"/>"#
        }
        "book" => {
            r#"<path d="M8 4.5C6.5 3.3 4.5 3 2.5 3v9c2 0 4 .3 5.5 1.5C9.500 12.300 11.500 12 13.500 12V3c-2 0-4 .3-5.500 1.500Zm0 0v9"/>"#
        }
        "link" => {
            r#"<path d="M6.500 9.500 9.500 6.500M7 4.500l1.500-1.500a3 3 0 0 1 4.500 4.500L11.500 9M9 11.500 7.500 13A3 3 0 0 1 3 8.500L4.500 7"/>"#
        }
        "copy" => {
            r#"<rect x="5.5" y="5.5" width="8" height="8" rx="2"/><path d="M10.500 5.500v-1a2 2 0 0 0-2-2h-4a2 2 0 0 0-2 2v4a2 2 0 0 0 2 2h1"/>"#
        }
        "reply" => r#"<path d="M2.500 3.500h11v7.500H7l-3 2.500V11H2.500Z"/>"#,
        "smile" => {
            r#"<circle cx="8" cy="8" r="5.5"/><path d="M5.700 9.500c1.200 1.600 3.400 1.600 4.600 0M6.200 6.500v.2M9.800 6.500v.2"/>"#
        }
        "why" => {
            r#"<circle cx="8" cy="8" r="5.5"/><path d="M6.300 6.500c0-2.200 3.400-2.200 3.400 0 0 1.400-1.700 1.300-1.700 2.700M8 11v.2"/>"#
        }
        "hand" => {
            r#"<path d="M4.500 8V4.500a1 1 0 0 1 2 0V3a1 1 0 0 1 2 0v1a1 1 0 0 1 2 0v1.500a1 1 0 0 1 2 0V10a4 4 0 0 1-4 4c-2 0-3-1-4-2.500L2.500 8.500c.5-.8 1.300-.7 2-.5Z"/>"#
        }
        "door" => {
            r#"<path d="M4 13.500v-11h6.500v11M2.500 13.500h11M8.500 8v.2M12.500 5.500l1.500-1M12.500 8H14"/>"#
        }
        "loop" => {
            r#"<path d="M3.500 7A4.500 4.500 0 0 1 12 5.500M12.500 9A4.500 4.500 0 0 1 4 10.500M12 2.500v3H9M4 13.500v-3h3"/>"#
        }
        "pencil" => r#"<path d="m3 13 .7-3L10.500 3.200l2.300 2.300L6 12.300Z"/>"#,
        "document" => r#"<path d="M4 2.500h5.500L12.500 5.500v8H4ZM9 2.500V6h3.500"/>"#,
        "replay" => r#"<path d="M3 8a5 5 0 1 0 1.600-3.700M3 2.500v3h3"/>"#,
        "stop" => {
            r#"<path d="M5.700 2.500h4.600l3.200 3.200v4.600l-3.200 3.200H5.700l-3.200-3.200V5.700ZM6 8h4"/>"#
        }
        "bin" => r#"<path d="M3 4.500h10M6 4.500V3h4v1.500M4.500 4.500l.6 8.500h5.800l.6-8.500"/>"#,
        _ => "",
    })
}

impl fmt::Display for Icon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"<svg viewBox="0 0 16 16" width="16" height="16" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">"#)?;
        f.write_str(self.0)?;
        f.write_str("</svg>")
    }
}
impl HtmlSafe for Icon {}

/// The icons that stand at every message. A conversation page draws each once ([`drawn_once`]) and the
/// messages refer to it, because icons would otherwise make up most of a long page.
const AT_MESSAGES: [&str; 9] = ["smile", "reply", "hand", "stop", "why", "pencil", "bin", "door", "loop"];

/// A reference to an icon that the page has drawn once.
pub(crate) struct Again(&'static str);

/// Returns a reference to the icon of this name.
pub(crate) fn again(name: &'static str) -> Again {
    Again(name)
}

impl fmt::Display for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, r##"<svg width="16" height="16" aria-hidden="true"><use href="#sign-{}"/></svg>"##, self.0)
    }
}
impl HtmlSafe for Again {}

/// The definitions of the icons in [`AT_MESSAGES`].
pub(crate) struct DrawnOnce;

/// Returns the definitions that [`again`] refers to. A page with messages contains them once.
pub(crate) fn drawn_once() -> DrawnOnce {
    DrawnOnce
}

impl fmt::Display for DrawnOnce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"<svg class="unseen" aria-hidden="true">"#)?;
        for name in AT_MESSAGES {
            let drawing = icon(name).0;
            write!(
                f,
                r#"<symbol id="sign-{name}" viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round">{drawing}</symbol>"#
            )?;
        }
        f.write_str("</svg>")
    }
}
impl HtmlSafe for DrawnOnce {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every icon that a message refers to is drawn.
    #[test]
    fn what_messages_point_at_is_drawn() {
        let (drawn, items) = (drawn_once().to_string(), include_str!("../templates/items.html"));
        let mut pointed =
            items.split("again(\"").skip(1).map(|rest| rest.split('"').next().unwrap_or_default());
        assert!(pointed.clone().count() >= AT_MESSAGES.len());
        assert!(pointed.all(|name| drawn.contains(&format!("id=\"sign-{name}\""))), "{drawn}");
        assert!(AT_MESSAGES.iter().all(|name| !icon(name).0.is_empty()));
    }
}
