use super::*;
use crate::disposition::{Cause, next};
use proptest::prelude::*;

fn pending(policy: Policy) -> Pending {
    Pending {
        policy,
        since_ms: 0,
        deadline_ms: Some(300_000),
        attempt: 1,
        sent_at_ms: 0,
        acked: true,
        connected: true,
        stage: Stage::InTime,
        disposition: None,
        until_ms: 0,
    }
}

/// Returns the steps and their times if nobody ever acts.
fn course(mut pending: Pending) -> Vec<(Step, i64)> {
    let mut course = vec![];
    while let Some((step, at_ms)) = pending.next_step() {
        course.push((step, at_ms));
        pending = pending.after(step, at_ms);
        assert!(course.len() < 1_000, "no end in sight: {pending:?}");
    }
    course
}

#[test]
fn an_obligation_that_nobody_meets() {
    let expected =
        [(Step::Remind, 300_000), (Step::Escalate, 600_000), (Step::End(Disposition::Ignored), 900_000)];
    assert_eq!(course(pending(Policy::MustRespond)), expected);
    // As long again, and five minutes at most.
    let short = Pending { deadline_ms: Some(20_000), ..pending(Policy::MustRespond) };
    let expected =
        [(Step::Remind, 20_000), (Step::Escalate, 40_000), (Step::End(Disposition::Ignored), 60_000)];
    assert_eq!(course(short), expected);
    let long = Pending { deadline_ms: Some(7_200_000), ..pending(Policy::MustRespond) };
    assert_eq!(course(long)[1], (Step::Escalate, 7_500_000));
}

#[test]
fn what_obliges_nobody_ends_at_its_deadline() {
    for policy in [Policy::MayRespond, Policy::AckOnly] {
        assert_eq!(course(pending(policy)), [(Step::End(Disposition::Ignored), 300_000)]);
    }
    assert_eq!(course(pending(Policy::MustNotRespond)), [(Step::End(Disposition::Ignored), 0)]);
}

#[test]
fn what_failed_is_told_at_once_and_once() {
    let failed = Pending { disposition: Some(Disposition::Failed), ..pending(Policy::MustRespond) };
    assert_eq!(course(failed), [(Step::Escalate, 0)]);
    assert_eq!(failed.after(Step::Escalate, 7).disposition, Some(Disposition::Failed));
    // It was told of when its deadline passed.
    assert_eq!(course(Pending { stage: Stage::Escalated(1), ..failed }), []);
    assert_eq!(course(Pending { policy: Policy::MayRespond, ..failed }), []);
}

#[test]
fn what_no_harness_takes_is_sent_again() {
    let untaken = Pending { acked: false, ..pending(Policy::MayRespond) };
    let course_of_it = course(untaken);
    let times: Vec<_> = course_of_it.iter().take(6).map(|(_, at_ms)| *at_ms).collect();
    assert_eq!(times, [30_000, 90_000, 210_000, 450_000, 750_000, 1_050_000]);
    assert_eq!(course_of_it.last(), Some(&(Step::End(Disposition::Failed), UNDELIVERED_MS)));
    // Nobody is there to send it to.
    let away = Pending { connected: false, ..untaken };
    assert_eq!(course(away), [(Step::End(Disposition::Failed), UNDELIVERED_MS)]);
    // An obligation is reminded of and escalated all the same.
    let steps = course(Pending { policy: Policy::MustRespond, ..away });
    let expected = [
        (Step::Remind, 300_000),
        (Step::Escalate, 600_000),
        (Step::End(Disposition::Failed), UNDELIVERED_MS),
    ];
    assert_eq!(steps, expected);
}

#[test]
fn what_is_late_twice_is_sent_once() {
    let untaken = Pending { acked: false, ..pending(Policy::MustRespond) };
    let (step, _) = untaken.next_step().unwrap();
    let sent = untaken.after(step, 400_000);
    assert_eq!((sent.attempt, sent.stage), (2, Stage::Reminded(400_000)));
    assert_eq!(sent.next_step(), Some((Step::Redeliver, 460_000)));
}

#[test]
fn a_claim_or_deferral_that_ends_opens_it_again() {
    for disposition in [Disposition::Claimed, Disposition::Deferred] {
        let held =
            Pending { disposition: Some(disposition), until_ms: 1_000_000, ..pending(Policy::MustRespond) };
        assert_eq!(held.next_step(), Some((Step::Reopen, 1_000_000)));
        let open = held.after(Step::Reopen, 1_000_000);
        assert_eq!((open.disposition, open.attempt), (None, 2));
        assert_eq!(open.next_step(), Some((Step::Redeliver, 1_060_000)));
    }
}

#[test]
fn whom_it_is_escalated_to() {
    for (is_escalation, lead, owner, expected) in [
        (false, Some("lead"), Some("owner"), Some("lead")),
        (false, None, Some("owner"), Some("owner")),
        (false, Some("me"), Some("owner"), Some("owner")),
        (false, Some("me"), Some("me"), None),
        (false, None, None, None),
        // From the lead to the owner, and never back.
        (true, Some("me"), Some("owner"), Some("owner")),
        (true, Some("lead"), Some("me"), None),
        (true, Some("lead"), Some("owner"), None),
        (true, None, Some("owner"), None),
    ] {
        assert_eq!(escalate_to(&"me", is_escalation, lead, owner), expected);
    }
    let attention = downgraded(escalation());
    assert_eq!((attention.policy, attention.reason), (Policy::MayRespond, Reason::Stale));
}

prop_compose! {
    fn any_pending()(
        policy in prop::sample::select(Policy::ALL),
        since_ms in 0i64..1_000_000,
        deadline_ms in prop::option::of(1_000i64..=86_400_000),
        (attempt, sent, until) in (1u32..100, 0i64..1_000_000, 0i64..90_000_000),
        (acked, connected) in any::<(bool, bool)>(),
        stage in 0u8..3,
        disposition in prop::option::of(prop::sample::select(Disposition::ALL)),
    ) -> Pending {
        let stage = match stage {
            0 => Stage::InTime,
            1 => Stage::Reminded(since_ms + 1_000),
            _ => Stage::Escalated(since_ms + 2_000),
        };
        let sent_at_ms = since_ms + sent;
        let until_ms = since_ms + until;
        Pending { policy, since_ms, deadline_ms, attempt, sent_at_ms, acked, connected, stage, disposition, until_ms }
    }
}

/// Returns `true` for an event that has ended and, if it failed, was told of.
fn is_over(pending: &Pending) -> bool {
    let is_untold = pending.disposition == Some(Disposition::Failed)
        && pending.policy == Policy::MustRespond
        && !matches!(pending.stage, Stage::Escalated(_));
    pending.disposition.is_some_and(is_final) && !is_untold
}

proptest! {
    /// No event is forgotten: whatever its state, it is done with or somebody will look at it again, and in the end
    /// it is.
    #[test]
    fn every_event_comes_to_an_end(start in any_pending()) {
        let mut pending = start;
        let mut now_ms = start.since_ms;
        let mut escalated = 0;
        for _ in 0..1_000 {
            let Some((step, at_ms)) = pending.next_step() else { break };
            prop_assert!(!is_over(&pending));
            now_ms = now_ms.max(at_ms);
            escalated += u32::from(step == Step::Escalate);
            pending = pending.after(step, now_ms);
        }
        prop_assert!(pending.disposition.is_some_and(is_final), "{:?}", pending);
        // Nobody hears of it twice, and nobody but for what had to be answered.
        prop_assert!(escalated <= u32::from(start.policy == Policy::MustRespond));
    }

    /// The same when the agent does one thing or another in between.
    #[test]
    fn whatever_its_agent_does(start in any_pending(), acts in prop::collection::vec((0i64..600_000, 0usize..9), 0..8)) {
        let causes = [
            Cause::Acked, Cause::Replied, Cause::KeptSilent, Cause::Claimed, Cause::Deferred, Cause::ClaimEnded,
            Cause::DeferralEnded, Cause::Edited, Cause::Failed,
        ];
        let mut pending = start;
        let mut now_ms = start.since_ms;
        for (passed, which) in acts {
            now_ms += passed;
            pending.acked |= causes[which] == Cause::Acked;
            if let Ok(disposition) = next(pending.policy, pending.disposition, causes[which]) {
                pending.disposition = disposition;
                pending.until_ms = now_ms + 300_000;
            }
            prop_assert_eq!(pending.next_step().is_none(), is_over(&pending));
        }
        prop_assert!(course(pending).len() < 1_000);
    }
}
