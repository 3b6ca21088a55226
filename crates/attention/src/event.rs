//! Events, and the classification that is the same for every recipient.

use crate::intent::{self, Clues};
use chorus_protocol::attention::Classification;
use chorus_protocol::words::{
    AuthorKind, Confidence, ConversationKind, Directedness, Intent, Layer, Priority, Signal,
};

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happening {
    Message,
    /// The text of a message was changed.
    Edit,
    /// A message was deleted.
    Deletion,
    /// Somebody reacted to a message.
    Reaction(Signal),
}

/// The parts of an event that attention depends on.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    pub happening: Happening,
    /// The kind of conversation that the event is in.
    pub conversation: ConversationKind,
    pub in_thread: bool,
    pub author: AuthorKind,
    /// The author leads or owns the conversation.
    pub author_leads: bool,
    pub text: &'a str,
    /// The event names a member, a role or a recipient.
    pub names_somebody: bool,
    /// The intent that the author declares.
    pub intent: Option<Intent>,
    /// The directedness that the author declares. It lowers the one that the mentions imply, and never raises
    /// it.
    pub directedness: Option<Directedness>,
    /// The priority that the author declares.
    pub priority: Option<Priority>,
    /// The time that the author gives for an answer.
    pub deadline_ms: Option<i64>,
    /// The intent of the message that this one replies or reacts to. In a direct conversation and in a thread,
    /// the intent of the last message of the agent that this one is for (see [`intent::of_answered`]).
    pub answers: Option<Intent>,
    /// The loop guard found a loop (see [`crate::loop_guard::find_loop`]).
    pub damped: bool,
}

impl Event<'_> {
    /// Returns `true` if a person answers a question, an offer or a request for approval.
    pub(crate) fn is_awaited(&self) -> bool {
        self.author == AuthorKind::Human
            && matches!(self.answers, Some(Intent::Question | Intent::ApprovalRequest))
    }

    /// A person's empty message in a channel that names nobody. It supplies the default of each field.
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

/// An event with its intent and priority.
#[derive(Debug, Clone, Copy)]
pub struct Classified<'a> {
    pub event: Event<'a>,
    pub intent: Intent,
    pub confidence: Confidence,
    /// The rules that found the intent.
    pub layer: Layer,
    pub priority: Priority,
}

impl Classified<'_> {
    /// Returns the intent and how it was found.
    pub fn classification(&self) -> Classification {
        Classification { intent: self.intent, confidence: self.confidence, layer: self.layer }
    }
}

/// Classifies an event once for all its recipients.
pub fn classify(event: Event<'_>) -> Classified<'_> {
    let by_person = event.author == AuthorKind::Human;
    let clues = Clues {
        is_directed: event.names_somebody || by_person && event.in_thread,
        by_person,
        answers: event.answers,
    };
    let found = event.intent.map(intent::declared);
    let Classification { intent, confidence, layer } =
        found.unwrap_or_else(|| intent::classify_text(event.text, clues));
    Classified { event, intent, confidence, layer, priority: priority(&event, intent) }
}

/// Returns the declared priority, with two exceptions. A matter of safety is always urgent. An agent that does not
/// lead cannot declare a message urgent, because every agent's message would soon be urgent. A stop is urgent only
/// for the agents whose work it stops, so [`crate::decide()`] sets its priority.
fn priority(event: &Event<'_>, intent: Intent) -> Priority {
    let may_be_urgent = event.author != AuthorKind::Agent || event.author_leads;
    match (intent, event.priority) {
        (Intent::Safety, _) => Priority::Urgent,
        (_, Some(Priority::Urgent)) if !may_be_urgent => Priority::High,
        (_, Some(said)) => said,
        (Intent::ApprovalRequest | Intent::Approval | Intent::Blocker, None) => Priority::High,
        (Intent::Question | Intent::Assignment | Intent::Cancellation | Intent::Chat, None) => {
            Priority::Normal
        }
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
            // The default priority of each intent.
            (Intent::Question, AuthorKind::Human, false, None, Normal),
            (Intent::Assignment, AuthorKind::Agent, false, None, Normal),
            (Intent::ApprovalRequest, AuthorKind::Agent, false, None, High),
            (Intent::Approval, AuthorKind::Human, false, None, High),
            (Intent::Blocker, AuthorKind::Agent, false, None, High),
            (Intent::Cancellation, AuthorKind::Agent, false, None, Normal),
            (Intent::Safety, AuthorKind::Agent, false, None, Urgent),
            (Intent::Thanks, AuthorKind::Human, false, None, Low),
            (Intent::Acknowledgement, AuthorKind::Human, false, None, Low),
            (Intent::Status, AuthorKind::Agent, false, None, Low),
            (Intent::Progress, AuthorKind::Agent, false, None, Low),
            (Intent::Log, AuthorKind::System, false, None, Low),
            (Intent::Chat, AuthorKind::Human, false, None, Normal),
            // A declared priority wins.
            (Intent::Chat, AuthorKind::Human, false, Some(Urgent), Urgent),
            (Intent::Chat, AuthorKind::System, false, Some(Urgent), Urgent),
            (Intent::Blocker, AuthorKind::Agent, false, Some(Low), Low),
            // Only people and leads can declare a message urgent, and an interruption is always urgent.
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
        let declared = classify(event);
        assert_eq!((declared.intent, declared.layer), (Intent::Assignment, Layer::Declared));
        assert_eq!(classify(Event { intent: None, ..event }).intent, Intent::Thanks);
    }
}
