//! The word lists: whole messages that ask for nothing or end something, and openings of clauses that ask for
//! something.
//!
//! The lists are closed and cover the named languages only. A message in another language counts as chat,
//! which is answered, so that no request is missed. The phrases are written in normal spelling and folded
//! once.

mod openings;
mod whole;

use crate::fold;
use openings::{
    APPROVAL_REQUESTS, BLOCKERS, CLOSING_WORDS, HEADINGS, IMPERATIVES, LABELS, OFFERING, PLEASE, QUESTIONS,
    REQUESTS, SAFETY, STATUS, STOP_ORDERS,
};
use std::borrow::Borrow;
use std::collections::HashMap;
use std::sync::LazyLock;
use whole::{ACKNOWLEDGEMENTS, APPROVALS, CANCELLATIONS, FILLERS, GRATITUDE, THANKS, WITHDRAWALS};

/// The meaning of a phrase in a message that consists of such phrases only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Whole {
    /// A phrase without a meaning of its own: `so much`, `everybody`.
    Filler,
    Acknowledgement,
    Thanks,
    Approval,
    /// The author does not need it any more. It ends work, and declines what the agent has just offered.
    Withdrawal,
    /// A stop word.
    Cancellation,
}

/// The meaning of a phrase at the beginning of a clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    Safety,
    ApprovalRequest,
    Request,
    Blocker,
    Question,
    Status,
    /// A status if the phrase stands alone before a colon, and an imperative otherwise.
    Heading,
    /// A person's news or pasted error if the phrase stands alone before a colon or a comma.
    Label,
    /// A verb that assigns work if the message names somebody.
    Imperative,
}

/// A list of folded phrases.
pub(crate) struct Lexicon<T> {
    phrases: HashMap<String, T>,
    /// The number of words in the longest phrase that begins with each word. Most words begin none.
    longest: HashMap<String, usize>,
}

impl<T: Copy> Lexicon<T> {
    fn new(lists: &[(T, &str)]) -> Self {
        let mut lexicon = Self { phrases: HashMap::new(), longest: HashMap::new() };
        for (meaning, list) in lists {
            for phrase in list.split(['|', '\n']) {
                let words = fold::words(phrase);
                if let Some(first) = words.first() {
                    let longest = lexicon.longest.entry(first.clone()).or_default();
                    *longest = words.len().max(*longest);
                    lexicon.phrases.entry(words.join(" ")).or_insert(*meaning);
                }
            }
        }
        lexicon
    }

    /// Returns the meaning of the longest known phrase that `words` begin with, and its number of words.
    pub(crate) fn beginning<W: Borrow<str>>(&self, words: &[W]) -> Option<(T, usize)> {
        let most = words.len().min(*self.longest.get(words.first()?.borrow())?);
        (1..=most).rev().find_map(|length| {
            let meaning = self.phrases.get(words[..length].join(" ").as_str())?;
            Some((*meaning, length))
        })
    }
}

pub(crate) static WHOLE: LazyLock<Lexicon<Whole>> = LazyLock::new(|| Lexicon::new(WHOLE_LISTS));

const WHOLE_LISTS: &[(Whole, &str)] = &[
    (Whole::Thanks, THANKS),
    (Whole::Acknowledgement, ACKNOWLEDGEMENTS),
    (Whole::Approval, APPROVALS),
    (Whole::Withdrawal, WITHDRAWALS),
    (Whole::Cancellation, CANCELLATIONS),
    (Whole::Filler, FILLERS),
];

/// Thanks that may have anything behind them.
pub(crate) static GRATEFUL: LazyLock<Lexicon<()>> = LazyLock::new(|| Lexicon::new(&[((), GRATITUDE)]));

pub(crate) static OPENINGS: LazyLock<Lexicon<Opening>> = LazyLock::new(|| Lexicon::new(OPENING_LISTS));

const OPENING_LISTS: &[(Opening, &str)] = &[
    (Opening::Safety, SAFETY),
    (Opening::Request, STOP_ORDERS),
    (Opening::ApprovalRequest, APPROVAL_REQUESTS),
    (Opening::Request, REQUESTS),
    (Opening::Blocker, BLOCKERS),
    (Opening::Question, QUESTIONS),
    (Opening::Status, STATUS),
    (Opening::Heading, HEADINGS),
    (Opening::Label, LABELS),
    (Opening::Imperative, IMPERATIVES),
];

/// Phrases that make a clause a request, at any position.
pub(crate) static MARKERS: LazyLock<Lexicon<()>> = LazyLock::new(|| Lexicon::new(&[((), PLEASE)]));

/// Phrases that offer something (`true`), and closing words that only look like it.
pub(crate) static OFFERS: LazyLock<Lexicon<bool>> = LazyLock::new(|| Lexicon::new(OFFER_LISTS));

const OFFER_LISTS: &[(bool, &str)] = &[(false, CLOSING_WORDS), (true, OFFERING)];

/// Verb endings that make a clause a request in Korean.
pub(crate) static MARKED_ENDINGS: LazyLock<Vec<String>> = LazyLock::new(|| fold::words("주세요 줘 줘요"));

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    /// Checks that no phrase is in two lists, is lost by folding, or is split by a sign that ends a clause.
    fn check<T: Copy + PartialEq + Debug>(lexicon: &Lexicon<T>, lists: &[(T, &str)]) {
        let mut wrong = vec![];
        for (meaning, list) in lists {
            for phrase in list.split(['|', '\n']).map(str::trim).filter(|phrase| !phrase.is_empty()) {
                let words = fold::words(phrase);
                if lexicon.beginning(&words) != Some((*meaning, words.len())) {
                    wrong.push((phrase, *meaning, lexicon.beginning(&words)));
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:?}");
    }

    #[test]
    fn every_phrase_is_found_and_means_one_thing() {
        check(&WHOLE, WHOLE_LISTS);
        check(&OPENINGS, OPENING_LISTS);
        check(&MARKERS, &[((), PLEASE)]);
        check(&OFFERS, OFFER_LISTS);
    }
}
