//! What a message is meant as, by rules alone.
//!
//! What an author declares wins and never gets here. Thanks, acknowledgements, approvals and cancellations are closed
//! lists and must be the whole message, so that a thanks with a request behind it is a request; everything else goes
//! by how a clause begins or ends. When in doubt it is [`Intent::Chat`], which is answered: to miss somebody is worse
//! than one turn too many.
//!
//! It does not try to understand: no irony, no negation inside a sentence, no request without a form that says so, no
//! language that is not in the lists (question marks count in all scripts). It is linear in the text and reads a
//! bounded part of it.

use crate::fold::{self, Clause};
use crate::lexicon::{MARKED_ENDINGS, MARKERS, OPENINGS, Opening, WHOLE, Whole};
use chorus_protocol::words::Intent;

/// The most words of a message that says thanks, or the like, and no more.
const WHOLE_WORDS: usize = 40;

/// What is known beside the text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clues {
    /// It names somebody: an imperative then gives work.
    pub names_somebody: bool,
    /// What the message was meant as that it answers: `ok` is more than a courtesy to somebody who asked.
    pub answers: Option<Intent>,
}

/// What a text is meant as.
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

/// What a message says that is nothing but known phrases; the strongest of them.
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

/// How a clause begins, courtesies aside.
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

/// A word such as `please` stands in it, with something that is asked for.
fn is_marked(clause: &Clause) -> bool {
    let words = clause.words.as_slice();
    let marked = (0..words.len()).any(|place| {
        MARKERS.beginning(&words[place..]).is_some()
            || MARKED_ENDINGS.iter().any(|ending| words[place].ends_with(ending))
    });
    marked && whole(std::slice::from_ref(clause)).is_none_or(|whole| whole == Whole::Filler)
}

/// Languages that ask with their last syllable.
fn ends_as_question(clause: &Clause) -> bool {
    let ends = |ending: &[&str]| {
        clause.words.len() > ending.len()
            && clause.words[clause.words.len() - ending.len()..].iter().eq(ending)
    };
    // Folded: these are `ですか`, `ますか` and `したか`.
    let japanese = ends(&["て", "す", "か"]) || ends(&["ま", "す", "か"]) || ends(&["し", "た", "か"]);
    japanese || ends(&["吗"]) || ends(&["嗎"]) || ends(&["呢"])
}

/// A line such as a program writes for the record: a level or a time in front.
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

/// How far something came, in the first line: `60%`, `3/5`, `step 3 of 5`, after at most a few words.
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
