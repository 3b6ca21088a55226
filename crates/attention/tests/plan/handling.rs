//! Tests for the acts of agents and people on a message.

use crate::support::{NOW, agent, attention, conversation, event, held_by, obligation, person, planned};
use chorus_attention::claims::{Claim, Request};
use chorus_attention::disposition::Cause;
use chorus_attention::obligation::Obligation;
use chorus_attention::plan::{Effect, Facts, Handling, HandlingFacts, HandlingRequest, plan};
use chorus_protocol::words::{Disposition, Policy, Reason, Signal};

const TAKE: Request = Request::Take { ttl_ms: None };

fn facts(request: HandlingRequest, given: Vec<Obligation>, claim: Option<Claim>) -> HandlingFacts {
    let handling = Handling {
        who: agent(1).into(),
        conversation: conversation(),
        message: event(1),
        given,
        claim,
        found: None,
    };
    HandlingFacts { handling, request, is_author: false, owners_were_asked: false, work_ends_at: None }
}

#[test]
fn requests() {
    use HandlingRequest::{Claim as Ask, Defer, React, Resolve};
    let role = || vec![obligation(Policy::MayRespond, Reason::RoleMention)];
    let forbidden = || vec![obligation(Policy::MustNotRespond, Reason::AddressedToOther)];
    let (mine, other) = (Some(held_by(agent(1))), Some(held_by(agent(2))));
    let first = Some(Claim::offered(Some(agent(1)), NOW - 10));
    for (n, (request, given, claim, expected)) in [
        (Ask(TAKE), role(), None, "claim held, dispose claimed"),
        (Ask(TAKE), role(), first, "claim held, dispose claimed"),
        (Ask(TAKE), role(), other, "refused: claimed_by_other"),
        (Ask(TAKE), forbidden(), None, "refused: policy"),
        (Ask(Request::Release), role(), mine, "claim released now"),
        (Ask(Request::Release), role(), None, "refused: not_claimed"),
        (Resolve, role(), None, "dispose responded"),
        (Resolve, role(), mine, "claim resolved, dispose responded"),
        (Resolve, role(), other, "refused: claimed_by_other"),
        (Resolve, forbidden(), None, "refused: policy"),
        (Defer, role(), None, "dispose deferred"),
        (Defer, role(), other, "refused: claimed_by_other"),
        (Defer, forbidden(), None, "refused: policy"),
        (Defer, vec![], None, "refused: not given"),
        (React(Signal::Seen), role(), None, "dispose acknowledged"),
        (React(Signal::Working), role(), None, "claim held, dispose claimed"),
        (React(Signal::Working), role(), other, "refused: claimed_by_other"),
        (React(Signal::Queued), role(), None, "dispose deferred"),
        (React(Signal::Done), role(), mine, "claim resolved, dispose responded"),
        (React(Signal::Done), role(), None, "dispose responded"),
        (React(Signal::Declined), role(), mine, "claim released now, dispose ignored"),
        (React(Signal::Declined), role(), first, "claim offered now, dispose ignored"),
        (React(Signal::Declined), role(), other, "dispose ignored"),
        (React(Signal::Unclear), role(), None, ""),
    ]
    .into_iter()
    .enumerate()
    {
        let facts = facts(request, given, claim);
        assert_eq!(planned(&Facts::Handling(facts)), expected, "row {n}: {request:?}");
    }
}

#[test]
fn a_message_for_nobody_is_for_whoever_takes_it() {
    let found = || Some(attention(Policy::MustNotRespond, Reason::AgentNoTask));
    for (is_author, owners_were_asked, expected) in
        [(false, false, "claim held"), (false, true, "refused: policy"), (true, true, "claim held")]
    {
        let facts = facts(HandlingRequest::Claim(TAKE), vec![], None);
        let handling = Handling { found: found(), ..facts.handling };
        let facts = HandlingFacts { handling, is_author, owners_were_asked, ..facts };
        assert_eq!(planned(&Facts::Handling(facts)), expected);
    }
}

#[test]
fn a_person_reacts() {
    let (mine, other) = (Some(held_by(person())), Some(held_by(agent(2))));
    for (signal, removed, claim, expected) in [
        (Signal::Claimed, false, None, "claim held"),
        (Signal::Claimed, false, other, "refused: claimed_by_other"),
        (Signal::Claimed, true, mine, "claim released now"),
        (Signal::Claimed, true, other, ""),
        (Signal::Declined, false, mine, "claim released now"),
        (Signal::Done, false, mine, "claim resolved"),
        (Signal::Done, false, None, ""),
        (Signal::Done, true, mine, ""),
        (Signal::Agree, false, mine, ""),
    ] {
        let facts = facts(HandlingRequest::PersonReacts { signal, removed }, vec![], claim);
        let handling = Handling { who: person(), ..facts.handling };
        let facts = Facts::Handling(HandlingFacts { handling, ..facts });
        assert_eq!(planned(&facts), expected, "{signal} removed: {removed}");
    }
}

#[test]
fn reports() {
    let role = |policy| vec![obligation(policy, Reason::RoleMention)];
    let mine = Some(held_by(agent(1)));
    let record = |cause| HandlingRequest::Record { cause, until: None };
    let passively = |cause| HandlingRequest::RecordPassively { cause };
    for (request, given, claim, expected) in [
        (record(Cause::Replied), role(Policy::MustRespond), None, "dispose responded"),
        (record(Cause::Replied), role(Policy::MustNotRespond), None, "refused: policy"),
        (passively(Cause::Deferred), role(Policy::MustNotRespond), None, ""),
        (
            record(Cause::Noticed(Disposition::Failed)),
            role(Policy::MayRespond),
            mine,
            "dispose failed, claim released now",
        ),
        (record(Cause::Acked), role(Policy::MustRespond), None, ""),
        (record(Cause::Replied), vec![], None, ""),
    ] {
        assert_eq!(planned(&Facts::Handling(facts(request, given, claim))), expected, "{request:?}");
    }
}

#[test]
fn all_versions_that_are_open_are_settled_together() {
    let last = obligation(Policy::MustRespond, Reason::DirectMention);
    let open = Obligation { event: event(2), supersedes: Some(event(1)), ..last.clone() };
    let over = Obligation { disposition: Some(Disposition::Superseded), ..open.clone() };
    let facts = facts(HandlingRequest::Resolve, vec![last, open, over], None);
    assert_eq!(planned(&Facts::Handling(facts)), "dispose responded, dispose responded");
}

/// Work that an agent has begun is claimed, and its deadline moves as long as it goes on, up to the end of its time.
#[test]
fn work_moves_the_deadline() {
    let question = || vec![obligation(Policy::MustRespond, Reason::DirectMention)];
    let role = || vec![obligation(Policy::MayRespond, Reason::RoleMention)];
    let claimed = |until_at| {
        let disposition = Some(Disposition::Claimed);
        let of = |known| Obligation { disposition, until_at: Some(NOW + until_at), ..known };
        question().into_iter().map(of).collect::<Vec<_>>()
    };
    let until = |ms| {
        let take = Request::Take { ttl_ms: Some(ms) };
        Some(Claim::offered(None, NOW).apply(NOW, agent(1).into(), take).unwrap())
    };
    let other = Some(held_by(agent(2)));
    for (what, given, claim, work_ends_at, expected) in [
        ("what must be answered is claimed", question(), None, None, "claim held, dispose claimed"),
        ("what may be answered is not", role(), None, None, ""),
        ("a claim of it is renewed", role(), until(20_000), None, "claim held, dispose claimed"),
        ("before half of the time nothing is written", claimed(200_000), until(200_000), None, ""),
        (
            "after half of the time it is renewed",
            claimed(100_000),
            until(100_000),
            None,
            "claim held, dispose claimed",
        ),
        ("another holds it, and this agent was named", question(), other, None, "dispose claimed"),
        ("another holds it", role(), other, None, ""),
        ("its time is over", claimed(100_000), until(100_000), Some(NOW), "claim held"),
        ("not given", vec![], None, None, ""),
    ] {
        let facts = HandlingFacts { work_ends_at, ..facts(HandlingRequest::Work, given, claim) };
        assert_eq!(planned(&Facts::Handling(facts)), expected, "{what}");
    }
    let facts =
        HandlingFacts { work_ends_at: Some(NOW + 7), ..facts(HandlingRequest::Work, question(), None) };
    let effects = plan(&Facts::Handling(facts), NOW).unwrap();
    let disposed = effects.iter().find_map(|effect| match effect {
        Effect::Dispose(after) => after.until_at,
        _ => None,
    });
    assert_eq!(disposed, Some(NOW + 7), "the deadline moves no further than the longest task");
}
