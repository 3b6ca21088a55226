//! Splits a text into clauses of folded words, so that spelling variants compare equal.
//!
//! Folding removes case, width, accents, apostrophes and repeated letters (`THAAANKS` becomes `thanks`). Word
//! lists are folded by the same function, so that both sides lose the same details. Quotations, code, links
//! and handles are not the author's own words: quotations and handles are left out, and code and links become
//! a word that is in no list. Scripts without spaces give one word per character. The cost is linear and
//! bounded: only the beginning and the end of a long text are read.
//!
//! Folding depends on no grammar and no language.

use std::borrow::Cow;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// The number of characters read from the beginning and from the end.
const READ: (usize, usize) = (2_000, 500);

/// The placeholder for code and links.
pub(crate) const OPAQUE: &str = "\u{fffc}";

/// The words between two commas or similar marks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Clause {
    pub(crate) words: Vec<String>,
    /// The clause is the first of its sentence.
    pub(crate) begins_sentence: bool,
    /// The clause ends with a question mark.
    pub(crate) asks: bool,
}

/// Returns the clauses of the author's own words.
pub(crate) fn clauses(text: &str) -> Vec<Clause> {
    let mut reader = Reader::default();
    let mut fenced = false;
    for line in bounded(text).lines() {
        let line = line.trim();
        if line.starts_with("```") || line.starts_with("~~~") {
            fenced = !fenced;
            reader.word(OPAQUE);
        } else if !fenced && !line.starts_with('>') {
            reader.line(line);
        }
    }
    reader.end_sentence(false);
    reader.clauses
}

/// Returns the folded words of a listed phrase.
pub(crate) fn words(phrase: &str) -> Vec<String> {
    clauses(phrase).into_iter().flat_map(|clause| clause.words).collect()
}

/// Returns the first `most` letters of the author's own words and handles, without separators.
pub(crate) fn letters(text: &str, most: usize) -> String {
    let mut letters = String::new();
    let own = text.lines().filter(|line| !line.trim_start().starts_with('>'));
    for sign in own.flat_map(str::chars).filter(|sign| !sign.is_whitespace()).take(most) {
        if is_emoji(sign) {
            letters.push(sign);
        }
        let folded = sign.to_lowercase().nfkd();
        letters.extend(folded.filter(|sign| sign.is_alphanumeric() || *sign == '@'));
    }
    letters
}

fn bounded(text: &str) -> Cow<'_, str> {
    let (first, last) = READ;
    if text.len() <= first + last {
        return text.into();
    }
    let end = text.char_indices().nth(first).map_or(text.len(), |(place, _)| place);
    let begin = text.char_indices().nth_back(last - 1).map_or(0, |(place, _)| place).max(end);
    if begin == end { text.into() } else { format!("{}\n{}", &text[..end], &text[begin..]).into() }
}

#[derive(Default)]
struct Reader {
    clauses: Vec<Clause>,
    clause: Clause,
    word: String,
    /// The current clause continues a sentence.
    inside: bool,
}

impl Reader {
    fn line(&mut self, line: &str) {
        for (index, part) in line.split('`').enumerate() {
            if index % 2 == 1 {
                self.word(OPAQUE);
                continue;
            }
            for chunk in part.split_whitespace() {
                self.chunk(chunk);
                self.end_word();
            }
        }
        self.end_sentence(false);
    }

    fn chunk(&mut self, chunk: &str) {
        let mut chunk = chunk;
        if chunk.contains("://") {
            self.word(OPAQUE);
            chunk = &chunk[chunk.trim_end_matches(['.', '!', '?', ',', ';', ':', ')']).len()..];
        }
        let mut signs = chunk.chars().peekable();
        while let Some(sign) = signs.next() {
            let inside_word = signs.peek().is_some_and(|next| next.is_alphanumeric());
            match sign {
                '@' | '＠' if self.word.is_empty() => {
                    while signs.next_if(|next| next.is_alphanumeric() || "-_.".contains(*next)).is_some() {}
                }
                // The sign is part of a token such as `v1.2` or `12,000`.
                '.' | '!' | '?' | ':' | ',' if inside_word => self.end_word(),
                '.' | '!' | ';' | '…' | '。' | '｡' | '！' | '।' | '۔' | '؛' => {
                    self.end_sentence(false);
                }
                _ if is_question_mark(sign) => self.end_sentence(true),
                ',' | ':' | '，' | '、' | '،' | '：' | '—' | '–' => self.end_clause(false),
                _ => self.sign(sign),
            }
        }
    }

    fn sign(&mut self, sign: char) {
        // Only the case of ASCII letters is folded.
        if sign.is_ascii_alphanumeric() {
            return self.letter(sign.to_ascii_lowercase());
        }
        if is_emoji(sign) {
            return self.word(sign.encode_utf8(&mut [0; 4]));
        }
        for folded in sign.to_lowercase().nfkd() {
            match folded {
                '\'' | '’' | 'ʼ' | '\u{200d}' | '\u{fe0f}' | '\u{640}' => {}
                'ı' => self.letter('i'),
                _ if is_combining_mark(folded) && !is_letter(folded) => {}
                _ if is_spaceless(folded) => self.word(folded.encode_utf8(&mut [0; 4])),
                _ if folded.is_alphanumeric() => self.letter(folded),
                _ => self.end_word(),
            }
        }
    }

    fn letter(&mut self, letter: char) {
        if !letter.is_alphabetic() || !self.word.ends_with(letter) {
            self.word.push(letter);
        }
    }

    fn word(&mut self, word: &str) {
        self.end_word();
        self.clause.words.push(word.to_owned());
    }

    fn end_word(&mut self) {
        if !self.word.is_empty() {
            self.clause.words.push(std::mem::take(&mut self.word));
        }
    }

    fn end_clause(&mut self, asks: bool) {
        self.end_word();
        if !self.clause.words.is_empty() {
            let clause = std::mem::take(&mut self.clause);
            self.clauses.push(Clause { begins_sentence: !self.inside, asks, ..clause });
            self.inside = true;
        } else if asks {
            // The text before the mark was a handle or a quotation, or there is none.
            self.clauses.push(Clause { asks, begins_sentence: !self.inside, words: vec![] });
        }
    }

    fn end_sentence(&mut self, asks: bool) {
        self.end_clause(asks);
        self.inside = false;
    }
}

fn is_question_mark(sign: char) -> bool {
    matches!(
        sign,
        '?' | '？'
            | '﹖'
            | '؟'
            | '՞'
            | '\u{37e}'
            | '፧'
            | '⁇'
            | '⁈'
            | '⁉'
            | '‽'
            | '⸮'
            | '꘏'
            | '꛷'
            | '❓'
            | '❔'
    )
}

/// Returns `true` for Han characters and Japanese syllables, including the long vowel mark.
fn is_spaceless(sign: char) -> bool {
    matches!(
        sign,
        '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}'
            | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}'
    )
}

/// Returns `true` for marks that distinguish words, as in Hindi. Arabic marks are mostly not written and do
/// not count.
fn is_letter(mark: char) -> bool {
    mark.is_alphabetic() && !matches!(mark, '\u{610}'..='\u{670}')
}

/// Returns `true` for pictures, without the marks that modify them.
fn is_emoji(sign: char) -> bool {
    matches!(
        sign,
        '\u{2600}'..='\u{27bf}' | '\u{2b00}'..='\u{2bff}' | '\u{1f300}'..='\u{1f3fa}'
            | '\u{1f400}'..='\u{1faff}' | '\u{1f170}'..='\u{1f251}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(text: &str) -> String {
        words(text).join(" ")
    }

    #[test]
    fn one_way_of_writing_is_like_another() {
        for (one, other) in [
            ("Thanks", "THAAANKSSS!!!"),
            ("thanks", "ｔｈａｎｋｓ"),
            ("Danke schön", "danke scho\u{308}n"),
            ("don't", "don’t"),
            ("**ok**, _thanks_", "ok thanks"),
            ("@bob-1 thanks", "thanks @carol.x"),
            ("Teşekkürler", "TEŞEKKÜRLER"),
            (
                "감사합니다",
                "\u{1100}\u{1161}\u{11b7}\u{1109}\u{1161}\u{1112}\u{1161}\u{11b8}\u{1102}\u{1175}\u{1103}\u{1161}",
            ),
            ("ありがとう", "ありか\u{3099}とう"),
            ("ラジャー", "ﾗｼﾞｬｰ"),
            ("👍", "👍🏽"),
            ("❤", "❤\u{fe0f}"),
            ("> you said this\nthanks", "thanks"),
        ] {
            assert_eq!(flat(one), flat(other));
        }
    }

    #[test]
    fn clauses_and_sentences() {
        let read: Vec<_> = clauses("Hi Bob, can you run `x --y`? See https://a.b/?c=d v1.2. 谢谢！请部署")
            .into_iter()
            .map(|clause| (clause.words.join(" "), clause.begins_sentence, clause.asks))
            .collect();
        let expected = [
            ("hi bob", true, false),
            ("can you run \u{fffc}", false, true),
            ("se \u{fffc} v1 2", true, false),
            ("谢 谢", true, false),
            ("请 部 署", true, false),
        ];
        assert_eq!(read, expected.map(|(words, begins, asks)| (words.to_owned(), begins, asks)));
    }

    #[test]
    fn code_and_quotations_are_not_the_authors_words() {
        assert_eq!(flat("> what?\nlook\n```\nwhy?\n```\nthere"), "lok \u{fffc} \u{fffc} there");
        assert!(!clauses("> what?\nlook `a?`\n```\nwhy?\n```").iter().any(|clause| clause.asks));
    }

    #[test]
    fn of_a_long_text_the_beginning_and_the_end_are_read() {
        let text = format!("begin {} end", "ab ".repeat(100_000));
        let read = words(&text);
        assert_eq!((read[0].as_str(), read.last().unwrap().as_str()), ("begin", "end"));
        assert!(read.len() < 2_500);
    }
}
