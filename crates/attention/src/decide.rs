//! The decision for one recipient.
//!
//! Today's rule is plain: an agent is woken when it is named, and by everything in a conversation of two; nothing else
//! is for it, and no edit, deletion or reaction wakes anybody.

use crate::event::{Classified, Happening};
use chorus_protocol::attention::Attention;
use chorus_protocol::words::{ConversationKind, Directedness, Mode, Policy, Reason};

/// What is known of one recipient, who is a member and not the author.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recipient {
    /// The event names it by its handle, or is for it.
    pub named: bool,
    /// The event names a role of its.
    pub in_named_role: bool,
    /// It began the thread.
    pub owns_thread: bool,
    /// It has spoken in the thread.
    pub participates: bool,
    /// It owns the work stream of the conversation.
    pub owns_stream: bool,
    /// It said what this event changes or reacts to.
    pub said_target: bool,
    /// Somebody else holds the claim on what this event belongs to.
    pub claimed_by_other: bool,
}

/// Decides what an event means for one recipient.
pub fn decide(classified: &Classified<'_>, recipient: &Recipient) -> Attention {
    let event = &classified.event;
    let woken = event.happening == Happening::Message
        && (recipient.named || event.conversation == ConversationKind::Dm);
    let (directedness, policy, mode, reason) = if !woken {
        (Directedness::Ambient, Policy::MustNotRespond, Mode::ToolMailbox, Reason::Unmentioned)
    } else if event.conversation == ConversationKind::Dm {
        (Directedness::ToMe, Policy::MustRespond, Mode::Immediate, Reason::DirectMessage)
    } else {
        (Directedness::ToMe, Policy::MustRespond, Mode::Immediate, Reason::DirectMention)
    };
    let deadline_ms = event.deadline_ms.filter(|_| woken);
    Attention { directedness, policy, mode, reason, priority: classified.priority, deadline_ms }
}
