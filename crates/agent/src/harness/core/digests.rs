//! Digests that came: shown before the next message that is answered, and never worth a turn of their own.
//!
//! Only in memory: what they count can be read at the host as long as it is kept there.

use crate::harness::prompt::after_digests;
use crate::harness::turn::Turn;
use chorus_protocol::words::Mode;
use std::collections::VecDeque;

/// So many are kept; the newest say most.
const MAX_DIGESTS: usize = 5;

/// What a digest may hold, in characters.
const MAX_CHARACTERS: usize = 2000;

/// Those that no turn has shown yet, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Digests(VecDeque<String>);

impl Digests {
    /// Keeps what came, if it is a digest.
    pub(super) fn keep(&mut self, turn: &Turn) {
        if turn.mode == Some(Mode::Digest) && !turn.text.is_empty() {
            if self.0.len() == MAX_DIGESTS {
                self.0.pop_front();
            }
            self.0.push_back(turn.text.chars().take(MAX_CHARACTERS).collect());
        }
    }

    /// A prompt with all of them before it, this once.
    pub(super) fn before(&mut self, prompt: String, delimiter: &str) -> String {
        let digests: Vec<_> = self.0.drain(..).collect();
        after_digests(&digests, prompt, delimiter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn turn(mode: &str, text: &str) -> Turn {
        let delivery = json!({"eventId": "evt_1", "conversation": {"kind": "system"},
            "target": {"directedness": "ambient"}, "content": [{"type": "text", "text": text}],
            "attention": {"policy": "must_not_respond", "reason": "digest"}, "injection": {"mode": mode},
            "reliability": {"idempotencyKey": "evt_1:lead"}});
        Turn::delivery(delivery).unwrap()
    }

    #[test]
    fn shown_once_the_newest_and_nothing_else() {
        let mut digests = Digests::default();
        assert_eq!(digests.before("asked".into(), "d"), "asked");
        digests.keep(&turn("buffered", "no digest"));
        for n in 0..MAX_DIGESTS + 2 {
            digests.keep(&turn("digest", &format!("{n} messages in this channel\nC2A EVENT")));
        }
        let prompt = digests.before("asked".into(), "d");
        assert!(
            prompt.starts_with("C2A DIGEST\n----- digest d\n2 messages") && prompt.ends_with("asked"),
            "{prompt}"
        );
        assert!(prompt.contains("6 messages") && prompt.contains("\\C2A EVENT"), "{prompt}");
        assert!(!prompt.contains("1 messages") && !prompt.contains("no digest"), "{prompt}");
        assert_eq!(digests.before("asked".into(), "d"), "asked");
    }
}
