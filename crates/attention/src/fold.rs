//! A text as far as rules about words go: clauses of folded words, so that one way of writing a thing is like another.
//!
//! Folding takes away case, width, accents, apostrophes and repeated letters (`THAAANKS` is `thanks`); lists of words
//! are folded by the same function, so what is lost is lost on both sides. Quotations, code, links and handles are
//! not an author's own words: the first are left out, code and links stand as a word that is in no list. Scripts that
//! write no spaces give a word per sign. Linear, and bounded: of a long text the beginning and the end are read.
//!
//! It knows no grammar and no language.

use std::borrow::Cow;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// How many characters of the beginning are read, and how many of the end.
const READ: (usize, usize) = (2_000, 500);

/// Stands for code and links.
pub(crate) const OPAQUE: &str = "\u{fffc}";

/// What stands between two commas, or the like.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Clause {
    pub(crate) words: Vec<String>,
    /// It is the first of its sentence.
    pub(crate) begins_sentence: bool,
    /// A question mark ends it.
    pub(crate) asks: bool,
}

/// The clauses of what an author says himself.
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

/// The words of a phrase of a list.
pub(crate) fn words(phrase: &str) -> Vec<String> {
    clauses(phrase).into_iter().flat_map(|clause| clause.words).collect()
}

/// The letters of what an author says himself, with handles, without anything between them; the first `most`.
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
    /// The clause at hand goes on with a sentence.
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
                // As in `v1.2` and `12,000`.
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
        // Nothing of these can be folded but their case.
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
            // What the mark stands after was a handle or a quotation; or there is nothing but the mark.
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

/// Han, and the Japanese syllables with the mark that makes a vowel long.
fn is_spaceless(sign: char) -> bool {
    matches!(
        sign,
        '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}'
            | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}'
    )
}

/// Marks without which a word is another, as in Hindi; Arabic is mostly written without its own.
fn is_letter(mark: char) -> bool {
    mark.is_alphabetic() && !matches!(mark, '\u{610}'..='\u{670}')
}

/// Pictures, without the marks that change their look.
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
