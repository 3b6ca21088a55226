//! The decision for one recipient: the specification's default matrix, and the cases that it leaves open.
//!
//! The directedness is decided first, then the policy, then the mode. Three rules always hold. Only an event
//! that is directed at a recipient obliges it. An event for others or for nobody never enters the recipient's
//! work. An author's declaration lowers a decision and never raises it. The reason is the intent if the intent
//! changed something or was declared, and the address otherwise.
//!
//! This code runs once per recipient, so it looks nothing up and allocates nothing. [`crate::capabilities`]
//! checks that the harness supports the mode.

use crate::event::{Classified, Happening};
use chorus_protocol::attention::Attention;
use chorus_protocol::words::{
    AuthorKind, Confidence, ConversationKind, Directedness, Intent, Mode, Policy, Priority, Reason, Signal,
};

/// The time for an answer if the author gives none.
pub const DEFAULT_DEADLINE_MS: i64 = 300_000;

/// The shortest and the longest time that an author can give.
pub const DEADLINE_MS: std::ops::RangeInclusive<i64> = 1_000..=86_400_000;

/// The facts about one recipient, who is a member and not the author.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recipient {
    /// The event names the recipient by its handle, or is addressed to it.
    pub named: bool,
    /// The event names a role of the recipient.
    pub in_named_role: bool,
    /// The event was offered to another member of the named role, or to another owner of the stream, who may
    /// still claim it.
    pub offered_to_other: bool,
    /// The recipient began the thread.
    pub owns_thread: bool,
    /// The recipient has spoken in the thread.
    pub participates: bool,
    /// The recipient is the agent that last spoke or was asked in the thread. The next message is for it.
    pub asked_in_thread: bool,
    /// The recipient owns the work stream of the conversation.
    pub owns_stream: bool,
    /// The recipient wrote the message that this event changes or reacts to.
    pub said_target: bool,
    /// The recipient has answered the message that this event changes.
    pub answered: bool,
    /// The recipient holds the claim on the message or thread that this event belongs to.
    pub holds_claim: bool,
    /// Another agent or person holds the claim on the message or thread that this event belongs to.
    pub claimed_by_other: bool,
    /// The event stops work of the recipient. Only the plan knows who may stop what (see [`crate::plan`]).
    pub stopped: bool,
}

/// Decides the attention of an event for one recipient.
pub fn decide(classified: &Classified<'_>, recipient: &Recipient) -> Attention {
    let decision = match classified.event.happening {
        Happening::Message => said(classified, recipient),
        Happening::Edit => edited(classified, recipient),
        Happening::Deletion => deleted(classified, recipient),
        Happening::Reaction(signal) => reacted(classified, recipient, signal),
    };
    let Decision { directedness, policy, mode, reason } = decision;
    let given = classified.event.deadline_ms.unwrap_or(DEFAULT_DEADLINE_MS);
    let deadline_ms =
        (policy != Policy::MustNotRespond).then(|| given.clamp(*DEADLINE_MS.start(), *DEADLINE_MS.end()));
    // Participants that a message in a thread is not meant for get it with a low priority.
    let overhears = reason == Reason::ThreadParticipation && !recipient.is_meant(classified.event.author);
    let priority = match classified.priority {
        _ if stops(classified, recipient) && reason == Reason::Cancellation => Priority::Urgent,
        Priority::Normal if overhears => Priority::Low,
        priority => priority,
    };
    Attention { directedness, policy, mode, reason, priority, deadline_ms }
}

impl Recipient {
    /// Returns `true` if a message that a person adds to a thread without asking anybody is meant for this
    /// recipient. People continue with the agent that they asked last.
    pub fn is_meant(&self, author: AuthorKind) -> bool {
        self.asked_in_thread && author == AuthorKind::Human
    }
}

struct Decision {
    directedness: Directedness,
    policy: Policy,
    mode: Mode,
    reason: Reason,
}

/// The reason why an event is directed at a recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Address {
    /// The recipient is the other member of a direct conversation.
    Dm,
    Named,
    /// A message in a thread, for the agent that last spoke or was asked.
    Asked,
    Role,
    Thread,
    Stream,
    Other,
    /// An agent's message that is addressed to nobody.
    NoTask,
    Nobody,
}

impl Address {
    fn of(classified: &Classified<'_>, recipient: &Recipient) -> Self {
        let (event, intent) = (&classified.event, classified.intent);
        let in_own_thread =
            event.in_thread && (recipient.owns_thread || recipient.participates || recipient.asked_in_thread);
        let no_task = event.author == AuthorKind::Agent
            && matches!(intent, Intent::Chat | Intent::Thanks | Intent::Acknowledgement);
        let asks = intent != Intent::Chat && !is_for_everybody(classified);
        if event.conversation == ConversationKind::Dm {
            Self::Dm
        } else if recipient.named {
            // This comes before claims: a named recipient may always answer.
            Self::Named
        } else if recipient.claimed_by_other {
            Self::Other
        } else if recipient.in_named_role {
            Self::Role
        } else if event.names_somebody {
            // This comes before threads and streams: the event has another clear recipient.
            Self::Other
        } else if in_own_thread && recipient.asked_in_thread && (event.is_awaited() || asks) {
            Self::Asked
        } else if in_own_thread {
            Self::Thread
        } else if no_task {
            // This comes before streams: a lead is not told everything that workers say to each other.
            Self::NoTask
        } else if recipient.owns_stream {
            Self::Stream
        } else {
            Self::Nobody
        }
    }

    fn directedness(self) -> Directedness {
        match self {
            Self::Dm | Self::Named | Self::Asked => Directedness::ToMe,
            Self::Role | Self::Thread | Self::Stream => Directedness::ToMyRole,
            Self::Other | Self::NoTask => Directedness::ToOther,
            Self::Nobody => Directedness::Ambient,
        }
    }

    fn reason(self) -> Reason {
        match self {
            Self::Dm => Reason::DirectMessage,
            Self::Named => Reason::DirectMention,
            Self::Asked => Reason::ThreadQuestion,
            Self::Role => Reason::RoleMention,
            Self::Thread => Reason::ThreadParticipation,
            Self::Stream => Reason::StreamOwner,
            Self::Other => Reason::AddressedToOther,
            Self::NoTask => Reason::AgentNoTask,
            Self::Nobody => Reason::Unmentioned,
        }
    }
}

/// Returns `true` for intents that report a state and ask for nothing.
fn broadcast(intent: Intent) -> bool {
    matches!(intent, Intent::Status | Intent::Progress | Intent::Log)
}

/// Returns `true` for a report that is for everybody: one of an agent or a program, or a declared one. What a
/// person writes may look like a report and ask for help.
fn is_for_everybody(classified: &Classified<'_>) -> bool {
    let event = &classified.event;
    broadcast(classified.intent) && (event.intent.is_some() || event.author != AuthorKind::Human)
}

/// Returns `true` for a stop of work of the recipient.
fn stops(classified: &Classified<'_>, recipient: &Recipient) -> bool {
    recipient.stopped && classified.intent == Intent::Cancellation
}

/// Returns `true` for an event that a recipient must see at once, even during other work: a stop of its work, or a matter
/// of safety that the author declares. What a text sounds like never interrupts.
fn interrupts(classified: &Classified<'_>, recipient: &Recipient) -> bool {
    let event = &classified.event;
    let may_be_urgent = event.author != AuthorKind::Agent || event.author_leads;
    stops(classified, recipient) || (event.intent == Some(Intent::Safety) && may_be_urgent)
}

fn said(classified: &Classified<'_>, recipient: &Recipient) -> Decision {
    let event = &classified.event;
    let address = Address::of(classified, recipient);
    let interrupts = interrupts(classified, recipient);
    // The variants are ordered from near to far. A stop is for the agent whose work it stops.
    let directedness = if stops(classified, recipient) {
        Directedness::ToMe
    } else {
        address.directedness().max(event.directedness.unwrap_or(Directedness::ToMe))
    };
    let (policy, mode, reason) = match directedness {
        Directedness::ToMe => to_me(classified, recipient, address),
        Directedness::ToMyRole => to_my_role(classified, recipient, address),
        Directedness::ToOther if address == Address::NoTask => forbidden(Reason::AgentNoTask),
        Directedness::ToOther => forbidden(Reason::AddressedToOther),
        Directedness::Ambient if is_for_everybody(classified) => told(classified.intent),
        Directedness::Ambient => forbidden(Reason::Unmentioned),
    };
    // Answers keep a loop going, so they are forbidden. An interruption is still shown.
    if event.damped && event.author == AuthorKind::Agent && policy != Policy::MustNotRespond {
        let mode = if interrupts { Mode::Immediate } else { Mode::ToolMailbox };
        return Decision { directedness, policy: Policy::MustNotRespond, mode, reason: Reason::LoopGuard };
    }
    Decision { directedness, policy, mode, reason }
}

type Expected = (Policy, Mode, Reason);

const fn forbidden(reason: Reason) -> Expected {
    (Policy::MustNotRespond, Mode::ToolMailbox, reason)
}

/// Returns the decision for a report: logs are only stored, and states go into a digest.
fn told(intent: Intent) -> Expected {
    let mode = if intent == Intent::Log { Mode::Silent } else { Mode::Digest };
    (Policy::MustNotRespond, mode, Reason::StatusBroadcast)
}

/// Returns `true` for an intent that may as well be another one.
fn is_weak(classified: &Classified<'_>) -> bool {
    classified.confidence == Confidence::Low
}

fn to_me(classified: &Classified<'_>, recipient: &Recipient, address: Address) -> Expected {
    let event = &classified.event;
    let declared = event.intent.is_some();
    let at_once = if classified.priority == Priority::Urgent { Mode::Immediate } else { Mode::Buffered };
    // A courtesy between agents is not shown. A person's courtesy is.
    let courtesy = if event.author == AuthorKind::Agent { Mode::Silent } else { Mode::Notify };
    match classified.intent {
        // A courtesy with something else in it, and news from a person: the agent's model decides.
        Intent::Thanks if is_weak(classified) => (Policy::MayRespond, at_once, Reason::Thanks),
        Intent::Acknowledgement if is_weak(classified) => {
            (Policy::MayRespond, at_once, Reason::Acknowledgement)
        }
        _ if is_for_everybody(classified) => told(classified.intent),
        intent if broadcast(intent) => (Policy::MayRespond, at_once, Reason::StatusBroadcast),
        Intent::Thanks => (Policy::AckOnly, courtesy, Reason::Thanks),
        Intent::Acknowledgement => (Policy::AckOnly, courtesy, Reason::Acknowledgement),
        // The thread says who stopped what, so the agent need not answer.
        Intent::Cancellation if recipient.stopped => (Policy::AckOnly, Mode::Immediate, Reason::Cancellation),
        Intent::Safety if interrupts(classified, recipient) => {
            (Policy::MustRespond, Mode::Immediate, Reason::Safety)
        }
        Intent::ApprovalRequest | Intent::Approval => {
            (Policy::MustRespond, Mode::Immediate, Reason::Approval)
        }
        Intent::Blocker => (Policy::MustRespond, at_once, Reason::Blocker),
        Intent::Assignment if declared => (Policy::MustRespond, at_once, Reason::Assignment),
        Intent::Assignment
        | Intent::Question
        | Intent::Chat
        | Intent::Cancellation
        | Intent::Safety
        | Intent::Status
        | Intent::Progress
        | Intent::Log => (Policy::MustRespond, at_once, address.reason()),
    }
}

fn to_my_role(classified: &Classified<'_>, recipient: &Recipient, address: Address) -> Expected {
    let reason = address.reason();
    match classified.intent {
        Intent::Thanks if !is_weak(classified) => forbidden(Reason::Thanks),
        Intent::Acknowledgement if !is_weak(classified) => forbidden(Reason::Acknowledgement),
        intent if is_for_everybody(classified) => told(intent),
        // A message to the holder of a claim belongs to the claimed event.
        _ if recipient.holds_claim => (Policy::MayRespond, Mode::Buffered, reason),
        _ if matches!(address, Address::Role | Address::Stream) && recipient.offered_to_other => {
            (Policy::MayRespond, Mode::ToolMailbox, reason)
        }
        _ => (Policy::MayRespond, Mode::Notify, reason),
    }
}

/// Decides for an edit as for a new message. A recipient that has already answered may answer again, and need
/// not.
fn edited(classified: &Classified<'_>, recipient: &Recipient) -> Decision {
    let decision = said(classified, recipient);
    let open = matches!(decision.policy, Policy::MustRespond | Policy::MayRespond);
    if !recipient.answered || !open || interrupts(classified, recipient) {
        return decision;
    }
    Decision {
        policy: Policy::MayRespond,
        mode: Mode::Notify,
        reason: Reason::EditedAfterResponse,
        ..decision
    }
}

/// Decides for a deletion. Deletions are not shown; open events are cancelled.
fn deleted(classified: &Classified<'_>, recipient: &Recipient) -> Decision {
    let address = Address::of(classified, recipient);
    let reason = match address.directedness() {
        Directedness::ToMe | Directedness::ToMyRole => Reason::Cancellation,
        Directedness::ToOther | Directedness::Ambient => address.reason(),
    };
    let directedness = address.directedness();
    Decision { directedness, policy: Policy::MustNotRespond, mode: Mode::Silent, reason }
}

/// Decides for a reaction, which is for the author of the message. A person's reaction to a request for
/// approval ends the wait at once. An agent's reaction is only news, because agents must not approve each
/// other's requests.
fn reacted(classified: &Classified<'_>, recipient: &Recipient, signal: Signal) -> Decision {
    let event = &classified.event;
    if !recipient.said_target {
        let (policy, mode, reason) = forbidden(Reason::AddressedToOther);
        return Decision { directedness: Directedness::ToOther, policy, mode, reason };
    }
    let ends_wait = event.answers == Some(Intent::ApprovalRequest) && event.author == AuthorKind::Human;
    let (policy, mode) = match signal {
        Signal::Agree | Signal::Declined if ends_wait => (Policy::MayRespond, Mode::Immediate),
        Signal::Agree | Signal::Declined | Signal::Done | Signal::Blocked | Signal::Unclear => {
            (Policy::MayRespond, Mode::Notify)
        }
        // The agents whose work a stop ends are told of it by an event of its own.
        Signal::Seen | Signal::Working | Signal::Queued | Signal::Claimed | Signal::Stop => {
            (Policy::MustNotRespond, Mode::ToolMailbox)
        }
    };
    Decision { directedness: Directedness::ToMe, policy, mode, reason: Reason::InboundReaction }
}

#[cfg(test)]
mod tests;
