use super::*;
use crate::reputation::{Outcome, account};
use chorus_protocol::market::Reputation;
use proptest::prelude::*;

/// Returns a job between strangers that was handed over at 0 with a minute left.
fn fair() -> JobFacts {
    JobFacts {
        is_own: false,
        price: LEAST_PRICE,
        handed_at: Some(0),
        deadline_at: 60_000,
        skill_time_ms: LEAST_TIME_MS,
        excuse: None,
        paid_both_ways: false,
        counted_today: 0,
        declined_today: 0,
        is_declined: false,
    }
}

#[test]
fn each_reason_not_to_count() {
    use UncountedReason::*;
    let price = |hundredths| Credits::from_hundredths(hundredths).unwrap();
    for (facts, reason) in [
        (fair(), None),
        (JobFacts { is_own: true, ..fair() }, Some(OwnAgent)),
        (JobFacts { price: price(9), ..fair() }, Some(LowPrice)),
        (JobFacts { price: price(0), ..fair() }, Some(LowPrice)),
        (JobFacts { excuse: Some(HubDown), ..fair() }, Some(HubDown)),
        (JobFacts { excuse: Some(CutOff), handed_at: None, ..fair() }, Some(CutOff)),
        (JobFacts { handed_at: None, ..fair() }, Some(NotHanded)),
        (JobFacts { handed_at: Some(30_000), ..fair() }, None),
        (JobFacts { handed_at: Some(32_000), ..fair() }, None),
        (JobFacts { handed_at: Some(32_001), ..fair() }, Some(ShortTime)),
        (JobFacts { skill_time_ms: 62_001, ..fair() }, Some(ShortTime)),
        (JobFacts { deadline_at: 1000, ..fair() }, Some(ShortTime)),
        (JobFacts { paid_both_ways: true, ..fair() }, Some(PaidBothWays)),
        (JobFacts { counted_today: 4, ..fair() }, None),
        (JobFacts { counted_today: 5, ..fair() }, Some(DailyLimit)),
        (JobFacts { is_declined: true, ..fair() }, Some(Declined)),
        // A decline that could not have counted anyway is not held against the agent.
        (JobFacts { is_declined: true, handed_at: Some(59_000), ..fair() }, Some(ShortTime)),
        (JobFacts { is_declined: true, counted_today: 5, ..fair() }, Some(Declined)),
        (JobFacts { is_declined: true, declined_today: 5, ..fair() }, Some(DailyLimit)),
        (JobFacts { declined_today: 5, ..fair() }, None),
        (JobFacts { excuse: Some(Declined), handed_at: None, ..fair() }, Some(Declined)),
        (JobFacts { excuse: Some(Declined), declined_today: 5, ..fair() }, Some(DailyLimit)),
    ] {
        assert_eq!(uncounted_reason(&facts), reason, "{facts:?}");
    }
}

#[test]
fn declining_is_free_within_the_skills_own_time() {
    for (handed_at, own_time, now, may) in [
        (None, 30_000, 1_000_000, true),
        (Some(1000), 30_000, 31_000, true),
        (Some(1000), 30_000, 31_001, false),
        (Some(1000), 600_000, 601_000, true),
    ] {
        assert_eq!(may_decline(handed_at, own_time, now), may, "{handed_at:?} {own_time} {now}");
    }
    assert_eq!(skill_time_ms(None), 30_000);
    assert_eq!(skill_time_ms(Some(1000)), 30_000);
    assert_eq!(skill_time_ms(Some(600_000)), 600_000);
}

/// A job or a transfer between two owners, in a market with one agent each.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// One owner's agent is hired by the other owner.
    Job {
        to_first: bool,
        done: bool,
        price: i64,
    },
    Transfer {
        to_first: bool,
    },
}

fn acts() -> impl Strategy<Value = Vec<(i64, Act)>> {
    let act = prop_oneof![
        4 => (any::<bool>(), any::<bool>(), 0..30_i64)
            .prop_map(|(to_first, done, price)| Act::Job { to_first, done, price }),
        1 => any::<bool>().prop_map(|to_first| Act::Transfer { to_first }),
    ];
    proptest::collection::vec((0..DAY_MS, act), 0..200)
}

/// Plays the acts of two owners. Returns the score of each owner's agent after each act, with the time.
fn play(acts: &[(i64, Act)]) -> Vec<(i64, [Reputation; 2])> {
    let mut scores = [Reputation::NEUTRAL; 2];
    let (mut payments, mut counted) = (vec![], vec![]);
    let (mut now, mut played) = (0, vec![]);
    for (pause, act) in acts {
        now += pause;
        match *act {
            Act::Transfer { to_first } => payments.push((now, to_first)),
            Act::Job { to_first, done, price } => {
                let worker = usize::from(!to_first);
                let since = |period: i64| move |at: i64| at > now - period;
                let facts = JobFacts {
                    price: Credits::from_hundredths(price).unwrap(),
                    handed_at: Some(now),
                    deadline_at: now + 300_000,
                    paid_both_ways: {
                        let paid = |to: bool| {
                            payments.iter().any(|(at, first)| *first == to && since(PARTNERS_MS)(*at))
                        };
                        paid(!to_first) && (paid(to_first) || (done && price > 0))
                    },
                    counted_today: counted
                        .iter()
                        .filter(|(at, who)| *who == worker && since(DAY_MS)(*at))
                        .count() as i64,
                    ..fair()
                };
                let outcome = if done { Outcome::Success } else { Outcome::Failure };
                let change = account(scores[worker], outcome, Some(scores[1 - worker]), &facts);
                scores[worker] = change.new;
                if change.not_counted.is_none() {
                    counted.push((now, worker));
                }
                if done && price > 0 {
                    payments.push((now, to_first));
                }
            }
        }
        played.push((now, scores));
    }
    played
}

proptest! {
    #[test]
    fn owners_that_pay_each_other_move_nothing(acts in acts()) {
        // Both pay at the beginning, and again before either payment expires.
        let both = [(0, Act::Transfer { to_first: true }), (0, Act::Transfer { to_first: false })];
        let acts: Vec<_> = acts.chunks(20).flat_map(|some| both.iter().chain(some)).copied().collect();
        for (_, scores) in play(&acts) {
            prop_assert_eq!(scores, [Reputation::NEUTRAL; 2]);
        }
    }

    #[test]
    fn five_jobs_a_day_move_a_score_by_so_much(acts in acts()) {
        let played = play(&acts);
        for (n, (begin, before)) in played.iter().enumerate() {
            for (_, after) in played[n..].iter().take_while(|(at, _)| at - begin < DAY_MS) {
                for who in 0..2 {
                    let moved = after[who].ten_thousandths() - before[who].ten_thousandths();
                    prop_assert!((-5 * 45_000..=5 * 20_000).contains(&moved), "{moved}");
                }
            }
        }
    }

    /// Nothing that decides whether a job counts depends on its outcome.
    #[test]
    fn whatever_raises_a_score_could_have_lowered_it(
        price in 0..30_i64, left in 0..100_000_i64, own_time in 30_000..60_000_i64, counted_today in 0..8_i64,
        is_own in any::<bool>(), paid_both_ways in any::<bool>(), was_handed in any::<bool>(),
    ) {
        let facts = JobFacts {
            is_own, paid_both_ways, counted_today, price: Credits::from_hundredths(price).unwrap(),
            handed_at: was_handed.then_some(0), deadline_at: left, skill_time_ms: own_time, ..fair()
        };
        let after = |outcome| account(Reputation::NEUTRAL, outcome, None, &facts);
        let (done, failed) = (after(Outcome::Success), after(Outcome::Failure));
        prop_assert_eq!(done.not_counted, failed.not_counted);
        prop_assert_eq!(done.new > Reputation::NEUTRAL, failed.new < Reputation::NEUTRAL);
        prop_assert_eq!(after(Outcome::Declined).new, Reputation::NEUTRAL);
    }
}
