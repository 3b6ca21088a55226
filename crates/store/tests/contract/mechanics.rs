//! Guarantees of a store to its writers and readers, for any work.

use crate::support::{
    Fixture, PATIENCE, abandon, count, fresh_stream, hold, on_both, queue, read, soon, until, write,
};
use chorus_store::{Store, StoreError, StreamKey, Tx, TxExt, settings};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

on_both![
    a_swallowed_error_commits_nothing,
    actions_follow_a_commit_once,
    the_waker_hears_of_every_moved_stream,
    work_is_done_though_nobody_waits,
    reads_see_what_was_committed,
    a_read_cannot_write;
    with_threads: failures_stay_alone,
    a_panicking_action_harms_nobody,
    a_read_sees_one_snapshot,
    a_full_queue_says_so_at_once,
    everything_queued_is_finished_on_drop,
    the_last_handle_may_go_on_a_thread_of_the_store,
];

async fn get(store: &Store, name: &'static str) -> Option<String> {
    read(store, move |tx| settings::get(tx, name)).await
}

fn set(name: &'static str, value: &'static str) -> impl Fn(&mut dyn Tx) -> Result<(), StoreError> + Send {
    move |tx| settings::set(tx, name, value)
}

/// Errors and panics in one batch with valid work (on SQLite: in one transaction).
async fn failures_stay_alone(fixture: Fixture) {
    let fixture = fixture.narrow(100);
    let store = &fixture.store;
    let held = hold(store).await;
    let first = queue(store, set("first", "1")).await;
    let error = queue(store, |tx| {
        settings::set(tx, "error", "1")?;
        Err::<(), _>(StoreError::Overloaded)
    });
    let error = error.await;
    let second = queue(store, set("second", "1")).await;
    let statement = queue(store, |tx| {
        settings::set(tx, "statement", "1")?;
        tx.execute("INSERT INTO settings (name, value) VALUES ('statement', NULL)", &[])
    });
    let statement = statement.await;
    let panic = queue(store, |tx| {
        settings::set(tx, "panic", "1")?;
        assert!(tx.head(StreamKey::LOG)? > 0, "on purpose");
        Ok(())
    });
    let panic = panic.await;
    let third = queue(store, set("third", "1")).await;
    drop(held);
    for sound in [first, second, third] {
        sound.await.unwrap().unwrap();
    }
    assert!(matches!(error.await.unwrap(), Err(StoreError::Overloaded)), "the error is the work's own");
    assert!(matches!(statement.await.unwrap(), Err(StoreError::Unexpected(_))));
    assert!(matches!(panic.await.unwrap(), Err(StoreError::Panicked)));
    for name in ["first", "second", "third"] {
        assert!(get(store, name).await.is_some(), "{name}");
    }
    for name in ["error", "statement", "panic"] {
        assert_eq!(get(store, name).await, None, "{name}");
    }
    // A failing reader is as harmless.
    let read = store.read(|_: &mut dyn Tx| -> Result<(), StoreError> { panic!("on purpose") });
    assert!(matches!(soon(read).await, Err(StoreError::Panicked)));
    assert_eq!(get(store, "first").await.as_deref(), Some("1"));
}

/// A failed statement fails the work, even if the work ignores the error.
async fn a_swallowed_error_commits_nothing(fixture: Fixture) {
    let store = &fixture.store;
    let wrong = "INSERT INTO settings (name, value) VALUES ('wrong', NULL)";
    let swallowed = store.write(move |tx: &mut dyn Tx| {
        settings::set(tx, "before", "1")?;
        assert!(tx.execute(wrong, &[]).is_err());
        Ok::<_, StoreError>(())
    });
    assert!(matches!(soon(swallowed).await, Err(StoreError::Unexpected(_))));
    assert_eq!(get(store, "before").await, None);
    write(store, set("after", "1")).await;
    assert_eq!(get(store, "after").await.as_deref(), Some("1"));
}

async fn actions_follow_a_commit_once(fixture: Fixture) {
    let store = &fixture.store;
    let (sender, receiver) = mpsc::channel();
    let work = |word: &'static str, end: fn() -> Result<(), StoreError>| {
        let sender = sender.clone();
        move |tx: &mut dyn Tx| {
            settings::set(tx, word, "1")?;
            let sender = sender.clone();
            tx.after_commit(Box::new(move || sender.send(word).unwrap()));
            end()
        }
    };
    soon(store.write(work("error", || Err(StoreError::Closed)))).await.unwrap_err();
    soon(store.write(work("panic", || panic!("on purpose")))).await.unwrap_err();
    write(store, work("committed", || Ok(()))).await;
    abandon(store.write(work("abandoned", || Ok(())))).await;
    // Closing ends all work, abandoned or not.
    drop((fixture, sender));
    let mut ran: Vec<&str> = receiver.iter().collect();
    ran.sort_unstable();
    assert_eq!(ran, ["abandoned", "committed"]);
}

async fn a_panicking_action_harms_nobody(fixture: Fixture) {
    let fixture = fixture.narrow(100);
    let store = &fixture.store;
    store.on_commit(Box::new(|_, _| panic!("on purpose")));
    let ran = Arc::new(AtomicUsize::new(0));
    for round in 1..=3 {
        let counter = Arc::clone(&ran);
        write(store, move |tx| {
            tx.next_seq(StreamKey::LOG)?;
            tx.after_commit(Box::new(|| panic!("on purpose")));
            let counter = Arc::clone(&counter);
            tx.after_commit(Box::new(move || {
                counter.fetch_add(1, Ordering::Relaxed);
            }));
            Ok(())
        })
        .await;
        assert_eq!(ran.load(Ordering::Relaxed), round, "the next action is run all the same");
    }
    assert_eq!(read(store, |tx| tx.head(StreamKey::LOG)).await, 3);
}

async fn the_waker_hears_of_every_moved_stream(fixture: Fixture) {
    let store = &fixture.store;
    let heard: Arc<Mutex<BTreeMap<StreamKey, Vec<i64>>>> = Arc::default();
    let hear = Arc::clone(&heard);
    store.on_commit(Box::new(move |stream, head| {
        hear.lock().unwrap().entry(stream).or_default().push(head);
    }));
    store.on_commit(Box::new(|_, _| panic!("only the first waker is asked")));
    let (one, other, failed) = (fresh_stream(), fresh_stream(), fresh_stream());
    write(store, move |tx| {
        // One closure takes the streams in the order of ids, as the store requires.
        for stream in [one.min(other), one.max(other)] {
            tx.next_seq(stream)?;
        }
        tx.next_seq(one)
    })
    .await;
    let rolled_back = store.write(move |tx: &mut dyn Tx| {
        tx.next_seq(failed)?;
        Err::<(), _>(StoreError::Closed)
    });
    soon(rolled_back).await.unwrap_err();
    write(store, move |tx| tx.next_seq(other)).await;
    write(store, set("no stream", "1")).await;
    assert_eq!(*heard.lock().unwrap(), BTreeMap::from([(one, vec![2]), (other, vec![1, 2])]));
}

async fn work_is_done_though_nobody_waits(fixture: Fixture) {
    let store = &fixture.store;
    for n in 0..20 {
        abandon(store.write(move |tx: &mut dyn Tx| settings::set(tx, &format!("{n}"), "1"))).await;
    }
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while count(store, "SELECT COUNT(*) AS count FROM settings").await < 20 {
        assert!(tokio::time::Instant::now() < deadline, "abandoned work is not done");
    }
}

async fn reads_see_what_was_committed(fixture: Fixture) {
    let store = &fixture.store;
    for n in 0..50 {
        let value = n.to_string();
        let new = value.clone();
        write(store, move |tx| settings::set(tx, "n", &new)).await;
        assert_eq!(get(store, "n").await, Some(value));
    }
}

async fn a_read_sees_one_snapshot(fixture: Fixture) {
    let store = &fixture.store;
    write(store, set("n", "before")).await;
    let (entered, mut entering) = tokio::sync::mpsc::unbounded_channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let reader = tokio::spawn({
        let store = store.clone();
        async move {
            read(&store, move |tx| {
                let first = settings::get(tx, "n")?;
                entered.send(()).unwrap();
                released.lock().unwrap().recv().ok();
                let second = settings::get(tx, "n")?;
                let rows = tx.query("SELECT name FROM settings", &[])?.len();
                Ok((first, second, rows))
            })
            .await
        }
    });
    soon(entering.recv()).await.unwrap();
    write(store, |tx| {
        settings::set(tx, "n", "after")?;
        settings::set(tx, "more", "after")
    })
    .await;
    drop(release);
    let before = Some("before".to_owned());
    assert_eq!(soon(reader).await.unwrap(), (before.clone(), before, 1));
    assert_eq!(get(store, "n").await.as_deref(), Some("after"));
}

async fn a_read_cannot_write(fixture: Fixture) {
    let store = &fixture.store;
    soon(store.read(set("n", "1"))).await.unwrap_err();
    assert_eq!(get(store, "n").await, None);
}

async fn a_full_queue_says_so_at_once(fixture: Fixture) {
    let fixture = fixture.narrow(2);
    let store = &fixture.store;
    let held = hold(store).await;
    let waiting = [queue(store, set("one", "1")).await, queue(store, set("two", "1")).await];
    assert_eq!(store.queued(), 2);
    for _ in 0..3 {
        // No timeout is needed: the only thread that could answer is blocked.
        assert!(matches!(store.write(set("three", "1")).await, Err(StoreError::Overloaded)));
    }
    assert_eq!(get(store, "three").await, None, "readers have a queue of their own");
    drop(held);
    for task in waiting {
        task.await.unwrap().unwrap();
    }
    assert_eq!(get(store, "two").await.as_deref(), Some("1"));
    write(store, set("three", "1")).await;
}

async fn everything_queued_is_finished_on_drop(fixture: Fixture) {
    let fixture = fixture.narrow(100);
    let held = hold(&fixture.store).await;
    for n in 0..30 {
        abandon(fixture.store.write(move |tx: &mut dyn Tx| settings::set(tx, &format!("{n}"), "1"))).await;
    }
    assert_eq!(fixture.store.queued(), 30);
    let closing = tokio::task::spawn_blocking(|| fixture.close());
    drop(held);
    let fixture = Fixture::at(soon(closing).await.unwrap());
    assert_eq!(count(&fixture.store, "SELECT COUNT(*) AS count FROM settings").await, 30);
}

/// Work may own the last handle of the store; work queued behind it is still done.
async fn the_last_handle_may_go_on_a_thread_of_the_store(fixture: Fixture) {
    let fixture = fixture.narrow(100);
    let (entered, mut entering) = tokio::sync::mpsc::unbounded_channel();
    let (release, released) = mpsc::channel::<()>();
    let (handle, released) = (fixture.store.clone(), Mutex::new(released));
    abandon(fixture.store.write(move |tx: &mut dyn Tx| {
        entered.send(handle.queued()).ok();
        released.lock().unwrap().recv().ok();
        settings::set(tx, "owner", "1")
    }))
    .await;
    soon(entering.recv()).await.unwrap();
    let (done, mut doing) = tokio::sync::mpsc::unbounded_channel();
    abandon(fixture.store.write(move |tx: &mut dyn Tx| {
        let done = done.clone();
        tx.after_commit(Box::new(move || done.send(()).unwrap()));
        settings::set(tx, "behind", "1")
    }))
    .await;
    let place = fixture.close();
    drop(release);
    soon(doing.recv()).await.expect("what was queued is done");
    // The threads end by themselves; until then a file is still in use.
    let opened = Mutex::new(None);
    until(|| {
        *opened.lock().unwrap() = place.open().ok();
        opened.lock().unwrap().is_some()
    })
    .await;
    let store = opened.into_inner().unwrap().unwrap();
    for name in ["owner", "behind"] {
        assert!(get(&store, name).await.is_some(), "{name}");
    }
}
