//! Allowances: counted by day, returned on the same day, and never exceeded by concurrent spending.

use crate::market::credits;
use crate::support::{Fixture, agent, on_both, read, write};
use chorus_protocol::ids::AgentId;
use chorus_store::Store;
use chorus_store::market::allowances::{self, Allowance};

on_both![
    a_day_has_one_allowance,
    a_clock_that_was_set_back_blocks_nobody;
    with_threads:
    several_at_once_never_exceed_it,
];

const DAY: i64 = 24 * 60 * 60 * 1000;
const NOON: i64 = 20_000 * DAY + DAY / 2;

async fn of(store: &Store, agent: AgentId, now: i64) -> Allowance {
    read(store, move |tx| allowances::of_agent(tx, agent, now)).await
}

async fn spend(store: &Store, agent: AgentId, day: i64, amount: i64) -> bool {
    write(store, move |tx| allowances::spend(tx, agent, day, credits(amount))).await
}

async fn a_day_has_one_allowance(fixture: Fixture) {
    let store = &fixture.store;
    let id = agent(store, "a").await.id;
    let none = of(store, id, NOON).await;
    assert_eq!((none.per_day, none.has_account, none.day), (None, false, 20_000));
    assert!(!spend(store, id, none.day, 1).await, "nothing is counted where no limit is set");

    write(store, move |tx| allowances::set(tx, id, credits(100), NOON)).await;
    assert!(spend(store, id, 20_000, 60).await);
    assert!(!spend(store, id, 20_000, 41).await);
    assert!(spend(store, id, 20_000, 40).await);
    assert_eq!(of(store, id, NOON).await.left_of(credits(100)), credits(0));
    write(store, move |tx| allowances::give_back(tx, id, 20_000, credits(30))).await;
    assert_eq!(of(store, id, NOON).await.spent, credits(70));
    // A lower limit leaves nothing, and spent credits stay counted.
    write(store, move |tx| allowances::set(tx, id, credits(50), NOON)).await;
    assert_eq!(of(store, id, NOON).await.left_of(credits(50)), credits(0));

    // The next day begins at midnight, and credits returned from the day before do not add to it.
    let tomorrow = of(store, id, 20_001 * DAY).await;
    assert_eq!((tomorrow.day, tomorrow.spent), (20_001, credits(0)));
    assert!(spend(store, id, 20_001, 50).await);
    write(store, move |tx| allowances::give_back(tx, id, 20_000, credits(30))).await;
    assert_eq!(of(store, id, 20_001 * DAY).await.spent, credits(50));
    assert!(write(store, move |tx| allowances::clear(tx, id)).await);
    assert_eq!(of(store, id, 20_001 * DAY).await.per_day, None);
}

async fn a_clock_that_was_set_back_blocks_nobody(fixture: Fixture) {
    let store = &fixture.store;
    let id = agent(store, "a").await.id;
    write(store, move |tx| allowances::set(tx, id, credits(10), NOON)).await;
    assert!(spend(store, id, 20_001, 10).await);
    // The clock of another node is slightly ahead: the day is the same for both.
    let ahead = of(store, id, 20_001 * DAY - 1).await;
    assert_eq!((ahead.day, ahead.spent), (20_001, credits(10)));
    let back = of(store, id, 19_000 * DAY).await;
    assert_eq!((back.day, back.spent), (19_000, credits(0)));
}

async fn several_at_once_never_exceed_it(fixture: Fixture) {
    let store = &fixture.store;
    let id = agent(store, "a").await.id;
    write(store, move |tx| allowances::set(tx, id, credits(45), NOON)).await;
    let tasks: Vec<_> = (0..12)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { spend(&store, id, 20_000, 15).await })
        })
        .collect();
    let mut counted = 0;
    for task in tasks {
        counted += i64::from(task.await.unwrap());
    }
    assert_eq!((counted, of(store, id, NOON).await.spent), (3, credits(45)));
}
