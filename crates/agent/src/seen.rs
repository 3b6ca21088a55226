//! A bounded memory of what was seen, to drop what comes twice.
//!
//! It forgets the oldest first. Texts too long to be what the protocol allows are not remembered, so that a
//! hostile server cannot fill the memory with them.

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};
use std::collections::{HashSet, VecDeque};

/// The longest text remembered, in bytes: an address, a conversation (64 characters of up to four) and a number.
const MAX_TEXT: usize = 512;

/// How many ids and turns are remembered, each.
pub(crate) const REMEMBERED: usize = 10_000;

/// The name of a turn. The number stands first and addresses hold no space: two different turns never read the same.
pub(crate) fn turn_name(sender: &str, conversation: &str, number: i64) -> String {
    format!("{number} {sender} {conversation}")
}

/// The name of a message in a channel: short however long its ids are, and another for every other pair of ids.
pub(crate) fn message_name(channel: &str, message: &str) -> String {
    let digest = Sha256::new()
        .chain_update(format!("{} ", channel.len()))
        .chain_update(channel)
        .chain_update(message)
        .finalize();
    HEXLOWER.encode(&digest)
}

/// The last so many texts.
#[derive(Debug)]
pub(crate) struct Seen {
    texts: HashSet<String>,
    order: VecDeque<String>,
    limit: usize,
}

impl Seen {
    /// A memory of `limit` texts.
    pub(crate) fn new(limit: usize) -> Self {
        Self { texts: HashSet::new(), order: VecDeque::new(), limit }
    }

    /// Whether `text` was seen.
    pub(crate) fn contains(&self, text: &str) -> bool {
        self.texts.contains(text)
    }

    /// Whether `text` is new; from now on it is not.
    pub(crate) fn is_new(&mut self, text: &str) -> bool {
        if text.len() > MAX_TEXT {
            return true;
        }
        if !self.texts.insert(text.to_owned()) {
            return false;
        }
        self.order.push_back(text.to_owned());
        if self.order.len() > self.limit
            && let Some(oldest) = self.order.pop_front()
        {
            self.texts.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut seen = Seen::new(2);
        assert!(seen.is_new("a") && seen.is_new("b") && !seen.is_new("a"));
        assert!(seen.is_new("c"));
        assert!(seen.is_new("a") && !seen.is_new("c"));
        assert_eq!((seen.texts.len(), seen.order.len()), (2, 2));
    }

    #[test]
    fn the_longest_turn_is_kept() {
        let mut seen = Seen::new(2);
        let turn = turn_name(&"a".repeat(128), &"🎵".repeat(64), i64::MAX);
        assert!(!seen.contains(&turn) && seen.is_new(&turn) && seen.contains(&turn) && !seen.is_new(&turn));
    }

    #[test]
    fn giants_are_not_kept() {
        let mut seen = Seen::new(2);
        let giant = "x".repeat(MAX_TEXT + 1);
        assert!(seen.is_new(&giant) && seen.is_new(&giant));
        assert!(seen.texts.is_empty());
    }
}
