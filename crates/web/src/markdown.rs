//! What somebody said, as HTML: markdown without raw markup, mentions as pills.
//!
//! Raw HTML is shown as the text it is. Links lead to web pages and mail only, pictures are links (nothing is loaded from
//! elsewhere), and headings are words that stand out, so that a message cannot look like a part of the page. Nesting and
//! length are bounded by what a message may hold.

use askama::filters::HtmlSafe;
use chorus_protocol::mentions::MAX_HANDLE;
use pulldown_cmark::{Alignment, CowStr, Event, Options, Parser, Tag, TagEnd, html};
use std::collections::HashMap;
use std::fmt;

/// Rendered and safe.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rendered(String);

impl fmt::Display for Rendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl HtmlSafe for Rendered {}

/// Who can be mentioned, by handle or role in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Names(HashMap<String, Named>);

/// What a name stands for.
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

/// Markdown as HTML.
pub(crate) fn render(markdown: &str, names: &Names) -> Rendered {
    let options = Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES;
    let mut harmless = Harmless { names, in_code: false, skipped: vec![] };
    let events = Parser::new_ext(markdown, options).flat_map(|event| harmless.step(event));
    let mut out = String::with_capacity(markdown.len() * 2);
    html::push_html(&mut out, events);
    // What scrolls can be reached by keyboard. Nobody's text holds this: angle brackets of texts are escaped.
    Rendered(out.replace("<pre>", "<pre tabindex=\"0\">"))
}

struct Harmless<'n> {
    names: &'n Names,
    in_code: bool,
    /// For each link and picture that is open: whether its tags were left out.
    skipped: Vec<bool>,
}

impl Harmless<'_> {
    fn step<'t>(&mut self, event: Event<'t>) -> Vec<Event<'t>> {
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
            // Its alignment would be a style of its own, which our pages forbid.
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
        // A link in a link is none.
        let skip = !harmless || self.skipped.contains(&false);
        self.skipped.push(skip);
        if skip {
            return vec![];
        }
        let tag = format!(r#"<a href="{}" rel="noopener noreferrer nofollow">"#, escaped(url));
        vec![Event::InlineHtml(tag.into())]
    }

    /// Text with its mentions as pills.
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

/// Text inside an attribute.
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

    /// Whatever is said, the markup is ours.
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

    /// Only tags and attributes that this module or the renderer makes.
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
