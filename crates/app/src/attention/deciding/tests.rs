use super::*;
use crate::attention::FOREIGN;
use chorus_protocol::words::ConversationKind;
use uuid::Uuid;

fn candidate(n: u128) -> Candidate {
    Candidate {
        agent: AgentId(Uuid::from_u128(n)),
        handle: n.to_string(),
        named: false,
        in_named_role: false,
        owns_thread: false,
        participates: false,
        last_in_thread: false,
        said_target: false,
        owns_stream: false,
    }
}

fn said(text: &str) -> Event<'_> {
    Event { text, names_somebody: text.contains('@'), in_thread: true, ..Event::default() }
}

/// Who is woken, and why.
fn woken(event: Event<'_>, candidates: &[Candidate]) -> Vec<(String, Reason)> {
    let decided = decide_each(&classify(event), candidates, &Known::default());
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
    let first = Known { first: Some(two.agent), ..Known::default() };
    let decided = |all: &Known| {
        let event = Event { names_somebody: true, ..said("can somebody look at the build?") };
        let decided = decide_each(&classify(event), &[one.clone(), two.clone()], all);
        decided.into_iter().map(|one| (one.attention.mode, one.attention.policy)).collect::<Vec<_>>()
    };
    let other = (Mode::ToolMailbox, Policy::MayRespond);
    assert_eq!(decided(&first), [other, (Mode::Buffered, Policy::MayRespond)]);
    let knocks = Known { shows: vec![Capabilities::default(); 2], ..first };
    assert_eq!(decided(&knocks), [other, (Mode::Notify, Policy::MayRespond)]);
}

#[test]
fn what_would_be_a_knock_wakes_nobody() {
    let named = Candidate { named: true, ..candidate(1) };
    for text in ["@1 thanks!", "@1 ok", "@1 👍"] {
        assert_eq!(woken(said(text), std::slice::from_ref(&named)), [], "{text}");
        let decided = decide_each(&classify(said(text)), std::slice::from_ref(&named), &Known::default());
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
    let decided =
        decide_each(&classify(event), &[Candidate { named: true, ..candidate(1) }], &Known::default());
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
