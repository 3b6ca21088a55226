//! What a harness can show its model, and what happens to an event that it cannot show as decided.
//!
//! Falling back changes how an event is shown and never what is expected. What was to be withheld stays withheld: a
//! knock never becomes content.

use chorus_protocol::words::Mode;

/// The ways of showing that a harness knows. Keeping silent needs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// At once.
    pub immediate: bool,
    /// After its author has paused.
    pub buffered: bool,
    /// As a knock.
    pub notify: bool,
    /// By tools.
    pub tool_mailbox: bool,
    /// Summed up.
    pub digest: bool,
    /// A turn that runs can be ended by something that matters more.
    pub interrupt: bool,
}

impl Default for Capabilities {
    /// What the document's own example has: everything but interruption.
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
    /// What both ends can do.
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

    /// How an event is shown that is to be shown as `mode`.
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
