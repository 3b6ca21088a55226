//! Mentions in messages: `@handle`, except in code, quotes and URLs.
//!
//! Code is Markdown's fenced blocks and backtick spans; a quote is a line that begins with `>`. An escaped
//! `\@` is plain text, and so is an `@` after a word, as in an email address. A full-width `＠` counts as an
//! `@`. The scan is linear in the length of the text. This module does not check whether a handle exists.

use std::collections::{BTreeMap, VecDeque};

/// The longest handle, in characters.
pub const MAX_HANDLE: usize = 64;

/// The maximum number of mentions of one text that count.
pub const MAX_MENTIONS: usize = 50;

/// The maximum number of surplus mentions that are reported to the author.
const MAX_LEFT_OUT: usize = 50;

/// Returns the handles that a text mentions, as first written, in order and without repetition (`@Bob` is
/// `@bob`).
pub fn mentions(markdown: &str) -> Vec<&str> {
    split_mentions(markdown).0
}

/// Returns the handles that a text mentions, and the first of the surplus ones beyond [`MAX_MENTIONS`].
pub fn split_mentions(markdown: &str) -> (Vec<&str>, Vec<&str>) {
    let mut found = Vec::new();
    for paragraph in paragraphs(markdown) {
        find(paragraph, &mut found);
    }
    let left_out = found.split_off(MAX_MENTIONS.min(found.len()));
    (found, left_out)
}

/// Returns the text between fenced code blocks, quotes and blank lines. Code spans do not cross these borders.
fn paragraphs(markdown: &str) -> Vec<&str> {
    let (mut paragraphs, mut begin, mut place) = (Vec::new(), 0, 0);
    let mut open: Option<Fence<'_>> = None;
    for line in markdown.split_inclusive('\n') {
        let (code, quote) = (open.is_some(), is_quote(line));
        match &open {
            Some(opening) if Fence::closing(line).is_some_and(|fence| fence.closes(opening)) => open = None,
            Some(_) => {}
            // A fence inside a quote ends with the quote.
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

/// A line that opens or closes a fenced code block.
struct Fence<'t> {
    mark: char,
    length: usize,
    /// The text after the mark, such as the language.
    info: &'t str,
}

impl<'t> Fence<'t> {
    /// Reads an opening fence, also inside a list item.
    fn opening(line: &'t str) -> Option<Self> {
        // With a backtick in its info string, a line of backticks is a code span and no fence.
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

/// Strips list markers from the beginning of a line.
fn in_list(line: &str) -> &str {
    let mut rest = line.trim();
    while let Some(inside) = list_item(rest) {
        rest = inside.trim_start();
    }
    rest
}

/// Returns `true` if the line is part of a quote.
fn is_quote(line: &str) -> bool {
    in_list(line).starts_with('>')
}

/// Returns the text after a list marker.
fn list_item(text: &str) -> Option<&str> {
    let numbered = || {
        let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
        (rest.len() < text.len()).then(|| rest.strip_prefix(['.', ')'])).flatten()
    };
    text.strip_prefix(['-', '*', '+']).or_else(numbered)?.strip_prefix([' ', '\t'])
}

/// Adds the handles that one paragraph mentions.
fn find<'t>(text: &'t str, found: &mut Vec<&'t str>) {
    let bytes = text.as_bytes();
    let mut ends = span_ends(bytes);
    let (mut place, mut in_url) = (0, false);
    while place < bytes.len() && found.len() < MAX_MENTIONS + MAX_LEFT_OUT {
        let rest = &text[place..];
        let Some(sign) = rest.chars().next() else { break };
        in_url = (in_url && !ends_url(sign)) || begins_url(text, place);
        match sign {
            // A backslash escapes the next character.
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

/// Returns `true` if a URL's scheme separator or a `www.` begins here.
fn begins_url(text: &str, place: usize) -> bool {
    text[place..].starts_with("://")
        || (text[place..].starts_with("www.") && !text[..place].ends_with(is_word))
}

/// Returns `true` if a character cannot belong to a URL: whitespace, brackets and quotes, and the punctuation
/// of scripts without spaces.
fn ends_url(sign: char) -> bool {
    sign.is_whitespace()
        || matches!(sign, '<' | '>' | '"' | ')' | ']' | '|' | '\u{3000}'..='\u{303f}' | '\u{ff01}'..='\u{ff0f}')
}

/// Returns the handle at the beginning of a text.
fn handle(text: &str) -> Option<&str> {
    let length = run(text.as_bytes(), |byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    let (handle, rest) = text.split_at(length);
    // Trailing punctuation belongs to the sentence. A word that continues in other letters is no handle.
    let handle = handle.trim_end_matches(['.', '_', '-']);
    ((1..=MAX_HANDLE).contains(&handle.len()) && !rest.starts_with(is_word)).then_some(handle)
}

/// Returns `true` if a character belongs to a word. Scripts without upper and lower case are excluded, because
/// they put no space before a mention.
fn is_word(c: char) -> bool {
    c == '_' || c.is_ascii_digit() || c.is_lowercase() || c.is_uppercase()
}

/// Returns the positions of all runs of backticks by length. A code span ends at the next run of the same
/// length.
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

/// Returns the end of a code span opened by `length` backticks, or `None` if it is not closed. Positions only
/// grow, so runs before `after` are dropped.
fn span_end(ends: &mut BTreeMap<usize, VecDeque<usize>>, length: usize, after: usize) -> Option<usize> {
    let ends = ends.get_mut(&length)?;
    while ends.front().is_some_and(|place| *place < after) {
        ends.pop_front();
    }
    ends.front().map(|place| place + length)
}

/// Counts the leading bytes for which `such` is true.
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
