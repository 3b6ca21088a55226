//! Guarantees of an in-place store: it runs at once, reruns on demand, and continues after a process died.

use crate::support::fresh_stream;
use chorus_store::{Store, StoreError, StreamKey, Tx, settings, streams};
use std::future::Future;
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// Returns the result of a future that does not wait.
fn at_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

fn write<T: Send + 'static>(
    store: &Store,
    work: impl Fn(&mut dyn Tx) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    at_once(store.write(work))
}

fn get(store: &Store, name: &'static str) -> Option<String> {
    at_once(store.read::<_, StoreError, _>(move |tx: &mut dyn Tx| settings::get(tx, name))).unwrap()
}

#[test]
fn everything_is_done_before_anybody_waits() {
    let store = Store::in_place(None).unwrap();
    let here = std::thread::current().id();
    write(&store, move |tx| {
        assert_eq!(std::thread::current().id(), here);
        settings::set(tx, "a", "1")
    })
    .unwrap();
    assert_eq!(get(&store, "a").as_deref(), Some("1"));
    let found = at_once(store.authenticate::<_, StoreError, _>(|tx: &mut dyn Tx| settings::get(tx, "a")));
    assert_eq!(found.unwrap().as_deref(), Some("1"));
    assert_eq!(store.queued(), 0);
}

/// Every third write runs twice and takes effect once: its rows, its numbers, and its commit actions.
#[test]
fn what_is_run_again_is_done_once() {
    let store = Store::in_place(NonZeroU32::new(3)).unwrap();
    let (stream, runs, actions) = (fresh_stream(), Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let heard: Arc<Mutex<Vec<(StreamKey, i64)>>> = Arc::default();
    let hear = Arc::clone(&heard);
    store.on_commit(Box::new(move |stream, head| hear.lock().unwrap().push((stream, head))));
    for n in 1..=6 {
        let (runs, actions) = (Arc::clone(&runs), Arc::clone(&actions));
        let seq = write(&store, move |tx| {
            runs.fetch_add(1, Ordering::Relaxed);
            let actions = Arc::clone(&actions);
            tx.after_commit(Box::new(move || {
                actions.fetch_add(1, Ordering::Relaxed);
            }));
            // This would be refused if the first run were still there.
            tx.execute(
                "INSERT INTO settings (name, value) VALUES ($1, 'x')",
                &[n.to_string().as_str().into()],
            )?;
            tx.next_seq(stream)
        });
        assert_eq!(seq.unwrap(), n);
    }
    assert_eq!((runs.load(Ordering::Relaxed), actions.load(Ordering::Relaxed)), (8, 6));
    assert_eq!(*heard.lock().unwrap(), (1..=6).map(|n| (stream, n)).collect::<Vec<_>>());
}

/// After a simulated crash, committed data remains, former listeners are gone, and a new waker is used.
#[test]
fn another_process_goes_on() {
    let store = Store::in_place(None).unwrap();
    store.on_commit(Box::new(|_, head| assert_eq!(head, 1, "the dead hear nothing")));
    let stream = fresh_stream();
    write(&store, move |tx| tx.next_seq(stream)).unwrap();
    write(&store, |tx| {
        settings::set(tx, "lost", "1")?;
        Err::<(), _>(StoreError::Overloaded)
    })
    .unwrap_err();
    let next = store.reopen().unwrap();
    assert!(matches!(write(&store, |tx| settings::set(tx, "late", "1")), Err(StoreError::Closed)));
    assert!(matches!(store.reopen(), Err(StoreError::Closed)));
    let heard = Arc::new(AtomicU32::new(0));
    let hear = Arc::clone(&heard);
    next.on_commit(Box::new(move |_, head| hear.store(head as u32, Ordering::Relaxed)));
    assert_eq!(write(&next, move |tx| tx.next_seq(stream)).unwrap(), 2);
    assert_eq!(heard.load(Ordering::Relaxed), 2);
    let heads = move |tx: &mut dyn Tx| streams::heads(tx, &[stream]);
    assert_eq!(at_once(next.read::<_, StoreError, _>(heads)).unwrap(), [(stream, 2)]);
    assert_eq!((get(&next, "lost"), get(&next, "late")), (None, None));
}
