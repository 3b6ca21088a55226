//! Attention's seam: whom an event concerns, and how it gets to them. Delivery is not injection.
//!
//! Everything that is said, changed, taken back or reacted to passes here, inside its transaction: the store has found out
//! what is known, the engine (`chorus-attention`, by its plain rule) decides for each agent that it may concern, and the store keeps what was
//! decided with the delivery. Nothing is decided here but which decisions are deliveries at all.

use chorus_attention::plain::{self, classify};
use chorus_attention::{AuthorKind, Classified, Event, Happening};
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::Principal;
use chorus_protocol::words::{Directedness, Intent, Mode, Policy, Priority, Reason};
use chorus_store::conversation::{self, Candidate, Draft, DraftKind, Reach, Recipient};
use chorus_store::{StoreError, Tx};

/// What another service posts to an agent's connection string is for that agent.
pub const FOREIGN: Attention = Attention {
    directedness: Directedness::ToMe,
    policy: Policy::MustRespond,
    mode: Mode::Immediate,
    reason: Reason::DirectMessage,
    priority: Priority::Normal,
    deadline_ms: None,
};

/// Whom a draft reaches, and what it means for each.
pub fn decide(tx: &mut dyn Tx, draft: &Draft<'_>) -> Result<Reach, StoreError> {
    conversation::reach(tx, draft.act.author, recipients(draft))
}

fn recipients(draft: &Draft<'_>) -> Vec<Recipient> {
    let body = &*draft.body;
    let happening = match draft.kind {
        DraftKind::Message(_) => Happening::Message,
        DraftKind::Edit(_) => Happening::Edit,
        DraftKind::Deletion(_) => Happening::Deletion,
        // What is not thought any more concerns nobody.
        DraftKind::Reaction(..) if body.is_true("removed") => return vec![],
        DraftKind::Reaction(_, signal) => Happening::Reaction(signal),
    };
    let event = Event {
        happening,
        conversation: draft.conversation.kind,
        in_thread: draft.thread.is_some(),
        author: match draft.act.author {
            Principal::Account(_) => AuthorKind::Human,
            Principal::Agent(_) => AuthorKind::Agent,
        },
        text: body.text("content"),
        names_somebody: draft.names_somebody,
        intent: Intent::parse(body.text("intent")),
        directedness: None,
        priority: Priority::parse(body.text("priority")),
        deadline_ms: body.integer("deadline_ms"),
        ..Event::default()
    };
    decide_each(&classify(event), &draft.candidates)
}

fn decide_each(event: &Classified<'_>, candidates: &[Candidate]) -> Vec<Recipient> {
    let decided = candidates.iter().map(|candidate| {
        // Of roles, work streams and claims nothing is known yet.
        let known = chorus_attention::Recipient {
            named: candidate.named,
            owns_thread: candidate.owns_thread,
            participates: candidate.participates,
            said_target: candidate.said_target,
            ..chorus_attention::Recipient::default()
        };
        let attention = plain::decide(event, &known);
        Recipient { agent: candidate.agent, handle: candidate.handle.clone(), attention }
    });
    decided.filter(|recipient| is_delivered(recipient.attention.mode)).collect()
}

/// Whether something of this mode is brought to an agent. Everything else it finds when it looks.
fn is_delivered(mode: Mode) -> bool {
    match mode {
        Mode::Immediate | Mode::Buffered | Mode::Notify => true,
        Mode::ToolMailbox | Mode::Digest | Mode::Silent => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_protocol::ids::AgentId;
    use chorus_protocol::words::{ConversationKind, Signal};
    use uuid::Uuid;

    fn message() -> Event<'static> {
        Event {
            happening: Happening::Message,
            conversation: ConversationKind::Channel,
            in_thread: true,
            author: AuthorKind::Human,
            text: "please look at this",
            names_somebody: true,
            intent: None,
            directedness: None,
            priority: None,
            deadline_ms: Some(5_000),
            ..Event::default()
        }
    }

    fn candidate(n: u128) -> Candidate {
        Candidate {
            agent: AgentId(Uuid::from_u128(n)),
            handle: n.to_string(),
            named: false,
            owns_thread: false,
            participates: false,
            said_target: false,
        }
    }

    fn reached(event: Event<'_>, candidates: &[Candidate]) -> Vec<(String, Reason)> {
        let decided = decide_each(&classify(event), candidates);
        decided.into_iter().map(|one| (one.handle, one.attention.reason)).collect()
    }

    #[test]
    fn who_is_named_is_reached_and_in_a_conversation_of_two_the_other() {
        let named = Candidate { named: true, ..candidate(1) };
        let mention = ("1".to_owned(), Reason::DirectMention);
        assert_eq!(reached(message(), &[]), []);
        assert_eq!(reached(message(), std::slice::from_ref(&named)), [mention]);
        let dm = Event { conversation: ConversationKind::Dm, ..message() };
        let direct = |n: &str| (n.to_owned(), Reason::DirectMessage);
        assert_eq!(reached(dm, &[named, candidate(2)]), [direct("1"), direct("2")]);
    }

    #[test]
    fn the_whole_decision_goes_with_the_recipient() {
        let event = Event { priority: Some(Priority::High), ..message() };
        let decided = decide_each(&classify(event), &[Candidate { named: true, ..candidate(1) }]);
        let attention = Attention {
            priority: Priority::High,
            deadline_ms: Some(5_000),
            reason: Reason::DirectMention,
            ..FOREIGN
        };
        assert_eq!(decided, [Recipient { agent: candidate(1).agent, handle: "1".into(), attention }]);
    }

    #[test]
    fn nobody_is_reached_by_a_change_of_what_was_said() {
        let concerned = Candidate { named: true, participates: true, said_target: true, ..candidate(1) };
        for happening in [Happening::Edit, Happening::Deletion, Happening::Reaction(Signal::Done)] {
            assert_eq!(reached(Event { happening, ..message() }, std::slice::from_ref(&concerned)), []);
        }
    }
}
