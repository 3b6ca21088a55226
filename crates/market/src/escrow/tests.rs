use super::*;
use uuid::Uuid;

fn credits(text: &str) -> Credits {
    Credits::parse(text).unwrap()
}

fn terms(payer: u128, payee: u128) -> Terms {
    Terms {
        job: JobId(Uuid::from_u128(9)),
        payer: WalletId(Uuid::from_u128(payer)),
        payee: WalletId(Uuid::from_u128(payee)),
        budget: credits("0.15"),
        price: credits("0.10"),
    }
}

fn moved(settlement: &Settlement) -> Vec<(MovementKind, String)> {
    settlement.movements.iter().map(|moved| (moved.kind, moved.amount.to_string())).collect()
}

/// The job of the market document: budget 0.15, cost 0.10.
#[test]
fn every_end_of_a_job() {
    use MovementKind::{Refund, Settle};
    for (verdict, status, paid, outcome, movements) in [
        (
            Verdict::Done(Some(credits("0.10"))),
            JobStatus::Success,
            "0.10",
            Some(Outcome::Success),
            vec![(Settle, "0.10"), (Refund, "0.05")],
        ),
        // Without a cost the skill's price applies, zero is allowed, and a cost above the budget is cut to it.
        (
            Verdict::Done(None),
            JobStatus::Success,
            "0.10",
            Some(Outcome::Success),
            vec![(Settle, "0.10"), (Refund, "0.05")],
        ),
        (
            Verdict::Done(Some(Credits::ZERO)),
            JobStatus::Success,
            "0.00",
            Some(Outcome::Success),
            vec![(Refund, "0.15")],
        ),
        (
            Verdict::Done(Some(credits("9"))),
            JobStatus::Success,
            "0.15",
            Some(Outcome::Success),
            vec![(Settle, "0.15")],
        ),
        (Verdict::Failed, JobStatus::Failure, "0.00", Some(Outcome::Failure), vec![(Refund, "0.15")]),
        (Verdict::BrokenOutput, JobStatus::Failure, "0.00", Some(Outcome::Failure), vec![(Refund, "0.15")]),
        (Verdict::Overdue, JobStatus::Failure, "0.00", Some(Outcome::Failure), vec![(Refund, "0.15")]),
        (Verdict::Declined, JobStatus::Rejected, "0.00", Some(Outcome::Declined), vec![(Refund, "0.15")]),
        (Verdict::Cancelled, JobStatus::Failure, "0.00", None, vec![(Refund, "0.15")]),
        (Verdict::AgentGone, JobStatus::Failure, "0.00", None, vec![(Refund, "0.15")]),
    ] {
        let settlement = settle(&terms(1, 2), verdict);
        assert_eq!(settlement.status, status, "{verdict:?}");
        assert_eq!((settlement.paid, settlement.outcome), (credits(paid), outcome), "{verdict:?}");
        let movements: Vec<_> =
            movements.into_iter().map(|(kind, amount)| (kind, amount.to_owned())).collect();
        assert_eq!(moved(&settlement), movements, "{verdict:?}");
    }
}

#[test]
fn hiring_oneself_moves_all_that_was_held() {
    for verdict in [Verdict::Done(None), Verdict::Failed, Verdict::Declined, Verdict::Overdue] {
        let settlement = settle(&terms(1, 1), verdict);
        let total: i64 = settlement.movements.iter().map(|moved| moved.amount.hundredths()).sum();
        assert_eq!(total, 15, "{verdict:?}");
    }
}

#[test]
fn a_budget_covers_the_price_or_says_what_it_is() {
    assert_eq!(check_budget(credits("0.10"), credits("0.10")), Ok(()));
    let short = check_budget(credits("0.09"), credits("0.10")).unwrap_err();
    assert_eq!(short.to_string(), "the budget is 0.09 credits, the agent asks 0.10");
}
