//! What is known of an event, and what follows from it alone, whoever the recipient is.

use crate::intent::{self, Clues};
use chorus_protocol::words::{AuthorKind, ConversationKind, Directedness, Intent, Priority, Signal};

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happening {
    /// Something was said.
    Message,
    /// What a message says was changed.
    Edit,
    /// A message was taken back.
    Deletion,
    /// Somebody reacted to a message.
    Reaction(Signal),
}

/// An event, as far as attention is concerned.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// What happened.
    pub happening: Happening,
    /// In which kind of conversation.
    pub conversation: ConversationKind,
    /// Whether in a thread.
    pub in_thread: bool,
    /// Who speaks.
    pub author: AuthorKind,
    /// Whether the author leads the conversation or owns it.
    pub author_leads: bool,
    /// What it says.
    pub text: &'a str,
    /// Whether it names anybody at all: a member, a role, or whom it is for.
    pub names_somebody: bool,
    /// What its author says it is meant as.
    pub intent: Option<Intent>,
    /// At whom its author says it is aimed; it lowers what its mentions imply, and never raises it.
    pub directedness: Option<Directedness>,
    /// How much its author says it matters.
    pub priority: Option<Priority>,
    /// How long its author gives for an answer.
    pub deadline_ms: Option<i64>,
    /// What the message was meant as that this one replies or reacts to; in a conversation of two, the one before it.
    pub answers: Option<Intent>,
    /// Agents have talked among themselves for too long: what [`crate::loop_guard::find_loop`] said.
    pub damped: bool,
}

impl Event<'_> {
    /// A person's empty message that names nobody, in a channel: what is left out of an event is as in this one.
    pub const EMPTY: Self = Self {
        happening: Happening::Message,
        conversation: ConversationKind::Channel,
        in_thread: false,
        author: AuthorKind::Human,
        author_leads: false,
        text: "",
        names_somebody: false,
        intent: None,
        directedness: None,
        priority: None,
        deadline_ms: None,
        answers: None,
        damped: false,
    };
}

impl Default for Event<'_> {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// What follows from an event alone.
#[derive(Debug, Clone, Copy)]
pub struct Classified<'a> {
    /// The event.
    pub event: Event<'a>,
    /// What it is meant as.
    pub intent: Intent,
    /// How much it matters.
    pub priority: Priority,
}

/// Looks at an event once, for all its recipients.
pub fn classify(event: Event<'_>) -> Classified<'_> {
    let clues = Clues { names_somebody: event.names_somebody, answers: event.answers };
    let intent = event.intent.unwrap_or_else(|| intent::intent(event.text, clues));
    Classified { event, intent, priority: priority(&event, intent) }
}

/// What the author says holds, with two exceptions: what must interrupt is urgent whatever was said, and an agent that
/// does not lead cannot make others drop what they do, or every agent's message would be urgent before long.
fn priority(event: &Event<'_>, intent: Intent) -> Priority {
    let may_be_urgent = event.author != AuthorKind::Agent || event.author_leads;
    match (intent, event.priority) {
        (Intent::Cancellation | Intent::Safety, _) => Priority::Urgent,
        (_, Some(Priority::Urgent)) if !may_be_urgent => Priority::High,
        (_, Some(said)) => said,
        (Intent::ApprovalRequest | Intent::Approval | Intent::Blocker, None) => Priority::High,
        (Intent::Question | Intent::Assignment | Intent::Chat, None) => Priority::Normal,
        (
            Intent::Thanks | Intent::Acknowledgement | Intent::Status | Intent::Progress | Intent::Log,
            None,
        ) => Priority::Low,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities() {
        use Priority::{High, Low, Normal, Urgent};
        let rows = [
            // What an intent is worth, when nobody says.
            (Intent::Question, AuthorKind::Human, false, None, Normal),
            (Intent::Assignment, AuthorKind::Agent, false, None, Normal),
            (Intent::ApprovalRequest, AuthorKind::Agent, false, None, High),
            (Intent::Approval, AuthorKind::Human, false, None, High),
            (Intent::Blocker, AuthorKind::Agent, false, None, High),
            (Intent::Cancellation, AuthorKind::Agent, false, None, Urgent),
            (Intent::Safety, AuthorKind::Agent, false, None, Urgent),
            (Intent::Thanks, AuthorKind::Human, false, None, Low),
            (Intent::Acknowledgement, AuthorKind::Human, false, None, Low),
            (Intent::Status, AuthorKind::Agent, false, None, Low),
            (Intent::Progress, AuthorKind::Agent, false, None, Low),
            (Intent::Log, AuthorKind::System, false, None, Low),
            (Intent::Chat, AuthorKind::Human, false, None, Normal),
            // What is said wins.
            (Intent::Chat, AuthorKind::Human, false, Some(Urgent), Urgent),
            (Intent::Chat, AuthorKind::System, false, Some(Urgent), Urgent),
            (Intent::Blocker, AuthorKind::Agent, false, Some(Low), Low),
            // But urgent is for people and leads, and what interrupts is nothing else.
            (Intent::Chat, AuthorKind::Agent, false, Some(Urgent), High),
            (Intent::Chat, AuthorKind::Agent, true, Some(Urgent), Urgent),
            (Intent::Safety, AuthorKind::Human, false, Some(Low), Urgent),
        ];
        for (intent, author, author_leads, said, expected) in rows {
            let event =
                Event { intent: Some(intent), author, author_leads, priority: said, ..Event::default() };
            assert_eq!(classify(event).priority, expected, "{intent} {author:?} {said:?}");
        }
    }

    #[test]
    fn what_the_author_says_it_is_wins() {
        let event = Event { text: "thanks!", intent: Some(Intent::Assignment), ..Event::default() };
        assert_eq!(classify(event).intent, Intent::Assignment);
        assert_eq!(classify(Event { intent: None, ..event }).intent, Intent::Thanks);
    }
}
