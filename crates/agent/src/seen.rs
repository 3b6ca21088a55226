//! A bounded set of texts that were seen, used to drop duplicates.
//!
//! The oldest text is dropped first. Texts longer than the protocol allows are not stored, so that a hostile
//! server cannot fill the memory.

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};
use std::collections::{HashSet, VecDeque};

/// The longest stored text, in bytes: an address, a conversation (64 characters of up to four bytes) and a
/// number.
const MAX_TEXT: usize = 512;

/// The number of ids and the number of turns that are remembered.
pub(crate) const REMEMBERED: usize = 10_000;

/// Returns a unique name for a turn. The number stands first and addresses contain no space, so two turns
/// never share a name.
pub(crate) fn turn_name(sender: &str, conversation: &str, number: i64) -> String {
    format!("{number} {sender} {conversation}")
}

/// Returns a unique name for a message in a channel. It is a digest, so it is short for ids of any length.
pub(crate) fn message_name(channel: &str, message: &str) -> String {
    let digest = Sha256::new()
        .chain_update(format!("{} ", channel.len()))
        .chain_update(channel)
        .chain_update(message)
        .finalize();
    HEXLOWER.encode(&digest)
}

/// The last `limit` texts that were seen.
#[derive(Debug)]
pub(crate) struct Seen {
    texts: HashSet<String>,
    order: VecDeque<String>,
    limit: usize,
}

impl Seen {
    /// Creates an empty set of at most `limit` texts.
    pub(crate) fn new(limit: usize) -> Self {
        Self { texts: HashSet::new(), order: VecDeque::new(), limit }
    }

    pub(crate) fn contains(&self, text: &str) -> bool {
        self.texts.contains(text)
    }

    /// Adds `text` and returns whether it was new.
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
