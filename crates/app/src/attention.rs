//! Attention's seam: whom an event concerns, and how it gets to them. Delivery is not injection.
//!
//! Everything that is said passes here, inside its transaction: the store has found out what is known, the engine
//! (`chorus-attention`) decides for each agent that it may concern, and the store keeps what was decided with the delivery.
//! Nothing is decided here but which decisions are deliveries at all: no door shows knocks or digests yet, so what would be one
//! is found by whoever looks.

pub mod loop_guard;

use chorus_attention::capabilities::Capabilities;
use chorus_attention::{AuthorKind, Classified, Event, Happening, classify};
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::Principal;
use chorus_protocol::mentions::mentions;
use chorus_protocol::words::{Directedness, Intent, Mode, Policy, Priority, Reason};
use chorus_store::conversation::{self, Candidate, Draft, DraftKind, Reach, Recipient};
use chorus_store::{StoreError, Tx};
use serde::Deserialize;

/// What another service posts to an agent's connection string is for that agent.
pub const FOREIGN: Attention = Attention {
    directedness: Directedness::ToMe,
    policy: Policy::MustRespond,
    mode: Mode::Immediate,
    reason: Reason::DirectMessage,
    priority: Priority::Normal,
    deadline_ms: None,
};

/// What the ways to an agent that exist by now can show.
const SHOWN: Capabilities = Capabilities {
    immediate: true,
    buffered: true,
    notify: false,
    tool_mailbox: true,
    digest: false,
    interrupt: false,
};

/// Whom a draft reaches, and what it means for each.
pub fn decide(tx: &mut dyn Tx, draft: &Draft<'_>) -> Result<Reach, StoreError> {
    // What changes a message or reacts to one is not delivered yet, whatever the engine makes of it: who was sent the message
    // finds it changed.
    if !matches!(draft.kind, DraftKind::Message(_)) {
        return Ok(Reach::default());
    }
    let mut event = message(draft)?;
    let mut decided = decide_each(&classify(event), &draft.candidates);
    // Who wakes nobody goes on with nothing.
    let wakes = decided.iter().any(|one| is_delivered(one.attention.mode));
    if wakes && event.author == AuthorKind::Agent && loop_guard::is_loop(tx, draft)? {
        event.damped = true;
        decided = decide_each(&classify(event), &draft.candidates);
    }
    let (delivered, found): (Vec<_>, Vec<_>) =
        decided.into_iter().partition(|one| is_delivered(one.attention.mode));
    // Bystanders find it too; they are not told of one by one.
    let found = found.into_iter().filter(|one| one.attention.directedness == Directedness::ToMe);
    conversation::reach(tx, draft.act.author, delivered, found.collect())
}

fn message<'a>(draft: &'a Draft<'_>) -> Result<Event<'a>, StoreError> {
    let body = &*draft.body;
    let answers = draft.answers.as_ref().map(|answered| Earlier::read(&answered.body)).transpose()?;
    Ok(Event {
        happening: Happening::Message,
        conversation: draft.conversation.kind,
        in_thread: draft.thread.is_some(),
        author: match draft.act.author {
            Principal::Account(_) => AuthorKind::Human,
            Principal::Agent(_) => AuthorKind::Agent,
        },
        author_leads: draft.author_leads,
        text: body.text("content"),
        names_somebody: draft.names_somebody,
        intent: Intent::parse(body.text("intent")),
        directedness: None,
        priority: Priority::parse(body.text("priority")),
        deadline_ms: body.integer("deadline_ms"),
        answers: answers.map(|answered| answered.intent()),
        damped: false,
    })
}

/// What was said before, as far as rules read it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Earlier {
    content: String,
    intent: String,
}

impl Earlier {
    fn read(body: &str) -> Result<Self, StoreError> {
        serde_json::from_str(body).map_err(|error| StoreError::Unexpected(error.into()))
    }

    fn intent(&self) -> Intent {
        let said = Event {
            text: &self.content,
            intent: Intent::parse(&self.intent),
            names_somebody: !mentions(&self.content).is_empty(),
            ..Event::default()
        };
        classify(said).intent
    }
}

fn decide_each(event: &Classified<'_>, candidates: &[Candidate]) -> Vec<Recipient> {
    // What answers an agent is for that one; what a person adds to a thread, for whoever it was about last. An agent that
    // answers somebody else has nothing to say to the others there.
    let answers_agent = candidates.iter().any(|candidate| candidate.said_target);
    let by_person = event.event.author == AuthorKind::Human;
    let decided = candidates.iter().map(|candidate| {
        let is_next = by_person && candidate.last_in_thread;
        // Of roles, work streams and claims nothing is known yet.
        let known = chorus_attention::Recipient {
            named: candidate.named,
            owns_thread: candidate.owns_thread,
            participates: candidate.participates,
            asked_in_thread: if answers_agent { candidate.said_target } else { is_next },
            ..chorus_attention::Recipient::default()
        };
        let attention = chorus_attention::decide(event, &known);
        let mode = match SHOWN.fall_back(attention.mode) {
            // Nothing keeps an agent from answering what it is sent yet, or two would go on telling each other to stop.
            Mode::Immediate | Mode::Buffered if attention.policy == Policy::MustNotRespond => {
                Mode::ToolMailbox
            }
            mode => mode,
        };
        let attention = Attention { mode, ..attention };
        Recipient { agent: candidate.agent, handle: candidate.handle.clone(), attention }
    });
    decided.collect()
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
    use chorus_protocol::words::ConversationKind;
    use uuid::Uuid;

    fn candidate(n: u128) -> Candidate {
        Candidate {
            agent: AgentId(Uuid::from_u128(n)),
            handle: n.to_string(),
            named: false,
            owns_thread: false,
            participates: false,
            last_in_thread: false,
            said_target: false,
        }
    }

    fn said(text: &str) -> Event<'_> {
        Event { text, names_somebody: text.contains('@'), in_thread: true, ..Event::default() }
    }

    /// Who is woken, and why.
    fn woken(event: Event<'_>, candidates: &[Candidate]) -> Vec<(String, Reason)> {
        let decided = decide_each(&classify(event), candidates);
        let woken = decided.into_iter().filter(|one| is_delivered(one.attention.mode));
        woken.map(|one| (one.handle, one.attention.reason)).collect()
    }

    #[test]
    fn who_is_named_is_woken_and_in_a_conversation_of_two_the_other() {
        let named = Candidate { named: true, ..candidate(1) };
        let ask = said("@1 please look at this");
        assert_eq!(woken(ask, &[]), []);
        let mention = ("1".to_owned(), Reason::DirectMention);
        assert_eq!(woken(ask, std::slice::from_ref(&named)), [mention]);
        let dm = Event { conversation: ConversationKind::Dm, ..ask };
        let direct = |n: &str| (n.to_owned(), Reason::DirectMessage);
        assert_eq!(woken(dm, &[named, candidate(2)]), [direct("1"), direct("2")]);
    }

    #[test]
    fn what_would_be_a_knock_wakes_nobody() {
        let named = Candidate { named: true, ..candidate(1) };
        for text in ["@1 thanks!", "@1 ok", "@1 👍"] {
            assert_eq!(woken(said(text), std::slice::from_ref(&named)), [], "{text}");
            let decided = decide_each(&classify(said(text)), std::slice::from_ref(&named));
            assert_eq!(decided[0].attention.mode, Mode::ToolMailbox);
            assert_eq!(decided[0].attention.policy, Policy::AckOnly);
        }
    }

    #[test]
    fn what_comes_next_in_a_thread_is_for_whom_it_was_about() {
        let spoke = Candidate { participates: true, ..candidate(1) };
        let last = Candidate { participates: true, last_in_thread: true, ..candidate(2) };
        let two = [spoke.clone(), last.clone()];
        let question = said("and on Windows?");
        assert_eq!(woken(question, &two), [("2".to_owned(), Reason::ThreadQuestion)]);
        let correction = said("I meant the other one");
        assert_eq!(woken(correction, &two), [("2".to_owned(), Reason::ThreadParticipation)]);
        // What says whom it answers is for that one; what an agent says to a person, for no other agent.
        let answers = [Candidate { said_target: true, ..spoke }, last];
        assert_eq!(woken(question, &answers), [("1".to_owned(), Reason::ThreadQuestion)]);
        let by_agent = Event { author: AuthorKind::Agent, ..question };
        assert_eq!(woken(by_agent, &two), []);
        assert_eq!(woken(by_agent, &answers), [("1".to_owned(), Reason::ThreadQuestion)]);
    }

    #[test]
    fn what_is_damped_wakes_nobody_whatever_it_says() {
        let named = [Candidate { named: true, ..candidate(1) }];
        for text in ["@1 please go on", "@1 stop!", "@1 emergency: the disk is full"] {
            let event = Event { author: AuthorKind::Agent, ..said(text) };
            assert_eq!(woken(event, &named).len(), 1, "{text}");
            assert_eq!(woken(Event { damped: true, ..event }, &named), [], "{text}");
        }
    }

    #[test]
    fn the_whole_decision_goes_with_the_recipient() {
        let event = Event { priority: Some(Priority::Urgent), deadline_ms: Some(5_000), ..said("@1 go on") };
        let decided = decide_each(&classify(event), &[Candidate { named: true, ..candidate(1) }]);
        let attention = Attention {
            priority: Priority::Urgent,
            deadline_ms: Some(5_000),
            reason: Reason::DirectMention,
            ..FOREIGN
        };
        assert_eq!(decided, [Recipient { agent: candidate(1).agent, handle: "1".into(), attention }]);
    }

    #[test]
    fn what_was_said_before_is_read_as_it_was_meant() {
        let intent = |body: &str| Earlier::read(body).unwrap().intent();
        assert_eq!(intent(r#"{"content": "Shall I deploy it?"}"#), Intent::ApprovalRequest);
        assert_eq!(intent(r#"{"content": "Shall I?", "intent": "chat"}"#), Intent::Chat);
        assert_eq!(intent(r#"{"content": "@bob fix the parser"}"#), Intent::Assignment);
    }
}
