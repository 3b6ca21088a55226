//! Work that shares a transaction behaves as if it ran alone.

use crate::support::{
    Fixture, agent, count, deliver, entries, fresh, fresh_stream, hold, hold_on, message, on_both, queue,
    queue_on, read, soon, write,
};
use ::postgres::{Client, NoTls};
use chorus_protocol::ids::AgentId;
use chorus_store::relay::{self, SendError, Sent};
use chorus_store::{
    PostgresOptions, Store, StoreError, StreamKey, Tx, TxExt, deliveries, directory, settings,
};
use chorus_testkit::postgres::{Cluster, Database, database, own_cluster};
use chorus_testkit::proxy::Proxy;
use futures_util::future::join_all;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::task::JoinSet;
use uuid::Uuid;

on_both![
    a_crowd_of_many_on_many_streams;
    with_threads: a_crowd_fails_one_by_one,
    a_number_that_is_not_kept_is_given_again,
    what_the_database_refuses_harms_nobody_else,
    one_sees_what_another_of_its_batch_did,
    the_directory_is_read_as_it_stands,
    work_of_another_kind_is_done_all_the_same,
    actions_follow_the_commit_of_the_crowd,
];

const INSERT: &str = "INSERT INTO settings (name, value) VALUES ($1, $2)";

/// Refusals and panics before any write, among successful sends.
async fn a_crowd_fails_one_by_one(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, agent(store, "bob").await);
    let (held, mut tasks) = (hold_on(store, "bob").await, vec![]);
    for n in 0..12 {
        let mut message = message(&anna, &bob);
        if n % 4 == 1 {
            message.receiver = "nobody".into();
        }
        let work = move |tx: &mut dyn Tx| {
            assert!(n % 4 != 3, "on purpose");
            relay::send(tx, &message)
        };
        tasks.push(queue_on(store, "bob", work).await);
    }
    drop(held);
    let mut places = vec![];
    for (n, task) in tasks.into_iter().enumerate() {
        match (n % 4, task.await.unwrap()) {
            (0 | 2, Ok(Sent::Stored { seq, .. })) => places.push(seq),
            (1, Err(SendError::ReceiverNotFound)) | (3, Err(SendError::Store(StoreError::Panicked))) => {}
            (_, other) => panic!("{n}: {other:?}"),
        }
    }
    assert_eq!(places, [1, 2, 3, 4, 5, 6]);
    assert_eq!(entries(store, bob.id).await.len(), 6);
    assert_eq!(count(store, "SELECT COUNT(*) AS count FROM events").await, 6);
}

/// Errors and panics after all writes.
async fn a_number_that_is_not_kept_is_given_again(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, agent(store, "bob").await);
    let heard: Arc<Mutex<Vec<i64>>> = Arc::default();
    let hear = Arc::clone(&heard);
    store.on_commit(Box::new(move |stream, head| {
        if stream == bob.id.into() {
            hear.lock().unwrap().push(head);
        }
    }));
    let (held, mut tasks) = (hold_on(store, "bob").await, vec![]);
    for n in 0..9 {
        let message = message(&anna, &bob);
        let work = move |tx: &mut dyn Tx| {
            let sent = relay::send(tx, &message)?;
            match n % 3 {
                0 => Ok(sent),
                1 => Err(SendError::Blocked),
                _ => panic!("on purpose"),
            }
        };
        tasks.push(queue_on(store, "bob", work).await);
    }
    drop(held);
    let mut places = vec![];
    for (n, task) in tasks.into_iter().enumerate() {
        match (n % 3, task.await.unwrap()) {
            (0, Ok(Sent::Stored { seq, .. })) => places.push(seq),
            (1, Err(SendError::Blocked)) | (2, Err(SendError::Store(StoreError::Panicked))) => {}
            (_, other) => panic!("{n}: {other:?}"),
        }
    }
    assert_eq!(places, [1, 2, 3]);
    let kept: Vec<i64> = entries(store, bob.id).await.iter().map(|entry| entry.seq).collect();
    assert_eq!(kept, places);
    assert_eq!(
        count(store, "SELECT COUNT(*) AS count FROM events").await,
        3,
        "nothing of the others is left"
    );
    assert_eq!(heard.lock().unwrap().last(), Some(&3), "and nobody was woken for them: {heard:?}");
    assert_eq!(deliver(store, message(&anna, &bob)).await.0, 4);
}

/// One row that the database refuses, among valid ones.
async fn what_the_database_refuses_harms_nobody_else(fixture: Fixture) {
    let store = &fixture.store;
    let stream = fresh_stream();
    let held = hold_on(store, "k").await;
    let mut tasks = vec![];
    for n in 0..7_i64 {
        let work = move |tx: &mut dyn Tx| {
            let seq = tx.next_seq(stream)?;
            let value = seq.to_string();
            tx.append(
                INSERT,
                &[format!("n-{n}").as_str().into(), (n != 3).then_some(value.as_str()).into()],
            )?;
            Ok::<_, StoreError>(seq)
        };
        tasks.push(queue_on(store, "k", work).await);
    }
    drop(held);
    let mut places = vec![];
    for task in tasks {
        places.push(task.await.unwrap().ok());
    }
    assert_eq!(places, [Some(1), Some(2), Some(3), None, Some(4), Some(5), Some(6)]);
    assert_eq!(count(store, "SELECT COUNT(*) AS count FROM settings").await, 6);
    assert_eq!(read(store, move |tx| tx.head(stream)).await, 6);
}

/// Cached directory entries are current: after changes by the same closure, by others, and by a rolled-back
/// one.
async fn the_directory_is_read_as_it_stands(fixture: Fixture) {
    let store = &fixture.store;
    let bob = agent(store, "bob").await.id;
    let (held, mut tasks) = (hold_on(store, "bob").await, vec![]);
    for n in 0..6 {
        let work = move |tx: &mut dyn Tx| {
            let why = |tx: &mut dyn Tx| {
                let found = directory::by_id(tx, bob)?;
                assert_eq!(directory::by_name(tx, "Bob")?, found);
                Ok::<_, StoreError>(found.and_then(|bob| bob.broken).map(|(why, _)| why))
            };
            let before = why(tx)?;
            if n % 2 == 1 {
                directory::set_broken(tx, bob, Some((&n.to_string(), n)))?;
                assert_eq!(why(tx)?, Some(n.to_string()));
            }
            if n == 3 { Err(StoreError::Panicked) } else { Ok(before) }
        };
        tasks.push(queue_on(store, "bob", work).await);
    }
    drop(held);
    let seen: Vec<_> = join_all(tasks).await.into_iter().map(|task| task.unwrap().ok()).collect();
    let one = || Some(Some("1".to_owned()));
    assert_eq!(seen, [Some(None), Some(None), one(), None, one(), one()]);
}

/// A closure sees the entries appended by itself and by earlier closures of the batch.
async fn one_sees_what_another_of_its_batch_did(fixture: Fixture) {
    let store = &fixture.store;
    let held = hold_on(store, "k").await;
    let mut tasks = vec![];
    for n in 0..6 {
        let work = move |tx: &mut dyn Tx| {
            let seen = |tx: &mut dyn Tx| {
                let found =
                    tx.first("SELECT COUNT(*) AS count FROM settings WHERE name <> $1", &["none".into()])?;
                found.map_or(Ok(0), |mut row| row.int("count"))
            };
            let before = seen(tx)?;
            tx.append(INSERT, &[format!("n-{n}").as_str().into(), "1".into()])?;
            Ok::<_, StoreError>((before, seen(tx)?))
        };
        tasks.push(queue_on(store, "k", work).await);
    }
    drop(held);
    for (n, task) in tasks.into_iter().enumerate() {
        let n = n as i64;
        assert_eq!(task.await.unwrap().unwrap(), (n, n + 1));
    }
}

/// Work that updates, locks, reads heads, takes two numbers, or reads after its own appends, also runs in a
/// batch.
async fn work_of_another_kind_is_done_all_the_same(fixture: Fixture) {
    const KINDS: usize = 7;
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, agent(store, "bob").await);
    let mut streams = [fresh_stream(), fresh_stream()];
    streams.sort_unstable();
    for kind in 0..KINDS {
        let held = hold_on(store, "bob").await;
        let mut tasks = vec![];
        for n in 0..4 {
            let message = message(&anna, &bob);
            let work = move |tx: &mut dyn Tx| {
                if n != 2 {
                    return relay::send(tx, &message).map(drop);
                }
                match kind {
                    0 => settings::set(tx, "set", "1")?,
                    1 => tx.lock(streams[0])?,
                    2 => drop(tx.head(streams[0])?),
                    3 => drop((tx.next_seq(streams[0])?, tx.next_seq(streams[1])?)),
                    4 => drop((tx.next_seq(streams[0])?, tx.next_seq(streams[0])?)),
                    5 => drop((tx.next_seq(streams[0])?, settings::get(tx, "set")?)),
                    _ => {
                        let sql = "SELECT name FROM agents WHERE id <> $1 ORDER BY name";
                        let names = tx.query(sql, &[(&Uuid::nil()).into()])?;
                        let names: Result<Vec<_>, _> =
                            names.into_iter().map(|mut row| row.text("name")).collect();
                        assert_eq!(names?, ["anna", "bob"]);
                    }
                }
                Ok::<_, SendError>(())
            };
            tasks.push(queue_on(store, "bob", work).await);
        }
        drop(held);
        for task in tasks {
            task.await.unwrap().unwrap_or_else(|error| panic!("{kind}: {error:?}"));
        }
    }
    assert_eq!(entries(store, bob.id).await.len(), KINDS * 3);
    assert_eq!(read(store, move |tx| Ok((tx.head(streams[0])?, tx.head(streams[1])?))).await, (4, 1));
}

/// Each commit action runs once, though the work may run more often, and finds everything committed.
async fn actions_follow_the_commit_of_the_crowd(fixture: Fixture) {
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, agent(store, "bob").await);
    let ran: Arc<Mutex<Vec<usize>>> = Arc::default();
    let (held, mut tasks) = (hold_on(store, "bob").await, vec![]);
    for n in 0..6 {
        let (message, ran) = (message(&anna, &bob), Arc::clone(&ran));
        let work = move |tx: &mut dyn Tx| {
            let ran = Arc::clone(&ran);
            tx.after_commit(Box::new(move || ran.lock().unwrap().push(n)));
            if n == 4 {
                return Err(SendError::Blocked);
            }
            relay::send(tx, &message).map(drop)
        };
        tasks.push(queue_on(store, "bob", work).await);
    }
    assert_eq!(*ran.lock().unwrap(), [0; 0]);
    drop(held);
    for (n, task) in tasks.into_iter().enumerate() {
        assert_eq!(task.await.unwrap().is_ok(), n != 4);
    }
    assert_eq!(*ran.lock().unwrap(), [0, 1, 2, 3, 5]);
}

async fn a_crowd_of_many_on_many_streams(fixture: Fixture) {
    crowd(&[fixture.store], 6, 20, 10).await;
}

/// Many senders write to many receivers through these stores, while readers follow.
async fn crowd(stores: &[Store], receivers: usize, senders: usize, each: usize) {
    let anna = agent(&stores[0], "anna").await;
    let mut bobs = vec![];
    for n in 0..receivers {
        bobs.push(agent(&stores[0], &format!("bob-{n}")).await);
    }
    let mut tasks = JoinSet::new();
    for sender in 0..senders {
        let (store, anna, bobs) = (stores[sender % stores.len()].clone(), anna.clone(), bobs.clone());
        tasks.spawn(async move {
            let mut places = vec![];
            for n in 0..each {
                // The order of receivers differs between senders.
                let bob = &bobs[(sender * 7 + n * (1 + sender % 3)) % bobs.len()];
                let message = message(&anna, bob);
                let send = store.write_on(&bob.name, move |tx: &mut dyn Tx| relay::send(tx, &message));
                match soon(send).await.unwrap() {
                    Sent::Stored { seq, .. } => places.push((bob.id, seq)),
                    other => panic!("{other:?}"),
                }
            }
            places
        });
    }
    let (first, store) = (bobs[0].id, &stores[0]);
    let (mut cursor, mut told) = (0, vec![]);
    while let Some(done) = {
        follow(store, first, &mut cursor).await;
        tasks.join_next().await
    } {
        told.extend(done.unwrap());
    }
    follow(store, first, &mut cursor).await;
    assert_eq!(told.len(), senders * each);
    for bob in bobs {
        let mut places: Vec<i64> = told.iter().filter(|(id, _)| *id == bob.id).map(|(_, seq)| *seq).collect();
        places.sort_unstable();
        assert!(places.iter().copied().eq(1..=places.len() as i64), "{places:?}");
        let kept: Vec<i64> = entries(store, bob.id).await.iter().map(|entry| entry.seq).collect();
        assert_eq!(kept, places);
    }
}

/// Reads on and asserts that no position is skipped.
async fn follow(store: &Store, agent: AgentId, cursor: &mut i64) {
    let after = *cursor;
    for entry in read(store, move |tx| deliveries::page(tx, agent, after, 1000, usize::MAX)).await {
        assert_eq!(entry.seq, *cursor + 1, "one was skipped, or came out of order");
        *cursor = entry.seq;
    }
}

fn node(database: &Database) -> Store {
    Store::postgres(PostgresOptions { workers: 5, ..PostgresOptions::new(&database.url, fresh()) }).unwrap()
}

/// Runs SQL outside of the store, on any thread.
fn outside<T: Send>(url: &str, work: impl FnOnce(&mut Client) -> T + Send) -> T {
    std::thread::scope(|scope| {
        let run = || work(&mut Client::connect(url, NoTls).unwrap());
        scope.spawn(run).join().unwrap()
    })
}

/// Returns the number of deadlocks that the server counted. The stores are closed first, so that it is final.
fn deadlocks(database: &Database, stores: Vec<Store>) -> i64 {
    drop(stores);
    let sql = "SELECT deadlocks FROM pg_stat_database WHERE datname = $1";
    outside(&database.admin_url, |client| client.query_one(sql, &[&database.name]).unwrap().get(0))
}

/// Everything runs in one transaction, and each closure runs once per query it makes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_shares_one_transaction() {
    let database = database();
    let store = node(&database);
    let anna = agent(&store, "anna").await;
    let bobs = [agent(&store, "bob").await, agent(&store, "carol").await];
    let held = hold_on(&store, "k").await;
    let (mut tasks, runs) = (vec![], Arc::new(AtomicUsize::new(0)));
    for n in 0..30 {
        let (message, runs) = (message(&anna, &bobs[n % 2]), Arc::clone(&runs));
        let work = move |tx: &mut dyn Tx| {
            runs.fetch_add(1, Ordering::Relaxed);
            relay::send(tx, &message)
        };
        tasks.push(queue_on(&store, "k", work).await);
    }
    drop(held);
    for (n, task) in tasks.into_iter().enumerate() {
        let Ok(Sent::Stored { seq, .. }) = task.await.unwrap() else { panic!("not stored") };
        assert_eq!(seq, n as i64 / 2 + 1, "in the order they came in");
    }
    assert_eq!(runs.load(Ordering::Relaxed), 3 * 30);
    for table in ["events", "deliveries"] {
        let sql = format!("SELECT COUNT(DISTINCT xmin::text), COUNT(*) FROM {table}");
        let (transactions, rows): (i64, i64) = outside(&database.url, |client| {
            let row = client.query_one(&sql, &[]).unwrap();
            (row.get(0), row.get(1))
        });
        assert_eq!((transactions, rows), (1, 30), "{table}");
    }
}

/// Opens a store whose round trips to the server are counted.
async fn behind_proxy(cluster: &Cluster) -> (Store, Proxy, Database) {
    let database = cluster.database();
    let proxy = Proxy::start((Ipv4Addr::LOCALHOST, cluster.port()).into()).await;
    let mut options = PostgresOptions { workers: 5, ..PostgresOptions::new(&database.url, fresh()) };
    options.url =
        options.url.replace(&format!(":{}/", cluster.port()), &format!(":{}/", proxy.addr().port()));
    assert_ne!(options.url, database.url, "it is reached by way of the proxy");
    (Store::postgres(options).unwrap(), proxy, database)
}

/// Round trips dominate the cost of a send: fifty sends take as many as two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_sends_take_a_handful_of_round_trips() {
    let cluster = own_cluster();
    let (store, proxy, _database) = behind_proxy(&cluster).await;
    let (anna, bob) = (agent(&store, "anna").await, agent(&store, "bob").await);
    // The first batch prepares the statements.
    for (size, most) in [(2, u64::MAX), (50, 6)] {
        let held = hold_on(&store, "bob").await;
        let mut tasks = vec![];
        for _ in 0..size {
            let message = message(&anna, &bob);
            tasks.push(queue_on(&store, "bob", move |tx: &mut dyn Tx| relay::send(tx, &message)).await);
        }
        let before = proxy.round_trips();
        drop(held);
        for task in tasks {
            assert!(matches!(task.await.unwrap(), Ok(Sent::Stored { .. })));
        }
        let took = proxy.round_trips() - before;
        assert!((3..=most).contains(&took), "{size} sends took {took} round trips");
    }
}

/// Simultaneous reads are combined, and each gets its own rows in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forty_readers_share_their_round_trips() {
    let cluster = own_cluster();
    let (store, proxy, _database) = behind_proxy(&cluster).await;
    let anna = agent(&store, "anna").await;
    let mut inboxes = vec![];
    for n in 0..40 {
        let bob = agent(&store, &format!("bob-{n}")).await;
        for _ in 0..n % 6 {
            let message = message(&anna, &bob);
            store.write(move |tx| relay::send(tx, &message)).await.unwrap();
        }
        inboxes.push((bob.id, n % 6));
    }
    // The first run prepares the statements.
    for (limit, most) in [(3, u64::MAX), (4, 30)] {
        let before = proxy.round_trips();
        let reads = inboxes.iter().map(|(bob, _)| {
            let bob = *bob;
            store.read_together::<_, StoreError, _>(move |tx| deliveries::page(tx, bob, 0, limit, usize::MAX))
        });
        for (found, (bob, sent)) in join_all(reads).await.into_iter().zip(&inboxes) {
            let places: Vec<_> = found.unwrap().iter().map(|entry| entry.seq).collect();
            assert_eq!(places, (1..=limit.min(*sent)).collect::<Vec<_>>(), "{bob:?}");
        }
        let took = proxy.round_trips() - before;
        assert!(took <= most, "forty reads took {took} round trips");
    }
}

/// One conflict with another writer: only the affected work runs again, and everything is done once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conflict_in_a_batch_runs_again() {
    let fixture = Fixture::postgres().narrow(100);
    let (store, stream) = (&fixture.store, fresh_stream());
    let held = hold(store).await;
    let (meddled, mut tasks) = (Arc::new(AtomicUsize::new(0)), vec![]);
    let faster = fixture.url();
    for n in 0..5_i64 {
        let (meddled, faster) = (Arc::clone(&meddled), faster.clone());
        let work = move |tx: &mut dyn Tx| {
            if n == 2 {
                let found = settings::get(tx, "taken")?;
                if meddled.fetch_add(1, Ordering::SeqCst) == 0 {
                    let sql = "INSERT INTO settings (name, value) VALUES ('taken', 'by another')";
                    outside(&faster, |client| client.batch_execute(sql).unwrap());
                }
                match found {
                    None => tx.append(INSERT, &["taken".into(), "by us".into()])?,
                    Some(value) => assert_eq!(value, "by another"),
                }
            }
            tx.append(INSERT, &[format!("n-{n}").as_str().into(), "1".into()])?;
            tx.next_seq(stream)
        };
        tasks.push(queue(store, work).await);
    }
    drop(held);
    for (n, task) in tasks.into_iter().enumerate() {
        assert_eq!(task.await.unwrap().unwrap(), n as i64 + 1);
    }
    assert_eq!(meddled.load(Ordering::SeqCst), 2);
    assert_eq!(count(store, "SELECT COUNT(*) AS count FROM settings").await, 6);
}

/// Numbers are gap-free, in commit order, from both nodes; and there is no deadlock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_number_the_same_streams() {
    let database = database();
    let stores = vec![node(&database), node(&database)];
    crowd(&stores, 8, 40, 25).await;
    assert_eq!(deadlocks(&database, stores), 0);
}

/// Each closure takes its streams in order, although the shared batch does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crossing_streams_get_nobody_stuck() {
    const EACH: usize = 60;
    let database = database();
    let stores = [node(&database), node(&database)];
    let mut streams: Vec<_> = (0..5).map(|_| fresh_stream()).collect();
    streams.sort_unstable();
    let mut tasks = JoinSet::new();
    for n in 0..2 * EACH {
        let store = stores[n % 2].clone();
        let (low, high) = (n / 2 % 4, 1 + n / 2 % 4);
        let (first, second) = (streams[low], streams[high]);
        tasks.spawn(async move {
            let number =
                move |tx: &mut dyn Tx| Ok::<_, StoreError>([tx.next_seq(first)?, tx.next_seq(second)?]);
            let [one, other] = soon(store.write(number)).await.unwrap();
            [(first, one), (second, other)]
        });
    }
    let taken: Vec<(StreamKey, i64)> = soon(tasks.join_all()).await.into_iter().flatten().collect();
    for stream in streams {
        let mut places: Vec<i64> =
            taken.iter().filter(|(id, _)| *id == stream).map(|(_, seq)| *seq).collect();
        places.sort_unstable();
        assert!(places.iter().copied().eq(1..=places.len() as i64), "{places:?}");
        assert_eq!(write(&stores[0], move |tx| tx.head(stream)).await, places.len() as i64);
    }
}
