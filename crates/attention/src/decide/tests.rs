use super::*;
use crate::event::{Event, classify};
use proptest::prelude::*;

fn person(text: &str) -> Event<'_> {
    Event { text, ..Event::default() }
}

fn agent(text: &str) -> Event<'_> {
    Event { text, author: AuthorKind::Agent, ..Event::default() }
}

fn nobody() -> Recipient {
    Recipient::default()
}

fn named() -> Recipient {
    Recipient { named: true, ..nobody() }
}

fn naming(event: Event<'_>) -> Event<'_> {
    Event { names_somebody: true, ..event }
}

fn in_dm(event: Event<'_>) -> Event<'_> {
    Event { conversation: ConversationKind::Dm, ..event }
}

fn in_thread(event: Event<'_>) -> Event<'_> {
    Event { in_thread: true, ..event }
}

fn participant() -> Recipient {
    Recipient { participates: true, ..nobody() }
}

fn asked() -> Recipient {
    Recipient { asked_in_thread: true, ..participant() }
}

fn in_role() -> Recipient {
    Recipient { in_named_role: true, ..nobody() }
}

fn check(what: &str, event: Event<'_>, recipient: Recipient, expected: [&str; 3], modes: &[&str]) {
    let Attention { directedness, policy, mode, reason, .. } = decide(&classify(event), &recipient);
    let found = [directedness.as_str(), policy.as_str(), reason.as_str()];
    assert_eq!(found, expected, "{what}: {:?}", event.text);
    assert!(modes.contains(&mode.as_str()), "{what}: {:?} {mode}", event.text);
}

/// Checks rows of the form: event, recipient => directedness policy (injection, one of) reason.
macro_rules! decides {
    ($($what:literal: $event:expr, $recipient:expr
        => $directedness:ident $policy:ident ($($mode:ident)|+) $reason:ident;)+) => {$(
        let expected = [stringify!($directedness), stringify!($policy), stringify!($reason)];
        check($what, $event, $recipient, expected, &[$(stringify!($mode)),+]);
    )+};
}

mod evidence;

/// The document's Default Matrix, in its words, each row as a person and, where it can be, an agent would bring it
/// about.
#[test]
fn the_default_matrix() {
    let role = naming(person("@backend look at this"));
    let broadcast = |text| agent(text);
    decides! {
        "DM to this session": in_dm(person("hello there")), nobody() => to_me must_respond (buffered) direct_message;
        "DM to this session":
            in_dm(agent("the parser fails")), nobody()
            => to_me must_respond (buffered) direct_message;
        "Thanks or acknowledgement": in_dm(person("thanks!")), nobody() => to_me ack_only (notify) thanks;
        "Thanks or acknowledgement": naming(person("@bob got it")), named() => to_me ack_only (notify) acknowledgement;
        "Thanks or acknowledgement": in_dm(agent("thanks!")), nobody() => to_me ack_only (silent) thanks;
        "Direct @mention":
            naming(person("@bob the parser fails")), named()
            => to_me must_respond (buffered) direct_mention;
        "Direct @mention":
            naming(agent("@bob the parser fails")), named()
            => to_me must_respond (buffered) direct_mention;
        "Assignment, approval, or blocker":
            Event { intent: Some(Intent::Assignment), ..naming(person("@bob this one")) }, named()
            => to_me must_respond (immediate | buffered) assignment;
        "Assignment, approval, or blocker":
            naming(agent("@bob approved")), named()
            => to_me must_respond (immediate) approval;
        "Assignment, approval, or blocker":
            in_dm(agent("may I deploy?")), nobody()
            => to_me must_respond (immediate) approval;
        "Assignment, approval, or blocker":
            in_dm(agent("I'm blocked on the key")), nobody()
            => to_me must_respond (immediate | buffered) blocker;
        "Direct thread question":
            in_thread(person("and what about staging?")), asked()
            => to_me must_respond (buffered) thread_question;
        "Direct thread question":
            in_thread(naming(person("@bob and staging?"))), named()
            => to_me must_respond (buffered) direct_mention;
        "Role or group mention": role, in_role() => to_my_role may_respond (notify) role_mention;
        "then claimant gets buffered":
            role, Recipient { holds_claim: true, ..in_role() }
            => to_my_role may_respond (buffered) role_mention;
        "Thread reply where this agent participates":
            in_thread(person("it is green")), participant()
            => to_my_role may_respond (notify) thread_participation;
        "Thread reply where this agent participates":
            in_thread(agent("it is green")), asked()
            => to_my_role may_respond (notify) thread_participation;
        "Thread reply where this agent participates":
            in_thread(person("it is green")), asked()
            => to_my_role may_respond (notify) thread_participation;
        "Message to another agent":
            naming(person("@carol please deploy")), nobody()
            => to_other must_not_respond (tool_mailbox) addressed_to_other;
        "Agent message with no task":
            agent("it is green"), nobody()
            => to_other must_not_respond (tool_mailbox) agent_no_task;
        "Unmentioned channel message":
            person("what is for lunch?"), nobody()
            => ambient must_not_respond (tool_mailbox) unmentioned;
        "Logs, progress, status broadcasts":
            broadcast("[INFO] started"), nobody()
            => ambient must_not_respond (silent) status_broadcast;
        "Logs, progress, status broadcasts":
            broadcast("60% done"), nobody()
            => ambient must_not_respond (digest) status_broadcast;
        "Logs, progress, status broadcasts":
            broadcast("Status: all green"), nobody()
            => ambient must_not_respond (digest) status_broadcast;
    }
}

/// "Outbound Posture": what an agent's choice of surface means for those it reaches.
#[test]
fn outbound_posture() {
    let ambient = Some(Directedness::Ambient);
    decides! {
        "Get one agent to act": in_dm(agent("deploy it")), nobody() => to_me must_respond (buffered) direct_message;
        "Get one agent to act":
            naming(agent("@bob deploy it")), named()
            => to_me must_respond (buffered) direct_mention;
        "Offer work to a role or pool":
            naming(agent("@backend deploy it")), in_role()
            => to_my_role may_respond (notify) role_mention;
        "Add to an owned thread":
            in_thread(agent("I found the cause")), Recipient { owns_thread: true, ..nobody() }
            => to_my_role may_respond (notify) thread_participation;
        "Share context, no action wanted":
            Event { directedness: ambient, ..agent("the cause was a cache") }, nobody()
            => ambient must_not_respond (tool_mailbox) unmentioned;
        "Report status or progress":
            Event { intent: Some(Intent::Progress), ..naming(agent("@bob halfway")) }, named()
            => to_me must_not_respond (digest) status_broadcast;
    }
}

/// The table of directedness with its default injection, and what each follows from.
#[test]
fn directedness() {
    let owner = Recipient { owns_stream: true, ..nobody() };
    decides! {
        "to_me: DM": in_dm(person("hello there")), nobody() => to_me must_respond (buffered) direct_message;
        "to_me: mention": naming(person("@bob hello there")), named() => to_me must_respond (buffered) direct_mention;
        "to_my_role: role":
            naming(person("@ops hello there")), in_role()
            => to_my_role may_respond (notify) role_mention;
        "to_my_role: owned thread":
            in_thread(person("hm, strange")), Recipient { owns_thread: true, ..nobody() }
            => to_my_role may_respond (notify) thread_participation;
        "to_my_role: owned stream, another owner is asked first":
            person("the build is slow"), Recipient { offered_to_other: true, ..owner }
            => to_my_role may_respond (tool_mailbox) stream_owner;
        "to_my_role: owned stream": person("the build is slow"), owner => to_my_role may_respond (notify) stream_owner;
        "to_other":
            naming(person("@carol hello there")), nobody()
            => to_other must_not_respond (tool_mailbox | silent) addressed_to_other;
        "ambient": person("hello there"), nobody() => ambient must_not_respond (tool_mailbox) unmentioned;
        // Both of two who are named; and who is named in a role and by handle is named.
        "two": naming(person("@bob @carol hello there")), named() => to_me must_respond (buffered) direct_mention;
        "handle before role":
            naming(person("@bob @ops hi")), Recipient { named: true, ..in_role() }
            => to_me must_respond (buffered) direct_mention;
        // Another is the clear recipient, even in one's own thread or stream.
        "another in own thread":
            in_thread(naming(person("@carol look?"))), asked()
            => to_other must_not_respond (tool_mailbox) addressed_to_other;
        "another in own stream":
            naming(person("@carol look?")), owner
            => to_other must_not_respond (tool_mailbox) addressed_to_other;
        "workers' chatter": agent("it is green"), owner => to_other must_not_respond (tool_mailbox) agent_no_task;
        "a worker's question": agent("is it green?"), owner => to_my_role may_respond (notify) stream_owner;
    }
}

/// A knock tells by its priority whether it is worth a look: who was asked last is meant by what a person adds.
#[test]
fn who_only_takes_part_is_knocked_with_low_priority() {
    let urgent = Event { priority: Some(Priority::Urgent), ..in_thread(person("it is green")) };
    for (event, recipient, expected) in [
        (in_thread(person("it is green")), asked(), Priority::Normal),
        (in_thread(person("it is green")), participant(), Priority::Low),
        (in_thread(agent("it is green")), asked(), Priority::Low),
        (urgent, participant(), Priority::Urgent),
    ] {
        assert_eq!(decide(&classify(event), &recipient).priority, expected, "{event:?} {recipient:?}");
    }
}

#[test]
fn threads() {
    let owner = Recipient { owns_thread: true, ..nobody() };
    decides! {
        "a follow-up question is for who was asked":
            in_thread(person("why?")), asked()
            => to_me must_respond (buffered) thread_question;
        "an agent's too": in_thread(agent("which branch?")), asked() => to_me must_respond (buffered) thread_question;
        "so is work":
            in_thread(person("please also run the tests")), asked()
            => to_me must_respond (buffered) thread_question;
        "others of the thread are told":
            in_thread(person("why?")), participant()
            => to_my_role may_respond (notify) thread_participation;
        "its owner too": in_thread(person("why?")), owner => to_my_role may_respond (notify) thread_participation;
        "a correction reaches who was asked":
            in_thread(person("I meant the other branch")), asked()
            => to_my_role may_respond (notify) thread_participation;
        "thanks in a thread are for who was asked":
            in_thread(person("thanks")), asked()
            => to_me ack_only (notify) thanks;
        "and for nobody else":
            in_thread(person("thanks")), participant()
            => to_my_role must_not_respond (tool_mailbox) thanks;
        "progress in a thread":
            in_thread(agent("60% done")), asked()
            => to_my_role must_not_respond (digest) status_broadcast;
        "strangers to a thread":
            in_thread(person("why?")), nobody()
            => ambient must_not_respond (tool_mailbox) unmentioned;
        "being asked counts in threads only":
            person("why?"), asked()
            => ambient must_not_respond (tool_mailbox) unmentioned;
    }
}

#[test]
fn roles_and_claims() {
    let role = naming(person("@backend look at this"));
    let elsewhere = Recipient { claimed_by_other: true, ..in_role() };
    decides! {
        "offered to another first":
            role, Recipient { offered_to_other: true, ..in_role() }
            => to_my_role may_respond (tool_mailbox) role_mention;
        "claimed by another": role, elsewhere => to_other must_not_respond (tool_mailbox) addressed_to_other;
        "a thread that is claimed":
            in_thread(person("why?")), Recipient { claimed_by_other: true, ..asked() }
            => to_other must_not_respond (tool_mailbox) addressed_to_other;
        "who is named may always answer":
            role, Recipient { named: true, ..elsewhere }
            => to_me must_respond (buffered) direct_mention;
        "no word makes more of a role than one offer":
            naming(person("@backend stop the deploy")), Recipient { offered_to_other: true, ..in_role() }
            => to_my_role may_respond (tool_mailbox) role_mention;
        "thanks to a role":
            naming(person("thanks @backend")), in_role()
            => to_my_role must_not_respond (tool_mailbox) thanks;
    }
}

#[test]
fn what_interrupts_and_what_is_urgent() {
    let urgent = |event| Event { priority: Some(Priority::Urgent), ..event };
    let declared = |intent, event| Event { intent: Some(intent), ..event };
    decides! {
        "safety": declared(Intent::Safety, in_dm(person("keys"))), nobody() => to_me must_respond (immediate) safety;
        "an urgent mention":
            urgent(naming(person("@bob look"))), named()
            => to_me must_respond (immediate) direct_mention;
        "an agent's urgent mention":
            urgent(naming(agent("@bob look"))), named()
            => to_me must_respond (buffered) direct_mention;
        "urgent for nobody": urgent(person("look")), nobody() => ambient must_not_respond (tool_mailbox) unmentioned;
        "danger for nobody":
            person("emergency in hall 3"), nobody()
            => ambient must_not_respond (tool_mailbox) unmentioned;
    }
}

#[test]
fn what_is_declared_lowers() {
    let declared = |directedness, event| Event { directedness: Some(directedness), ..event };
    let mention = naming(person("@bob look"));
    decides! {
        "as it is": declared(Directedness::ToMe, mention), named() => to_me must_respond (buffered) direct_mention;
        "lower": declared(Directedness::ToMyRole, mention), named() => to_my_role may_respond (notify) direct_mention;
        "lower":
            declared(Directedness::ToOther, mention), named()
            => to_other must_not_respond (tool_mailbox) addressed_to_other;
        "lower":
            declared(Directedness::Ambient, in_dm(agent("done"))), nobody()
            => ambient must_not_respond (tool_mailbox) unmentioned;
        "never higher":
            declared(Directedness::ToMe, person("look")), nobody()
            => ambient must_not_respond (tool_mailbox) unmentioned;
    }
}

#[test]
fn edits_and_deletions() {
    let edit = |event| Event { happening: Happening::Edit, ..event };
    let deletion = |event| Event { happening: Happening::Deletion, ..event };
    let answered = |recipient| Recipient { answered: true, ..recipient };
    let mention = naming(person("@bob look"));
    decides! {
        "before an answer it is as new": edit(mention), named() => to_me must_respond (buffered) direct_mention;
        "after it, it is offered": edit(mention), answered(named()) => to_me may_respond (notify) edited_after_response;
        "an edit stops nothing":
            edit(in_dm(person("stop"))), answered(nobody())
            => to_me may_respond (notify) edited_after_response;
        "for nobody it stays so":
            edit(person("look")), answered(nobody())
            => ambient must_not_respond (tool_mailbox) unmentioned;
        "what is gone is cancelled": deletion(mention), named() => to_me must_not_respond (silent) cancellation;
        "for nobody too": deletion(person("")), nobody() => ambient must_not_respond (silent) unmentioned;
    }
}

#[test]
fn reactions_on_ones_own_message() {
    let own = Recipient { said_target: true, ..nobody() };
    for signal in Signal::ALL {
        let told = matches!(
            signal,
            Signal::Agree | Signal::Declined | Signal::Done | Signal::Blocked | Signal::Unclear
        );
        let (policy, mode) =
            if told { ("may_respond", "notify") } else { ("must_not_respond", "tool_mailbox") };
        let reaction = Event { happening: Happening::Reaction(*signal), ..person("") };
        let asked_leave = Event { answers: Some(Intent::ApprovalRequest), ..reaction };
        let by_agent = Event { author: AuthorKind::Agent, ..asked_leave };
        let ended = if matches!(signal, Signal::Agree | Signal::Declined) { "immediate" } else { mode };
        let rows = [
            ("own", reaction, own, ["to_me", policy, mode, "inbound_reaction"]),
            (
                "another's",
                reaction,
                nobody(),
                ["to_other", "must_not_respond", "tool_mailbox", "addressed_to_other"],
            ),
            ("ends the wait for leave", asked_leave, own, ["to_me", policy, ended, "inbound_reaction"]),
            ("agents give no leave", by_agent, own, ["to_me", policy, mode, "inbound_reaction"]),
        ];
        for (what, event, recipient, [directedness, policy, mode, reason]) in rows {
            check(what, event, recipient, [directedness, policy, reason], &[mode]);
        }
    }
}

#[test]
fn a_loop_is_damped() {
    let damped = |event| Event { damped: true, ..event };
    decides! {
        "mention": damped(naming(agent("@bob look"))), named() => to_me must_not_respond (tool_mailbox) loop_guard;
        "DM": damped(in_dm(agent("look"))), nobody() => to_me must_not_respond (tool_mailbox) loop_guard;
        "stop is still seen":
            damped(in_dm(agent("stop"))), stopped(nobody())
            => to_me must_not_respond (immediate) loop_guard;
        "a person never": damped(in_dm(person("look"))), nobody() => to_me must_respond (buffered) direct_message;
        "who was not concerned still is not":
            damped(agent("is it?")), nobody()
            => ambient must_not_respond (tool_mailbox) unmentioned;
    }
}

#[test]
fn deadlines() {
    let rows = [
        (None, 300_000),
        (Some(5), 1_000),
        (Some(20_000), 20_000),
        (Some(i64::MAX), 86_400_000),
        (Some(-1), 1_000),
    ];
    for (deadline_ms, expected) in rows {
        let event = Event { deadline_ms, ..in_dm(person("look")) };
        assert_eq!(decide(&classify(event), &nobody()).deadline_ms, Some(expected));
        let event = Event { deadline_ms, ..person("look") };
        assert_eq!(decide(&classify(event), &nobody()).deadline_ms, None);
    }
}

mod stops;
use stops::stopped;

fn any_of<T: Copy + std::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = T> {
    prop::sample::select(all)
}

prop_compose! {
    fn any_event()(
        happening in prop_oneof![
            Just(Happening::Message), Just(Happening::Edit), Just(Happening::Deletion),
            any_of(Signal::ALL).prop_map(Happening::Reaction)
        ],
        conversation in any_of(ConversationKind::ALL),
        author in prop::sample::select(vec![AuthorKind::Human, AuthorKind::Agent, AuthorKind::System]),
        text in prop::sample::select(vec![
            "", "thanks", "ok", "why?", "please go", "stop", "60% done", "hello there", "approved", "emergency",
        ]),
        (in_thread, author_leads, names_somebody, damped) in any::<(bool, bool, bool, bool)>(),
        intent in prop::option::of(any_of(Intent::ALL)),
        directedness in prop::option::of(any_of(Directedness::ALL)),
        priority in prop::option::of(any_of(Priority::ALL)),
        deadline_ms in any::<Option<i64>>(),
        answers in prop::option::of(any_of(Intent::ALL)),
    ) -> Event<'static> {
        Event {
            happening, conversation, in_thread, author, author_leads, text, names_somebody, intent, directedness,
            priority, deadline_ms, answers, damped,
        }
    }
}

prop_compose! {
    fn any_recipient()(bits in any::<u16>()) -> Recipient {
        let bit = |place: u32| bits & (1 << place) != 0;
        Recipient {
            named: bit(0),
            in_named_role: bit(1),
            offered_to_other: bit(2),
            owns_thread: bit(3),
            participates: bit(4),
            asked_in_thread: bit(5),
            owns_stream: bit(6),
            said_target: bit(7),
            answered: bit(8),
            holds_claim: bit(9),
            claimed_by_other: bit(10),
            stopped: bit(11),
        }
    }
}

fn freedom(policy: Policy) -> u8 {
    match policy {
        Policy::MustRespond => 3,
        Policy::MayRespond => 2,
        Policy::AckOnly => 1,
        Policy::MustNotRespond => 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn what_must_never_happen(event in any_event(), recipient in any_recipient()) {
        let classified = classify(event);
        let decision = decide(&classified, &recipient);
        let enters = matches!(decision.mode, Mode::Immediate | Mode::Buffered | Mode::Notify);
        let says = matches!(event.happening, Happening::Message | Happening::Edit);
        // Nothing but what is aimed at a recipient obliges it; what is for others or nobody is not shown.
        prop_assert!(decision.policy != Policy::MustRespond || decision.directedness == Directedness::ToMe);
        if matches!(decision.directedness, Directedness::ToOther | Directedness::Ambient) {
            prop_assert_eq!(decision.policy, Policy::MustNotRespond);
            prop_assert!(!enters);
        }
        // Courtesies and reports oblige nobody.
        if matches!(classified.intent, Intent::Thanks | Intent::Acknowledgement) {
            prop_assert!(decision.policy != Policy::MustRespond);
        }
        // Only a stop with authority and a declared matter of safety interrupt.
        if says && matches!(decision.reason, Reason::Cancellation | Reason::Safety) {
            prop_assert!(interrupts(&classified, &recipient));
        }
        if broadcast(classified.intent) && event.author != AuthorKind::Human {
            prop_assert!(decision.policy != Policy::MustRespond);
        }
        // A loop ends.
        if event.damped && event.author == AuthorKind::Agent && says {
            prop_assert_eq!(decision.policy, Policy::MustNotRespond);
        }
        // Another's claim holds for all but who is named, or is stopped.
        let is_meant = recipient.named || stops(&classified, &recipient);
        if recipient.claimed_by_other && !is_meant && event.conversation == ConversationKind::Channel && says {
            prop_assert_eq!(decision.policy, Policy::MustNotRespond);
        }
        // Every event that may be answered has a deadline.
        prop_assert_eq!(decision.deadline_ms.is_some(), decision.policy != Policy::MustNotRespond);
        prop_assert!(decision.deadline_ms.is_none_or(|deadline| DEADLINE_MS.contains(&deadline)));
        let may_be_urgent = event.author != AuthorKind::Agent
            || event.author_leads
            || recipient.stopped
            || classified.intent == Intent::Safety;
        prop_assert!(decision.priority != Priority::Urgent || may_be_urgent);
    }

    #[test]
    fn what_is_declared_never_raises(event in any_event(), recipient in any_recipient()) {
        let with = decide(&classify(event), &recipient);
        let without = decide(&classify(Event { directedness: None, ..event }), &recipient);
        prop_assert!(with.directedness >= without.directedness);
        prop_assert!(freedom(with.policy) <= freedom(without.policy), "{:?} {:?}", with, without);
    }
}
