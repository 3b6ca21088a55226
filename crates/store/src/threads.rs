//! The store's own threads: work that blocks never runs inside the async runtime.

use crate::StoreError;
use std::thread::JoinHandle;

pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StoreError> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(|error| StoreError::Unavailable(error.into()))
}

/// Waits until they have ended, unless one of them waits here: work may own the last handle of its store, and others may wait
/// for whoever does it. Then they end on their own.
pub(crate) fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    let (own, threads) = (std::thread::current().id(), Vec::from_iter(threads));
    if threads.iter().any(|thread| thread.thread().id() == own) {
        return;
    }
    for thread in threads {
        if thread.join().is_err() {
            tracing::error!("a thread of the store panicked");
        }
    }
}
