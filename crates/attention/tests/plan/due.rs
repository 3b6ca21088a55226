//! Tests for the effects of time on obligations and claims.

use crate::support::{NOW, agent, conversation, event, held_by, obligation, person, planned};
use chorus_attention::capabilities::{Abilities, Capabilities};
use chorus_attention::claims::{Claim, Request};
use chorus_attention::obligation::Obligation;
use chorus_attention::plan::{
    AskedAgent, EscalationFacts, EscalationTarget, Facts, OpenFacts, OverdueFacts, ReofferFacts,
    ResponderFacts,
};
use chorus_protocol::words::{Disposition, Policy, Reason};

const KNOCKS: Abilities = Abilities {
    shows: Capabilities {
        immediate: true,
        buffered: true,
        notify: true,
        tool_mailbox: true,
        digest: true,
        interrupt: false,
    },
    signals: true,
    repeats: true,
};

fn overdue(obligation: Obligation) -> OverdueFacts {
    let target = EscalationTarget { principal: person(), handle: "owner".into() };
    let escalation = EscalationFacts {
        event: event(9),
        silent: "ada".into(),
        original: event(1),
        target: Some(target),
        author: None,
    };
    OverdueFacts {
        obligation,
        is_direct: false,
        is_present: true,
        claim: None,
        abilities: KNOCKS,
        is_blocked: false,
        escalation: Some(escalation),
        queued_until: None,
    }
}

/// Returns a question to one agent whose deadline is now.
fn question() -> Obligation {
    obligation(Policy::MustRespond, Reason::DirectMention)
}

#[test]
fn overdue_obligations() {
    let reminded = || Obligation { reminded_at: Some(NOW - 1_000), ..question() };
    let escalated = || Obligation { escalated_at: Some(NOW - 1_000), reminded_at: None, ..question() };
    let with = |disposition| Obligation { disposition: Some(disposition), until_at: Some(NOW), ..question() };
    for (what, obligation, expected) in [
        ("not yet", Obligation { sent_at: NOW, ..question() }, "reschedule +1000"),
        ("at the deadline", question(), "redeliver open"),
        ("not acknowledged", Obligation { acked: false, ..question() }, "reschedule +1000"),
        ("after the reminder", reminded(), "redeliver open, escalate"),
        ("after the escalation", escalated(), "dispose ignored"),
        ("a claim ended", with(Disposition::Claimed), "dispose open, reschedule +0"),
        ("a deferral ended", with(Disposition::Deferred), "dispose open, redeliver open"),
        ("answered", with(Disposition::Responded), "unschedule"),
        ("failed", with(Disposition::Failed), "reschedule never, escalate"),
        (
            "failed and told",
            Obligation { escalated_at: Some(NOW - 1), ..with(Disposition::Failed) },
            "unschedule",
        ),
        (
            "for several, and nobody answered",
            obligation(Policy::MayRespond, Reason::RoleMention),
            "dispose ignored, escalate",
        ),
        ("may be answered", obligation(Policy::MayRespond, Reason::ThreadParticipation), "dispose ignored"),
    ] {
        assert_eq!(planned(&Facts::Overdue(Box::new(overdue(obligation)))), expected, "{what}");
    }
}

#[test]
fn circumstances_of_overdue_obligations() {
    let reminded = || overdue(Obligation { reminded_at: Some(NOW - 1_000), ..question() });
    let failed = || overdue(Obligation { disposition: Some(Disposition::Failed), ..question() });
    let several = || overdue(obligation(Policy::MayRespond, Reason::RoleMention));
    let offered = Claim::offered(Some(agent(2)), NOW - 10);
    let without = || EscalationFacts { target: None, ..reminded().escalation.unwrap() };
    let author = || Some(EscalationTarget { principal: person(), handle: "carl".into() });
    for (what, facts, expected) in [
        ("gone", OverdueFacts { is_present: false, ..reminded() }, "dispose ignored"),
        (
            "a person holds it",
            OverdueFacts { claim: Some((held_by(person()), None)), ..reminded() },
            "reschedule +30000",
        ),
        ("blocked", OverdueFacts { is_blocked: true, ..overdue(question()) }, "reschedule +1000"),
        (
            "no knocks",
            OverdueFacts { abilities: Abilities::WITHOUT_KNOCKS, ..reminded() },
            "reschedule +1000, escalate",
        ),
        ("nobody to tell", OverdueFacts { escalation: Some(without()), ..reminded() }, "redeliver open"),
        (
            "only the author to tell",
            OverdueFacts {
                escalation: Some(EscalationFacts { author: author(), ..without() }),
                ..reminded()
            },
            "redeliver open, escalate",
        ),
        (
            "others may take it",
            OverdueFacts { claim: Some((offered, Some(NOW + 5))), ..several() },
            "reschedule +6",
        ),
        (
            "it waits for other work",
            OverdueFacts { queued_until: Some(NOW + 1), ..reminded() },
            "reschedule +30000",
        ),
        (
            "it waited for the longest task",
            OverdueFacts { queued_until: Some(NOW), ..reminded() },
            "redeliver open, escalate",
        ),
        ("nobody answered a role", several(), "dispose ignored, escalate"),
        (
            "others have the request before them",
            OverdueFacts { escalation: None, ..several() },
            "dispose ignored",
        ),
        ("a failed envelope", OverdueFacts { is_direct: true, ..failed() }, "unschedule"),
        ("failed and gone", OverdueFacts { is_present: false, ..failed() }, "unschedule"),
        ("an envelope", OverdueFacts { is_direct: true, ..overdue(question()) }, "reschedule +1000"),
        ("a late envelope", OverdueFacts { is_direct: true, ..reminded() }, "reschedule +1000"),
    ] {
        assert_eq!(planned(&Facts::Overdue(Box::new(facts))), expected, "{what}");
    }
}

fn asked(n: u8, given: Option<Obligation>, abilities: Abilities) -> AskedAgent {
    let responder = ResponderFacts { address: n.to_string(), is_available: true, load: 0, active_at_ms: 0 };
    let given = given.into_iter().collect();
    AskedAgent {
        agent: agent(n),
        given,
        abilities,
        is_blocked: false,
        gave_back: false,
        responder: Some(responder),
    }
}

fn reoffer(claim: Claim, first: Option<AskedAgent>, others: Vec<AskedAgent>) -> ReofferFacts {
    let open = OpenFacts {
        first: obligation(Policy::MayRespond, Reason::RoleMention),
        first_is_last: true,
        asked: others,
        reason: Reason::RoleMention,
    };
    ReofferFacts {
        conversation: conversation(),
        event: event(1),
        claim,
        expired: None,
        is_there: true,
        first,
        open: Some(open),
    }
}

#[test]
fn due_claims() {
    let role = || obligation(Policy::MayRespond, Reason::RoleMention);
    let with = |disposition| Some(Obligation { disposition: Some(disposition), ..role() });
    let to_one = Claim::offered(Some(agent(1)), NOW - 10);
    let to_all = Claim::offered(None, NOW - 10);
    let asked_since = || Some(Obligation { sent_at: NOW, ..role() });
    let bare = Abilities::WITHOUT_KNOCKS;
    let resolved = held_by(agent(2)).apply(NOW - 5, agent(2).into(), Request::Resolve).unwrap();
    for (what, claim, first, others, expected) in [
        ("held", held_by(agent(2)), None, vec![], "claim held"),
        ("resolved", resolved, None, vec![asked(3, None, KNOCKS)], "claim resolved"),
        (
            "the first has it",
            to_one,
            Some(asked(1, Some(role()), KNOCKS)),
            vec![],
            "claim offered, redeliver open",
        ),
        (
            "the first waits",
            to_one,
            Some(asked(1, with(Disposition::Deferred), KNOCKS)),
            vec![],
            "claim offered",
        ),
        (
            "the first let it pass",
            to_one,
            Some(asked(1, with(Disposition::Ignored), KNOCKS)),
            vec![asked(3, None, KNOCKS)],
            "claim offered, deliver notify",
        ),
        (
            "two are knocked",
            to_all,
            None,
            vec![asked(4, None, KNOCKS), asked(3, None, KNOCKS)],
            "claim offered, deliver notify, deliver notify",
        ),
        (
            "one is shown it",
            to_all,
            None,
            vec![asked(4, None, bare), asked(3, None, bare)],
            "claim held, deliver buffered and claim",
        ),
        ("asked since", to_all, None, vec![asked(3, asked_since(), KNOCKS)], "claim offered"),
        (
            "gave it back",
            to_all,
            None,
            vec![AskedAgent { gave_back: true, ..asked(3, Some(role()), KNOCKS) }],
            "claim offered",
        ),
        (
            "blocks the author",
            to_all,
            None,
            vec![AskedAgent { is_blocked: true, ..asked(3, None, KNOCKS) }],
            "claim offered",
        ),
    ] {
        let facts = reoffer(claim, first, others);
        assert_eq!(planned(&Facts::Reoffer(Box::new(facts))), expected, "{what}");
    }
}

#[test]
fn a_request_that_no_longer_waits_is_offered_to_nobody() {
    let to_all = Claim::offered(None, NOW - 10);
    for (disposition, reason, is_last, expected) in [
        (Some(Disposition::Responded), Reason::RoleMention, true, "claim offered"),
        (Some(Disposition::Superseded), Reason::RoleMention, true, "claim offered"),
        (Some(Disposition::Superseded), Reason::RoleMention, false, "claim offered, deliver notify"),
        (None, Reason::ThreadParticipation, true, "claim offered"),
        (Some(Disposition::Ignored), Reason::RoleMention, true, "claim offered, deliver notify"),
    ] {
        let mut facts = reoffer(to_all, None, vec![asked(3, None, KNOCKS)]);
        if let Some(open) = &mut facts.open {
            open.first = Obligation { disposition, ..obligation(Policy::MayRespond, reason) };
            open.first_is_last = is_last;
        }
        assert_eq!(planned(&Facts::Reoffer(Box::new(facts))), expected, "{disposition:?} {reason}");
    }
}

#[test]
fn a_claim_that_ran_out_reopens_what_its_holder_was_given() {
    let take = Request::Take { ttl_ms: Some(10_000) };
    let ran_out = Claim::offered(None, NOW - 20_000).apply(NOW - 20_000, agent(1).into(), take).unwrap();
    assert_eq!(ReofferFacts::expired_holder(ran_out, NOW), Some(agent(1)));
    let claimed = Obligation {
        disposition: Some(Disposition::Claimed),
        ..obligation(Policy::MayRespond, Reason::RoleMention)
    };
    let facts = ReofferFacts { expired: Some(claimed), open: None, ..reoffer(ran_out, None, vec![]) };
    assert_eq!(planned(&Facts::Reoffer(Box::new(facts))), "claim expired, dispose open");
}
