//! Derives the intent of a message from rules alone.
//!
//! A declared intent wins and never gets here. Thanks, acknowledgements, approvals and cancellations are
//! closed lists and must be the whole message, so that a thanks followed by a request is a request. All other
//! intents depend on how a clause begins or ends. A doubtful message is [`Intent::Chat`], which is answered: a
//! missed request is worse than one unnecessary turn.
//!
//! The rules do not recognize irony, negation inside a sentence, requests without a known form, or languages
//! without a list (question marks count in all scripts). The cost is linear in the text, and only a bounded
//! part of the text is read.

use crate::fold::{self, Clause};
use crate::lexicon::{MARKED_ENDINGS, MARKERS, OPENINGS, Opening, WHOLE, Whole};
use chorus_protocol::words::Intent;

/// The largest number of words in a message that counts as a mere thanks, acknowledgement, approval or
/// cancellation.
const WHOLE_WORDS: usize = 40;

/// The facts about a message besides its text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clues {
    /// The message names somebody, so that an imperative assigns work.
    pub names_somebody: bool,
    /// The intent of the answered message. An `ok` is more than a courtesy if it answers a question.
    pub answers: Option<Intent>,
}

/// Returns the intent of a text.
pub fn intent(text: &str, clues: Clues) -> Intent {
    if is_log(text) {
        return Intent::Log;
    }
    let clauses = fold::clauses(text);
    let asks = clauses.iter().any(|clause| clause.asks);
    if !asks && let Some(whole) = whole(&clauses).filter(|whole| *whole != Whole::Filler) {
        return match (whole, clues.answers) {
            (Whole::Cancellation, _) => Intent::Cancellation,
            (Whole::Approval, _) | (Whole::Acknowledgement, Some(Intent::ApprovalRequest)) => {
                Intent::Approval
            }
            (Whole::Acknowledgement, Some(Intent::Question)) => Intent::Chat,
            (Whole::Thanks, _) => Intent::Thanks,
            (Whole::Acknowledgement | Whole::Filler, _) => Intent::Acknowledgement,
        };
    }
    let openings: Vec<_> = clauses.iter().map(opening).collect();
    let opens = |wanted| openings.contains(&Some(wanted));
    let begins = |wanted| {
        clauses
            .iter()
            .zip(&openings)
            .any(|(clause, opening)| clause.begins_sentence && !clause.asks && *opening == Some(wanted))
    };
    let cancels = !asks
        && clauses
            .iter()
            .zip(&openings)
            .map(|(clause, opening)| (whole(std::slice::from_ref(clause)), *opening))
            .find(|(whole, _)| whole.is_none_or(|whole| whole >= Whole::Approval))
            .is_some_and(|(whole, opening)| {
                whole == Some(Whole::Cancellation) || opening == Some(Opening::Cancellation)
            });
    if begins(Opening::Safety) {
        Intent::Safety
    } else if cancels {
        Intent::Cancellation
    } else if opens(Opening::ApprovalRequest) {
        Intent::ApprovalRequest
    } else if opens(Opening::Request) || clauses.iter().any(is_marked) {
        Intent::Assignment
    } else if begins(Opening::Blocker) {
        Intent::Blocker
    } else if is_progress(text) && !asks {
        Intent::Progress
    } else if asks || opens(Opening::Question) || clauses.iter().any(ends_as_question) {
        Intent::Question
    } else if begins(Opening::Status) {
        Intent::Status
    } else if clues.names_somebody && opens(Opening::Imperative) {
        Intent::Assignment
    } else {
        Intent::Chat
    }
}

/// Returns the strongest meaning of a message that consists of known phrases only.
fn whole(clauses: &[Clause]) -> Option<Whole> {
    let count: usize = clauses.iter().map(|clause| clause.words.len()).sum();
    if count > WHOLE_WORDS {
        return None;
    }
    let words: Vec<_> = clauses.iter().flat_map(|clause| clause.words.iter().map(String::as_str)).collect();
    let mut strongest = Whole::Filler;
    let mut rest = words.as_slice();
    while !rest.is_empty() {
        let (meaning, length) = WHOLE.beginning(rest)?;
        strongest = strongest.max(meaning);
        rest = &rest[length..];
    }
    Some(strongest)
}

/// Returns the opening of a clause, after any courtesies.
fn opening(clause: &Clause) -> Option<Opening> {
    let mut rest = clause.words.as_slice();
    loop {
        match OPENINGS.beginning(rest) {
            Some((Opening::Heading, length)) if length < rest.len() => return Some(Opening::Imperative),
            Some((Opening::Heading, _)) => return Some(Opening::Status),
            Some((opening, _)) => return Some(opening),
            None => {}
        }
        match WHOLE.beginning(rest)? {
            (Whole::Filler | Whole::Acknowledgement | Whole::Thanks, length) => rest = &rest[length..],
            (Whole::Approval | Whole::Cancellation, _) => return None,
        }
    }
}

/// Returns `true` if the clause contains a word such as `please` together with a request.
fn is_marked(clause: &Clause) -> bool {
    let words = clause.words.as_slice();
    let marked = (0..words.len()).any(|place| {
        MARKERS.beginning(&words[place..]).is_some()
            || MARKED_ENDINGS.iter().any(|ending| words[place].ends_with(ending))
    });
    marked && whole(std::slice::from_ref(clause)).is_none_or(|whole| whole == Whole::Filler)
}

/// Returns `true` for questions in languages that mark them with the last syllable.
fn ends_as_question(clause: &Clause) -> bool {
    let ends = |ending: &[&str]| {
        clause.words.len() > ending.len()
            && clause.words[clause.words.len() - ending.len()..].iter().eq(ending)
    };
    // These are the folded forms of `ですか`, `ますか` and `したか`.
    let japanese = ends(&["て", "す", "か"]) || ends(&["ま", "す", "か"]) || ends(&["し", "た", "か"]);
    japanese || ends(&["吗"]) || ends(&["嗎"]) || ends(&["呢"])
}

/// Returns `true` if the text begins like a log line, with a level or a time.
fn is_log(text: &str) -> bool {
    let line = text.trim_start().trim_start_matches(['[', '(', '*', '`']);
    let level = line.split(|sign: char| !sign.is_ascii_alphabetic()).next().unwrap_or_default();
    let after = line[level.len()..].chars().next();
    let levelled =
        matches!(level, "TRACE" | "DEBUG" | "INFO" | "NOTICE" | "WARN" | "WARNING" | "ERROR" | "FATAL")
            && matches!(after, Some(']' | ')' | ':' | ' ' | '*' | '`' | '\t'));
    let timed = line.len() > 16
        && line.bytes().zip(*b"dddd-dd-ddTdd:dd").all(|(sign, form)| match form {
            b'd' => sign.is_ascii_digit(),
            b'T' => sign == b'T' || sign == b' ',
            form => sign == form,
        });
    let named = line.get(..4).is_some_and(|name| name.eq_ignore_ascii_case("log:"));
    levelled || timed || named
}

/// Returns `true` if the first line states progress: `60%`, `3/5` or `step 3 of 5`, after at most a few words.
fn is_progress(text: &str) -> bool {
    let line = text.trim_start().lines().next().unwrap_or_default();
    let words: Vec<_> = line.split_whitespace().take(8).collect();
    let begins = words.first().is_some_and(|word| {
        let word = word.trim_matches(|sign: char| !sign.is_alphanumeric());
        word.eq_ignore_ascii_case("progress") || word.eq_ignore_ascii_case("step")
    });
    let counted = words.iter().any(|word| {
        let word = word.trim_matches(['(', ')', '[', ']', '.', ',', ':', '*']);
        let share = word.strip_suffix('%').is_some_and(is_number);
        share || word.split_once('/').is_some_and(|(part, all)| is_number(part) && is_number(all))
    });
    let bracketed = line.starts_with('[') && counted;
    let of = words.windows(3).any(|three| {
        is_number(three[0]) && three[1] == "of" && is_number(three[2].trim_end_matches([':', '.', ',']))
    });
    let done = words.iter().any(|word| {
        let word = word.trim_matches(|sign: char| !sign.is_alphabetic()).to_lowercase();
        matches!(word.as_str(), "done" | "complete" | "completed" | "finished" | "processed")
    });
    bracketed || (begins && (counted || of)) || (counted && done)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.len() <= 9 && text.bytes().all(|sign| sign.is_ascii_digit() || sign == b'.')
}

#[cfg(test)]
mod tests;
