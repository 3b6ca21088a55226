//! Cases that only a server has: disconnects, and sharing between nodes.

use crate::support::{
    Fixture, LEASE_END, NOW, PATIENCE, Place, count, fresh, fresh_stream, read, soon, until, write,
};
use chorus_store::idempotency::{self, Key, Known};
use chorus_store::{Param, PostgresOptions, Row, Store, StoreError, StreamKey, Tx, settings};
use chorus_testkit::postgres::{Database, database, own_cluster};
use postgres::{Client, NoTls};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use tokio::task::JoinSet;

/// The notifications a node received: every head of every stream.
type Heard = Arc<Mutex<BTreeMap<StreamKey, Vec<i64>>>>;

fn node(database: &Database) -> (Store, Heard) {
    let options = PostgresOptions { workers: 5, ..PostgresOptions::new(&database.url, fresh()) };
    let store = Store::postgres(options).unwrap();
    let heard = Heard::default();
    store.on_commit(Box::new({
        let heard = Arc::clone(&heard);
        move |stream, head| heard.lock().unwrap().entry(stream).or_default().push(head)
    }));
    (store, heard)
}

fn last(heard: &Heard, stream: StreamKey) -> Option<i64> {
    heard.lock().unwrap().get(&stream)?.iter().copied().max()
}

/// Runs SQL outside of the store, on any thread.
fn outside(url: &str, sql: &str) {
    std::thread::scope(|scope| {
        let run = || Client::connect(url, NoTls).unwrap().batch_execute(sql).unwrap();
        scope.spawn(run).join().unwrap();
    });
}

/// Advances `stream` repeatedly until the other node is notified: notifications may be lost while it
/// reconnects.
async fn until_heard(from: &Store, by: &Heard) {
    let stream = fresh_stream();
    let deadline = std::time::Instant::now() + PATIENCE;
    while last(by, stream).is_none() {
        assert!(std::time::Instant::now() < deadline, "the other node is deaf");
        write(from, move |tx| tx.next_seq(stream)).await;
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Signals that are not stored reach the other nodes only, with any bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signs_pass_to_other_nodes() {
    let database = database();
    let ((store, _), (other, heard)) = (node(&database), node(&database));
    let signs = Arc::new(Mutex::new(vec![]));
    for (name, node) in [("own", &store), ("other", &other)] {
        let signs = Arc::clone(&signs);
        node.on_sign(Box::new(move |stream, sign| signs.lock().unwrap().push((name, stream, sign.to_vec()))));
    }
    until_heard(&store, &heard).await;
    let (stream, sign) = (fresh_stream(), b"event: typing\n\n \xff:=".to_vec());
    store.pass(stream, &vec![0; chorus_store::MAX_SIGN + 1]);
    store.pass(stream, &sign);
    until(|| !signs.lock().unwrap().is_empty()).await;
    assert_eq!(*signs.lock().unwrap(), [("other", stream, sign)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_costs_nothing_that_was_acknowledged() {
    let cluster = own_cluster();
    let database = cluster.database();
    let ((store, _), (other, heard)) = (node(&database), node(&database));
    until_heard(&store, &heard).await;
    let mut writers = JoinSet::new();
    for writer in 0..6 {
        let store = store.clone();
        writers.spawn(async move {
            let mut acknowledged = vec![];
            for n in 0.. {
                let name = format!("{writer}-{n}");
                let set = name.clone();
                match soon(store.write(move |tx: &mut dyn Tx| settings::set(tx, &set, "1"))).await {
                    Ok(()) => acknowledged.push(name),
                    Err(StoreError::Unavailable(_)) => break,
                    Err(other) => panic!("{other:?}"),
                }
            }
            acknowledged
        });
    }
    while count(&store, "SELECT COUNT(*) AS count FROM settings").await < 100 {}
    cluster.kill9();
    let acknowledged: Vec<String> = soon(writers.join_all()).await.into_iter().flatten().collect();
    assert!(acknowledged.len() >= 100);
    for _ in 0..3 {
        let write = store.write(|tx: &mut dyn Tx| settings::set(tx, "down", "1"));
        assert!(matches!(soon(write).await, Err(StoreError::Unavailable(_))));
        let read = store.read(|tx: &mut dyn Tx| settings::get(tx, "down"));
        assert!(matches!(soon(read).await, Err(StoreError::Unavailable(_))));
    }
    cluster.start();
    // The store recovers at once by itself: nobody gets an error because of dead connections.
    let mut tasks = JoinSet::new();
    for n in 0..20 {
        let store = store.clone();
        tasks.spawn(async move { write(&store, move |tx| settings::set(tx, &format!("up-{n}"), "1")).await });
    }
    tasks.join_all().await;
    let lost = read(&store, move |tx| {
        let mut lost = vec![];
        for name in &acknowledged {
            if settings::get(tx, name)?.is_none() {
                lost.push(name.clone());
            }
        }
        Ok(lost)
    });
    assert_eq!(lost.await, [""; 0]);
    assert_eq!(read(&store, |tx| settings::get(tx, "down")).await, None);
    until_heard(&store, &heard).await;
    drop((store, other));
}

/// Servers and firewalls close idle connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_connection_costs_nobody_an_error() {
    let database = database();
    let ((store, _), (_other, heard)) = (node(&database), node(&database));
    for round in 0..3 {
        until_heard(&store, &heard).await;
        let close = format!(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{}'",
            database.name
        );
        outside(&database.admin_url, &close);
        for n in 0..10 {
            write(&store, move |tx| settings::set(tx, &format!("{round}-{n}"), "1")).await;
            assert_eq!(count(&store, "SELECT COUNT(*) AS count FROM settings").await, round * 10 + n + 1);
        }
    }
}

/// Waits until one of them has begun, because one worker that gets both would run them in sequence.
async fn at_work(begun: &AtomicUsize) {
    while begun.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// Both see a free name and insert it: the second runs again and sees the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unique_violation_is_tried_again() {
    let database = database();
    let (store, heard) = node(&database);
    let (runs, actions) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (both, stream) = (Arc::new(Barrier::new(2)), fresh_stream());
    let mut tasks = JoinSet::new();
    for _ in 0..2 {
        let begun = Arc::clone(&runs);
        let (store, runs, actions, both) =
            (store.clone(), Arc::clone(&runs), Arc::clone(&actions), Arc::clone(&both));
        tasks.spawn(async move {
            write(&store, move |tx| {
                let run = runs.fetch_add(1, Ordering::SeqCst);
                let actions = Arc::clone(&actions);
                tx.after_commit(Box::new(move || {
                    actions.fetch_add(1, Ordering::SeqCst);
                }));
                let found = settings::get(tx, "one")?;
                if run < 2 {
                    both.wait();
                }
                if found.is_none() {
                    tx.execute("INSERT INTO settings (name, value) VALUES ('one', '1')", &[])?;
                }
                Ok((found.is_some(), tx.next_seq(stream)?))
            })
            .await
        });
        at_work(&begun).await;
    }
    let mut results = soon(tasks.join_all()).await;
    results.sort_unstable();
    assert_eq!(results, [(false, 1), (true, 2)]);
    assert!(runs.load(Ordering::SeqCst) >= 3, "one of them ran again");
    assert_eq!(actions.load(Ordering::SeqCst), 2);
    let mut heads = heard.lock().unwrap()[&stream].clone();
    heads.sort_unstable();
    assert_eq!(heads, [1, 2]);
}

/// Each holds what the other needs: the server aborts one of them, which runs again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_is_tried_again() {
    let database = database();
    let (store, _) = node(&database);
    let (one, other, both, runs) =
        (fresh_stream(), fresh_stream(), Arc::new(Barrier::new(2)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for (first, second) in [(one, other), (other, one)] {
        let begun = Arc::clone(&runs);
        let (store, both, runs) = (store.clone(), Arc::clone(&both), Arc::clone(&runs));
        tasks.spawn(async move {
            write(&store, move |tx| {
                tx.next_seq(first)?;
                if runs.fetch_add(1, Ordering::SeqCst) < 2 {
                    both.wait();
                }
                tx.next_seq(second)
            })
            .await
        });
        at_work(&begun).await;
    }
    tasks.join_all().await;
    assert!(runs.load(Ordering::SeqCst) >= 3);
    assert_eq!(read(&store, move |tx| Ok((tx.head(one)?, tx.head(other)?))).await, (2, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endless_conflict_is_given_up() {
    let database = database();
    let (store, _) = node(&database);
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&runs);
    let conflict = store.write(move |tx: &mut dyn Tx| {
        counter.fetch_add(1, Ordering::SeqCst);
        settings::set(tx, "one", "1")?;
        tx.execute("DO 'BEGIN RAISE serialization_failure; END'", &[])
    });
    assert!(matches!(soon(conflict).await, Err(StoreError::Conflict(_))));
    assert!(runs.load(Ordering::SeqCst) > 1);
    assert_eq!(read(&store, |tx| settings::get(tx, "one")).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_hear_of_each_other_once() {
    let database = database();
    let ((one, one_heard), (other, other_heard)) = (node(&database), node(&database));
    // Waits until both listen.
    until_heard(&one, &other_heard).await;
    until_heard(&other, &one_heard).await;
    let (mine, yours) = (fresh_stream(), fresh_stream());
    write(&one, move |tx| tx.next_seq(mine)).await;
    write(&one, move |tx| tx.next_seq(mine)).await;
    until(|| last(&other_heard, mine) == Some(2)).await;
    write(&other, move |tx| tx.next_seq(yours)).await;
    until(|| last(&one_heard, yours).is_some()).await;
    // Notifications arrive in the same order everywhere, so the first node has skipped its own by now.
    assert_eq!(one_heard.lock().unwrap()[&mine], [1, 2]);
    assert_eq!(one_heard.lock().unwrap()[&yours], [1]);
    assert_eq!(other_heard.lock().unwrap()[&yours], [1]);
}

/// More heads than one notification can carry, and more often than notifications are sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_stream_reaches_the_other_node_with_its_last_head() {
    let database = database();
    let ((one, _), (_other, heard)) = (node(&database), node(&database));
    until_heard(&one, &heard).await;
    let mut streams: Vec<_> = (0..400).map(|_| fresh_stream()).collect();
    streams.sort_unstable();
    let all = streams.clone();
    write(&one, move |tx| all.iter().try_for_each(|stream| tx.next_seq(*stream).map(drop))).await;
    let mut tasks = JoinSet::new();
    let busy = streams[0];
    for _ in 0..300 {
        let one = one.clone();
        tasks.spawn(async move { write(&one, move |tx| tx.next_seq(busy)).await });
    }
    tasks.join_all().await;
    until(|| last(&heard, busy) == Some(301)).await;
    until(|| streams[1..].iter().all(|stream| last(&heard, *stream) == Some(1))).await;
}

/// Runs other work between the statements of a transaction.
struct Meddled<'a> {
    tx: &'a mut dyn Tx,
    after: &'a dyn Fn(&str),
}

impl Tx for Meddled<'_> {
    fn execute(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64, StoreError> {
        let result = self.tx.execute(sql, params);
        (self.after)(sql);
        result
    }

    fn each(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
        take: &mut dyn FnMut(Row) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        self.tx.each(sql, params, take)
    }

    fn next_seq(&mut self, stream: StreamKey) -> Result<i64, StoreError> {
        self.tx.next_seq(stream)
    }

    fn head(&mut self, stream: StreamKey) -> Result<i64, StoreError> {
        self.tx.head(stream)
    }

    fn set_head(&mut self, stream: StreamKey, head: i64) -> Result<(), StoreError> {
        self.tx.set_head(stream, head)
    }

    fn lock(&mut self, stream: StreamKey) -> Result<(), StoreError> {
        self.tx.lock(stream)
    }

    fn kind(&self) -> chorus_store::Kind {
        self.tx.kind()
    }

    fn after_commit(&mut self, action: Box<dyn FnOnce() + Send>) {
        self.tx.after_commit(action);
    }
}

/// A failed attempt releases its key at the moment when its retry has found it taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_vanishes_while_it_is_reserved_is_free() {
    let database = database();
    let (store, _) = node(&database);
    let key = Key::new("test", &[b"k"], b"r", None);
    let reserve = move |tx: &mut dyn Tx| idempotency::reserve(tx, &key, NOW, LEASE_END);
    for moment in ["INSERT", "UPDATE"] {
        assert_eq!(write(&store, reserve).await, Known::New);
        let url = database.url.clone();
        let meddled = AtomicUsize::new(0);
        let known = write(&store, move |tx| {
            let after = |sql: &str| {
                if sql.trim_start().starts_with(moment) && meddled.fetch_add(1, Ordering::SeqCst) == 0 {
                    outside(&url, "DELETE FROM idempotency");
                }
            };
            reserve(&mut Meddled { tx, after: &after })
        });
        assert_eq!(known.await, Known::New, "after the {moment}");
        assert_eq!(write(&store, reserve).await, Known::InProgress);
        outside(&database.url, "DELETE FROM idempotency");
    }
}

/// A server whose collation differs from byte order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_order_of_names_does_not_depend_on_the_server() {
    let mut database = database();
    let name = format!("{}_icu", database.name);
    let create = format!(
        "CREATE DATABASE {name} TEMPLATE template0 ENCODING UTF8 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'"
    );
    outside(&database.admin_url, &create);
    database.url = database.url.replace(&database.name, &name);
    database.name = name;
    crate::directory::pages_are_in_order_without_gaps(Fixture::at(Place::Postgres(database))).await;
}

#[test]
fn a_server_that_is_not_there_is_named_without_its_password() {
    let url = "postgres://chorus:hush@127.0.0.1:1/somewhere";
    let Some(error) = Store::postgres(PostgresOptions::new(url, fresh())).err() else { panic!("opened") };
    let StoreError::Open { what, .. } = &error else { panic!("{error:?}") };
    assert!(what.contains("somewhere"), "{what}");
    assert!(!format!("{error:?}").contains("hush"));
    let Some(error) = Store::postgres(PostgresOptions::new("nonsense:hush", fresh())).err() else {
        panic!("opened")
    };
    assert!(!format!("{error:?} {error}").contains("hush"));
}
