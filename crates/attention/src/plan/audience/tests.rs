//! Tests for the audience of a message, row by row.

use super::*;
use chorus_protocol::words::{ConversationKind, Priority};

fn candidate(n: u8) -> Candidate {
    Candidate::new(AgentId::from_slice(&[n; 16]).unwrap(), n.to_string())
}

fn said(text: &str) -> Event<'_> {
    Event { text, names_somebody: text.contains('@'), in_thread: true, ..Event::default() }
}

/// Returns the woken agents, each with its reason.
fn woken(event: Event<'_>, candidates: &[Candidate]) -> Vec<(String, Reason)> {
    let decided = decide_each(&classify(event), candidates, None, None, false);
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
fn of_a_role_one_is_asked_and_where_there_are_knocks_by_one() {
    let [one, two] = [1, 2].map(|n| Candidate { in_named_role: true, ..candidate(n) });
    let decided = |abilities: Abilities| {
        let event = Event { names_somebody: true, ..said("can somebody look at the build?") };
        let both = [one.clone(), two.clone()].map(|one| Candidate { abilities, ..one });
        let decided = decide_each(&classify(event), &both, Some(two.agent), None, false);
        decided.into_iter().map(|one| (one.attention.mode, one.attention.policy)).collect::<Vec<_>>()
    };
    let other = (Mode::ToolMailbox, Policy::MayRespond);
    assert_eq!(decided(Abilities::WITHOUT_KNOCKS), [other, (Mode::Buffered, Policy::MayRespond)]);
    let knocks = Abilities { shows: Capabilities::default(), ..Abilities::WITHOUT_KNOCKS };
    assert_eq!(decided(knocks), [other, (Mode::Notify, Policy::MayRespond)]);
}

#[test]
fn what_would_be_a_knock_wakes_nobody() {
    let named = Candidate { named: true, ..candidate(1) };
    for text in ["@1 thanks!", "@1 ok", "@1 👍"] {
        assert_eq!(woken(said(text), std::slice::from_ref(&named)), [], "{text}");
        let decided = decide_each(&classify(said(text)), std::slice::from_ref(&named), None, None, false);
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
    // A message that names the answered message is for its author. An agent's message to a person is for no
    // other agent.
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
    let named = Candidate { named: true, ..candidate(1) };
    let decided = decide_each(&classify(event), &[named], None, None, false);
    let attention = Attention {
        directedness: Directedness::ToMe,
        policy: Policy::MustRespond,
        mode: Mode::Immediate,
        priority: Priority::Urgent,
        deadline_ms: Some(5_000),
        reason: Reason::DirectMention,
    };
    assert_eq!(decided, [EventRecipient { agent: candidate(1).agent, handle: "1".into(), attention }]);
}
