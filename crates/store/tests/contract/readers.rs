//! Readers do not delay authentication, and no read runs for ever.

use crate::support::{NODE, Place, abandon, soon};
use chorus_store::{PostgresOptions, SqliteOptions, Store, StoreError, Tx, TxExt};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

/// A query that never ends by itself.
const ENDLESS: &str =
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n WHERE i < 0";

fn open(place: &Place, read_time: Duration) -> Store {
    match place {
        Place::Sqlite(_) => Store::sqlite(SqliteOptions { read_time, ..place.file() }),
        Place::Postgres(database) => Store::postgres(PostgresOptions {
            workers: 5,
            read_time,
            ..PostgresOptions::new(&database.url, NODE)
        }),
    }
    .unwrap()
}

/// Turns each case, an `async fn(Place)`, into a test on SQLite and one on PostgreSQL.
macro_rules! on_both_places {
    ($($case:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(crate::support::Place::sqlite()).await;
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(crate::support::Place::postgres()).await;
            })+
        }
    };
}

on_both_places![a_long_read_is_stopped, many_short_reads_are_one_long_one, busy_readers_let_callers_in];

async fn one(store: &Store) -> i64 {
    let read = |tx: &mut dyn Tx| {
        tx.first("SELECT CAST(1 AS BIGINT) AS one", &[])?.map_or(Ok(0), |mut row| row.int("one"))
    };
    soon(store.read::<_, StoreError, _>(read)).await.unwrap()
}

async fn a_long_read_is_stopped(place: Place) {
    let store = open(&place, Duration::from_millis(300));
    let begun = Instant::now();
    let read = |tx: &mut dyn Tx| tx.query(ENDLESS, &[]).map(drop);
    let stopped = soon(store.read::<_, StoreError, _>(read)).await;
    assert!(matches!(stopped, Err(StoreError::TooLong)), "{stopped:?}");
    assert!(begun.elapsed() >= Duration::from_millis(300));
    assert_eq!(one(&store).await, 1, "its thread goes on");
}

async fn many_short_reads_are_one_long_one(place: Place) {
    let store = open(&place, Duration::from_millis(300));
    let read = |tx: &mut dyn Tx| -> Result<(), StoreError> {
        loop {
            tx.first("SELECT CAST(1 AS BIGINT)", &[])?;
        }
    };
    let stopped = soon(store.read::<_, StoreError, _>(read)).await;
    assert!(matches!(stopped, Err(StoreError::TooLong)), "{stopped:?}");
    assert_eq!(one(&store).await, 1);
}

async fn busy_readers_let_callers_in(place: Place) {
    let store = open(&place, Duration::from_mins(1));
    let (entered, mut entering) = tokio::sync::mpsc::unbounded_channel();
    let mut held = vec![];
    for n in 0..20 {
        let (release, released) = mpsc::channel::<()>();
        let (released, entered) = (Mutex::new(released), entered.clone());
        abandon(store.read(move |_: &mut dyn Tx| {
            entered.send(()).ok();
            released.lock().unwrap().recv().ok();
            Ok::<_, StoreError>(())
        }))
        .await;
        held.push(release);
        if n == 0 {
            soon(entering.recv()).await.unwrap();
        }
    }
    let look_up = |tx: &mut dyn Tx| tx.first("SELECT CAST(1 AS BIGINT)", &[]).map(|row| row.is_some());
    assert!(soon(store.authenticate::<_, StoreError, _>(look_up)).await.unwrap());
    drop(held);
    assert_eq!(one(&store).await, 1);
}
