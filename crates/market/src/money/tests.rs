use super::*;
use crate::escrow::{Terms, Verdict, settle};
use proptest::prelude::*;
use std::collections::HashMap;
use uuid::Uuid;

fn wallet(number: u128) -> WalletId {
    WalletId(Uuid::from_u128(number))
}

fn credits(hundredths: i64) -> Credits {
    Credits::from_hundredths(hundredths).unwrap()
}

#[test]
fn what_moves_and_what_does_not() {
    let (one, other) = (Wallet { id: wallet(1), balance: credits(15) }, wallet(2));
    let moved = transfer(one, other, credits(10)).unwrap();
    assert_eq!((moved.from, moved.to), (Purse::Wallet(one.id), Purse::Wallet(other)));
    assert_eq!(
        transfer(one, other, credits(16)),
        Err(Refused::Short { balance: credits(15), needed: credits(16) })
    );
    assert_eq!(transfer(one, other, Credits::ZERO), Err(Refused::Nothing));
    assert_eq!(transfer(one, one.id, credits(1)), Err(Refused::Same));
    assert_eq!(
        burn(one, credits(16)).unwrap_err(),
        Refused::Short { balance: credits(15), needed: credits(16) }
    );
    assert_eq!(mint(other, MAX_SUPPLY, credits(1)), Err(Refused::TooMany));
    assert!(mint(other, MAX_SUPPLY.minus(credits(1)), credits(1)).is_ok());
    let job = JobId(Uuid::from_u128(3));
    assert_eq!(hold(one, job, Credits::ZERO), Ok(None));
    assert!(hold(one, job, credits(16)).is_err());
    assert_eq!(hold(one, job, credits(15)).unwrap().unwrap().to, Purse::Hold(job));
}

/// The purses of a ledger.
#[derive(Debug, Default)]
struct World {
    purses: HashMap<Purse, i64>,
    issued: i64,
}

impl World {
    /// Applies movements; a refused one moves nothing.
    fn apply_all(&mut self, movements: impl IntoIterator<Item = Movement>) {
        for movement in movements {
            self.apply(movement);
        }
    }

    fn apply(&mut self, movement: Movement) {
        let amount = movement.amount.hundredths();
        assert!(amount > 0);
        for (purse, by) in [(movement.from, -amount), (movement.to, amount)] {
            match purse {
                Purse::Issue => self.issued -= by,
                purse => {
                    let held = self.purses.entry(purse).or_default();
                    *held += by;
                    assert!(*held >= 0, "{purse:?} is below nothing after {movement:?}");
                }
            }
        }
    }

    fn wallet(&self, id: WalletId) -> Wallet {
        let balance = self.purses.get(&Purse::Wallet(id)).copied().unwrap_or(0);
        Wallet { id, balance: credits(balance) }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Mint(u128, i64),
    Burn(u128, i64),
    Transfer(u128, u128, i64),
    Hire { payer: u128, payee: u128, budget: i64, price: i64 },
    End(usize, Verdict),
}

fn step() -> impl Strategy<Value = Step> {
    let (who, amount) = (0..4_u128, 0..2000_i64);
    let verdict = prop_oneof![
        proptest::option::of(0..3000_i64).prop_map(|cost| Verdict::Done(cost.map(credits))),
        Just(Verdict::Failed),
        Just(Verdict::BrokenOutput),
        Just(Verdict::Overdue),
        Just(Verdict::Cancelled),
        Just(Verdict::AgentGone),
    ];
    prop_oneof![
        (who.clone(), amount.clone()).prop_map(|(to, amount)| Step::Mint(to, amount)),
        (who.clone(), amount.clone()).prop_map(|(from, amount)| Step::Burn(from, amount)),
        (who.clone(), who.clone(), amount.clone())
            .prop_map(|(from, to, amount)| Step::Transfer(from, to, amount)),
        (who.clone(), who, amount.clone(), amount).prop_map(|(payer, payee, budget, price)| Step::Hire {
            payer,
            payee,
            budget,
            price
        }),
        (any::<prop::sample::Index>(), verdict)
            .prop_map(|(index, verdict)| Step::End(index.index(64), verdict)),
    ]
}

proptest! {
    /// Any sequence of steps conserves credits: only the operator creates or destroys them, no purse becomes
    /// negative, and the hold of a finished job is empty.
    #[test]
    fn credits_are_conserved(steps in proptest::collection::vec(step(), 1..80)) {
        let (mut world, mut open, mut jobs) = (World::default(), Vec::<Terms>::new(), 0_u128);
        for step in steps {
            match step {
                Step::Mint(to, amount) => {
                    let supply = credits(world.issued);
                    world.apply_all(mint(wallet(to), supply, credits(amount)));
                }
                Step::Burn(from, amount) => {
                    let from = world.wallet(wallet(from));
                    world.apply_all(burn(from, credits(amount)));
                }
                Step::Transfer(from, to, amount) => {
                    let from = world.wallet(wallet(from));
                    world.apply_all(transfer(from, wallet(to), credits(amount)));
                }
                Step::Hire { payer, payee, budget, price } => {
                    jobs += 1;
                    let (job, payer) = (JobId(Uuid::from_u128(jobs)), world.wallet(wallet(payer)));
                    let budget = credits(budget);
                    if let Ok(moved) = hold(payer, job, budget) {
                        world.apply_all(moved);
                        open.push(Terms { job, payer: payer.id, payee: wallet(payee), budget, price: credits(price) });
                    }
                }
                Step::End(index, verdict) => {
                    if open.is_empty() {
                        continue;
                    }
                    let terms = open.remove(index % open.len());
                    let settlement = settle(&terms, verdict);
                    prop_assert!(settlement.paid <= terms.budget);
                    world.apply_all(settlement.movements);
                    prop_assert_eq!(world.purses.get(&Purse::Hold(terms.job)).copied().unwrap_or(0), 0);
                }
            }
            prop_assert_eq!(world.purses.values().sum::<i64>(), world.issued);
        }
    }
}
