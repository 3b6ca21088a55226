//! Tests for the effects of messages, edits, deletions and reactions.

use crate::support::{agent, attention, conversation, event, held_by, obligation, person, planned};
use chorus_attention::capabilities::{Abilities, Capabilities};
use chorus_attention::claims::Claim;
use chorus_attention::obligation::Obligation;
use chorus_attention::plan::{
    Audience, Candidate, EditFacts, ExchangeFacts, ExchangePartner, Facts, Handling, MessageFacts,
    ReactionFacts, ReplyFacts, ResponderFacts, Version,
};
use chorus_attention::{AuthorKind, Event, Happening};
use chorus_protocol::ids::Principal;
use chorus_protocol::words::{Disposition, Policy, Reason, Signal};

fn candidate(n: u8) -> Candidate {
    Candidate::new(agent(n), n.to_string())
}

fn knocks() -> Abilities {
    Abilities { shows: Capabilities::default(), signals: true, repeats: true }
}

fn audience(text: &str, author: Principal, candidates: Vec<Candidate>) -> Audience<'_> {
    let kind = if author.agent().is_some() { AuthorKind::Agent } else { AuthorKind::Human };
    Audience {
        event: Event { text, names_somebody: text.contains('@'), author: kind, ..Event::EMPTY },
        conversation: conversation(),
        given: event(5),
        author,
        thread: None,
        mentions: String::new(),
        candidates,
        thread_claim: None,
        exchange: None,
    }
}

fn message(audience: Audience<'_>, reply: ReplyFacts) -> Facts<'_> {
    Facts::Message(Box::new(MessageFacts { audience, reply, stop: None, only_checked: false }))
}

#[test]
fn messages() {
    let named = || Candidate { named: true, ..candidate(1) };
    let role = |n: u8, abilities| {
        let responder =
            ResponderFacts { address: n.to_string(), is_available: true, load: 0, active_at_ms: 0 };
        Candidate { in_named_role: true, abilities, responder: Some(responder), ..candidate(n) }
    };
    let bare = Abilities::WITHOUT_KNOCKS;
    for (text, author, candidates, expected) in [
        ("good morning", person(), vec![], "reset turns"),
        ("@1 is it green?", person(), vec![named()], "deliver buffered, reset turns"),
        ("@1 is it green?", agent(3).into(), vec![named()], "deliver buffered, count turn with 1"),
        ("@1 is it green?", person(), vec![Candidate { is_excluded: true, ..named() }], "reset turns"),
        ("@1 thanks!", person(), vec![named()], "store, reset turns"),
        (
            "@ops look at it?",
            person(),
            vec![role(1, knocks()), role(2, knocks())],
            "deliver notify, claim offered, reset turns",
        ),
        (
            "@ops look at it?",
            person(),
            vec![role(1, bare), role(2, bare)],
            "deliver buffered and claim, claim held, reset turns",
        ),
    ] {
        let facts = message(audience(text, author, candidates), ReplyFacts::Nothing);
        assert_eq!(planned(&facts), expected, "{text}");
    }
}

#[test]
fn a_message_reaches_fifty_agents_and_is_stored_for_the_rest() {
    let named = (1..=60).map(|n| Candidate { named: true, ..candidate(n) }).collect();
    let facts = message(audience("@all of you, go on", person(), named), ReplyFacts::Nothing);
    let planned = planned(&facts);
    assert_eq!((planned.matches("deliver").count(), planned.matches("store").count()), (50, 10));
}

#[test]
fn a_loop_wakes_nobody() {
    let named = vec![Candidate { named: true, ..candidate(1) }];
    let mut audience = audience("@1 please go on", agent(3).into(), named);
    let partners = vec![partner(1, 8, false)];
    audience.exchange = Some(ExchangeFacts { partners, limit: Some(8), ..ExchangeFacts::default() });
    assert_eq!(planned(&message(audience, ReplyFacts::Nothing)), "damp, store");
}

fn partner(n: u8, turns: u32, on_task: bool) -> ExchangePartner {
    ExchangePartner { agent: agent(n), turns, on_task }
}

/// Each pair of agents has its own turns.
#[test]
fn a_loop_with_one_agent_is_none_with_another() {
    for (partners, limit, expected) in [
        (
            vec![partner(1, 8, false), partner(2, 7, false)],
            Some(8),
            "damp, deliver buffered, store, count turn with 2",
        ),
        (
            vec![partner(1, 8, true), partner(2, 40, true)],
            Some(8),
            "damp, deliver buffered, store, count turn with 1",
        ),
        (
            vec![partner(1, 39, false), partner(2, 40, false)],
            None,
            "damp, deliver buffered, store, count turn with 1",
        ),
        (
            vec![partner(1, 0, false), partner(2, 0, false)],
            Some(8),
            "deliver buffered, deliver buffered, count turn with 1 2",
        ),
    ] {
        let named = [1, 2].map(|n| Candidate { named: true, ..candidate(n) });
        let mut audience = audience("@1 @2 please go on", agent(3).into(), named.to_vec());
        audience.exchange =
            Some(ExchangeFacts { partners: partners.clone(), limit, ..ExchangeFacts::default() });
        assert_eq!(planned(&message(audience, ReplyFacts::Nothing)), expected, "{partners:?} {limit:?}");
    }
}

/// Two agents that claim, defer or react `working` before each answer have the same turns as those that do not.
#[test]
fn agents_cannot_lift_the_guard_by_what_they_do_with_each_others_messages() {
    let claim = Some(held_by(agent(1)));
    let with =
        |disposition| Obligation { disposition, ..obligation(Policy::MustRespond, Reason::DirectMention) };
    for (given, claim) in [
        (with(None), None),
        (with(Some(Disposition::Claimed)), claim),
        (with(Some(Disposition::Deferred)), None),
    ] {
        let mut woken = 0;
        for turns in 0..60 {
            let named = vec![Candidate { named: true, ..candidate(2) }];
            let text = format!("@2 what about table number {turns}?");
            let mut audience = audience(&text, agent(1).into(), named);
            let partners = vec![partner(2, woken, false)];
            audience.exchange = Some(ExchangeFacts { partners, limit: Some(8), ..ExchangeFacts::default() });
            let planned = planned(&message(audience, answered(vec![given.clone()], claim)));
            woken += u32::from(planned.contains("deliver"));
        }
        assert_eq!(woken, 8);
    }
}

fn answered(given: Vec<Obligation>, claim: Option<Claim>) -> ReplyFacts {
    let (who, conversation, message) = (agent(1).into(), conversation(), event(1));
    let handling = Handling { who, conversation, message, given, claim, found: None };
    ReplyFacts::Message { answered: Box::new(handling), named_as: event(1), thread_claim: None }
}

#[test]
fn replies() {
    let given = |policy, reason| vec![obligation(policy, reason)];
    let role = || given(Policy::MayRespond, Reason::RoleMention);
    let replaced = Obligation { disposition: Some(Disposition::Superseded), ..role().remove(0) };
    let newest = Obligation { event: event(2), supersedes: Some(event(1)), ..role().remove(0) };
    let thread = |claim| ReplyFacts::Thread {
        agent: agent(1).into(),
        meaning: attention(Policy::MayRespond, Reason::Unmentioned),
        claim,
    };
    let by_person = |claim| ReplyFacts::Person { person: person(), claims: vec![(event(1), claim)] };
    for (n, (reply, expected)) in [
        (answered(given(Policy::MustRespond, Reason::DirectMention), None), "dispose responded"),
        (answered(given(Policy::AckOnly, Reason::DirectMention), None), "dispose acknowledged"),
        (
            answered(given(Policy::MustNotRespond, Reason::AddressedToOther), None),
            "refused: policy_forbidden",
        ),
        (answered(role(), None), "dispose responded, claim resolved"),
        (answered(role(), Some(held_by(agent(1)))), "dispose responded, claim resolved"),
        (answered(role(), Some(held_by(agent(2)))), "refused: claimed_by_other"),
        (answered(vec![newest, replaced], None), "refused: superseded"),
        (thread(None), ""),
        (thread(Some(held_by(agent(2)))), "refused: claimed_by_other"),
        (ReplyFacts::Signal(obligation(Policy::MayRespond, Reason::InboundReaction)), "dispose responded"),
        (
            ReplyFacts::Signal(obligation(Policy::MustNotRespond, Reason::InboundReaction)),
            "refused: policy_forbidden",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let facts = message(audience("done", agent(1).into(), vec![]), reply);
        assert_eq!(planned(&facts), expected, "row {n}");
    }
    for (claim, expected) in
        [(held_by(person()), "reset turns, claim resolved"), (held_by(agent(2)), "reset turns")]
    {
        let facts = message(audience("done", person(), vec![]), by_person(claim));
        assert_eq!(planned(&facts), expected);
    }
}

#[test]
fn a_reply_that_waits_for_approval_claims_what_it_answers() {
    let role = vec![obligation(Policy::MayRespond, Reason::RoleMention)];
    let audience = audience("done", agent(1).into(), vec![]);
    let facts = MessageFacts { audience, reply: answered(role, None), stop: None, only_checked: true };
    assert_eq!(planned(&Facts::Message(Box::new(facts))), "claim held");
}

#[test]
fn edits() {
    let known =
        |disposition| Obligation { disposition, ..obligation(Policy::MustRespond, Reason::DirectMention) };
    for (named, disposition, abilities, expected) in [
        (true, None, knocks(), "supersede"),
        (true, None, Abilities::WITHOUT_KNOCKS, "revise"),
        (false, None, knocks(), "dispose superseded, cancel"),
        (false, None, Abilities::WITHOUT_KNOCKS, "dispose superseded, cancel"),
        (true, Some(Disposition::Responded), knocks(), "supersede"),
        (true, Some(Disposition::Responded), Abilities::WITHOUT_KNOCKS, ""),
        (false, Some(Disposition::Responded), knocks(), ""),
    ] {
        let candidate = Candidate { named, abilities, ..candidate(1) };
        let mut audience = audience(if named { "@1 go on" } else { "never mind" }, person(), vec![]);
        audience.event.happening = Happening::Edit;
        let versions = vec![Version { obligation: known(disposition), candidate }];
        let facts = EditFacts { audience, versions, has_recipients: false };
        assert_eq!(planned(&Facts::Edit(facts)), expected, "{named} {disposition:?}");
    }
}

#[test]
fn a_deletion_withdraws_what_is_open() {
    let open = obligation(Policy::MustRespond, Reason::DirectMention);
    let over = Obligation { disposition: Some(Disposition::Responded), ..open.clone() };
    assert_eq!(planned(&Facts::Deletion(vec![open, over])), "dispose superseded, cancel");
}

#[test]
fn reactions() {
    for (signal, abilities, expected) in [
        (Signal::Done, knocks(), "deliver notify"),
        (Signal::Seen, knocks(), ""),
        (Signal::Done, Abilities { signals: false, ..knocks() }, ""),
    ] {
        let event = Event { happening: Happening::Reaction(signal), ..Event::EMPTY };
        let author = Candidate { said_target: true, abilities, ..candidate(1) };
        let facts = ReactionFacts { event, recipients: vec![author] };
        assert_eq!(planned(&Facts::Reaction(facts)), expected, "{signal}");
    }
}
