//! Entries of a reputation, and the facts that decide whether a job counts.

use crate::market::{agreed, credits, wallet};
use crate::market_agents::{everything, line, listed};
use crate::support::{Fixture, NOW, fresh, on_both, read, write};
use chorus_protocol::ids::{AccountId, TraceId, TransferId};
use chorus_protocol::market::{Reputation, UncountedReason};
use chorus_store::Tx;
use chorus_store::market::jobs::{self, Agreed};
use chorus_store::market::ledger::{self, Transfer};
use chorus_store::market::reputation::{self, Change};
use chorus_store::market::{agents, discovery, handing};

on_both![
    a_job_that_does_not_count_leaves_a_line_and_the_score,
    evidence_is_of_these_two_owners_and_this_agent,
];

async fn a_job_that_does_not_count_leaves_a_line_and_the_score(fixture: Fixture) {
    let store = &fixture.store;
    let owner = wallet(store, "owner", 0).await;
    let worker = listed(store, "worker", owner, &[("sum", 10)]).await;
    let reasons = [Some(UncountedReason::LowPrice), Some(UncountedReason::Declined), None];
    for not_counted in reasons {
        let change = Change { not_counted, ..line("50") };
        write(store, move |tx| reputation::record(tx, worker, owner, &change)).await;
    }
    let lines = read(store, move |tx| reputation::changes(tx, worker, i64::MAX, 10)).await;
    let shown: Vec<_> = lines.iter().rev().map(|line| line.not_counted).collect();
    assert_eq!(shown, reasons);
    let listing = read(store, move |tx| agents::by_id(tx, worker)).await.unwrap();
    assert_eq!((listing.reputation, listing.declines.rate()), (Reputation::NEUTRAL, Some(0.5)));
    let found = read(store, move |tx| discovery::search(tx, &everything(), None, 10)).await;
    assert_eq!(found[0].declines, listing.declines);
}

async fn evidence_is_of_these_two_owners_and_this_agent(fixture: Fixture) {
    const SINCE: i64 = NOW - 1000;
    let store = &fixture.store;
    let (boss, owner) = (wallet(store, "boss", 100).await, wallet(store, "owner", 100).await);
    let other = wallet(store, "other", 100).await;
    let worker = listed(store, "worker", owner, &[("sum", 10)]).await;
    let job = agreed(boss, owner, worker);
    let asked = job.clone();
    write(store, move |tx| jobs::insert(tx, &asked)).await;
    let seen = async || {
        let job = job.clone();
        let found = read(store, move |tx| reputation::evidence(tx, &job, SINCE, SINCE)).await;
        (found.handed_at, found.paid_both_ways, (found.counted, found.declined))
    };
    assert_eq!(seen().await, (None, false, (0, 0)));
    // The time of the first delivery is kept.
    for at in [NOW + 1, NOW + 2] {
        write(store, move |tx| handing::record(tx, job.event, at)).await;
    }
    assert_eq!(seen().await, (Some(NOW + 1), false, (0, 0)));
    // Recent declined and counted jobs of this payer.
    for (payer, not_counted, created_at) in [
        (boss, None, NOW),
        (boss, Some(UncountedReason::Declined), NOW),
        (boss, Some(UncountedReason::ShortTime), NOW),
        (boss, None, SINCE),
        (other, None, NOW),
    ] {
        let change = Change { not_counted, created_at, ..line("50") };
        write(store, move |tx| reputation::record(tx, worker, payer, &change)).await;
    }
    assert_eq!(seen().await, (Some(NOW + 1), false, (1, 1)));
    // Payments to or from others, or too old ones, do not count between the two.
    let pay = async |from, to, created_at| {
        let made = Transfer { id: TransferId(fresh()), from, to, amount: credits(1), job: None, created_at };
        write(store, move |tx| ledger::insert_transfer(tx, &made, TraceId(fresh()))).await;
    };
    pay(owner, other, NOW).await;
    pay(other, boss, NOW).await;
    pay(owner, boss, SINCE).await;
    // A payment after the job was assigned does not matter.
    pay(owner, boss, NOW + 1).await;
    assert!(!seen().await.1);
    pay(owner, boss, NOW).await;
    assert!(!seen().await.1, "in one direction only");
    pay(boss, owner, NOW + 1).await;
    assert!(seen().await.1);
    // A paid job is a payment too, from any wallet of the account.
    let (boss, owner) = (wallet(store, "boss two", 100).await, wallet(store, "owner two", 100).await);
    pay(boss, owner, NOW).await;
    let job = agreed(boss, owner, worker);
    let back = agreed(owner, boss, worker);
    let both_ways = async |job: &Agreed| {
        let job = job.clone();
        read(store, move |tx| reputation::evidence(tx, &job, SINCE, SINCE)).await.paid_both_ways
    };
    let asked = back.clone();
    write(store, move |tx| jobs::insert(tx, &asked)).await;
    for (paid, are_partners) in [(0, false), (1, true)] {
        let end = move |tx: &mut dyn Tx| {
            tx.execute(
                "UPDATE jobs SET status = 'SUCCESS', paid = $2, ended_at = $3 WHERE id = $1",
                &[(&back.id).into(), paid.into(), NOW.into()],
            )
        };
        write(store, end).await;
        assert_eq!(both_ways(&job).await, are_partners, "{paid}");
    }
    let account = AccountId(fresh());
    let second = wallet(store, "boss three", 0).await;
    let share = move |tx: &mut dyn Tx| {
        for wallet in [boss, second] {
            let sql = "UPDATE wallets SET account_id = $2 WHERE id = $1";
            tx.execute(sql, &[(&wallet).into(), (&account).into()])?;
        }
        Ok(())
    };
    write(store, share).await;
    assert!(both_ways(&agreed(second, owner, worker)).await);
}
