//! The books: each wallet against its ledger and its open jobs, in steps of any size.

use crate::market::{agreed, credits, hire, transfer, wallet};
use crate::market_agents::listed;
use crate::support::{Fixture, on_both, read, write};
use chorus_store::Store;
use chorus_store::market::books::{self, BooksCursor, DiscrepancyKind};

on_both![
    what_moved_between_two_wallets_by_hand_is_found,
    a_movement_that_is_gone_is_found,
    a_hold_is_what_its_open_job_may_cost,
];

/// Checks all books in steps of `limit` movements.
async fn check(store: &Store, limit: i64) -> Vec<(String, DiscrepancyKind)> {
    let (mut from, mut found) = (BooksCursor::START, vec![]);
    loop {
        let step = read(store, move |tx| books::check(tx, from, limit)).await;
        found.extend(step.found.into_iter().map(|off| (off.owner, off.kind)));
        match step.next {
            Some(next) => from = next,
            None => break,
        }
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found
}

async fn assert_found(store: &Store, expected: &[(&str, DiscrepancyKind)]) {
    let expected: Vec<_> = expected.iter().map(|(owner, kind)| ((*owner).to_owned(), *kind)).collect();
    for limit in [1, 2, 3, 1000] {
        assert_eq!(check(store, limit).await, expected, "in steps of {limit}");
    }
}

async fn change(store: &Store, sql: &'static str) {
    assert_eq!(write(store, move |tx| tx.execute(sql, &[])).await, 1);
}

async fn what_moved_between_two_wallets_by_hand_is_found(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (wallet(store, "anna", 500).await, wallet(store, "bob", 500).await);
    wallet(store, "empty", 0).await;
    for amount in [10, 20, 30, 40] {
        write(store, move |tx| transfer(tx, anna, bob, amount)).await.unwrap();
    }
    assert_found(store, &[]).await;
    change(store, "UPDATE wallets SET balance = balance - 100 WHERE owner = 'anna'").await;
    change(store, "UPDATE wallets SET balance = balance + 100 WHERE owner = 'bob'").await;
    let off = |balance, ledger| DiscrepancyKind::Balance { balance, ledger };
    assert_found(store, &[("anna", off(300, 400)), ("bob", off(700, 600))]).await;
    assert_eq!(off(300, 40).to_string(), "its balance is 3.00, its movements add up to 0.40");
}

async fn a_movement_that_is_gone_is_found(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (wallet(store, "anna", 500).await, wallet(store, "bob", 500).await);
    for amount in [10, 20] {
        write(store, move |tx| transfer(tx, anna, bob, amount)).await.unwrap();
    }
    change(store, "DELETE FROM ledger WHERE kind = 'transfer' AND amount = 10").await;
    let gap = DiscrepancyKind::Gap { number: 2 };
    assert_found(store, &[("anna", gap), ("bob", gap)]).await;
    change(store, "DELETE FROM ledger WHERE kind = 'transfer' AND amount = 20").await;
    assert_found(store, &[("anna", gap), ("bob", gap)]).await;
}

async fn a_hold_is_what_its_open_job_may_cost(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (wallet(store, "anna", 500).await, wallet(store, "bob", 0).await);
    let worker = listed(store, "worker", bob, &[("analyze_text", 10)]).await;
    let job = agreed(anna, bob, worker);
    let (id, asked) = (job.id, job.clone());
    assert!(write(store, move |tx| hire(tx, &asked)).await);
    assert_found(store, &[]).await;
    change(store, "UPDATE holds SET amount = amount + 1").await;
    let held = job.budget.hundredths();
    assert_found(store, &[("anna", DiscrepancyKind::Hold { job: id, amount: held + 1 })]).await;
    change(store, "DELETE FROM holds").await;
    assert_found(store, &[("anna", DiscrepancyKind::Unheld { job: id, budget: held })]).await;
    change(store, "UPDATE jobs SET status = 'FAILURE'").await;
    assert_found(store, &[]).await;
    assert_eq!(job.budget, credits(held));
}
