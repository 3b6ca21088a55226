//! Whom a message mentions: `@handle`, anywhere but in code, quotes and URLs.
//!
//! Code is what Markdown puts into fenced blocks and between backticks, a quote a line that begins with `>`; an escaped `\@` is
//! just a sign, and so is one that follows a word, as in an email address. A full-width `＠` is an `@`. Linear in the text. Who
//! the handles are, and whether there is anybody of that name, is not known here.

use std::collections::{BTreeMap, VecDeque};

/// The longest handle, in characters.
pub const MAX_HANDLE: usize = 64;

/// The most mentions of one text that count.
pub const MAX_MENTIONS: usize = 50;

/// So many more are found, to tell the author of them.
const MAX_LEFT_OUT: usize = 50;

/// The handles a text mentions, as first written, in order and each once (`@Bob` is `@bob`).
pub fn mentions(markdown: &str) -> Vec<&str> {
    split_mentions(markdown).0
}

/// The same, and the first of those that are too many.
pub fn split_mentions(markdown: &str) -> (Vec<&str>, Vec<&str>) {
    let mut found = Vec::new();
    for paragraph in paragraphs(markdown) {
        find(paragraph, &mut found);
    }
    let left_out = found.split_off(MAX_MENTIONS.min(found.len()));
    (found, left_out)
}

/// The text between fenced code blocks, quotes and blank lines: no code span reaches over them.
fn paragraphs(markdown: &str) -> Vec<&str> {
    let (mut paragraphs, mut begin, mut place) = (Vec::new(), 0, 0);
    let mut open: Option<Fence<'_>> = None;
    for line in markdown.split_inclusive('\n') {
        let (code, quote) = (open.is_some(), is_quote(line));
        match &open {
            Some(opening) if Fence::closing(line).is_some_and(|fence| fence.closes(opening)) => open = None,
            Some(_) => {}
            // What is quoted ends with the quote.
            None if quote => {}
            None => open = Fence::opening(line),
        }
        let end = place + line.len();
        if code || quote || open.is_some() || line.trim().is_empty() {
            paragraphs.push(&markdown[begin..place]);
            begin = end;
        }
        place = end;
    }
    paragraphs.push(&markdown[begin..]);
    paragraphs
}

/// A line that begins or ends a block of code.
struct Fence<'t> {
    mark: char,
    length: usize,
    /// What follows on the line, such as the language.
    info: &'t str,
}

impl<'t> Fence<'t> {
    /// Lists may hold code too.
    fn opening(line: &'t str) -> Option<Self> {
        // Otherwise it is a code span.
        Self::read(in_list(line)).filter(|fence| fence.mark == '~' || !fence.info.contains('`'))
    }

    fn closing(line: &'t str) -> Option<Self> {
        Self::read(line.trim_start())
    }

    fn read(text: &'t str) -> Option<Self> {
        let mark = text.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let info = text.trim_start_matches(mark);
        let length = text.len() - info.len();
        (length >= 3).then_some(Self { mark, length, info })
    }

    fn closes(&self, opening: &Self) -> bool {
        self.mark == opening.mark && self.length >= opening.length && self.info.trim().is_empty()
    }
}

/// A line without the marks of the lists it is in.
fn in_list(line: &str) -> &str {
    let mut rest = line.trim();
    while let Some(inside) = list_item(rest) {
        rest = inside.trim_start();
    }
    rest
}

/// Whether a line is quoted.
fn is_quote(line: &str) -> bool {
    in_list(line).starts_with('>')
}

/// What follows the mark of a list's item.
fn list_item(text: &str) -> Option<&str> {
    let numbered = || {
        let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
        (rest.len() < text.len()).then(|| rest.strip_prefix(['.', ')'])).flatten()
    };
    text.strip_prefix(['-', '*', '+']).or_else(numbered)?.strip_prefix([' ', '\t'])
}

/// Adds what one paragraph mentions.
fn find<'t>(text: &'t str, found: &mut Vec<&'t str>) {
    let bytes = text.as_bytes();
    let mut ends = span_ends(bytes);
    let (mut place, mut in_url) = (0, false);
    while place < bytes.len() && found.len() < MAX_MENTIONS + MAX_LEFT_OUT {
        let rest = &text[place..];
        let Some(sign) = rest.chars().next() else { break };
        in_url = (in_url && !ends_url(sign)) || begins_url(text, place);
        match sign {
            // The next sign means nothing, whatever it is.
            '\\' => place += if bytes.get(place + 1).is_some_and(u8::is_ascii_punctuation) { 2 } else { 1 },
            '`' => {
                let after = place + run(&bytes[place..], |byte| byte == b'`');
                place = span_end(&mut ends, after - place, after).unwrap_or(after);
            }
            '@' | '＠' => {
                let named =
                    handle(&rest[sign.len_utf8()..]).filter(|_| !in_url && !text[..place].ends_with(is_word));
                found.extend(named.filter(|new| !found.iter().any(|known| known.eq_ignore_ascii_case(new))));
                place += sign.len_utf8();
            }
            _ => place += sign.len_utf8(),
        }
    }
}

/// Whether a URL goes on from here, or begins as people write it.
fn begins_url(text: &str, place: usize) -> bool {
    text[place..].starts_with("://")
        || (text[place..].starts_with("www.") && !text[..place].ends_with(is_word))
}

/// Whether a sign is behind a URL, not of it: space, what encloses one, and the punctuation of scripts without spaces.
fn ends_url(sign: char) -> bool {
    sign.is_whitespace()
        || matches!(sign, '<' | '>' | '"' | ')' | ']' | '|' | '\u{3000}'..='\u{303f}' | '\u{ff01}'..='\u{ff0f}')
}

/// The handle a text begins with.
fn handle(text: &str) -> Option<&str> {
    let length = run(text.as_bytes(), |byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    let (handle, rest) = text.split_at(length);
    // A sentence may end here; a word that goes on in other letters is no handle.
    let handle = handle.trim_end_matches(['.', '_', '-']);
    ((1..=MAX_HANDLE).contains(&handle.len()) && !rest.starts_with(is_word)).then_some(handle)
}

/// Whether a sign belongs to a word. Scripts without upper and lower case put no space before a mention, or write a
/// preposition against it.
fn is_word(c: char) -> bool {
    c == '_' || c.is_ascii_digit() || c.is_lowercase() || c.is_uppercase()
}

/// Where each run of backticks begins, by its length: a code span ends at the next run as long as its first.
fn span_ends(bytes: &[u8]) -> BTreeMap<usize, VecDeque<usize>> {
    let (mut ends, mut place) = (BTreeMap::<usize, VecDeque<usize>>::new(), 0);
    while place < bytes.len() {
        let length = run(&bytes[place..], |byte| byte == b'`');
        if length > 0 {
            ends.entry(length).or_default().push_back(place);
        }
        place += length.max(1);
    }
    ends
}

/// The end of a code span that was opened by `length` backticks, if it is closed at all. Places only grow, so what
/// lies before `after` is of no more use.
fn span_end(ends: &mut BTreeMap<usize, VecDeque<usize>>, length: usize, after: usize) -> Option<usize> {
    let ends = ends.get_mut(&length)?;
    while ends.front().is_some_and(|place| *place < after) {
        ends.pop_front();
    }
    ends.front().map(|place| place + length)
}

/// How many bytes from the first are `such`.
fn run(bytes: &[u8], such: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| such(**byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn who_is_mentioned() {
        for (text, expected) in [
            ("", vec![]),
            ("hello", vec![]),
            ("@timber can you review the auth spec?", vec!["timber"]),
            ("ask @bob, @Carol and @dave.e-f_1!", vec!["bob", "Carol", "dave.e-f_1"]),
            ("@bob @BOB @Bob", vec!["bob"]),
            ("thanks @bob. And (@carol)…", vec!["bob", "carol"]),
            ("@bob... @carol-- @dave_", vec!["bob", "carol", "dave"]),
            ("@ @. @- @@", vec![]),
            ("**@bob** _@carol_ [@dave](x) >@eve", vec!["bob", "dave", "eve"]),
            ("@@bob @alice/@carol", vec!["bob", "alice", "carol"]),
            ("mail bob@example.com or x_@y or 1@z or é@z", vec![]),
            ("@bob@hub.example", vec!["bob"]),
            ("你好@bob你好 ל@carol", vec!["bob", "carol"]),
            ("@müller is another name than @m", vec!["m"]),
            (r"\@bob \\@carol", vec!["carol"]),
            ("a\n@bob\r\n@carol", vec!["bob", "carol"]),
            ("＠bob 你好＠carol, x＠dave ＠", vec!["bob", "carol"]),
        ] {
            assert_eq!(mentions(text), expected, "{text}");
        }
    }

    #[test]
    fn code_mentions_nobody() {
        for (text, expected) in [
            ("`@bob` @carol", vec!["carol"]),
            ("``@bob ` @dave`` @carol", vec!["carol"]),
            ("` @bob", vec!["bob"]),
            ("`` @bob ` @carol", vec!["bob", "carol"]),
            ("`a` @bob `b`", vec!["bob"]),
            ("`@bob\n@carol` @dave", vec!["dave"]),
            ("` @bob\n\n@carol `", vec!["bob", "carol"]),
            (r"\`@bob` @carol", vec!["bob", "carol"]),
            (r"`\` @bob `", vec!["bob"]),
            ("```\n@bob\n```\n@carol", vec!["carol"]),
            ("```rust\n@bob\n~~~\n@dave\n````\n@carol", vec!["carol"]),
            ("~~~ a`b\n@bob\n```\n~~~\n@carol", vec!["carol"]),
            ("````\n```\n@bob\n````\n@carol", vec!["carol"]),
            ("```\n@bob", vec![]),
            ("``` @bob ``` @carol", vec!["carol"]),
            ("- ```\n  @bob\n  ```\n- @carol", vec!["carol"]),
            ("1. ~~~\n   @bob\n   ~~~\n2) @carol", vec!["carol"]),
            ("@dave\n```\n@bob\n``` not the end\n@eve\n```\n@carol", vec!["dave", "carol"]),
        ] {
            assert_eq!(mentions(text), expected, "{text}");
        }
    }

    #[test]
    fn quotes_and_urls_mention_nobody() {
        for (text, expected) in [
            ("> @bob said\n@carol what do you think?", vec!["carol"]),
            (">@bob\n> > @dave\n\n- > @eve\n  @carol", vec!["carol"]),
            ("> ```\n> @bob\n> ```\n> @dave\n@carol", vec!["carol"]),
            ("> ```\n@carol", vec!["carol"]),
            ("```\n> @bob\n```\n@carol > @dave", vec!["carol", "dave"]),
            ("https://x.org/@bob @carol", vec!["carol"]),
            ("see [@carol](https://x.org/@bob), <http://x/@bob>@dave", vec!["carol", "dave"]),
            ("www.x.org/@bob (ftp://a@b/@c) @carol", vec!["carol"]),
            ("https://x.org/@bob。＠carol", vec!["carol"]),
            ("https://x.org/用户/@bob\n@carol", vec!["carol"]),
            ("@alice/@carol // @dave", vec!["alice", "carol", "dave"]),
        ] {
            assert_eq!(mentions(text), expected, "{text}");
        }
    }

    #[test]
    fn bounds() {
        let long = |length: usize| format!("@{}", "a".repeat(length));
        assert_eq!(mentions(&long(MAX_HANDLE)).len(), 1);
        assert_eq!(mentions(&long(MAX_HANDLE + 1)).len(), 0);
        let many: Vec<_> = (0..100).map(|n| format!("@a{n}")).collect();
        let many = many.join("\n\n");
        let found = mentions(&many);
        assert_eq!((found.len(), found[49]), (MAX_MENTIONS, "a49"));
        let left_out = split_mentions(&many).1;
        assert_eq!((left_out.len(), left_out[0]), (MAX_LEFT_OUT, "a50"));
    }

    #[test]
    fn hostile_texts_take_no_longer_than_others() {
        for piece in ["`", "` ``", "`\\", "@a`", "@", "@-", "\\`", "> ", "- ", "1. ", "```\n", "~~~~\n"] {
            assert!(mentions(&piece.repeat(300_000 / piece.len())).len() <= 1, "{piece}");
        }
    }

    proptest! {
        #[test]
        fn handles_are_well_formed_and_differ(text in "[ab@＠:/`~\\\\ .\n>é好-]{0,60}") {
            let found = mentions(&text);
            for (n, handle) in found.iter().enumerate() {
                prop_assert!((1..=MAX_HANDLE).contains(&handle.len()));
                prop_assert!(handle.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)));
                prop_assert!(!handle.ends_with(['.', '-', '_']));
                let text = format!("@{handle}");
                prop_assert_eq!(mentions(&text), vec![*handle]);
                prop_assert!(found[..n].iter().all(|other| !other.eq_ignore_ascii_case(handle)));
            }
        }

        #[test]
        fn any_text(text: String) {
            mentions(&text);
        }
    }
}
