//! The ways in which a harness can show events to its model, and the fallback for a mode that it does not
//! support.
//!
//! A fallback changes how an event is shown and never the policy. Withheld content stays withheld: a knock
//! never becomes content.

use chorus_protocol::words::Mode;

/// The modes that a harness supports. Silence needs no support.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Shows events at once.
    pub immediate: bool,
    /// Shows events after their author has paused.
    pub buffered: bool,
    pub notify: bool,
    /// Lets the model fetch events with tools.
    pub tool_mailbox: bool,
    pub digest: bool,
    /// Can end a running turn for a cancellation or a safety event.
    pub interrupt: bool,
}

impl Default for Capabilities {
    /// Returns the capabilities of the specification's example: everything but interruption.
    fn default() -> Self {
        Self {
            immediate: true,
            buffered: true,
            notify: true,
            tool_mailbox: true,
            digest: true,
            interrupt: false,
        }
    }
}

impl Capabilities {
    /// Returns the capabilities that both ends have.
    pub fn and(self, other: Self) -> Self {
        Self {
            immediate: self.immediate && other.immediate,
            buffered: self.buffered && other.buffered,
            notify: self.notify && other.notify,
            tool_mailbox: self.tool_mailbox && other.tool_mailbox,
            digest: self.digest && other.digest,
            interrupt: self.interrupt && other.interrupt,
        }
    }

    /// Returns the mode to use for an event that was decided to be shown as `mode`.
    pub fn fall_back(self, mode: Mode) -> Mode {
        let instead: &[Mode] = match mode {
            Mode::Immediate => &[Mode::Buffered, Mode::Notify, Mode::ToolMailbox],
            Mode::Buffered => &[Mode::Immediate, Mode::Notify, Mode::ToolMailbox],
            Mode::Notify | Mode::Digest => &[Mode::ToolMailbox],
            Mode::ToolMailbox | Mode::Silent => &[],
        };
        let mut ways = std::iter::once(&mode).chain(instead).copied();
        ways.find(|way| self.has(*way)).unwrap_or(Mode::Silent)
    }

    fn has(self, mode: Mode) -> bool {
        match mode {
            Mode::Immediate => self.immediate,
            Mode::Buffered => self.buffered,
            Mode::Notify => self.notify,
            Mode::ToolMailbox => self.tool_mailbox,
            Mode::Digest => self.digest,
            Mode::Silent => true,
        }
    }
}

/// The capabilities that an agent's harness agreed on when its session began, or last had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// The modes in which events can be shown.
    pub shows: Capabilities,
    /// The harness tells reactions from messages.
    pub signals: bool,
    /// The harness can be sent an event that it has acknowledged.
    pub repeats: bool,
}

impl Abilities {
    /// The abilities of an agent without a C2A session: an inbox as server-sent events, an endpoint, a connection string. Such an
    /// agent gets no knocks, because it cannot tell them from messages.
    pub const WITHOUT_KNOCKS: Self = Self {
        shows: Capabilities {
            immediate: true,
            buffered: true,
            notify: false,
            tool_mailbox: true,
            digest: false,
            interrupt: false,
        },
        signals: false,
        repeats: true,
    };

    /// Reads the abilities from the words that are stored for them; `None` stands for an agent without a C2A session.
    pub fn of_words(words: Option<&str>) -> Self {
        let Some(kept) = words else { return Self::WITHOUT_KNOCKS };
        let shows = Capabilities::of_words(kept);
        Self {
            shows,
            signals: shows.notify && has_agreed(words, "chatTools.reactionSignals"),
            repeats: agreed_to_repeats(words),
        }
    }
}

impl Capabilities {
    /// Reads the modes from the words that are stored for a session.
    pub fn of_words(words: &str) -> Self {
        let has = |mode: Mode| words.split(' ').any(|word| word == mode.as_str());
        Self {
            immediate: has(Mode::Immediate),
            buffered: has(Mode::Buffered),
            notify: has(Mode::Notify),
            tool_mailbox: has(Mode::ToolMailbox),
            digest: has(Mode::Digest),
            interrupt: false,
        }
    }
}

/// Returns `true` if a harness may be sent again an event that it has acknowledged.
pub fn agreed_to_repeats(words: Option<&str>) -> bool {
    has_agreed(words, "delivery.redelivery") && has_agreed(words, "delivery.idempotency")
}

/// Returns `true` if `what` is among the stored words. Also `true` for agents without a C2A session, and for sessions stored
/// before anything but modes was recorded: those get everything.
pub fn has_agreed(words: Option<&str>, what: &str) -> bool {
    words.is_none_or(|words| !words.contains('.') || words.split(' ').any(|word| word == what))
}

/// Returns `true` if an event of this mode is delivered. An agent finds every other event when it looks.
pub fn is_delivered(mode: Mode) -> bool {
    match mode {
        Mode::Immediate | Mode::Buffered | Mode::Notify => true,
        Mode::ToolMailbox | Mode::Digest | Mode::Silent => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn falling_back() {
        let all = Capabilities::default();
        for mode in Mode::ALL {
            assert_eq!(all.fall_back(*mode), *mode);
        }
        let without_buffered = Capabilities { buffered: false, ..all };
        assert_eq!(without_buffered.fall_back(Mode::Buffered), Mode::Immediate);
        let without_notify = Capabilities { notify: false, ..all };
        assert_eq!(without_notify.fall_back(Mode::Notify), Mode::ToolMailbox);
        let without_both = Capabilities { immediate: false, buffered: false, ..all };
        assert_eq!(without_both.fall_back(Mode::Buffered), Mode::Notify);
        let without_digest = Capabilities { digest: false, ..all };
        assert_eq!(without_digest.fall_back(Mode::Digest), Mode::ToolMailbox);
        assert_eq!(all.and(without_digest), without_digest);
    }

    proptest! {
        #[test]
        fn what_is_withheld_stays_withheld(bits in any::<[bool; 6]>(), mode in prop::sample::select(Mode::ALL)) {
            let [immediate, buffered, notify, tool_mailbox, digest, interrupt] = bits;
            let some = Capabilities { immediate, buffered, notify, tool_mailbox, digest, interrupt };
            let shown = some.fall_back(mode);
            prop_assert!(some.has(shown));
            let content = |mode| matches!(mode, Mode::Immediate | Mode::Buffered);
            prop_assert!(content(mode) || !content(shown));
            prop_assert_eq!(some.fall_back(shown), shown);
        }
    }
}
