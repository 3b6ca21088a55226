//! The plain rule, for a host that can do no more than wake: an agent is woken when it is named, and by everything in a
//! conversation of two; nothing else is for it, and no edit, deletion or reaction wakes anybody.
//!
//! The same functions as [`crate::classify`] and [`crate::decide`], so that a host chooses by the path it calls them by.
//! Intent is what the author says it is; nothing is read out of a text.

use crate::decide::Recipient;
use crate::event::{Classified, Event, Happening};
use chorus_protocol::attention::Attention;
use chorus_protocol::words::{ConversationKind, Directedness, Intent, Mode, Policy, Priority, Reason};

/// Looks at an event once, for all its recipients.
pub fn classify(event: Event<'_>) -> Classified<'_> {
    let intent = event.intent.unwrap_or(Intent::Chat);
    Classified { event, intent, priority: event.priority.unwrap_or(Priority::Normal) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_named_and_the_other_of_two_are_woken() {
        let (dm, channel) = (ConversationKind::Dm, ConversationKind::Channel);
        let rows = [
            (dm, false, Happening::Message, Some(Reason::DirectMessage)),
            (dm, true, Happening::Message, Some(Reason::DirectMessage)),
            (channel, true, Happening::Message, Some(Reason::DirectMention)),
            (channel, false, Happening::Message, None),
            (channel, true, Happening::Edit, None),
            (dm, false, Happening::Deletion, None),
        ];
        for (conversation, named, happening, woken) in rows {
            let event = Event { happening, conversation, text: "thanks", ..Event::default() };
            let decision = decide(&classify(event), &Recipient { named, ..Recipient::default() });
            assert_eq!(decision.reason, woken.unwrap_or(Reason::Unmentioned));
            let policy = woken.map_or(Policy::MustNotRespond, |_| Policy::MustRespond);
            assert_eq!(decision.policy, policy, "{conversation} {named} {happening:?}");
        }
    }
}
