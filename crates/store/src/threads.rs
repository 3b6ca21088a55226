//! The store's own threads: work that blocks never runs inside the async runtime.

use crate::StoreError;
use std::thread::JoinHandle;

pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StoreError> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(|error| StoreError::Unavailable(error.into()))
}

/// Waits until they have ended, save the one that waits: work may own the last handle of its store.
pub(crate) fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    let own = std::thread::current().id();
    for thread in threads.into_iter().filter(|thread| thread.thread().id() != own) {
        if thread.join().is_err() {
            tracing::error!("a thread of the store panicked");
        }
    }
}
