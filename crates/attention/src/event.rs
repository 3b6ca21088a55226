//! What is known of an event, and what follows from it alone, whoever the recipient is.

use chorus_protocol::words::{ConversationKind, Directedness, Intent, Priority, Signal};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthorKind {
    /// A person.
    Human,
    /// A program.
    Agent,
    /// The hub itself.
    System,
}

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
    let intent = event.intent.unwrap_or(Intent::Chat);
    Classified { event, intent, priority: event.priority.unwrap_or(Priority::Normal) }
}
