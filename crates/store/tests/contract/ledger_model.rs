//! The ledger against a model: after any sequence of steps with any repetitions, the store equals the model
//! and balances. A failure is shrunk to the shortest sequence.

use crate::market::{agreed, credits, finish, wallet};
use crate::support::{NOW, agent, read, write};
use chorus_market::escrow::Verdict;
use chorus_market::money;
use chorus_protocol::ids::{JobId, TraceId, TransferId, WalletId};
use chorus_protocol::market::Movement;
use chorus_store::market::jobs::{self, Agreed};
use chorus_store::market::ledger::{self, Cause, Sums, Transfer};
use chorus_store::market::wallets;
use chorus_store::{Store, StoreError, Tx};
use proptest::prelude::*;
use std::num::NonZeroU32;
use uuid::Uuid;

const WALLETS: usize = 3;

#[derive(Debug, Clone)]
enum Step {
    Mint(usize, i64),
    Burn(usize, i64),
    /// A transfer with one of a few ids, so that some repeat, with the same or other content.
    Transfer {
        id: u128,
        from: usize,
        to: usize,
        amount: i64,
    },
    Hire {
        id: u128,
        payer: usize,
        payee: usize,
        budget: i64,
        price: i64,
    },
    /// Ends a job once or twice.
    End {
        id: u128,
        verdict: Verdict,
        again: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let (who, amount, id) = (0..WALLETS, 0..300_i64, 1..6_u128);
    let verdict = prop_oneof![
        proptest::option::of(0..400_i64).prop_map(|cost| Verdict::Done(cost.map(credits))),
        Just(Verdict::Failed),
        Just(Verdict::Overdue),
        Just(Verdict::Cancelled),
    ];
    prop_oneof![
        (who.clone(), amount.clone()).prop_map(|(to, amount)| Step::Mint(to, amount)),
        (who.clone(), amount.clone()).prop_map(|(from, amount)| Step::Burn(from, amount)),
        (id.clone(), who.clone(), who.clone(), amount.clone())
            .prop_map(|(id, from, to, amount)| Step::Transfer { id, from, to, amount }),
        (id.clone(), who.clone(), who, amount.clone(), amount)
            .prop_map(|(id, payer, payee, budget, price)| Step::Hire { id, payer, payee, budget, price }),
        (id, verdict, any::<bool>()).prop_map(|(id, verdict, again)| Step::End { id, verdict, again }),
    ]
}

/// The expected state. It does not model movements.
#[derive(Debug, Default)]
struct Model {
    balances: [i64; WALLETS],
    minted: i64,
    burned: i64,
    transfers: Vec<u128>,
    /// Payer, payee, budget and price of each job, and whether it is open.
    jobs: Vec<(u128, usize, usize, i64, i64, bool)>,
}

impl Model {
    fn step(&mut self, step: &Step) {
        match *step {
            Step::Mint(to, amount) => {
                self.balances[to] += amount;
                self.minted += amount;
            }
            Step::Burn(from, amount) if self.balances[from] >= amount => {
                self.balances[from] -= amount;
                self.burned += amount;
            }
            Step::Transfer { id, from, to, amount }
                if !self.transfers.contains(&id)
                    && from != to
                    && amount > 0
                    && self.balances[from] >= amount =>
            {
                self.transfers.push(id);
                self.balances[from] -= amount;
                self.balances[to] += amount;
            }
            Step::Hire { id, payer, payee, budget, price }
                if self.jobs.iter().all(|job| job.0 != id) && self.balances[payer] >= budget =>
            {
                self.balances[payer] -= budget;
                self.jobs.push((id, payer, payee, budget, price, true));
            }
            Step::End { id, verdict, .. } => {
                let Some(job) = self.jobs.iter_mut().find(|job| job.0 == id && job.5) else { return };
                let (_, payer, payee, budget, price, _) = *job;
                job.5 = false;
                let paid = match verdict {
                    Verdict::Done(cost) => {
                        cost.map_or(price, chorus_protocol::market::Credits::hundredths).min(budget)
                    }
                    _ => 0,
                };
                self.balances[payee] += paid;
                self.balances[payer] += budget - paid;
            }
            Step::Burn(..) | Step::Transfer { .. } | Step::Hire { .. } => {}
        }
    }

    fn held(&self) -> i64 {
        self.jobs.iter().filter(|job| job.5).map(|job| job.3).sum()
    }
}

fn cause(job: Option<JobId>, transfer: Option<TransferId>) -> Cause {
    Cause { job, transfer, trace: TraceId(Uuid::from_u128(1)) }
}

fn purse(tx: &mut dyn Tx, id: WalletId) -> Result<money::Wallet, StoreError> {
    wallets::hold(tx, [id])?;
    let balance = wallets::by_id(tx, id)?.expect("it was made").balance;
    Ok(money::Wallet { id, balance })
}

fn apply(tx: &mut dyn Tx, moved: Result<Movement, money::Refused>, cause: Cause) -> Result<(), StoreError> {
    moved.map_or(Ok(()), |moved| ledger::apply(tx, &[moved], cause, NOW))
}

/// Performs the step on the store, as acts do.
fn act(tx: &mut dyn Tx, step: &Step, ids: &[WalletId], worker: &Agreed) -> Result<(), StoreError> {
    match *step {
        Step::Mint(to, amount) => {
            let minted = money::mint(ids[to], ledger::supply(tx)?, credits(amount));
            apply(tx, minted, cause(None, None))
        }
        Step::Burn(from, amount) => {
            let from = purse(tx, ids[from])?;
            apply(tx, money::burn(from, credits(amount)), cause(None, None))
        }
        Step::Transfer { id, from, to, amount } => {
            wallets::hold(tx, [ids[from], ids[to]])?;
            let id = TransferId(Uuid::from_u128(id));
            if ledger::transfer(tx, id)?.is_some() {
                return Ok(());
            }
            let payer = purse(tx, ids[from])?;
            let Ok(moved) = money::transfer(payer, ids[to], credits(amount)) else { return Ok(()) };
            let (from, to) = (ids[from], ids[to]);
            let new = Transfer { id, from, to, amount: moved.amount, job: None, created_at: NOW };
            assert!(ledger::insert_transfer(tx, &new, TraceId(Uuid::from_u128(1)))?);
            apply(tx, Ok(moved), cause(None, Some(id)))
        }
        Step::Hire { id, payer, payee, budget, price } => {
            let (job, payer) = (JobId(Uuid::from_u128(id)), purse(tx, ids[payer])?);
            let Ok(held) = money::hold(payer, job, credits(budget)) else { return Ok(()) };
            let (budget, price) = (credits(budget), credits(price));
            let new = Agreed { id: job, payer: payer.id, payee: ids[payee], budget, price, ..worker.clone() };
            if !jobs::insert(tx, &new)? {
                return Ok(());
            }
            ledger::apply(tx, held.as_slice(), cause(Some(job), None), NOW)
        }
        Step::End { id, verdict, again } => {
            for _ in 0..=usize::from(again) {
                if let Some(job) = jobs::by_id(tx, JobId(Uuid::from_u128(id)))? {
                    finish(tx, &job.agreed, verdict)?;
                }
            }
            Ok(())
        }
    }
}

/// Returns the balance from a wallet's rows. Asserts that each continues the previous one without a gap.
fn of_rows(tx: &mut dyn Tx, id: WalletId, owner: &str) -> Result<i64, StoreError> {
    let mut rows = ledger::of_wallet(tx, id, i64::MAX, 0, 1000)?;
    rows.reverse();
    let mut sum = 0;
    for (number, row) in (1..).zip(&rows) {
        let amount = row.amount.hundredths();
        sum += if row.credit.as_deref() == Some(owner) { amount } else { -amount };
        assert_eq!(
            (row.number, row.balance.map(chorus_protocol::market::Credits::hundredths)),
            (number, Some(sum)),
            "{row:?}"
        );
    }
    Ok(sum)
}

async fn check(store: &Store, model: &Model, ids: &[WalletId]) {
    for (n, id) in ids.iter().copied().enumerate() {
        let found = read(store, move |tx| {
            let balance = wallets::by_id(tx, id)?.expect("it was made").balance.hundredths();
            Ok((balance, of_rows(tx, id, &n.to_string())?))
        });
        assert_eq!(found.await, (model.balances[n], model.balances[n]), "wallet {n} of {model:?}");
    }
    let sums = read(store, ledger::sums).await;
    let expected = Sums {
        minted: model.minted,
        burned: model.burned,
        wallets: model.balances.iter().sum(),
        held: model.held(),
    };
    assert_eq!(sums, expected);
    assert!(sums.balanced(), "{sums:?}");
}

async fn play(steps: Vec<Step>) {
    // Every third write runs twice, as after a conflict.
    let store = Store::in_place(NonZeroU32::new(3)).unwrap();
    let mut ids = vec![];
    for n in 0..WALLETS {
        ids.push(wallet(&store, &n.to_string(), 0).await);
    }
    let worker = agreed(ids[0], ids[1], agent(&store, "worker").await.id);
    let mut model = Model::default();
    for step in steps {
        model.step(&step);
        let (ids_then, worker) = (ids.clone(), worker.clone());
        write(&store, move |tx: &mut dyn Tx| act(tx, &step, &ids_then, &worker)).await;
        check(&store, &model, &ids).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_store_holds_what_the_model_holds(steps in proptest::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(play(steps));
    }
}
