//! What is decided for one event and one recipient.

use crate::words::{Directedness, Mode, Policy, Priority, Reason};

/// What an event means for one recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attention {
    /// At whom the event is aimed, seen from the recipient.
    pub directedness: Directedness,
    /// What the recipient is to do about it.
    pub policy: Policy,
    /// How it enters the recipient's work.
    pub mode: Mode,
    /// Why.
    pub reason: Reason,
    /// How much it matters.
    pub priority: Priority,
    /// How long an answer may take.
    pub deadline_ms: Option<i64>,
}
