//! The attention decision for one event and one recipient.

use crate::words::{Confidence, Directedness, Intent, Layer, Mode, Policy, Priority, Reason};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The intent of a message, and how it was found. It is the same for all recipients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Classification {
    pub intent: Intent,
    pub confidence: Confidence,
    /// The rules that found it: `declared` by the author, `structure` (it answers what an agent asked), or `lexicon`
    /// (its words).
    pub layer: Layer,
}

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
