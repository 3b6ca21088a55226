//! Derives the intent of a message from what it answers and from its words.
//!
//! A declared intent wins and never gets here. Structure comes next: whatever a person says to an agent that
//! asked something answers the question, unless it asks something itself or is nothing but a stop word. Words
//! come last. Thanks, acknowledgements, approvals and cancellations are closed lists and must be the whole
//! message, so that a thanks followed by a request is a request. A courtesy with anything else in it keeps its
//! intent with low confidence, so that it has a weak effect. All other intents depend on how a clause begins or
//! ends. A doubtful message is [`Intent::Chat`], which is answered: a missed request is worse than one
//! unnecessary turn.
//!
//! The rules do not recognize irony, negation inside a sentence, requests without a known form, or languages
//! without a list (question marks count in all scripts). The cost is linear in the text, and only a bounded
//! part of the text is read.

use crate::fold::{self, Clause};
use crate::lexicon::{GRATEFUL, MARKED_ENDINGS, MARKERS, OFFERS, OPENINGS, Opening, WHOLE, Whole};
use chorus_protocol::attention::Classification;
use chorus_protocol::words::{Confidence, Intent, Layer};

/// The largest number of words in a message that counts as a mere thanks, acknowledgement, approval or
/// cancellation, or as a courtesy with something else in it.
const WHOLE_WORDS: usize = 40;

/// The largest number of words in a stop word with a `please`.
const POLITE_WORDS: usize = 12;

/// The facts about a message besides its text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clues {
    /// The message is directed at somebody, so that an imperative assigns work: it names somebody, or a person
    /// says it in a thread.
    pub is_directed: bool,
    pub by_person: bool,
    /// The intent of the answered message. An `ok` is more than a courtesy if it answers a question.
    pub answers: Option<Intent>,
}

impl Clues {
    /// Returns `true` if the author of the answered message waits for this one.
    fn is_awaited(self) -> bool {
        matches!(self.answers, Some(Intent::Question | Intent::ApprovalRequest))
    }
}

/// Returns the classification of a message whose author declared its intent.
pub(crate) fn declared(intent: Intent) -> Classification {
    Classification { intent, confidence: Confidence::High, layer: Layer::Declared }
}

fn implied(intent: Intent, confidence: Confidence) -> Classification {
    Classification { intent, confidence, layer: Layer::Structure }
}

fn worded(intent: Intent, confidence: Confidence) -> Classification {
    Classification { intent, confidence, layer: Layer::Lexicon }
}

/// Classifies a text whose author declared no intent.
pub fn classify_text(text: &str, clues: Clues) -> Classification {
    let clauses = fold::clauses(text);
    let asks = clauses.iter().any(|clause| clause.asks);
    if let Some(whole) = whole(&clauses).or_else(|| polite_stop(&clauses)).filter(|_| !asks)
        && let Some(found) = of_whole(whole, &clauses, clues)
    {
        return found;
    }
    let found = of_clauses(text, &clauses, clues);
    if !clues.by_person || !clues.is_awaited() {
        return found;
    }
    match found.intent {
        Intent::Chat
        | Intent::Thanks
        | Intent::Acknowledgement
        | Intent::Status
        | Intent::Progress
        | Intent::Log => implied(Intent::Chat, Confidence::High),
        _ => found,
    }
}

/// Returns the intent of an earlier message, as far as it matters to those that answer it: an offer waits for an
/// answer as a request for approval does.
pub fn of_answered(text: &str, intent: Intent) -> Intent {
    if matches!(intent, Intent::Question | Intent::ApprovalRequest) {
        return intent;
    }
    let clauses = fold::clauses(text);
    let words: Vec<_> = clauses.iter().flat_map(|clause| clause.words.iter().map(String::as_str)).collect();
    let offers = |place: usize| OFFERS.beginning(&words[place..]).is_some_and(|(offers, _)| offers);
    if (0..words.len()).any(offers) {
        Intent::ApprovalRequest
    } else if clauses.iter().any(|clause| clause.asks) {
        Intent::Question
    } else {
        intent
    }
}

/// Returns the classification of a message that consists of known phrases only.
fn of_whole(whole: Whole, clauses: &[Clause], clues: Clues) -> Option<Classification> {
    let awaited = clues.is_awaited() && (clues.by_person || whole == Whole::Acknowledgement);
    let agrees = clues.answers == Some(Intent::ApprovalRequest) && contains(clauses, Whole::Acknowledgement);
    let intent = match whole {
        Whole::Filler => return None,
        Whole::Approval => Intent::Approval,
        Whole::Acknowledgement | Whole::Thanks if awaited => {
            let intent = if agrees { Intent::Approval } else { Intent::Chat };
            return Some(implied(intent, Confidence::High));
        }
        Whole::Withdrawal if awaited => {
            return Some(implied(Intent::Chat, Confidence::High));
        }
        Whole::Withdrawal | Whole::Cancellation => Intent::Cancellation,
        Whole::Thanks => Intent::Thanks,
        Whole::Acknowledgement => Intent::Acknowledgement,
    };
    // An agent that gave a person work, or is blocked, may want to know what the person makes of it.
    let concerns = matches!(clues.answers, Some(Intent::Assignment | Intent::Blocker)) && clues.by_person;
    Some(match intent {
        Intent::Thanks | Intent::Acknowledgement if concerns => implied(intent, Confidence::Low),
        intent => worded(intent, Confidence::High),
    })
}

fn of_clauses(text: &str, clauses: &[Clause], clues: Clues) -> Classification {
    let asks = clauses.iter().any(|clause| clause.asks);
    let openings: Vec<_> = clauses.iter().map(opening).collect();
    let opens = |wanted| openings.contains(&Some(wanted));
    let begins = |wanted| {
        clauses
            .iter()
            .zip(&openings)
            .any(|(clause, opening)| clause.begins_sentence && !clause.asks && *opening == Some(wanted))
    };
    let is_log = is_log(text);
    // Programs write the lines of logs, so these ask for nothing. A person pastes them, and may add a request.
    if is_log && !clues.by_person {
        return worded(Intent::Log, Confidence::Medium);
    }
    // A stop word with anything behind it is an order like others.
    let stops = |clause: &Clause| whole(std::slice::from_ref(clause)) == Some(Whole::Cancellation);
    let is_ordered = |clause: &Clause| is_marked(clause) || ends_as_request(clause) || stops(clause);
    let orders = opens(Opening::Request) || clauses.iter().any(is_ordered);
    let commands = opens(Opening::Imperative);
    let intent = if begins(Opening::Safety) {
        Intent::Safety
    } else if opens(Opening::ApprovalRequest) {
        Intent::ApprovalRequest
    } else if orders {
        Intent::Assignment
    } else if begins(Opening::Blocker) {
        Intent::Blocker
    } else if is_progress(text) && !asks {
        Intent::Progress
    } else if asks || opens(Opening::Question) || clauses.iter().any(ends_as_question) {
        Intent::Question
    } else if is_log {
        Intent::Log
    } else if begins(Opening::Status) && !(clues.by_person && commands)
        || begins(Opening::Label) && clues.by_person && !commands
    {
        Intent::Status
    } else if commands && clues.is_directed {
        Intent::Assignment
    } else if let Some(courtesy) = courtesy(clauses).filter(|_| !commands) {
        return worded(courtesy, Confidence::Low);
    } else {
        return worded(Intent::Chat, Confidence::Low);
    };
    worded(intent, Confidence::Medium)
}

/// Returns the courtesy in a short message that says something else too: a clause that is nothing but a courtesy,
/// or one that begins with thanks.
fn courtesy(clauses: &[Clause]) -> Option<Intent> {
    let count: usize = clauses.iter().map(|clause| clause.words.len()).sum();
    if count > WHOLE_WORDS {
        return None;
    }
    let thanks = |clause: &Clause| {
        whole(std::slice::from_ref(clause)) == Some(Whole::Thanks)
            || GRATEFUL.beginning(&clause.words).is_some()
    };
    let acknowledges = |clause: &Clause| whole(std::slice::from_ref(clause)) == Some(Whole::Acknowledgement);
    if clauses.iter().any(thanks) {
        Some(Intent::Thanks)
    } else {
        clauses.iter().any(acknowledges).then_some(Intent::Acknowledgement)
    }
}

/// Returns `true` if a message of known phrases contains one with this meaning.
fn contains(clauses: &[Clause], wanted: Whole) -> bool {
    phrases(clauses).is_some_and(|phrases| phrases.contains(&wanted))
}

/// Returns the strongest meaning of a message that consists of known phrases only.
fn whole(clauses: &[Clause]) -> Option<Whole> {
    phrases(clauses).map(|phrases| phrases.into_iter().max().unwrap_or(Whole::Filler))
}

/// Returns `Cancellation` for a message of known phrases, one of them a stop word, and of words such as `please`.
fn polite_stop(clauses: &[Clause]) -> Option<Whole> {
    if clauses.iter().map(|clause| clause.words.len()).sum::<usize>() > POLITE_WORDS {
        return None;
    }
    let impolite = clauses.iter().map(|clause| {
        let mut words = vec![];
        let mut rest = clause.words.as_slice();
        while let Some(word) = rest.first() {
            let length = MARKERS.beginning(rest).map_or(0, |((), length)| length);
            if length == 0 {
                words.push(word.clone());
            }
            rest = &rest[length.max(1)..];
        }
        Clause { words, ..Clause::default() }
    });
    whole(&impolite.collect::<Vec<_>>()).filter(|whole| *whole == Whole::Cancellation)
}

/// Returns the meanings of the phrases of a message that consists of known phrases only.
fn phrases(clauses: &[Clause]) -> Option<Vec<Whole>> {
    let count: usize = clauses.iter().map(|clause| clause.words.len()).sum();
    if count > WHOLE_WORDS {
        return None;
    }
    let words: Vec<_> = clauses.iter().flat_map(|clause| clause.words.iter().map(String::as_str)).collect();
    let mut phrases = vec![];
    let mut rest = words.as_slice();
    while !rest.is_empty() {
        let (meaning, length) = WHOLE.beginning(rest)?;
        phrases.push(meaning);
        rest = &rest[length..];
    }
    Some(phrases)
}

/// Returns the opening of a clause, after any courtesies.
fn opening(clause: &Clause) -> Option<Opening> {
    let mut rest = clause.words.as_slice();
    loop {
        match OPENINGS.beginning(rest) {
            Some((Opening::Heading, length)) if length < rest.len() => return Some(Opening::Imperative),
            Some((Opening::Heading, _)) => return Some(Opening::Status),
            Some((Opening::Label, length)) if length < rest.len() => return None,
            Some((opening, _)) => return Some(opening),
            None => {}
        }
        match WHOLE.beginning(rest)? {
            (Whole::Filler | Whole::Acknowledgement | Whole::Thanks, length) => rest = &rest[length..],
            (Whole::Approval | Whole::Withdrawal | Whole::Cancellation, _) => return None,
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

/// Returns `true` for requests in Japanese, which end with a form of the verb: `して` and `てほしい`.
fn ends_as_request(clause: &Clause) -> bool {
    ends(clause, &["し", "て"]) || ends(clause, &["て", "ほ", "し", "い"])
}

/// Returns `true` if the clause ends with these words and is longer.
fn ends(clause: &Clause, ending: &[&str]) -> bool {
    clause.words.len() > ending.len() && clause.words[clause.words.len() - ending.len()..].iter().eq(ending)
}

/// Returns `true` for questions in languages that mark them with the last syllable.
fn ends_as_question(clause: &Clause) -> bool {
    let ends = |ending: &[&str]| ends(clause, ending);
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
