//! Cases that only a file has: being locked, full, or opened twice.

use crate::support::{
    Fixture, Place, agent, count, deliver, entries, fresh_stream, hold, message, queue, read, send, soon,
    write,
};
use chorus_store::{
    Durability, Kind, SqliteOptions, Store, StoreError, StreamKey, Tx, TxExt, relay, settings,
};
use rusqlite::Connection;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn path(options: &SqliteOptions) -> &Path {
    options.path.as_deref().unwrap()
}

async fn set(store: &Store, name: &'static str) -> Result<(), StoreError> {
    soon(store.write(move |tx: &mut dyn Tx| settings::set(tx, name, "1"))).await
}

async fn get(store: &Store, name: &'static str) -> Option<String> {
    read(store, move |tx| settings::get(tx, name)).await
}

#[tokio::test]
async fn a_file_is_opened_once_at_a_time() {
    let place = Place::sqlite();
    let first = place.open().unwrap();
    for _ in 0..2 {
        let Some(StoreError::Open { what, source }) = place.open().err() else { panic!("not refused") };
        assert!(what.ends_with("chorus.db"), "{what}");
        assert!(source.to_string().contains("another chorus process"), "{source}");
    }
    set(&first, "undisturbed").await.unwrap();
    drop(first);
    assert!(get(&place.open().unwrap(), "undisturbed").await.is_some());
}

/// Files of any names in one directory do not interfere with each other.
#[tokio::test]
async fn any_name_will_do_for_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let open = |name: &str| Store::sqlite(SqliteOptions::file(dir.path().join(name))).unwrap();
    let names = ["hub.db", "hub.sqlite", "hub", "hub.lock", "hub.db.lock", ".hub", "hüb ☕.db"];
    for _ in 0..2 {
        let stores = names.map(open);
        for store in &stores {
            write(store, |tx| tx.next_seq(StreamKey::LOG)).await;
        }
    }
    for name in names {
        assert_eq!(read(&open(name), |tx| tx.head(StreamKey::LOG)).await, 2, "{name}");
    }
}

#[tokio::test]
async fn a_place_that_cannot_be_opened_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing").join("chorus.db");
    let Some(StoreError::Open { what, .. }) = Store::sqlite(SqliteOptions::file(missing)).err() else {
        panic!("opened")
    };
    assert!(what.contains("missing"), "{what}");
    let garbage = dir.path().join("garbage.db");
    std::fs::write(&garbage, "not a database, by any means, whatever the size".repeat(99)).unwrap();
    assert!(Store::sqlite(SqliteOptions::file(&garbage)).is_err());
    assert!(std::fs::read(&garbage).unwrap().starts_with(b"not a database"), "and it is left as it was");
}

async fn pragma(store: &Store, sql: &'static str) -> (String, String) {
    let value = move |tx: &mut dyn Tx| -> Result<String, StoreError> {
        let mut row = tx.first(sql, &[])?.unwrap();
        row.text("value")
    };
    (write(store, value).await, read(store, value).await)
}

/// The log is always flushed before it is checkpointed; the store's own tests cover the acknowledgements.
#[tokio::test]
async fn the_log_is_flushed_before_it_is_carried_over() {
    let place = Place::sqlite();
    for durability in [Durability::Full, Durability::Relaxed] {
        let store = Store::sqlite(SqliteOptions { durability, ..place.file() }).unwrap();
        let wal = ("wal".to_owned(), "wal".to_owned());
        assert_eq!(pragma(&store, "SELECT journal_mode AS value FROM pragma_journal_mode").await, wal);
        let written =
            pragma(&store, "SELECT CAST(synchronous AS TEXT) AS value FROM pragma_synchronous").await.0;
        assert_eq!(written, "1", "{durability:?}");
    }
    assert_eq!(place.file().durability, Durability::Full, "unless told otherwise");
}

#[tokio::test]
async fn a_locked_file_is_reported_and_recovers() {
    let place = Place::sqlite();
    let options = SqliteOptions { busy_timeout: Duration::from_millis(20), ..place.file() };
    let store = Store::sqlite(options.clone()).unwrap();
    set(&store, "before").await.unwrap();
    let other = Connection::open(path(&options)).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    for _ in 0..3 {
        assert!(matches!(set(&store, "meanwhile").await, Err(StoreError::Locked(_))));
        assert!(get(&store, "before").await.is_some(), "reading goes on");
    }
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(get(&store, "meanwhile").await, None, "what was refused is not done later");
    set(&store, "after").await.unwrap();
    drop(store);
    let store = place.open().unwrap();
    assert!(get(&store, "before").await.is_some() && get(&store, "after").await.is_some());
}

/// A lock is reported when opening, too.
#[tokio::test]
async fn a_file_locked_at_the_start_is_reported() {
    let place = Place::sqlite();
    drop(place.open().unwrap());
    let options = SqliteOptions { busy_timeout: Duration::from_millis(20), ..place.file() };
    let other = Connection::open(path(&options)).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    assert!(matches!(Store::sqlite(options).err(), Some(StoreError::Locked(_))));
    drop(other);
    place.open().unwrap();
}

/// SQLite's own limit gives the same error as a full disk. The whole batch fails, and heads are unchanged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_database_is_reported_and_recovers() {
    let fixture = Fixture::sqlite();
    let store = &fixture.store;
    let (anna, bob) = (agent(store, "anna").await, agent(store, "bob").await);
    let limit = |sql| write(store, move |tx| tx.query(sql, &[]).map(drop));
    limit("PRAGMA max_page_count = 60").await;
    let large = || relay::Send { envelope: "x".repeat(20_000), ..message(&anna, &bob) };
    let mut acknowledged = 0;
    loop {
        match send(store, large()).await {
            Ok(_) => acknowledged += 1,
            Err(relay::SendError::Store(StoreError::Full(_))) => break,
            Err(other) => panic!("{other}"),
        }
        assert!(acknowledged < 60, "it never gets full");
    }
    // A small write would fit alone; together with a large one it fails, and its caller is told.
    let held = hold(store).await;
    let small = queue(store, |tx| settings::set(tx, "small", "1")).await;
    let big = queue(store, |tx| settings::set(tx, "big", &"x".repeat(400_000))).await;
    drop(held);
    for task in [small, big] {
        assert!(matches!(task.await.unwrap(), Err(StoreError::Full(_))));
    }
    assert_eq!(get(store, "small").await, None);
    set(store, "small").await.unwrap();
    limit("PRAGMA max_page_count = 100000").await;
    assert_eq!(deliver(store, large()).await.0, acknowledged + 1);
    let fixture = fixture.reopen();
    let seqs: Vec<i64> = entries(&fixture.store, bob.id).await.iter().map(|entry| entry.seq).collect();
    assert_eq!(seqs, (1..=acknowledged + 1).collect::<Vec<_>>());
}

/// A disk that fails at the commit. This test runs itself again in a process whose files may not grow, and
/// lifts the limit from within.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_disk_is_reported_and_recovers() {
    const FILE: &str = "CHORUS_STORE_FAILING_DISK";
    if let Some(file) = std::env::var_os(FILE) {
        return on_a_failing_disk(SqliteOptions::file(file)).await;
    }
    let place = Place::sqlite();
    drop(place.open().unwrap());
    // The signal is ignored, so a write beyond the limit is an error.
    let limited = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -S -f 2000; exec \"$@\"", "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "sqlite_only::a_failing_disk_is_reported_and_recovers", "--nocapture"])
        .env(FILE, path(&place.file()))
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&limited.stdout);
    assert!(limited.status.success(), "{output}{}", String::from_utf8_lossy(&limited.stderr));
    let acknowledged: i64 =
        output.split("acknowledged ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let store = place.open().unwrap();
    assert_eq!(count(&store, "SELECT COUNT(*) AS count FROM settings").await, acknowledged);
}

async fn on_a_failing_disk(options: SqliteOptions) {
    let store = Store::sqlite(options).unwrap();
    let value = "x".repeat(50_000);
    let add = async |n: i64| {
        let value = value.clone();
        soon(store.write(move |tx: &mut dyn Tx| settings::set(tx, &n.to_string(), &value))).await
    };
    let mut acknowledged = 0;
    let error = loop {
        match add(acknowledged).await {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < 1_000, "it never fails");
    };
    assert!(acknowledged > 0, "it fails from the start: {error}");
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(matches!(add(acknowledged).await, Err(StoreError::Unavailable(_))));
    assert_eq!(
        count(&store, "SELECT COUNT(*) AS count FROM settings").await,
        acknowledged,
        "reading goes on"
    );
    let me = std::process::id().to_string();
    let lifted = Command::new("prlimit").args(["--pid", &me, "--fsize=unlimited:"]).status().unwrap();
    assert!(lifted.success());
    for _ in 0..50 {
        add(acknowledged).await.unwrap();
        acknowledged += 1;
    }
    println!("acknowledged {acknowledged} ");
}

/// Writes that gather while the writer is busy share a commit: their stream is announced once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_writes_are_one_commit() {
    let fixture = Fixture::sqlite();
    let (store, stream) = (&fixture.store, fresh_stream());
    let heard = Arc::new(Mutex::new(vec![]));
    store.on_commit(Box::new({
        let heard = Arc::clone(&heard);
        move |stream, head| heard.lock().unwrap().push((stream, head))
    }));
    let held = hold(store).await;
    let mut tasks = vec![];
    for _ in 0..100 {
        tasks.push(queue(store, move |tx| tx.next_seq(stream)).await);
    }
    drop(held);
    for (n, task) in (1..).zip(tasks) {
        assert_eq!(task.await.unwrap().unwrap(), n, "in the order they came");
    }
    assert_eq!(*heard.lock().unwrap(), [(stream, 100)]);
}

#[tokio::test]
async fn a_store_in_memory_works_like_any_other() {
    let store = Store::in_memory().unwrap();
    assert_eq!(store.kind(), Kind::Sqlite);
    let (anna, bob) = (agent(&store, "anna").await, agent(&store, "bob").await);
    assert_eq!(deliver(&store, message(&anna, &bob)).await.0, 1);
    assert_eq!(entries(&store, bob.id).await.len(), 1);
    assert_eq!(entries(&Store::in_memory().unwrap(), bob.id).await, [], "and shares nothing");
}
