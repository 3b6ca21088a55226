//! Renders user text as HTML: Markdown without raw markup, with mentions as pills.
//!
//! Raw HTML is shown as text. Links lead to web pages and mail addresses only. Images become links, because
//! nothing is loaded from other hosts. Headings become bold text, so that a message cannot look like a part of
//! the page.
//!
//! The output is bounded: markup nested deeper than [`MAX_DEPTH`] is dropped, and a text whose markup would
//! take more than [`MAX_GROWTH`] times its length is shown as plain text.

use askama::filters::HtmlSafe;
use chorus_protocol::mentions::MAX_HANDLE;
use pulldown_cmark::{Alignment, CowStr, Event, Options, Parser, Tag, TagEnd, html};
use std::collections::HashMap;
use std::fmt;

/// Rendered HTML that needs no escaping.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rendered(String);

impl fmt::Display for Rendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl HtmlSafe for Rendered {}

/// The handles and roles that can be mentioned, in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Names(HashMap<String, Named>);

/// The target of a mention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    Agent,
    Person,
    Role,
}

impl Names {
    pub(crate) fn add(&mut self, name: &str, what: Named) {
        self.0.entry(name.to_ascii_lowercase()).or_insert(what);
    }
}

/// The deepest nesting of markup. Deeper text is shown without its surrounding markup.
const MAX_DEPTH: usize = 16;
/// The most bytes of HTML for each byte of text. Escaping alone takes up to five.
const MAX_GROWTH: usize = 6;
/// The bytes of HTML that every text may take in addition.
const FREE_BYTES: usize = 4096;

/// Renders Markdown as HTML.
pub(crate) fn render(markdown: &str, names: &Names) -> Rendered {
    let max_bytes = markdown.len().saturating_mul(MAX_GROWTH).saturating_add(FREE_BYTES);
    let options = Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES;
    let mut harmless = Harmless { names, in_code: false, open: vec![], skipped: vec![] };
    let events = Parser::new_ext(markdown, options).flat_map(|event| harmless.step(event));
    let mut out = Bounded { html: String::with_capacity(markdown.len() * 2), max_bytes };
    let written = html::write_html_fmt(&mut out, events);
    // Scrollable blocks are reachable by keyboard. The replacement cannot match user text, because its angle
    // brackets are escaped.
    let html = written.map(|()| out.html.replace("<pre>", "<pre tabindex=\"0\">"));
    let html = html.ok().filter(|html| html.len() <= max_bytes);
    Rendered(html.unwrap_or_else(|| plain(markdown)))
}

/// Renders a text literally, without markup.
fn plain(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!("<pre tabindex=\"0\">{text}</pre>\n")
}

/// An HTML buffer that fails when it would exceed its limit in bytes.
struct Bounded {
    html: String,
    max_bytes: usize,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.html.len() + text.len() > self.max_bytes {
            return Err(fmt::Error);
        }
        self.html.push_str(text);
        Ok(())
    }
}

struct Harmless<'n> {
    names: &'n Names,
    in_code: bool,
    /// For each open element: whether its tags are written.
    open: Vec<bool>,
    /// For each open link and image: whether its tags were left out.
    skipped: Vec<bool>,
}

impl Harmless<'_> {
    fn step<'t>(&mut self, event: Event<'t>) -> Vec<Event<'t>> {
        match &event {
            Event::Start(tag) => {
                // Parts of a table are kept or dropped together with it.
                let is_part = matches!(tag, Tag::TableHead | Tag::TableRow | Tag::TableCell);
                let is_written =
                    self.open.last().copied().unwrap_or(true) && (is_part || self.open.len() < MAX_DEPTH);
                self.open.push(is_written);
                if !is_written {
                    return vec![];
                }
            }
            Event::End(tag) if self.open.pop() == Some(false) => {
                let ends_line = matches!(tag, TagEnd::Paragraph | TagEnd::Item | TagEnd::Heading(_));
                return if ends_line { vec![Event::SoftBreak] } else { vec![] };
            }
            _ => {}
        }
        match event {
            Event::Html(raw) | Event::InlineHtml(raw) => vec![Event::Text(raw)],
            Event::Start(Tag::HtmlBlock) => vec![Event::Start(Tag::Paragraph)],
            Event::End(TagEnd::HtmlBlock) => vec![Event::End(TagEnd::Paragraph)],
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                self.open_link(&dest_url)
            }
            Event::End(TagEnd::Link | TagEnd::Image) => match self.skipped.pop() {
                Some(false) => vec![Event::InlineHtml("</a>".into())],
                _ => vec![],
            },
            Event::Start(Tag::Heading { .. }) => {
                vec![Event::Start(Tag::Paragraph), Event::Start(Tag::Strong)]
            }
            Event::End(TagEnd::Heading(_)) => vec![Event::End(TagEnd::Strong), Event::End(TagEnd::Paragraph)],
            Event::Start(Tag::CodeBlock(kind)) => {
                self.in_code = true;
                vec![Event::Start(Tag::CodeBlock(kind))]
            }
            Event::End(TagEnd::CodeBlock) => {
                self.in_code = false;
                vec![Event::End(TagEnd::CodeBlock)]
            }
            // Column alignment would need an inline style, which the Content-Security-Policy forbids.
            Event::Start(Tag::Table(columns)) => {
                vec![Event::Start(Tag::Table(vec![Alignment::None; columns.len()]))]
            }
            Event::Text(text) if !self.in_code => self.mentions(&text),
            other => vec![other],
        }
    }

    fn open_link<'t>(&mut self, url: &str) -> Vec<Event<'t>> {
        let harmless = ["https://", "http://", "mailto:"]
            .iter()
            .any(|begin| url.get(..begin.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(begin)));
        // Links cannot be nested.
        let skip = !harmless || self.skipped.contains(&false);
        self.skipped.push(skip);
        if skip {
            return vec![];
        }
        let tag = format!(r#"<a href="{}" rel="noopener noreferrer nofollow">"#, escaped(url));
        vec![Event::InlineHtml(tag.into())]
    }

    /// Splits text into events, with its mentions as pills.
    fn mentions<'t>(&self, text: &str) -> Vec<Event<'t>> {
        let (mut events, mut rest, mut before) = (vec![], text, None);
        while let Some(at) = rest.find('@') {
            let (head, tail) = (&rest[..at], &rest[at + 1..]);
            let previous = head.chars().next_back().or(before);
            let sign = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
            let end = tail.find(|c| !sign(c)).unwrap_or(tail.len());
            let handle = tail[..end].trim_end_matches('.');
            let free = previous.is_none_or(|c| !c.is_alphanumeric());
            let named = Some(handle).filter(|handle| free && (1..=MAX_HANDLE).contains(&handle.len()));
            let named = named.and_then(|handle| self.names.0.get(&handle.to_ascii_lowercase()));
            if let Some(what) = named {
                events.push(Event::Text(CowStr::from(head.to_owned())));
                let class = match what {
                    Named::Agent => "agent",
                    Named::Person => "person",
                    Named::Role => "role",
                };
                let pill = format!(r#"<span class="mention {class}">@{}</span>"#, escaped(handle));
                events.push(Event::InlineHtml(pill.into()));
                rest = &tail[handle.len()..];
            } else {
                events.push(Event::Text(CowStr::from(rest[..=at].to_owned())));
                rest = tail;
            }
            before = Some('@');
        }
        events.push(Event::Text(CowStr::from(rest.to_owned())));
        events
    }
}

/// Escapes text for an attribute.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(markdown: &str) -> String {
        let mut names = Names::default();
        names.add("Timber", Named::Agent);
        names.add("anna", Named::Person);
        names.add("oncall", Named::Role);
        render(markdown, &names).0
    }

    #[test]
    fn what_is_said_is_marked_up() {
        assert_eq!(shown("a **b** `c`"), "<p>a <strong>b</strong> <code>c</code></p>\n");
        assert_eq!(shown("# big"), "<p><strong>big</strong></p>\n");
        let link =
            r#"<p><a href="https://a.example/?q=1&amp;r" rel="noopener noreferrer nofollow">x</a></p>"#;
        assert_eq!(shown("[x](https://a.example/?q=1&r)").trim(), link);
    }

    #[test]
    fn mentions_of_members_are_pills() {
        assert_eq!(shown("@timber, hi"), "<p><span class=\"mention agent\">@timber</span>, hi</p>\n");
        assert!(shown("ask @anna.").contains(r#"<span class="mention person">@anna</span>."#));
        assert!(shown("@oncall").contains("mention role"));
        for text in ["mail me@anna", "`@timber`", "```\n@timber\n```", "@nobody"] {
            assert!(!shown(text).contains("mention"), "{text}");
        }
    }

    /// The size of the HTML is a bounded multiple of the text, whatever the markup.
    #[test]
    fn markup_is_bounded() {
        let table = format!("|{}\n|{}\n{}", "a|".repeat(500), "-|".repeat(500), "|\n".repeat(3000));
        let hostile = [
            ">".repeat(99_000),
            "> ".repeat(50_000),
            "- ".repeat(50_000),
            "* a\n".repeat(25_000),
            (0..300).map(|n| "  ".repeat(n)).collect::<Vec<_>>().join("- x\n"),
            format!("{}x{}", "*a **b ".repeat(7000), "** *".repeat(7000)),
            "@timber ".repeat(12_000),
            "```\n```\n".repeat(12_000),
            "&".repeat(99_000),
            "\"".repeat(99_000),
            "[a](http:b)".repeat(9_000),
            table,
        ];
        for text in hostile {
            let html = shown(&text);
            let begin: String = text.chars().take(20).collect();
            assert!(html.len() <= MAX_GROWTH * text.len() + FREE_BYTES, "{begin:?}: {} bytes", html.len());
            let mut depth = 0_usize;
            let depths = html.split('<').skip(1).map(|piece| {
                let closes = piece.starts_with('/');
                let is_void = ["hr", "br"].iter().any(|name| piece.starts_with(name));
                match (closes, is_void) {
                    (true, _) => depth = depth.saturating_sub(1),
                    (false, false) => depth += 1,
                    (false, true) => {}
                }
                depth
            });
            // Headings, code and tables write more than one element each.
            assert!(depths.max().unwrap_or(0) <= MAX_DEPTH + 4, "{begin:?}");
        }
        // The text of markup nested too deep is still shown.
        assert!(shown(&format!("{} deep", ">".repeat(100))).contains("deep"));
        assert!(shown("> > quoted").contains("<blockquote>\n<blockquote>\n<p>quoted"));
    }

    /// The output contains only our own markup, whatever the input.
    #[test]
    fn nothing_that_is_said_is_markup() {
        let attacks = [
            "<script>alert(1)</script>",
            "<img src=x onerror=alert(1)>",
            "a <b onmouseover='alert(1)'>b</b>",
            "<!-- --><svg/onload=alert(1)>",
            "[x](javascript:alert(1))",
            "[x](JaVaScRiPt:alert(1))",
            "[x](  data:text/html,<script>alert(1)</script>)",
            "[x](vbscript:x)",
            "[x](//evil.example)",
            "![x](https://evil.example/pixel.png)",
            "![x](javascript:alert(1))",
            "[x](https://a.example/\"onclick=\"alert(1))",
            "[x]: javascript:alert(1)\n\n[x]",
            "<https://a.example/'\"><script>>",
            "```\"><script>alert(1)</script>\nx\n```",
            "@timber<script>",
            "<style>*{display:none}</style>",
            "<div style=\"position:fixed\">",
            "<iframe src=//evil.example>",
            "&lt;script&gt; &#60;script&#62;",
        ];
        for attack in attacks {
            check(&shown(attack), attack);
        }
    }

    /// Asserts that the HTML holds only tags and attributes that this module or the renderer emits.
    fn check(html: &str, of: &str) {
        const TAGS: [&str; 20] = [
            "p",
            "strong",
            "em",
            "del",
            "code",
            "pre",
            "a",
            "span",
            "ul",
            "ol",
            "li",
            "blockquote",
            "hr",
            "br",
            "table",
            "thead",
            "tbody",
            "tr",
            "th",
            "td",
        ];
        for piece in html.split('<').skip(1) {
            let inside = piece.split('>').next().unwrap();
            let name = inside.trim_start_matches('/').split([' ', '\n']).next().unwrap();
            assert!(TAGS.contains(&name), "{of:?} made <{inside}>: {html}");
            let rest = inside.trim_start_matches('/')[name.len()..].trim_matches(['/', ' ']);
            let attributes = ["", "href=\"http", "href=\"mailto:", "class=\"", "start=\""];
            assert!(attributes.iter().any(|begin| rest.starts_with(begin)), "{of:?} made <{inside}>");
            assert!(!rest.to_ascii_lowercase().contains(" on"), "{of:?} made <{inside}>");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_markup(text in "[<>\"'`@a-z\\[\\]()!:/#*_~\n &;=-]{0,200}") {
            check(&shown(&text), &text);
        }
    }
}
