use super::*;
use proptest::prelude::*;

fn score(text: &str) -> Reputation {
    Reputation::parse(text).unwrap()
}

/// The expected values were calculated by hand from the document's formula.
#[test]
fn the_documents_figures_to_four_decimals() {
    for (old, outcome, contractor, new) in [
        ("50.0", Outcome::Success, Some("50.0"), "51.0000"),
        ("50.0", Outcome::Success, None, "51.0000"),
        ("50.0", Outcome::Success, Some("92.3"), "51.8460"),
        ("50.0", Outcome::Success, Some("87.5"), "51.7500"),
        ("50.0", Outcome::Success, Some("100"), "52.0000"),
        ("50.0", Outcome::Success, Some("0"), "50.0000"),
        ("50.0", Outcome::Failure, Some("92.3"), "45.5000"),
        ("87.5", Outcome::Failure, None, "83.0000"),
        ("51.8460", Outcome::Success, Some("51.8460"), "52.8829"),
        // 0.0025 × 2 / 100 is exactly half a step and is rounded up; anything below is rounded down.
        ("50.0", Outcome::Success, Some("0.0025"), "50.0001"),
        ("50.0", Outcome::Success, Some("0.0024"), "50.0000"),
        ("99.5", Outcome::Success, Some("50"), "100.0000"),
        ("4.4999", Outcome::Failure, None, "0.0000"),
        ("4.5", Outcome::Failure, None, "0.0000"),
        ("0", Outcome::Failure, None, "0.0000"),
        ("100", Outcome::Success, Some("100"), "100.0000"),
    ] {
        let change = change(score(old), outcome, contractor.map(score));
        assert_eq!(change.new.to_string(), new, "{}", change.arithmetic);
    }
}

#[test]
fn each_step_is_explained() {
    let line = |old, outcome, contractor| change(score(old), outcome, Some(score(contractor))).arithmetic;
    assert_eq!(line("50", Outcome::Success, "92.3"), "50.0000 + 2.0 × 92.3000 / 100 = 51.8460");
    assert_eq!(line("50", Outcome::Failure, "92.3"), "50.0000 - 3.0 × 1.5 = 45.5000");
    assert_eq!(
        line("99.5", Outcome::Success, "50"),
        "99.5000 + 2.0 × 50.0000 / 100 = 100.0000, kept from 0 to 100"
    );
}

proptest! {
    #[test]
    fn a_score_stays_in_its_range_and_moves_the_right_way(
        old in 0..=1_000_000_i64, contractor in 0..=1_000_000_i64, done in any::<bool>()
    ) {
        let (old, contractor) = (Reputation::clamped(old), Reputation::clamped(contractor));
        let outcome = if done { Outcome::Success } else { Outcome::Failure };
        let change = change(old, outcome, Some(contractor));
        prop_assert!((Reputation::MIN..=Reputation::MAX).contains(&change.new));
        let step = change.new.ten_thousandths() - old.ten_thousandths();
        match outcome {
            Outcome::Success => prop_assert!((0..=20_000).contains(&step)),
            Outcome::Failure => prop_assert!((-45_000..=0).contains(&step)),
            Outcome::Declined => prop_assert_eq!(step, 0),
        }
    }

    #[test]
    fn a_better_contractor_never_gives_less(old in 0..=1_000_000_i64, one in 0..=1_000_000_i64, other in 0..=1_000_000_i64) {
        let after = |contractor| {
            change(Reputation::clamped(old), Outcome::Success, Some(Reputation::clamped(contractor))).new
        };
        prop_assert!(after(one.min(other)) <= after(one.max(other)));
    }
}
