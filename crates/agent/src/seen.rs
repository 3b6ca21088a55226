//! A bounded memory of what was seen, to drop what comes twice.
//!
//! It forgets the oldest first. Texts too long to be what the protocol allows are not remembered, so that a
//! hostile server cannot fill the memory with them.

use std::collections::{HashSet, VecDeque};

/// The longest text remembered: an address, a conversation and a number.
const MAX_TEXT: usize = 256;

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
    fn giants_are_not_kept() {
        let mut seen = Seen::new(2);
        let giant = "x".repeat(MAX_TEXT + 1);
        assert!(seen.is_new(&giant) && seen.is_new(&giant));
        assert!(seen.texts.is_empty());
    }
}
