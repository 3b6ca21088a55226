//! The decision for one recipient: the document's Default Matrix, and what it leaves open.
//!
//! First at whom the event is aimed, then what is expected, then how it is shown. What always holds: nothing but what
//! is aimed at a recipient itself obliges it; what is for others or for nobody never enters its work; what an author
//! declares lowers a decision and never raises it. The reason is what decided: the intent where it changed something
//! or was declared, else the address.
//!
//! Nothing is looked up here and nothing allocated: it runs once per recipient. Whether a way exists to show
//! an event like that is [`crate::capabilities`]' business.

use crate::event::{Classified, Happening};
use chorus_protocol::attention::Attention;
use chorus_protocol::words::{
    AuthorKind, ConversationKind, Directedness, Intent, Mode, Policy, Priority, Reason, Signal,
};

/// How long an answer may take when nobody says.
pub const DEFAULT_DEADLINE_MS: i64 = 300_000;

/// The shortest and the longest time that an author can give.
pub const DEADLINE_MS: std::ops::RangeInclusive<i64> = 1_000..=86_400_000;

/// What is known of one recipient, who is a member and not the author.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recipient {
    /// The event names it by its handle, or is for it.
    pub named: bool,
    /// The event names a role of its.
    pub in_named_role: bool,
    /// It was offered to another of the named role, or to another owner of the stream, who may still claim it.
    pub offered_to_other: bool,
    /// It began the thread.
    pub owns_thread: bool,
    /// It has spoken in the thread.
    pub participates: bool,
    /// Of all agents it was the last that spoke or was asked in the thread: what comes next is for it.
    pub asked_in_thread: bool,
    /// It owns the work stream of the conversation.
    pub owns_stream: bool,
    /// It said what this event changes or reacts to.
    pub said_target: bool,
    /// It has answered what this event changes.
    pub answered: bool,
    /// It holds the claim on what this event belongs to.
    pub holds_claim: bool,
    /// Somebody else holds the claim on what this event belongs to.
    pub claimed_by_other: bool,
}

/// Decides what an event means for one recipient.
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
    // Who was not meant hears that a thread goes on, and need not look.
    let overhears = reason == Reason::ThreadParticipation && !recipient.is_meant(classified.event.author);
    let priority = match classified.priority {
        Priority::Normal if overhears => Priority::Low,
        priority => priority,
    };
    Attention { directedness, policy, mode, reason, priority, deadline_ms }
}

impl Recipient {
    /// What somebody adds to a thread without asking is for this one, if for anybody: a person goes on with whom it asked.
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

/// Why an event is aimed at whom it is aimed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Address {
    /// The recipient is the other of two.
    Dm,
    Named,
    /// A word in a thread that is for whoever spoke or was asked last.
    Asked,
    Role,
    Thread,
    Stream,
    Other,
    /// An agent talks, and to nobody.
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
        if event.conversation == ConversationKind::Dm {
            Self::Dm
        } else if recipient.named {
            // Before claims: whoever is named may always answer.
            Self::Named
        } else if recipient.claimed_by_other {
            Self::Other
        } else if recipient.in_named_role {
            Self::Role
        } else if event.names_somebody {
            // Before threads and streams: another is the clear recipient.
            Self::Other
        } else if in_own_thread && recipient.asked_in_thread && intent != Intent::Chat && !broadcast(intent) {
            Self::Asked
        } else if in_own_thread {
            Self::Thread
        } else if no_task {
            // Before streams: who leads is not told all that workers say to each other.
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

/// Says how something stands, and asks for nothing.
fn broadcast(intent: Intent) -> bool {
    matches!(intent, Intent::Status | Intent::Progress | Intent::Log)
}

/// Whether an intent makes a recipient look at once, whatever it does.
fn interrupts(intent: Intent) -> bool {
    matches!(intent, Intent::Cancellation | Intent::Safety)
}

fn said(classified: &Classified<'_>, recipient: &Recipient) -> Decision {
    let event = &classified.event;
    let address = Address::of(classified, recipient);
    // The words are in the order from near to far.
    let directedness = address.directedness().max(event.directedness.unwrap_or(Directedness::ToMe));
    let (policy, mode, reason) = match directedness {
        Directedness::ToMe => to_me(classified, address),
        Directedness::ToMyRole => to_my_role(classified, recipient, address),
        Directedness::ToOther if address == Address::NoTask => forbidden(Reason::AgentNoTask),
        Directedness::ToOther => forbidden(Reason::AddressedToOther),
        Directedness::Ambient if broadcast(classified.intent) => told(classified.intent),
        Directedness::Ambient => forbidden(Reason::Unmentioned),
    };
    // It is answers that keep a loop going: what interrupts is still shown.
    if event.damped && event.author == AuthorKind::Agent && policy != Policy::MustNotRespond {
        let mode = if interrupts(classified.intent) { Mode::Immediate } else { Mode::ToolMailbox };
        return Decision { directedness, policy: Policy::MustNotRespond, mode, reason: Reason::LoopGuard };
    }
    Decision { directedness, policy, mode, reason }
}

type Expected = (Policy, Mode, Reason);

const fn forbidden(reason: Reason) -> Expected {
    (Policy::MustNotRespond, Mode::ToolMailbox, reason)
}

/// Logs are for the record only; how something stands is summed up.
fn told(intent: Intent) -> Expected {
    let mode = if intent == Intent::Log { Mode::Silent } else { Mode::Digest };
    (Policy::MustNotRespond, mode, Reason::StatusBroadcast)
}

fn to_me(classified: &Classified<'_>, address: Address) -> Expected {
    let event = &classified.event;
    let declared = event.intent.is_some();
    let at_once = if classified.priority == Priority::Urgent { Mode::Immediate } else { Mode::Buffered };
    // A courtesy between agents is not worth a look; a person's is.
    let courtesy = if event.author == AuthorKind::Agent { Mode::Silent } else { Mode::Notify };
    match classified.intent {
        Intent::Thanks => (Policy::AckOnly, courtesy, Reason::Thanks),
        Intent::Acknowledgement => (Policy::AckOnly, courtesy, Reason::Acknowledgement),
        Intent::Cancellation => (Policy::MustRespond, Mode::Immediate, Reason::Cancellation),
        Intent::Safety => (Policy::MustRespond, Mode::Immediate, Reason::Safety),
        Intent::ApprovalRequest | Intent::Approval => {
            (Policy::MustRespond, Mode::Immediate, Reason::Approval)
        }
        Intent::Blocker => (Policy::MustRespond, at_once, Reason::Blocker),
        Intent::Assignment if declared => (Policy::MustRespond, at_once, Reason::Assignment),
        // A person who talks to an agent is not left without an answer because of how a sentence began.
        intent if broadcast(intent) && (declared || event.author != AuthorKind::Human) => told(intent),
        Intent::Assignment
        | Intent::Question
        | Intent::Chat
        | Intent::Status
        | Intent::Progress
        | Intent::Log => (Policy::MustRespond, at_once, address.reason()),
    }
}

fn to_my_role(classified: &Classified<'_>, recipient: &Recipient, address: Address) -> Expected {
    let reason = address.reason();
    match classified.intent {
        Intent::Thanks => forbidden(Reason::Thanks),
        Intent::Acknowledgement => forbidden(Reason::Acknowledgement),
        Intent::Cancellation => (Policy::MayRespond, Mode::Immediate, Reason::Cancellation),
        Intent::Safety => (Policy::MayRespond, Mode::Immediate, Reason::Safety),
        intent if broadcast(intent) => told(intent),
        // What comes for a claimant belongs to what it claimed.
        _ if recipient.holds_claim => (Policy::MayRespond, Mode::Buffered, reason),
        _ if matches!(address, Address::Role | Address::Stream) && recipient.offered_to_other => {
            (Policy::MayRespond, Mode::ToolMailbox, reason)
        }
        _ => (Policy::MayRespond, Mode::Notify, reason),
    }
}

/// A changed message counts as if it had just been said; to whoever has answered it already it is offered.
fn edited(classified: &Classified<'_>, recipient: &Recipient) -> Decision {
    let decision = said(classified, recipient);
    let open = matches!(decision.policy, Policy::MustRespond | Policy::MayRespond);
    if !recipient.answered || !open || interrupts(classified.intent) {
        return decision;
    }
    Decision {
        policy: Policy::MayRespond,
        mode: Mode::Notify,
        reason: Reason::EditedAfterResponse,
        ..decision
    }
}

/// Nobody is shown that something is gone: what was not answered yet is cancelled.
fn deleted(classified: &Classified<'_>, recipient: &Recipient) -> Decision {
    let address = Address::of(classified, recipient);
    let reason = match address.directedness() {
        Directedness::ToMe | Directedness::ToMyRole => Reason::Cancellation,
        Directedness::ToOther | Directedness::Ambient => address.reason(),
    };
    let directedness = address.directedness();
    Decision { directedness, policy: Policy::MustNotRespond, mode: Mode::Silent, reason }
}

/// A reaction is for whoever said what it is put on. A person's word on a request for approval ends the wait for it at
/// once; another agent's is only news, or agents could give each other leave.
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
        Signal::Seen | Signal::Working | Signal::Queued | Signal::Claimed => {
            (Policy::MustNotRespond, Mode::ToolMailbox)
        }
    };
    Decision { directedness: Directedness::ToMe, policy, mode, reason: Reason::InboundReaction }
}

#[cfg(test)]
mod tests;
