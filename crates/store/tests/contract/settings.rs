//! Named settings.

use crate::support::{Fixture, on_both, read, write};
use chorus_store::settings;
use tokio::task::JoinSet;

on_both![a_value_is_replaced, a_value_is_set_once, of_many_at_once_one_wins];

async fn a_value_is_replaced(fixture: Fixture) {
    let store = &fixture.store;
    assert_eq!(read(store, |tx| settings::get(tx, "n")).await, None);
    for value in ["1", "", "☕"] {
        write(store, move |tx| settings::set(tx, "n", value)).await;
        assert_eq!(read(store, |tx| settings::get(tx, "n")).await.as_deref(), Some(value));
    }
    assert_eq!(read(store, |tx| settings::get(tx, "N")).await, None);
}

async fn a_value_is_set_once(fixture: Fixture) {
    let store = &fixture.store;
    assert_eq!(write(store, |tx| settings::set_once(tx, "n", "1")).await, ("1".into(), true));
    assert_eq!(write(store, |tx| settings::set_once(tx, "n", "2")).await, ("1".into(), false));
    assert_eq!(write(store, |tx| settings::set_once(tx, "n", "1")).await, ("1".into(), false));
    let fixture = fixture.reopen();
    assert_eq!(write(&fixture.store, |tx| settings::set_once(tx, "n", "2")).await, ("1".into(), false));
}

async fn of_many_at_once_one_wins(fixture: Fixture) {
    for round in 0..5 {
        let mut tasks = JoinSet::new();
        for n in 0..16 {
            let store = fixture.store.clone();
            let (name, value) = (format!("round-{round}"), n.to_string());
            tasks.spawn(async move {
                let (holds, mine) = write(&store, {
                    let value = value.clone();
                    move |tx| settings::set_once(tx, &name, &value)
                })
                .await;
                (mine, holds == value, holds)
            });
        }
        let results = tasks.join_all().await;
        let winner = results.iter().find(|(mine, ..)| *mine).expect("somebody wins").2.clone();
        assert_eq!(results.iter().filter(|(mine, ..)| *mine).count(), 1);
        for (mine, is_own, holds) in results {
            assert_eq!(holds, winner, "all see the same value");
            assert_eq!(mine, is_own);
        }
    }
}
