//! A word written by another program, which may be newer and use words that this version does not know.
//!
//! Only clients use this type. The hub rejects unknown words in requests and in its store.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A known word, or an unknown text in its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Word<W> {
    Known(W),
    /// A newer word, kept as written.
    Unknown(String),
}

impl<W: Copy> Word<W> {
    /// Returns the word, or `None` if this version does not know it.
    pub fn known(&self) -> Option<W> {
        match self {
            Self::Known(word) => Some(*word),
            Self::Unknown(_) => None,
        }
    }
}

impl<W> From<W> for Word<W> {
    fn from(word: W) -> Self {
        Self::Known(word)
    }
}

/// Represents an absent word.
impl<W> Default for Word<W> {
    fn default() -> Self {
        Self::Unknown(String::new())
    }
}

impl<W: fmt::Display> fmt::Display for Word<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(word) => word.fmt(f),
            Self::Unknown(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::EntryKind;
    use serde_json::json;

    #[test]
    fn what_is_newer_is_kept_as_it_is() {
        for (text, known) in [("chat", Some(EntryKind::Chat)), ("poll", None), ("", None)] {
            let word: Word<EntryKind> = serde_json::from_value(json!(text)).unwrap();
            assert_eq!((word.known(), word.to_string()), (known, text.to_owned()));
            assert_eq!(json!(word), json!(text));
        }
        assert!(serde_json::from_value::<Word<EntryKind>>(json!(7)).is_err());
    }
}
