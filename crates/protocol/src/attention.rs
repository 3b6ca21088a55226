//! The attention decision for one event and one recipient.

use crate::words::{Directedness, Mode, Policy, Priority, Reason};

/// The meaning of an event for one recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attention {
    /// The target of the event as seen by the recipient.
    pub directedness: Directedness,
    /// The response expected of the recipient.
    pub policy: Policy,
    /// The way in which the event enters the recipient's work.
    pub mode: Mode,
    /// The rule that led to this decision.
    pub reason: Reason,
    pub priority: Priority,
    /// The time allowed for an answer, in milliseconds; `None` if there is no deadline.
    pub deadline_ms: Option<i64>,
}
