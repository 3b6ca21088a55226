//! Tests for the authority to stop.

use super::*;
use crate::claims::Request;
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{AccountId, ConversationId, DeliveryId};
use chorus_protocol::words::{ClaimState, Directedness, Mode, Priority};

const NOW: i64 = 1_000_000;

fn agent(n: u8) -> AgentId {
    AgentId::from_slice(&[n; 16]).unwrap()
}

fn person(n: u8) -> Principal {
    AccountId::from_slice(&[n; 16]).unwrap().into()
}

fn work(asker: Principal, policy: Policy, reason: Reason, disposition: Option<Disposition>) -> Work {
    let obligation = Obligation {
        id: DeliveryId { agent: agent(1), seq: 5 },
        event: EventId::from_slice(&[7; 16]).unwrap(),
        conversation: ConversationId::from_slice(&[8; 16]).unwrap(),
        attention: Attention {
            directedness: Directedness::ToMe,
            policy,
            mode: Mode::Buffered,
            reason,
            priority: Priority::Normal,
            deadline_ms: Some(1_000),
        },
        sent_at: NOW - 1_000,
        sent: 1,
        mentions: String::new(),
        supersedes: None,
        acked: true,
        waits: false,
        connected: true,
        injected_at: None,
        reminded_at: None,
        escalated_at: None,
        disposition,
        until_at: None,
        next_at: Some(NOW),
    };
    let thread = obligation.event;
    Work { obligation, handle: "ann".into(), asker, thread, is_led: false, is_owned: false, claim: None }
}

fn asked_by(asker: Principal) -> Work {
    work(asker, Policy::MustRespond, Reason::DirectMention, None)
}

fn stop(by: Principal, work: Work) -> StopFacts {
    StopFacts { by, name: "alice".into(), work: vec![work] }
}

#[test]
fn who_may_stop_what() {
    let (alice, carl, other) = (person(90), person(91), Principal::from(agent(2)));
    let led = |work| Work { is_led: true, ..work };
    let owned = |work| Work { is_owned: true, ..work };
    for (what, by, work, may) in [
        ("the asker", alice, asked_by(alice), true),
        ("another person", carl, asked_by(alice), false),
        ("a lead or owner of the channel", carl, led(asked_by(alice)), true),
        ("the agent's owner", carl, owned(asked_by(alice)), true),
        ("the agent that asked", other, asked_by(other), true),
        ("another agent", other, asked_by(alice), false),
        ("an agent that leads", other, led(asked_by(alice)), false),
        ("the agent itself", agent(1).into(), led(asked_by(alice)), false),
        ("an agent's owner, of what another agent asked", carl, owned(asked_by(other)), true),
    ] {
        let planned = plan(&stop(by, work), NOW);
        assert_eq!(planned.is_ok(), may, "{what}");
        assert!(may || planned == Err(PlanRefusal::MayNotStop), "{what}");
    }
    let nothing = StopFacts { by: carl, name: "carl".into(), work: vec![] };
    assert_eq!(plan(&nothing, NOW), Ok(vec![]));
}

#[test]
fn what_counts_as_work() {
    use Disposition::{Claimed, Deferred, Ignored, Responded};
    for (policy, reason, disposition, expected) in [
        (Policy::MustRespond, Reason::DirectMention, None, true),
        (Policy::MustRespond, Reason::DirectMention, Some(Deferred), true),
        (Policy::MustRespond, Reason::DirectMention, Some(Responded), false),
        (Policy::MayRespond, Reason::RoleMention, None, true),
        (Policy::MayRespond, Reason::RoleMention, Some(Ignored), false),
        (Policy::MayRespond, Reason::ThreadParticipation, Some(Claimed), true),
        (Policy::MayRespond, Reason::ThreadParticipation, None, false),
        (Policy::AckOnly, Reason::Thanks, None, false),
    ] {
        let work = work(person(90), policy, reason, disposition);
        assert_eq!(Work::is_work(&work.obligation), expected, "{policy} {reason} {disposition:?}");
    }
}

/// Stopped work ends as superseded, with the name of who stopped it, and is offered to nobody else.
#[test]
fn what_is_stopped_ends() {
    let alice = person(90);
    let take = Request::Take { ttl_ms: None };
    let held_by =
        |agent: AgentId| Claim::offered(Some(agent), NOW - 10).apply(NOW - 10, agent.into(), take).unwrap();
    for (claim, expected) in [
        (None, None),
        (Some(held_by(agent(1))), Some(Some(ClaimState::Released))),
        (Some(Claim::offered(Some(agent(1)), NOW)), Some(None)),
        (Some(held_by(agent(3))), None),
    ] {
        let work = Work {
            claim,
            ..work(alice, Policy::MayRespond, Reason::RoleMention, Some(Disposition::Claimed))
        };
        let mut effects = plan(&stop(alice, work), NOW).unwrap().into_iter();
        let Some(Effect::Stop { work, reason }) = effects.next() else { panic!("nothing is stopped") };
        let obligation = work.obligation;
        assert_eq!((obligation.disposition, obligation.next_at), (Some(Disposition::Superseded), None));
        assert_eq!(reason, "alice stopped it");
        let saved = effects.next().map(|effect| match effect {
            Effect::SaveClaim { claim, next_at: None, .. } => {
                assert_eq!((claim.first, claim.holder(NOW)), (None, None));
                claim.held.map(|held| held.state)
            }
            other => panic!("{other:?}"),
        });
        assert_eq!(saved, expected);
    }
}
